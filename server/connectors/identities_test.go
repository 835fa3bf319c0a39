package connectors_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
)

// webIdentity returns a JWT that nobody has signed in earnest, which ends in an hour.
func webIdentity(audience, subject string, serial int) string {
	part := func(value any) string {
		text, _ := json.Marshal(value)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	claims := map[string]any{"iss": "https://cluster.test", "sub": subject, "aud": audience, "exp": time.Now().Add(time.Hour).Unix(), "jti": fmt.Sprint(serial)}
	return part(map[string]any{"alg": "RS256"}) + "." + part(claims) + "." + part("signature")
}

// party is a metadata service, a token endpoint and an API on loopback.
type party struct {
	*httptest.Server
	serial, exchanges int
	// assertions are the client assertions of exchanges, and received are the headers of requests to the API.
	assertions []string
	received   []http.Header
	metadata   http.HandlerFunc
}

func newParty(t *testing.T) *party {
	p := &party{}
	mux := http.NewServeMux()
	mux.HandleFunc("/metadata", func(w http.ResponseWriter, r *http.Request) {
		if p.metadata != nil {
			p.metadata(w, r)
			return
		}
		p.serial++
		if r.Header.Get("Metadata-Flavor") == "Google" {
			fmt.Fprint(w, webIdentity(r.FormValue("audience"), "orders", p.serial))
		}
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		p.exchanges++
		p.assertions = append(p.assertions, r.PostFormValue("client_assertion"))
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"issued-%d","token_type":"bearer","expires_in":3600}`, p.exchanges)
	})
	mux.HandleFunc("/api", func(_ http.ResponseWriter, r *http.Request) { p.received = append(p.received, r.Header) })
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

// keyless is a file with an identity and a connector whose client is known by it.
const keyless = `EGRESS
identities:
  - name: vm
    SOURCE
    for: [{audience: api://exchange, hosts: ["HOST"]}]
connectors:
  - name: Orders
    url: http://HOST/api
    auth:
      type: oauth_client_credentials
      config: {token_url: "http://HOST/token", client_id: orders, client_auth: assertion, client_assertion: "{{ identity('vm', 'api://exchange') }}"}
`

// open loads a file with an identity of a source. The connector may reach the party if egress says so.
func (p *party) open(t *testing.T, source, egress string) *connectors.Set {
	t.Helper()
	address := p.Listener.Addr().String()
	if egress == "" {
		egress = "egress: {allow: [127.0.0.1/32], plain_http: [HOST]}"
	}
	text := strings.NewReplacer("URL", p.URL, "HOST", address).Replace(strings.NewReplacer("SOURCE", source, "EGRESS", egress).Replace(keyless))
	return loadGood(t, text, connectors.Options{})
}

// send sends a request through the connector of a set.
func (p *party) send(t *testing.T, set *connectors.Set) error {
	t.Helper()
	client := http.Client{Transport: set.Connectors[0].Upstream().Transport(nil)}
	response, err := client.Get(p.URL + "/api")
	if err == nil {
		err = response.Body.Close()
	}
	return err
}

const metadata = "url: 'URL/metadata?audience={audience}'"

// A connector has no secret at all: the token of the process gets an access token.
func TestConnectorWithoutSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	t.Setenv("CI_TOKEN", webIdentity("api://exchange", "orders", 1))
	testworld.Check(t, os.WriteFile(path, []byte(webIdentity("api://exchange", "orders", 1)), 0o600))
	for name, source := range map[string]string{
		"a file":       "type: file\n    path: " + path,
		"a variable":   "type: env\n    variable: CI_TOKEN",
		"a request":    "type: http\n    " + metadata + "\n    headers: [{name: Metadata-Flavor, value: Google}]",
		"Google Cloud": "type: gcp\n    " + metadata,
	} {
		t.Run(name, func(t *testing.T) {
			p := newParty(t)
			set := p.open(t, source, "")
			for range 3 {
				testworld.Check(t, p.send(t, set))
			}
			if p.exchanges != 1 || len(p.received) != 3 || p.received[2].Get("Authorization") != "Bearer issued-1" || strings.Count(p.assertions[0], ".") != 2 {
				t.Errorf("%d exchanges; the API got %v; assertions %v", p.exchanges, p.received, p.assertions)
			}
		})
	}
}

// threats.md 415: an identity reaches the address of its metadata service, and no connector does by that.
func TestConnectorDoesNotReachMetadata_threats_415(t *testing.T) {
	p := newParty(t)
	err := p.send(t, p.open(t, "type: gcp\n    "+metadata, "egress: {plain_http: [HOST]}"))
	var failed *host.Error
	if !errors.As(err, &failed) || failed.Stage != host.StageToken || !errors.Is(err, host.ErrAddressRefused) || p.serial != 1 {
		t.Errorf("%v, with %d tokens of the process", err, p.serial)
	}
}

// A source that fails fails the request at the stage identity, and nothing that it has said is in the error.
func TestFailureOfIdentity(t *testing.T) {
	p := newParty(t)
	p.metadata = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "text-of-the-source", http.StatusNotFound) }
	err := p.send(t, p.open(t, "type: gcp\n    "+metadata, ""))
	var failed *host.Error
	if !errors.As(err, &failed) || failed.Stage != host.StageIdentity || !failed.Retryable() || !strings.Contains(err.Error(), "the source answered 404") || strings.Contains(err.Error(), "text-of-the-source") {
		t.Errorf("the error is %v", err)
	}
}

// Presets have what the platforms want: the URL, a header and the place of the token.
func TestPresetsOfIdentities(t *testing.T) {
	for name, source := range map[string]string{"gcp": "type: gcp", "azure": "type: azure", "github": "type: github", "a user's": "type: azure\n    url: http://169.254.169.254/?resource={audience}&client_id=1"} {
		if set := newParty(t).open(t, source, ""); len(set.Connectors) != 1 {
			t.Errorf("%s has no connector", name)
		}
	}
}

// The files of docs/without-secrets.md have no problems.
func TestDocumentedIdentities(t *testing.T) {
	text := string(testworld.Must(os.ReadFile("../../docs/without-secrets.md"))(t))
	blocks := regexp.MustCompile("(?s)( *)```yaml\n(.*?)```").FindAllStringSubmatch(text, -1)
	for _, block := range blocks {
		set := loadGood(t, strings.ReplaceAll("\n"+block[2], "\n"+block[1], "\n"), connectors.Options{})
		if len(set.Connectors) == 0 {
			t.Errorf("no connector in\n%s", block[2])
		}
	}
	if len(blocks) != 6 {
		t.Errorf("%d files, want 6", len(blocks))
	}
}

// threats.md 439 and 416: mistakes in the member identities are problems of the file, with their places: a header of a proxy, a name in place
// of an address, a token that would be a session, and an identity where it cannot stand.
func TestProblemsOfIdentities(t *testing.T) {
	const file = `gateway:
  user: {type: jwt, jwt: {jwks_file: KEYS, issuer: https://id.test/, audiences: gateway}}
identities:
  - {type: file, name: pod, path: token, for: [{audience: sts, hosts: sts.test}]}
  - {type: file, name: pod, path: token, for: [{audience: sts, hosts: sts.test}]}
  - {type: flie, name: b, path: token, for: [{audience: sts, hosts: sts.test}]}
  - {type: file, name: "a b", path: token, for: [{audience: sts, hosts: "https://sts.test/"}]}
  - {type: http, name: c, for: [{audience: sts, hosts: sts.test}]}
  - {type: http, name: d, url: "http://metadata.google.internal/", for: [{audience: sts, hosts: sts.test}]}
  - {type: gcp, name: e, for: [{audience: gateway, hosts: sts.test}]}
  - {type: gcp, name: f, headers: [{name: Via, value: x}], for: [{audience: sts, hosts: sts.test}, {audience: sts, hosts: b.test}]}
  - {type: env, name: g, for: [{audience: sts}]}
  - {type: gcp, name: h, expect: {aud: [gateway]}, for: [{audience: sts, hosts: sts.test}]}
connectors:
  - name: Orders
    url: https://api.test
    auth:
      type: oauth_client_credentials
      config: {token_url: "https://sts.test/", client_id: orders, client_auth: assertion, client_assertion: "{{ identity('pod', 'other') }}"}
    headers: [{name: X-Key, value: "{{ identity('pod', 'sts') }}"}]
    query: [{name: key, value: "{{ identity('pod', 'sts') }}"}]
    request: "{{ identity('pod', 'sts') }}"
  - name: Claims
    url: https://api.test/{{ identity('pod', 'sts') }}
    auth: {type: jwt, config: {private_key: "{{ identity('pod', 'sts') }}", algorithm: HS256, claims: {sub: "{{ identity('pod', 'sts') }}"}, request_claims: {jti: "{{ identity('pod', 'sts') }}"}}}
  - {name: Bearer, url: "https://api.test", auth: {type: bearer, config: {token: "{{ identity('pod', 'sts') }}"}}}
  - {name: Signed, url: "https://api.test", auth: [{type: none}, {type: signature, config: {secret: "{{ identity('pod', 'sts') }}", message: "{method}", key: X-Key}}]}
`
	wantProblems(t, file, connectors.Options{},
		"connectors.yaml:5:24: identities[1].name: is also that of another identity: give one of them another name",
		`connectors.yaml:6:12: identities[2].type: there is no identity of type "flie"; did you mean "file"?`,
		"connectors.yaml:7:24: identities[3].name: has to be 1 to 128 letters, digits, '.', '_' or '-', and begin with a letter or digit",
		"connectors.yaml:7:73: identities[3].for[0].hosts[0]: is not the name of a host, such as login.example.com or localhost:8443",
		"connectors.yaml:8:5: identities[4].url: is missing",
		"connectors.yaml:9:27: identities[5].url: is of plain http, and its host is no address: …",
		"connectors.yaml:10:32: identities[6].for[0].audience: is also one of gateway.user.jwt.audiences: …",
		"connectors.yaml:11:26: identities[7].headers: Via is for proxies, and these have no identity of this process",
		"connectors.yaml:11:100: identities[7].for[1].audience: is there twice: list all of its hosts in one place",
		"connectors.yaml:12:5: identities[8].variable: is missing",
		"connectors.yaml:12:32: identities[8].for[0].hosts: is missing",
		"connectors.yaml:13:26: identities[9].expect.aud: has one of gateway.user.jwt.audiences: …",
		"connectors.yaml:19:109: connectors.orders.auth.config.client_assertion: names identity('pod', 'other'), and no host may get its token: …",
		"connectors.yaml:20:36: connectors.orders.headers[0].value: the token of identity goes to token endpoints only, …",
		"connectors.yaml:21:32: connectors.orders.query[0].value: the token of identity goes to token endpoints only, …",
		"connectors.yaml:22:18: connectors.orders.request: identity is not available here: …",
		"connectors.yaml:24:27: connectors.claims.url: identity must stand alone, with no text around it: …",
		"connectors.yaml:25:45: connectors.claims.auth.config.private_key: names identity('pod', 'sts'), and is not sealed: …",
		"connectors.yaml:25:95: connectors.claims.auth.config.claims: names identity('pod', 'sts'), and no object is sealed: …",
		"connectors.yaml:25:142: connectors.claims.auth.config.request_claims: names identity('pod', 'sts'), and no object is sealed: …",
		"connectors.yaml:26:82: connectors.bearer.auth.config.token: names identity('pod', 'sts'), and its value goes elsewhere (header, query, body): …",
		"connectors.yaml:27:101: connectors.signed.auth[1].config.secret: names identity('pod', 'sts'), and its value goes elsewhere (sign): …",
	)
}
