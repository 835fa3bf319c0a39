package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
)

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
			h.TokenEndpoint(endpoint, with(hosttest.JSON(400, `{"error":"use_dpop_nonce"}`), "DPoP-Nonce", "the-nonce"), bound(theToken))
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
			problems := h.Problems(c)
			if len(problems) != 1 || problems[0].Path+": "+problems[0].Message != "auth.config."+want {
				t.Errorf("the problems are %v, want %s", problems, want)
			}
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
