-- These statements are for SQLite and PostgreSQL. Text compares by its bytes in both: SQLite has the collation
-- "binary", and Migrate creates it in PostgreSQL. `record` is JSON text. It is not jsonb, which would change it and
-- refuses \u0000.

-- +goose Up
CREATE TABLE product_updates (
	id      TEXT COLLATE "binary" PRIMARY KEY,
	trashed BOOLEAN NOT NULL,
	record  TEXT NOT NULL
);

-- An activity is an instant in UTC, to the nanosecond and always of the same length, or '' for none. `stored` is the
-- activity in the record, `activity` the later of it and the newest visible reply.
CREATE TABLE articles (
	id       TEXT COLLATE "binary" PRIMARY KEY,
	trashed  BOOLEAN NOT NULL,
	stored   TEXT COLLATE "binary" NOT NULL,
	activity TEXT COLLATE "binary" NOT NULL,
	record   TEXT NOT NULL
);

CREATE INDEX articles_listed ON articles (activity, id) WHERE NOT trashed;

-- A reply may be stored before its article.
CREATE TABLE replies (
	article_id TEXT COLLATE "binary" NOT NULL,
	id         TEXT COLLATE "binary" NOT NULL,
	visible    BOOLEAN NOT NULL,
	replied    TEXT COLLATE "binary" NOT NULL,
	record     TEXT NOT NULL,
	PRIMARY KEY (article_id, id)
);

CREATE INDEX replies_newest ON replies (article_id, replied) WHERE visible;

CREATE TABLE moderators (
	id TEXT COLLATE "binary" PRIMARY KEY
);

-- The numbers of listed articles in each chunk and section of the list. With them, a page is found without counting all
-- articles before it: first the section in which it begins, then the chunk, then the article. A chunk or section ends,
-- at its newer end, with the key (activity, id), and begins after the end of the next older one. The newest end is
-- later than every activity. A chunk ends where a section ends.
CREATE TABLE article_chunks (
	activity TEXT COLLATE "binary" NOT NULL,
	id       TEXT COLLATE "binary" NOT NULL,
	articles BIGINT NOT NULL,
	PRIMARY KEY (activity, id)
);

CREATE TABLE article_sections (
	activity TEXT COLLATE "binary" NOT NULL,
	id       TEXT COLLATE "binary" NOT NULL,
	articles BIGINT NOT NULL,
	PRIMARY KEY (activity, id)
);

INSERT INTO article_chunks (activity, id, articles) VALUES ('~', '', 0);
INSERT INTO article_sections (activity, id, articles) VALUES ('~', '', 0);
