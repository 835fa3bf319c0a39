package host_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

const (
	loginIssuer   = "https://login.test"
	loginDocument = `{"issuer":"https://login.test","token_endpoint":"https://login.test/token"}`
	discoverToken = "{{ discover('https://login.test', 'token_endpoint') }}"
)

// errGone is the error of a network that is not there.
var errGone = errors.New("the network of the test is gone")

// metadata returns the answers of an authorization server: a document at the place of RFC 8414, tokens at the paths that begin with
// /token, and 404 elsewhere.
func metadata(document string) answer {
	issue := tokens(7200)
	return func(r *http.Request) (*http.Response, error) {
		switch {
		case r.URL.Path == "/.well-known/oauth-authorization-server":
			return respond(http.StatusOK, document)(r)
		case strings.HasPrefix(r.URL.Path, "/token"):
			return issue(r)
		}
		return status(http.StatusNotFound)(r)
	}
}

// discovering returns a configuration of oauth_client_credentials without the URL of an endpoint.
func discovering() config { return with(oauth("{{ get_secret('s') }}"), "token_url", discoverToken) }

// credentialsSent returns the URLs that credentials were sent to so far.
func (w *world) credentialsSent() (urls []string) {
	for _, r := range w.login.Received() {
		if r.Method != http.MethodGet || r.Body != "" || r.Header.Get("Authorization") != "" {
			urls = append(urls, r.URL)
		}
	}
	return urls
}

// specification.md "discovered endpoints", specification.md 2.9: a field may name an endpoint by its issuer. The metadata is read once
// for all connectors, and nothing of the connector is sent for it.
func TestDiscoveredEndpoints(t *testing.T) {
	w := newWorld(t)
	w.login.Answer(metadata(loginDocument))
	for _, name := range []string{"first", "second"} {
		c := w.connectAs(name, "oauth_client_credentials", discovering())
		for range 3 {
			w.get(c)
		}
	}
	var urls []string
	for _, r := range w.login.Received() {
		urls = append(urls, r.Method+" "+r.URL)
	}
	if got, want := strings.Join(urls, " "), "GET https://login.test/.well-known/oauth-authorization-server POST https://login.test/token POST https://login.test/token"; got != want {
		t.Errorf("the requests are %s, want %s", got, want)
	}
	if !w.calls[2].Reused {
		t.Errorf("the mutation is not used again: %+v", w.calls)
	}
	for i, call := range w.calls {
		if (call.Discoveries > 0) != (i == 0) || call.Discoveries > 1 {
			t.Errorf("attempt %d counts %d discoveries", i, call.Discoveries)
		}
	}
}

// threats.md 312: an issuer and its endpoints may be of plain http if PlainHTTP names the host, and no other one.
func TestAnIssuerOfPlainHTTP(t *testing.T) {
	for hosts, want := range map[string]string{"login.test": "", "login.test:80": "", "other.test": "is plain http", "login.test:8080": "is plain http"} {
		w := newWorld(t, func(c *host.Config) { c.Egress.PlainHTTP = []string{hosts} })
		w.login.Answer(metadata(strings.ReplaceAll(loginDocument, "https://", "http://")))
		auth := with(discovering(), "token_url", "{{ discover('http://login.test', 'token_endpoint') }}")
		c, err := w.tryOpen(host.ConnectorConfig{Auth: []host.Auth{{Type: "oauth_client_credentials", Config: auth}}})
		if err == nil {
			_, err = w.try(c, get(t.Context()))
		}
		if want == "" && (err != nil || w.login.Last().URL != "http://login.test/token") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("with %s: %v, sent to %s", hosts, err, w.login.Last().URL)
		}
	}
}

// An object's texts may have discovered endpoints too, such as the audience of an assertion.
func TestDiscoveredAudience(t *testing.T) {
	w := newWorld(t)
	w.setSecret("k", strings.Repeat("k", 32))
	w.login.Answer(metadata(loginDocument))
	w.get(w.connect("oauth_jwt_bearer", with(bearer("{{ get_secret('k') }}"), "token_url", discoverToken, "additional_claims", config{"to": []any{discoverToken}})))
	_, claims := decodeJWT(t, w.login.Last().Form().Get("assertion"))
	if to, ok := claims["to"].([]any); !ok || len(to) != 1 || to[0] != tokenURL {
		t.Errorf("the claims are %v", claims)
	}
}

// When an issuer names another endpoint, a token of the earlier one is not used any more. threats.md 140
func TestAnIssuerMovesItsEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.login.Answer(metadata(loginDocument))
		c := w.connect("oauth_client_credentials", discovering())
		w.get(c)
		w.login.Answer(metadata(strings.Replace(loginDocument, "/token", "/token/v2", 1)))
		w.Advance(time.Hour)
		w.get(c) // has the document read again, and does not wait for it
		synctest.Wait()
		w.get(c)
		want := []string{"https://login.test/token", "https://login.test/token/v2"}
		if urls := w.credentialsSent(); !slices.Equal(urls, want) || w.logged("names other endpoints than before") != 1 {
			t.Errorf("credentials were sent to %v, want %v", urls, want)
		}
		if again := w.calls[1]; again.Discoveries != 1 {
			t.Errorf("the attempt that has the document read again is %+v", again)
		}
	})
}

// threats.md 140: no metadata but that of the issuer itself names where a credential goes. Any other is one clear error, and nothing
// is sent.
func TestHostileMetadata(t *testing.T) {
	ok := func(body string, header ...string) answer { return respond(http.StatusOK, body, header...) }
	endpoint := func(value string) answer { return ok(`{"issuer":"https://login.test","token_endpoint":` + value + `}`) }
	for name, c := range map[string]struct {
		answer answer
		want   string
	}{
		"another issuer":            {ok(`{"issuer":"https://evil.test","token_endpoint":"https://login.test/token"}`), "is of another issuer"},
		"an issuer with a path":     {ok(`{"issuer":"https://login.test/a","token_endpoint":"https://login.test/token"}`), "is of another issuer"},
		"an issuer in capitals":     {ok(`{"issuer":"https://LOGIN.test","token_endpoint":"https://login.test/token"}`), "is of another issuer"},
		"an issuer with a port":     {ok(`{"issuer":"https://login.test:443","token_endpoint":"https://login.test/token"}`), "is of another issuer"},
		"an issuer with a slash":    {ok(`{"issuer":"https://login.test/","token_endpoint":"https://login.test/token"}`), "has this issuer with a slash at its end: write the issuer with it"},
		"an issuer for all tenants": {ok(`{"issuer":"https://login.test/{tenantid}/v2.0","token_endpoint":"https://login.test/token"}`), "has a placeholder in its issuer"},
		"no issuer":                 {ok(`{"token_endpoint":"https://login.test/token"}`), "has no issuer"},
		"null as issuer":            {ok(`{"issuer":null,"token_endpoint":"https://login.test/token"}`), "has no issuer"},
		"a list of issuers":         {ok(`{"issuer":["https://login.test"],"token_endpoint":"https://login.test/token"}`), "has no issuer"},
		"two issuers":               {ok(`{"issuer":"https://evil.test","issuer":"https://login.test","token_endpoint":"https://evil.test/token"}`), "has two members of one name at byte"},
		"two endpoints":             {ok(`{"issuer":"https://login.test","token_endpoint":"https://login.test/token","token_endpoint":"https://evil.test/token"}`), "has two members of one name at byte"},
		"two endpoints, escaped":    {ok(`{"issuer":"https://login.test","token_endpoint":"https://login.test/token","token\u005fendpoint":"https://evil.test/token"}`), "has two members of one name at byte"},
		"an endpoint in capitals":   {ok(`{"issuer":"https://login.test","Token_Endpoint":"https://login.test/token"}`), "token_endpoint is missing"},
		"no endpoint":               {ok(`{"issuer":"https://login.test"}`), "token_endpoint is missing"},
		"a null endpoint":           {endpoint(`null`), "token_endpoint is not a text"},
		"a list of endpoints":       {endpoint(`["https://login.test/token"]`), "token_endpoint is not a text"},
		"an object":                 {endpoint(`{"url":"https://login.test/token"}`), "token_endpoint is not a text"},
		"an empty endpoint":         {endpoint(`""`), "token_endpoint is not an https URL"},
		"a relative endpoint":       {endpoint(`"/token"`), "token_endpoint is not an https URL"},
		"one without a scheme":      {endpoint(`"//evil.test/token"`), "token_endpoint is not an https URL"},
		"plain http":                {endpoint(`"http://login.test/token"`), "token_endpoint is plain http, which would send the credential in the open"},
		"another scheme":            {endpoint(`"file:///etc/passwd"`), "token_endpoint is not an https URL"},
		"a fragment":                {endpoint(`"https://login.test/token#a"`), "token_endpoint has a fragment"},
		"user info":                 {endpoint(`"https://login.test@evil.test/token"`), "token_endpoint has user info"},
		"an escaped user info":      {endpoint(`"https:\/\/login.test\u0040evil.test/token"`), "token_endpoint has user info"},
		"a backslash":               {endpoint(`"https://evil.test\\@login.test/token"`), "token_endpoint is not a URL"},
		"a line break":              {endpoint(`"https://login.test/token\r\nHost: evil.test"`), "token_endpoint is not a URL"},
		"a port that is none":       {endpoint(`"https://login.test:99999/token"`), "token_endpoint has a port that is not 1 to 65535"},
		"not JSON":                  {ok(`<!doctype html><title>Sign in</title>`), "is no JSON object"},
		"JSON and more":             {ok(loginDocument + `{}`), "is not well-formed JSON at byte"},
		"not UTF-8":                 {ok("{\"issuer\":\"https://login.test\",\"a\":\"\xff\",\"token_endpoint\":\"https://login.test/token\"}"), "is not well-formed JSON at byte"},
		"nothing":                   {ok(``), "is no JSON object"},
		"null":                      {ok(`null`), "is no JSON object"},
		"a list":                    {ok(`[` + loginDocument + `]`), "is no JSON object"},
		"huge":                      {ok(`{"a":"` + strings.Repeat("a", 64<<10) + `",` + loginDocument[1:]), "has more than 65536 bytes"},
		"compressed":                {ok("\x1f\x8b\x08", "Content-Encoding", "gzip"), "cannot be read: the answer's Content-Encoding cannot be undone"},
		"a redirect":                {respond(http.StatusFound, "", "Location", "https://evil.test/"), "answered 302, and redirects are not followed"},
		"a redirect with its body":  {respond(http.StatusTemporaryRedirect, loginDocument, "Location", "https://login.test/other"), "answered 307, and redirects are not followed"},
		"not authorised":            {respond(http.StatusUnauthorized, loginDocument, "WWW-Authenticate", "Basic"), "there is none"},
		"down":                      {respond(http.StatusBadGateway, loginDocument), "answered 502"},
		"an answer that breaks off": {func(r *http.Request) (*http.Response, error) {
			response, err := ok(loginDocument)(r)
			response.Body = io.NopCloser(io.MultiReader(response.Body, iotest.ErrReader(errGone)))
			return response, err
		}, "broke off: the network of the test is gone"},
		"no connection": {func(*http.Request) (*http.Response, error) { return nil, errGone }, "cannot be reached: the network of the test is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.login.Answer(func(r *http.Request) (*http.Response, error) {
				if strings.HasPrefix(r.URL.Path, "/.well-known/") {
					return c.answer(r)
				}
				return token("t1", 3600)(r)
			})
			connector := w.connect("oauth_client_credentials", discovering())
			err := w.refuse(connector, get(t.Context()), host.StageToken, c.want, "the metadata of https://login.test: ")
			if metadata, ok := errors.AsType[*host.DiscoveryError](err); !ok || metadata.Issuer != loginIssuer || strings.Count(err.Error(), "the metadata of") != 1 || strings.Contains(err.Error(), "evil") {
				t.Errorf("the error is %v", err)
			}
			before := w.login.Count()
			w.refuse(connector, get(t.Context()), host.StageToken, c.want)
			if w.login.Count() != before {
				t.Error("the issuer is asked again at once")
			}
			if urls := w.credentialsSent(); len(urls) > 0 {
				t.Errorf("credentials were sent to %v", urls)
			}
		})
	}
}

// threats.md 141: an issuer cannot have the host connect to an address inside, or take it for another one.
func TestMetadataOverTLS(t *testing.T) {
	s := newSecureWorld(t, func(c *host.Config) {
		c.Egress.AllowPrivate, c.Egress.Allow = false, []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	})
	s.canary("s")
	endpoint := s.token.URL + "/token"
	documentOf := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"issuer":"https://`+r.Host+`","token_endpoint":"`+endpoint+`"}`)
	}
	s.issueTo("client", "client", s.Now().Add(day))
	issuer := s.server(0, documentOf)
	connect := func(name string, t *host.TLS) *host.Connector {
		return s.secureAs(name, t, host.Auth{Type: "oauth_client_credentials", Config: with(discovering(), "token_url", "{{ discover('"+issuer.URL+"', 'token_endpoint') }}")})
	}
	request := func(c *host.Connector) error { return s.call(t.Context(), c) }
	s.must(connect("with a certificate", of("client")))
	if seen := s.token.seen(); len(seen) != 1 || seen[0] != "client" {
		t.Errorf("the token endpoint has seen %q", seen)
	}
	stranger := of("client", host.TLSForToken)
	stranger.CA = newSecureWorld(t).authority.PEM()
	var failed *host.Error
	if err := request(connect("another authority", stranger)); !errors.As(err, &failed) || failed.Stage != host.StageToken || !strings.Contains(err.Error(), "/.well-known/oauth-authorization-server cannot be reached") {
		t.Errorf("with another authority the error is %v", err)
	}

	endpoint = "https://10.0.0.1/token"
	s.Advance(time.Hour)
	inside := connect("an address inside", nil)
	if err := request(inside); !errors.As(err, &failed) || failed.Retryable() || !strings.Contains(err.Error(), "10.0.0.1 is a private address") {
		t.Errorf("with an endpoint inside the error is %v", err)
	}
	inside = s.secureAs("an issuer inside", nil, host.Auth{Type: "oauth_client_credentials", Config: with(discovering(), "token_url", "{{ discover('https://169.254.169.254', 'token_endpoint') }}")})
	if err := request(inside); !errors.As(err, &failed) || failed.Retryable() || !strings.Contains(err.Error(), "169.254.169.254 is a cloud metadata address") {
		t.Errorf("with an issuer inside the error is %v", err)
	}
}

// threats.md 142: an issuer that hangs takes no longer than an exchange, and the error says that the request may succeed later. A
// caller that goes away gets an error at once.
func TestHangingIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.login.Answer(silent)
		c := w.open(host.ConnectorConfig{
			Timeout: 3 * time.Second, Auth: []host.Auth{{Type: "oauth_client_credentials", Config: discovering()}},
		})
		began := time.Now()
		failure := w.refuse(c, get(t.Context()), host.StageToken, "the metadata of https://login.test: ")
		if took := time.Since(began); took != 3*time.Second || !failure.Retryable() {
			t.Errorf("after %v the error is %v, retryable %v", took, failure, failure.Retryable())
		}
		synctest.Wait()
		w.Advance(time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began = time.Now()
		failure = w.refuse(c, get(ctx), host.StageToken, "gave up waiting for it")
		if took := time.Since(began); took != time.Second || failure.Retryable() || !errors.Is(failure, context.Canceled) {
			t.Errorf("after %v the error is %v, retryable %v", took, failure, failure.Retryable())
		}
	})
}

// The error says whether and when the request may succeed.
func TestDiscoveryErrors(t *testing.T) {
	for _, c := range []struct {
		answer answer
		again  bool
	}{
		{status(http.StatusServiceUnavailable), true},
		{status(http.StatusTooManyRequests), true},
		{status(http.StatusNotFound), false},
		{respond(http.StatusOK, "{}"), false},
	} {
		w := newWorld(t)
		w.login.Answer(c.answer)
		failure := w.refuse(w.connect("oauth_client_credentials", discovering()), get(t.Context()), host.StageToken)
		if metadata, ok := errors.AsType[*host.DiscoveryError](failure); !ok || failure.Retryable() != c.again || metadata.RetryAfter <= 0 || metadata.RetryAfter > time.Second {
			t.Errorf("the error %v is retryable: %v", failure, failure.Retryable())
		}
	}
}

// A host that takes the place of another one goes on with its metadata.
func TestMetadataOutlivesItsHost(t *testing.T) {
	w := newWorld(t)
	w.login.Answer(metadata(loginDocument))
	w.get(w.connect("oauth_client_credentials", discovering()))
	next := newWorld(t, func(c *host.Config) { c.Previous = w.host })
	next.canary("s")
	next.login.Answer(tokens(60)) // it has no document
	next.get(next.connect("oauth_client_credentials", discovering()))
}

// A mistake has its place in the configuration, and nothing is asked to find it.
func TestWrongDiscoveries(t *testing.T) {
	w := newWorld(t)
	for value, want := range map[string]string{
		"{{ discover('login.test', 'token_endpoint') }}":               "auth.config.token_url: the issuer is not an https URL such as https://login.example.com",
		"{{ discover('https://login.test', 'token_endpiont') }}":       `auth.config.token_url: there is no such endpoint; did you mean "token_endpoint"?`,
		"{{ discover('https://login.test') }}":                         "auth.config.token_url: discover takes an issuer, and a member of its metadata",
		"{{ discover(user.id, 'token_endpoint') }}":                    "auth.config.token_url: the issuer must be a literal text, in quotes",
		"{{ discover(get_variable('login'), 'token_endpoint') }}":      "auth.config.token_url: the issuer must be a literal text, in quotes",
		"{{ discover('http://login.test', 'token_endpoint') }}":        "auth.config.token_url: the issuer of discover is plain http, which would send the credential in the open: use https",
		"{{ discover('https://me:pw@login.test', 'token_endpoint') }}": "auth.config.token_url: the issuer has user info, which would end up in logs",
	} {
		if got := w.problems("oauth_client_credentials", with(oauth("{{ get_secret('s') }}"), "token_url", value)); strings.Join(got, "\n") != want {
			t.Errorf("%s\n has %q\nwant %s", value, got, want)
		}
	}
	const elsewhere = "discover is for the fields of auth.config"
	testworld.WantError(t, "a template", testworld.ErrorOf(w.host.Template(discoverToken)), elsewhere)
	newWorld(t, func(c *host.Config) { c.Base = nil }).refuseConnector(host.ConnectorConfig{Auth: []host.Auth{{Type: "none"}}, TLS: &host.TLS{CA: discoverToken}}, "tls.ca", elsewhere)
	if w.login.Count()+w.api.Count() != 0 {
		t.Error("something was sent")
	}
}

// Explain shows the endpoint, once, and where the credentials would go.
func TestExplainOfADiscovery(t *testing.T) {
	w := newWorld(t)
	w.login.Answer(metadata(loginDocument))
	e := must(w.explain(w.connect("oauth_client_credentials", with(discovering(), "parameters", config{"to": discoverToken})), get(t.Context())))(t)
	text := explained(e)
	if !strings.HasPrefix(text, "the metadata of https://login.test\n  token_endpoint: https://login.test/token\nthe request to the token endpoint\n  POST https://login.test/token\n") ||
		strings.Count(text, "the metadata of") != 1 {
		t.Errorf("the explanation is\n%s", text)
	}
	if urls := w.credentialsSent(); len(urls) > 0 {
		t.Errorf("credentials were sent to %v", urls)
	}
	w.login.Answer(status(http.StatusInternalServerError))
	w.Advance(2 * time.Hour)
	if _, err := w.explain(w.connect("oauth_client_credentials", discovering()), get(t.Context())); err != nil {
		t.Errorf("while the issuer is down the error is %v", err)
	}
}

// threats.md 140, threats.md 96: an issuer does not say who may get the tokens of users.
func TestAnIssuerDoesNotListHosts(t *testing.T) {
	w := newWorld(t, listed("other.test"), func(c *host.Config) { c.BuiltIns = allBuiltIns(t) })
	w.login.Answer(metadata(loginDocument))
	w.canary("s")
	c := w.connect("token_exchange", with(oauth("{{ get_secret('s') }}"), "token_url", discoverToken, "subject_token", "{{ user.token }}"))
	w.refuse(c, w.as(w.Secret("the user's token")), host.StageConfig, "user.token may not go to login.test")
	if urls := w.credentialsSent(); len(urls) > 0 {
		t.Errorf("credentials were sent to %v", urls)
	}
}

// A connector with a client certificate for the token endpoint asks the endpoint that the issuer has for those (RFC 8705 section
// 5). A connector with authorities only, or with a certificate for the API only, asks the other one.
func TestTokenEndpointForClientsWithACertificate(t *testing.T) {
	s := newSecureWorld(t, func(c *host.Config) { c.Egress.AllowPrivate = true })
	s.canary("s")
	s.issueTo("client", "client", s.Now().Add(day))
	var asked string
	tokens := s.server(0, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"t","token_type":"Bearer","expires_in":3600}`)
	})
	issuer := s.server(0, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"issuer":"https://`+r.Host+`","token_endpoint":"`+tokens.URL+`/plain","mtls_endpoint_aliases":{"token_endpoint":"`+tokens.URL+`/mutual"}}`)
	})
	for name, c := range map[string]struct {
		tls  *host.TLS
		want string
	}{
		"no tls":                      {nil, "/plain"},
		"a certificate":               {of("client"), "/mutual"},
		"a certificate for the token": {of("client", host.TLSForToken), "/mutual"},
		"a certificate for the api":   {of("client", host.TLSForAPI), "/plain"},
		"authorities for the token":   {&host.TLS{CA: s.authority.PEM(), For: []string{host.TLSForToken}}, "/plain"},
	} {
		connector := s.secureAs(name, c.tls, host.Auth{Type: "oauth_client_credentials", Config: with(discovering(), "token_url", "{{ discover('"+issuer.URL+"', 'token_endpoint') }}")})
		asked = ""
		err := s.call(t.Context(), connector)
		if asked != c.want {
			t.Errorf("%s: it asks %s, want %s; %v", name, asked, c.want, err)
		}
	}
}

// specification.md "user in the path of a URL", threats.md 311: what users are called decides neither about the path of a token request nor
// about its parameters. A value in front of the host is the operator's, and stays as it is.
func TestValuesInTokenURLs(t *testing.T) {
	const refused = "token_url has a value in its path"
	template := tokenURL + "/own%2Fpart;v=1/{{ tenant_id }}/x?y={{ user.email }}"
	for _, c := range []struct{ url, tenant, email, want string }{
		{template, "acme", "a@b.c", tokenURL + "/own%2Fpart;v=1/acme/x?y=a%40b.c"},
		{template, "a b", "x&scope=admin#f", tokenURL + "/own%2Fpart;v=1/a%20b/x?y=x%26scope%3Dadmin%23f"},
		{template, "acme", "%26?/..", tokenURL + "/own%2Fpart;v=1/acme/x?y=%2526%3F%2F.."},
		{template, "../../other", "", refused},
		{tokenURL + "/{{ default(user.username, '') }}/x", "acme", "", refused},
		{tokenURL + "/x/{{ default(user.username, '') }}", "acme", "", refused},
		{tokenURL + "//{{ tenant_id }}/", "acme", "", tokenURL + "//acme/"},
		{tokenURL + "/a{{ default(user.username, '') }}", "acme", "", tokenURL + "/a"},
		{template, "..", "", refused},
		{template, "%2e%2e", "", refused},
		{template, ".", "", refused},
		{template, "a?scope=admin", "", refused},
		{template, "a/b", "", refused},
		{template, "a%2fb", "", refused},
		{template, "a%252fb", "", refused},
		{template, "a;b", "", refused},
		{template, "a#b", "", refused},
		{template, `a\b`, "", refused},
		{tokenURL + "/.{{ tenant_id }}", ".", "", refused},
		{tokenURL + "?{{ tenant_id }}", "a/../b&c", "", tokenURL + "?a%2F..%2Fb%26c"},
		{"{{ get_variable('realm') }}/token", "", "", "https://login.test/realms/a;b/token"},
	} {
		t.Run(c.url+" "+c.tenant+" "+c.email, func(t *testing.T) {
			w := newWorld(t, func(h *host.Config) { h.Variables = map[string]string{"realm": "https://login.test/realms/a;b"} })
			connector := w.connect("oauth_client_credentials", with(oauth("{{ get_secret('s') }}"), "token_url", c.url))
			_, err := w.try(connector, get(host.WithUser(context.Background(), host.User{ID: "1", Email: cmp.Or(c.email, "x"), TenantID: c.tenant})))
			if c.want == refused {
				if err == nil || !strings.Contains(err.Error(), refused) || w.login.Count()+w.api.Count() > 0 {
					t.Errorf("the error is %v, after %d token requests", err, w.login.Count())
				}
				return
			}
			if err != nil || w.login.Last().URL != c.want {
				t.Errorf("sent to %s (%v), want %s", w.login.Last().URL, err, c.want)
			}
		})
	}
}
