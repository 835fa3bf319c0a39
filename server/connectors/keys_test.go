package connectors_test

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
)

// withKeysOf is a file with a store of keys, and a connector for each of some keys. %s is the store's address.
const withKeysOf = `secrets:
  - {type: vault, address: "ADDRESS", token_file: token, transit: {}}
connectors:
  - name: There
    url: https://one.example
    auth: {type: jwt, config: {algorithm: ES256, private_key: "{{ get_key('ec') }}", claims: {sub: "{{ user.email }}"}}}
  - name: Mismatch
    url: https://two.example
    auth: {type: jwt, config: {algorithm: RS256, private_key: "{{ get_key('ec') }}", claims: {sub: x}}}
  - name: Missing
    url: https://three.example
    auth: {type: jwt, config: {algorithm: ES256, private_key: "{{ get_key('none') }}", claims: {sub: x}}}
`

// ecKey is a description of a key by Vault.
const ecKey = `{"data":{"type":"ecdsa-p256","latest_version":1,"keys":{"1":{"public_key":"-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEaxfR8uEsQkf4vOblY6RA8ncDfYEt\n6zOg9KE5RdiYwpZP40Li/hp/m47n60p8D54WK84zV2sxXs7LtkBoN79R9Q==\n-----END PUBLIC KEY-----\n"}}}}`

// With ReadSecrets, the store is asked whether the keys are there and fit, and signs nothing.
func TestReadKeys(t *testing.T) {
	asked := 0
	vault := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch r.Method + " " + r.URL.Path {
		case "GET /v1/auth/token/lookup-self":
			_, _ = w.Write([]byte(`{"data":{"ttl":0}}`))
		case "GET /v1/transit/keys/ec":
			_, _ = w.Write([]byte(ecKey))
		case "GET /v1/transit/keys/none":
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"errors":[]}`))
		default:
			t.Errorf("unexpected: %s %s", r.Method, r.URL)
		}
	}))
	defer vault.Close()
	file := filepath.Join(t.TempDir(), "connectors.yaml")
	testworld.Check(t, os.WriteFile(filepath.Join(filepath.Dir(file), "token"), []byte("canary-token"), 0o600))
	text := strings.ReplaceAll(withKeysOf, "ADDRESS", vault.URL)
	options := connectors.Options{Host: host.Config{Egress: host.Egress{AllowHTTP: true}}}
	set, err := connectors.Read(t.Context(), file, []byte(text), options)
	if err != nil || asked > 0 {
		t.Fatalf("the store was asked %d times without being wanted, %v", asked, err)
	}
	_ = set.Close(t.Context())
	options.ReadSecrets = true
	_, err = connectors.Read(t.Context(), file, []byte(text), options)
	want := file + `:9:63: connectors.mismatch.auth.config: private_key: key "ec": the key for RS256 is of the type ecdsa-p256: an RSA key of 2048 to 8192 bits is needed` + "\n" +
		file + `:12:63: connectors.missing.auth.config: private_key: key "none": the key is not found: vault has nothing at transit/keys/none`
	if err == nil || err.Error() != want {
		t.Errorf("err = %v, want %s", err, want)
	}
}

// A file has one store of keys at most, and get_key needs one.
func TestStoresOfKeys(t *testing.T) {
	store := "  - {type: vault, address: 'https://a.example', token_file: t, transit: {mount: keys}}\n"
	key := "connectors:\n  - {name: A, url: 'https://a.example', auth: {type: jwt, config: {private_key: \"{{ get_key('a') }}\", claims: {}}}}\n"
	for text, want := range map[string][]string{
		"secrets:\n" + store + key: nil,
		key:                        {`connectors.yaml:2:82: connectors.a.auth.config.private_key: there is no store of keys for get_key: give a store of type vault the member transit`},
		"secrets:\n" + store + store + key: {
			`connectors.yaml:3:73: secrets[1].transit: is there twice: one store of the file may have keys`,
		},
		"secrets:\n" + strings.Replace(store, "mount: keys", "mount: 'a//b'", 1) + key: {
			`connectors.yaml:2:74: secrets[0].transit.mount: "a//b" must be names with a slash between them`,
			`connectors.yaml:4:82: connectors.a.auth.config.private_key: there is no store of keys for get_key: give a store of type vault the member transit`,
		},
	} {
		wantProblems(t, text, connectors.Options{}, want...)
	}
}

// A file in which a key signs JWS and something else is refused, whichever stands first (threats.md 427).
func TestSharedKeys_threats_427(t *testing.T) {
	const (
		signs  = "  - {name: A, url: 'https://a.example', auth: {type: jws, config: {key: X-JWS, private_key: \"{{ get_secret('k') }}\"}}}\n"
		issues = "  - {name: B, url: 'https://b.example', auth: {type: jwt, config: {claims: {sub: ann}, private_key: \"{{ get_secret('k') }}\"}}}\n"
		want   = `:93: connectors.a.auth.config.private_key: secret "k" signs JWS and is a key of connector "b" too, for something else: ` +
			"a caller's body, with its signature, could pass for a JWT there. Use a key of its own"
	)
	wantProblems(t, "connectors:\n"+signs+issues, connectors.Options{}, "connectors.yaml:2"+want)
	wantProblems(t, "connectors:\n"+issues+signs, connectors.Options{}, "connectors.yaml:3"+want)
	wantProblems(t, "connectors:\n"+issues+strings.Replace(signs, "'k'", "'own'", 1), connectors.Options{})
}

const bank = `connectors:
  - name: Bank
    url: https://bank.example
    auth: {type: none}
    tls: {certificate: "{{ get_secret('NAME.crt') }}", key: "{{ get_secret('NAME.key') }}"}
`

// With ReadSecrets, a client certificate that cannot be used is a problem at its place, and the Set says when a good one ends.
func TestClientCertificates(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	ends := now.Add(time.Hour).UTC()
	a := testworld.NewAuthority(t)
	secrets := host.MapSecrets{}
	secrets["good.crt"], secrets["good.key"] = a.Client("good", ends)
	secrets["ended.crt"], secrets["ended.key"] = a.Client("ended", now.Add(-time.Hour))
	secrets["other.crt"], _ = a.Client("other", ends)
	secrets["other.key"] = secrets["good.key"]
	secrets["text.crt"], secrets["text.key"] = "hunter2hunter2", secrets["good.key"]
	secrets["lacking.crt"] = secrets["good.crt"]
	for name, want := range map[string]string{
		"good":    "",
		"ended":   "connectors.yaml:5:24: connectors.bank.tls.certificate: the certificate ended at 2023-11-14T21:13:20Z: replace the secret by a renewed one",
		"other":   "connectors.yaml:5:62: connectors.bank.tls.key: the key is not that of tls.certificate: both must be renewed together",
		"text":    "connectors.yaml:5:24: connectors.bank.tls.certificate: has no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----: take it from a secret, as in {{ get_secret('client_certificate') }}",
		"lacking": `connectors.yaml:5:79: connectors.bank.tls.key: secret "lacking.key": the secret is not found`,
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.ReplaceAll(bank, "NAME", name)
			options := connectors.Options{Host: host.Config{Secrets: secrets, Clock: func() time.Time { return now }}}
			loadGood(t, text, options)
			options.ReadSecrets = true
			set, problems := load(t, text, options)
			if got := strings.Join(problems, "\n"); got != want {
				t.Errorf("the problems are\n%s\nwant\n%s", got, want)
			}
			if want == "" && *set.ClientCertificates["bank"] != (host.ClientCertificate{Subject: "CN=good", NotAfter: ends, Path: "tls.certificate"}) {
				t.Errorf("it has %+v", set.ClientCertificates)
			}
		})
	}
}

// A client certificate may come with its key from a file of PKCS #12.
func TestClientCertificatesOfPKCS12(t *testing.T) {
	const text = `connectors:
  - name: Bank
    url: https://bank.example
    auth: {type: none}
    tls: {pkcs12: "{{ get_secret('file') }}", passphrase: "{{ get_secret('passphrase') }}"}
`
	now := time.Unix(1_700_000_000, 0)
	const passphrase = "the passphrase"
	authority := testworld.NewAuthority(t)
	export := func(ends time.Time) string {
		certificate, key := authority.Client("good", ends)
		pem := filepath.Join(t.TempDir(), "client.pem")
		testworld.Check(t, os.WriteFile(pem, []byte(certificate+key), 0o600))
		file := testworld.Must(exec.CommandContext(t.Context(), "openssl", "pkcs12", "-export", "-in", pem, "-passout", "pass:"+passphrase).Output())(t)
		return base64.StdEncoding.EncodeToString(file)
	}
	good := export(now.Add(90 * 24 * time.Hour))
	for name, c := range map[string]struct{ file, passphrase, problem, warning string }{
		"valid":            {good, passphrase, "", ""},
		"wrong passphrase": {good, "another", "the passphrase is wrong", ""},
		"ended":            {export(now.Add(-time.Hour)), passphrase, "the certificate ended at 2023-11-14T21:13:20Z: replace the secret by a renewed one", ""},
		"ends soon":        {export(now.Add(time.Hour)), passphrase, "", "CN=good ends at 2023-11-14T23:13:20Z, within 30 days: renew it"},
	} {
		secrets := host.MapSecrets{"file": c.file, "passphrase": c.passphrase}
		set, problems := load(t, text, connectors.Options{
			ReadSecrets: true, Inspect: true, Host: host.Config{Secrets: secrets, Clock: func() time.Time { return now }},
		})
		const place = "5:19: connectors.bank.tls.pkcs12: "
		if got := strings.TrimPrefix(strings.Join(problems, "\n"), "connectors.yaml:"+place); got != c.problem {
			t.Errorf("%s: problem = %q, want %q", name, got, c.problem)
		}
		if c.problem != "" {
			continue
		}
		if got := set.ClientCertificates["bank"]; got.Subject != "CN=good" || got.Path != "tls.pkcs12" {
			t.Errorf("%s: certificate = %+v, want CN=good of tls.pkcs12", name, got)
		}
		var warnings []string
		for _, w := range set.Warnings {
			warnings = append(warnings, w.String())
		}
		if got := strings.TrimPrefix(strings.Join(warnings, "\n"), place); got != c.warning {
			t.Errorf("%s: warnings = %q, want %q", name, got, c.warning)
		}
	}
}

// The members of tls, and problems with them at their places.
func TestTLSOfAConnector(t *testing.T) {
	const before = `connectors:
  - name: Bank
    url: https://bank.example
    auth: {type: none}
    tls: `
	for text, want := range map[string][]string{
		`{certificate: "{{ get_secret('c') }}", cert: x, for: [api, tokens]}`: {
			"connectors.yaml:5:5: connectors.bank.tls.key: is missing: it is the private key of certificate",
			"connectors.yaml:5:49: connectors.bank.tls.cert: is not known here; there are certificate, key, pkcs12, passphrase, ca, for",
			`connectors.yaml:5:69: connectors.bank.tls.for[1]: is neither api nor token; did you mean "token"?`,
		},
		"client.pem": {"connectors.yaml:5:10: connectors.bank.tls: is text: an object with certificates is wanted"},
		"{}":         {"connectors.yaml:5:5: connectors.bank.tls: has neither certificate nor pkcs12 nor ca: give it one of them, or leave it out"},
		`{certificate: "{{ get_secret('c') }}", key: "{{ get_sekret('k') }}"}`: {
			"connectors.yaml:5:58: connectors.bank.tls.key: unknown function \"get_sekret\": there are get_secret, get_key, get_variable, identity, discover, now, uuid, default, base64_encode, base64_decode, json_encode, json_get",
		},
	} {
		wantProblems(t, before+text+"\n", connectors.Options{}, want...)
	}
	set := loadGood(t, before+`{certificate: "{{ get_secret('c') }}", key: "{{ get_secret('k') }}", for: token}`+"\n", connectors.Options{})
	d := set.Connectors[0].Definition()
	if !slices.Equal(d.TLS.For, []string{host.TLSForToken}) || !slices.Equal(set.Connectors[0].Secrets(), []string{"c", "k"}) {
		t.Errorf("it is %+v, with the secrets %q", d.TLS, set.Connectors[0].Secrets())
	}
}

// A secret of Vault counts for five seconds unless the file has remember, as the schema and docs/gateway.md say.
func TestDefaultOfRemember(t *testing.T) {
	reads := 0
	vault := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/secret/data/") {
			reads++
		}
		_, _ = w.Write([]byte(`{"data":{"data":{"value":"a secret"}}}`))
	}))
	defer vault.Close()
	clock := testworld.NewClock(time.Unix(1_700_000_000, 0))
	file := filepath.Join(t.TempDir(), "connectors.yaml")
	testworld.Check(t, os.WriteFile(filepath.Join(filepath.Dir(file), "token"), []byte("a-token"), 0o600))
	text := "secrets: [{type: vault, address: '" + vault.URL + "', token_file: token}]\n" + weather
	options := connectors.Options{Host: host.Config{Clock: clock.Now, Egress: host.Egress{AllowHTTP: true}}}
	set := testworld.Must(connectors.Read(t.Context(), file, []byte(text), options))(t)
	defer set.Close(t.Context())
	for second, want := range []int{1, 1, 1, 1, 1, 2} {
		testworld.Check(t, set.CheckSecret(t.Context(), "weather", host.User{}))
		if reads != want {
			t.Errorf("the store was asked %d times after %d s, want %d", reads, second, want)
		}
		clock.Advance(time.Second)
	}
	schema := testworld.Must(connectors.Schema(nil))(t)
	if !regexp.MustCompile(`"remember": \{\s+"default": "5s",`).Match(schema) {
		t.Error("the schema has another default of remember, want 5s")
	}
	page := testworld.Must(os.ReadFile("../../docs/gateway.md"))(t)
	if want := "| `remember` | for how long an answer is used again; 5s unless given |"; !strings.Contains(string(page), want) {
		t.Errorf("docs/gateway.md does not have %q", want)
	}
}
