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
	"sync/atomic"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/postgrestest"
	"github.com/keywright/keywright/server/internal/serve/daemon"
)

// answering returns a server that answers as a function says, and hides the credentials of the requests.
func answering(c *testworld.Canaries, answer testworld.Answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		sent := http.Header{}
		for name, values := range r.Header {
			if name == "Authorization" || name == "Dpop" || name == "Signature" || strings.HasPrefix(name, "X-") {
				sent[name] = values
			}
		}
		c.HideSent(testworld.Request{Header: sent}, "")
		response, err := answer(r)
		if err != nil {
			panic(err)
		}
		maps.Copy(w.Header(), response.Header)
		w.WriteHeader(response.StatusCode)
		_, _ = io.Copy(w, response.Body)
		_ = response.Body.Close()
	}
}

// threats.md 18, 181: whatever becomes of a request, no credential is in the answer to the caller, in the log, in the metrics, in the
// traces or in the audit log, for any auth type. Nor does the audit log have the query or more than the pattern of the path.
func TestNoCanaryComesOutOfTheGateway(t *testing.T) {
	c := testworld.NewCanaries(t)
	collected, collector := collect(t)
	issuing := httptest.NewServer(answering(c, c.Issued(time.Now)))
	t.Cleanup(issuing.Close)
	refusing := httptest.NewServer(answering(c, testworld.Refused))
	t.Cleanup(refusing.Close)

	var text strings.Builder
	fmt.Fprintf(&text, "gateway: {traces: %q, audit: {file: LOG}}\nconnectors:\n", collector.URL+"/v1/traces")
	types := slices.DeleteFunc(slices.Sorted(maps.Keys(testworld.AuthTypes(issuing.URL))), func(name string) bool {
		return name == "oauth_authorization_code" // which sends nothing before a user has given consent
	})
	for name, server := range map[string]*httptest.Server{"issued": issuing, "refused": refusing} {
		configs := testworld.AuthTypes(server.URL + "/token")
		for i, authType := range types {
			auth := testworld.Must(json.Marshal(map[string]any{"type": authType, "config": configs[authType]}))(t)
			fmt.Fprintf(&text, "  - {name: %s %d, url: API/%s, paths: [/notes/*], query: [{name: q, value: '', overridable: true}], auth: %s}\n", name, i, authType, auth)
		}
	}
	var answer atomic.Pointer[testworld.Answer]
	w := start(t, answering(c, func(r *http.Request) (*http.Response, error) { return (*answer.Load())(r) }), text.String(), func(config *daemon.Config) {
		config.Options.Host.State = memoryState(t)
		config.Options.Host.Secrets = host.MapSecrets{"s": c.Secret("the secret"), "seed": c.Secret("the refresh token"), "rsa": c.Key(t, "rsa"), "ed": c.Key(t, "ed"), "jws": c.Key(t, "jws")}
	})
	w.Canaries = c
	var asked testworld.Canaries // of the callers, who may get them back
	failed := map[string]int{}
	for _, api := range []struct {
		name   string
		answer testworld.Answer
	}{{"success", testworld.Respond(http.StatusOK, "well")}, {"echo", testworld.Refused}, {"challenge", c.Challenged()}} {
		answer.Store(&api.answer)
		for i, authType := range types {
			for _, endpoint := range []string{"issued", "refused"} {
				status, body := w.get(fmt.Sprintf("%s/connectors/%s-%d/notes/%s?q=%s", w.callers, endpoint, i, asked.Word("a path"), asked.Word("a query")))
				if status == http.StatusBadGateway {
					failed[api.name+", "+endpoint]++
				} else if api.name == "success" && (status != http.StatusOK || body != "well") {
					t.Errorf("%s, %s: status = %d body = %s", authType, endpoint, status, body)
				}
			}
		}
	}
	// Ten types need what an endpoint issues. All but none, and digest without a challenge, send a credential, which is repeated.
	want := map[string]int{"success, refused": 10, "echo, issued": len(types) - 2, "echo, refused": len(types) - 2, "challenge, issued": len(types) - 1, "challenge, refused": len(types) - 1}
	if !maps.Equal(failed, want) {
		t.Errorf("these failed: %v, want %v", failed, want)
	}
	page, uses := w.metrics(), map[any]int{}
	for _, line := range w.auditLines() {
		uses[line["use"]]++
		if line["use"] == "request" && line["pattern"] != "/notes/*" {
			t.Errorf("the line is %v", line)
		}
	}
	w.Out("the traces", string(collected.bytes))
	asked.Out("the audit log", string(testworld.Must(os.ReadFile(w.auditFile()))(t)))
	for _, leak := range asked.Leaks() {
		t.Error(leak)
	}
	if uses["request"] != 3*2*len(types) || uses["token"] < 10 {
		t.Errorf("the uses are %v", uses)
	}
	if n := strings.Count(page, "keywright_request_seconds_count{"); n != 2*len(types) || len(collected.all) < 6*len(types) {
		t.Errorf("there are metrics of %d connectors, and %d spans", n, len(collected.all))
	}
}

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
		"s": k.hidden.Secret("the secret"), "seed": k.hidden.Secret("the refresh token of the configuration"), "rsa": k.hidden.Key(t, "rsa"), "ed": k.hidden.Key(t, "ed"), "jws": k.hidden.Key(t, "jws"),
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
			if status, body := ann.send("GET", ann.begin(&k.hidden, k.connectors["oauth_authorization_code"])); status != http.StatusSeeOther {
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
