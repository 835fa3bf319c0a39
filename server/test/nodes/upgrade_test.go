package nodes

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
)

var (
	requests = flag.Int("requests", 20_000, "the number of requests during upgrades")
	// previous is "" until there is a release: no commit before this rule starts beside a newer schema, and so the one before is made, too,
	// by taking the newest migration away. Afterwards it is the last tag.
	previous = flag.String("previous", "", "the commit of the previous version; without one, it is made of this one")
)

const (
	// redeemer is a grant that gets few of the requests. In a long test, its access tokens are not cached, so that each request redeems, and
	// kills meet redemptions. Then the grant waits for ten seconds. The access tokens of the others are cached for a second.
	redeemer = 0
	// long is the number of requests of a long test, and of each time that all versions are rolled.
	long = 100_000
)

const migrations = "../../statedb/internal/sqlstate/migrations"

// version is a version of the command.
type version struct {
	name, program, dir string
	overlay            map[string]string
}

// versions builds the previous version, this one, and the next one. The next one has one more migration that adds, and one that removes
// that again, since no version removes anything yet. schema is the schema of the next one.
func versions(t *testing.T) (all [3]version, schema int) {
	t.Helper()
	dir := testworld.Must(filepath.Abs(migrations))(t)
	names := testworld.Must(filepath.Glob(dir + "/*.sql"))(t)
	newest := names[len(names)-1]
	testworld.Must(fmt.Sscanf(filepath.Base(newest), "%d_", &schema))(t)
	schema++
	temporary := t.TempDir()
	expand, contract := filepath.Join(temporary, "expand.sql"), filepath.Join(temporary, "contract.sql")
	testworld.Check(t, os.WriteFile(expand, []byte("-- +goose Up\nALTER TABLE state_rows ADD COLUMN next BIGINT NOT NULL DEFAULT 0;\n"), 0o600))
	testworld.Check(t, os.WriteFile(contract, []byte("ALTER TABLE state_rows DROP COLUMN next;\n"), 0o600))
	name := fmt.Sprintf("%05d_next.sql", schema)
	all = [3]version{
		{name: "previous", dir: "../..", overlay: map[string]string{newest: ""}},
		{name: "current", dir: "../.."},
		{name: "next", dir: "../..", overlay: map[string]string{filepath.Join(dir, name): expand, filepath.Join(dir, "contract", name): contract}},
	}
	if *previous != "" {
		tree := filepath.Join(temporary, "tree")
		git(t, "worktree", "add", "--detach", tree, *previous)
		t.Cleanup(func() { git(t, "worktree", "remove", "--force", tree) })
		all[0].dir, all[0].overlay = filepath.Join(tree, "server"), nil
	}
	var builds sync.WaitGroup
	var failed [3]error
	for i := range all {
		all[i].program = filepath.Join(temporary, all[i].name)
		builds.Go(func() { failed[i] = build(all[i].program, all[i].dir, all[i].overlay) })
	}
	builds.Wait()
	testworld.Check(t, errors.Join(failed[:]...))
	return all, schema
}

func git(t *testing.T, arguments ...string) {
	t.Helper()
	if out, err := exec.Command("git", arguments...).CombinedOutput(); err != nil {
		t.Errorf("git %s: %v: %s", strings.Join(arguments, " "), err, out)
	}
}

// upgrade is a cluster with callers that choose a node as a load balancer does.
type upgrade struct {
	*cluster
	mu      sync.Mutex
	changed *sync.Cond
	// addresses are those of the nodes that get requests, or "".
	addresses [nodes]string
	// doomed has the addresses of nodes that are killed, and killed is the time of the last kill.
	doomed map[string]bool
	killed time.Time
	// waits has the grants whose holder was killed. They get no requests until all nodes serve them again. renewed has those with a new
	// consent since.
	waits, renewed [grants]bool
	position       int
	over           bool

	served, misses, died, uncertain, consented int
	failures                                   []string
}

// choose returns the next node and grant by turns. more is not set if no more requests are wanted.
func (u *upgrade) choose() (address string, grant int, more bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for !u.over {
		for range nodes * grants {
			u.position++
			turn := u.position / nodes
			address, grant = u.addresses[u.position%nodes], turn%grants
			if grant == redeemer && turn%50 > grants {
				continue
			}
			if address != "" && !u.waits[grant] {
				return address, grant, true
			}
		}
		u.changed.Wait()
	}
	return "", 0, false
}

// request sends requests until no more are wanted. One that was not answered with 200 is sent again.
func (u *upgrade) request() {
	for {
		address, grant, more := u.choose()
		if !more {
			return
		}
		status, body, err := u.get(address, grant)
		u.judge.mu.Lock()
		decided := u.judge.decided[grant]
		u.judge.mu.Unlock()
		u.mu.Lock()
		var operation *net.OpError
		switch {
		case err == nil && status == http.StatusOK:
			u.served++
		case errors.As(err, &operation) && operation.Op == "dial":
			u.misses++
			for i := range u.addresses {
				if u.addresses[i] == address {
					u.addresses[i] = ""
				}
			}
		case u.doomed[address]:
			u.died++
		case status == http.StatusServiceUnavailable && u.killed.After(decided) && strings.Contains(body, `"stage":"token"`): // not yet again
			u.uncertain++
			u.waits[grant] = true
		default:
			u.failures = append(u.failures, fmt.Sprintf("grant %d: %d %s, %v", grant, status, body, err))
		}
		u.mu.Unlock()
	}
}

// send sets the address of a node that gets requests, or "".
func (u *upgrade) send(node int, address string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.addresses[node] = address
	u.changed.Broadcast()
}

// await waits until a number of requests were served.
func (u *upgrade) await(n int) {
	u.t.Helper()
	every := time.NewTicker(50 * time.Millisecond)
	defer every.Stop()
	for idle, last := 0, 0; ; <-every.C {
		u.mu.Lock()
		served, waits := u.served, u.waits
		u.mu.Unlock()
		if idle++; served > last {
			idle = 0
		}
		if last = served; served >= n && (n < *requests || waits == [grants]bool{}) {
			return
		}
		if idle > 1200 {
			u.t.Fatalf("no request was served for a minute, and these grants wait: %v", waits)
		}
		for grant, waits := range waits {
			if waits {
				u.mend(grant)
			}
		}
	}
}

// mend ends the wait of a grant if all nodes serve it, and renews it if it is lost.
func (u *upgrade) mend(grant int) {
	for _, node := range u.running {
		if status, _ := u.call(node.address, grant); status != http.StatusOK {
			if u.readLogs(); u.lost[grant] && !u.renewed[grant] {
				u.renew(grant)
				u.renewed[grant] = true
				u.consented++
			}
			return
		}
	}
	u.readLogs()
	u.lost[grant], u.renewed[grant] = false, false
	u.mu.Lock()
	defer u.mu.Unlock()
	u.waits[grant] = false
	u.changed.Broadcast()
}

// replace ends a node as an operator does, and starts another version. Callers leave the node out when it is no longer ready.
func (u *upgrade) replace(node int, v version) {
	u.t.Helper()
	p := u.running[node]
	u.signal(node, syscall.SIGTERM)
	for status := http.StatusOK; status == http.StatusOK; {
		response := testworld.Must(u.client.Get(p.operators + "/readyz"))(u.t)
		_ = response.Body.Close()
		status = response.StatusCode
	}
	u.send(node, "")
	<-p.ended
	if state := p.command.ProcessState; !state.Success() {
		u.t.Errorf("a node that gets SIGTERM ends with %s", state)
	}
	u.begin(node, v)
}

// crash kills a node, whose callers learn that by themselves, and starts its version again.
func (u *upgrade) crash(node int, v version) {
	u.t.Helper()
	u.mu.Lock()
	u.doomed[u.running[node].address] = true
	u.mu.Unlock()
	u.kill(node)
	u.mu.Lock()
	u.killed = time.Now()
	u.mu.Unlock()
	u.begin(node, v)
}

func (u *upgrade) begin(node int, v version) {
	u.t.Helper()
	starts := u.started
	u.programs[node] = v.program
	if u.start(node); u.started != starts+1 {
		u.t.Errorf("%s starts at the %dth time", v.name, u.started-starts)
	}
	u.send(node, u.running[node].address)
}

// contract runs state migrate --contract.
func (u *upgrade) contract(v version) (out string, err error) {
	text, err := exec.Command(v.program, "state", "migrate", "--contract", "-c", u.file, "--secrets-dir", u.secrets, "--dev").CombinedOutput()
	return string(text), err
}

// Nodes go from a version to the next and back, one at a time, while callers send requests. In each mixture one is killed, and starts
// again beside the other version and the newest schema. No request fails, but for those in flight at a node that is killed, and those for
// a grant whose holder was killed until it is served again. No refresh token is sent after an answer that was kept, which the provider
// takes for theft. What older versions need stays until they have ended (threats.md 562).
func TestUpgrades(t *testing.T) {
	all, schema := versions(t)
	u := &upgrade{cluster: prepare(t, ""), doomed: map[string]bool{}}
	u.changed = sync.NewCond(&u.mu)
	u.judge.seconds, u.drainDelay = [grants]int{61, 61, 61, 61, 61}, 200*time.Millisecond
	if *requests >= long {
		u.judge.seconds[redeemer] = 60
	}
	u.write("state-url", u.direct)
	const callers = 16
	u.client.Transport = &http.Transport{MaxIdleConnsPerHost: callers}
	old, current, next := all[0], all[1], all[2]
	for i := range nodes {
		u.begin(i, old)
	}
	began := time.Now()
	var work sync.WaitGroup
	for range callers {
		work.Go(u.request)
	}
	path := []version{old, current, next, current, old}
	steps, rolls := 0, max(1, *requests/long)
	total := rolls*(len(path)-1)*(nodes+1) + 1
	step := func() {
		steps++
		u.await(*requests * steps / total)
	}
	for range rolls {
		for i, v := range path[1:] {
			for node := range nodes {
				step()
				u.replace(node, v)
				if node == 0 {
					step()
					u.crash(nodes-1, path[i])
				}
			}
		}
	}
	step()
	u.mu.Lock()
	u.over = true
	u.changed.Broadcast()
	u.mu.Unlock()
	work.Wait()
	u.report(time.Since(began))
	u.contracts(old, next, schema)
}

func (u *upgrade) report(d time.Duration) {
	u.judge.mu.Lock()
	defer u.judge.mu.Unlock()
	u.t.Logf("%d requests were served in %s, and %d failed; %d met a node that was not there, %d were in flight at a node that was killed, "+
		"%d had a grant whose holder was killed, of which %d got a new consent; of %d redemptions, the provider refused %d; %d starts",
		u.served, d.Round(time.Second), len(u.failures), u.misses, u.died, u.uncertain, u.consented, u.judge.redeemed, u.judge.reused, u.started)
	for _, text := range append(u.failures, u.judge.faults...) {
		u.t.Error(text + u.cause(text))
	}
	if u.judge.reused > u.consented {
		u.t.Error("the provider has taken a token for stolen, and no holder of it was killed")
	}
}

// cause returns the lines of the logs that have the X-Request-Id of a failure.
func (u *upgrade) cause(failure string) (lines string) {
	_, id, found := strings.Cut(failure, `"request_id":"`)
	if !found {
		return ""
	}
	id, _, _ = strings.Cut(id, `"`)
	for i := range u.started {
		text := testworld.Must(os.ReadFile(u.logOf(i + 1)))(u.t)
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, id) {
				lines += "\n" + line
			}
		}
	}
	return lines
}

// contracts removes what older versions need, once their nodes have ended.
func (u *upgrade) contracts(old, next version, schema int) {
	out, err := u.contract(next)
	if want := fmt.Sprintf("nothing is removed, because programs of a schema below %d run", schema); err == nil || !strings.Contains(out, want) {
		u.t.Errorf("beside older nodes: %s, %v, want %q", out, err, want)
	}
	for i := range nodes {
		u.signal(i, syscall.SIGTERM)
		<-u.running[i].ended
	}
	out, err = u.contract(next)
	if want := fmt.Sprintf("schema %d, for programs of schema %d and later\n", schema, schema); err != nil || !strings.HasSuffix(out, want) {
		u.t.Errorf("without older nodes: %s, %v, want %q", out, err, want)
	}
	u.programs[0] = old.program
	command := testworld.Must(u.command(0))(u.t)
	text, err := command.CombinedOutput()
	if want := fmt.Sprintf("they have to know schema %d, and this program knows those up to ", schema); err == nil || !strings.Contains(string(text), want) {
		u.t.Errorf("an older node: %s, %v, want %q", text, err, want)
	}
	u.begin(0, next)
	for grant := range grants {
		if status, body := u.call(u.running[0].address, grant); status != http.StatusOK {
			u.t.Errorf("grant %d: %d %s", grant, status, body)
		}
	}
}
