package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

const (
	endpoint   = "https://login.test/token"
	revocation = "https://login.test/revoke"
)

var run = plugintest.Of(plugin{}, "authcode.wasm")

// config returns a configuration of a client with a secret. Pairs of name and value add fields or replace them.
func config(pairs ...any) hosttest.Config {
	return plugintest.With(hosttest.Config{
		"authorization_url": "https://login.test/authorize?tenant=one", "token_url": endpoint, "client_id": "me",
		"client_secret": "{{ get_secret('crm') }}", "scope": "read  write",
	}, pairs...)
}

func get() *http.Request { return hosttest.GET("https://api.test/v1") }

// tokens returns an answer of the token endpoint. Pairs of name and value are its members.
func tokens(pairs ...any) hosttest.Answer {
	members := map[string]any{"token_type": "Bearer"}
	for i := 0; i < len(pairs); i += 2 {
		members[pairs[i].(string)] = pairs[i+1]
	}
	document, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	return hosttest.JSON(200, string(document))
}

// grants returns what the browser comes back with after the user has said yes.
func grants(*url.URL) url.Values { return url.Values{"code": {"the-code-of-the-user"}} }

// consent has the user give consent.
func consent(t *testing.T, h *hosttest.Harness, c hosttest.Config) {
	t.Helper()
	testworld.Check(t, h.Consent(c, grants))
}

// The browser gets the request of RFC 6749 section 4.1.1 with PKCE (RFC 7636) and nothing that is secret. The code goes to the
// token endpoint with the verifier and the client's secret (sections 4.1.3 and 2.3.1) (specification.md 3.44).
func TestTheRequests(t *testing.T) {
	for _, test := range []struct {
		name         string
		config       hosttest.Config
		query, form  url.Values
		basic, where string
	}{
		{
			"post", config(),
			url.Values{"tenant": {"one"}, "client_id": {"me"}, "scope": {"read write"}},
			url.Values{"client_id": {"me"}, "client_secret": {"a secret of the client"}},
			"", "https://login.test/authorize",
		},
		{
			"basic, and further parameters",
			config("client_auth", "client_secret_basic", "scope", nil, "audience", "a b", "resource", "https://r.test/ urn:x",
				"authorization_parameters", map[string]any{"access_type": "offline"}, "parameters", map[string]any{"vendor": "x y", "scope": "read"}),
			url.Values{"tenant": {"one"}, "client_id": {"me"}, "audience": {"a", "b"}, "resource": {"https://r.test/", "urn:x"}, "access_type": {"offline"}},
			url.Values{"resource": {"https://r.test/", "urn:x"}, "vendor": {"x y"}, "scope": {"read"}}, // which Zendesk wants
			"bWU6YStzZWNyZXQrb2YrdGhlK2NsaWVudA==", "https://login.test/authorize",
		},
		{
			"public client", config("client_auth", "none", "client_secret", nil, "authorization_url", "https://login.test/o"),
			url.Values{"client_id": {"me"}, "scope": {"read write"}},
			url.Values{"client_id": {"me"}},
			"", "https://login.test/o",
		},
	} {
		run.Case(t, test.name, func(t *testing.T, h *hosttest.Harness) {
			h.Secret("crm", "a secret of the client")
			h.TokenEndpoint(endpoint, tokens("access_token", "the-first-access-token", "refresh_token", "the-first-refresh-token", "expires_in", 300))
			var query url.Values
			err := h.Consent(test.config, func(u *url.URL) url.Values {
				query = u.Query()
				if got := u.Scheme + "://" + u.Host + u.Path; got != test.where {
					t.Errorf("the browser goes to %s", got)
				}
				return grants(u)
			})
			if err != nil {
				t.Fatal(err)
			}
			got := h.Exchanges()[0]
			challenge := sha256.Sum256([]byte(got.Form.Get("code_verifier")))
			test.query["response_type"], test.query["redirect_uri"] = []string{"code"}, []string{"https://gateway.test/connect/test/callback"}
			test.query["code_challenge"], test.query["code_challenge_method"] = []string{base64.RawURLEncoding.EncodeToString(challenge[:])}, []string{"S256"}
			test.query["state"], test.query["nonce"] = query["state"], query["nonce"]
			if query.Encode() != test.query.Encode() || len(query.Get("state")) < 43 || len(query.Get("nonce")) < 43 || query.Get("state") == query.Get("nonce") {
				t.Errorf("the browser sends %s\nwant %s", query.Encode(), test.query.Encode())
			}
			test.form["grant_type"], test.form["code"] = []string{"authorization_code"}, []string{"the-code-of-the-user"}
			test.form["redirect_uri"], test.form["code_verifier"] = test.query["redirect_uri"], got.Form["code_verifier"]
			authorization := strings.TrimPrefix(got.Header.Get("Authorization"), "Basic ")
			if got.Form.Encode() != test.form.Encode() || authorization != test.basic || len(got.Form.Get("code_verifier")) < 43 {
				t.Errorf("the token request is %s, with %q\nwant %s", got.Form.Encode(), authorization, test.form.Encode())
			}
		})
	}
}

// After consent, requests get access tokens with the refresh token, which the server may rotate or keep. A second user has
// nothing of the first one's grant (threats.md 131).
func TestRequestsAfterConsent(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("crm")
		h.TokenEndpoint(endpoint,
			tokens("access_token", "access-of-the-code", "refresh_token", "refresh-of-the-code", "expires_in", 300),
			tokens("access_token", "access-token-2", "refresh_token", "refresh-token-2", "expires_in", 300),
			tokens("access_token", "access-token-3", "expires_in", 300),
			tokens("access_token", "access-token-4", "refresh_token", "refresh-token-4", "expires_in", 300),
		)
		h.As(host.User{ID: "ann", TenantID: "acme"})
		refuse(t, h, host.ConditionNotConnected)
		consent(t, h, config())
		if got := h.Connection(config()).Condition; got != host.ConditionConnected {
			t.Errorf("after consent the condition is %s", got)
		}
		for _, want := range []struct{ refresh, access string }{
			{"refresh-of-the-code", "access-token-2"}, {"refresh-token-2", "access-token-3"}, {"refresh-token-2", "access-token-4"},
		} {
			for range 2 { // the second one has the cached token
				plugintest.Sends(t, h, config(), get(), "Bearer "+want.access)
			}
			exchanges := h.Exchanges()
			form := exchanges[len(exchanges)-1].Form
			if form.Get("grant_type") != "refresh_token" || form.Get("refresh_token") != want.refresh || form.Has("scope") || form.Has("code") {
				t.Errorf("the token request is %s, want one with %s", form.Encode(), want.refresh)
			}
			h.Advance(241 * time.Second)
		}
		plugintest.Exchanges(t, h, 4)
		for _, stranger := range []host.User{{ID: "bob", TenantID: "acme"}, {ID: "ann", TenantID: "other"}, {}} {
			h.As(stranger)
			refuse(t, h, host.ConditionNotConnected)
		}
	})
}

// refuse sends a request that must fail because of the user's grant.
func refuse(t *testing.T, h *hosttest.Harness, want host.Condition) {
	t.Helper()
	err := h.AuthenticateError(config(), get())
	var grant *host.GrantError
	if !errors.As(err, &grant) || grant.Condition != want {
		t.Errorf("the error is %v, want that the grant is %s", err, want)
	}
	if got := h.Connection(config()).Condition; got != want {
		t.Errorf("the condition is %s, want %s", got, want)
	}
}

// Without a refresh token, the access token is used for as long as the API takes it (specification.md 3.45).
func TestAccessTokenOnly(t *testing.T) {
	for _, lasting := range []bool{true, false} {
		run(t, func(t *testing.T, h *hosttest.Harness) {
			h.Canary("crm")
			members := []any{"access_token", "the-only-access-token"}
			if !lasting {
				members = append(members, "expires_in", 300)
			}
			h.TokenEndpoint(endpoint, tokens(members...))
			consent(t, h, config())
			for range 3 {
				plugintest.Sends(t, h, config(), get(), "Bearer the-only-access-token")
				h.Advance(2 * time.Hour)
			}
			if n, warnings := len(h.Exchanges()), h.Warnings(); n != 1 || lasting != (len(warnings) == 0) {
				t.Errorf("there were %d token requests, and the warnings %q", n, warnings)
			}
		})
	}
}

// idToken returns an ID token whose signature nobody checks.
func idToken(claims string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256"}`)) + "." + encode([]byte(claims)) + "." + encode([]byte("a signature"))
}

// What does not come from the server of the connector, for this consent, is refused, and nothing is kept (threats.md 128, 129).
func TestRefusedConsents(t *testing.T) {
	const issuer = "https://login.test"
	good := tokens("access_token", "the-first-access-token", "refresh_token", "the-first-refresh-token", "expires_in", 300)
	for _, test := range []struct {
		name   string
		issuer any
		back   url.Values
		answer hosttest.Answer
		want   host.ConsentReason
		code   string
		asked  bool
	}{
		{"denied", nil, url.Values{"error": {"access_denied"}}, good, host.ConsentDenied, "access_denied", false},
		{"error", nil, url.Values{"error": {"invalid_scope"}}, good, host.ConsentFailed, "invalid_scope", false},
		{"made-up error", nil, url.Values{"error": {"<script>"}, "code": {"the-code-of-the-user"}}, good, host.ConsentFailed, "", false},
		{"no code", nil, url.Values{}, good, host.ConsentForged, "", false},
		{"long code", nil, url.Values{"code": {strings.Repeat("c", 5000)}}, good, host.ConsentForged, "", false},
		{"two codes", nil, url.Values{"code": {"the-code-of-the-user", "another-code-of-it"}}, good, host.ConsentForged, "", false},
		{"another state", nil, url.Values{"code": {"the-code-of-the-user"}, "state": {"made-up"}}, good, host.ConsentUnknown, "", false},
		{"two states", nil, url.Values{"code": {"the-code-of-the-user"}, "state": {"one", "two"}}, good, host.ConsentUnknown, "", false},
		{"wrong iss", issuer, url.Values{"code": {"the-code-of-the-user"}, "iss": {issuer + "/"}}, good, host.ConsentForged, "", false},
		{"wrong iss of an error", issuer, url.Values{"error": {"access_denied"}, "iss": {"https://evil.test"}}, good, host.ConsentForged, "", false},
		{"iss of another origin", nil, url.Values{"code": {"the-code-of-the-user"}, "iss": {"https://evil.test"}}, good, host.ConsentForged, "", false},
		{"wrong nonce", nil, grants(nil), tokens("access_token", "an-access-token", "id_token", idToken(`{"nonce":"x"}`)), host.ConsentForged, "", true},
		{"no nonce", nil, grants(nil), tokens("access_token", "an-access-token", "id_token", idToken(`{}`)), host.ConsentForged, "", true},
		{"strange ID token", nil, grants(nil), tokens("access_token", "an-access-token", "id_token", 7), host.ConsentForged, "", true},
		{"refused code", nil, grants(nil), hosttest.JSON(400, `{"error":"invalid_grant"}`), "", "", true},
		{"a token beside another status", nil, grants(nil), hosttest.JSON(300, `{"access_token":"the-first-access-token","refresh_token":"the-first-refresh-token"}`), "", "", true},
		{"no token", nil, grants(nil), hosttest.JSON(200, `{"refresh_token":"the-first-refresh-token"}`), "", "", true},
		{"another type of token", nil, grants(nil), hosttest.JSON(200, `{"access_token":"an-access-token","token_type":"mac"}`), "", "", true},
	} {
		run.Case(t, test.name, func(t *testing.T, h *hosttest.Harness) {
			h.Canary("crm")
			h.TokenEndpoint(endpoint, test.answer)
			err := h.Consent(config("issuer", test.issuer), func(*url.URL) url.Values { return test.back })
			var failure *host.ConsentError
			if is := errors.As(err, &failure); err == nil || is != (test.want != "") || is && (failure.Reason != test.want || failure.Code != test.code) {
				t.Errorf("the error is %#v: %v", err, err)
			}
			if exchanged := len(h.Exchanges()) > 0; exchanged != test.asked {
				t.Errorf("the token endpoint was asked: %v", exchanged)
			}
			refuse(t, h, host.ConditionNotConnected)
		})
	}
}

// The right iss, or none of a server that promises none, and an ID token with the nonce that was sent, are accepted.
func TestIssuerAndNonce(t *testing.T) {
	for name, iss := range map[string][]string{"iss": {"https://login.test"}, "no iss": nil} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			h.Canary("crm")
			c := config("issuer", "https://login.test")
			err := h.Consent(c, func(u *url.URL) url.Values {
				h.TokenEndpoint(endpoint, tokens("access_token", "the-first-access-token", "id_token", idToken(`{"nonce":"`+u.Query().Get("nonce")+`","sub":"x"}`)))
				back := url.Values{"code": {"the-code-of-the-user"}}
				if iss != nil {
					back["iss"] = iss
				}
				return back
			})
			if err != nil {
				t.Fatal(err)
			}
			h.Authenticate(c, get())
		})
	}
}

// A refused code does not keep the next consent from being asked for.
func TestConsentAgainAfterARefusedCode(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("crm")
		h.TokenEndpoint(endpoint, hosttest.JSON(400, `{"error":"invalid_request"}`), tokens("access_token", "the-first-access-token"))
		if h.Consent(config(), grants) == nil {
			t.Error("a refused code brings a grant")
		}
		if err := h.Consent(config(), func(*url.URL) url.Values { return url.Values{"code": {"another-code-of-the-user"}} }); err != nil {
			t.Error(err)
		}
	})
}

// A new consent replaces the grant, and what was cached with the one before is not used any more. So does taking it back.
func TestANewConsentAndNone(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("crm")
		for _, name := range []string{"first", "second"} {
			h.TokenEndpoint(endpoint,
				tokens("access_token", "access-of-the-code", "refresh_token", "refresh-token-"+name, "expires_in", 300),
				tokens("access_token", "access-token-"+name, "expires_in", 300))
			consent(t, h, config())
			plugintest.Sends(t, h, config(), get(), "Bearer access-token-"+name)
		}
		if err := h.Disconnect(config()); err != nil {
			t.Error(err)
		}
		refuse(t, h, host.ConditionNotConnected)
	})
}

// Disconnect has the server revoke the refresh token, or the access token if there is no other (RFC 7009 section 2.1). A server that
// has nothing to say may answer 204.
func TestRevocation(t *testing.T) {
	for _, hint := range []string{"refresh_token", "access_token"} {
		run.Case(t, hint, func(t *testing.T, h *hosttest.Harness) {
			h.Secret("crm", "a secret of the client")
			h.TokenEndpoint(endpoint, tokens("access_token", "the-access_token", hint, "the-"+hint))
			h.TokenEndpoint(revocation, hosttest.JSON(200, ""), hosttest.JSON(204, ""), hosttest.JSON(503, ""))
			c := config("revocation_url", revocation)
			if err := h.Disconnect(c); err != nil || len(h.Exchanges()) > 0 {
				t.Errorf("without a grant: %v", err)
			}
			for _, fails := range []bool{false, false, true} {
				consent(t, h, c)
				if err := h.Disconnect(c); errors.Is(err, host.ErrNotRevoked) != fails || (err == nil) == fails {
					t.Errorf("the error is %v", err)
				}
				exchanges := h.Exchanges()
				last := exchanges[len(exchanges)-1]
				want := url.Values{"token": {"the-" + hint}, "token_type_hint": {hint}, "client_id": {"me"}, "client_secret": {"a secret of the client"}}
				if last.URL != revocation || last.Form.Encode() != want.Encode() {
					t.Errorf("%s gets %s", last.URL, last.Form.Encode())
				}
				if got := h.Connection(c).Condition; got != host.ConditionNotConnected {
					t.Errorf("the condition is %s", got)
				}
			}
		})
	}
}

// What the configuration may not set is a problem when it is loaded.
func TestProblems(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for field, members := range map[string][]string{
			"authorization_parameters": {"state", "code_challenge", "client_secret"}, "parameters": {"code_verifier", "refresh_token"},
		} {
			for _, member := range members {
				plugintest.Problems(t, h, config(field, map[string]any{member: "x"}), field+"."+member)
			}
		}
		plugintest.Problems(t, h, config("client_id", nil, "client_auth", "none", "client_secret", nil), "client_id")
	})
}
