package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

const (
	api      = "https://api.github.test"
	endpoint = api + "/app/installations/4711/access_tokens"
	token    = "ghs_16C7e42F292c6912E7710c838347Ae178B4a"
)

var run = plugintest.Of(plugin{}, "githubapp.wasm")

// config returns a complete configuration. Pairs of name and value add fields or replace them.
func config(pairs ...any) hosttest.Config {
	return plugintest.With(hosttest.Config{"client_id": "Iv1.8a61f9b3a7aba766", "private_key": "{{ get_secret('key') }}", "installation_id": 4711, "api_url": api}, pairs...)
}

func get() *http.Request { return hosttest.GET(api + "/repos/octo-org/hello-world/issues") }

// issued returns GitHub's answer with a token that expires after some seconds of the harness's time.
func issued(h *hosttest.Harness, token string, seconds int) hosttest.Answer {
	return func(r *http.Request) (*http.Response, error) {
		expiry := h.Now().Add(time.Duration(seconds) * time.Second).Format(time.RFC3339)
		return hosttest.JSON(201, `{"token":"`+token+`","expires_at":"`+expiry+`","permissions":{"issues":"write","contents":"read"},"repository_selection":"selected"}`)(r)
	}
}

// The request for a token is the one that GitHub documents. Its JWT is verified with the app's public key
// (specification.md 3.41, specification.md "the JWT of a GitHub App").
func TestTheRequestForAToken(t *testing.T) {
	for name, test := range map[string]struct {
		config       hosttest.Config
		issuer, body string
	}{
		"client ID":   {config(), "Iv1.8a61f9b3a7aba766", ""},
		"app ID":      {config("client_id", nil, "app_id", 12345), "12345", ""},
		"app ID text": {config("client_id", nil, "app_id", "{{ get_variable('app') }}"), "678", ""},
		"repositories": {
			config("repositories", " hello-world  octo.repo\n"), "Iv1.8a61f9b3a7aba766", `{"repositories":["hello-world","octo.repo"]}`,
		},
		"repositories and permissions": {
			config("repositories", "hello-world", "permissions", map[string]any{"issues": "write", "contents": "{{ get_variable('access') }}"}),
			"Iv1.8a61f9b3a7aba766", `{"permissions":{"contents":"read","issues":"write"},"repositories":["hello-world"]}`,
		},
	} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			h.Variable("app", "678")
			h.Variable("access", "read")
			public := h.Key("key", "RS256")
			h.TokenEndpoint(endpoint, issued(h, token, 3600))
			got := h.Authenticate(test.config, get())
			if got.Header("Authorization") != "Bearer "+token || len(got.Request.Header) != 1 {
				t.Errorf("headers: %v", got.Request.Header)
			}
			exchange := h.Exchanges()[0]
			if exchange.Method != http.MethodPost || exchange.Body != test.body {
				t.Errorf("%s with %s", exchange.Method, exchange.Body)
			}
			if exchange.Header.Get("Accept") != "application/vnd.github+json" || exchange.Header.Get("X-GitHub-Api-Version") != "2022-11-28" || exchange.Header.Get("User-Agent") == "" {
				t.Errorf("headers: %v", exchange.Header)
			}
			signed := strings.TrimPrefix(exchange.Header.Get("Authorization"), "Bearer ")
			_, err := jwt.Parse(signed, func(*jwt.Token) (any, error) { return public, nil }, jwt.WithValidMethods([]string{"RS256"}), jwt.WithTimeFunc(h.Now), jwt.WithIssuedAt())
			if err != nil {
				t.Error(err)
			}
			header, claims := h.JWT(signed)
			now := h.Now().Unix()
			want := map[string]any{"iss": test.issuer, "iat": json.Number(fmt.Sprint(now - 60)), "exp": json.Number(fmt.Sprint(now + 540))}
			if !maps.Equal(header, map[string]any{"alg": "RS256", "typ": "JWT"}) || !maps.Equal(claims, want) {
				t.Errorf("JWT: %v %v", header, claims)
			}
		})
	}
}

// The key is PKCS #1, as GitHub hands it out, and may have its line breaks written as \n.
func TestTheKeyFileOfGitHub(t *testing.T) {
	key := testworld.Must(rsa.GenerateKey(rand.Reader, 2048))(t)
	file := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	for name, text := range map[string]string{"file": file, "one line": strings.ReplaceAll(file, "\n", `\n`)} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			h.Secret("key", text)
			h.TokenEndpoint(endpoint, issued(h, token, 3600))
			h.Authenticate(config(), get())
			signed := strings.TrimPrefix(h.Exchanges()[0].Header.Get("Authorization"), "Bearer ")
			if _, err := jwt.Parse(signed, func(*jwt.Token) (any, error) { return key.Public(), nil }, jwt.WithTimeFunc(h.Now)); err != nil {
				t.Error(err)
			}
		})
	}
}

// The URL of an Enterprise Server has a path.
func TestEnterpriseServer(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "RS256")
		h.TokenEndpoint("https://github.example.com/api/v3/app/installations/4711/access_tokens", issued(h, token, 3600))
		for _, url := range []string{"https://github.example.com/api/v3", "https://github.example.com/api/v3/"} {
			got := h.Authenticate(config("api_url", url), hosttest.GET("https://github.example.com/api/v3/meta"))
			if got.Header("Authorization") != "Bearer "+token {
				t.Errorf("%s: got.Request.Header = %v", url, got.Request.Header)
			}
		}
	})
}

// A token is used until a minute before its expires_at (specification.md 3.41).
func TestTokenLifetime(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "RS256")
		h.TokenEndpoint(endpoint, issued(h, token, 3600))
		plugintest.Lasts(t, h, config(), get(), "Bearer "+token, 3539*time.Second)
		plugintest.Warns(t, h, "")
	})
}

// A token that expires within a minute, by the host's clock, serves one request, with a warning.
func TestExpiredToken(t *testing.T) {
	for _, seconds := range []int{60, 0, -3600} {
		run(t, func(t *testing.T, h *hosttest.Harness) {
			h.Key("key", "RS256")
			h.TokenEndpoint(endpoint, issued(h, token, seconds))
			for range 2 {
				h.Authenticate(config(), get())
			}
			plugintest.Warns(t, h, "not cached")
			plugintest.Exchanges(t, h, 2)
		})
	}
}

// After a 401 of the API, the token is asked for again and the request is sent once more.
func TestRevokedToken(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "RS256")
		h.TokenEndpoint(endpoint, issued(h, token, 3600), issued(h, "ghs_another0123456789", 3600))
		h.Authenticate(config(), get())
		plugintest.Renews(t, h, config(), get(), "Bearer ghs_another0123456789")
		plugintest.Exchanges(t, h, 2)
	})
}

// An error of GitHub says what to check, and nothing that GitHub wrote.
func TestRefusals(t *testing.T) {
	for status, text := range map[int]string{
		401: "answered 401; it is asked again in 1s: check client_id or app_id, private_key", 403: "the installation may be suspended",
		404: ": check installation_id", 422: ": the installation does not have all of repositories or permissions", 500: "answered 500: see the status",
	} {
		run.Case(t, fmt.Sprint(status), func(t *testing.T, h *hosttest.Harness) {
			h.Key("key", "RS256")
			h.TokenEndpoint(endpoint, hosttest.JSON(status, `{"message":"of GitHub's own"}`))
			err := h.AuthenticateError(config(), get())
			var answer *host.TokenError
			if !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "own") || !errors.As(err, &answer) || answer.Status != status {
				t.Errorf("stage %s: %v", err.Stage, err)
			}
		})
	}
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "RS256")
		h.Variable("app", "678")
		h.TokenEndpoint(endpoint, hosttest.JSON(201, `{"token":"`+token+`"}`))
		plugintest.Refuses(t, h, config(), get(), host.StageToken, "without expires_at")
		for _, c := range map[string]hosttest.Config{"no ID": config("client_id", nil), "both IDs": config("app_id", "{{ get_variable('app') }}")} {
			plugintest.Refuses(t, h, c, get(), "", "set one of client_id and app_id")
		}
	})
}

// All problems are reported at once, each with its path.
func TestProblems(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for text, c := range map[string]hosttest.Config{
			"installation_id private_key api_url":                               {},
			"app_id installation_id algorithm api_url repositories permissions": config("client_id", nil, "app_id", "x", "installation_id", 0, "algorithm", "ES256", "api_url", "http://a.test", "repositories", 7, "permissions", "all"),
			"repositories":        config("repositories", "one octo/two"),
			"repositories app_id": config("repositories", "/one", "app_id", 12345),
			"app_id":              config("app_id", 12345),
			"":                    config("repositories", "one two"),
		} {
			plugintest.Problems(t, h, c, text)
		}
	})
}

// An explanation shows the request for a token, and neither a JWT nor a token.
func TestExplain(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "RS256")
		e := h.Explain(config(), get())
		if len(e.Added.Headers) != 1 || e.Added.Headers[0].Value != "Bearer <token>" || len(h.Exchanges()) != 0 {
			t.Errorf("added: %+v, %d exchanges", e.Added, len(h.Exchanges()))
		}
		if len(e.Steps) != 1 || e.Steps[0].Exchange == nil || e.Steps[0].Exchange.URL != endpoint {
			t.Errorf("steps: %+v", e.Steps)
		}
	})
}

// A GitHub whose clock is not the host's gets a second JWT, with its own time, and the token lasts by that time.
func TestClockOfGitHub(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		const lead = 20 * time.Minute
		h.Key("key", "RS256")
		h.TokenEndpoint(endpoint, plugintest.Dated(h, hosttest.JSON(http.StatusUnauthorized, `{"message":"'Expiration time' claim ('exp') must be a numeric value representing the future time"}`), lead), issued(h, token, int((lead+10*time.Minute)/time.Second)), issued(h, token, 3600))
		h.Authenticate(config(), get())
		for i, seconds := range []int64{h.Now().Unix(), h.Now().Add(lead).Unix()} {
			_, claims := h.JWT(strings.TrimPrefix(h.Exchanges()[i].Header.Get("Authorization"), "Bearer "))
			if claims["iat"] != json.Number(fmt.Sprint(seconds-60)) || claims["exp"] != json.Number(fmt.Sprint(seconds+540)) {
				t.Errorf("JWT %d: %v", i, claims)
			}
		}
		h.Advance(9*time.Minute - time.Second)
		h.Authenticate(config(), get())
		plugintest.Exchanges(t, h, 2)
		h.Advance(time.Second)
		h.Authenticate(config(), get())
		plugintest.Exchanges(t, h, 3)
	})
}
