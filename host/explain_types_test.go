package host_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
)

// For each auth type of this repository, Explain shows the texts that are signed, each request to a token endpoint, and what
// the API gets. None of that has a credential (threats.md 18).
func TestExplainOfEachType(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	const secret = "{{ get_secret('s') }}"
	client := config{"token_url": tokenURL, "client_id": "me", "client_secret": secret}
	aws := config{"access_key_id": "AKIABASE", "secret_access_key": secret, "region": "eu-central-1", "service": "execute-api"}
	types := map[string]struct {
		config config
		key    crypto.Signer // the secret s is its PEM, unless it is nil
		want   []string      // texts of the explanation, in order
	}{
		"none":                     {nil, nil, nil},
		"api_key":                  {key(secret), nil, []string{"X-Key: " + secret}},
		"basic":                    {config{"username": "ann", "password": secret}, nil, []string{"Authorization: Basic "}},
		"bearer":                   {config{"token": secret}, nil, []string{"Authorization: Bearer " + secret}},
		"jwt":                      {config{"private_key": secret, "algorithm": "HS256", "claims": config{"sub": "ann"}}, nil, []string{`Bearer <jwt {"alg":"HS256","typ":"JWT"}.{"sub":"ann"}>`}},
		"oauth_client_credentials": {client, nil, []string{"POST " + tokenURL, "grant_type=client_credentials", "Authorization: Bearer <token>"}},
		"oauth_jwt_bearer":         {bearer(secret), nil, []string{"POST " + tokenURL, `assertion=<jwt {"alg":"HS256"`, `"sub":"ann"`, "Authorization: Bearer <token>"}},
		"oauth_password":           {with(client, "username", "ann", "password", secret), nil, []string{"POST " + tokenURL, "grant_type=password", "password=" + secret, "Authorization: Bearer <token>"}},
		"token_exchange":           {with(client, "subject_token", "{{ user.token }}"), nil, []string{"POST " + tokenURL, "subject_token={{ user.token }}", "Authorization: Bearer <token>"}},
		"dpop":                     {client, nil, []string{"POST " + tokenURL, "DPoP: <jwt {", "Authorization: DPoP <"}},
		"login": {
			config{"login_url": tokenURL, "login_body": config{"user": "ann", "password": secret}, "token_from": "json:/token", "key": "X-Session"},
			nil,
			[]string{"POST " + tokenURL, `"password":"` + secret, "X-Session: <"},
		},
		"github_app": {
			config{"client_id": "Iv1", "private_key": secret, "installation_id": 4711, "api_url": "https://login.test"},
			rsaKey,
			[]string{"POST https://login.test/app/installations/4711/access_tokens", "Authorization: Bearer <jwt {", "Authorization: Bearer <"},
		},
		"google_service_account": {
			config{"client_email": "robot@p.iam.gserviceaccount.com", "private_key": secret, "token_url": tokenURL, "scope": "a"},
			rsaKey,
			[]string{"POST " + tokenURL, `assertion=<jwt {"alg":"RS256"`, "Authorization: Bearer <"},
		},
		"aws_sigv4": {aws, nil, []string{"the data of digest sha256", "GET", "the data of mac HS256", "AWS4-HMAC-SHA256", "Authorization: AWS4-HMAC-SHA256 Credential=AKIABASE/"}},
		"aws_assume_role": {
			with(aws, "role_arn", "arn:aws:iam::123456789012:role/reports", "sts_url", tokenURL),
			nil,
			[]string{"POST " + tokenURL, "Action=AssumeRole", "AWS4-HMAC-SHA256", "Authorization: AWS4-HMAC-SHA256 Credential="},
		},
		"http_signature": {config{"private_key": secret, "algorithm": "ed25519"}, edKey, []string{"the data of sign_sealed EdDSA", `"@signature-params": `, "Signature-Input: ", "Signature: "}},
		"hmac":           {config{"secret": secret, "message": "{method} {path}", "name": "X-Signature"}, nil, []string{"the data of mac HS256\n  GET /v1/things", "X-Signature: "}},
		"oauth1": {
			config{"consumer_key": "reports", "consumer_secret": secret, "token": "t-4711", "token_secret": secret},
			nil,
			[]string{"the data of mac HS1\n  GET&https%3A%2F%2Fapi.test%2Fv1%2Fthings&", "Authorization: OAuth ", "oauth_signature="},
		},
		"digest": {config{"username": "ann", "password": secret}, nil, []string{"the data of digest ", ":" + secret, "Authorization: Digest "}},
	}
	modules, err := filepath.Glob("../plugins/*/*.wasm")
	if err != nil {
		t.Fatal(err)
	}
	var all []host.Plugin
	for _, name := range modules {
		wasm, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, host.Plugin{Name: filepath.Base(name), Wasm: wasm})
	}
	w := newWorld(t, listed("login.test"), func(c *host.Config) { c.BuiltIns = all })
	for _, info := range w.host.Plugins() {
		t.Run(info.Type, func(t *testing.T) {
			c, ok := types[info.Type]
			if !ok {
				t.Fatal("there is no case for this type")
			}
			w.canary("s")
			if c.key != nil {
				der, err := x509.MarshalPKCS8PrivateKey(c.key)
				if err != nil {
					t.Fatal(err)
				}
				w.setSecret("s", w.Hide("the key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))))
			}
			e, err := w.explain(w.connect(info.Type, c.config), w.as(w.Secret("the user's token")))
			if err != nil {
				t.Fatal(err)
			}
			text := ""
			for _, step := range e.Steps {
				text += step.String()
			}
			text += e.Added.String()
			w.Out("the text of the explanation", text)
			rest := text
			for _, want := range c.want {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Fatalf("no %q, or not in this place:\n%s", want, text)
				}
				rest = after
			}
		})
	}
	if w.login.Count() != 0 || w.api.Count() != 0 {
		t.Errorf("%d token requests and %d requests were sent", w.login.Count(), w.api.Count())
	}
}
