package nodes

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
)

// freshness is the time within which all nodes know what one has done.
const freshness = 11 * time.Second

// broken is a connector whose API does not listen.
const broken = "  - {name: broken, url: 'http://127.0.0.1:9', auth: {type: none}}\n"

// await calls try until it returns "", and fails the test with what it returned last if that takes longer than a time.
func (c *cluster) await(d time.Duration, what string, try func() string) {
	c.t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	began, problem := time.Now(), ""
	for time.Since(began) < d {
		if problem = try(); problem == "" {
			c.t.Logf("%s took %s", what, time.Since(began).Round(time.Millisecond))
			return
		}
		<-tick.C
	}
	c.t.Errorf("%s failed: %s", what, problem)
}

// ask returns an answer of the operators' listener of a node.
func (c *cluster) ask(node int, path string) (status int, body string) {
	c.t.Helper()
	response := testworld.Must(c.client.Get(c.running[node].operators + path))(c.t)
	defer response.Body.Close()
	return response.StatusCode, string(testworld.Must(io.ReadAll(response.Body))(c.t))
}

// failure returns the request id of a request to the broken connector.
func (c *cluster) failure(node int) string {
	c.t.Helper()
	r := testworld.Must(http.NewRequestWithContext(c.t.Context(), http.MethodGet, c.running[node].address+"/connectors/broken", nil))(c.t)
	r.Header.Set("X-User", owners[0].user)
	r.Header.Set("X-Tenant", owners[0].tenant)
	response := testworld.Must(c.client.Do(r))(c.t)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusBadGateway {
		c.t.Errorf("the broken connector answers %d", response.StatusCode)
	}
	return response.Header.Get("X-Request-Id")
}

var totals = regexp.MustCompile(`(?m)^keywright_requests_total\{connector="([^"]+)".*\} (\d+)$`)

// Each node shows what all nodes do: its sums are those of their metrics, and a failure is found by its id at another node within 11 seconds,
// also after its own node was killed. Without the database a node shows itself alone, and says so. No secret, user, tenant or connector is in
// the database in clear.
func TestConsoleOfAllNodes(t *testing.T) {
	c := prepare(t, broken)
	program := filepath.Join(t.TempDir(), "keywright")
	testworld.Check(t, build(program, "../..", nil))
	for i := range c.running {
		c.programs[i] = program
		c.start(i)
	}
	c.crowd(3)()
	id := c.failure(0)
	c.await(freshness, "finding a failure at another node", func() string {
		if status, body := c.ask(1, "/api/v1/requests/"+id); status != http.StatusOK || !strings.Contains(body, `"connector":"broken"`) {
			return fmt.Sprint(status, " ", body)
		}
		return ""
	})
	c.await(freshness, "the sum of all nodes", func() string {
		sums := map[string]int{}
		for node := range c.running {
			_, metrics := c.ask(node, "/metrics")
			for _, match := range totals.FindAllStringSubmatch(metrics, -1) {
				n, _ := strconv.Atoi(match[2]) // the pattern has digits
				sums[match[1]] += n
			}
		}
		var list struct {
			Items []struct {
				Permalink   string `json:"permalink"`
				QuarterHour struct {
					Requests int `json:"requests"`
				} `json:"quarter_hour"`
			} `json:"items"`
		}
		_, body := c.ask(2, "/api/v1/connectors?limit=100")
		testworld.Check(t, json.Unmarshal([]byte(body), &list))
		for _, one := range list.Items {
			if one.QuarterHour.Requests != sums[one.Permalink] {
				return fmt.Sprintf("%s has %d requests, and %d in the metrics of all nodes", one.Permalink, one.QuarterHour.Requests, sums[one.Permalink])
			}
			delete(sums, one.Permalink)
		}
		if len(list.Items) != grants+1 || len(sums) > 1 { // requests that named no connector
			return fmt.Sprintf("there are %d connectors, and more in the metrics: %v", len(list.Items), sums)
		}
		return ""
	})
	c.kill(0)
	if status, body := c.ask(1, "/requests/"+id); status != http.StatusOK || !strings.Contains(body, "broken") {
		t.Errorf("after its node was killed, the failure is answered %d %s", status, body)
	}
	c.start(0)
	if status, _ := c.ask(0, "/requests/"+id); status != http.StatusOK {
		t.Errorf("after its restart, the node answers %d", status)
	}
	c.proxy.Stop()
	c.await(freshness, "a console without the database", func() string {
		if status, body := c.ask(1, "/"); status != http.StatusOK || !strings.Contains(body, "this process only") {
			return fmt.Sprint(status, " ", body)
		}
		return ""
	})
	if c.failure(1) == "" {
		t.Error("without the database, an answer has no request id")
	}
	testworld.Check(t, c.proxy.Start())
	c.searchDatabase()
}
