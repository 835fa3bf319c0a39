package api_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/activity"
	"github.com/keywright/keywright/server/internal/operate/acts"
	"github.com/keywright/keywright/server/internal/operate/api"
	"github.com/keywright/keywright/server/internal/operate/connections"
	"github.com/keywright/keywright/server/internal/operate/login"
	"github.com/keywright/keywright/server/internal/operate/records"
	"github.com/keywright/keywright/server/internal/operate/tenants"
	"github.com/keywright/keywright/server/internal/serve/audit"
	"github.com/keywright/keywright/server/statedb"
	"github.com/keywright/keywright/server/statedb/sqlite"
)

const file = `
secrets: [{type: state}]
state: {type: sqlite, path: state.db, keys: "{{ get_secret('k') }}"}
connectors:
  - name: Calendar
    url: https://api.example
    auth:
      type: oauth_authorization_code
      config: {client_id: me, client_auth: none, authorization_url: "https://login.example/a", token_url: "https://login.example/t"}
  - {name: CRM, url: "https://{{ get_variable('site', 'tenant') }}.crm.example", hosts: ["*.crm.example"], auth: {type: bearer, config: {token: "{{ get_secret('crm', 'tenant') }}"}}}
  - {name: Open, url: "https://open.example", auth: {type: none}}
`

// world is a gateway with an API.
type world struct {
	t        *testing.T
	now      time.Time
	handler  http.Handler
	config   api.Config
	set      *connectors.Set
	store    *records.Store
	router   routers.Router
	log      *bytes.Buffer
	tokens   string
	reloaded int
	// failure is the error of a reload.
	failure error
}

const stateKey = "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 11, 28, 12, 30, 0, 0, time.UTC), log: &bytes.Buffer{}, tokens: t.TempDir()}
	db := testworld.Must(sqlite.OpenMemory(t.Context(), sqlite.Options{}))(t)
	state := testworld.Must(host.NewState(t.Context(), host.StateConfig{Store: db, Keys: [][]byte{[]byte("a state key of 32 bytes, for all")}}))(t)
	options := connectors.Options{
		Host: host.Config{Secrets: host.MapSecrets{"k": stateKey}},
		OpenState: func(_ context.Context, _ *connectors.State, c *host.Config) error {
			c.State = state
			return nil
		},
	}
	w.set = testworld.Must(connectors.Read(t.Context(), "connectors.yaml", []byte(file), options))(t)
	t.Cleanup(func() {
		_ = errors.Join(w.set.Close(context.Background()), state.Close(context.Background()), db.Close())
	})
	clock, logger := func() time.Time { return w.now }, slog.New(slog.NewTextHandler(w.log, nil))
	w.store = &records.Store{Records: db, State: state}
	set := func() *connectors.Set { return w.set }
	w.config = api.Config{
		Version: "v1", Clock: clock, Set: set,
		View: func(context.Context) (*activity.View, string) {
			return activity.Merge([]*activity.Report{w.report()}, w.now), ""
		},
		Find: func(_ context.Context, id string) (*activity.Failure, error) {
			switch id {
			case failed.RequestID:
				return failed, nil
			case "other":
				return &activity.Failure{RequestID: id, Tenant: "globex", Cause: "no host globex.crm.example"}, nil
			}
			return nil, nil //nolint:nilnil // as nodes.Find
		},
		Configuration: func() api.Configuration { return api.Configuration{SHA256: w.set.SHA256, Used: w.now} },
		Tenants:       &tenants.Tenants{Clock: clock, Current: set},
		Acts:          acts.New(acts.Config{Node: "a", Clock: clock, Logger: logger, Audit: func() *audit.Log { return nil }, Store: w.store}),
		Connections: connections.New(connections.Config{Clock: clock, Node: "a", Store: w.store, Logger: logger, Connector: func(permalink string) *gateway.Connector {
			for _, c := range w.set.Connectors {
				if c.Definition().Permalink == permalink {
					return c
				}
			}
			return nil
		}}),
		Check: func(ctx context.Context, text []byte) (api.CheckResult, error) {
			return api.CheckFile(ctx, "connectors.yaml", text, options, w.set)
		},
		Reload: func(context.Context) error {
			w.reloaded++
			return w.failure
		},
		Test: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"connector": %q}`, r.PathValue("permalink"))
		}),
		Link: func(_ context.Context, r api.LinkRequest) (string, error) {
			return "https://gateway.example/connect/" + r.User, nil
		},
	}
	w.start()
	return w
}

// start makes the handler, and the router of its document.
func (w *world) start() {
	w.t.Helper()
	handler := api.New(w.config)
	for name, rights := range map[string]string{
		"all": "read\ntest\ncheck\npeople\nact\n", "acme": "read\npeople\nact\ntenant:acme\n", "nothing": "read\n",
		"read": "read\n", "test": "test\n", "check": "check\n", "people": "people\n", "act": "act\n",
	} {
		w.token(name, rights)
	}
	guard := testworld.Must(login.New(login.Config{TokensDir: w.tokens, Logger: slog.New(slog.DiscardHandler)}))(w.t)
	w.handler = guard.Guard(handler)
	document := testworld.Must(openapi3.NewLoader().LoadFromData(w.document()))(w.t)
	testworld.Check(w.t, document.Validate(w.t.Context()))
	w.router = testworld.Must(legacy.NewRouter(document))(w.t)
}

func (w *world) token(name, rights string) {
	w.t.Helper()
	content := fmt.Sprintf("sha256:%x\n%s", sha256.Sum256([]byte(tokenOf(name))), rights)
	testworld.Check(w.t, os.WriteFile(filepath.Join(w.tokens, name), []byte(content), 0o600))
}

func tokenOf(name string) string { return "the token of " + name + " for tests" }

func (w *world) document() []byte {
	_, text := w.send("all", "GET /openapi.json", "")
	return []byte(text)
}

// failed is a failure of a user of the tenant acme.
var failed = &activity.Failure{
	Time: time.Date(2026, 11, 28, 12, 29, 50, 0, time.UTC), RequestID: "0123456789abcdef", Connector: "crm", Node: "a", Group: "g1", Stage: "template", Problem: "secret", Place: "template",
	Status: 502, Method: "GET", Tenant: "acme", Cause: "the secret tenants/acme/crm is missing for acme.crm.example, also in users/ann/crm", Remedy: "store tenants/acme/crm", Way: []activity.Step{{Name: "template", Failed: true}},
}

// report is that of a node on which all requests to crm fail.
func (w *world) report() *activity.Report {
	tallies := make(activity.Counts, 3*(6+activity.Window))
	for _, place := range []int{5, 5 + activity.Window} {
		copy(tallies[3*place:], activity.Counts{4, 4, 0})
	}
	minutes := make(activity.Counts, activity.Window)
	minutes[activity.Window-1] = 4
	return &activity.Report{Node: "a", Version: "v1", SHA256: w.set.SHA256, Started: w.now.Add(-time.Hour), Time: w.now, Connectors: []activity.Connector{{
		Name: "crm", Tallies: tallies, Health: activity.Health{Streak: 4, Failure: w.now.UnixMilli(), Trouble: w.now.UnixMilli()},
		Groups: []*activity.Group{{
			ID: "g1", First: w.now, Last: w.now, Total: 4, Minutes: minutes, Hours: make(activity.Counts, 24), Tenants: []string{"acme", "other"},
			Users: activity.Set{Hashes: []uint64{1, 2}}, Examples: []*activity.Failure{failed},
		}},
	}}}
}

// connect connects the account of a user of a tenant.
func (w *world) connect(tenant, user, connector string) {
	w.t.Helper()
	u := host.User{ID: user, TenantID: tenant, Email: user + "@" + tenant + ".test"}
	testworld.Check(w.t, w.config.Connections.Connected(w.t.Context(), u, connector, gateway.Account{Label: "label of " + user, Since: w.now}))
}

// send sends a request with the token of a name, or without one. Each answer has to be as the document says.
func (w *world) send(name, route, body string, header ...string) (status int, text string) {
	w.t.Helper()
	answer := w.do(name, route, body, header...)
	return answer.Code, answer.Body.String()
}

func (w *world) do(name, route, body string, header ...string) *httptest.ResponseRecorder {
	w.t.Helper()
	method, path, _ := strings.Cut(route, " ")
	r := httptest.NewRequestWithContext(w.t.Context(), method, api.Prefix+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if name != "" {
		r.Header.Set("Authorization", "Bearer "+tokenOf(name))
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	recorded := httptest.NewRecorder()
	w.handler.ServeHTTP(recorded, r)
	if w.router != nil {
		w.validate(r, recorded)
	}
	return recorded
}

// validate compares an answer with the document.
func (w *world) validate(r *http.Request, answer *httptest.ResponseRecorder) {
	w.t.Helper()
	route, params, err := w.router.FindRoute(r)
	if err != nil || answer.Code == http.StatusNotModified || answer.Code == http.StatusUnauthorized { // that is the login's
		return
	}
	testworld.Check(w.t, openapi3filter.ValidateResponse(w.t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 answer.Code, Header: answer.Header(), Body: io.NopCloser(bytes.NewReader(answer.Body.Bytes())),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}))
}

// get returns a member of the answer to a request, as JSON.
func (w *world) get(name, route, body string, want int) (answer map[string]any) {
	w.t.Helper()
	status, text := w.send(name, route, body)
	if status != want {
		w.t.Fatalf("%s: %s is answered %d %s, want %d", name, route, status, text, want)
	}
	testworld.Check(w.t, json.Unmarshal([]byte(text), &answer))
	return answer
}

func items(answer map[string]any) []any { return answer["items"].([]any) }

func (w *world) actsOf(f acts.Filter) (text string) {
	w.t.Helper()
	all, _, err := w.config.Acts.List(w.t.Context(), f, "", 100)
	testworld.Check(w.t, err)
	for _, a := range all {
		text += a.Who + " " + a.Act + " " + a.Target + " " + a.Outcome + "; "
	}
	return text
}

// brokenRecords is a store that takes no records.
type brokenRecords struct{ statedb.Records }

func (brokenRecords) PutRecords(context.Context, ...statedb.Record) error {
	return &statedb.Error{Op: "write records", Kind: statedb.ErrUnreachable}
}
