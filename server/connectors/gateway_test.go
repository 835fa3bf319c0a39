package connectors_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
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
	if want := (gateway.Consent{URL: "https://gw.example.com", ReturnTo: "https://app.example.com/settings?tab=accounts"}); set.Settings.Consent != want {
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
		`connectors.yaml:8:5: secrets[1]: there must be one of token_file, approle a…`,
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
