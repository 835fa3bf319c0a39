package demo

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/internal/testworld"
)

// start runs the servers for a test, and returns them with a client.
func start(t *testing.T, c *testworld.Clock) (*Servers, *http.Client) {
	t.Helper()
	s := testworld.Must(Start(t.Context(), testKeys(t), c.Now))(t)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		testworld.Check(t, s.Close())
	})
	return s, client
}

// get sends a GET with a bearer token.
func get(t *testing.T, client *http.Client, url, token string) int {
	t.Helper()
	r := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	r.Header.Set("Authorization", "Bearer "+token)
	response := testworld.Must(client.Do(r))(t)
	_ = response.Body.Close()
	return response.StatusCode
}

// Both grants and a JWT are accepted over the network, as the demo uses them.
func TestStart(t *testing.T) {
	c, k := newClock(), testKeys(t)
	s, client := start(t, c)
	for _, url := range []string{s.TokenURL, s.APIURL} {
		if !strings.HasPrefix(url, "http://127.0.0.1:") {
			t.Errorf("it listens at %s", url)
		}
	}
	claims := with(assertionClaims(k, c.Now()), map[string]any{"aud": s.TokenURL})
	for subject, form := range map[string]map[string][]string{
		"client":    clientForm(k),
		"assertion": bearerForm(signed(t, jwt.SigningMethodRS256, k.RSA, claims)),
	} {
		response := testworld.Must(client.PostForm(s.TokenURL, form))(t)
		var answer struct {
			AccessToken string `json:"access_token"`
			ExpiresIn   int    `json:"expires_in"`
		}
		if err := errors.Join(json.NewDecoder(response.Body).Decode(&answer), response.Body.Close()); err != nil || answer.ExpiresIn != 3600 {
			t.Fatalf("%s: answer = %+v, err = %v", subject, answer, err)
		}
		if code := get(t, client, s.APIURL+PathBearer, answer.AccessToken); code != http.StatusOK {
			t.Errorf("%s: status %d", subject, code)
		}
	}
	if n := s.Endpoint.Exchanges(); n != 2 {
		t.Errorf("%d exchanges, want 2", n)
	}
	token := signed(t, jwt.SigningMethodES256, k.EC, map[string]any{"aud": s.APIURL, "iat": c.Now().Unix(), "exp": c.Now().Unix() + 60})
	if code := get(t, client, s.APIURL+PathJWT, token); code != http.StatusOK {
		t.Errorf("JWT: status %d", code)
	}
	if n := len(s.API.Received()); n != 3 {
		t.Errorf("%d requests recorded, want 3", n)
	}
}

func TestManyAtOnce(t *testing.T) {
	c, k := newClock(), testKeys(t)
	s, client := start(t, c)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			w := post(s.Endpoint, clientForm(k))
			get(t, client, s.APIURL+PathBearer, text(t, document(t, w), "access_token"))
		})
	}
	all.Wait()
	for _, one := range s.API.Received() {
		if one.Status != http.StatusOK {
			t.Errorf("one = %+v", one)
		}
	}
	if n := s.Endpoint.Exchanges(); n != 20 {
		t.Errorf("%d exchanges, want 20", n)
	}
}

func TestCloseStopsListening(t *testing.T) {
	s, client := start(t, newClock())
	testworld.Check(t, s.Close())
	for _, url := range []string{s.TokenURL, s.APIURL} {
		if response, err := client.Get(url); err == nil {
			_ = response.Body.Close()
			t.Errorf("%s answers after Close", url)
		}
	}
}

func TestKeys(t *testing.T) {
	k := testKeys(t)
	other := testworld.Must(NewKeys())(t)
	if k.ClientSecret == other.ClientSecret || k.APIKey == other.APIKey || k.EC == other.EC || k.APIKey == k.ClientSecret {
		t.Error("keys are not fresh")
	}
}

// keys generates keys once, because an RSA key takes a while.
var keys = sync.OnceValues(NewKeys)

func testKeys(t *testing.T) Keys {
	t.Helper()
	return testworld.Must(keys())(t)
}

func newClock() *testworld.Clock {
	return testworld.NewClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
}

// signed returns a JWT. key may be in PEM.
func signed(t *testing.T, method jwt.SigningMethod, key any, claims map[string]any) string {
	t.Helper()
	if text, ok := key.(string); ok {
		block, _ := pem.Decode([]byte(text))
		key = testworld.Must(x509.ParsePKCS8PrivateKey(block.Bytes))(t)
	}
	return testworld.Must(jwt.NewWithClaims(method, jwt.MapClaims(claims)).SignedString(key))(t)
}

// with returns a copy of claims with changes. A nil value removes a claim.
func with(claims, changes map[string]any) map[string]any {
	changed := map[string]any{}
	for _, from := range []map[string]any{claims, changes} {
		for name, value := range from {
			if changed[name] = value; value == nil {
				delete(changed, name)
			}
		}
	}
	return changed
}

// post sends a form to a handler.
func post(h http.Handler, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/token", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// document decodes the body of a response.
func document(t *testing.T, w *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil {
		t.Fatalf("answer %q: %v", w.Body, err)
	}
	if cache, media := w.Header().Get("Cache-Control"), w.Header().Get("Content-Type"); cache != "no-store" || media != "application/json" {
		t.Errorf("Cache-Control is %q, and Content-Type is %q", cache, media)
	}
	return doc
}

// text returns a string member of a document.
func text(t *testing.T, doc map[string]any, name string) string {
	t.Helper()
	value, ok := doc[name].(string)
	if !ok {
		t.Fatalf("%s is %v", name, doc[name])
	}
	return value
}

const apiAudience = "http://127.0.0.1/api"

// testAPI returns an API that knows one access token.
func testAPI(t *testing.T, c *testworld.Clock) *API {
	t.Helper()
	e := newEndpoint(t, c)
	e.tokens["access-token-of-ada"] = issued{"ada", c.Now().Add(time.Hour)}
	return newAPI(testKeys(t), e, apiAudience, c.Now)
}

// call sends one request. headers alternates names and values.
func call(h http.Handler, target string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, target, strings.NewReader("a body"))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestAPI(t *testing.T) {
	c, k := newClock(), testKeys(t)
	claims := map[string]any{"sub": "ada", "aud": apiAudience, "iat": c.Now().Unix(), "exp": c.Now().Unix() + 60}
	es256 := func(changes map[string]any) string {
		return "Bearer " + signed(t, jwt.SigningMethodES256, k.EC, with(claims, changes))
	}
	const token = "Bearer access-token-of-ada"
	tests := []struct {
		name, target string
		headers      []string
		status       int
	}{
		{"none", "/none?q=1", []string{"X-Other", "1"}, 200},

		{"header key", "/api-key-header", []string{"x-api-key", k.APIKey}, 200},
		{"header key: wrong", "/api-key-header", []string{"X-API-Key", k.APIKey + "x"}, 401},
		{"header key: missing", "/api-key-header", nil, 401},
		{"header key: in the query", "/api-key-header?api_key=" + k.APIKey, nil, 401},

		{"query key", "/api-key-query?a=b&api_key=" + k.APIKey, nil, 200},
		{"query key: wrong", "/api-key-query?api_key=wrong", nil, 401},
		{"query key: in the header", "/api-key-query", []string{"X-API-Key", k.APIKey}, 401},

		{"bearer", "/bearer", []string{"Authorization", token}, 200},
		{"bearer: unknown token", "/bearer", []string{"Authorization", "Bearer another"}, 401},
		{"bearer: a JWT", "/bearer", []string{"Authorization", es256(nil)}, 401},
		{"bearer: another scheme", "/bearer", []string{"Authorization", "Basic access-token-of-ada"}, 401},
		{"bearer: no scheme", "/bearer", []string{"Authorization", "access-token-of-ada"}, 401},
		{"bearer: missing", "/bearer", nil, 401},

		{"jwt", "/jwt", []string{"Authorization", es256(nil)}, 200},
		{"jwt: an access token", "/jwt", []string{"Authorization", token}, 401},
		{"jwt: expired", "/jwt", []string{"Authorization", es256(map[string]any{"exp": c.Now().Unix()})}, 401},
		{"jwt: no exp", "/jwt", []string{"Authorization", es256(map[string]any{"exp": nil})}, 401},
		{"jwt: another audience", "/jwt", []string{"Authorization", es256(map[string]any{"aud": "x"})}, 401},
		{"jwt: another algorithm", "/jwt", []string{"Authorization", "Bearer " + signed(t, jwt.SigningMethodRS256, k.RSA, claims)}, 401},
		{"jwt: missing", "/jwt", nil, 401},

		{"unknown path", "/other", nil, 404},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			api := testAPI(t, c)
			w := call(api, tt.target, tt.headers...)
			doc := document(t, w)
			if w.Code != tt.status || doc["ok"] != (tt.status == http.StatusOK) {
				t.Errorf("status %d, answer %v, want %d", w.Code, doc, tt.status)
			}
			if challenged := w.Header().Get("WWW-Authenticate") != ""; challenged != (tt.status == http.StatusUnauthorized) {
				t.Errorf("WWW-Authenticate is %q", w.Header().Get("WWW-Authenticate"))
			}
			if strings.Contains(w.Body.String(), k.APIKey) || strings.Contains(w.Body.String(), "access-token") {
				t.Errorf("the answer echoes the credential: %s", w.Body)
			}
			got := api.Received()
			if len(got) != 1 || got[0].Status != tt.status || got[0].Path != strings.Split(tt.target, "?")[0] {
				t.Errorf("recorded: %+v", got)
			}
		})
	}
	for target, credential := range map[string]string{"/bearer": token, "/jwt": es256(nil)} {
		if doc := document(t, call(testAPI(t, c), target, "Authorization", credential)); doc["subject"] != "ada" {
			t.Errorf("%s: doc = %v", target, doc)
		}
	}
}

func TestMaskedReceived(t *testing.T) {
	c, k := newClock(), testKeys(t)
	api := testAPI(t, c)
	token := signed(t, jwt.SigningMethodES256, k.EC, map[string]any{"aud": apiAudience, "exp": c.Now().Add(time.Minute).Unix()})
	masked := k.APIKey[:4] + "… (32 characters)"
	call(api, "/api-key-header?a=1&A=%C3%A9&a=2", "X-API-Key", k.APIKey, "Accept", "text/plain")
	call(api, "/api-key-query?api_key="+k.APIKey)
	call(api, "/none?wrong="+k.APIKey, "X-Wrong", "key="+k.APIKey, "X-Api-Key", "the key of another")
	call(api, "/jwt", "Authorization", "Bearer "+token)

	got := api.Received()
	want := []Received{
		{
			Method: "GET", Path: "/api-key-header", Status: 200,
			Headers: []Field{{"Accept", "text/plain"}, {"X-Api-Key", masked}},
			Query:   []Field{{"A", "é"}, {"a", "1"}, {"a", "2"}},
		},
		{Method: "GET", Path: "/api-key-query", Status: 200, Query: []Field{{"api_key", masked}}},
		{
			Method: "GET", Path: "/none", Status: 200,
			Headers: []Field{{"X-Api-Key", "the … (18 characters)"}, {"X-Wrong", "key=… (36 characters)"}},
			Query:   []Field{{"wrong", masked}},
		},
	}
	for i, one := range want {
		if g, w := asJSON(t, got[i]), asJSON(t, one); g != w {
			t.Errorf("got  %s\nwant %s", g, w)
		}
	}
	last := got[3]
	if last.JWT == nil || !strings.Contains(string(last.JWT.Header), `"alg":"ES256"`) || !strings.Contains(string(last.JWT.Claims), `"aud":"`+apiAudience+`"`) {
		t.Errorf("the JWT is recorded as %+v", last.JWT)
	}
	if value := last.Headers[0].Value; !strings.HasPrefix(value, "Bearer eyJh… (") {
		t.Errorf("Authorization is recorded as %q", value)
	}
	if all := asJSON(t, got); strings.Contains(all, k.APIKey) || strings.Contains(all, token[strings.LastIndexByte(token, '.'):]) {
		t.Errorf("a credential is in %s", all)
	}
}

func TestReceivedBound(t *testing.T) {
	api := testAPI(t, newClock())
	for range maxRecords {
		call(api, "/none")
	}
	call(api, "/none?last=1")
	got := api.Received()
	if len(got) != maxRecords || len(got[0].Query) != 0 || len(got[maxRecords-1].Query) != 1 {
		t.Errorf("%d requests are kept, the last is %+v", len(got), got[len(got)-1])
	}
}

func TestMask(t *testing.T) {
	for credential, want := range map[string]string{
		"":                 "… (0 characters)",
		"short-password1":  "… (15 characters)",
		"sixteen-letters!": "sixt… (16 characters)",
		"äöüßäöüßäöüßäöüß": "äöüß… (16 characters)",
	} {
		if got := mask(credential); got != want {
			t.Errorf("mask(%q) = %q, want %q", credential, got, want)
		}
	}
}

func TestDecodeJWT(t *testing.T) {
	for _, token := range []string{"", "a.b", "a.b.c.d", "!.!.!", "YQ.YQ.YQ", "e30.YQ.YQ"} {
		if got := decode(token); got != nil {
			t.Errorf("decode(%q) = %+v", token, got)
		}
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	return string(testworld.Must(json.Marshal(v))(t))
}
