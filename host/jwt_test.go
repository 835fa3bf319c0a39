package host_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// threats.md 39 as well.
func TestDecision_JWT_header(t *testing.T) {
	w := newWorld(t)
	w.canary("k")
	w.setSecret("kid", "k-1")
	auth := with(signed("HS256", config{"sub": "a"}), "jwt_headers", config{
		"kid": "{{ get_secret('kid') }}", "x": config{"deep": "{{ tenant_id }}"}, "n": 1,
	})
	header, _ := decodeJWT(t, w.send(w.connect("jwt", auth), get(ann(t.Context()))).Header.Get("Authorization"))
	if got, _ := json.Marshal(header); string(got) != `{"alg":"HS256","kid":"k-1","n":1,"typ":"JWT","x":{"deep":"acme"}}` {
		t.Errorf("the header is %s", got)
	}
	header, _ = decodeJWT(t, w.get(w.connect("jwt", with(auth, "jwt_headers", config{"typ": "at+jwt"}))).Header.Get("Authorization"))
	if header["typ"] != "at+jwt" {
		t.Errorf("typ is %v", header["typ"])
	}
	for _, name := range []string{"alg", "crit", "b64"} {
		for authType, base := range map[string]config{"jwt": auth, "oauth_jwt_bearer": bearer("k")} {
			capital := strings.ToUpper(name[:1]) + name[1:] // the same name for verifiers that ignore case
			for _, name := range []string{name, capital} {
				got := w.problems(authType, with(base, "jwt_headers", config{name: "none"}))
				if len(got) != 1 || !strings.HasPrefix(got[0], "auth.config.jwt_headers."+name+": ") {
					t.Errorf("%s with %s in jwt_headers has the problems %q", authType, name, got)
				}
			}
		}
	}
}

func TestDecision_JWT_exp_iat_nbf_are_cast(t *testing.T) {
	w := newWorld(t, func(c *host.Config) { c.Variables = map[string]string{"f": "1700000000.9", "text": "soon"} })
	w.canary("k")
	w.setSecret("at", "1700000007")
	c := w.connect("jwt", signed("HS256", config{
		"exp": "{{ now(300) }}", "iat": "{{ get_variable('f') }}", "nbf": "{{ get_secret('at') }}", "other": "{{ now() }}",
	}))
	_, claims := decodeJWT(t, w.get(c).Header.Get("Authorization"))
	if claims["exp"] != 1700000300.0 || claims["iat"] != 1700000000.0 || claims["nbf"] != 1700000007.0 || claims["other"] != "1700000000" {
		t.Errorf("the claims are %v", claims)
	}
	_, claims = decodeJWT(t, w.get(w.connect("jwt", signed("HS256", config{"exp": "{{ get_variable('text') }}", "nbf": 12.5, "iat": -1}))).Header.Get("Authorization"))
	if claims["exp"] != "soon" || claims["nbf"] != 12.5 || claims["iat"] != -1.0 {
		t.Errorf("what is no numeric string is kept: %v", claims)
	}
	w.get(w.connect("oauth_jwt_bearer", with(bearer("{{ get_secret('k') }}"),
		"additional_claims", config{"nbf": "{{ now(-30) }}", "at": "{{ now() }}", "deep": config{"exp": "{{ now() }}"}})))
	_, claims = decodeJWT(t, w.login.Last().Form().Get("assertion"))
	if claims["nbf"] != 1699999970.0 || claims["at"] != "1700000000" || claims["deep"].(config)["exp"] != "1700000000" {
		t.Errorf("the assertion's claims are %v", claims)
	}
}

// threats.md 39.
func TestDecision_JWT_additional_claims_that_are_fixed(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"iss", "sub", "aud", "iat", "exp"} {
		got := w.problems("oauth_jwt_bearer", with(bearer("k"), "additional_claims", config{name: "x", "fine": "y"}))
		if len(got) != 1 || !strings.HasPrefix(got[0], "auth.config.additional_claims."+name+": ") {
			t.Errorf("%s has the problems %q", name, got)
		}
	}
}

func TestDecision_JWT_keys(t *testing.T) {
	key := must(rsa.GenerateKey(rand.Reader, 2048))(t)
	ec := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	pkcs8 := must(x509.MarshalPKCS8PrivateKey(key))(t)
	sec1 := must(x509.MarshalECPrivateKey(ec))(t)
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	oneLine := func(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "\n", `\n`) }
	pkcs1 := block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))
	for _, c := range []struct {
		name, algorithm, text string
		verify                any
	}{
		{"HS256: the text as it is", "HS256", " a secret of more than 32 bytes, blanks and all ", []byte(" a secret of more than 32 bytes, blanks and all ")},
		{"PKCS#8", "RS256", block("PRIVATE KEY", pkcs8), &key.PublicKey},
		{"PKCS#1", "PS384", pkcs1, &key.PublicKey},
		{"SEC1", "ES256", block("EC PRIVATE KEY", sec1), &ec.PublicKey},
		{"PKCS#8 on one line", "RS256", oneLine(block("PRIVATE KEY", pkcs8)), &key.PublicKey},
		{"PKCS#1 on one line", "RS512", oneLine(pkcs1), &key.PublicKey},
		{"SEC1 on one line", "ES256", oneLine(block("EC PRIVATE KEY", sec1)), &ec.PublicKey},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.setSecret("k", c.text)
			w.hideKey(c.text)
			got := w.get(w.connect("jwt", signed(c.algorithm, config{"sub": "a"}))).Header.Get("Authorization")
			if _, err := jwt.Parse(strings.TrimPrefix(got, "Bearer "), func(*jwt.Token) (any, error) { return c.verify, nil },
				jwt.WithValidMethods([]string{c.algorithm})); err != nil {
				t.Error(err)
			}
		})
	}
}

// hideKey makes the world search its output for a key, and for each line of a key in PEM.
func (w *world) hideKey(text string) {
	w.Hide("the key", text)
	for _, line := range strings.Split(strings.ReplaceAll(text, `\n`, "\n"), "\n") {
		if !strings.HasPrefix(line, "-----") {
			w.Hide("a line of the key", line)
		}
	}
}

// specification.md "RSA under 2048 bits", threats.md 37 as well.
func TestDecision_JWT_key_does_not_fit_the_algorithm(t *testing.T) {
	ec, _ := keyFor(t, "ES256")
	rsaKey, _ := keyFor(t, "RS256")
	small := must(rsa.GenerateKey(rand.Reader, 1024))(t)
	weak := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(small)}))
	for _, c := range []struct{ name, algorithm, key string }{
		{"EC key with RS256", "RS256", ec},
		{"P-256 with ES384", "ES384", ec},
		{"RSA key with EdDSA", "EdDSA", rsaKey},
		{"PEM with HS256", "HS256", rsaKey},
		{"no PEM with RS256", "RS256", "just some text that is long enough"},
		{"damaged PEM", "RS256", rsaKey[:len(rsaKey)/2]},
		{"RSA under 2048 bits", "RS256", weak},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.setSecret("k", c.key)
			w.hideKey(c.key)
			connector := w.connect("jwt", signed(c.algorithm, config{})) // the error comes with the first use
			w.refuse(connector, get(t.Context()), host.StageSign, "private_key", c.algorithm)
			w.refuse(w.connect("oauth_jwt_bearer", with(bearer("{{ get_secret('k') }}"), "algorithm", c.algorithm)),
				get(t.Context()), host.StageSign, "private_key", c.algorithm)
			if w.login.Count() != 0 {
				t.Error("a token was requested")
			}
		})
	}
}

func TestDecision_JWT_HS_key_shorter_than_the_hash(t *testing.T) {
	for algorithm, size := range map[string]int{"HS256": 32, "HS384": 48, "HS512": 64} {
		w := newWorld(t)
		for i, n := range []int{size, size - 1} {
			w.setSecret("k", strings.Repeat("k", n))
			c := w.connectAs(fmt.Sprint("c", i), "jwt", signed(algorithm, config{}))
			w.get(c)
			w.get(c)
			if got := w.logged("key is shorter than"); got != i {
				t.Errorf("%s with %d bytes: %d warnings, want %d", algorithm, n, got, i)
			}
		}
	}
}

func TestDecision_JWT_warnings_at_most_32_texts(t *testing.T) {
	n := 0
	g := &guest{authenticate: func(env contract.Env) (string, error) {
		env.Log(contract.LevelWarn, fmt.Sprintf("warning %d", n/2))
		n++
		return header("X-Key", value(env, "s")), nil
	}}
	g.about.Fields = append(g.about.Fields, sealedField("s", "header"))
	w := newWorld(t, withGuest(g))
	c := w.connect("custom", config{"s": "v"})
	for range 100 {
		w.get(c)
	}
	if got := w.logged("warning"); got != 32 {
		t.Errorf("%d lines, want 32", got)
	}
	w.get(w.connectAs("other", "custom", config{"s": "v"}))
	if got := w.logged("warning"); got != 33 {
		t.Errorf("%d lines, want one of another connector", got)
	}
}
