package sqlstate_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	hoststate "github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/server/state/internal/sqlstate"
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
		row := hoststate.ID(mac.Sum(nil))
		block, err := aes.NewCipher(key)
		if err != nil {
			t.Fatal(err)
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			t.Fatal(err)
		}
		sealed := aead.Seal(nil, nil, text, row[:])
		lease := acquire(t, store, row, time.Hour)
		put(t, store, lease, string(sealed), time.Hour)
		dump := db.dump(t)
		for what, secret := range map[string][]byte{"the name": name, "the text": text, "the key": key} {
			for encoding, form := range forms(secret) {
				if bytes.Contains(dump, form) {
					t.Errorf("%s is in the dump, %s", what, encoding)
				}
			}
		}
		for what, there := range map[string][]byte{"the id": row[:], "the value": sealed} {
			if !bytes.Contains(dump, there) && !bytes.Contains(dump, []byte(hex.EncodeToString(there))) {
				t.Errorf("%s is not in the dump: it is a dump of something else", what)
			}
		}
	})
}

func forms(secret []byte) map[string][]byte {
	all := map[string][]byte{"as it is": secret, "as hex": []byte(hex.EncodeToString(secret)), "as HEX": bytes.ToUpper([]byte(hex.EncodeToString(secret)))}
	for shift := range 3 { // the text may begin anywhere in a text that is encoded
		encoded := base64.RawStdEncoding.EncodeToString(append(make([]byte, shift), secret...))
		all["as base64, shifted by "+string(rune('0'+shift))] = []byte(encoded[4 : len(encoded)-2])
	}
	return all
}

// dump returns the files of a database of SQLite, or the output of pg_dump.
func (db database) dump(t *testing.T) []byte {
	t.Helper()
	var all bytes.Buffer
	if db.name == "postgres" {
		programs, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_dump")
		program := "pg_dump"
		if len(programs) > 0 {
			program = programs[len(programs)-1]
		}
		command := exec.CommandContext(t.Context(), program, "--dbname", db.address)
		command.Stdout, command.Stderr = &all, os.Stderr
		if err := command.Run(); err != nil {
			t.Fatal(err)
		}
		return all.Bytes()
	}
	files, _ := filepath.Glob(db.address + "*")
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(content)
	}
	return all.Bytes()
}
