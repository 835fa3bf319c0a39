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
		e.served++
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
	answers, addresses := map[int]int{}, [nodes]string{}
	for i := range nodes {
		addresses[i] = c.running[i].address
		queue := make(chan bool, requests)
		for range requests {
			queue <- true
		}
		close(queue)
		for range callers {
			work[i].Go(func() {
				for range queue {
					for status := 0; status != http.StatusOK; {
						mu.Lock()
						address := addresses[i]
						mu.Unlock()
						status = c.order(address)
						mu.Lock()
						answers[status]++
						mu.Unlock()
						if status == 0 { // the node was killed
							time.Sleep(100 * time.Millisecond)
						}
					}
				}
			})
		}
	}
	for _, i := range []int{1, 2, wrong} {
		judge.await(requests / 2)
		c.kill(i)
		c.start(i)
		mu.Lock()
		addresses[i] = c.running[i].address
		mu.Unlock()
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
	served := func() int {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.served
	}
	for goal, tries := served()+n, 0; served() < goal && tries < 2000; tries++ {
		time.Sleep(10 * time.Millisecond)
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
