package nodes

import (
	"context"
	"crypto/rand"
	"database/sql"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/server/internal/postgrestest"
	"github.com/keywright/keywright/server/statedb"
	"github.com/keywright/keywright/server/statedb/postgres"
	"github.com/keywright/keywright/server/statedb/sqlite"
)

var users = flag.Int("users", 2000, "the number of users with a grant")

// The most bytes for each of 10,000 users: 100 MiB of a node's heap, and 50 MiB of a database.
const (
	mostHeap  = 100 << 20 / 10_000
	mostStore = 50 << 20 / 10_000
)

// Users with a grant each, whose refresh token has rotated and whose access token is cached, take no more of a node's heap and of
// a database than they may.
func TestSizeOfGrants(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.db")
		store := testworld.Must(sqlite.Open(t.Context(), path, sqlite.Options{}))(t)
		sized(t, store, func() (size int64) {
			files, _ := filepath.Glob(path + "*") // with -wal and -shm
			for _, file := range files {
				info := testworld.Must(os.Stat(file))(t)
				t.Logf("%s has %s", filepath.Base(file), mebibytes(info.Size()))
				size += info.Size()
			}
			return size
		})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		address := startPostgres(t)
		store := testworld.Must(postgres.Open(t.Context(), address, postgres.Options{}))(t)
		sized(t, store, func() (size int64) {
			db := testworld.Must(sql.Open("pgx", address))(t)
			defer db.Close()
			testworld.Check(t, db.QueryRowContext(t.Context(), `SELECT pg_total_relation_size('state_rows')`).Scan(&size))
			return size
		})
	})
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// startPostgres starts a PostgreSQL and returns the URL of an empty database.
func startPostgres(t *testing.T) string {
	t.Helper()
	server := testworld.Must(postgrestest.Start())(t)
	t.Cleanup(func() { _ = server.Stop() })
	return testworld.Must(server.Database(t.Context()))(t)
}

// sized makes a node that uses the grants, and closes the store.
func sized(t *testing.T, store statedb.Database, size func() int64) {
	t.Helper()
	defer store.Close()
	before := heap()
	connector, end := nodeOf(t, store)
	waiting := make(chan host.User)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for u := range waiting {
				if err := use(t.Context(), connector, u); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range *users {
		waiting <- host.User{ID: fmt.Sprintf("user-%d", i), TenantID: fmt.Sprintf("tenant-%d", i%100)}
	}
	close(waiting)
	all.Wait()
	inHeap, inStore := heap()-before, size()
	end()
	t.Logf("%d grants: %s of heap, and %s of the database", *users, mebibytes(inHeap), mebibytes(inStore))
	if n := int64(*users); inHeap > n*mostHeap || inStore > n*mostStore {
		t.Errorf("more than %s of heap, or %s of the database", mebibytes(n*mostHeap), mebibytes(n*mostStore))
	}
}

// heap returns the size of what is in use on the heap.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what had finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// seeds is a store of secrets with a client secret, and with a refresh token of each user.
type seeds struct{}

func (seeds) Secret(_ context.Context, name string) (string, error) { return "secret-of-" + name, nil }

// nodeOf returns a connector of a host that is a node of a store, and a function that closes the host. Each user of the connector
// has a grant, whose refresh token rotates.
func nodeOf(t *testing.T, store statedb.Database) (*host.Connector, func()) {
	t.Helper()
	shared := testworld.Must(host.NewState(t.Context(), host.StateConfig{Store: store, Keys: [][]byte{[]byte("a state key of 32 bytes, for all")}}))(t)
	h := testworld.Must(host.New(t.Context(), host.Config{Secrets: seeds{}, State: shared, Plugins: []host.Plugin{{Name: "oauth_refresh_token", Wasm: plugins.Of("oauth_refresh_token")}}, Base: testworld.Answer(func(r *http.Request) (*http.Response, error) {
		if r.URL.Host == "api.test" {
			return testworld.Response(http.StatusOK, ""), nil
		}
		return testworld.Response(http.StatusOK, fmt.Sprintf(`{"access_token": "%s", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "%s"}`, token(), token())), nil
	})}))(t)
	c := testworld.Must(h.NewConnector(t.Context(), host.ConnectorConfig{Name: "orders", Origins: []string{"https://api.test"}, Auth: []host.Auth{{
		Type: "oauth_refresh_token", Config: map[string]any{
			"client_id": "me", "client_secret": "{{ get_secret('client') }}", "token_url": "https://login.test/token", "refresh_token": "{{ get_secret('seed', 'user') }}",
		},
	}}}))(t)
	return c, func() {
		testworld.Check(t, h.Close(context.WithoutCancel(t.Context())))
		testworld.Check(t, shared.Close(context.WithoutCancel(t.Context())))
	}
}

// token returns a token of 64 bytes.
func token() string { return strings.Repeat(rand.Text(), 3)[:64] }

// use sends a request of a user.
func use(ctx context.Context, c *host.Connector, u host.User) error {
	r, err := http.NewRequestWithContext(host.WithUser(ctx, u), http.MethodGet, "https://api.test/", nil)
	if err != nil {
		return err
	}
	response, err := c.Transport(nil).RoundTrip(r)
	if err != nil {
		return err
	}
	return response.Body.Close()
}
