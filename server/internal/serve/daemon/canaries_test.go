package daemon_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/serve/daemon"
)

// answering returns a server that answers as a function says, and hides the credentials of the requests.
func answering(c *testworld.Canaries, answer testworld.Answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		sent := http.Header{}
		for name, values := range r.Header {
			if name == "Authorization" || name == "Dpop" || name == "Signature" || strings.HasPrefix(name, "X-") {
				sent[name] = values
			}
		}
		c.HideSent(testworld.Request{Header: sent}, "")
		response, err := answer(r)
		if err != nil {
			panic(err)
		}
		maps.Copy(w.Header(), response.Header)
		w.WriteHeader(response.StatusCode)
		_, _ = io.Copy(w, response.Body)
		_ = response.Body.Close()
	}
}

// threats.md 18, 181: whatever becomes of a request, no credential is in the answer to the caller, in the log, in the metrics, in the
// traces or in the audit log, for any auth type. Nor does the audit log have the query or more than the pattern of the path.
func TestNoCanaryComesOutOfTheGateway(t *testing.T) {
	c := testworld.NewCanaries(t)
	collected, collector := collect(t)
	issuing := httptest.NewServer(answering(c, c.Issued(time.Now)))
	t.Cleanup(issuing.Close)
	refusing := httptest.NewServer(answering(c, testworld.Refused))
	t.Cleanup(refusing.Close)

	var text strings.Builder
	log := filepath.Join(t.TempDir(), "audit.log")
	fmt.Fprintf(&text, "gateway: {traces: %q, audit: {file: %q}}\nconnectors:\n", collector.URL+"/v1/traces", log)
	types := slices.DeleteFunc(slices.Sorted(maps.Keys(testworld.AuthTypes(issuing.URL))), func(name string) bool {
		return name == "oauth_authorization_code" // which sends nothing before a user has given consent
	})
	for name, server := range map[string]*httptest.Server{"issued": issuing, "refused": refusing} {
		configs := testworld.AuthTypes(server.URL + "/token")
		for i, authType := range types {
			auth := testworld.Must(json.Marshal(map[string]any{"type": authType, "config": configs[authType]}))(t)
			fmt.Fprintf(&text, "  - {name: %s %d, url: API/%s, paths: [/notes/*], query: [{name: q, value: '', overridable: true}], auth: %s}\n", name, i, authType, auth)
		}
	}
	var answer atomic.Pointer[testworld.Answer]
	w := start(t, answering(c, func(r *http.Request) (*http.Response, error) { return (*answer.Load())(r) }), text.String(), func(config *daemon.Config) {
		config.Options.Host.State = memoryState(t)
		config.Options.Host.Secrets = host.MapSecrets{"s": c.Secret("the secret"), "seed": c.Secret("the refresh token"), "rsa": c.Key(t, "rsa"), "ed": c.Key(t, "ed")}
	})
	w.Canaries = c
	var asked testworld.Canaries // of the callers, who may get them back
	failed := map[string]int{}
	for _, api := range []struct {
		name   string
		answer testworld.Answer
	}{{"success", testworld.Respond(http.StatusOK, "well")}, {"echo", testworld.Refused}, {"challenge", c.Challenged()}} {
		answer.Store(&api.answer)
		for i, authType := range types {
			for _, endpoint := range []string{"issued", "refused"} {
				status, body := w.get(fmt.Sprintf("%s/connectors/%s-%d/notes/%s?q=%s", w.callers, endpoint, i, asked.Word("a path"), asked.Word("a query")))
				if status == http.StatusBadGateway {
					failed[api.name+", "+endpoint]++
				} else if api.name == "success" && (status != http.StatusOK || body != "well") {
					t.Errorf("%s, %s: status = %d body = %s", authType, endpoint, status, body)
				}
			}
		}
	}
	// Ten types need what an endpoint issues. All but none, and digest without a challenge, send a credential, which is repeated.
	want := map[string]int{"success, refused": 10, "echo, issued": len(types) - 2, "echo, refused": len(types) - 2, "challenge, issued": len(types) - 1, "challenge, refused": len(types) - 1}
	if !maps.Equal(failed, want) {
		t.Errorf("these failed: %v, want %v", failed, want)
	}
	_, page := w.get(w.operators + "/metrics")
	w.stop()
	w.Out("the traces", string(collected.bytes))
	uses := map[any]int{}
	for _, line := range auditLines(t, log) {
		uses[line["use"]]++
		if line["use"] == "request" && line["pattern"] != "/notes/*" {
			t.Errorf("the line is %v", line)
		}
	}
	lines, err := os.ReadFile(log)
	w.Out("the audit log", string(lines))
	asked.Out("the audit log", string(lines))
	for _, leak := range asked.Leaks() {
		t.Error(leak)
	}
	if err != nil || uses["request"] != 3*2*len(types) || uses["token"] < 10 {
		t.Errorf("the uses are %v, %v", uses, err)
	}
	if n := strings.Count(page, "keywright_request_seconds_count{"); n != 2*len(types) || len(collected.all) < 6*len(types) {
		t.Errorf("there are metrics of %d connectors, and %d spans", n, len(collected.all))
	}
}
