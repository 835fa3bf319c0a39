package signatures

import (
	"cmp"
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

// A proof of a key (DPoP) and a signature stand in one request, and verifiers of each agree. The order decides what the signature covers: the
// token and its proof, if it is behind them. One in front of them cannot name them.
func TestSignatureAndProof(t *testing.T) {
	private, public := keyPair(t, "ed25519")
	w := newSigner(t, "httpsignature", host.MapSecrets{"k": private, "c": "the-secret-of-a-client"}, "dpop")
	proof := host.Auth{Type: "dpop", Config: map[string]any{"token_url": "https://login.test/token", "client_id": "me", "client_secret": "{{ get_secret('c') }}"}}
	signature := func(components string) host.Auth {
		return host.Auth{Type: "http_signature", Config: map[string]any{"private_key": "{{ get_secret('k') }}", "algorithm": "ed25519", "components": components}}
	}
	send := func(auths ...host.Auth) signed {
		received := w.sendWith(testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.test/sell?q=1", strings.NewReader("{}")))(t), auths...)
		received.Algorithm, received.Key = "ed25519", public
		return received
	}
	const covers = "(authorization dpop @method @target-uri)"
	signatureLast, proofLast := send(proof, signature(covers)), send(signature("(@method @target-uri)"), proof)
	cases := []struct {
		signed
		judge, header, url string
		want               bool
	}{
		{signatureLast, "http-message-signatures", "", "", true},
		{signatureLast, "http-message-signatures", "Dpop", "", false},
		{signatureLast, "http-message-signatures", "Authorization", "", false},
		{signatureLast, "dpop", "", "", true},
		{signatureLast, "dpop", "Authorization", "", false},
		{signatureLast, "dpop", "", "https://api.test/buy", false},
		{proofLast, "http-message-signatures", "", "", true},
		{proofLast, "http-message-signatures", "Dpop", "", true},
		{proofLast, "http-message-signatures", "", "https://api.test/buy", false},
		{proofLast, "dpop", "", "", true},
	}
	requests := make([]signed, len(cases))
	for i, c := range cases {
		judged := c.signed
		judged.Judge, judged.URL, judged.Headers = c.judge, cmp.Or(c.url, judged.URL), judged.Headers.Clone()
		if c.header != "" {
			judged.Headers.Set(c.header, "another")
		}
		requests[i] = judged
	}
	for i, verdict := range verify(t, requests) {
		if (verdict == "valid") != cases[i].want {
			t.Errorf("%s: requests[%d] = %+v", verdict, i, requests[i])
		}
	}
	connector := testworld.Must(w.host.NewConnector(t.Context(), host.ConnectorConfig{Name: "api", Origins: []string{"https://api.test"}, Auth: []host.Auth{signature(covers), proof}}))(t)
	_, err := connector.Transport(w).RoundTrip(testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.test/sell", strings.NewReader("{}")))(t))
	testworld.WantError(t, "a signature of what is not there yet", err, "auth[0]")
}
