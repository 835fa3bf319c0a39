package identities

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/MicahParks/jwkset"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/jws"
	"github.com/keywright/keywright/internal/testworld"
)

// keyring is a store of keys with one key, whose versions are in memory.
type keyring struct {
	mu       sync.Mutex
	versions []crypto.Signer
	// floor is the first version that may be used.
	floor int
	err   error
	reads int
	// forged makes all signatures those of this key.
	forged crypto.Signer
}

func (k *keyring) add(t *testing.T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.versions = append(k.versions, testworld.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t))
}

func (k *keyring) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

func (k *keyring) Describe(_ context.Context, key host.Key) (host.KeyInfo, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reads++
	if key.Version == 0 {
		key.Version = len(k.versions)
	}
	switch {
	case k.err != nil:
		return host.KeyInfo{}, k.err
	case key.Name != "issuer" || key.Version > len(k.versions) || key.Version < k.floor:
		return host.KeyInfo{}, host.ErrKeyNotFound
	}
	return host.KeyInfo{Version: key.Version, Public: k.versions[key.Version-1].Public()}, nil
}

func (k *keyring) Sign(_ context.Context, key host.Key, algorithm string, data []byte) ([]byte, int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err != nil {
		return nil, 0, k.err
	}
	private := k.versions[key.Version-1]
	if k.forged != nil {
		private = k.forged
	}
	signature, err := jws.Method(algorithm).Sign(string(data), private)
	return signature, key.Version, err
}

// issuerLab is an issuer with its key and clock.
type issuerLab struct {
	*testworld.Clock
	*keyring
	*Issuer
	set *Set
}

func newIssuerLab(t *testing.T) *issuerLab {
	l := &issuerLab{Clock: testworld.NewClock(time.Unix(1_700_000_000, 0)), keyring: &keyring{}}
	l.add(t)
	l.restart("keywright")
	return l
}

// restart begins again with a subject, as a new process does.
func (l *issuerLab) restart(subject string) {
	l.Issuer = &Issuer{
		URL: "https://gateway.test", Subject: subject, TTL: 5 * time.Minute, Key: host.Key{Name: "issuer"}, Keys: l.keyring, Clock: l.Now, Random: rand.Reader,
	}
	l.set = New(l.Now, Identity{Name: "pod", For: []Audience{{audience, []string{"sts.test"}}}, Once: true, Subject: l.SubjectOf, Fetch: l.Get})
}

// jwks reads the keys as a party does.
func (l *issuerLab) jwks(t *testing.T) map[string]jwkset.JWK {
	t.Helper()
	var keys jwkset.JWKSMarshal
	testworld.Check(t, json.Unmarshal(testworld.Must(l.Documents()["/.well-known/jwks.json"](t.Context()))(t), &keys))
	all := map[string]jwkset.JWK{}
	for _, k := range testworld.Must(keys.JWKSlice())(t) {
		all[k.Marshal().KID] = k
	}
	return all
}

// verify returns the claims of a token if one of the keys verifies it.
func verify(t *testing.T, token string, keys map[string]jwkset.JWK) claims {
	t.Helper()
	header, body, err := jws.Decode(token)
	testworld.Check(t, err)
	id, _ := header["kid"].(string)
	algorithm, _ := header["alg"].(string)
	key, ok := keys[id]
	end := strings.LastIndexByte(token, '.')
	signature := testworld.Must(decodePart(token[end+1:]))(t)
	if !ok || key.Marshal().ALG.String() != algorithm || header["typ"] != "JWT" || jws.Method(algorithm).Verify(token[:end], signature, key.Key()) != nil {
		t.Fatalf("the keys do not verify a token with the header %v", header)
	}
	return body
}

// A token of the issuer is verified by what its documents have, and each exchange gets another one.
func TestIssuer(t *testing.T) {
	l := newIssuerLab(t)
	var metadata map[string]any
	testworld.Check(t, json.Unmarshal(testworld.Must(l.Documents()["/.well-known/openid-configuration"](t.Context()))(t), &metadata))
	if metadata["issuer"] != "https://gateway.test" || metadata["jwks_uri"] != "https://gateway.test/.well-known/jwks.json" {
		t.Errorf("the metadata is %v", metadata)
	}
	serials := map[any]bool{}
	for range 3 {
		body := verify(t, testworld.Must(tokenFor(l.set, audience, true))(t), l.jwks(t))
		names := []string{}
		for name := range body {
			names = append(names, name)
		}
		slices.Sort(names)
		if strings.Join(names, " ") != "aud exp iat iss jti sub" || body["aud"] != audience || body["iss"] != "https://gateway.test" || body["sub"] != "keywright" {
			t.Errorf("the claims are %v", body)
		}
		if body["iat"] != json.Number("1700000000") || body["exp"] != json.Number("1700000300") {
			t.Errorf("the times are %v", body)
		}
		serials[body["jti"]] = true
	}
	if len(serials) != 3 {
		t.Errorf("3 exchanges had %d tokens", len(serials))
	}
	first := testworld.Must(tokenFor(l.set, audience, false))(t)
	if second := testworld.Must(tokenFor(l.set, audience, false))(t); first != second {
		t.Error("a request without an exchange makes a token")
	}
}

// threats.md 511: a new version of the key signs once parties can have it, an old one is listed as long as it is there, and no party with the
// keys of an hour ago refuses a token.
func TestVersionsOfIssuer_threats_511(t *testing.T) {
	l := newIssuerLab(t)
	previous := l.jwks(t)
	token := func() string { return testworld.Must(tokenFor(l.set, audience, true))(t) }
	l.add(t)
	l.Advance(time.Minute)
	if got := l.jwks(t); len(got) != 2 {
		t.Errorf("%d keys are listed, want 2", len(got))
	}
	verify(t, token(), previous)
	l.Advance(time.Hour - time.Second)
	verify(t, token(), previous)
	current := l.jwks(t)
	l.Advance(time.Second)
	newest := token()
	verify(t, newest, current)
	if header, _, _ := jws.Decode(newest); previous[header["kid"].(string)].Key() != nil {
		t.Error("the old version signs after an hour")
	}
	l.restart("keywright") // a process that starts does not know since when the newest is published
	verify(t, token(), previous)
	l.add(t)
	l.Advance(30 * time.Minute) // nor does the third make the second one older
	verify(t, token(), previous)
	l.floor = 2 // the old one is gone
	l.Advance(2 * time.Minute)
	if got := l.jwks(t); len(got) != 2 {
		t.Errorf("%d keys are listed, want 2", len(got))
	}
	verify(t, token(), current)
}

// threats.md 512: the subject of a tenant cannot be written by another one, and without a tenant there is none.
func TestSubjectOfIssuer_threats_512(t *testing.T) {
	l := newIssuerLab(t)
	l.restart("tenant:{{ tenant_id }}:user:{{user.id}}")
	token := func(tenant, user string) (string, error) {
		ctx := host.WithUser(t.Context(), host.User{ID: user, TenantID: tenant})
		return l.set.Identity(ctx, host.IdentityRequest{Name: "pod", Audience: audience})
	}
	subjects := map[string]bool{}
	for _, who := range [][3]string{
		{"acme", "1", "tenant:acme:user:1"},
		{"acme", "2", "tenant:acme:user:2"},
		{"acme:user:1", "1", "tenant:acme%3Auser%3A1:user:1"},
		{"acme\n", "1", "tenant:acme%0A:user:1"},
		{"{{ user.id }}", "1", "tenant:%7B%7B+user.id+%7D%7D:user:1"},
	} {
		for range 2 { // made, and remembered
			body := verify(t, testworld.Must(token(who[0], who[1]))(t), l.jwks(t))
			if body["sub"] != who[2] {
				t.Errorf("the subject of %v is %v", who, body["sub"])
			}
			subjects[who[2]] = true
		}
	}
	if len(subjects) != 5 {
		t.Errorf("there are %d subjects, want 5", len(subjects))
	}
	for _, who := range [][2]string{{"", "1"}, {"acme", ""}, {"", ""}} {
		if got, err := token(who[0], who[1]); !errors.Is(err, host.ErrIdentityRefused) || got != "" {
			t.Errorf("%v has a token: %v", who, err)
		}
	}
	for subject, want := range map[string]string{"{{ user.email }}": "no other template", "{{ get_secret('x') }}": "no other template", "x {{": "no other template", "{tenant_id}": ""} {
		if err := (&Issuer{Subject: subject}).CheckSubject(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("the subject %s has the error %v", subject, err)
		}
	}
}

// A store that is down, a key of another kind and a false signature make no token. Keys that are known stay published.
func TestFailuresOfIssuer(t *testing.T) {
	l := newIssuerLab(t)
	down := errors.New("the store is down")
	l.fail(down)
	for range 5 {
		if _, err := l.Documents()["/.well-known/jwks.json"](t.Context()); !errors.Is(err, down) {
			t.Errorf("the error is %v", err)
		}
	}
	if l.reads != 1 {
		t.Errorf("the store was asked %d times within a second", l.reads)
	}
	l.Advance(time.Second)
	if _, err := tokenFor(l.set, audience, true); !errors.Is(err, down) || errors.Is(err, host.ErrIdentityRefused) {
		t.Errorf("the error is %v", err)
	}
	l.fail(nil)
	l.Advance(time.Second)
	keys := l.jwks(t)
	l.fail(down)
	l.Advance(time.Hour)
	if got := l.jwks(t); len(got) != len(keys) {
		t.Errorf("%d keys are listed, want %d", len(got), len(keys))
	}
	l.fail(host.ErrKeyRefused)
	if _, err := tokenFor(l.set, audience, true); !errors.Is(err, host.ErrIdentityRefused) {
		t.Errorf("the error is %v", err)
	}
	l.fail(nil)
	l.forged = testworld.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	l.Advance(time.Second)
	_, err := tokenFor(l.set, audience, true)
	testworld.WantError(t, "a false signature", err, "is not that of the key")

	rsaKey := testworld.Must(rsa.GenerateKey(rand.Reader, 2048))(t)
	_, edKey, _ := ed25519.GenerateKey(rand.Reader)
	for algorithm, key := range map[string]crypto.Signer{"RS256": rsaKey, "EdDSA": edKey, "ES384": testworld.Must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))(t)} {
		l := newIssuerLab(t)
		l.keyring.versions = []crypto.Signer{key}
		token := testworld.Must(tokenFor(l.set, audience, true))(t)
		verify(t, token, l.jwks(t))
		if header, _, _ := jws.Decode(token); header["alg"] != algorithm {
			t.Errorf("the algorithm is %v, want %s", header["alg"], algorithm)
		}
	}
	secret := newIssuerLab(t)
	secret.keyring.versions = []crypto.Signer{noPublicHalf{}}
	_, err = tokenFor(secret.set, audience, true)
	testworld.WantError(t, "a key of HMACs", err, "is no RSA, EC or Ed25519 key")
}

type noPublicHalf struct{ crypto.Signer }

func (noPublicHalf) Public() crypto.PublicKey { return nil }

// slowKeys is a store of keys that takes two seconds to say that it cannot answer.
type slowKeys struct{ *issuerLab }

func (k slowKeys) Describe(context.Context, host.Key) (host.KeyInfo, error) {
	k.reads++
	k.Advance(fetchTime)
	return host.KeyInfo{}, context.DeadlineExceeded
}

// Those who wait while a slow store of keys is asked do not ask it one after the other.
func TestSlowKeysOfIssuer(t *testing.T) {
	l := newIssuerLab(t)
	l.Keys = slowKeys{l}
	for range 3 {
		_, err := l.Documents()[keysPath](t.Context())
		testworld.WantError(t, "a slow store", err, "the keys of the issuer of identities cannot be read")
	}
	if l.reads != 1 {
		t.Errorf("the store was asked %d times, want once", l.reads)
	}
}

// threats.md 511: the key of the issuer signs nothing else, and makes no HMAC, for which the host asks for no description.
func TestKeyOfIssuer_threats_511(t *testing.T) {
	l := newIssuerLab(t)
	keys := KeysExcept(l.keyring, "issuer")
	for _, version := range []int{0, 1} {
		if _, err := keys.Describe(t.Context(), host.Key{Name: "issuer", Version: version}); !errors.Is(err, host.ErrKeyRefused) {
			t.Errorf("the key is described: %v", err)
		}
		if _, _, err := keys.Sign(t.Context(), host.Key{Name: "Issuer", Version: version}, "HS256", []byte("data")); !errors.Is(err, host.ErrKeyRefused) {
			t.Errorf("the key makes an HMAC: %v", err)
		}
	}
	if _, _, err := keys.Sign(t.Context(), host.Key{Name: "another", Version: 1}, "ES256", []byte("data")); err != nil {
		t.Errorf("another key: %v", err)
	}
	if _, err := keys.Describe(t.Context(), host.Key{Name: "another"}); !errors.Is(err, host.ErrKeyNotFound) {
		t.Errorf("another key: %v", err)
	}
}
