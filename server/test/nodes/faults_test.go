package nodes

import (
	"context"
	"flag"
	"math/rand"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
)

var (
	rounds = flag.Int("rounds", 0, "the number of rounds; 0 is one of each fault")
	seed   = flag.Int64("seed", 1, "the seed of the faults")
)

// fault is something that fails during a round. It returns once that is over.
type fault struct {
	name string
	run  func(c *cluster, random *rand.Rand)
}

var faults = []fault{
	{"nothing", func(*cluster, *rand.Rand) {}},
	{"a node is killed", func(c *cluster, random *rand.Rand) {
		i := random.Intn(nodes)
		c.kill(i)
		c.start(i)
	}},
	{"a node is stopped for longer than a lease", func(c *cluster, random *rand.Rand) {
		i := random.Intn(nodes)
		c.signal(i, syscall.SIGSTOP)
		c.judge.goes() // now, since others send again before the node goes on
		time.Sleep(lease + lease/2)
		c.signal(i, syscall.SIGCONT)
	}},
	{"the database restarts", func(c *cluster, _ *rand.Rand) {
		testworld.Check(c.t, c.database.Restart(func() {}))
	}},
	{"the connections to the database are cut", func(c *cluster, random *rand.Rand) {
		c.proxy.Stop()
		time.Sleep(time.Duration(random.Intn(500)) * time.Millisecond)
		testworld.Check(c.t, c.proxy.Start())
	}},
	{"the database is slow", func(c *cluster, _ *rand.Rand) {
		toxic := `{"name":"slow","stream":"downstream","type":"latency","attributes":{"latency":300,"jitter":200}}`
		testworld.Must(c.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)))(c.t)
		time.Sleep(time.Second)
		testworld.Check(c.t, c.proxy.Toxics.RemoveToxic(context.Background(), "slow"))
	}},
	{"the endpoint redeems and is cut before it answers", during(cuts)},
	{"the endpoint answers 503", during(refuses)},
	{"the endpoint hangs", during(hangs)},
}

// during returns a fault of the token endpoint, for a short while.
func during(m mode) func(*cluster, *rand.Rand) {
	return func(c *cluster, random *rand.Rand) {
		c.judge.setMode(m)
		time.Sleep(time.Duration(random.Intn(300)) * time.Millisecond)
		c.judge.setMode(forwards)
	}
}

// Whatever fails, no two requests with tokens of a grant are on their way at once, none follows an answer that was kept, a grant is lost
// only if an answer was, and never at a server that does not rotate, unless it may not be sent again. No request reaches the API without the credential of its own grant, and a
// grant that is lost is reported, and works again after a new consent. Afterwards no secret, user or tenant
// is in the database. (threats.md 107, 109, 124, 300)
func TestFaults(t *testing.T) {
	c := newCluster(t, "")
	random := rand.New(rand.NewSource(*seed))
	total, lost, failed := *rounds, 0, 0
	if total == 0 {
		total = len(faults)
	}
	var recovered []time.Duration
	for round := range total {
		f := faults[round%len(faults)]
		wait := c.crowd(2)
		time.Sleep(time.Duration(random.Intn(40)) * time.Millisecond)
		f.run(c, random)
		over := time.Now()
		wait()
		for grant := range grants {
			for node := range nodes {
				renewed := c.recover(node, grant, f.name)
				lost += renewed
			}
		}
		recovered = append(recovered, time.Since(over))
		c.judge.mu.Lock()
		for _, text := range c.judge.faults[failed:] {
			t.Errorf("round %d, %s, seed %d: %s", round, f.name, *seed, text)
		}
		failed = len(c.judge.faults)
		c.judge.mu.Unlock()
		if t.Failed() {
			break
		}
	}
	c.searchDatabase()
	slices.Sort(recovered)
	c.judge.mu.Lock()
	defer c.judge.mu.Unlock()
	t.Logf("%d rounds with %d redemptions, %d tokens were sent again, %d grants were reported lost; all served again after %s at p50, %s at worst",
		total, c.judge.redeemed, c.judge.again, lost, recovered[len(recovered)/2], recovered[len(recovered)-1])
	for i, o := range owners {
		t.Logf("%s: lost %d times, %s", connectorOf(i), c.judge.consents[i]-1, o.policy)
	}
}

// recover waits until a node serves a grant again, and returns 1 if that took a new consent. A grant that is lost must be
// reported in the answer or the log of the node.
func (c *cluster) recover(node, grant int, fault string) (renewed int) {
	c.t.Helper()
	status, body := 0, ""
	for range 600 {
		if status, body = c.call(c.running[node].address, grant); status == 200 {
			c.readLogs()
			c.lost[grant] = false // a node reads the token before for a second after a consent, and reports its loss again
			return renewed
		}
		if c.readLogs(); renewed == 0 && c.lost[grant] {
			c.renew(grant)
			renewed = 1
		}
		time.Sleep(100 * time.Millisecond)
	}
	log, err := os.ReadFile(c.running[node].log)
	c.t.Fatalf("after %s, grant %d is not served by node %d: %d %s\n%s%v", fault, grant, node, status, body, log, err)
	return renewed
}
