-- Everybody's statements find records by these indexes, which do not have what is hidden: it is found no more than what does
-- not exist, and takes as long. The primary keys have it, so that its row would be read before it is left out. A partial
-- index on the id itself would do as well, but leaves the database the choice between it and the primary key.

-- +goose Up
CREATE UNIQUE INDEX product_updates_shown ON product_updates ((CASE WHEN NOT trashed THEN id END));
CREATE UNIQUE INDEX articles_shown ON articles ((CASE WHEN NOT trashed THEN id END));
CREATE UNIQUE INDEX replies_shown ON replies ((CASE WHEN visible THEN article_id END), id);
