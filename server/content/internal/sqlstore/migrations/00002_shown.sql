-- The statements for everybody find records by these indexes, which omit hidden records. So looking for a hidden record
-- takes as long as looking for one that does not exist. The primary keys contain hidden records: their rows would be
-- read before they are omitted. A partial index on the id would contain the same records, but the database could choose
-- the primary key.

-- +goose Up
CREATE UNIQUE INDEX product_updates_shown ON product_updates ((CASE WHEN NOT trashed THEN id END));
CREATE UNIQUE INDEX articles_shown ON articles ((CASE WHEN NOT trashed THEN id END));
CREATE UNIQUE INDEX replies_shown ON replies ((CASE WHEN visible THEN article_id END), id);
