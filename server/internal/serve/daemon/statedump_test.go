package daemon_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/postgrestest"
	"github.com/keywright/keywright/server/internal/serve/daemon"
)

// keeping is a gateway whose state is in a database, with a connector of each auth type.
type keeping struct {
	*world
	// hidden has the texts that must not be in the database.
	hidden testworld.Canaries
	driver string
	// address is the URL or the file of the database.
	address string
	users   [2]string
	tenant  string
	// connectors has the connectors of the auth types.
	connectors map[string]string
}

func keep(t *testing.T, driver string) *keeping {
	t.Helper()
	k := &keeping{driver: driver, address: filepath.Join(t.TempDir(), "state.db"), connectors: map[string]string{}}
	word := func(what string) string { return k.hidden.Hide(what, "w"+strings.ToLower(rand.Text())) }
	k.users, k.tenant = [2]string{word("a user"), word("a user")}, word("a tenant")
	state := fmt.Sprintf("{type: sqlite, path: %q, keys: ", k.address)
	if driver == "pgx" {
		server := testworld.Must(postgrestest.Start())(t)
		t.Cleanup(func() { _ = server.Stop() })
		k.address = testworld.Must(server.Database(t.Context()))(t)
		state = `{type: postgres, url: "{{ get_secret('state-url') }}", keys: `
	}
	issued := k.hidden.Issued(time.Now)
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		k.hidden.HideSent(testworld.Request{Body: string(body)}, "")
		answering(&k.hidden, issued)(w, r)
	}))
	t.Cleanup(login.Close)
	text := "gateway: {user: {type: header, header: {proxies: [127.0.0.1/32], id: X-User, tenant_id: X-Tenant}}}\n" +
		"state: " + state + "\"{{ get_secret('state-key') }}\"}\nconnectors:\n"
	for authType, config := range testworld.AuthTypes(login.URL + "/token") {
		k.connectors[authType] = word("the name of a connector")
		auth := testworld.Must(json.Marshal(map[string]any{"type": authType, "config": config}))(t)
		text += fmt.Sprintf("  - {name: %s, url: API/v1, auth: %s}\n", k.connectors[authType], auth)
	}
	stateKey := make([]byte, 32)
	_, _ = rand.Read(stateKey)
	secrets := host.MapSecrets{
		"s": k.hidden.Secret("the secret"), "seed": k.hidden.Secret("the refresh token of the configuration"), "rsa": k.hidden.Key(t, "rsa"), "ed": k.hidden.Key(t, "ed"),
		"state-key": k.hidden.Hide("the state key", base64.StdEncoding.EncodeToString(stateKey)), "state-url": k.address,
	}
	k.world = start(t, answering(&k.hidden, testworld.Respond(http.StatusOK, "well")), text, func(c *daemon.Config) { c.Options.Host.Secrets = secrets })
	return k
}

// browser returns the browser of a user.
func (k *keeping) browser(user string) *browser {
	return &browser{w: k.world, user: user, tenant: k.tenant}
}

// search returns a line for each text of hidden that is in the database.
func (k *keeping) search(where string) []string {
	k.t.Helper()
	if k.driver == "pgx" {
		dump := testworld.Must(postgrestest.Dump(k.t.Context(), k.address))(k.t)
		k.hidden.Out(where, dump)
		return k.hidden.Leaks()
	}
	files, err := filepath.Glob(k.address + "*") // with -wal and -shm
	testworld.Check(k.t, err)
	for _, file := range files {
		content := testworld.Must(os.ReadFile(file))(k.t)
		k.hidden.Out(where, string(content))
	}
	return k.hidden.Leaks()
}

// plant writes a text into the database.
func (k *keeping) plant(text string) {
	k.t.Helper()
	db := testworld.Must(sql.Open(k.driver, k.address))(k.t)
	defer db.Close()
	testworld.Must(db.ExecContext(context.Background(), `INSERT INTO state_rows (id, fence, generation, value) VALUES ($1, 1, 1, $2)`, []byte("planted"), []byte(text)))(k.t)
}

// threats.md 107: two users of a tenant have called connectors of all auth types, one has connected an account, and the other has
// begun to. No secret, token, code, verifier, user, tenant or name of a connector is in the database, in any encoding, while the
// gateway runs or afterwards.
func TestDatabaseCanaries(t *testing.T) {
	for _, driver := range []string{"sqlite", "pgx"} {
		t.Run(driver, func(t *testing.T) {
			k := keep(t, driver)
			ann := k.browser(k.users[0])
			if status, body := ann.send("GET", ann.begin(&k.hidden, k.connectors["oauth_authorization_code"])); status != http.StatusOK {
				t.Fatalf("the consent ends with %d %s", status, body)
			}
			for _, authType := range slices.Sorted(maps.Keys(k.connectors)) {
				for i, user := range k.users {
					status, body := k.browser(user).send("GET", "/connectors/"+k.connectors[authType])
					if want := i == 0 || authType != "oauth_authorization_code"; (status == http.StatusOK) != want {
						t.Errorf("%s of user %d: %d %s", authType, i, status, body)
					}
				}
			}
			k.browser(k.users[1]).begin(&k.hidden, k.connectors["oauth_authorization_code"])
			for _, leak := range k.search("the database of a gateway that runs") {
				t.Error(leak)
			}
			if _, err := os.Stat(k.address + "-wal"); driver == "sqlite" && err != nil {
				t.Errorf("what SQLite has not moved into the database yet was not searched: %v", err)
			}
			k.stop()
			for _, leak := range k.search("the database") {
				t.Error(leak)
			}
			k.plant(base64.StdEncoding.EncodeToString([]byte("one" + k.users[0])))
			want := "the database with a user holds a user, in base64 from byte 0 on"
			if found := k.search("the database with a user"); !slices.Equal(found, []string{want}) {
				t.Errorf("a user in the database is not found: %q", found)
			}
		})
	}
}
