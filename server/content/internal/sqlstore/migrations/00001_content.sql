-- What is written here is for SQLite and for PostgreSQL. Names compare by their bytes in both: SQLite has the collation
-- "binary", in PostgreSQL it is made before. `record` is JSON text, not jsonb, which would change it and refuses \u0000.

-- +goose Up
CREATE TABLE product_updates (
	id      TEXT COLLATE "binary" PRIMARY KEY,
	trashed BOOLEAN NOT NULL,
	record  TEXT NOT NULL
);

-- An activity is an instant in UTC, to the nanosecond and always of the same length, or '' for none. `stored` is that of the
-- record, `activity` the later of it and the newest visible reply.
CREATE TABLE articles (
	id       TEXT COLLATE "binary" PRIMARY KEY,
	trashed  BOOLEAN NOT NULL,
	stored   TEXT COLLATE "binary" NOT NULL,
	activity TEXT COLLATE "binary" NOT NULL,
	record   TEXT NOT NULL
);

CREATE INDEX articles_listed ON articles (activity, id) WHERE NOT trashed;

-- The replies of an article may be here before the article is.
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

-- How many articles are listed in each stretch of the list, so that a page is found without counting all that is before it:
-- the section that it begins in, the chunk in that, the article in that. Both end, at their late end, with a key (activity,
-- id), and begin after the end of the next older one. The latest end is later than every activity. Where a section ends, a
-- chunk does.
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
