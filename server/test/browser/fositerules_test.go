package browser

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/internal/testworld"
)

// reply is an answer of the token endpoint, RFC 6749 section 5.
type reply struct {
	Status      int    `json:"-"`
	AccessToken string `json:"access_token"`
	Error       string `json:"error"`
}

// client returns a client that trusts only the server's certificate.
func client(s *authServer) *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: s.Roots},
		DisableKeepAlives: true,
	}}
}

// exchange posts a form to the token endpoint.
func exchange(t *testing.T, s *authServer, form url.Values) reply {
	t.Helper()
	response := testworld.Must(client(s).PostForm(s.TokenURL, form))(t)
	defer response.Body.Close()
	got := reply{Status: response.StatusCode}
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
		t.Fatalf("the answer of the token endpoint is no JSON: %v", err)
	}
	return got
}

// callAPI calls the API, and returns the status. If authorization is not empty, it is the Authorization header.
func callAPI(t *testing.T, s *authServer, target, authorization string) (status int) {
	t.Helper()
	request := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil))(t)
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	response := testworld.Must(client(s).Do(request))(t)
	defer response.Body.Close()
	return response.StatusCode
}

// checkGood checks that an answer has a token that the API takes.
func checkGood(t *testing.T, s *authServer, got reply) {
	t.Helper()
	if got.Status != http.StatusOK || got.AccessToken == "" {
		t.Fatalf("status = %d, error = %q, want 200 with a token", got.Status, got.Error)
	}
	if status := callAPI(t, s, s.APIURL, "Bearer "+got.AccessToken); status != http.StatusOK {
		t.Errorf("status of the API = %d, want 200", status)
	}
}

// claims returns the claims of an assertion that the server accepts.
func claims(s *authServer) jwt.MapClaims {
	now := time.Now().Unix()
	return jwt.MapClaims{
		"iss": reporting, "sub": ada, "aud": s.TokenURL,
		"iat": now, "exp": now + 180, "jti": rand.Text(),
	}
}

// assertion returns the form of a token request with an assertion, whose header has kid.
func assertion(t *testing.T, key *ecdsa.PrivateKey, kid string, claims jwt.MapClaims) url.Values {
	t.Helper()
	token := jwt.NewWithClaims(jwt.SigningMethodES256, claims)
	token.Header["kid"] = kid
	signed := testworld.Must(token.SignedString(key))(t)
	return url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {signed}}
}

func TestAssertionRefused(t *testing.T) {
	registered, now := newKey(t), time.Now().Unix()
	tests := []struct {
		name   string
		change jwt.MapClaims // replaces claims of a good assertion; nil removes one
		key    *ecdsa.PrivateKey
		kid    string
	}{
		{name: "expired", change: jwt.MapClaims{"iat": now - 200, "exp": now - 20}},
		{name: "wrong audience", change: jwt.MapClaims{"aud": "https://login.example.com/token"}},
		{name: "no audience", change: jwt.MapClaims{"aud": nil}},
		{name: "lives too long", change: jwt.MapClaims{"exp": now + 3600}},
		{name: "no jti", change: jwt.MapClaims{"jti": nil}},
		{name: "no iat", change: jwt.MapClaims{"iat": nil}},
		{name: "no exp", change: jwt.MapClaims{"exp": nil}},
		{name: "not yet valid", change: jwt.MapClaims{"nbf": now + 60}},
		{name: "unknown issuer", change: jwt.MapClaims{"iss": "somebody"}},
		{name: "unknown subject", change: jwt.MapClaims{"sub": "eve@example.com"}},
		{name: "another key", key: newKey(t)},
		{name: "another kid", kid: "2025-12"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newAuthServer(t)
			s.RegisterKey(reporting, ada, kid, registered.Public())
			changed := claims(s)
			maps.Copy(changed, test.change)
			maps.DeleteFunc(changed, func(_ string, value any) bool { return value == nil })
			got := exchange(t, s, assertion(t, cmp.Or(test.key, registered), cmp.Or(test.kid, kid), changed))
			if got.Status != http.StatusBadRequest || got.Error != "invalid_grant" {
				t.Errorf("got %d %q, want 400 invalid_grant", got.Status, got.Error)
			}
		})
	}
}

// The server accepts an assertion only once, which it detects by the jti.
func TestAssertionReplayed(t *testing.T) {
	key, s := newKey(t), newAuthServer(t)
	s.RegisterKey(reporting, ada, kid, key.Public())
	form := assertion(t, key, kid, claims(s))
	checkGood(t, s, exchange(t, s, form))
	if got := exchange(t, s, form); got.Status != http.StatusBadRequest || got.Error != "jti_known" {
		t.Errorf("got %d %q, want 400 jti_known", got.Status, got.Error)
	}
}

func TestAPIRefuses(t *testing.T) {
	s := newAuthServer(t)
	s.RegisterClient(t, "crm", "s3cret")
	good := exchange(t, s, url.Values{
		"grant_type": {"client_credentials"}, "client_id": {"crm"}, "client_secret": {"s3cret"},
	})
	checkGood(t, s, good)
	forged := strings.Repeat("A", 8) + good.AccessToken[8:]

	for name, test := range map[string]struct{ target, authorization string }{
		"no token":           {s.APIURL, ""},
		"another scheme":     {s.APIURL, "Basic " + good.AccessToken},
		"forged token":       {s.APIURL, "Bearer " + forged},
		"empty token":        {s.APIURL, "Bearer "},
		"token in the query": {s.APIURL + "?access_token=" + good.AccessToken, ""},
	} {
		if status := callAPI(t, s, test.target, test.authorization); status != http.StatusUnauthorized {
			t.Errorf("%s: status = %d, want 401", name, status)
		}
	}
}
