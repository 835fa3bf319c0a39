package nodes

import (
	"context"
	"database/sql"
	"encoding/base64"
	"slices"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/postgrestest"
)

// searchDatabase fails the test if a dump of the database has a secret, a token, a user, a tenant or the name of a connector in
// any encoding. Then it writes a token into the database, and fails the test unless that is found.
func (c *cluster) searchDatabase() {
	c.t.Helper()
	for _, leak := range c.leaks("a dump of the database") {
		c.t.Error(leak)
	}
	db := testworld.Must(sql.Open("pgx", c.direct))(c.t)
	defer db.Close()
	token := base64.StdEncoding.EncodeToString([]byte("a token: " + c.judge.consent(0)))
	testworld.Must(db.Exec(`INSERT INTO state_rows (id, fence, generation, value) VALUES ($1, 1, 1, $2)`, []byte("planted"), []byte(token)))(c.t)
	found := c.leaks("a dump with a token")
	if !slices.ContainsFunc(found, func(leak string) bool {
		return leak == "a dump with a token holds a refresh token of a consent, in base64 from byte 0 on"
	}) {
		c.t.Errorf("a token in the database is not found: %q", found)
	}
}

// leaks returns a line for each secret that is in a dump of the database.
func (c *cluster) leaks(where string) []string {
	c.t.Helper()
	dump := testworld.Must(postgrestest.Dump(context.Background(), c.direct))(c.t)
	c.judge.Out(where, dump)
	return c.judge.Leaks()
}
