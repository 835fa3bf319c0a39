package main

import (
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/postgrestest"
)

// nodes is three gateways with one database, a token endpoint and an API.
type nodes struct {
	t       *testing.T
	program string
	file    string
	env     []string
	all     []*serving
	client  http.Client
	// exchanges counts the token requests. Each gets a token with its number.
	exchanges atomic.Int64
	// valid is the number of the first token that the API takes.
	valid atomic.Int64
	// gathered is the gathering that the token endpoint waits for.
	gathered atomic.Pointer[gathering]
}

// gathering waits until a number of requests were written.
type gathering struct {
	sent  atomic.Int64
	there chan struct{}
}

// perNode is the number of connections to a node.
const perNode = 200

func newNodes(t *testing.T) *nodes {
	n := &nodes{t: t, program: build(t), file: filepath.Join(t.TempDir(), "connectors.yaml")}
	n.gather(0)
	n.client.Transport = &http.Transport{MaxConnsPerHost: perNode, MaxIdleConnsPerHost: perNode}
	login := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		number := n.exchanges.Add(1)
		<-n.gathered.Load().there
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token": "token-%d", "token_type": "Bearer", "expires_in": 3600}`, number)
	}))
	t.Cleanup(login.Close)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		number := int64(0)
		if _, err := fmt.Sscanf(r.Header.Get("Authorization"), "Bearer token-%d", &number); err != nil || number < n.valid.Load() {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(api.Close)
	text := fmt.Sprintf(`connectors:
  - name: Orders
    url: %s/orders
    auth: {type: oauth_client_credentials, config: {client_id: a, client_secret: "{{ get_secret('orders') }}", token_url: %s}}
    limits: {concurrent: 10000}
    timeout: 1m
state: {type: postgres, url: "{{ get_secret('state-url') }}", connections: 4, keys: ["{{ get_secret('state-key') }}"]}
`, api.URL, login.URL)
	testworld.Check(t, os.WriteFile(n.file, []byte(text), 0o600))
	address := postgrestest.Database(t)
	n.env = []string{
		"KEYWRIGHT_SECRET_ORDERS=x", "KEYWRIGHT_SECRET_STATE_URL=" + address,
		"KEYWRIGHT_SECRET_STATE_KEY=q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=",
	}
	n.start()
	return n
}

// start starts three nodes.
func (n *nodes) start() { n.all = []*serving{n.node(), n.node(), n.node()} }

func (n *nodes) node() *serving {
	return startServing(n.t, n.program, n.env, "serve", "-c", n.file, "--dev")
}

// end ends the nodes.
func (n *nodes) end() {
	for _, node := range n.all {
		node.end()
	}
	n.client.CloseIdleConnections()
}

// gather makes the token endpoint wait for a number of requests.
func (n *nodes) gather(requests int64) {
	g := &gathering{there: make(chan struct{})}
	g.sent.Store(-requests)
	if requests == 0 {
		close(g.there)
	}
	n.gathered.Store(g)
}

// call sends a request through a node and returns the status.
func (n *nodes) call(node *serving) int {
	trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) {
		if g := n.gathered.Load(); g.sent.Add(1) == 0 {
			close(g.there)
		}
	}}
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(n.t.Context(), trace), http.MethodGet, node.callers+"/connectors/orders", nil)
	if err != nil {
		n.t.Error(err)
		return 0
	}
	response, err := n.client.Do(r)
	if err != nil {
		n.t.Error(err)
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// crowded sends the requests of 10,000 callers. The token endpoint does not answer before all connections have a request. It
// fails the test unless all callers are served and there are as many token requests as wanted.
func (n *nodes) crowded(what string, exchanges int64) {
	n.t.Helper()
	before := n.exchanges.Load()
	n.gather(3 * perNode)
	var all sync.WaitGroup
	var failed atomic.Int64
	for i := range 10_000 {
		all.Go(func() {
			if status := n.call(n.all[i%3]); status != http.StatusOK {
				failed.Add(1)
			}
		})
	}
	all.Wait()
	n.gather(0)
	if got := n.exchanges.Load() - before; got != exchanges || failed.Load() > 0 {
		n.t.Errorf("%s: %d token requests, want %d; %d of 10,000 callers were not served", what, got, exchanges, failed.Load())
	}
}

// statement returns the statement in docs/several-nodes.md that removes all rows but the one with the key of the names.
func statement(t *testing.T) string {
	t.Helper()
	page := testworld.Must(os.ReadFile("../../../docs/several-nodes.md"))(t)
	found := regexp.MustCompile(`DELETE FROM state_rows .*;`).FindString(string(page))
	if found == "" {
		t.Fatal("the page has no statement")
	}
	return found
}

// Of 10,000 callers at three processes with one PostgreSQL, one causes a token request: when there is no token, when the token
// has expired, and when the API refuses it. All callers are served. A process that starts later does not ask again,
// keywright request included, and a dump of the database shows neither the token nor the secret. threats.md 137
func TestNodesShareTokens(t *testing.T) {
	n := newNodes(t)
	n.crowded("without a token", 1)
	n.crowded("with a token", 0)

	n.all[0].end()
	n.all[0] = n.node()
	if status := n.call(n.all[0]); status != http.StatusOK || n.exchanges.Load() != 1 {
		t.Errorf("after a restart: %d, %d token requests", status, n.exchanges.Load())
	}

	request := exec.Command(n.program, "request", "-c", n.file, "--dev", "-i", "orders", "/")
	request.Env = append(os.Environ(), n.env...)
	if out, err := request.Output(); err != nil || !strings.HasPrefix(string(out), "HTTP/1.1 200") || n.exchanges.Load() != 1 {
		t.Errorf("keywright request: %q, %v, %d token requests", out, err, n.exchanges.Load())
	}

	n.end() // so that no node has the token in memory
	db := testworld.Must(sql.Open("pgx", strings.TrimPrefix(n.env[1], "KEYWRIGHT_SECRET_STATE_URL=")))(t)
	defer db.Close()
	testworld.Must(db.ExecContext(t.Context(), `UPDATE state_rows SET expires = 1 WHERE expires IS NOT NULL`))(t)
	n.start()
	n.crowded("with a token that has expired", 1)

	n.valid.Store(3)
	n.crowded("with a token that the API refuses", 1)
	n.end()
	var dump string
	testworld.Check(t, db.QueryRowContext(t.Context(), `SELECT string_agg(encode(value, 'escape'), ' ') FROM state_rows`).Scan(&dump))
	for _, secret := range []string{"token-", "orders", "Bearer"} {
		if strings.Contains(dump, secret) {
			t.Errorf("the database holds %q", secret)
		}
	}
	testworld.Must(db.ExecContext(t.Context(), statement(t)))(t)
	n.all = []*serving{n.node()}
	if status := n.call(n.all[0]); status != http.StatusOK || n.exchanges.Load() != 4 {
		t.Errorf("after the rows were removed: %d, %d token requests", status, n.exchanges.Load())
	}
	n.end()
}
