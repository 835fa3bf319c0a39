package secretstore_test

import (
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/secretstore"
)

func TestEachLoginReadsSecrets(t *testing.T) {
	for _, tt := range []struct {
		name   string
		config func(f *fakeVault) secretstore.VaultConfig
		login  string
	}{
		{"token that may not look itself up", func(f *fakeVault) secretstore.VaultConfig {
			token := f.token(0, false)
			f.tokens[token].silent = true
			return secretstore.VaultConfig{TokenFile: f.tokenFile(token)}
		}, lookup},
		{"token file", func(f *fakeVault) secretstore.VaultConfig {
			return secretstore.VaultConfig{TokenFile: f.tokenFile(f.token(0, false) + "\n")}
		}, lookup},
		{"AppRole", func(f *fakeVault) secretstore.VaultConfig {
			return secretstore.VaultConfig{AppRole: f.appRole()}
		}, appRoleLogin},
		{"Kubernetes", func(f *fakeVault) secretstore.VaultConfig {
			return secretstore.VaultConfig{Kubernetes: f.kubernetes()}
		}, "POST auth/kubernetes/login"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFakeVault(t)
			value := f.Secret("a secret")
			f.put("crm-key", map[string]any{"value": value})
			store := f.store(tt.config(f))
			if len(f.requests) > 0 {
				t.Errorf("before the first secret was asked for there was %q", f.requests)
			}
			f.want(store, "crm-key", value)
			f.want(store, "crm-key", value)
			f.wantMissing(store, "other", "vault has nothing at secret/data/other")
			f.wantAsked(1, tt.login)
		})
	}
}

func TestSecretLocations(t *testing.T) {
	for _, tt := range []struct {
		name   string
		config secretstore.VaultConfig
		path   string // including the mount
		field  string
	}{
		{"below the mount", secretstore.VaultConfig{}, "secret/crm.key", "value"},
		{"below a prefix", secretstore.VaultConfig{Prefix: "/apps/gateway/"}, "secret/apps/gateway/crm.key", "value"},
		{"in a field of its own", secretstore.VaultConfig{Prefix: "apps", Field: "private key"}, "secret/apps/crm.key", "private key"},
		{"fields of one path", secretstore.VaultConfig{Path: "apps/gateway"}, "secret/apps/gateway", "crm.key"},
		{"in another mount", secretstore.VaultConfig{Mount: "team-a/kv"}, "team-a/kv/crm.key", "value"},
		{"with characters that URLs escape", secretstore.VaultConfig{Prefix: "a b/ü/c?d#e%2f"}, "secret/a b/ü/c?d#e%2f/crm.key", "value"},
		{"in a namespace", secretstore.VaultConfig{Namespace: "org/team"}, "secret/crm.key", "value"},
		{"behind a proxy that has a path", secretstore.VaultConfig{Address: "/vault/"}, "secret/crm.key", "value"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFakeVault(t)
			value := f.Secret("a secret")
			f.namespace = tt.config.Namespace
			f.mounts = append(f.mounts, "team-a/kv")
			f.secrets[tt.path] = map[string]any{tt.field: value, "other": 7}
			tt.config.AppRole = f.appRole()
			if tt.config.Address != "" {
				handler := f.server.Config.Handler
				f.server.Config.Handler = http.StripPrefix("/vault", handler)
				tt.config.Address = f.server.URL + tt.config.Address
			}
			f.want(f.store(tt.config), "crm.key", value)
		})
	}
}

func TestMissingSecrets(t *testing.T) {
	f := newFakeVault(t)
	f.put("deleted", nil)
	f.put("apps", map[string]any{"crm": f.Secret("a secret")})
	f.put("number", map[string]any{"value": 7})
	f.put("object", map[string]any{"value": map[string]any{"x": f.Secret("a secret")}})
	f.put("null", map[string]any{"value": nil})
	f.put("empty", map[string]any{"value": ""})
	byName := f.byAppRole()
	fields := f.store(secretstore.VaultConfig{AppRole: f.appRole(), Path: "apps"})
	elsewhere := f.store(secretstore.VaultConfig{AppRole: f.appRole(), Mount: "kv"})

	f.wantMissing(byName, "none", "vault has nothing at secret/data/none")
	f.wantMissing(byName, "deleted", "vault has nothing at secret/data/deleted")
	f.wantMissing(byName, "../apps", "is not a secret's name")
	f.wantMissing(byName, "..", "is not a secret's name")
	f.wantMissing(byName, "a/b", "is not a secret's name")
	f.wantMissing(byName, "a?version=1", "is not a secret's name")
	f.wantMissing(fields, "none", `vault has no field "none" at secret/data/apps`)
	f.want(byName, "empty", "")

	// A secret that is written incorrectly is another error than a missing one, so that no other store is asked.
	f.wantFailure(byName, "apps", `vault has no field "value" at secret/data/apps`)
	f.wantFailure(byName, "number", `the field "value" at secret/data/number of vault is not text`)
	f.wantFailure(byName, "object", "is not text")
	f.wantFailure(byName, "null", "is not text")
	f.wantFailure(elsewhere, "crm", "vault has no engine at kv/data/crm (404): check address, namespace and mount")
}

func TestFirstOf(t *testing.T) {
	f, value := newCRMVault(t)
	both := host.FirstOf(f.byAppRole(), host.MapSecrets{"crm": "old", "other": "there"})
	f.want(both, "crm", value)
	f.want(both, "other", "there")
	f.wantMissing(both, "none", "vault has nothing at secret/data/none")
	f.server.CloseClientConnections()
	f.server.Listener.Close()
	f.server.CloseClientConnections()
	f.wantFailure(both, "crm", "vault cannot be reached")
	f.wantFailure(both, "other", "vault cannot be reached")
}

func TestConfigurationProblems(t *testing.T) {
	c := newCanaries(t)
	password := c.Word("a secret")
	for _, tt := range []struct {
		name   string
		config secretstore.VaultConfig
		want   []string
	}{
		{"nothing", secretstore.VaultConfig{}, []string{"address: is not an https URL such as https://vault.example.com:8200", "there must be one of token_file, approle, jwt and kubernetes"}},
		{"http", secretstore.VaultConfig{Address: "http://vault.test", TokenFile: "t"}, []string{"address: is plain http, which shows secrets and token to the network: use https, or name the host in plain_http of egress"}},
		{"another scheme", secretstore.VaultConfig{Address: "unix://vault", TokenFile: "t", HTTP: host.Egress{AllowHTTP: true}.AllowsHTTP}, []string{"address: is not an https URL"}},
		{"password in the address", secretstore.VaultConfig{Address: "https://u:" + password + "@vault.test", TokenFile: "t"}, []string{"address: has user info"}},
		{"password in what is no address", secretstore.VaultConfig{Address: "https://u:" + password + "@vault.test:port", TokenFile: "t"}, []string{"address: is not a URL such as"}},
		{"query", secretstore.VaultConfig{Address: "https://vault.test?x", TokenFile: "t"}, []string{"address: has a query: remove it"}},
		{"two logins", secretstore.VaultConfig{Address: "https://vault.test", TokenFile: "t", Kubernetes: &secretstore.VaultJWT{Role: "r"}}, []string{"there must be one of"}},
		{"paths", secretstore.VaultConfig{
			Address: "https://vault.test", Mount: "a/../b", Prefix: "a//b", Namespace: "a\nb", Kubernetes: &secretstore.VaultJWT{Role: "r", Mount: "."},
		}, []string{`mount: "a/../b"`, `prefix: "a//b"`, `namespace: "a\\nb"`, `kubernetes.mount: "."`}},
		{"both ways to find secrets", secretstore.VaultConfig{Address: "https://vault.test", TokenFile: "t", Path: "a", Prefix: "b"}, []string{"path: is for secrets that are fields of one path"}},
		{"CA file that is not there", secretstore.VaultConfig{Address: "https://vault.test", TokenFile: "t", CAFile: "none.pem"}, []string{"ca_file: the file cannot be read"}},
		{"CA file that is none", secretstore.VaultConfig{Address: "https://vault.test", TokenFile: "t", CAFile: "vault_test.go"}, []string{"has no certificate in PEM"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := secretstore.Vault(tt.config)
			c.OutError("an error", err)
			for _, want := range tt.want {
				testworld.WantError(t, "", err, want)
			}
		})
	}
}

// transit returns a store with a transit engine, and the fake server that answers about it with a function.
func transit(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) (*fakeVault, *secretstore.VaultStore) {
	t.Helper()
	f := newFakeVault(t)
	f.trouble = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/v1/transit/") {
			return false
		}
		answer(w, r)
		return true
	}
	store := testworld.Must(secretstore.Vault(secretstore.VaultConfig{
		Address: f.server.URL, CAFile: f.file("ca.pem"), TokenFile: f.tokenFile(f.token(0, false)), Transit: &secretstore.VaultTransit{}, Clock: f.Now,
	}))(t)
	return f, store
}

func dataOf(members map[string]any) string {
	document, _ := json.Marshal(map[string]any{"data": members})
	return string(document)
}

// Only the digest of what is signed goes to the server, unless the algorithm needs all of it.
func TestSignRequest(t *testing.T) {
	jws := base64.RawURLEncoding.EncodeToString([]byte("signature"))
	const digest = "Om6weQ85rIfJTzhWst0sXREOaBFgImGpqSPTuyOtyLc=" // SHA-256 of "data", in Base64
	for algorithm, want := range map[string]string{
		"RS256": `POST /v1/transit/sign/app {"input":"` + digest + `","key_version":2,"hash_algorithm":"sha2-256","prehashed":true,"signature_algorithm":"pkcs1v15","marshaling_algorithm":"jws"}`,
		"PS256": `POST /v1/transit/sign/app {"input":"` + digest + `","key_version":2,"hash_algorithm":"sha2-256","prehashed":true,"signature_algorithm":"pss","salt_length":"hash","marshaling_algorithm":"jws"}`,
		"ES256": `POST /v1/transit/sign/app {"input":"` + digest + `","key_version":2,"hash_algorithm":"sha2-256","prehashed":true,"marshaling_algorithm":"jws"}`,
		"EdDSA": `POST /v1/transit/sign/app {"input":"ZGF0YQ==","key_version":2,"marshaling_algorithm":"jws"}`,
	} {
		got := ""
		f, store := transit(t, func(w http.ResponseWriter, r *http.Request) {
			var body json.RawMessage
			_ = json.NewDecoder(r.Body).Decode(&body)
			got = r.Method + " " + r.URL.Path + " " + string(body)
			_, _ = w.Write([]byte(dataOf(map[string]any{"signature": "vault:v2:" + jws, "key_version": 2})))
		})
		signature, version, err := store.Sign(t.Context(), host.Key{Name: "app", Version: 2}, algorithm, []byte("data"))
		f.OutError("an error", err)
		if err != nil || string(signature) != "signature" || version != 2 {
			t.Errorf("%s: %q of version %d, %v", algorithm, signature, version, err)
		}
		if got != want {
			t.Errorf("%s: the request is\n%s, want\n%s", algorithm, got, want)
		}
	}
}

// A description is used again for a minute, and not after a refusal or for a version that it does not have.
func TestDescriptionsOfKeys(t *testing.T) {
	latest, refuse := 1, false
	key := pemOf(newKey(elliptic.P256()).Public())
	f, store := transit(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && refuse {
			fail(w, http.StatusBadRequest, "no")
			return
		}
		versions := map[string]any{"1": map[string]any{"public_key": key}, "2": map[string]any{"public_key": key}}
		_, _ = w.Write([]byte(dataOf(map[string]any{"type": "ecdsa-p256", "latest_version": latest, "keys": versions})))
	})
	const asking = "GET transit/keys/app"
	describe := func(version int) (host.KeyInfo, error) {
		info, err := store.Describe(t.Context(), host.Key{Name: "app", Version: version})
		f.OutError("an error", err)
		return info, err
	}
	if info, err := describe(0); err != nil || info.Version != 1 || info.Type != "ecdsa-p256" || info.Public == nil {
		t.Fatalf("info = %+v, err = %v", info, err)
	}
	_, _ = describe(1)
	f.wantAsked(1, asking)
	if _, err := describe(2); !errors.Is(err, host.ErrKeyNotFound) || !strings.Contains(err.Error(), "no version 2 at transit/keys/app, the newest is 1") {
		t.Errorf("a version that is not there: %v", err)
	}
	f.wantAsked(2, asking)
	f.with(func() { latest = 2 })
	if info, err := describe(2); err != nil || info.Version != 2 {
		t.Errorf("after a rotation: %+v, %v", info, err)
	}
	f.wantAsked(3, asking)
	f.Advance(time.Minute)
	_, _ = describe(0)
	f.wantAsked(4, asking)
	f.with(func() { refuse = true })
	if _, _, err := store.Sign(t.Context(), host.Key{Name: "app"}, "ES256", nil); !errors.Is(err, host.ErrKeyRefused) {
		t.Errorf("a refusal: %v", err)
	}
	_, _ = describe(0)
	f.wantAsked(5, asking)
}

// A store without transit, and a name that no key can have, ask nothing.
func TestInvalidKeys(t *testing.T) {
	f, store := transit(t, func(http.ResponseWriter, *http.Request) { t.Error("the server was asked") })
	without := f.store(secretstore.VaultConfig{TokenFile: f.tokenFile(f.token(0, false))}).(host.Keys)
	for _, try := range []func() error{
		func() error { _, err := without.Describe(t.Context(), host.Key{Name: "app"}); return err },
		func() error { _, _, err := without.Sign(t.Context(), host.Key{Name: "app"}, "ES256", nil); return err },
		func() error { _, err := store.Describe(t.Context(), host.Key{Name: "../sys/seal"}); return err },
		func() error { _, err := store.Describe(t.Context(), host.Key{Name: "app", Version: -1}); return err },
		func() error { _, _, err := store.Sign(t.Context(), host.Key{Name: "a/b"}, "ES256", nil); return err },
	} {
		if err := try(); !errors.Is(err, host.ErrKeyNotFound) {
			t.Errorf("the error is %v", err)
		}
	}
	for _, algorithm := range []string{"none", "ES257", "ES1", "PS1", "HS2", ""} {
		if _, _, err := store.Sign(t.Context(), host.Key{Name: "app"}, algorithm, nil); !errors.Is(err, host.ErrKeyRefused) {
			t.Errorf("%q: err = %v", algorithm, err)
		}
	}
}
