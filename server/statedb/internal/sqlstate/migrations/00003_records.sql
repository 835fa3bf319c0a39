-- What nodes tell each other for people: what each does, requests that failed, connections of users, acts of operators.

-- +goose Up
CREATE TABLE state_records (
	-- A keyed hash.
	name    BYTEA NOT NULL PRIMARY KEY,
	-- 1 a node, 2 a failure, 3 a connection, 4 an act, 5 a session, 6 one of many equal failures.
	kind    SMALLINT NOT NULL,
	-- When it was written.
	written BIGINT NOT NULL,
	-- When it expires. NULL: never.
	expires BIGINT,
	-- A number by which records of a kind are counted.
	mark    SMALLINT NOT NULL,
	-- Keyed hashes, by which records are listed, or NULL.
	tag0    BYTEA,
	tag1    BYTEA,
	tag2    BYTEA,
	tag3    BYTEA,
	-- Sealed.
	value   BYTEA NOT NULL
);

CREATE INDEX state_records_kind ON state_records (kind, written, name);
CREATE INDEX state_records_tag0 ON state_records (tag0, written, name) WHERE tag0 IS NOT NULL;
CREATE INDEX state_records_tag1 ON state_records (tag1, written, name) WHERE tag1 IS NOT NULL;
CREATE INDEX state_records_tag2 ON state_records (tag2, written, name) WHERE tag2 IS NOT NULL;
CREATE INDEX state_records_tag3 ON state_records (tag3, written, name) WHERE tag3 IS NOT NULL;
-- The records to be swept.
CREATE INDEX state_records_expires ON state_records (expires) WHERE expires IS NOT NULL;
