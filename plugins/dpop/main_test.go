package main

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

const (
	endpoint = "https://login.test/token"
	api      = "https://api.test/v1"
	// theToken and its hash are those of RFC 9449 section 7.1.
	theToken = "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU"
	theHash  = "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo"
)

var run = plugintest.Of(plugin{}, "dpop.wasm", func(h *hosttest.Harness) {
	h.Canary("crm")
})

// config returns a complete configuration. Pairs of name and value add fields or replace them.
func config(pairs ...any) hosttest.Config {
	return plugintest.With(hosttest.Config{"client_id": "me", "client_secret": "{{ get_secret('crm') }}", "token_url": endpoint}, pairs...)
}

// bound returns the answer of a token endpoint that issues a bound token for an hour.
func bound(token string) hosttest.Answer {
	return hosttest.JSON(200, `{"access_token":"`+token+`","token_type":"DPoP","expires_in":3600}`)
}

// refusal returns the API's answer with an error of DPoP and a nonce.
func refusal(code, nonce string) hosttest.Answer {
	return plugintest.Headed(hosttest.JSON(401, `{}`), "WWW-Authenticate", `DPoP realm="a, b", error="`+code+`", algs="ES256 PS256"`, "DPoP-Nonce", nonce)
}

// proof is a proof that a server has received: its claims, without jti and iat, which proofIn has checked.
type proof struct {
	claims     map[string]any
	jti        any
	thumbprint string
}

// proofIn verifies the proof of a request with the key in it, as RFC 9449 section 4.3 wants.
func proofIn(t *testing.T, h *hosttest.Harness, header http.Header, algorithm string) proof {
	t.Helper()
	var jwk map[string]any
	parsed, err := jwt.Parse(header.Get("DPoP"), func(token *jwt.Token) (any, error) {
		jwk, _ = token.Header["jwk"].(map[string]any)
		return publicKey(jwk)
	}, jwt.WithValidMethods([]string{algorithm}), jwt.WithTimeFunc(h.Now), jwt.WithIssuedAt())
	if err != nil {
		t.Fatalf("the proof %q: %v", header.Get("DPoP"), err)
	}
	if len(parsed.Header) != 3 || parsed.Header["typ"] != "dpop+jwt" {
		t.Errorf("the proof's header is %v", parsed.Header)
	}
	_, claims := h.JWT(header.Get("DPoP"))
	p := proof{claims: claims, jti: claims["jti"]}
	if jti, _ := p.jti.(string); len(jti) != 32 || claims["iat"] != json.Number(fmt.Sprint(h.Now().Unix())) {
		t.Errorf("the proof's claims are %v", claims)
	}
	delete(claims, "jti")
	delete(claims, "iat")
	text, _ := json.Marshal(jwk) // in the order of RFC 7638, with no spaces
	p.thumbprint = fmt.Sprintf("%x", sha256.Sum256(text))
	return p
}

// publicKey returns the key of a JWK.
func publicKey(jwk map[string]any) (any, error) {
	part := func(name string) []byte {
		text, _ := jwk[name].(string)
		raw, _ := base64.RawURLEncoding.DecodeString(text)
		return raw
	}
	if jwk["crv"] == "Ed25519" {
		return ed25519.PublicKey(part("x")), nil
	}
	return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, part("x"), part("y")))
}

// Both requests have a proof of one key: for the endpoint, and for the API with the hash of the token (RFC 9449 sections 5
// and 7.1). Every proof is new (specification.md 3.33).
func TestProofs(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.TokenEndpoint(endpoint, bound(theToken))
		got := h.Authenticate(config("scope", "a b"), hosttest.GET("https://api.test/v1?a=b"))
		if got.Header("Authorization") != "DPoP "+theToken || len(got.Request.Header) != 2 {
			t.Errorf("the API gets %v", got.Request.Header)
		}
		exchange := h.Exchanges()[0]
		if exchange.Form.Get("grant_type") != "client_credentials" || exchange.Form.Get("client_id") != "me" || exchange.Form.Get("scope") != "a b" || len(exchange.Form) != 4 {
			t.Errorf("the token request is %v", exchange.Form)
		}
		first, second := proofIn(t, h, exchange.Header, "ES256"), proofIn(t, h, got.Request.Header, "ES256")
		if !maps.Equal(first.claims, map[string]any{"htm": "POST", "htu": endpoint}) {
			t.Errorf("the endpoint's proof has %v", first.claims)
		}
		if !maps.Equal(second.claims, map[string]any{"htm": "GET", "htu": api, "ath": theHash}) {
			t.Errorf("the API's proof has %v", second.claims)
		}
		third := proofIn(t, h, h.Authenticate(config("scope", "a b"), hosttest.POST("https://api.test/v1#x", "body")).Request.Header, "ES256")
		if !maps.Equal(third.claims, map[string]any{"htm": "POST", "htu": api, "ath": theHash}) {
			t.Errorf("the second request's proof has %v", third.claims)
		}
		if first.jti == second.jti || second.jti == third.jti || first.thumbprint != second.thumbprint || second.thumbprint != third.thumbprint {
			t.Errorf("the proofs are %v, %v and %v", first, second, third)
		}
		plugintest.Exchanges(t, h, 1)
	})
}

// The proof is for the URL without query and fragment, and with a path.
func TestTarget(t *testing.T) {
	for url, want := range map[string]string{
		"https://api.test": "https://api.test/", "https://api.test?a=/b": "https://api.test/", "https://api.test/": "https://api.test/",
		"https://api.test/a/b?c=d": "https://api.test/a/b", "https://api.test/a%2Fb": "https://api.test/a%2Fb",
	} {
		run(t, func(t *testing.T, h *hosttest.Harness) {
			h.TokenEndpoint(endpoint, bound(theToken))
			if got := proofIn(t, h, h.Authenticate(config(), hosttest.GET(url)).Request.Header, "ES256"); got.claims["htu"] != want {
				t.Errorf("the proof for %s is for %s", url, got.claims["htu"])
			}
		})
	}
}

// A URL with a secret of the connector is in the proof as the API receives it.
func TestTargetWithASecret(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("account", "account-0123456789")
		h.TokenEndpoint(endpoint, bound(theToken))
		got := h.Authenticate(config("scope", "{{ get_secret('account') }}"), hosttest.GET("https://api.test/account-0123456789/orders?a=b"))
		if htu := proofIn(t, h, got.Request.Header, "ES256").claims["htu"]; htu != "https://api.test/account-0123456789/orders" {
			t.Errorf("the proof is for %s", htu)
		}
	})
}

// If the token endpoint wants its nonce in the proof, the request is repeated with it, once (RFC 9449 section 8)
// (specification.md 3.34).
func TestNonceOfTheTokenEndpoint(t *testing.T) {
	wants := func(nonce string) hosttest.Answer {
		return plugintest.Headed(hosttest.JSON(400, `{"error":"use_dpop_nonce"}`), "DPoP-Nonce", nonce)
	}
	for _, test := range []struct {
		name     string
		answers  []hosttest.Answer
		requests int
		text     string
	}{
		{"granted", []hosttest.Answer{wants("first-nonce"), bound(theToken)}, 2, ""},
		{"another nonce", []hosttest.Answer{wants("first-nonce"), wants("second-nonce")}, 2, "400 (use_dpop_nonce)"},
		{"no nonce", []hosttest.Answer{hosttest.JSON(400, `{"error":"use_dpop_nonce"}`)}, 1, "400 (use_dpop_nonce)"},
		{"another error", []hosttest.Answer{plugintest.Headed(hosttest.JSON(400, `{"error":"invalid_dpop_proof"}`), "DPoP-Nonce", "n")}, 1, "400 (invalid_dpop_proof)"},
	} {
		run.Case(t, test.name, func(t *testing.T, h *hosttest.Harness) {
			h.TokenEndpoint(endpoint, test.answers...)
			_, err := h.Try(config(), hosttest.GET(api))
			if (err == nil) != (test.text == "") || err != nil && !strings.Contains(err.Error(), test.text) {
				t.Errorf("the error is %v", err)
			}
			exchanges := h.Exchanges()
			if len(exchanges) != test.requests {
				t.Fatalf("there are %d token requests", len(exchanges))
			}
			first, last := proofIn(t, h, exchanges[0].Header, "ES256"), proofIn(t, h, exchanges[len(exchanges)-1].Header, "ES256")
			if first.claims["nonce"] != nil || len(exchanges) > 1 && (last.claims["nonce"] != "first-nonce" || last.jti == first.jti) {
				t.Errorf("the proofs are %v and %v", first, last)
			}
		})
	}
}

// If the API wants its nonce, the request is repeated with it and the same token. The nonce then stays in use, until the API
// sends another, with whatever answer (RFC 9449 sections 8.2 and 9)
// (specification.md 3.34, specification.md "how long a nonce of DPoP is used").
func TestNonceOfTheAPI(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.TokenEndpoint(endpoint, bound(theToken))
		ask := func(attempts int, nonce string) {
			t.Helper()
			got := h.Authenticate(config(), hosttest.POST(api, "body"))
			used, _ := proofIn(t, h, got.Request.Header, "ES256").claims["nonce"].(string)
			if got.Attempts != attempts || used != nonce || got.Response.StatusCode != http.StatusOK || got.Header("Authorization") != "DPoP "+theToken {
				t.Errorf("%d attempts, the last with the nonce %q, answered %d", got.Attempts, used, got.Response.StatusCode)
			}
		}
		h.API(refusal("use_dpop_nonce", "first-nonce"), hosttest.JSON(200, `{}`))
		ask(2, "first-nonce")
		ask(1, "first-nonce")
		h.API(plugintest.Headed(hosttest.JSON(200, `{}`), "DPoP-Nonce", "second-nonce"), hosttest.JSON(200, `{}`))
		ask(1, "first-nonce")
		ask(1, "second-nonce")
		h.API(refusal("use_dpop_nonce", "third-nonce"), hosttest.JSON(200, `{}`))
		ask(2, "third-nonce")
		h.Advance(59 * time.Minute)
		ask(1, "third-nonce")
		if n := len(h.Exchanges()); n != 2 { // the second is for the hour that is over
			t.Errorf("there are %d token requests", n)
		}
	})
}

// An API that always wants another nonce is asked twice, and the caller gets its answer.
func TestEverNewNonces(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.TokenEndpoint(endpoint, bound(theToken))
		h.API(refusal("use_dpop_nonce", "first-nonce"), refusal("use_dpop_nonce", "second-nonce"))
		got := h.Authenticate(config(), hosttest.GET(api))
		if got.Attempts != 2 || got.Response.StatusCode != http.StatusUnauthorized || len(h.Exchanges()) != 1 {
			t.Errorf("%d attempts, answered %d, %d token requests", got.Attempts, got.Response.StatusCode, len(h.Exchanges()))
		}
	})
}

// A token that the API refuses is replaced, by one for the same key.
func TestRefusedTokenReplacement(t *testing.T) {
	for name, answer := range map[string]hosttest.Answer{
		"invalid_token": refusal("invalid_token", "a-nonce"), "another code": refusal("unknown", "a-nonce"), "no code": hosttest.JSON(401, `{}`),
	} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			h.TokenEndpoint(endpoint, bound("first-bound-token"), bound("second-bound-token"))
			h.Authenticate(config(), hosttest.GET(api))
			h.API(answer, hosttest.JSON(200, `{}`))
			got := h.Authenticate(config(), hosttest.GET(api))
			if got.Attempts != 2 || got.Header("Authorization") != "DPoP second-bound-token" {
				t.Errorf("%d attempts, the last with %s", got.Attempts, got.Header("Authorization"))
			}
			exchanges := h.Exchanges()
			if len(exchanges) != 2 || proofIn(t, h, exchanges[0].Header, "ES256").thumbprint != proofIn(t, h, exchanges[1].Header, "ES256").thumbprint {
				t.Errorf("there are %d token requests, or they have proofs of two keys", len(exchanges))
			}
		})
	}
}

// The token is used until a minute before it expires. One without an expiry serves one request, with a warning.
func TestTokenReuse(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.TokenEndpoint(endpoint, bound("first-bound-token"), bound("second-bound-token"))
		for _, step := range []struct {
			pass  time.Duration
			token string
		}{{0, "first"}, {3539 * time.Second, "first"}, {time.Second, "second"}} {
			h.Advance(step.pass)
			plugintest.Sends(t, h, config(), hosttest.GET(api), "DPoP "+step.token+"-bound-token")
		}
		h.TokenEndpoint(endpoint, hosttest.JSON(200, `{"access_token":"`+theToken+`","token_type":"dpop"}`))
		for range 2 {
			h.Authenticate(config("scope", "other"), hosttest.GET(api))
		}
		if w := h.Warnings(); len(h.Exchanges()) != 4 || len(w) != 1 || !strings.Contains(w[0], "not cached") {
			t.Errorf("%d token requests, the warnings are %q", len(h.Exchanges()), w)
		}
	})
}

// A token that is not bound to the key is refused, whatever it could do as a bearer token (RFC 9449 section 5)
// (specification.md 3.33).
func TestUnboundTokens(t *testing.T) {
	for _, tokenType := range []string{`"Bearer"`, `null`, `"mac"`} {
		run(t, func(t *testing.T, h *hosttest.Harness) {
			h.TokenEndpoint(endpoint, hosttest.JSON(200, `{"access_token":"`+theToken+`","token_type":`+tokenType+`,"expires_in":300}`))
			plugintest.Refuses(t, h, config(), hosttest.GET(api), "", "token_type is not DPoP")
		})
	}
}

// threats.md 35: an API that refuses each token gets a new one at most every 10 seconds, and none in place of one that is not
// cached.
func TestAPIRefusesEveryToken(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.TokenEndpoint(endpoint, bound("first-bound-token"), bound("second-bound-token"), bound("third-bound-token"))
		h.API(hosttest.JSON(401, `{}`))
		ask := func(pass time.Duration, attempts, tokens int, c hosttest.Config) {
			t.Helper()
			h.Advance(pass)
			got := h.Authenticate(c, hosttest.GET(api))
			if got.Response.StatusCode != http.StatusUnauthorized || got.Attempts != attempts || len(h.Exchanges()) != tokens {
				t.Errorf("answered %d after %d attempts and %d token requests", got.Response.StatusCode, got.Attempts, len(h.Exchanges()))
			}
		}
		ask(0, 1, 1, config())
		ask(0, 2, 2, config())
		ask(0, 1, 2, config())
		ask(9*time.Second, 1, 2, config())
		ask(time.Second, 2, 3, config())
		h.TokenEndpoint(endpoint, hosttest.JSON(200, `{"access_token":"`+theToken+`","token_type":"DPoP"}`))
		ask(0, 1, 4, config("scope", "a"))
		ask(0, 1, 5, config("scope", "a"))
	})
}

// An API with another clock refuses a proof. The next one has its time (RFC 9449 section 11.1).
func TestClockOfTheAPI(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		future := h.Now().Add(10 * time.Minute)
		h.TokenEndpoint(endpoint, bound(theToken))
		h.API(plugintest.Headed(refusal("invalid_dpop_proof", "a-nonce"), "Date", future.Format(http.TimeFormat)), hosttest.JSON(200, `{}`))
		for range 2 {
			got := h.Authenticate(config(), hosttest.GET(api))
			if _, claims := h.JWT(got.Header("DPoP")); got.Response.StatusCode != http.StatusOK || len(h.Exchanges()) != 1 || claims["iat"] != json.Number(fmt.Sprint(future.Unix())) {
				t.Errorf("the proof's claims are %v", claims)
			}
		}
	})
}

// The grant can be a JWT bearer assertion, and the client can authenticate in each way. A repeated request has new
// assertions, because endpoints accept each once.
func TestGrantsAndClients(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		h.Secret("basic", "a:b c-secret")
		key := []any{"private_key", "{{ get_secret('key') }}", "algorithm", "ES256"}
		for _, c := range []hosttest.Config{
			config(append(key, "client_secret", nil, "grant_type", "jwt_bearer", "assertion_subject", "{{ user.email | default('ann') }}", "assertion_audience",
				"https://login.test", "client_auth", "none")...),
			config(append(key, "client_secret", nil, "client_auth", "private_key_jwt")...),
			config("client_auth", "client_secret_basic", "client_secret", "{{ get_secret('basic') }}", "audience", "urn:a", "resource", "urn:b"),
		} {
			h.TokenEndpoint(endpoint, plugintest.Headed(hosttest.JSON(400, `{"error":"use_dpop_nonce"}`), "DPoP-Nonce", "the-nonce"), bound(theToken))
			h.Authenticate(c, hosttest.GET(api))
		}
		exchanges := h.Exchanges()
		_, first := h.JWT(exchanges[0].Form.Get("assertion"))
		_, second := h.JWT(exchanges[1].Form.Get("assertion"))
		if first["iss"] != "me" || first["sub"] != "ann" || first["aud"] != "https://login.test" || first["jti"] == second["jti"] || len(exchanges[0].Form) != 3 {
			t.Errorf("the assertions are %v and %v in %v", first, second, exchanges[0].Form)
		}
		_, first = h.JWT(exchanges[2].Form.Get("client_assertion"))
		_, second = h.JWT(exchanges[3].Form.Get("client_assertion"))
		if first["iss"] != "me" || first["aud"] != endpoint || first["jti"] == second["jti"] {
			t.Errorf("the client's assertions are %v and %v", first, second)
		}
		if got := exchanges[5]; got.Body != "grant_type=client_credentials&audience=urn%3Aa&resource=urn%3Ab" || got.Header.Get("Authorization") != "Basic bWU6YSUzQWIrYy1zZWNyZXQ=" {
			t.Errorf("the request is %s with %s", got.Body, got.Header.Get("Authorization"))
		}
	})
}

// The key of the proofs can be the configuration's. A generated one belongs to one configuration and its secrets
// (specification.md "the key of the proofs").
func TestKeyOfTheProofs(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("proof", "EdDSA")
		h.TokenEndpoint(endpoint, bound(theToken))
		thumbprint := func(algorithm string, pairs ...any) string {
			return proofIn(t, h, h.Authenticate(config(pairs...), hosttest.GET(api)).Request.Header, algorithm).thumbprint
		}
		fields := []any{"proof_key", "{{ get_secret('proof') }}", "proof_algorithm", "EdDSA"}
		if one, two := thumbprint("EdDSA", fields...), thumbprint("EdDSA", append(fields, "scope", "a")...); one != two {
			t.Error("the given key is not used everywhere")
		}
		if one, two := thumbprint("ES256"), thumbprint("ES256", "scope", "a"); one == two {
			t.Error("two configurations have the same generated key")
		}
		if one, two := thumbprint("EdDSA", "proof_algorithm", "EdDSA"), thumbprint("EdDSA", "proof_algorithm", "EdDSA"); one != two {
			t.Error("one configuration has two generated keys")
		}
		err := h.AuthenticateError(config("proof_algorithm", "RS256"), hosttest.GET(api))
		if err.Stage != host.StageSign || !strings.Contains(err.Error(), "proof_key") || !strings.Contains(err.Error(), "ES256") {
			t.Errorf("stage %s: %v", err.Stage, err)
		}
	})
}

// The error of a refusal has the status and the code.
func TestRefusals(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.TokenEndpoint(endpoint, hosttest.JSON(401, `{"error":"invalid_client","error_description":"no such client"}`))
		err := h.AuthenticateError(config(), hosttest.GET(api))
		var answer *host.TokenError
		if !errors.As(err, &answer) || answer.Status != 401 || answer.Code != "invalid_client" || strings.Contains(err.Error(), "such") {
			t.Errorf("the error is %v", err)
		}
	})
}

// A configuration that cannot work is refused when it is loaded.
func TestProblems(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for want, c := range map[string]hosttest.Config{
			"assertion_subject: is missing, and grant_type is jwt_bearer: The sub of the assertion of jwt_bearer: whom the token is for": config("grant_type", "jwt_bearer", "assertion_audience", "a", "private_key", "k"),
			"private_key: is missing, and grant_type is jwt_bearer: Key that signs assertions, in PEM, or the HMAC secret":               config("grant_type", "jwt_bearer", "assertion_audience", "a", "assertion_subject", "s"),
			"private_key: is missing, and client_auth is private_key_jwt: Key that signs assertions, in PEM, or the HMAC secret":         config("client_secret", nil, "client_auth", "private_key_jwt"),
			"private_key: has no effect unless grant_type is jwt_bearer, or client_auth is private_key_jwt: remove it, or change that":   config("private_key", "k"),
			"certificate: has no effect unless grant_type is jwt_bearer, or client_auth is private_key_jwt: remove it, or change that":   config("certificate", "c"),
			"client_secret: is missing, and client_auth is client_secret_post: OAuth client secret":                                      {"client_id": "me", "token_url": endpoint},
			"assertion_audience: has no effect unless grant_type is jwt_bearer: remove it, or change that":                               config("assertion_audience", "https://api.test"),
			"assertion_subject: has no effect unless grant_type is jwt_bearer: remove it, or change that":                                config("assertion_subject", "ann"),
			"parameters.scope: is set by the type or by another field, remove it":                                                        config("parameters", map[string]any{"scope": "a"}),
			"proof_algorithm: is none of ES256, ES384, ES512, EdDSA, RS256, RS384, RS512, PS256, PS384, PS512":                           config("proof_algorithm", "HS256"),
		} {
			plugintest.Problem(t, h, c, want)
		}
	})
}

// An explanation asks no endpoint, and shows the proofs without the token.
func TestExplain(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		e := h.Explain(config(), hosttest.GET(api))
		text := fmt.Sprintf("%+v", e.Added)
		for _, want := range []string{"DPoP <access_token>", `"htu":"https://api.test/v1"`, `"ath":"base64url(sha256(<access_token>))"`} {
			if !strings.Contains(text, want) {
				t.Errorf("the explanation has no %s: %s", want, text)
			}
		}
		if len(e.Steps) == 0 || len(h.Exchanges()) != 0 {
			t.Errorf("the steps are %+v", e.Steps)
		}
	})
}
