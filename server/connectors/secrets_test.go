package connectors_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
)

// pkcs8 returns a key as PEM.
func pkcs8(t *testing.T, key any) string {
	t.Helper()
	der := testworld.Must(x509.MarshalPKCS8PrivateKey(key))(t)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// With ReadSecrets, failures that would show at the first request are problems with their places, and no problem shows a
// secret.
func TestReadSecrets(t *testing.T) {
	const canary = "c4n4ry0x9"
	ec := pkcs8(t, testworld.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t))
	text := `connectors:
  - name: There
    url: https://one.example
    auth: {type: api_key, config: {key: X-Key, value: "{{ get_secret('there') }}", in: header}}
  - name: Missing
    url: https://two.example
    auth: {type: api_key, config: {key: X-Key, value: "Bearer {{ get_secret('missing') }}", in: header}}
  - name: Empty
    url: https://three.example
    auth: {type: api_key, config: {key: X-Key, value: "{{ get_secret('empty') }}", in: header}}
  - name: Mismatch
    url: https://four.example
    auth:
      type: jwt
      config: {algorithm: RS256, private_key: "{{ get_secret('ec') }}", claims: {sub: "{{ user.email }}"}}
  - name: Key
    url: https://five.example
    auth:
      type: jwt
      config: {algorithm: ES256, private_key: "{{ get_secret('ec') }}", claims: {sub: "{{ user.email }}"}}
  - name: Exchange
    url: https://six.example
    auth:
      type: oauth_jwt_bearer
      config: {client_id: x, private_key: "{{ get_secret('there') }}", token_url: https://six.example/token, subject: x, audience: x}
  - name: Variable
    url: https://seven.example
    auth: {type: api_key, config: {key: X-Key, value: "{{ get_variable('region') }}{{ get_secret('there') }}", in: header}}
  - name: Line break
    url: https://eight.example
    auth: {type: api_key, config: {key: X-Key, value: "{{ get_secret('lines') }}", in: header}}
`
	config := host.Config{Secrets: host.MapSecrets{"there": canary, "empty": " \n", "ec": ec, "lines": canary + "\n" + canary}}
	loadGood(t, text, connectors.Options{Host: config})
	wantProblems(t, text, connectors.Options{Host: config, ReadSecrets: true},
		`connectors.yaml:7:77: connectors.missing.auth.config.value: secret "missing": the secret is not found`,
		`connectors.yaml:10:70: connectors.empty.auth.config.value: secret "empty": it is empty`,
		`connectors.yaml:15:47: connectors.mismatch.auth.config: private_key: the key for RS256 is an EC key on P-256: an RSA key is needed`,
		`connectors.yaml:25:43: connectors.exchange.auth.config: private_key: the key for RS256 is not PEM, nor a JWK, nor Base64 of PKCS #8, PKCS #1 or SEC 1: copy all of it, with the line -----BEGIN … PRIVATE KEY----- if there is one`,
		`connectors.yaml:28:27: connectors.variable.auth.config: value: column 4: get_variable('region'): there is no such variable: set region (--var NAME=VALUE)`,
		`connectors.yaml:31:27: connectors.line-break.auth.config: the mutation's headers: the value of "X-Key" holds a line break or another control character`,
	)
}

// With ReadSecrets, the log has a warning for a secret that is probably a mistake: white space at its end, which a key of several
// lines may have, and a key for HMAC that is shorter than RFC 7518 section 3.2 wants. It does not show the secret.
func TestReadSecretsWarns(t *testing.T) {
	const canary = "c4n4ry0x9"
	const text = `connectors:
  - name: Blank
    url: https://one.example
    auth: {type: api_key, config: {key: X-Key, value: "{{ get_secret('blank') }}", in: header}}
  - name: Lines
    url: https://two.example
    auth: {type: api_key, config: {key: X-Key, value: "{{ base64_encode(get_secret('lines')) }}", in: header}}
  - name: Weak
    url: https://three.example
    auth: {type: jwt, config: {algorithm: HS256, private_key: "{{ get_secret('weak') }}", claims: {sub: a}}}
`
	var log testworld.Log
	config := host.Config{Logger: log.Logger(), Secrets: host.MapSecrets{"blank": canary + " ", "lines": canary + "\n" + canary + "\n", "weak": canary}}
	loadGood(t, text, connectors.Options{Host: config, ReadSecrets: true})
	logged := log.String()
	for _, want := range []string{`"secret":"blank","connector":"blank"`, `"msg":"auth.config.private_key: HS256 key is shorter than 32 bytes","connector":"weak"`} {
		if strings.Count(logged, want) != 1 {
			t.Errorf("the log does not have %q once:\n%s", want, logged)
		}
	}
	if strings.Contains(logged, canary) || strings.Contains(logged, "lines") {
		t.Errorf("the log is\n%s", logged)
	}
}

// A rehearsal makes a request that callers may make: a credential in a form has a form, and one in a path that callers write has its
// placeholder. A connector whose methods have no body cannot add a form, and a secret may not lead elsewhere.
func TestRehearsalOfFormAndPath(t *testing.T) {
	text := `connectors:
  - name: Path
    url: https://one.example/v1
    paths: [/**]
    auth: {type: api_key, config: {in: path, key: "{token}", value: "{{ get_secret('there') }}"}}
  - name: Form
    url: https://two.example
    method: [GET, POST]
    auth: {type: api_key, config: {in: form, key: token, value: "{{ get_secret('there') }}"}}
  - name: No form
    url: https://three.example
    auth: {type: api_key, config: {in: form, key: token, value: "{{ get_secret('there') }}"}}
  - name: Elsewhere
    url: https://four.example
    auth: {type: api_key, config: {in: path, key: "{token}", value: "{{ get_secret('up') }}"}}
`
	config := host.Config{Secrets: host.MapSecrets{"there": "123456:c4n4ry", "up": "../.."}}
	wantProblems(t, text, connectors.Options{Host: config, ReadSecrets: true},
		"connectors.yaml:12:27: connectors.no-form.auth.config: the credential goes into the body, and the request's method has none",
		"connectors.yaml:15:27: connectors.elsewhere.auth.config: the mutation's path: a value has a segment that leads elsewhere",
	)
}

// Secrets of tenants and users are read only for the tenant and the user of the options. Then a rehearsal finds what is wrong
// with their values. Two of them are never the same environment variable.
func TestReadSecretsOfTenantsAndUsers(t *testing.T) {
	const text = `connectors:
  - name: Both
    url: https://one.example
    auth: {type: api_key, config: {key: X-Key, value: "{{ get_secret('crm.key', 'tenant') + get_secret('crm-key', 'tenant') }}", in: header}}
    headers: [{name: X-User, value: "{{ get_secret('crm', 'user') }}"}]
`
	config := host.Config{Secrets: host.MapSecrets{
		"tenants/acme/crm.key": "c4n4ry0x9", "tenants/acme/crm-key": "c4n4ry0x9", "users/ann/crm": "c4n4ry0x9",
		"tenants/beta/crm.key": "c4n4ry0x9\n", "tenants/beta/crm-key": "c4n4ry0x9", "tenants/gamma/crm.key": " ", "tenants/gamma/crm-key": "c4n4ry0x9",
	}}
	for _, tt := range []struct {
		name string
		user host.User
		want []string
	}{
		{"nobody", host.User{}, nil},
		{"a tenant", host.User{TenantID: "acme"}, nil},
		{"a tenant and a user", host.User{ID: "ann", TenantID: "acme"}, nil},
		{"a user without a secret", host.User{ID: "bob"}, []string{
			`connectors.yaml:5:52: connectors.both.headers[0].value: secret "users/*/crm": the secret is not found`,
		}},
		{"a tenant whose secret is empty", host.User{TenantID: "gamma"}, []string{
			`connectors.yaml:4:70: connectors.both.auth.config.value: secret "tenants/*/crm.key": it is empty`,
		}},
		{"a tenant whose secret cannot be sent", host.User{ID: "ann", TenantID: "beta"}, []string{
			`connectors.yaml:4:27: connectors.both.auth.config: the mutation's headers: the value of "X-Key" holds a line break or another control character`,
		}},
		{"an id that is no name", host.User{ID: "../ann"}, []string{
			`connectors.yaml:5:52: connectors.both.headers[0].value: secret "users/*/crm": the id of the user cannot be part of a secret's name: it must be 1 to 128 lower-case letters, digits, '_' or '-', and begin with a letter or digit`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wantProblems(t, text, connectors.Options{Host: config, ReadSecrets: true, Environment: true, User: tt.user}, tt.want...)
		})
	}
}

// A rehearsal needs the tenant whose host it tries, and says so in place of a problem of a tenant that it makes up.
func TestReadSecretsWithTenantsHosts(t *testing.T) {
	const text = `connectors:
  - name: Desk
    url: "https://{{ get_variable('desk', 'tenant') }}.desk.example"
    hosts: ["*.desk.example"]
    hosts_share_secrets: true
    auth:
      type: oauth_client_credentials
      config: {client_id: me, client_secret: "{{ get_secret('s') }}", token_url: "https://{{ get_variable('desk', 'tenant') }}.desk.example/token"}
`
	for tenant, want := range map[string]string{
		"": "was not tried, because its host depends on the tenant: --tenant ID says which", "acme": "", "beta": "get_variable('desk', 'tenant'): there is no such variable", "evil": "is no label",
	} {
		config := host.Config{Secrets: host.MapSecrets{"s": "c4n4ry0x9"}, Variables: map[string]string{"tenants/acme/desk": "acme1", "tenants/evil/desk": "a.evil"}}
		set, problems := load(t, text, connectors.Options{Host: config, ReadSecrets: true, Inspect: true, User: host.User{TenantID: tenant}})
		if set != nil {
			for _, w := range set.Warnings {
				problems = append(problems, w.Message)
			}
		}
		if got := strings.Join(problems, "\n"); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("tenant %q: %q, want %q", tenant, got, want)
		}
	}
}

// With ReadSecrets, metadata that a person has to mend is a problem. An issuer that is down is none.
func TestMetadataOfIssuers(t *testing.T) {
	wrong := httptest.NewServer(http.NotFoundHandler())
	defer wrong.Close()
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	defer down.Close()
	text := `connectors:
  - name: Wrong
    url: https://one.example
    auth:
      type: oauth_client_credentials
      config: {client_id: me, client_secret: "{{ get_secret('there') }}", token_url: "{{ discover('` + wrong.URL + `', 'token_endpoint') }}"}
  - name: Down
    url: https://two.example
    auth:
      type: oauth_client_credentials
      config: {client_id: me, client_secret: "{{ get_secret('there') }}", token_url: "{{ discover('` + down.URL + `', 'token_endpoint') }}"}
`
	config := host.Config{Secrets: host.MapSecrets{"there": "c4n4ry0x9"}, Egress: host.Egress{AllowHTTP: true, AllowPrivate: true}}
	loadGood(t, text, connectors.Options{Host: config})
	wantProblems(t, text, connectors.Options{Host: config, ReadSecrets: true},
		"connectors.yaml:6:7: connectors.wrong.auth.config: the metadata of "+wrong.URL+": there is none: …")
}
