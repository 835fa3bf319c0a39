package identity_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/identity"
)

// The user of a verified session has its token, with the time of its expiry, if there are hosts that may get it.
func TestTheUserHasTheSessionsToken(t *testing.T) {
	s := newSigner(t, "k1", "ES256")
	token := s.token(t, claims(map[string]any{"exp": float64(start.Add(time.Minute).Unix()) + 0.5}))
	for name, c := range map[string]struct {
		hosts []string
		r     *http.Request
		want  string
	}{
		"a header":                 {[]string{"login.test"}, request("Authorization", "Bearer "+token), token},
		"a cookie":                 {[]string{"login.test"}, request("Cookie", "a=b; session="+token), token},
		"no host that may have it": {nil, request("Authorization", "Bearer "+token), ""},
	} {
		config := config(t, s.jwk())
		config.JWT.Cookie, config.JWT.TokenHosts = "session", c.hosts
		want := ann
		if want.Token = c.want; c.want != "" {
			want.TokenExpires = start.Add(time.Minute + time.Second/2)
		}
		u, err := newSession(t, config, nil).User(c.r)
		if err != nil || u.Token != want.Token || !u.TokenExpires.Equal(want.TokenExpires) || u.ID != ann.ID {
			t.Errorf("%s: u = %+v, err = %v", name, u, err)
		}
	}
}

// threats.md 44: a token with an invalid header, claim, encoding or signature is refused.
func TestInvalidTokens(t *testing.T) {
	s := newSigner(t, "k1", "ES256")
	other := newSigner(t, "k1", "ES256")
	w := newSession(t, config(t, s.jwk()), nil)
	unix := func(d time.Duration) int64 { return start.Add(d).Unix() }
	for name, change := range map[string]map[string]any{
		"expired by one second":          {"exp": unix(-time.Second)},
		"expires this very second":       {"exp": unix(0)},
		"no expiry":                      {"exp": gone},
		"expiry as text":                 {"exp": fmt.Sprint(unix(time.Hour))},
		"expiry beyond all times":        {"exp": 1e300},
		"expiry in the year 10000":       {"exp": 253402300800},
		"negative expiry":                {"exp": -1},
		"expiry null":                    {"exp": nil},
		"not before in 31 seconds":       {"nbf": unix(31 * time.Second)},
		"not before as text":             {"nbf": "now"},
		"issued in 31 seconds":           {"iat": unix(31 * time.Second)},
		"another issuer":                 {"iss": "https://evil.test/"},
		"the issuer without its slash":   {"iss": strings.TrimSuffix(issuer, "/")},
		"no issuer":                      {"iss": gone},
		"issuer in a list":               {"iss": []string{issuer}},
		"another audience":               {"aud": "billing"},
		"audience that begins like ours": {"aud": audience + "-2"},
		"no audience":                    {"aud": gone},
		"an empty list of audiences":     {"aud": []string{}},
		"audiences that are not text":    {"aud": []any{audience, 1}},
		"no subject":                     {"sub": gone},
		"an empty subject":               {"sub": ""},
		"subject that is a number":       {"sub": 12345678901},
		"subject that is null":           {"sub": nil},
		"email in a list":                {"email": []string{"ann@example.com"}},
		"name that is an object":         {"given_name": map[string]any{"en": "Ann"}},
		"line feed in the name":          {"given_name": "Ann\nX-Admin: 1"},
		"escape in the name":             {"family_name": "\x1b[2J"},
		"a name of 2,000 bytes":          {"given_name": strings.Repeat("a", 2000)},
		"email_verified is a number":     {"email_verified": 1},
		"email_verified is yes":          {"email_verified": "yes"},
	} {
		t.Run(name, func(t *testing.T) {
			token := s.token(t, claims(change))
			refused(t, identity.ErrUnauthenticated, token, "ann@example.com")(w.bearer(token))
		})
	}
	valid := s.token(t, claims())
	parts := strings.Split(valid, ".")
	for name, token := range map[string]string{
		"signed by somebody else":   other.token(t, claims()),
		"one bit of it is another":  flip(valid),
		"another's payload":         strings.Join([]string{parts[0], strings.Split(other.token(t, claims(map[string]any{"sub": "root"})), ".")[1], parts[2]}, "."),
		"without its signature":     valid[:strings.LastIndex(valid, ".")+1],
		"two parts":                 valid[:strings.LastIndex(valid, ".")],
		"four parts":                valid + ".e30",
		"five parts, encrypted":     "a.b.c.d.e",
		"bits after its end":        trailingBit(valid),
		"padded":                    valid + "=",
		"not base64url":             strings.Replace(valid, ".", ".+/", 1),
		"not text at all":           "\xff\xfe.\x00.",
		"too long":                  s.token(t, claims(map[string]any{"x": strings.Repeat("a", 20_000)})),
		"alg twice":                 s.raw(t, `{"alg":"ES256","kid":"k1","alg":"ES256"}`, `{}`),
		"alg in capitals":           s.raw(t, `{"ALG":"ES256","kid":"k1"}`, `{}`),
		"alg in lower case":         s.raw(t, `{"alg":"es256","kid":"k1"}`, `{}`),
		"no alg":                    s.raw(t, `{"kid":"k1"}`, `{}`),
		"kid is a number":           s.raw(t, `{"alg":"ES256","kid":1}`, `{}`),
		"header is a list":          s.raw(t, `["ES256"]`, `{}`),
		"claims are null":           s.raw(t, `{"alg":"ES256","kid":"k1"}`, `null`),
		"claims are a list":         s.raw(t, `{"alg":"ES256","kid":"k1"}`, `[]`),
		"claims are no JSON":        s.raw(t, `{"alg":"ES256","kid":"k1"}`, `exp`),
		"claims and something more": s.raw(t, `{"alg":"ES256","kid":"k1"}`, full(`"sub":"u-1"`)+`{}`),
		"sub twice":                 s.raw(t, `{"alg":"ES256","kid":"k1"}`, full(`"sub":"u-1","sub":"root"`)),
		"sub in capitals":           s.raw(t, `{"alg":"ES256","kid":"k1"}`, full(`"SUB":"root"`)),
		"not UTF-8":                 s.raw(t, `{"alg":"ES256","kid":"k1"}`, full("\"sub\":\"\xff\"")),
		"critical extension":        s.raw(t, `{"alg":"ES256","kid":"k1","crit":["b64"],"b64":false}`, full(`"sub":"u-1"`)),
		"crit is null":              s.raw(t, `{"alg":"ES256","kid":"k1","crit":null}`, full(`"sub":"u-1"`)),
		"a logout token":            s.raw(t, `{"alg":"ES256","kid":"k1","typ":"logout+jwt"}`, full(`"sub":"u-1"`)),
		"a security event":          s.raw(t, `{"alg":"ES256","kid":"k1","typ":"application/secevent+jwt"}`, full(`"sub":"u-1"`)),
	} {
		t.Run(name, func(t *testing.T) {
			refused(t, identity.ErrUnauthenticated, token)(w.bearer(token))
		})
	}
}

const base64Alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// full returns a valid payload with further members.
func full(members string) string {
	return fmt.Sprintf(`{"iss":%q,"aud":%q,"exp":%d,%s}`, issuer, audience, start.Add(time.Hour).Unix(), members)
}

// flip changes one bit of the signature.
func flip(token string) string {
	b := []byte(token)
	i := strings.LastIndex(token, ".") + 1
	if b[i] == 'A' {
		b[i] = 'B'
	} else {
		b[i] = 'A'
	}
	return string(b)
}

// trailingBit sets one of the unused bits in the last character of a signature.
func trailingBit(token string) string {
	last := strings.IndexByte(base64Alphabet, token[len(token)-1])
	return token[:len(token)-1] + base64Alphabet[last+1:last+2]
}

func TestBarelyValidTokens(t *testing.T) {
	s := newSigner(t, "k1", "ES256")
	w := newSession(t, config(t, s.jwk()), nil)
	unix := func(d time.Duration) int64 { return start.Add(d).Unix() }
	for name, change := range map[string]map[string]any{
		"one second left":            {"exp": unix(time.Second)},
		"half a second left":         {"exp": float64(unix(0)) + 0.5},
		"not before in 30 seconds":   {"nbf": unix(30 * time.Second)},
		"issued in 30 seconds":       {"iat": unix(30 * time.Second)},
		"one audience of several":    {"aud": []string{"billing", audience}},
		"email_verified":             {"email_verified": true},
		"email_verified as text":     {"email_verified": "true"},
		"claims that nobody asks of": {"groups": []string{"a"}, "address": map[string]any{"country": "AT"}, "n": nil},
	} {
		t.Run(name, func(t *testing.T) {
			accepted(t, ann)(w.bearer(s.token(t, claims(change))))
		})
	}
	for _, header := range []string{
		`{"alg":"ES256","kid":"k1"}`, `{"alg":"ES256"}`, `{"alg":"ES256","typ":"at+jwt"}`, `{"alg":"ES256","typ":"application/at+JWT"}`,
		// Members of the header that point to a key or contain one are ignored.
		`{"alg":"ES256","jku":"https://evil.test/jwks","x5u":"https://evil.test/x","jwk":{"kty":"oct","k":"AAAA"}}`,
	} {
		accepted(t, host.User{ID: "u-1"})(w.bearer(s.raw(t, header, full(`"sub":"u-1"`))))
	}
}

// threats.md 44: forged tokens are refused, with alg none or with the public key as the secret of an HMAC.
func TestForgedTokens(t *testing.T) {
	s := newSigner(t, "k1", "RS256")
	secret := newSigner(t, "h1", "HS256")
	public := s.private.(crypto.Signer).Public().(*rsa.PublicKey)
	spki := testworld.Must(x509.MarshalPKIXPublicKey(public))(t)
	forged := map[string]string{
		"none":                   base64url([]byte(`{"alg":"none","kid":"k1"}`)) + "." + base64url([]byte(full(`"sub":"root"`))) + ".",
		"None":                   base64url([]byte(`{"alg":"None"}`)) + "." + base64url([]byte(full(`"sub":"root"`))) + ".",
		"none, with a signature": base64url([]byte(`{"alg":"none"}`)) + strings.TrimLeft(s.token(t, claims()), base64Alphabet),
	}
	for form, bytes := range map[string][]byte{
		"PKCS #1":        x509.MarshalPKCS1PublicKey(public),
		"SPKI":           spki,
		"PEM":            pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: spki}),
		"modulus":        public.N.Bytes(),
		"JWK member n":   []byte(base64url(public.N.Bytes())),
		"the whole JWKS": []byte(document(s.jwk())),
		"nothing":        {},
	} {
		for _, id := range []string{"k1", "h1"} {
			forger := &signer{id: id, algorithm: "HS256", private: bytes}
			forged["HS256 with "+form+" for "+id] = forger.token(t, claims(map[string]any{"sub": "root"}))
		}
	}
	mixed := config(t, s.jwk(), secret.jwk())
	mixed.JWT.Algorithms = []string{"RS256", "HS256"} // this configuration makes the attack easiest
	for how, c := range map[string]identity.Config{"RSA keys only": config(t, s.jwk()), "HS256 is allowed too": mixed} {
		w := newSession(t, c, nil)
		for name, token := range forged {
			t.Run(how+"/"+name, func(t *testing.T) {
				refused(t, identity.ErrUnauthenticated, token)(w.bearer(token))
			})
		}
		accepted(t, ann)(w.bearer(s.token(t, claims())))
	}
}

func TestTheAlgorithmHasToFitTheKeyAndTheList(t *testing.T) {
	rsaKey, p256, p384 := newSigner(t, "rsa", "RS256"), newSigner(t, "p256", "ES256"), newSigner(t, "p384", "ES384")
	invalid := identity.ErrUnauthenticated
	for name, test := range map[string]struct {
		keys       []map[string]any
		algorithms []string
		signer     *signer
		err        error
	}{
		"fits":                             {keys: []map[string]any{rsaKey.jwk()}, signer: rsaKey},
		"not in the list":                  {keys: []map[string]any{rsaKey.jwk()}, algorithms: []string{"ES256", "PS256"}, signer: rsaKey, err: invalid},
		"the JWK is for another":           {keys: []map[string]any{rsaKey.jwk(map[string]any{"alg": "PS256"})}, signer: rsaKey, err: invalid},
		"the JWK is for encryption":        {keys: []map[string]any{rsaKey.jwk(map[string]any{"use": "enc"}), p256.jwk()}, signer: rsaKey, err: invalid},
		"the JWK is for signing only":      {keys: []map[string]any{rsaKey.jwk(map[string]any{"key_ops": []string{"sign"}}), p256.jwk()}, signer: rsaKey, err: invalid},
		"the JWK is for verifying":         {keys: []map[string]any{rsaKey.jwk(map[string]any{"key_ops": []string{"verify"}})}, signer: rsaKey},
		"another curve":                    {keys: []map[string]any{p256.jwk(map[string]any{"kid": "p384"})}, signer: p384, err: invalid},
		"keys of one id and several types": {keys: []map[string]any{p256.jwk(map[string]any{"kid": "x"}), rsaKey.jwk(map[string]any{"kid": "x"})}, signer: &signer{id: "x", algorithm: "RS256", private: rsaKey.private}},
		"two keys of one id and type":      {keys: []map[string]any{newSigner(t, "x", "ES256").jwk(), p256.jwk(map[string]any{"kid": "x"})}, signer: &signer{id: "x", algorithm: "ES256", private: p256.private}, err: invalid},
	} {
		t.Run(name, func(t *testing.T) {
			c := config(t, test.keys...)
			c.JWT.Algorithms = test.algorithms
			token := test.signer.token(t, claims())
			outcome(t, ann, test.err, token)(newSession(t, c, nil).bearer(token))
		})
	}
	t.Run("a short secret", func(t *testing.T) {
		short := &signer{id: "h", algorithm: "HS256", private: []byte("31 bytes are less than RFC 7518")}
		long := newSigner(t, "l", "HS512")
		c := config(t, short.jwk(), long.jwk())
		c.JWT.Algorithms = []string{"HS256"}
		refused(t, identity.ErrUnauthenticated)(newSession(t, c, nil).bearer(short.token(t, claims())))
	})
	t.Run("a weak RSA key", func(t *testing.T) {
		t.Setenv("GODEBUG", "rsa1024min=0")
		weak := testworld.Must(rsa.GenerateKey(rand.Reader, 1024))(t)
		s := &signer{id: "w", algorithm: "RS256", private: weak}
		refused(t, identity.ErrUnauthenticated)(newSession(t, config(t, s.jwk(), p256.jwk()), nil).bearer(s.token(t, claims())))
	})
}

func TestWithoutKidThereMustBeNoChoice(t *testing.T) {
	one, two := newSigner(t, "1", "ES256"), newSigner(t, "2", "ES256")
	token := one.raw(t, `{"alg":"ES256"}`, full(`"sub":"u-1"`))
	accepted(t, host.User{ID: "u-1"})(newSession(t, config(t, one.jwk(), newSigner(t, "3", "RS256").jwk()), nil).bearer(token))
	for _, keys := range [][]map[string]any{{one.jwk(), two.jwk()}, {two.jwk(), one.jwk()}} {
		refused(t, identity.ErrUnauthenticated)(newSession(t, config(t, keys...), nil).bearer(token))
	}
}

func TestClaimsBecomeTheUser(t *testing.T) {
	s := newSigner(t, "k1", "ES256")
	for name, test := range map[string]struct {
		claims identity.Claims
		token  map[string]any
		want   host.User
	}{
		"the email is not verified":         {token: map[string]any{"email_verified": false}, want: host.User{ID: "u-1", Username: "ann", FirstName: "Ann", LastName: "Ürün"}},
		"not verified, as text":             {token: map[string]any{"email_verified": "false"}, want: host.User{ID: "u-1", Username: "ann", FirstName: "Ann", LastName: "Ürün"}},
		"only a subject":                    {token: map[string]any{"email": gone, "preferred_username": gone, "given_name": gone, "family_name": gone}, want: host.User{ID: "u-1"}},
		"a tenant":                          {claims: identity.Claims{TenantID: "org"}, token: map[string]any{"org": "t-9"}, want: withTenant(ann, "t-9")},
		"no tenant unless it is configured": {token: map[string]any{"tenant_id": "t-9"}, want: ann},
		"a claim named like a path":         {claims: identity.Claims{TenantID: "https://example.com/tenant"}, token: map[string]any{"https://example.com/tenant": "t-9"}, want: withTenant(ann, "t-9")},
		"other names": {
			claims: identity.Claims{ID: "oid", Email: "upn", Username: "nick", FirstName: "f", LastName: "l"},
			token:  map[string]any{"oid": "o", "upn": "b@x.test", "nick": "n", "f": "F", "l": "L"},
			want:   host.User{ID: "o", Email: "b@x.test", Username: "n", FirstName: "F", LastName: "L"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := config(t, s.jwk())
			c.JWT.Claims = test.claims
			accepted(t, test.want)(newSession(t, c, nil).bearer(s.token(t, claims(test.token))))
		})
	}
	t.Run("an unverified email as the id", func(t *testing.T) {
		c := config(t, s.jwk())
		c.JWT.Claims.ID = "email"
		refused(t, identity.ErrUnauthenticated)(newSession(t, c, nil).bearer(s.token(t, claims(map[string]any{"email_verified": false}))))
	})
}

func withTenant(u host.User, tenant string) host.User {
	u.TenantID = tenant
	return u
}

// For each algorithm, a token that another implementation signed is accepted.
func TestIndependentTokens(t *testing.T) {
	algorithms := append(identity.Asymmetric(), "HS256", "HS384", "HS512")
	var keys []map[string]any
	var input bytes.Buffer
	for _, algorithm := range algorithms {
		s := newSigner(t, "key-of-"+algorithm, algorithm)
		keys = append(keys, s.jwk(map[string]any{"alg": algorithm}))
		secret, ok := s.private.([]byte)
		if !ok {
			pkcs8 := testworld.Must(x509.MarshalPKCS8PrivateKey(s.private))(t)
			secret = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
		}
		line, _ := json.Marshal(map[string]any{"claims": claims(), "algorithm": algorithm, "key": string(secret), "kid": s.id})
		input.Write(append(line, '\n'))
	}
	sign := exec.CommandContext(t.Context(), "/usr/bin/python3", "testdata/sign.py")
	sign.Stdin, sign.Stderr = &input, os.Stderr
	output, err := sign.Output()
	if err != nil {
		t.Fatalf("python3-jwt cannot be run; `make deps` installs it: %v", err)
	}
	tokens := strings.Fields(string(output))
	if len(tokens) != len(algorithms) {
		t.Fatalf("%d tokens for %d algorithms", len(tokens), len(algorithms))
	}
	c := config(t, keys...)
	c.JWT.Algorithms = algorithms
	w := newSession(t, c, nil)
	for i, token := range tokens {
		accepted(t, ann)(w.bearer(token))
		refused(t, identity.ErrUnauthenticated, token)(w.bearer(flip(token)))
		refused(t, identity.ErrUnauthenticated, token)(w.bearer(tokens[(i+1)%len(tokens)][:strings.LastIndex(tokens[(i+1)%len(tokens)], ".")] + token[strings.LastIndex(token, "."):]))
	}
}
