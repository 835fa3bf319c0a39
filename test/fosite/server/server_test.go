package server_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/test/fosite/server"
)

const (
	issuer  = "reporting"
	subject = "ada@example.com"
	kid     = "2026-01"
)

// reply is an answer of the token endpoint, RFC 6749 section 5.
type reply struct {
	Status      int           `json:"-"`
	Took        time.Duration `json:"-"`
	AccessToken string        `json:"access_token"`
	TokenType   string        `json:"token_type"`
	ExpiresIn   int           `json:"expires_in"`
	Scope       string        `json:"scope"`
	Error       string        `json:"error"`
}

// client returns a client that trusts only the server's certificate.
func client(s *server.Server) *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: s.Roots},
		DisableKeepAlives: true,
	}}
}

// exchange posts a form to the token endpoint.
func exchange(t *testing.T, s *server.Server, form url.Values) reply {
	t.Helper()
	began := time.Now()
	response := testworld.Must(client(s).PostForm(s.TokenURL, form))(t)
	defer response.Body.Close()
	got := reply{Status: response.StatusCode, Took: time.Since(began)}
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
		t.Fatalf("the answer of the token endpoint is no JSON: %v", err)
	}
	return got
}

// callAPI calls the API. If authorization is not empty, it is the Authorization header.
func callAPI(t *testing.T, s *server.Server, authorization string) (status int, caller server.Caller) {
	t.Helper()
	request := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, s.APIURL, nil))(t)
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	response := testworld.Must(client(s).Do(request))(t)
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		if err := json.NewDecoder(response.Body).Decode(&caller); err != nil {
			t.Fatalf("the answer of the API is no JSON: %v", err)
		}
	}
	return response.StatusCode, caller
}

// checkGood checks that an answer has a bearer token with a lifetime of about an hour.
func checkGood(t *testing.T, got reply) {
	t.Helper()
	if got.Status != http.StatusOK || got.AccessToken == "" || !strings.EqualFold(got.TokenType, "bearer") {
		t.Fatalf("want 200 with a bearer token, got %d %q, token type %q", got.Status, got.Error, got.TokenType)
	}
	if want := int(server.TokenLife / time.Second); got.ExpiresIn < want-2-int(got.Took.Seconds()) || got.ExpiresIn > want {
		t.Errorf("expires_in is %d after %v, want %d or just under", got.ExpiresIn, got.Took, want)
	}
}

func TestClientCredentials(t *testing.T) {
	tests := []struct {
		name   string
		form   url.Values
		status int
		code   string
	}{
		{
			"right secret",
			url.Values{"client_id": {"crm"}, "client_secret": {"s3cret"}},
			http.StatusOK, "",
		},
		{
			"scope that is allowed",
			url.Values{"client_id": {"crm"}, "client_secret": {"s3cret"}, "scope": {"read"}},
			http.StatusOK, "",
		},
		{
			"scope that is not",
			url.Values{"client_id": {"crm"}, "client_secret": {"s3cret"}, "scope": {"admin"}},
			http.StatusBadRequest, "invalid_scope",
		},
		{
			"wrong secret",
			url.Values{"client_id": {"crm"}, "client_secret": {"guess"}},
			http.StatusUnauthorized, "invalid_client",
		},
		{
			"no secret",
			url.Values{"client_id": {"crm"}},
			http.StatusUnauthorized, "invalid_client",
		},
		{
			"unknown client",
			url.Values{"client_id": {"other"}, "client_secret": {"s3cret"}},
			http.StatusUnauthorized, "invalid_client",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := server.New(t)
			s.RegisterClient(t, "crm", "s3cret", "read", "write")
			test.form.Set("grant_type", "client_credentials")

			got := exchange(t, s, test.form)
			if got.Status != test.status || got.Error != test.code {
				t.Fatalf("got %d %q, want %d %q", got.Status, got.Error, test.status, test.code)
			}
			if test.status == http.StatusOK {
				checkGood(t, got)
				status, caller := callAPI(t, s, "Bearer "+got.AccessToken)
				if status != http.StatusOK || caller.ClientID != "crm" {
					t.Errorf("the API answered %d to client %q, want 200 to crm", status, caller.ClientID)
				}
			}
			want := server.Exchange{
				GrantType: "client_credentials", ClientID: test.form.Get("client_id"), Scope: test.form.Get("scope"),
				Status: test.status, Error: test.code,
			}
			if got := s.Exchanges(); !slices.Equal(got, []server.Exchange{want}) {
				t.Errorf("recorded %+v, want %+v", got, want)
			}
		})
	}
}

// keys holds a private key for each kind of algorithm.
type keys struct {
	rsa              *rsa.PrivateKey
	p256, p384, p521 *ecdsa.PrivateKey
	ed25519          ed25519.PrivateKey
}

func makeKeys(t *testing.T) keys {
	t.Helper()
	var k keys
	var err error
	k.rsa = testworld.Must(rsa.GenerateKey(rand.Reader, 2048))(t)
	if _, k.ed25519, err = ed25519.GenerateKey(rand.Reader); err != nil {
		t.Fatal(err)
	}
	for curve, key := range map[elliptic.Curve]**ecdsa.PrivateKey{
		elliptic.P256(): &k.p256, elliptic.P384(): &k.p384, elliptic.P521(): &k.p521,
	} {
		*key = testworld.Must(ecdsa.GenerateKey(curve, rand.Reader))(t)
	}
	return k
}

// claims returns the claims of an assertion that the server accepts.
func claims(s *server.Server) jwt.MapClaims {
	now := time.Now().Unix()
	return jwt.MapClaims{
		"iss": issuer, "sub": subject, "aud": s.TokenURL,
		"iat": now, "exp": now + 180, "jti": rand.Text(),
	}
}

// assertion returns the form of a token request with an assertion. If kid is not empty, the assertion's header has it.
func assertion(t *testing.T, method jwt.SigningMethod, key any, kid string, claims jwt.MapClaims) url.Values {
	t.Helper()
	token := jwt.NewWithClaims(method, claims)
	if kid != "" {
		token.Header["kid"] = kid
	}
	signed, err := token.SignedString(key)
	if err != nil {
		t.Fatalf("sign the assertion: %v", err)
	}
	return url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"},
		"assertion":  {signed},
	}
}

func TestAssertionOfEachAlgorithm(t *testing.T) {
	k := makeKeys(t)
	tests := []struct {
		method jwt.SigningMethod
		key    crypto.Signer
	}{
		{jwt.SigningMethodRS256, k.rsa},
		{jwt.SigningMethodRS384, k.rsa},
		{jwt.SigningMethodRS512, k.rsa},
		{jwt.SigningMethodPS256, k.rsa},
		{jwt.SigningMethodPS384, k.rsa},
		{jwt.SigningMethodPS512, k.rsa},
		{jwt.SigningMethodES256, k.p256},
		{jwt.SigningMethodES384, k.p384},
		{jwt.SigningMethodES512, k.p521},
		{jwt.SigningMethodEdDSA, k.ed25519},
	}
	for _, test := range tests {
		for _, header := range []struct{ name, kid string }{{"with kid", kid}, {"without kid", ""}} {
			t.Run(test.method.Alg()+" "+header.name, func(t *testing.T) {
				s := server.New(t)
				s.RegisterKey(issuer, subject, kid, test.key.Public())

				got := exchange(t, s, assertion(t, test.method, test.key, header.kid, claims(s)))
				checkGood(t, got)
				status, caller := callAPI(t, s, "Bearer "+got.AccessToken)
				if status != http.StatusOK || caller.Subject != subject {
					t.Errorf("the API answered %d to %q, want 200 to %q", status, caller.Subject, subject)
				}
				if got := s.Exchanges(); len(got) != 1 || got[0].Algorithm != test.method.Alg() {
					t.Errorf("recorded %+v, want one exchange with %s", got, test.method.Alg())
				}
			})
		}
	}
}

func TestAssertionRefused(t *testing.T) {
	k := makeKeys(t)
	now := time.Now().Unix()
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
		{name: "another key", key: k.p384},
		{name: "another kid", kid: "2025-12"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := server.New(t)
			s.RegisterKey(issuer, subject, kid, k.p256.Public())
			changed := claims(s)
			maps.Copy(changed, test.change)
			maps.DeleteFunc(changed, func(_ string, value any) bool { return value == nil })
			var method jwt.SigningMethod = jwt.SigningMethodES256
			key, named := k.p256, kid
			if test.key != nil {
				method, key = jwt.SigningMethodES384, test.key
			}
			if test.kid != "" {
				named = test.kid
			}

			got := exchange(t, s, assertion(t, method, key, named, changed))
			if got.Status != http.StatusBadRequest || got.Error != "invalid_grant" {
				t.Errorf("got %d %q, want 400 invalid_grant", got.Status, got.Error)
			}
		})
	}
}

// The server accepts an assertion only once, which it detects by the jti.
func TestAssertionReplayed(t *testing.T) {
	k := makeKeys(t)
	s := server.New(t)
	s.RegisterKey(issuer, subject, kid, k.p256.Public())
	form := assertion(t, jwt.SigningMethodES256, k.p256, kid, claims(s))

	checkGood(t, exchange(t, s, form))
	if got := exchange(t, s, form); got.Status != http.StatusBadRequest || got.Error != "jti_known" {
		t.Errorf("got %d %q, want 400 jti_known", got.Status, got.Error)
	}
}

func TestAPIRefuses(t *testing.T) {
	s := server.New(t)
	s.RegisterClient(t, "crm", "s3cret")
	good := exchange(t, s, url.Values{
		"grant_type": {"client_credentials"}, "client_id": {"crm"}, "client_secret": {"s3cret"},
	})
	checkGood(t, good)
	forged := strings.Repeat("A", 8) + good.AccessToken[8:]

	for name, authorization := range map[string]string{
		"no token":       "",
		"another scheme": "Basic " + good.AccessToken,
		"forged token":   "Bearer " + forged,
		"empty token":    "Bearer ",
	} {
		t.Run(name, func(t *testing.T) {
			if status, _ := callAPI(t, s, authorization); status != http.StatusUnauthorized {
				t.Errorf("got %d, want 401", status)
			}
		})
	}
	t.Run("token in the query", func(t *testing.T) {
		response := testworld.Must(client(s).Get(s.APIURL + "?access_token=" + good.AccessToken))(t)
		defer response.Body.Close()
		if response.StatusCode != http.StatusUnauthorized {
			t.Errorf("got %d, want 401", response.StatusCode)
		}
	})
}
