package nodes

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// exchange is an API with Kraken's rule: it refuses a request whose nonce is not above the last one.
type exchange struct {
	mu       sync.Mutex
	last     int64
	served   int
	refusals []string
	// goal is the number of served requests at which reached is closed, unless that is nil.
	goal    int
	reached chan bool
}

const exchangeKey = "a2V5IG9mIGFuIGFjY291bnQgYXQgdGhlIGV4Y2hhbmdl"

func (e *exchange) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	form, formErr := url.ParseQuery(string(body))
	nonce, numberErr := strconv.ParseInt(form.Get("nonce"), 10, 64)
	key, _ := base64.StdEncoding.DecodeString(exchangeKey)
	inner, mac := sha256.Sum256([]byte(form.Get("nonce")+string(body))), hmac.New(sha512.New, key)
	mac.Write([]byte(r.URL.Path + string(inner[:])))
	sign := base64.StdEncoding.EncodeToString(mac.Sum(nil))
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case err != nil: // a node was killed while it sent the body
		return
	case formErr != nil || numberErr != nil || sign != r.Header.Get("API-Sign"):
		e.refusals = append(e.refusals, fmt.Sprintf("the signature of %s is not that of the request", body))
	case nonce <= e.last:
		e.refusals = append(e.refusals, fmt.Sprintf("the nonce %d comes after %d", nonce, e.last))
	default:
		e.last = nonce
		if e.served++; e.served == e.goal {
			close(e.reached)
		}
		return
	}
	w.WriteHeader(http.StatusForbidden)
}

// Three nodes, one of which has a clock that is wrong, send 500 requests each to an API that refuses a number that is not above the last. Nodes
// are killed meanwhile. The API refuses none. (threats.md 504, 505)
func TestRisingNumbers(t *testing.T) {
	const requests, callers = 500, 20
	judge := &exchange{}
	server := httptest.NewServer(judge)
	t.Cleanup(server.Close)
	c := newCluster(t, fmt.Sprintf(`  - name: exchange
    url: %s/0/private/AddOrder
    timeout: 10s
    method: POST
    auth:
      type: signature
      config:
        secret: "{{ get_secret('exchange') }}"
        secret_encoding: base64
        algorithm: SHA-512
        form: {nonce: "{counter}"}
        parts: {inner: "{counter}{body}"}
        message: "{path}{inner|sha256}"
        encoding: base64
        key: API-Sign
`, server.URL))
	var work [nodes]sync.WaitGroup
	var mu sync.Mutex
	changed := sync.NewCond(&mu)
	answers, addresses := map[int]int{}, [nodes]string{}
	address := func(i int) string { // of a node that runs
		mu.Lock()
		defer mu.Unlock()
		for addresses[i] == "" {
			changed.Wait()
		}
		return addresses[i]
	}
	setAddress := func(i int, address string) {
		mu.Lock()
		defer mu.Unlock()
		addresses[i] = address
		changed.Broadcast()
	}
	for i := range nodes {
		setAddress(i, c.running[i].address)
		queue := make(chan bool, requests)
		for range requests {
			queue <- true
		}
		close(queue)
		for range callers {
			work[i].Go(func() {
				for range queue {
					for status := 0; status != http.StatusOK; {
						status = c.order(address(i)) // 0 if the node was killed
						mu.Lock()
						answers[status]++
						mu.Unlock()
					}
				}
			})
		}
	}
	for _, i := range []int{1, 2, wrong} {
		judge.await(requests / 2)
		setAddress(i, "")
		c.kill(i)
		c.start(i)
		setAddress(i, c.running[i].address)
	}
	for i := range work {
		work[i].Wait()
	}
	judge.mu.Lock()
	defer judge.mu.Unlock()
	t.Logf("the API served %d requests, and the callers got %v", judge.served, answers)
	for _, text := range judge.refusals {
		t.Error(text)
	}
	if judge.served < nodes*requests {
		t.Errorf("the API served %d requests", judge.served)
	}
}

// await waits until the exchange has served n more requests, or twenty seconds are over.
func (e *exchange) await(n int) {
	reached := make(chan bool)
	e.mu.Lock()
	e.goal, e.reached = e.served+n, reached
	e.mu.Unlock()
	select {
	case <-reached:
	case <-time.After(20 * time.Second):
	}
}

// order sends a request for the exchange to a node, and returns the status, or 0.
func (c *cluster) order(address string) int {
	r, err := http.NewRequest(http.MethodPost, address+"/connectors/exchange", strings.NewReader("pair=XBTUSD"))
	if err != nil {
		return 0
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("X-User", owners[0].user)
	r.Header.Set("X-Tenant", owners[0].tenant)
	response, err := c.client.Do(r)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return response.StatusCode
}
