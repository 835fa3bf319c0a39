package connectors_test

import (
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
	want := []string{
		file + `:9:63: connectors.mismatch.auth.config: private_key: key "ec": the key for RS256 is of the type ecdsa-p256: an RSA key of 2048 to 8192 bits is needed`,
		file + `:12:63: connectors.missing.auth.config: private_key: key "none": the key is not found: vault has nothing at transit/keys/none`,
	}
	if err == nil {
		t.Fatal("there are no problems")
	}
	if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(err.Error()), "\n")); diff != "" {
		t.Error(diff)
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
		if _, got := load(t, text, connectors.Options{}); !cmp.Equal(want, got) {
			t.Errorf("text = %s\ncmp.Diff(want, got) = %s", text, cmp.Diff(want, got))
		}
	}
}
