package secretstore_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/secretstore"
)

// transit returns a store with a transit engine, and the fake server that answers about it with a function.
func transit(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) (*fakeVault, secretstore.VaultStore) {
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
		Address: f.server.URL, CAFile: f.file("ca.pem"), Token: f.token(0, false), Transit: &secretstore.VaultTransit{}, Clock: f.Now,
	}))(t)
	return f, store
}

// publicPEM returns a new public key on P-256.
func publicPEM(t *testing.T) string {
	t.Helper()
	key := testworld.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	der := testworld.Must(x509.MarshalPKIXPublicKey(key.Public()))(t)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
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
	key := publicPEM(t)
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
	without := f.store(secretstore.VaultConfig{Token: f.token(0, false)}).(host.Keys)
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
