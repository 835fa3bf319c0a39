package host_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

// For each auth type of this repository, Explain shows the texts that are signed, each request to a token endpoint, and what
// the API gets. None of that has a credential (threats.md 18).
func TestExplainOfEachType(t *testing.T) {
	const secret = "{{ get_secret('s') }}"
	configs := testworld.AuthTypes(tokenURL)
	configs["token_exchange"]["subject_token"] = "{{ user.token }}"
	wants := map[string][]string{ // texts of the explanation, in order
		"none":                     nil,
		"api_key":                  {"X-Key: " + secret},
		"basic":                    {"Authorization: Basic "},
		"bearer":                   {"Authorization: Bearer " + secret},
		"jwt":                      {`Bearer <jwt {"alg":"HS256","typ":"JWT"}.{"sub":"ann"}>`},
		"oauth_client_credentials": {"POST " + tokenURL, "grant_type=client_credentials", "Authorization: Bearer <token>"},
		"oauth_jwt_bearer":         {"POST " + tokenURL, `assertion=<jwt {"alg":"HS256"`, `"sub":"ann"`, "Authorization: Bearer <token>"},
		"oauth_password":           {"POST " + tokenURL, "grant_type=password", "password=" + secret, "Authorization: Bearer <token>"},
		"oauth_refresh_token":      {"POST " + tokenURL, "grant_type=refresh_token", "refresh_token=<refresh_token>", "Authorization: Bearer <"},
		"oauth_authorization_code": {"POST " + tokenURL, "grant_type=refresh_token", "refresh_token=<refresh_token>", "Authorization: Bearer <"},
		"token_exchange":           {"POST " + tokenURL, "subject_token={{ user.token }}", "Authorization: Bearer <token>"},
		"dpop":                     {"POST " + tokenURL, "DPoP: <jwt {", "Authorization: DPoP <"},
		"login":                    {"POST " + tokenURL, `"password":"` + secret, "X-Session: <"},
		"github_app":               {"POST https://login.test/app/installations/4711/access_tokens", "Authorization: Bearer <jwt {", "Authorization: Bearer <"},
		"google_service_account":   {"POST " + tokenURL, `assertion=<jwt {"alg":"RS256"`, "Authorization: Bearer <"},
		"aws_sigv4":                {"the data of digest sha256", "GET", "the data of mac HS256", "AWS4-HMAC-SHA256", "Authorization: AWS4-HMAC-SHA256 Credential=AKIABASE/"},
		"aws_assume_role":          {"POST " + tokenURL, "Action=AssumeRole", "AWS4-HMAC-SHA256", "Authorization: AWS4-HMAC-SHA256 Credential="},
		"http_signature":           {"the data of sign_sealed EdDSA", `"@signature-params": `, "Signature-Input: ", "Signature: "},
		"hmac":                     {"the data of mac HS256\n  GET /v1/things", "X-Signature: "},
		"oauth1":                   {"the data of mac HS1\n  GET&https%3A%2F%2Fapi.test%2Fv1%2Fthings&", "Authorization: OAuth ", "oauth_signature="},
		"digest":                   {"the data of digest ", ":" + secret, "Authorization: Digest "},
	}
	w := newWorld(t, listed("login.test"), withState(t, &failingStore{}), func(c *host.Config) { c.BuiltIns = allBuiltIns(t) })
	w.keys()
	for _, info := range w.host.Plugins() {
		t.Run(info.Type, func(t *testing.T) {
			want, ok := wants[info.Type]
			if !ok {
				t.Fatal("there is no case for this type")
			}
			w.canary("s")
			w.canary("seed")
			e, err := w.explain(w.connect(info.Type, configs[info.Type]), w.as(w.Secret("the user's token")))
			if err != nil {
				t.Fatal(err)
			}
			text := explained(e)
			w.Out("the text of the explanation", text)
			rest := text
			for _, want := range want {
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

// allBuiltIns returns all plugins of this repository.
func allBuiltIns(t *testing.T) []host.Plugin {
	t.Helper()
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
	return all
}

// keys sets the secrets of testworld.AuthTypes that are keys.
func (w *world) keys() {
	w.t.Helper()
	for _, kind := range []string{"rsa", "ed"} {
		w.setSecret(kind, w.Key(w.t, kind))
	}
}

// explained returns an explanation as text.
func explained(e *host.Explanation) string {
	text := ""
	for _, step := range e.Steps {
		text += step.String()
	}
	return text + e.Added.String()
}
