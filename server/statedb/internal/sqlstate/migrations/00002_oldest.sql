-- The oldest schema whose programs may use the database. A program of an older schema than the database's own reads it.

-- +goose Up
ALTER TABLE state_migrations ADD COLUMN oldest BIGINT NOT NULL DEFAULT 1;
