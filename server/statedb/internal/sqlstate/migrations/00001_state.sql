-- These statements are for SQLite and PostgreSQL. Times are microseconds since 1970, by the clock of the database.

-- +goose Up
CREATE TABLE state_rows (
	-- A keyed hash. Nothing says what a row is for.
	id         BYTEA NOT NULL PRIMARY KEY,
	-- One more with each lease.
	fence      BIGINT NOT NULL,
	-- One more with each write of the value. It begins with the time, so that a row that was deleted and made anew has a
	-- higher one.
	generation BIGINT NOT NULL,
	-- Sealed, or NULL.
	value      BYTEA,
	-- When the value was written. NULL: there was none yet.
	written    BIGINT,
	-- When the value expires, or since when there is none. NULL: never.
	expires    BIGINT,
	-- When the lease ends. NULL: nobody holds it.
	leased     BIGINT
);

-- The rows to be swept.
CREATE INDEX state_rows_expires ON state_rows (expires) WHERE expires IS NOT NULL;
