package host_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
)

// A consent goes to the endpoints that the issuer names. If a node cannot learn them, a user can still disconnect: the grant is
// forgotten, and the error says that the server has not revoked it.
func TestConsentByDiscovery(t *testing.T) {
	s := &issuer{codes: map[string]bool{"the-first-code": true}, spent: map[string]bool{}}
	down := false
	c := newCluster(t, func(r *http.Request) (*http.Response, error) {
		switch {
		case r.Method == http.MethodPost:
			return s.answer(r)
		case down:
			return status(http.StatusServiceUnavailable)(r)
		}
		return respond(http.StatusOK, `{"issuer":"https://login.test","authorization_endpoint":"https://login.test/authorize",`+
			`"token_endpoint":"https://login.test/token","revocation_endpoint":"https://login.test/revoke"}`)(r)
	})
	change := []any{
		"authorization_url", "{{ discover('https://login.test', 'authorization_endpoint') }}", "token_url", discoverToken,
		"revocation_url", "{{ discover('https://login.test', 'revocation_endpoint') }}",
	}
	w, connector := consents(c, change...)
	target, err := connector.BeginConsent(forUser(t, alice), host.ConsentRequest{RedirectURI: redirectURI, Binding: binding})
	if err != nil || !strings.HasPrefix(target, "https://login.test/authorize?") {
		t.Fatalf("the browser goes to %s: %v", target, err)
	}
	if err := finish(t, w, connector, alice, back(begin(t, connector, alice), "the-first-code")); err != nil {
		t.Fatal(err)
	}
	if got := w.send(connector, get(forUser(t, alice))).Header.Get("Authorization"); !strings.HasPrefix(got, "Bearer access-token-") {
		t.Errorf("the API gets %q", got)
	}
	var counted []host.Attempt
	for _, call := range w.calls {
		if call.Consent {
			counted = append(counted, host.Attempt{Exchanges: call.Exchanges, Discoveries: call.Discoveries})
		}
	}
	if want := []host.Attempt{{Discoveries: 1}, {}, {Exchanges: 1}}; !slices.Equal(counted, want) { // two begin, and one ends
		t.Errorf("Observe is called with %+v, want %+v", counted, want)
	}

	down = true
	world, other := consents(c, change...)
	var metadata *host.DiscoveryError
	if _, err := other.BeginConsent(forUser(t, bob), host.ConsentRequest{RedirectURI: redirectURI, Binding: binding}); !errors.As(err, &metadata) {
		t.Errorf("the error of a consent is %v", err)
	}
	if err := other.Disconnect(forUser(t, alice)); !errors.Is(err, host.ErrNotRevoked) || !errors.As(err, &metadata) {
		t.Errorf("the error of Disconnect is %v", err)
	}
	if n := len(world.calls); n != 2 || world.calls[0].Discoveries != 1 || world.calls[0].Err == nil || !world.calls[1].Consent {
		t.Errorf("Observe is called %d times: %+v", n, world.calls)
	}
	if found, err := other.Connection(forUser(t, alice)); err != nil || found.Condition != host.ConditionNotConnected {
		t.Errorf("the connection is %v, %v", found, err)
	}
}
