package host_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
)

// Rules of docs/specification.md without a decision about details.

// specification.md 3.10.
func TestSpec_jwt_is_signed_on_every_request(t *testing.T) {
	w := newWorld(t)
	w.canary("k")
	c := w.connect("jwt", signed("HS256", config{"iat": "{{ now() }}", "exp": "{{ now(60) }}", "sub": "{{ user.email }}"}))
	for i := range 3 {
		got := w.send(c, get(ann(t.Context()))).Header.Values("Authorization")
		if len(got) != 1 || !strings.HasPrefix(got[0], "Bearer ") {
			t.Fatalf("Authorization is there %d times", len(got))
		}
		_, claims := decodeJWT(t, got[0])
		if claims["iat"] != float64(start.Unix()+int64(i)) || claims["exp"] != float64(start.Unix()+int64(i)+60) || claims["sub"] != "ann@example.com" {
			t.Errorf("request %d has the claims %v", i, claims)
		}
		w.Advance(1e9)
	}
	if w.login.Count() != 0 {
		t.Error("a token was requested")
	}
}

// specification.md 3.18: the default of algorithm is RS256.
func TestSpec_algorithm_default(t *testing.T) {
	key, _ := keyFor(t, "RS256")
	w := newWorld(t)
	w.setSecret("k", key)
	w.hideKey(key)
	header, _ := decodeJWT(t, w.get(w.connect("jwt", with(signed("", config{}), "algorithm", nil))).Header.Get("Authorization"))
	w.get(w.connect("oauth_jwt_bearer", with(bearer("{{ get_secret('k') }}"), "algorithm", nil)))
	assertion, _ := decodeJWT(t, w.login.Last().Form().Get("assertion"))
	if header["alg"] != "RS256" || assertion["alg"] != "RS256" {
		t.Errorf("the algorithms are %v and %v", header["alg"], assertion["alg"])
	}
}

// specification.md 3.6, 3.13, 3.14, 3.15 and 4.1: exact fields and claims.
func TestSpec_token_requests(t *testing.T) {
	w := newWorld(t)
	secret := w.canary("s")
	check := func(names ...string) map[string][]string {
		t.Helper()
		e := w.login.Last()
		if e.Method != http.MethodPost || e.URL != tokenURL || e.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
			t.Errorf("e.Method = %s e.URL = %s, Get = %s", e.Method, e.URL, e.Header.Get("Content-Type"))
		}
		var got []string
		for name, values := range e.Form() {
			if got = append(got, name); len(values) != 1 {
				t.Errorf("%s is there %d times", name, len(values))
			}
		}
		if slices.Sort(got); !slices.Equal(got, names) {
			t.Errorf("the form has %q, want %q", got, names)
		}
		return e.Form()
	}
	w.get(w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}")))
	if form := check("client_id", "client_secret", "grant_type"); form["grant_type"][0] != "client_credentials" ||
		form["client_id"][0] != "me" || form["client_secret"][0] != secret {
		t.Error("a field has another value")
	}
	w.get(w.connect("oauth_client_credentials", with(oauth("{{ get_secret('s') }}"), "scope", "a b")))
	check("client_id", "client_secret", "grant_type", "scope")

	got := w.get(w.connect("oauth_jwt_bearer", with(bearer("{{ get_secret('s') }}"), "additional_claims", config{"role": "admin"})))
	form := check("assertion", "grant_type")
	if !strings.Contains(w.login.Last().Body, "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&") {
		t.Error("the grant type is not the one of RFC 7523, URL-encoded")
	}
	_, claims := decodeJWT(t, form["assertion"][0])
	want := config{"aud": "https://login.test", "exp": 1700000180.0, "iat": 1700000000.0, "iss": "me", "role": "admin", "sub": "ann"}
	if !maps.Equal(claims, want) {
		t.Errorf("the claims are %v, want %v", claims, want)
	}
	if strings.Contains(fmt.Sprint(got.Header, got.URL), form["assertion"][0]) {
		t.Error("the assertion was sent to the API")
	}
}

// specification.md 3.8, 3.16 and 4.3: the states of an entry.
func TestSpec_states_of_the_token_cache(t *testing.T) {
	for _, c := range []struct {
		name, authType string
		config         config
		login          answer
	}{
		{"oauth_client_credentials: expires_in less 60 seconds", "oauth_client_credentials", oauth("{{ get_secret('s') }}"), tokens(3600)},
		{"oauth_jwt_bearer: token_ttl less 60 seconds", "oauth_jwt_bearer", with(bearer("{{ get_secret('s') }}"), "token_ttl", 3600), tokens(7200)},
		{"oauth_jwt_bearer: token_ttl is 3600 unless given", "oauth_jwt_bearer", bearer("{{ get_secret('s') }}"), tokens(7200)},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.login.Answer(c.login)
			connector := w.connect(c.authType, c.config)
			for _, step := range []struct {
				after time.Duration
				want  string
			}{
				{0, "t1"}, {0, "t1"}, {3539 * time.Second, "t1"}, {time.Second, "t2"}, {0, "t2"}, {3539 * time.Second, "t2"}, {time.Second, "t3"},
			} {
				w.Advance(step.after)
				if got := w.get(connector).Header.Get("Authorization"); got != "Bearer "+step.want {
					t.Fatalf("at %v Authorization is %q, want %s", w.Now().Sub(start), got, step.want)
				}
			}
			if w.login.Count() != 3 {
				t.Errorf("%d exchanges, want 3", w.login.Count())
			}
		})
	}
}

// specification.md 3.2, 3.3, 3.7 and 3.15: effects on the request, for the types without a test of their own.
func TestSpec_effects_on_the_request(t *testing.T) {
	w := newWorld(t)
	secret := w.canary("s")
	if got := w.get(w.connect("none", nil)); got.URL != apiURL || len(got.Header) != 0 {
		t.Errorf("none sent %s with %v, want the request as it was made", got.URL, got.Header)
	}
	if got := w.get(w.connect("api_key", key("{{ get_secret('s') }}"))); got.URL != apiURL || got.Header.Get("X-Key") != secret {
		t.Error("api_key in a header: it is not as specified")
	}
	for authType, c := range map[string]config{
		"oauth_client_credentials": oauth("{{ get_secret('s') }}"), "oauth_jwt_bearer": bearer("{{ get_secret('s') }}"),
	} {
		if got := w.get(w.connect(authType, c)); got.URL != apiURL || !slices.Equal(got.Header.Values("Authorization"), []string{"Bearer t1"}) {
			t.Errorf("%s sent %s with %q", authType, got.URL, got.Header.Values("Authorization"))
		}
	}
}

// specification.md 1.3 and 3.1: the five types, and which of their fields are required.
func TestSpec_configuration_objects(t *testing.T) {
	w := newWorld(t)
	want := map[string]string{
		"none":    "",
		"api_key": "key! value! in!",
		"oauth_client_credentials": "client_id! client_secret client_auth token_url! scope audience resource parameters " +
			"private_key algorithm jwt_headers assertion_ttl certificate client_assertion_audience token_type",
		"jwt": "private_key! algorithm claims! jwt_headers",
		"oauth_jwt_bearer": "client_id! private_key! token_url! subject! audience! token_ttl algorithm additional_claims jwt_headers assertion_ttl " +
			"token_type parameters client_secret client_auth certificate client_assertion_audience",
	}
	got := map[string]string{}
	for _, info := range w.host.Plugins() {
		var fields []string
		for _, f := range info.Fields {
			mark := ""
			if f.Required {
				mark = "!"
			}
			fields = append(fields, f.Name+mark)
		}
		got[info.Type] = strings.Join(fields, " ")
	}
	if !maps.Equal(got, want) {
		t.Errorf("the types are %v, want %v", got, want)
	}
}

// The cases of specification.md "api_key".

func TestDecision_APIKey_header_present_already_is_replaced(t *testing.T) {
	w := newWorld(t)
	secret := w.canary("k")
	c := w.connect("api_key", with(key("{{ get_secret('k') }}"), "key", "x-API-key"))
	r := get(t.Context())
	r.Header = http.Header{"X-Api-Key": {"a", "b"}, "x-api-key": {"c"}, "X-API-KEY": {"d"}, "X-Other": {"e"}}
	got := w.send(c, r).Header
	var values []string
	for name, v := range got {
		if strings.EqualFold(name, "X-Api-Key") {
			values = append(values, v...)
		}
	}
	if !slices.Equal(values, []string{secret}) || got.Get("X-Other") != "e" {
		t.Errorf("the header was sent %d times in all its spellings, want the secret once; X-Other is %q", len(values), got.Get("X-Other"))
	}
}

func TestDecision_APIKey_names_that_are_refused(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{
		"Host", "host", "Content-Length", "Transfer-Encoding", "Connection", "TE", "Trailer", "Upgrade", "Keep-Alive",
		"Proxy-Authorization", "proxy-connection", "Proxy-X", "X Key", "X:Key", "X\r\nY", "schlüssel", "X-Key\x00",
	} {
		if got := w.problems("api_key", with(key("v"), "key", name)); len(got) != 1 || !strings.HasPrefix(got[0], "auth.config.key: ") {
			t.Errorf("%q has the problems %q when loaded", name, got)
		}
		w.setSecret("name", name)
		w.refuse(w.connect("api_key", with(key("v"), "key", "{{ get_secret('name') }}")), get(t.Context()), host.StageMutation)
	}
	for _, name := range []string{"Host", "TE", "schlüssel"} { // a query parameter may have any name
		w.get(w.connect("api_key", config{"key": name, "value": "v", "in": "query"}))
	}
}

func TestDecision_APIKey_query_is_appended(t *testing.T) {
	w := newWorld(t)
	w.setSecret("k", "a b&c=d/ü+%")
	c := w.connect("api_key", config{"key": "api key", "value": "{{ get_secret('k') }}", "in": "query"})
	const appended = "api%20key=a%20b%26c%3Dd%2F%C3%BC%2B%25"
	for url, want := range map[string]string{
		apiURL:                            "?" + appended,
		apiURL + "?":                      "?" + appended,
		apiURL + "?a=1&api+key=mine":      "?a=1&api+key=mine&" + appended,
		apiURL + "?b=%7e&a;c=%zz&&x":      "?b=%7e&a;c=%zz&&x&" + appended,
		apiURL + "/%2e%2F%41?q=a%20b+c":   "/%2e%2F%41?q=a%20b+c&" + appended,
		apiURL + "?q={{get_secret('k')}}": "?q={{get_secret('k')}}&" + appended,
	} {
		r := must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
		if got := w.send(c, r).URL; got != apiURL+want {
			t.Errorf("%s was sent as %s, want %s", url, got, apiURL+want)
		}
	}
}

func TestDecision_APIKey_names_that_are_allowed(t *testing.T) {
	w := newWorld(t)
	secret := w.canary("k")
	for _, name := range []string{"Accept", "Cookie", "Authorization"} {
		r := get(t.Context())
		r.Header.Set(name, "mine")
		if got := w.send(w.connect("api_key", with(key("{{ get_secret('k') }}"), "key", name)), r).Header.Values(name); !slices.Equal(got, []string{secret}) {
			t.Errorf("%s was sent %d times, want the secret once", name, len(got))
		}
	}
}
