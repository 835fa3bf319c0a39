package nodes

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/postgrestest"
	"github.com/keywright/keywright/server/internal/secretstore"
	"github.com/keywright/keywright/server/internal/serve/daemon"
)

const (
	nodes = 3
	// lease is the shortest that the file may have.
	lease = 3 * time.Second
)

// cluster is nodes with one PostgreSQL, which they reach through a proxy that can fail.
type cluster struct {
	t        *testing.T
	judge    *judge
	database *postgrestest.Server
	// direct is the URL of the database, which the proxy does not fail.
	direct string
	proxy  *toxiproxy.Proxy
	// programs are the commands of the nodes. Without one, a node is a process of this test with a clock that is wrong.
	programs [nodes]string
	file     string
	secrets  string
	running  [nodes]*process
	started  int
	// skewed counts the starts of the node whose clock is wrong.
	skewed int
	// lost is set for the grants that a node has reported lost since their last consent.
	lost   [grants]bool
	client http.Client
	// drainDelay is the time for which a node serves after SIGTERM.
	drainDelay time.Duration
}

// The policies of grants: what a node and the provider do with a token whose answer was lost.
const (
	rotates = "sent again, at a server that rotates"
	never   = "never sent again, at a server that rotates"
	stays   = "sent again, at a server that does not rotate"
)

// owners are the users and tenants of the requests for each grant, the template of its refresh token, the file in the directory
// of the secrets that has the token, and the policy. The first grant is of a user, the second of a tenant, and the others of all.
var owners = [grants]struct{ user, tenant, seed, file, policy string }{
	{"ann-4f2c91d7", "acme-07be5a13", "get_secret('seed', 'user')", "users/ann-4f2c91d7/seed", rotates},
	{"bob-a86e3350", "zenith-c41d92f8", "get_secret('seed', 'tenant')", "tenants/zenith-c41d92f8/seed", rotates},
	{"eve-19d0c7b4", "initech-63f8e02b", "get_secret('seed')", "seed", rotates},
	{"fay-7be2a015", "umbrella-9d0c44e1", "get_secret('never')", "never", never},
	{"gus-30c8f6d2", "hooli-5e17b8a3", "get_secret('stays')", "stays", stays},
}

// process is a running node.
type process struct {
	command *exec.Cmd
	// address is the URL for callers, and operators that for operators.
	address, operators string
	// log is the path of the log.
	log string
	// read is the number of bytes of the log that readLogs has read.
	read  int
	ended chan struct{}
}

// newCluster starts the nodes. more has further connectors of their file, which may have the secret exchange.
func newCluster(t *testing.T, more string) *cluster {
	t.Helper()
	c := prepare(t, more)
	program := filepath.Join(t.TempDir(), "keywright")
	testworld.Check(t, build(program, "../..", nil))
	for i := range c.running {
		if i != wrong {
			c.programs[i] = program
		}
	}
	for i := range c.running {
		c.start(i)
	}
	return c
}

// build builds the command of the module in dir. overlay has the files that stand for others of it, or "" for those that are not there.
func build(program, dir string, overlay map[string]string) error {
	text, err := json.Marshal(map[string]any{"Replace": overlay})
	if err == nil {
		err = os.WriteFile(program+".json", text, 0o600)
	}
	if err != nil {
		return err
	}
	command := exec.Command("go", "build", "-overlay", program+".json", "-o", program, "./cmd/keywright")
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// prepare starts all but the nodes.
func prepare(t *testing.T, more string) *cluster {
	t.Helper()
	dir := t.TempDir()
	c := &cluster{t: t, judge: newJudge(t), file: filepath.Join(dir, "connectors.yaml"), secrets: filepath.Join(dir, "secrets")}
	c.client.Timeout = time.Minute
	address := c.startDatabase()
	testworld.Check(t, os.Mkdir(c.secrets, 0o700))
	c.write("client", c.judge.Hide("the client secret", clientSecret))
	c.write("state-url", address)
	c.write("state-key", c.judge.Hide("the state key", base64.StdEncoding.EncodeToString([]byte("a state key of 32 bytes, for all"))))
	c.write("exchange", c.judge.Hide("the key of the exchange", exchangeKey))
	text := "gateway: {user: {type: header, header: {proxies: [127.0.0.1/32], id: X-User, tenant_id: X-Tenant}}}\nconnectors:\n" + more
	for i, o := range owners {
		c.judge.Hide("the name of a connector", connectorOf(i))
		c.judge.Hide("a user", o.user)
		c.judge.Hide("a tenant", o.tenant)
		c.renew(i)
		text += fmt.Sprintf(`  - name: %[1]s
    url: %[2]s/%[1]s
    timeout: 10s
    auth:
      type: oauth_refresh_token
      config: {client_id: %[3]s, client_secret: "{{ get_secret('client') }}", refresh_token: "{{ %[4]s }}", token_url: %[5]s/token}
`, connectorOf(i), c.judge.api.URL, clientOf(i), o.seed, c.judge.login.URL)
		if o.policy == never {
			text += "    resend: never\n"
		}
	}
	text += fmt.Sprintf(`state: {type: postgres, url: "{{ get_secret('state-url') }}", keys: "{{ get_secret('state-key') }}", lease: %s}`+"\n", lease)
	testworld.Check(t, os.WriteFile(c.file, []byte(text), 0o600))
	return c
}

// startDatabase starts PostgreSQL and returns its URL through the proxy.
func (c *cluster) startDatabase() string {
	c.t.Helper()
	c.database = testworld.Must(postgrestest.Start())(c.t)
	c.t.Cleanup(func() { _ = c.database.Stop() })
	address := testworld.Must(c.database.Database(c.t.Context()))(c.t)
	c.direct = address
	direct := testworld.Must(url.Parse(address))(c.t)
	behind := relay(c.t, filepath.Join(direct.Query().Get("host"), ".s.PGSQL.5432"))
	c.proxy = toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), "database", "127.0.0.1:0", behind)
	testworld.Check(c.t, c.proxy.Start())
	c.t.Cleanup(c.proxy.Stop)
	direct.Host, direct.RawQuery = c.proxy.Listen, "sslmode=disable"
	return direct.String()
}

// relay forwards connections to a Unix socket, for the proxy, which knows TCP only. It returns its address.
func relay(t *testing.T, socket string) string {
	t.Helper()
	listener := testworld.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("unix", socket)
			if err != nil {
				_ = in.Close()
				continue
			}
			for _, ends := range [][2]net.Conn{{in, out}, {out, in}} {
				go func() {
					_, _ = io.Copy(ends[0], ends[1])
					_, _ = in.Close(), out.Close()
				}()
			}
		}
	}()
	return listener.Addr().String()
}

// write writes a secret.
func (c *cluster) write(name, value string) {
	c.t.Helper()
	path := filepath.Join(c.secrets, name)
	testworld.Check(c.t, os.MkdirAll(filepath.Dir(path), 0o700))
	testworld.Check(c.t, os.WriteFile(path+".new", []byte(value), 0o600))
	testworld.Check(c.t, os.Rename(path+".new", path))
}

// renew configures the refresh token of a new consent.
func (c *cluster) renew(grant int) {
	c.lost[grant] = false
	c.write(owners[grant].file, c.judge.consent(grant))
}

// start starts a node, and waits until it listens. While the database is away, it starts it again.
func (c *cluster) start(i int) {
	c.t.Helper()
	for range 50 {
		c.started++
		p := &process{log: c.logOf(c.started), ended: make(chan struct{})}
		log := testworld.Must(os.Create(p.log))(c.t)
		p.command = testworld.Must(c.command(i))(c.t)
		p.command.Stderr = log
		out := testworld.Must(p.command.StdoutPipe())(c.t)
		testworld.Check(c.t, p.command.Start())
		lines := bufio.NewScanner(out)
		for p.operators == "" && lines.Scan() {
			switch name, address, _ := strings.Cut(lines.Text(), ": "); name {
			case "callers":
				p.address = strings.TrimSuffix(address, "/connectors/")
			case "operators":
				p.operators = strings.TrimSuffix(address, "/readyz")
			}
		}
		go func() {
			_, _ = io.Copy(io.Discard, out)
			_ = p.command.Wait()
			_ = log.Close()
			close(p.ended)
		}()
		if p.operators != "" {
			c.running[i] = p
			c.t.Cleanup(func() { _ = p.command.Process.Kill(); <-p.ended })
			return
		}
		<-p.ended
	}
	c.t.Fatal("a node does not start")
}

// logOf returns the path of the log of a start.
func (c *cluster) logOf(start int) string {
	return filepath.Join(filepath.Dir(c.file), fmt.Sprint("log", start))
}

// readLogs takes from the logs of the nodes which grants are lost.
func (c *cluster) readLogs() {
	c.t.Helper()
	for _, p := range c.running {
		text := testworld.Must(os.ReadFile(p.log))(c.t)
		for line := range strings.Lines(string(text[p.read:])) {
			for grant := range grants {
				if strings.Contains(line, "may be lost, because its token was sent") && strings.Contains(line, connectorOf(grant)) {
					c.lost[grant] = true
				}
			}
		}
		p.read = len(text)
	}
}

// kill ends a node as a crash does.
func (c *cluster) kill(i int) {
	_ = c.running[i].command.Process.Kill()
	<-c.running[i].ended
	c.judge.goes()
}

func (c *cluster) signal(i int, s syscall.Signal) {
	c.t.Helper()
	testworld.Check(c.t, c.running[i].command.Process.Signal(s))
}

// call sends a request to a node. It returns the status, which is 0 if there was no answer, and the body.
func (c *cluster) call(address string, grant int) (status int, body string) {
	status, body, err := c.get(address, grant)
	if err != nil {
		return 0, err.Error()
	}
	return status, body
}

// get is call with the error if there was no answer.
func (c *cluster) get(address string, grant int) (status int, body string, err error) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, address+"/connectors/"+connectorOf(grant), nil)
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("X-User", owners[grant].user)
	r.Header.Set("X-Tenant", owners[grant].tenant)
	response, err := c.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// crowd sends requests of some callers for each grant to each node, and returns a function that waits for their answers.
func (c *cluster) crowd(callers int) (wait func()) {
	var all sync.WaitGroup
	for _, node := range c.running {
		address := node.address
		for i := range grants * callers {
			all.Go(func() { c.call(address, i%grants) })
		}
	}
	return all.Wait
}

const (
	// wrong is the node whose clock is wrong.
	wrong = 0
	// skew is added to its time, and at each second start subtracted.
	skew = 2 * time.Minute
	// clockEnv is set in a process of this test that is a node. Its value is added to the time.
	clockEnv = "KEYWRIGHT_TEST_CLOCK"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(clockEnv); text != "" {
		if err := serve(text, os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// command returns the command that runs a node. A Go program takes the time from the kernel, where nothing but the kernel can
// change it for a single process. So the node whose clock is wrong is this test, with the daemon that keywright serve runs.
func (c *cluster) command(i int) (*exec.Cmd, error) {
	if program := c.programs[i]; program != "" {
		return exec.Command(program, "serve", "-c", c.file, "--secrets-dir", c.secrets, "--dev", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--drain-delay", c.drainDelay.String()), nil
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	off := skew
	if c.skewed++; c.skewed%2 == 0 {
		off = -skew
	}
	command := exec.Command(program, c.file, c.secrets)
	command.Env = append(os.Environ(), clockEnv+"="+off.String())
	return command, nil
}

// serve does what keywright serve does, with a clock that is wrong.
func serve(off, file, secrets string) error {
	d, err := time.ParseDuration(off)
	if err != nil {
		return err
	}
	clock := func() time.Time { return time.Now().Add(d) }
	logger := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	files := secretstore.Dir(secrets, clock)
	return daemon.Run(context.Background(), daemon.Config{
		File: file, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Logger: logger,
		Options: connectors.Options{First: files, Host: host.Config{
			Secrets: files, Clock: clock, Logger: logger, Egress: host.Egress{AllowHTTP: true, AllowPrivate: true},
		}},
		Started: func(callers, operators string) {
			fmt.Printf("callers: %s/connectors/\noperators: %s/readyz\n", callers, operators)
		},
	})
}

// searchDatabase fails the test if a dump of the database has a secret, a token, a user, a tenant or the name of a connector in
// any encoding. Then it writes a token into the database, and fails the test unless that is found.
func (c *cluster) searchDatabase() {
	c.t.Helper()
	for _, leak := range c.leaks("a dump of the database") {
		c.t.Error(leak)
	}
	db := testworld.Must(sql.Open("pgx", c.direct))(c.t)
	defer db.Close()
	token := base64.StdEncoding.EncodeToString([]byte("a token: " + c.judge.consent(0)))
	testworld.Must(db.Exec(`INSERT INTO state_rows (id, fence, generation, value) VALUES ($1, 1, 1, $2)`, []byte("planted"), []byte(token)))(c.t)
	found := c.leaks("a dump with a token")
	if !slices.ContainsFunc(found, func(leak string) bool {
		return leak == "a dump with a token holds a refresh token of a consent, in base64 from byte 0 on"
	}) {
		c.t.Errorf("a token in the database is not found: %q", found)
	}
}

// leaks returns a line for each secret that is in a dump of the database.
func (c *cluster) leaks(where string) []string {
	c.t.Helper()
	dump := testworld.Must(postgrestest.Dump(context.Background(), c.direct))(c.t)
	c.judge.Out(where, dump)
	return c.judge.Leaks()
}
