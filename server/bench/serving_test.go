package bench

import (
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
)

// A serving is a process of keywright serve, and its callers.
type serving struct {
	t              *testing.T
	callers, admin string
	client         http.Client
	// end ends the process by SIGTERM, and returns after how long it has ended.
	end func() time.Duration
}

// serve runs keywright serve with connectors and further members of the file. Its callers say in X-User who they are. The directory of
// the secrets has one, and those of users.
func serve(t *testing.T, connectors, more string, users ...string) *serving {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "connectors.yaml")
	text := "gateway: {user: {type: header, header: {proxies: [127.0.0.1/32], id: X-User}}}\n" + more + "connectors:\n" + connectors
	testworld.Check(t, os.WriteFile(file, []byte(text), 0o600))
	secrets := filepath.Join(dir, "secrets")
	secret := base64.StdEncoding.AppendEncode(nil, []byte(textOf(32))) // which may be a state key, too
	for _, user := range append(users, "..") {
		directory := filepath.Join(secrets, "users", user)
		testworld.Check(t, errors.Join(os.MkdirAll(directory, 0o700), os.WriteFile(filepath.Join(directory, "secret"), secret, 0o600)))
	}
	s := &serving{t: t}
	s.client.Transport = &http.Transport{MaxIdleConnsPerHost: 4 * loadClients}
	listen := freeAddress(t)
	s.admin = "http://" + listen
	callers, stop := start(t, keywright(t, "serve", "-c", file, "--secrets-dir", secrets, "--dev", "--listen", "127.0.0.1:0", "--admin", listen))
	s.callers = callers
	s.end = func() time.Duration {
		begin := time.Now()
		stop()
		return time.Since(begin)
	}
	return s
}

// connector returns a connector of the file whose users have a token each, from an origin, and whose API is at another one.
func connector(name, api, login, more string) string {
	return fmt.Sprintf(`  - name: %s
    url: %s
    auth:
      type: oauth_client_credentials
      config: {client_id: "{{ user.id }}", client_secret: "{{ get_secret('secret') }}", token_url: %s/token}
%s`, name, api, login, more)
}

// get sends a request of a user, and returns the status, or 0 without an answer.
func (s *serving) get(ctx context.Context, connector, user string) (status int) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.callers+connector, nil)
	if err != nil {
		return 0
	}
	r.Header.Set("X-User", user)
	response, err := s.client.Do(r)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// memory returns what the process has in use, on its heap and stacks, in bytes.
func (s *serving) memory() (bytes float64) {
	s.t.Helper()
	for range 2 { // the second collection frees what a sync.Pool keeps for one more
		s.operate("/debug/pprof/heap?gc=1")
	}
	return s.metric("go_memstats_heap_alloc_bytes") + s.metric("go_memstats_stack_inuse_bytes")
}

// metric returns the value of a metric.
func (s *serving) metric(name string) float64 {
	s.t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(s.operate("/metrics"))
	if found == nil {
		s.t.Fatalf("/metrics has no %s", name)
	}
	return testworld.Must(strconv.ParseFloat(found[1], 64))(s.t)
}

// operate returns what an operators' path answers.
func (s *serving) operate(path string) string {
	s.t.Helper()
	var body strings.Builder
	testworld.Check(s.t, fetch(s.t.Context(), http.DefaultTransport, s.admin+path, &body))
	return body.String()
}

// origin serves a handler at an origin of its own until the test ends, also if requests do not end.
func origin(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// issue answers each request with tokens of a length.
func issue(length int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"access_token":"%s","token_type":"Bearer","expires_in":36000,"refresh_token":"%s"}`, textOf(length), textOf(length))
	}
}

// crowd has callers send requests to slow connectors, again some seconds after each answer, until ctx ends. It returns after all
// have sent one. ended is closed when all have gone.
func (s *serving) crowd(ctx context.Context, n, connectors int) (ended chan struct{}) {
	var sent, all sync.WaitGroup
	sent.Add(n)
	for i := range n {
		name, user := "slow", fmt.Sprint("caller-", i)
		if i %= connectors; i > 0 {
			name = fmt.Sprint("slow", i-1)
		}
		first := sync.OnceFunc(sent.Done)
		all.Go(func() {
			trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { first() }}
			s.get(httptrace.WithClientTrace(ctx, trace), name, user)
			first() // also if nothing could be sent
			for ctx.Err() == nil {
				select {
				case <-time.After(5*time.Second + time.Duration(rand.Int64N(int64(5*time.Second)))):
					s.get(ctx, name, user)
				case <-ctx.Done():
				}
			}
		})
	}
	sent.Wait()
	ended = make(chan struct{})
	go func() {
		all.Wait()
		close(ended)
	}()
	return ended
}

// The numbers of users, connectors and callers whose memory is measured.
const (
	sizedUsers      = 1000
	sizedConnectors = 5000
)

// The table of operating.md has the memory that a process has in use, within a fifth. make sizing prints the table.
func TestSizing(t *testing.T) {
	api, login := origin(t, func(http.ResponseWriter, *http.Request) {}), func(length int) string { return origin(t, issue(length)) }
	text := testworld.Must(os.ReadFile("../../docs/operating.md"))(t)
	check := func(work string, measured float64) {
		t.Helper()
		units := map[string]float64{"KiB": 1 << 10, "MiB": 1 << 20}
		unit := "KiB"
		if measured >= 1<<20 {
			unit = "MiB"
		}
		t.Logf("| %s | %.0f %s |", work, measured/units[unit], unit)
		found := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(work) + ` \| ([\d.]+) ([KM]iB)\b`).FindSubmatch(text)
		if found == nil {
			t.Errorf("operating.md does not have how much is needed by %s", work)
			return
		}
		documented := testworld.Must(strconv.ParseFloat(string(found[1]), 64))(t)
		if documented *= units[string(found[2])]; math.Abs(measured-documented) > documented/5 {
			t.Errorf("%s: %.0f bytes, and operating.md has %.0f", work, measured, documented)
		}
	}
	users := make([]string, sizedUsers)
	for i := range users {
		users[i] = fmt.Sprint("user-", i)
	}
	grants := strings.NewReplacer("oauth_client_credentials", "oauth_refresh_token", `"{{ user.id }}"`, "me", "token_url", `refresh_token: "{{ get_secret('secret', 'user') }}", token_url`)
	const state = "state: {type: sqlite, path: state.db, keys: '{{ get_secret(\"secret\") }}'}\n"

	alone := serve(t, connector("users", api, login(80), ""), "")
	check("a process with one connector", alone.use("users", users[:1], 2).memory())
	check("a connector with a secret, used", sizeOfConnectors(t, api))
	for _, length := range []int{80, 1000, 2000} {
		s := serve(t, connector("users", api, login(length), ""), "")
		before := s.use("users", users[:1], 2).memory()
		check(fmt.Sprintf("a user with a token of %d bytes, used twice", length), (s.use("users", users[1:], 2).memory()-before)/(sizedUsers-1))
		s.end()
	}
	s := serve(t, grants.Replace(connector("users", api, login(80), "")), state, users...)
	before := s.use("users", users[:1], 2).memory()
	check("a user with a grant, used twice", (s.use("users", users[1:], 2).memory()-before)/(sizedUsers-1))

	var waiting atomic.Int64
	there := make(chan struct{})
	s = serve(t, withKey("slow", origin(t, func(w http.ResponseWriter, r *http.Request) {
		if waiting.Add(1) == sizedUsers {
			close(there)
		}
		hang(w, r)
	}))+crowded, "")
	before = s.memory()
	s.crowd(t.Context(), sizedUsers, 1)
	<-there
	check("a caller who waits for an API", (s.memory()-before)/sizedUsers)
}

// use sends requests of users.
func (s *serving) use(connector string, users []string, times int) *serving {
	s.t.Helper()
	for range times {
		for _, user := range users {
			if status := s.get(s.t.Context(), connector, user); status != http.StatusOK {
				s.t.Fatalf("a request of %s for %s: %d", user, connector, status)
			}
		}
	}
	return s
}

// sizeOfConnectors returns the memory of a connector among many.
func sizeOfConnectors(t *testing.T, api string) (bytes float64) {
	text := make([]string, sizedConnectors)
	for i := range text {
		text[i] = withKey(fmt.Sprint("c", i), api)
	}
	one, all := serve(t, text[0], ""), serve(t, strings.Join(text, ""), "")
	defer all.end()
	for i := range text {
		all.use(fmt.Sprint("c", i), []string{"ann"}, 1)
	}
	return (all.memory() - one.use("c0", []string{"ann"}, 1).memory()) / (sizedConnectors - 1)
}

// withKey returns a connector whose users have one key.
func withKey(name, api string) string {
	return fmt.Sprintf(`  - name: %s
    url: %s
    auth:
      type: api_key
      config:
        key: X-API-Key
        value: "{{ get_secret('secret') }}"
        in: header
`, name, api)
}

var (
	manyUsers = flag.Int("users", 0, "users of one connector, beside ten others; 0 is 2,000 with a hundredth of the memory")
	callers   = flag.Int("callers", 0, "callers of slow servers, and new tokens beside them; 0 is 100 callers, whose times are not compared")
)

// drain is the time within which a process ends.
const drain = 30 * time.Second

// neighbours are APIs and token endpoints that are slow or wrong, or nil for those that are well, and further connectors at one token
// endpoint that hangs. Each connector has some of the callers.
var neighbours = map[string]struct {
	api, login http.HandlerFunc
	more       int
}{
	"servers that are well":                                             {},
	"a token endpoint that hangs for 15 s":                              {login: hang},
	"ten connectors at a token endpoint that hangs, and one at another": {login: hang, more: 10},
	"a token endpoint that answers 101":                                 {login: switchProtocols},
	"a token endpoint that drips":                                       {login: drip},
	"an API that answers 101":                                           {api: switchProtocols},
	"an API that drips a 401": {api: func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		drip(w, r)
	}},
}

// crowded lets all callers in at once.
const crowded = "    limits: {concurrent: 2000}\n"

func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // so that the context ends with the connection
	select {
	case <-time.After(15 * time.Second):
	case <-r.Context().Done():
	}
}

// drip writes a byte every half second, for longer than a process may take to end if times are compared.
func drip(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	for range 10 + *callers {
		_, _ = w.Write([]byte(" "))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-time.After(500 * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	}
}

// switchProtocols answers 101, and keeps the connection.
func switchProtocols(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", "websocket")
	w.WriteHeader(http.StatusSwitchingProtocols)
	_ = http.NewResponseController(w).Flush()
	_, _, _ = http.NewResponseController(w).Hijack() // the test ends it
}

// A new token of a connector takes as long beside the callers of slow servers as alone, and the process ends in time while they wait.
func TestNewTokensBesideSlowServers(t *testing.T) {
	for name, slow := range neighbours {
		t.Run(name, func(t *testing.T) {
			many, tokens := *callers, *callers
			if many == 0 {
				many, tokens = 100, 100
				t.Parallel()
			}
			api, hangURL := origin(t, func(http.ResponseWriter, *http.Request) {}), origin(t, hang)
			slowAPI, slowLogin := api, origin(t, issue(200))
			if slow.api != nil {
				slowAPI = origin(t, slow.api)
			}
			if slow.login != nil {
				slowLogin = origin(t, slow.login)
			}
			connectors := []string{connector("slow", slowAPI, slowLogin, crowded)}
			for i := range slow.more {
				connectors = append(connectors, connector(fmt.Sprint("slow", i), api, hangURL, crowded))
			}
			text := connector("healthy", api, origin(t, issue(200)), "")
			for _, c := range connectors {
				if text += c; *callers == 0 {
					text += "    timeout: 4s\n"
				}
			}
			s := serve(t, text, "")
			s.tokens("warms up", 50)
			alone := s.tokens("alone", tokens)
			ctx, stop := context.WithCancel(t.Context())
			waiting := s.crowd(ctx, many, len(connectors))
			beside := s.tokens("beside", tokens)
			t.Logf("a new token alone: %s at p50, %s at p99; beside %d callers of %s: %s, %s", nanoseconds.format(alone.p50()),
				nanoseconds.format(alone.p99()), many, name, nanoseconds.format(beside.p50()), nanoseconds.format(beside.p99()))
			if *callers > 0 && beside.p99() > max(1.2*alone.p99(), alone.p99()+float64(5*time.Millisecond)) {
				t.Error("a new token takes longer beside the callers")
			}
			if most := beside.latencies[len(beside.latencies)-1]; *callers > 0 && most > 2*time.Second {
				t.Errorf("a new token has waited for %s", most)
			}
			took := s.end()
			t.Logf("SIGTERM ends the process after %.1f s", took.Seconds())
			if took > drain+time.Second {
				t.Errorf("the process has ended after %s, and is to end after %s", took, drain)
			}
			stop()
			<-waiting
		})
	}
}

// tokens sends requests that need a new token each, one after another.
func (s *serving) tokens(prefix string, n int) (l load) {
	s.t.Helper()
	for i := range n {
		begin := time.Now()
		if status := s.get(s.t.Context(), "healthy", fmt.Sprint(prefix, " ", i)); status != http.StatusOK {
			s.t.Fatalf("new token %d: %d", i, status)
		}
		l.latencies = append(l.latencies, time.Since(begin))
	}
	slices.Sort(l.latencies)
	return l
}

// Ten connectors keep their tokens while many users of another one get theirs, and the memory is as operating.md says.
func TestManyUsersBesideOthers(t *testing.T) {
	many, bound := *manyUsers, 64<<20
	if many == 0 {
		many, bound = 2000, 1<<20
	}
	api := origin(t, func(http.ResponseWriter, *http.Request) {})
	var asked atomic.Int64
	counting := origin(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		issue(200)(w, r)
	})
	text := connector("many", api, origin(t, issue(200)), "")
	for i := range 10 {
		text += connector(fmt.Sprint("other", i), api, counting, "")
	}
	s := serve(t, text, fmt.Sprintf("limits: {tokens_bytes: %d, mutations_bytes: %[1]d, scanners_bytes: %[1]d}\n", bound))
	others, started := 0, s.memory()
	for user := range many {
		for range 2 {
			if status := s.get(t.Context(), "many", fmt.Sprint("user-", user)); status != http.StatusOK {
				t.Fatalf("user %d: %d", user, status)
			}
		}
		if user%20 == 0 {
			s.get(t.Context(), fmt.Sprint("other", others%10), "ann")
			others++
		}
	}
	grown := s.memory() - started
	t.Logf("of %d requests of ten others, %d asked for a token; what users left has %.1f MiB of %d, and %.0f MiB are resident",
		others, asked.Load(), grown/(1<<20), 3*bound>>20, s.metric("process_resident_memory_bytes")/(1<<20))
	if missed := asked.Load() - 10; missed*100 > int64(others) {
		t.Errorf("%d of %d requests of ten other connectors asked for a token again", missed, others)
	}
	if grown > 3*float64(bound)*1.2+1<<20 {
		t.Errorf("what users left has %.0f bytes, and is to have %d", grown, 3*bound)
	}
}
