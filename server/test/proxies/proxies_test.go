// Package proxies tests deploy/haproxy.cfg and deploy/nginx.conf: callers go through them to two nodes that restart and crash.
package proxies

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

const connectors = `gateway: {hosts: [gateway.example.com]}
connectors:
  - name: Orders
    url: API
    paths: ["/**"]
    method: [GET, POST]
    timeout: 1m
    headers: [{name: X-Node, value: "{{ get_variable('node') }}"}]
    auth: {type: none}
`

// site is two nodes behind a proxy, and the API behind them. All addresses are those of the files of deploy/, but of a network of the
// loopback in place of 10.0.0.
type site struct {
	t       *testing.T
	dir     string
	network string
	nodes   [2]*exec.Cmd
	// names are the names of the nodes, another one at each start.
	names  [2]string
	starts int
	// clients are by method. Those of GETs use a connection once: on another one, net/http would itself repeat a GET that failed.
	clients map[string]*http.Client
	api     *api
}

// api answers requests with the name of the node that has sent them. Requests for /held wait for the release.
type api struct {
	arrivals chan arrival
	release  chan struct{}
	// nodes has the names of the nodes that have sent a request.
	nodes sync.Map
}

type arrival struct{ method, node string }

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	node := r.Header.Get("X-Node")
	a.nodes.Store(node, nil)
	if r.URL.Path == "/held" {
		a.arrivals <- arrival{r.Method, node}
		<-a.release
	}
	_, _ = fmt.Fprint(w, node)
}

// program builds keywright for all tests.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "proxies")
	if err != nil {
		return "", err
	}
	command := exec.Command("go", "build", "-o", dir, "./cmd/keywright")
	command.Dir = "../.."
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return filepath.Join(dir, "keywright"), nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := program(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// newSite starts two nodes, which accept callers for drain seconds after SIGTERM.
func newSite(t *testing.T, drain string) *site {
	t.Helper()
	random := make([]byte, 2)
	testworld.Must(rand.Read(random))(t)
	s := &site{
		t: t, dir: t.TempDir(), network: fmt.Sprintf("127.%d.%d.", random[0], random[1]),
		api: &api{arrivals: make(chan arrival, 100), release: make(chan struct{})},
	}
	server := httptest.NewServer(s.api)
	t.Cleanup(server.Close)
	s.write("connectors.yaml", strings.Replace(connectors, "API", server.URL, 1))
	for i := range s.nodes {
		s.start(i, drain)
	}
	return s
}

func (s *site) write(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	testworld.Check(s.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// start starts a node, and waits until it listens.
func (s *site) start(i int, drain string) {
	s.t.Helper()
	s.starts++
	name := fmt.Sprintf("node%d-%d", i, s.starts)
	address := s.network + strconv.Itoa(11+i)
	node := exec.Command(testworld.Must(program())(s.t), "serve", "-c", filepath.Join(s.dir, "connectors.yaml"), "--dev", "--var", "node="+name,
		"--listen", address+":8080", "--admin", address+":8081", "--drain-delay", drain)
	out := testworld.Must(node.StdoutPipe())(s.t)
	testworld.Check(s.t, node.Start())
	s.t.Cleanup(func() { _ = node.Process.Kill(); _ = node.Wait() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "operators: ") {
			s.nodes[i], s.names[i] = node, name
			return
		}
	}
	s.t.Fatalf("a node does not start: %v", node.Wait())
}

// configuration writes a file of deploy/ with the addresses and the certificate of the site.
func (s *site) configuration(name string, replacements ...string) string {
	s.t.Helper()
	authority := testworld.NewAuthority(s.t)
	certificate := authority.Server()
	der := testworld.Must(x509.MarshalPKCS8PrivateKey(certificate.PrivateKey))(s.t)
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	private := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	replacements = append(replacements, "10.0.0.", s.network,
		"/etc/haproxy/gateway.pem", s.write("gateway.pem", string(public)+string(private)),
		"/etc/nginx/gateway.crt", s.write("gateway.crt", string(public)), "/etc/nginx/gateway.key", s.write("gateway.key", string(private)))
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", s.network+"10:8443")
	}
	trusted := &tls.Config{RootCAs: authority.Pool(), ServerName: "localhost"}
	s.clients = map[string]*http.Client{
		http.MethodGet:  {Transport: &http.Transport{DialContext: dial, TLSClientConfig: trusted, DisableKeepAlives: true}},
		http.MethodPost: {Transport: &http.Transport{DialContext: dial, TLSClientConfig: trusted, MaxIdleConnsPerHost: 20}},
	}
	text := testworld.Must(os.ReadFile("../../../deploy/" + name))(s.t)
	return strings.NewReplacer(replacements...).Replace(string(text))
}

// haproxy runs HAProxy. The command ends when it listens, and leaves it running.
func haproxy(s *site) {
	file := s.write("haproxy.cfg", s.configuration("haproxy.cfg", "bind :443", "bind "+s.network+"10:8443"))
	pid := filepath.Join(s.dir, "pid")
	if out, err := exec.CommandContext(s.t.Context(), "/usr/sbin/haproxy", "-D", "-f", file, "-p", pid).CombinedOutput(); err != nil {
		s.t.Fatalf("haproxy does not run (make deps installs it): %v: %s", err, out)
	}
	number := testworld.Must(strconv.Atoi(strings.TrimSpace(string(testworld.Must(os.ReadFile(pid))(s.t)))))(s.t)
	s.t.Cleanup(func() { testworld.Check(s.t, syscall.Kill(number, syscall.SIGTERM)) })
}

// nginx runs nginx as haproxy does.
func nginx(s *site) {
	text := "master_process off; pid " + s.dir + "/pid; error_log " + s.dir + "/log;\nevents {}\nhttp {\naccess_log off;\n"
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		text += name + "_temp_path " + s.dir + "/" + name + ";\n"
	}
	file := s.write("nginx.conf", text+s.configuration("nginx.conf", "listen 443", "listen "+s.network+"10:8443")+"}\n")
	run := func(args ...string) {
		command := exec.Command("/usr/sbin/nginx", append([]string{"-e", s.dir + "/log", "-p", s.dir, "-c", file}, args...)...)
		if out, err := command.CombinedOutput(); err != nil {
			s.t.Errorf("nginx does not run (make deps installs it): %v: %s", err, out)
		}
	}
	run()
	s.t.Cleanup(func() { run("-s", "stop") })
}

// send sends a request through the proxy, and returns an error unless the API has answered.
func (s *site) send(method, path string) error {
	r, err := http.NewRequestWithContext(s.t.Context(), method, "https://gateway.example.com/connectors/orders"+path, nil)
	if err != nil {
		return err
	}
	response, err := s.clients[method].Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, path, response.Status)
	}
	return nil
}

// call has four callers send requests with these methods until end is called or the test ends. A request that fails is an error.
func (s *site) call(methods ...string) (end func()) {
	var callers sync.WaitGroup
	var stop atomic.Bool
	var requests atomic.Int64
	for range 4 {
		callers.Go(func() {
			for !stop.Load() {
				for _, method := range methods {
					requests.Add(1)
					if err := s.send(method, "/now"); err != nil && s.t.Context().Err() == nil {
						s.t.Error(err)
						return
					}
				}
			}
		})
	}
	end = sync.OnceFunc(func() {
		stop.Store(true)
		callers.Wait()
		s.t.Logf("%d requests", requests.Load())
	})
	s.t.Cleanup(end)
	return end
}

// restart ends a node, starts it again, and waits until the proxy uses it.
func (s *site) restart(i int, drain string) {
	s.t.Helper()
	testworld.Check(s.t, s.nodes[i].Process.Signal(syscall.SIGTERM))
	testworld.Check(s.t, s.nodes[i].Wait())
	s.start(i, drain)
	s.await(i)
}

// await waits until the API has a request of a node.
func (s *site) await(i int) {
	s.t.Helper()
	for {
		if _, found := s.api.nodes.Load(s.names[i]); found {
			return
		}
		testworld.Check(s.t, s.send(http.MethodGet, "/now"))
	}
}

// crash kills a node while GETs and POSTs of callers wait for the API behind it. The proxy repeats these GETs, and no POST.
func (s *site) crash(i int) {
	s.t.Helper()
	name := s.names[i]
	var callers sync.WaitGroup
	failures := make(chan error, 100)
	counts := map[arrival]int{}
	var posts int
	for counts[arrival{http.MethodGet, name}] == 0 || counts[arrival{http.MethodPost, name}] == 0 {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			callers.Go(func() {
				if err := s.send(method, "/held"); err != nil && method == http.MethodGet {
					failures <- err
				}
			})
			counts[<-s.api.arrivals]++
		}
		posts++
	}
	testworld.Check(s.t, s.nodes[i].Process.Kill())
	_ = s.nodes[i].Wait()
	for range counts[arrival{http.MethodGet, name}] {
		select {
		case a := <-s.api.arrivals:
			counts[a]++
		case err := <-failures:
			s.t.Error(err)
		}
	}
	close(s.api.release)
	callers.Wait()
	total := len(s.api.arrivals)
	for a, n := range counts {
		if a.method == http.MethodPost {
			total += n
		}
	}
	if total != posts {
		s.t.Errorf("the API got %d of %d POSTs, want each once", total, posts)
	}
}

// threats.md 576: no request fails while one node after the other restarts, and no GET when a node crashes. No POST is sent twice. nginx does
// not know that a node is about to end, so only its GETs count.
func TestProxies(t *testing.T) {
	for _, proxy := range []struct {
		name, drain string
		start       func(*site)
		methods     []string
	}{
		{"haproxy", "3s", haproxy, []string{http.MethodGet, http.MethodPost}},
		{"nginx", "0s", nginx, []string{http.MethodGet}},
	} {
		t.Run(proxy.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, proxy.drain)
			proxy.start(s)
			end := s.call(proxy.methods...)
			for i := range s.nodes {
				s.restart(i, proxy.drain)
			}
			end()
			end = s.call(http.MethodGet)
			s.crash(0)
			s.start(0, proxy.drain)
			s.await(0)
			end()
		})
	}
}
