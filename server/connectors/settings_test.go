package connectors_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/trial"
)

func TestGatewayOfAFile(t *testing.T) {
	dir := t.TempDir()
	testworld.Check(t, os.WriteFile(filepath.Join(dir, "weather"), []byte("of the directory"), 0o600))
	set := loadGood(t, `gateway:
  hosts: [gw.example.com]
  origins: [https://app.example.com]
  consent: {url: https://gw.example.com, return_to: https://app.example.com/settings?tab=accounts}
  tls: {cert: tls/cert.pem, key: /run/tls/key.pem}
  user: {type: jwt, jwt: {cookie: session, jwks_url: https://id.example.com/keys, issuer: https://id.example.com, audiences: gateway}}
secrets:
  - {type: env}
  - {type: dir, path: `+dir+`}
connectors:
  - name: Weather
    url: https://api.example.com/v1/{{ user.id }}
    method: [GET, POST]
    paths: /open/**
    headers: [{name: x-lang, value: "", overridable: true}]
    query: [{name: key, value: "{{ get_secret('weather') }}"}]
    request: "{{ json_encode(body_text) }}"
    response: {filter: record.mine, body: response.body, content_type: text/plain}
    timeout: 1m30s
    limits: {per_user: 0.5, total: 100, request_bytes: 1000, response_bytes: 2000, concurrent: 3}
    auth: {type: none}
`, connectors.Options{})
	if diff := cmp.Diff([]string{"gw.example.com"}, set.Settings.Hosts); diff != "" || set.Settings.User.JWT.Cookie != "session" || set.Settings.User.JWT.Bearer {
		t.Errorf("set.Settings = %+v diff = %s", set.Settings, diff)
	}
	if want := (connectors.TLS{Cert: filepath.Join("tls", "cert.pem"), Key: "/run/tls/key.pem"}); set.Settings.TLS != want {
		t.Errorf("set.Settings.TLS = %+v", set.Settings.TLS)
	}
	if c := set.Settings.Consent; c.URL != "https://gw.example.com" || c.ReturnTo != "https://app.example.com/settings?tab=accounts" {
		t.Errorf("set.Settings.Consent = %+v", set.Settings.Consent)
	}
	c := set.Connectors[0]
	if d := c.Definition(); d.Timeout.String() != "1m30s" || c.Upstream().Config().Timeout != d.Timeout || d.Limits.Concurrent != 3 || d.Methods[1] != "POST" || !d.Headers[0].Overridable {
		t.Errorf("d = %+v", d)
	}
	out := testworld.Must(trial.NewOutgoing(host.WithUser(t.Context(), host.User{ID: "a b"}), c, trial.Incoming{Path: "open/x"}))(t)
	if got := out.URL.String(); got != "https://api.example.com/v1/a%20b/open/x?key=of%20the%20directory" {
		t.Errorf("the URL is %s", got)
	}
}

// Every problem in the member gateway, in stores and in a connector's requests and responses has its place.
func TestGatewayProblems(t *testing.T) {
	wantProblems(t, `gateway:
  hosts: ["https://gw.example.com"]
  origins: [app.example.com]
  user: {type: jwt, jwt: {cookie: session, jwks_url: http://id.example.com/keys, audiences: gateway}}
  port: 1
secrets:
  - {type: file}
  - {type: vault, address: "https://vault.example.com", approle: {role_id: r, secret_id_file: s}, token_file: t}
connectors:
  - name: A
    url: https://api.example.com/{{ get_secret('s') }}
    method: get
    paths: [open]
    headers:
      - {name: Host, value: x}
      - {name: X-A, value: "{{ nope }}"}
    request: "{{ get_secret('s') }}"
    response: {filter: "record.(", form: x}
    timeout: 15
    limits: {total: -1, concurrent: 1.5}
    auth: {type: acme}
  - name: B
    url: https://api.example.com:99999/
    headers: [{name: X-A, value: "{{ nope }}"}]
    auth: {type: none}
  - name: C
    url: api.example.com
    paths: [open]
`, connectors.Options{},
		`connectors.yaml:2:11: gateway.hosts[0]: is not the name of a host, such as …`,
		`connectors.yaml:3:13: gateway.origins[0]: is not an origin: scheme and host…`,
		`connectors.yaml:4:21: gateway.user.jwt.issuer: is missing: what the claim i…`,
		`connectors.yaml:4:44: gateway.user.jwt.jwks_url: is plain http, on which an…`,
		`connectors.yaml:5:3: gateway.port: is not known here; there are hosts, orig…`,
		`connectors.yaml:7:12: secrets[0].type: there is no store of type "file"; th…`,
		`connectors.yaml:8:5: secrets[1]: there must be one of token_file, approle, j…`,
		`connectors.yaml:11:10: connectors.a.url: names a secret, and the request's …`,
		`connectors.yaml:12:5: connectors.a.method[0]: is not a method: they are in …`,
		`connectors.yaml:13:13: connectors.a.paths[0]: does not begin with a slash, …`,
		`connectors.yaml:15:16: connectors.a.headers[0].name: is a header that only …`,
		`connectors.yaml:16:32: connectors.a.headers[1].value: unknown variable "nop…`,
		`connectors.yaml:17:18: connectors.a.request: get_secret is not available he…`,
		`connectors.yaml:18:32: connectors.a.response.filter: syntax error near "("…`,
		`connectors.yaml:18:36: connectors.a.response.form: is not known here; there…`,
		`connectors.yaml:19:14: connectors.a.timeout: is not a time above 0 and up t…`,
		`connectors.yaml:20:21: connectors.a.limits.total: is not a number above 0…`,
		`connectors.yaml:20:37: connectors.a.limits.concurrent: is not a whole numbe…`,
		`connectors.yaml:21:18: connectors.a.auth.type: there is no auth type "acme"…`,
		`connectors.yaml:23:10: connectors.b.url: has a port that is not 1 to 65535…`,
		`connectors.yaml:24:38: connectors.b.headers[0].value: unknown variable "nop…`,
		`connectors.yaml:26:5: connectors.c.auth: is missing: it says how the API is…`,
		`connectors.yaml:27:10: connectors.c.url: is not an https URL such as https:…`,
		`connectors.yaml:28:13: connectors.c.paths[0]: does not begin with a slash, …`,
	)
}

func TestUserOfAnUnknownType(t *testing.T) {
	wantProblems(t, `gateway:
  user: {type: basic}
connectors: [{name: A, url: "https://api.example.com", auth: {type: none}}]
`, connectors.Options{},
		`connectors.yaml:2:10: gateway.user.type: is "basic"; there are none, jwt and header`,
	)
}

// Secrets in headers and query are checked like those in auth.
func TestSecretsOutsideOfAuth(t *testing.T) {
	const text = `secrets: [{type: env}]
connectors:
  - name: A
    url: https://api.example.com
    headers: [{name: X-A, value: "{{ get_secret('no.such') }}"}]
    query: [{name: b, value: "b{{ get_secret('no-such') }}"}]
    auth: {type: none}
`
	wantProblems(t, text, connectors.Options{Environment: true, ReadSecrets: true},
		`connectors.yaml:5:49: connectors.a.headers[0].value: the secrets "no-such" and …`,
		`connectors.yaml:5:49: connectors.a.headers[0].value: secret "no.such": the secret …`,
		`connectors.yaml:6:46: connectors.a.query[0].value: secret "no-such": the secret …`,
	)
}

// If no secrets come from the environment, two secrets with the same environment variable are no problem.
func TestNamesOutsideOfTheEnvironment(t *testing.T) {
	loadGood(t, `secrets: [{type: dir, path: secrets}]
connectors:
  - name: A
    url: https://api.example.com
    query: [{name: a, value: "{{ get_secret('a-b') }}"}, {name: b, value: "{{ get_secret('a.b') }}"}]
    auth: {type: none}
`, connectors.Options{Environment: true})
}

func TestVaultProblems(t *testing.T) {
	wantProblems(t, `secrets:
  - {type: vault, address: "http://vault.example.com", mount: a//b, token_file: t, remember: 2m}
connectors: [{name: A, url: "https://api.example.com", auth: {type: none}}]
`, connectors.Options{},
		`connectors.yaml:2:19: secrets[0].address: is plain http, which shows secrets and token to the network: use https, or name the host in plain_http of egress`,
		`connectors.yaml:2:56: secrets[0].mount: "a//b" must be names with a slash between them`,
		`connectors.yaml:2:94: secrets[0].remember: secrets may be remembered for 1s to 1m0s, not 2m0s`,
	)
}

func TestListenerProblems(t *testing.T) {
	wantProblems(t, `gateway:
  tls: {cert: cert.pem, ca: ca.pem}
  traces: collector:4318
connectors: [{name: A, url: "https://api.example.com", auth: {type: none}}]
`, connectors.Options{},
		"connectors.yaml:2:8: gateway.tls.key: is missing",
		"connectors.yaml:2:25: gateway.tls.ca: is not known here; there are cert, key",
		"connectors.yaml:3:11: gateway.traces: is not the URL of a collector, with its path, such as http://localhost:4318/v1/traces",
	)
}

// The problem of a misspelt member suggests the right name, at every level, and that member is not reported as missing.
func TestMisspeltMembersOfTheGateway(t *testing.T) {
	wantProblems(t, `gateway:
  host: [gateway.example.com]
  user: {type: header, header: {proxy: 10.0.0.0/8, mail: X-Email, emial: X-Email}}
  tsl: {cert: cert.pem, key: key.pem}
secrets: [{type: dir, pth: secrets}]
connectors:
  - name: A
    url: https://api.example.com
    path: /a
    headers: [{name: X-A, valeu: a}]
    auth: {type: none}
    response: {filters: record.a == 1}
    limits: {peruser: 5}
`, connectors.Options{},
		`connectors.yaml:2:3: gateway.host: is not known here; did you mean "hosts"?`,
		`connectors.yaml:3:33: gateway.user.header.proxy: is not known here; did you mean "proxies"?`,
		`connectors.yaml:3:52: gateway.user.header.mail: is not known here; did you mean "email"?`,
		`connectors.yaml:3:67: gateway.user.header.emial: is not known here; did you mean "email"?`,
		`connectors.yaml:4:3: gateway.tsl: is not known here; did you mean "tls"?`,
		`connectors.yaml:5:23: secrets[0].pth: is not known here; did you mean "path"?`,
		`connectors.yaml:9:5: connectors.a.path: is not known here; did you mean "paths"?`,
		`connectors.yaml:10:27: connectors.a.headers[0].valeu: is not known here; did you mean "value"?`,
		`connectors.yaml:12:16: connectors.a.response.filters: is not known here; did you mean "filter"?`,
		`connectors.yaml:13:14: connectors.a.limits.peruser: is not known here; did you mean "per_user"?`,
	)
}

// The member consent is for https, because somebody who sees a callback on its way could take over what users connect.
func TestConsentOfAFile(t *testing.T) {
	for text, want := range map[string]string{
		"{url: http://gw.example.com, plain_http: true}": "",

		"{url: https://gw.example.com/}":                                    "4:18: gateway.consent.url: is not an origin: scheme and host, without a slash at the end, such as https://gateway.example.com",
		"{url: https://gw.example.com/prefix}":                              "4:18: gateway.consent.url: is not an origin: scheme and host, without a slash at the end, such as https://gateway.example.com",
		"{url: gw.example.com}":                                             "4:18: gateway.consent.url: is not an https URL such as https://gateway.example.com",
		"{url: http://gw.example.com}":                                      "4:18: gateway.consent.url: is plain http, with which anybody on the way can take over what users connect: use https, or plain_http: true",
		"{url: http://localhost:8080}":                                      "",
		"{return_to: http://app.example.com}":                               "4:24: gateway.consent.return_to: is plain http, with which anybody on the way can take over what users connect: use https, or plain_http: true",
		"{return_to: javascript:alert}":                                     "4:24: gateway.consent.return_to: is not a URL such as https://app.example.com/settings",
		"{return_to: /settings}":                                            "4:24: gateway.consent.return_to: is not an https URL such as https://app.example.com/settings",
		"{return_to: https://app.example.com/}":                             "",
		"{url: 1}":                                                          "4:18: gateway.consent.url: is a number, text is wanted: put it in quotes",
		"https://gw.example.com":                                            "4:12: gateway.consent: is text: an object is wanted",
		"{url: https://gw.example.com}\n  hosts: [api.example.com]":         "4:18: gateway.consent.url: is at a host that gateway.hosts does not have, so that the gateway would refuse browsers that come back: add gw.example.com to hosts",
		"{url: https://gw.example.com:8443}\n  hosts: [gw.example.com:443]": "4:18: gateway.consent.url: is at a host that gateway.hosts does not have, so that the gateway would refuse browsers that come back: add gw.example.com:8443 to hosts",
		"{url: https://gw.example.com:8443}\n  hosts: [api.example.com, GW.example.com]": "",
		"{url: https://gw.example.com:8443}\n  hosts: [gw.example.com:8443]":             "",
		"{return_to: https://app.example.com/}\n  hosts: [api.example.com]":              "",
	} {
		file := "connectors:\n  - {name: A, url: https://api.example.com, auth: {type: none}}\ngateway:\n  consent: " + text + "\n"
		if want == "" {
			loadGood(t, file, connectors.Options{})
		} else {
			wantProblems(t, file, connectors.Options{}, "connectors.yaml:"+want)
		}
	}
}

// Everything that is wrong with the member egress is a problem with its place. No password of a proxy stands
// in the file.
func TestEgressProblems(t *testing.T) {
	const authorities = "is no file"
	dir := t.TempDir()
	testworld.Check(t, os.WriteFile(filepath.Join(dir, "text.pem"), []byte(authorities), 0o600))
	for name, c := range map[string]struct {
		egress string
		want   []string
	}{
		"no object":      {"10.0.0.0/8", []string{`connectors.yaml:7:9: egress: is text: an object with allow, ca_file, proxy or plain_http is wanted`}},
		"misspelt":       {"{allows: 10.0.0.0/8}", []string{`connectors.yaml:7:10: egress.allows: is not known here; did you mean "allow"?`}},
		"a name":         {"{allow: [10.0.0.1, api.internal]}", []string{`connectors.yaml:7:28: egress.allow[1]: is neither an address nor a range of addresses, such as 10.20.0.0/16: the address that is dialled is checked, not a name`}},
		"bits":           {"{allow: 10.20.0.1/16}", []string{`connectors.yaml:7:17: egress.allow[0]: has bits after its length: write 10.20.0.0/16 for the range, or 10.20.0.1 for the address`}},
		"everything":     {"{allow: 0.0.0.0/0}", []string{`connectors.yaml:7:17: egress.allow[0]: is every address there is: name the ranges of the APIs`}},
		"a zone":         {`{allow: "fe80::1%eth0"}`, []string{`connectors.yaml:7:17: egress.allow[0]: is neither an address nor a range of addresses, such as 10.20.0.0/16: the address that is dialled is checked, not a name`}},
		"no file":        {"{ca_file: none.pem}", []string{`connectors.yaml:7:19: egress.ca_file: cannot be read: no such file or directory`}},
		"a directory":    {"{ca_file: .}", []string{`connectors.yaml:7:19: egress.ca_file: cannot be read: it is no regular file`}},
		"no certificate": {"{ca_file: " + filepath.Join(dir, "text.pem") + "}", []string{`connectors.yaml:7:19: egress.ca_file: has no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----`}},
		"no proxy":       {"{proxy: proxy.example:3128}", []string{`connectors.yaml:7:17: egress.proxy: is no URL of a proxy, such as http://proxy.example:3128, or none`}},
		"a password":     {`{proxy: "http://a:hunter2@proxy.example"}`, []string{`connectors.yaml:7:17: egress.proxy: has a credential, which would stand in the file: name a proxy that asks for none`}},
		"another scheme": {"{proxy: ftp://proxy.example}", []string{`connectors.yaml:7:17: egress.proxy: has another scheme than http, https, socks5 or socks5h`}},
		"no host":        {"{plain_http: [keycloak, http://a.example]}", []string{`connectors.yaml:7:33: egress.plain_http[1]: is not the name of a host, such as login.example.com or localhost:8443`}},
		"a path":         {"{proxy: http://proxy.example/a}", []string{`connectors.yaml:7:17: egress.proxy: has more than scheme, host and port`}},
		"good":           {"{allow: [169.254.169.254, 10.0.0.0/8, 192.0.2.7, fd00::/16], proxy: none}", nil},
	} {
		wantProblems(t, weather+"egress: "+c.egress, connectors.Options{}, c.want...)
		own := strings.TrimSuffix(weather, "\n") + "\n    egress: " + c.egress
		if _, got := load(t, own, connectors.Options{}); (len(got) > 0) != (len(c.want) > 0) || len(got) > 0 && !strings.Contains(got[0], " connectors.weather-api.egress") {
			t.Errorf("%s, in a connector: %q", name, got)
		}
	}
}

// plain_http of the file is for all connectors, and that of a connector takes its place.
func TestPlainHTTPInside(t *testing.T) {
	text := `egress: {plain_http: keycloak}
connectors:
  - name: All
    url: http://keycloak:8080/x
    auth: {type: none}
  - name: Own
    url: http://sidecar/x
    auth: {type: oauth_client_credentials, config: {client_id: a, client_secret: "{{ get_secret('s') }}", token_url: http://sidecar/token}}
    egress: {plain_http: [sidecar]}
  - name: Replaced
    url: http://keycloak/x
    auth: {type: none}
    egress: {plain_http: [sidecar]}
`
	wantProblems(t, text, connectors.Options{}, "connectors.yaml:11:10: connectors.replaced.url: is plain http, …")
}

// threats.md 312: plain_http of the file is for the keys and the issuer of sessions and for Vault as well.
func TestPlainHTTPOfSessionsAndVault(t *testing.T) {
	const rest = `
secrets: [{type: vault, address: 'http://vault:8200', token_file: t, path: secret/data/x}]
connectors: [{name: A, url: 'https://api.example.com', auth: {type: none}}]
gateway: {user: {type: jwt, jwt: {issuer: 'http://login', audiences: [a]KEYS}}}
`
	for keys, member := range map[string]string{"": "issuer", ", jwks_url: 'http://login/jwks'": "jwks_url"} {
		text := strings.Replace(rest, "KEYS", keys, 1)
		loadGood(t, "egress: {plain_http: [vault, login]}"+text, connectors.Options{})
		_, got := load(t, "egress: {plain_http: [elsewhere]}"+text, connectors.Options{})
		if all := strings.Join(got, "\n"); len(got) != 2 || !strings.Contains(all, "secrets[0].address: is plain http") || !strings.Contains(all, "gateway.user.jwt."+member+": is plain http") {
			t.Errorf("%s without it: the problems are %q", member, got)
		}
	}
}

// specification.md 2.9: connectors reach an API inside the network, with the authorities of a file, without --dev. A connector's
// egress takes the place of the file's, member by member. threats.md 186, specification.md "egress of a connector"
func TestEgressOfAFileAndOfAConnector(t *testing.T) {
	authority := testworld.NewAuthority(t)
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	api.TLS = &tls.Config{Certificates: []tls.Certificate{authority.Server()}}
	api.StartTLS()
	t.Cleanup(api.Close)
	ca := filepath.Join(t.TempDir(), "company.pem")
	testworld.Check(t, os.WriteFile(ca, []byte(authority.PEM()), 0o600))
	const refused, unknown = "127.0.0.1 is a loopback address; it is dialled only if the operator allows it (egress.allow)", "its certificate is signed by an unknown authority"
	for name, c := range map[string]struct{ file, own, want string }{
		"none":                 {"", "", refused},
		"of the file":          {"{allow: 127.0.0.1, ca_file: CA}", "", ""},
		"of the connector":     {"", "{allow: 127.0.0.1, ca_file: CA}", ""},
		"without authority":    {"{allow: 127.0.0.1}", "", unknown},
		"of both":              {"{ca_file: CA}", "{allow: [127.0.0.0/8]}", ""},
		"another range":        {"{allow: 127.0.0.1, ca_file: CA}", "{allow: 10.0.0.0/8}", refused},
		"no range":             {"{allow: 127.0.0.1, ca_file: CA}", "{allow: []}", refused},
		"a proxy":              {"{allow: 127.0.0.1, ca_file: CA, proxy: 'http://127.0.0.1:1'}", "", "connection refused"},
		"a proxy, without one": {"{allow: 127.0.0.1, ca_file: CA, proxy: 'http://127.0.0.1:1'}", "{proxy: none}", ""},
	} {
		text := "connectors:\n  - {name: Inside, url: '" + api.URL + "', auth: {type: none}"
		if c.own != "" {
			text += ", egress: " + c.own
		}
		text += "}\n"
		if c.file != "" {
			text += "egress: " + c.file
		}
		set := loadGood(t, strings.ReplaceAll(text, "CA", ca), connectors.Options{})
		if used := strings.Contains(text, "CA"); used != (len(set.Files) == 1 && set.Files[0] == ca) {
			t.Errorf("%s: a change of %q is noticed", name, set.Files)
		}
		r := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, api.URL, nil))(t)
		response, err := set.Connectors[0].Upstream().Transport(nil).RoundTrip(r)
		switch {
		case err == nil && c.want == "":
			_ = response.Body.Close()
		case err == nil || c.want == "" || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// What an embedder's options have stays, whatever the file has.
func TestEgressOfTheOptions(t *testing.T) {
	options := connectors.Options{Host: host.Config{Egress: host.Egress{AllowPrivate: true}}}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	t.Cleanup(api.Close)
	options.Host.Egress.AllowHTTP = true
	set := loadGood(t, "connectors:\n  - {name: Inside, url: '"+api.URL+"', auth: {type: none}, egress: {allow: 10.0.0.0/8}}\n", options)
	r := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, api.URL, nil))(t)
	response := testworld.Must(set.Connectors[0].Upstream().Transport(nil).RoundTrip(r))(t)
	_ = response.Body.Close()
}
