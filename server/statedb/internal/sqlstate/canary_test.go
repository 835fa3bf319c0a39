package sqlstate_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/postgrestest"
	"github.com/keywright/keywright/server/statedb/internal/sqlstate"
)

// A dump of the database has the ids and values that the store was handed, and neither the name of a row nor its text, in
// any encoding.
func TestADumpHasNoCanary(t *testing.T) {
	onBoth(t, func(t *testing.T, db database) {
		store := db.open(t).(*sqlstate.Store)
		key, name, text := make([]byte, 32), []byte(rand.Text()), []byte(rand.Text())
		_, _ = rand.Read(key)
		mac := hmac.New(sha256.New, key)
		mac.Write(name)
		row := state.ID(mac.Sum(nil))
		block := testworld.Must(aes.NewCipher(key))(t)
		aead := testworld.Must(cipher.NewGCMWithRandomNonce(block))(t)
		sealed := aead.Seal(nil, nil, text, row[:])
		lease := acquire(t, store, row, time.Hour)
		put(t, store, lease, string(sealed), time.Hour)
		dump := db.dump(t)
		var hidden testworld.Canaries
		for what, secret := range map[string][]byte{"the name": name, "the text": text, "the key": key} {
			hidden.Hide(what, string(secret))
		}
		hidden.Out("the dump", dump)
		for _, leak := range hidden.Leaks() {
			t.Error(leak)
		}
		for what, there := range map[string][]byte{"the id": row[:], "the value": sealed} {
			if !strings.Contains(dump, string(there)) {
				t.Errorf("%s is not in the dump: it is a dump of something else", what)
			}
		}
	})
}

// dump returns the files of a database of SQLite, or a dump of PostgreSQL.
func (db database) dump(t *testing.T) string {
	t.Helper()
	if db.name == "postgres" {
		return testworld.Must(postgrestest.Dump(t.Context(), db.address))(t)
	}
	var all strings.Builder
	files, _ := filepath.Glob(db.address + "*")
	for _, file := range files {
		content := testworld.Must(os.ReadFile(file))(t)
		all.Write(content)
	}
	return all.String()
}
