package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/serve/daemon"
)

// faulty has a connector for each fault. It may reach 127.0.0.1, and no other private address.
const faulty = `
egress: {allow: [127.0.0.1]}
state: {type: sqlite, path: state.db, keys: ["{{ get_secret('state-key') }}"]}
connectors:
  - {name: wrong-secret, url: $API, auth: {type: oauth_client_credentials, config: {client_id: me, client_secret: "{{ get_secret('client') }}", token_url: $API/token/wrong-secret}}}
  - {name: wrong-audience, url: $API, auth: {type: oauth_client_credentials, config: {client_id: me, client_secret: "{{ get_secret('client') }}", token_url: $API/token/wrong-audience}}}
  - {name: expired-certificate, url: "https://127.0.0.1:1", auth: {type: none}, tls: {certificate: "{{ get_secret('certificate') }}", key: "{{ get_secret('certificate-key') }}"}}
  - {name: clock-off, url: $API, auth: {type: oauth_jwt_bearer, config: {client_id: me, subject: me, audience: '$API', algorithm: EdDSA, private_key: "{{ get_secret('signing-key') }}", token_url: $API/token/clock-off}}}
  - {name: key-of-the-wrong-type, url: $API, auth: {type: oauth_jwt_bearer, config: {client_id: me, subject: me, audience: '$API', algorithm: RS256, private_key: "{{ get_secret('signing-key') }}", token_url: $API/token}}}
  - {name: scope-missing, url: $API/scope-missing, auth: {type: oauth_client_credentials, config: {client_id: me, client_secret: "{{ get_secret('client') }}", token_url: $API/token}}}
  - {name: token-endpoint-down, url: $API, auth: {type: oauth_client_credentials, config: {client_id: me, client_secret: "{{ get_secret('client') }}", token_url: $DOWN/token}}}
  - {name: address-refused, url: "http://10.1.2.3", auth: {type: api_key, config: {key: X-Key, value: "{{ get_secret('client') }}", in: header}}}
  - {name: plugin-out-of-fuel, url: $API, query: [$QUERY], auth: {type: oauth1, config: {consumer_key: me, consumer_secret: "{{ get_secret('client') }}"}}}
  - {name: grant-revoked, url: $API, auth: {type: oauth_refresh_token, config: {client_id: me, client_secret: "{{ get_secret('client') }}", refresh_token: "{{ get_secret('refresh') }}", token_url: $API/token/grant-revoked}}}
  - {name: reason-of-its-own, url: $API, auth: {type: oauth_client_credentials, config: {client_id: me, client_secret: "{{ get_secret('client') }}", token_url: $API/token/reason-of-its-own}}}
`

// faultyAnswer answers as an API and a token endpoint that are asked wrongly.
func faultyAnswer(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, code string) {
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"error": %q}`, code)
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/token":
		_, _ = io.WriteString(w, `{"access_token": "a-token-of-the-endpoint", "token_type": "Bearer", "expires_in": 3600}`)
	case "/token/wrong-secret":
		refuse(http.StatusUnauthorized, "invalid_client")
	case "/token/wrong-audience":
		refuse(http.StatusBadRequest, "invalid_target")
	case "/token/clock-off":
		w.Header().Set("Date", time.Now().Add(-2*time.Hour).UTC().Format(http.TimeFormat))
		refuse(http.StatusBadRequest, "invalid_grant")
	case "/token/grant-revoked":
		refuse(http.StatusBadRequest, "invalid_grant")
	case "/token/reason-of-its-own":
		refuse(http.StatusBadRequest, "tenant_is_asleep")
	case "/scope-missing":
		w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope"`)
		w.WriteHeader(http.StatusForbidden)
	}
}

// faultyGateway runs a gateway with the connectors of faulty, and returns its URLs.
func faultyGateway(t *testing.T, canaries *testworld.Canaries) (callers, operators string) {
	t.Helper()
	api, down := httptest.NewServer(http.HandlerFunc(faultyAnswer)), httptest.NewServer(nil)
	t.Cleanup(api.Close)
	down.Close()
	secrets := host.MapSecrets{
		"client": canaries.Word("the client secret"), "refresh": canaries.Word("the refresh token"), "state-key": base64.StdEncoding.EncodeToString([]byte("0123456789abcdefghijklmnopqrstuv")),
		"signing-key": canaries.Key(t, "ed"),
	}
	secrets["certificate"], secrets["certificate-key"] = testworld.NewAuthority(t).Client("gateway", time.Now().Add(-time.Hour))
	var query []string
	for i := range 90 {
		query = append(query, fmt.Sprintf("{name: a%d, value: %s}", i, strings.Repeat("x", 100)))
	}
	text := strings.NewReplacer("$API", api.URL, "$DOWN", down.URL, "$QUERY", strings.Join(query, ", ")).Replace(faulty)
	config := daemon.Config{
		File: testworld.File(t, "connectors.yaml", text), Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
		Options: connectors.Options{Host: host.Config{Secrets: secrets, Egress: host.Egress{AllowHTTP: true}, Limits: host.Limits{Fuel: 500_000}}},
	}
	callers, operators, _ = testworld.Serve(t, &config.Started, func(ctx context.Context) error { return daemon.Run(ctx, config) })
	return callers, operators
}

// getPage returns the text of a page, without tags and with single blanks.
func getPage(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url) //nolint:gosec // of this test
	testworld.Check(t, err)
	defer response.Body.Close()
	body := testworld.Must(io.ReadAll(response.Body))(t)
	return strings.Join(strings.Fields(html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(string(body), " "))), " ")
}

// For each of ten planted faults, and for an answer of no standard, keywright test and the console name the cause and the remedy in words.
func TestFaultRemedies(t *testing.T) {
	canaries := testworld.NewCanaries(t)
	callers, operators := faultyGateway(t, canaries)
	for connector, want := range map[string]struct{ cause, remedy string }{
		"wrong-secret":          {"invalid_client", "The client id or its secret is wrong, or the server wants it in another place: compare both with those at the product, look for blanks, and try another client_auth, if the auth type has it: keywright test --client-auth both does."},
		"wrong-audience":        {"invalid_target", "The audience or resource is wrong: compare it with the one that the product names for the API."},
		"expired-certificate":   {"the certificate ended at", "store a renewed one, with its key, or set the clock."},
		"clock-off":             {"invalid_grant", "The clocks differ: this machine's is 2 h ahead of that of the token endpoint. Set the one that is wrong, with NTP."},
		"key-of-the-wrong-type": {"private_key", "The key cannot sign: the cause says whether it is damaged"},
		"scope-missing":         {"403 Forbidden", "The token lacks a scope: add the one that this request needs to the connector's scope."},
		"token-endpoint-down":   {"connection refused", "The token endpoint cannot be reached: is its URL right, and is it up?"},
		"address-refused":       {"10.1.2.3", "The address is not allowed: if it is the right one, add its range to egress.allow."},
		"plugin-out-of-fuel":    {"units of fuel", "The plugin ran out of fuel: raise limits.fuel of the plugin"},
		"grant-revoked":         {"the grant", "The grant was revoked or has ended: run keywright connect, or configure a new refresh token"},
		"reason-of-its-own":     {"400", "The token endpoint refuses the request, for a reason of its own: keywright test --error-description shows what it says."},
	} {
		t.Run(connector, func(t *testing.T) {
			response, err := http.Get(callers + "/connectors/" + connector) //nolint:gosec // of this test
			testworld.Check(t, err)
			_ = response.Body.Close()
			_, _, errs := keywright(t.Context(), "test", "--admin", operators, connector)
			canaries.Out("keywright test", errs)
			page := getPage(t, operators+"/connectors/"+connector)
			canaries.Out("the console", page)
			why, _, _ := strings.Cut(page, "The request, secrets masked")
			for where, text := range map[string]string{"keywright test": errs, "the console": why} {
				if !strings.Contains(text, want.cause) || !strings.Contains(text, want.remedy) {
					t.Errorf("%s says\n%s", where, text)
				}
			}
		})
	}
}

// keywright request names the remedy below its error.
func TestFailedRequestRemedy(t *testing.T) {
	file := testworld.File(t, "connectors.yaml", "connectors:\n  - {name: inside, url: 'https://10.1.2.3', auth: {type: none}}\n")
	code, _, errs := keywright(t.Context(), "request", "-c", file, "inside", "")
	if !strings.Contains(errs, "keywright: The address is not allowed: if it is the right one, add its range to egress.allow.\n") || code != exitFailure {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// keywright request says what to do about an answer of the API that is a refusal.
func TestARefusalOfTheAPIHasARemedy(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope"`)
		w.WriteHeader(http.StatusForbidden)
	}))
	defer api.Close()
	file := testworld.File(t, "connectors.yaml", "connectors:\n  - {name: orders, url: '"+api.URL+"', auth: {type: none}}\n")
	code, _, errs := keywright(t.Context(), "request", "--dev", "-c", file, "orders", "")
	if !strings.Contains(errs, "\nThe token lacks a scope: add the one that this request needs") || code != exitOK {
		t.Errorf("exit %d, %s", code, errs)
	}
}
