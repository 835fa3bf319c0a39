package signatures

import (
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

// A signature covers the token and the parameter that earlier authentications of a list have put in, and verifiers by others agree.
func TestSignatureBehindAToken(t *testing.T) {
	private, public := keyPair(t, "ed25519")
	w := newSigner(t, "httpsignature", host.MapSecrets{"k": private, "token": "a-token-0123456789", "p": "a b&c/d"}, "apikey")
	var requests []signed
	for _, components := range []string{
		"(x-token @method @path @authority)", `(@query "@query-param";name="key")`, "(@target-uri x-token x-mine)", "(@request-target x-token)",
	} {
		r := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.test/sell?q=1", strings.NewReader("{}")))(t)
		r.Header.Set("X-Mine", "1")
		received := w.sendWith(r,
			host.Auth{Type: "api_key", Config: map[string]any{"key": "X-Token", "value": "{{ get_secret('token') }}", "in": "header"}},
			host.Auth{Type: "api_key", Config: map[string]any{"key": "key", "value": "{{ get_secret('p') }}", "in": "query"}},
			host.Auth{Type: "http_signature", Config: map[string]any{"private_key": "{{ get_secret('k') }}", "algorithm": "ed25519", "components": components}},
		)
		received.Judge, received.Algorithm, received.Key = "http-message-signatures", "ed25519", public
		changed := received
		changed.Headers = received.Headers.Clone()
		changed.Headers.Set("X-Token", "another")
		changed.URL = strings.Replace(received.URL, "key=a", "key=b", 1)
		requests = append(requests, received, changed)
	}
	for i, verdict := range verify(t, requests) {
		if (verdict == "valid") != (i%2 == 0) {
			t.Errorf("%s: requests[%d] = %+v", verdict, i, requests[i])
		}
	}
}
