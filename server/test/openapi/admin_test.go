package openapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/activity"
	"github.com/keywright/keywright/server/internal/operate/acts"
	"github.com/keywright/keywright/server/internal/operate/api"
	"github.com/keywright/keywright/server/internal/operate/connections"
	"github.com/keywright/keywright/server/internal/operate/records"
	"github.com/keywright/keywright/server/internal/serve/audit"
	"github.com/keywright/keywright/server/statedb/sqlite"
)

const administered = `
connectors:
  - {name: a, url: "https://a.example", auth: {type: bearer, config: {token: "{{ get_secret('key') }}"}}}
  - {name: b, url: "https://b.example", auth: {type: none}}
`

// admin returns the handler of an admin API.
func admin(t *testing.T) *httptest.Server {
	t.Helper()
	db := testworld.Must(sqlite.OpenMemory(t.Context(), sqlite.Options{}))(t)
	state := testworld.Must(host.NewState(t.Context(), host.StateConfig{Store: db, Keys: [][]byte{[]byte("a state key of 32 bytes, for all")}}))(t)
	set := testworld.Must(connectors.Read(t.Context(), "connectors.yaml", []byte(administered), connectors.Options{Host: host.Config{Secrets: host.MapSecrets{"key": "x"}}}))(t)
	store, discard := &records.Store{Records: db, State: state}, slog.New(slog.DiscardHandler)
	server := httptest.NewServer(api.New(api.Config{
		Version: "v0", Clock: time.Now, Set: func() *connectors.Set { return set },
		View: func(context.Context) (*activity.View, string) {
			return activity.Merge([]*activity.Report{{Node: "a", Time: time.Now()}}, time.Now()), ""
		},
		Find:          func(context.Context, string) (*activity.Failure, error) { return nil, nil }, //nolint:nilnil // as nodes.Find
		Configuration: func() api.Configuration { return api.Configuration{SHA256: "5ea1"} },
		Acts:          acts.New(acts.Config{Clock: time.Now, Logger: discard, Audit: func() *audit.Log { return nil }, Store: store}),
		Connections:   connections.New(connections.Config{Clock: time.Now, Store: store, Logger: discard, Connector: func(string) *gateway.Connector { return nil }}),
		Check: func(ctx context.Context, text []byte) (api.CheckResult, error) {
			return api.CheckFile(ctx, "connectors.yaml", text, connectors.Options{}, set)
		},
		Reload: func(context.Context) error { return nil },
	}))
	t.Cleanup(func() {
		server.Close()
		_ = errors.Join(set.Close(context.Background()), state.Close(context.Background()), db.Close())
	})
	return server
}

// The document of the admin API has no mistakes for redocly, and a client that openapi-typescript makes of it compiles and works.
func TestAdminClient(t *testing.T) {
	const dir = "node_modules/.admin"
	server := admin(t)
	run := func(program string, args ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), "node", append([]string{filepath.Join("node_modules", program)}, args...)...)
		command.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s has failed with %v: %v\n%s", program, args, err, output)
		}
		return string(output)
	}
	recorded := httptest.NewRecorder()
	server.Config.Handler.ServeHTTP(recorded, httptest.NewRequestWithContext(t.Context(), "GET", api.Prefix+"/openapi.json", nil))
	testworld.Check(t, os.MkdirAll(dir, 0o700))
	document := filepath.Join(dir, "openapi.json")
	testworld.Check(t, os.WriteFile(document, recorded.Body.Bytes(), 0o600))
	run("@redocly/cli/bin/cli.js", "lint", "--extends=recommended", "--max-problems=50", document)
	run("openapi-typescript/bin/cli.js", document, "-o", filepath.Join(dir, "api.d.ts"))
	run("typescript/bin/tsc", "--strict", "--target", "es2022", "--module", "nodenext", "--moduleResolution", "nodenext", "--lib", "es2022,dom", "--outDir", dir, "client.ts")
	got := strings.TrimSpace(run(".admin/client.js", server.URL+api.Prefix))
	if want := `[1,["key"],true,true,"5ea1",false,0]`; got != want {
		t.Errorf("the client says %s, want %s", got, want)
	}
}
