package sqlstate

import (
	"strconv"
	"strings"

	"github.com/keywright/keywright/host/state"
)

// statements are the statements of a dialect. Each is one step. {now} stands for the time in microseconds. It is $1 where
// the program has the clock, and the clock of the database otherwise, for which $1 is NULL. A statement that compares the
// time reads it once, in the subquery clock. {slack} stands for [state.Slack] in microseconds. {changed} is a text that the
// database sends to all waiters, where it can.
type statements struct {
	get, create, acquire, put, release, delete, reseal, rows, sweep string
}

func newStatements(now, changed string) statements {
	fill := strings.NewReplacer("{now}", now, "{changed}", changed, "{slack}", strconv.FormatInt(state.Slack.Microseconds(), 10), "{clock}", "(SELECT "+now+" AS now) AS clock").Replace
	return statements{
		get: fill(`SELECT generation, value, written, expires, leased, {now} FROM state_rows WHERE id = $2`),

		// The first generation has the time in its upper bits, and a random number in the lower ones. The first fence is the
		// same, so a holder from before the row was swept has another one.
		create: fill(`INSERT INTO state_rows (id, fence, generation, expires, leased)
SELECT $2, now * 1024 + $3, now * 1024 + $3, now, now + $4 FROM {clock} WHERE true
ON CONFLICT (id) DO NOTHING RETURNING fence, generation`),

		acquire: fill(`UPDATE state_rows SET fence = fence + 1, leased = now + $4 FROM {clock}
WHERE id = $2 AND generation = $3 AND (leased IS NULL OR leased <= now OR leased > now + $4 + $4 + {slack}) RETURNING fence, generation`),

		put: fill(`UPDATE state_rows SET generation = generation + 1, value = $5, written = now, expires = now + $6, leased = CASE WHEN $7 THEN NULL ELSE leased END FROM {clock}
WHERE id = $2 AND fence = $3 AND generation = $4 RETURNING {changed}`),

		release: fill(`UPDATE state_rows SET leased = NULL WHERE id = $1 AND fence = $2 RETURNING {changed}`),

		delete: fill(`UPDATE state_rows SET generation = generation + 1, value = NULL, expires = now FROM {clock}
WHERE id = $2 AND generation = $3 RETURNING {changed}`),

		reseal: `UPDATE state_rows SET value = $3 WHERE id = $1 AND generation = $2 AND value IS NOT NULL RETURNING 1`,

		rows: fill(`SELECT id, generation, value, written, expires, leased, {now} FROM state_rows WHERE id > $2 AND value IS NOT NULL ORDER BY id LIMIT $3`),

		// The conditions stand twice. PostgreSQL looks again at a row that was changed meanwhile, but only at the outer ones.
		// The time is a subquery, so that it is read once and the index can be used.
		sweep: fill(`DELETE FROM state_rows WHERE id IN (
	SELECT id FROM state_rows WHERE expires < (SELECT {now} - $2) AND (leased IS NULL OR leased < (SELECT {now} - $2)) ORDER BY expires LIMIT $3
) AND expires < (SELECT {now} - $2) AND (leased IS NULL OR leased < (SELECT {now} - $2))`),
	}
}
