package digest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	auth "github.com/abbot/go-http-auth"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

// go-http-auth takes a count only if it is above the last of the nonce. With ordered, of 40 requests with 12 at once it refuses the first
// one alone, which has no challenge to answer. specification.md "the order of counts"
func TestOrdered(t *testing.T) {
	judge := auth.NewDigestAuthenticator("a savannah", func(user, realm string) string {
		return auth.H(user + ":" + realm + ":" + lion.Password)
	})
	judge.PlainTextSecrets = false
	var refusals, pages atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, _ := judge.CheckAuth(r); user != lion.User {
			refusals.Add(1)
			judge.RequireAuth(w, r)
			return
		}
		pages.Add(1)
		fmt.Fprint(w, Page)
	}))
	t.Cleanup(server.Close)
	h := testworld.Must(host.New(t.Context(), host.Config{
		Secrets: host.MapSecrets{"lion": lion.Password}, Egress: host.Egress{AllowHTTP: true},
		BuiltIns: []host.Plugin{}, Plugins: []host.Plugin{{Name: "digest.wasm", Wasm: testworld.Must(os.ReadFile("../../plugins/digest/digest.wasm"))(t)}},
	}))(t)
	t.Cleanup(func() { _ = h.Close(context.Background()) })
	connector := testworld.Must(h.NewConnector(t.Context(), host.ConnectorConfig{
		Name: "pages", Origins: []string{server.URL},
		Auth: []host.Auth{{Type: "digest", Config: map[string]any{"username": lion.User, "password": "{{ get_secret('lion') }}", "ordered": true}}},
	}))(t)
	client := &http.Client{Transport: connector.Transport(&http.Transport{MaxIdleConnsPerHost: 12})}
	const requests, together = 40, 12
	places := make(chan bool, together)
	var all sync.WaitGroup
	for range requests {
		places <- true
		all.Go(func() {
			defer func() { <-places }()
			response, err := client.Get(server.URL + "/lions")
			if err != nil {
				t.Error(err)
				return
			}
			_ = response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("status %d", response.StatusCode)
			}
		})
	}
	all.Wait()
	if refusals.Load() != 1 || pages.Load() != requests {
		t.Errorf("the judge refused %d requests, and let %d in", refusals.Load(), pages.Load())
	}
}
