//go:build !race

// Under the race detector these tests take long, and they do one thing after another. make test runs them without it.

package connectors_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/internal/testworld"
)

const (
	slackToken  = "xoxb-17653672481-19874698323-pdFZKVeTuE8sk7oOcBrzbqgy"
	githubToken = "ghs_16C7e42F292c6912E7710c838347Ae178B4a"
	googleEmail = "robot@my-project.iam.gserviceaccount.com"
	googleKeyID = "370ab79b4513eb9bad7c9bd16a95cb76b5b2a56a"
	chatToken   = "9HqLlyZOugoStsXCUfD_0YdwnNnunAJF8V47U3QHXSq"
)

// rsaKey makes the key of all products. Making a key takes longer than a test.
var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// keys returns a key as GitHub's PEM file and as Google's JSON file, and its public half.
func keys(t *testing.T) (github, google string, public *rsa.PublicKey) {
	t.Helper()
	key := testworld.Must(rsaKey())(t)
	github = string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	file := testworld.Must(json.MarshalIndent(map[string]string{
		"type": "service_account", "project_id": "my-project", "private_key_id": googleKeyID,
		"private_key":  pkcs8(t, key),
		"client_email": googleEmail, "client_id": "103200000000000000000", "auth_uri": "https://accounts.google.com/o/oauth2/auth",
		"token_uri": "https://oauth2.googleapis.com/token", "universe_domain": "googleapis.com",
	}, "", "  "))(t)
	return github, string(file), &key.PublicKey
}

// otherRSAKey makes the key of somebody else.
var otherRSAKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// keyTexts returns a key as it stands in files: as PEM in PKCS #1 and in PKCS #8, and the same in JSON.
func keyTexts(t *testing.T, of func() (*rsa.PrivateKey, error)) []string {
	t.Helper()
	key := testworld.Must(of())(t)
	texts := []string{
		string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})), pkcs8(t, key),
	}
	for _, text := range texts[:2] {
		quoted, _ := json.Marshal(text)
		texts = append(texts, strings.Trim(string(quoted), `"`))
	}
	return texts
}

// p256Key makes the key of products that want one on P-256, and otherP256Key that of somebody else.
var (
	p256Key      = sync.OnceValues(newP256Key)
	otherP256Key = sync.OnceValues(newP256Key)
)

// p521Key makes the key of products that want one on P-521, and otherP521Key that of somebody else.
var (
	p521Key      = sync.OnceValues(newP521Key)
	otherP521Key = sync.OnceValues(newP521Key)
)

func newP521Key() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P521(), rand.Reader) }

func newP256Key() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// ecText returns an EC key as PEM.
func ecText(t *testing.T, of func() (*ecdsa.PrivateKey, error)) string {
	t.Helper()
	return pkcs8(t, testworld.Must(of())(t))
}

// A check returns an error if a request is not as a product documents it.
type check func(*http.Request) error

// request returns an API that answers requests of a method to a URL without its query, such as "GET https://api.example.com/v1",
// if all checks pass.
func request(target string, checks ...check) http.HandlerFunc {
	return answers(func(r *http.Request) error {
		if got := r.Method + " https://" + strings.ToLower(r.Host) + r.URL.Path; got != target {
			return fmt.Errorf("the request is %s, and not %s", got, target)
		}
		return all(r, checks)
	})
}

func all(r *http.Request, checks []check) error {
	for _, c := range checks {
		if err := c(r); err != nil {
			return err
		}
	}
	return nil
}

// sends checks that a header is there once, with a value.
func sends(name, value string) check {
	return func(r *http.Request) error {
		if got := r.Header[http.CanonicalHeaderKey(name)]; !slices.Equal(got, []string{value}) {
			return fmt.Errorf("%s: %q", name, got)
		}
		return nil
	}
}

// bearing checks the bearer token.
func bearing(token string) check { return sends("Authorization", "Bearer "+token) }

// signedIn checks the user name and the password, each unless it is "".
func signedIn(name, password string) check {
	return func(r *http.Request) error {
		gotName, gotPassword, ok := r.BasicAuth()
		if !ok || name != "" && gotName != name || password != "" && gotPassword != password {
			return fmt.Errorf("user %q with %q", gotName, gotPassword)
		}
		return nil
	}
}

// asks checks that the query has exactly these parameters, in pairs of name and value.
func asks(pairs ...string) check {
	return func(r *http.Request) error { return equalPairs("query", r.URL.Query(), pairs) }
}

// posts checks that the body is a form with exactly these members, in pairs of name and value.
func posts(pairs ...string) check {
	return func(r *http.Request) error {
		if err := r.ParseForm(); err != nil {
			return err
		}
		return equalPairs("form", r.PostForm, pairs)
	}
}

func equalPairs(what string, got map[string][]string, pairs []string) error {
	if len(got) != len(pairs)/2 {
		return fmt.Errorf("%s: %v", what, got)
	}
	for i := 0; i < len(pairs); i += 2 {
		if !slices.Equal(got[pairs[i]], pairs[i+1:i+2]) {
			return fmt.Errorf("%s: %s is %q", what, pairs[i], got[pairs[i]])
		}
	}
	return nil
}

// tokens returns a product with a token endpoint at a URL, whose answer is a document. The endpoint answers with a status of
// 401 if a check fails.
func tokens(url, document string, api http.HandlerFunc, checks ...check) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if "https://"+r.Host+r.URL.Path != url {
			api(w, r)
			return
		}
		if err := all(r, append([]check{posted}, checks...)); err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": "invalid_client", "error_description": err.Error()})
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(document))
	}
}

// posted checks that a request is a POST.
func posted(r *http.Request) error {
	if r.Method != http.MethodPost {
		return fmt.Errorf("the method is %s", r.Method)
	}
	return nil
}

// contains checks that the body is a text, declared as JSON.
func contains(text string) check {
	return func(r *http.Request) error {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != text || r.Header.Get("Content-Type") != "application/json" {
			return fmt.Errorf("body: %q %w", body, err)
		}
		return nil
	}
}

// answers returns a handler that answers {"ok":true} if the request is right, and otherwise 401 with the reason.
func answers(check func(*http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := check(r); err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			_ = json.NewEncoder(w).Encode(map[string]any{"ok": false, "error": err.Error()})
			return
		}
		_, _ = io.WriteString(w, `{"ok":true}`)
	}
}

// claimsOf are the claims of the JWTs that GitHub and Google get.
type claimsOf struct {
	jose.RegisteredClaims
	Scope  string `json:"scope"`
	Target string `json:"target_audience"`
}

// verify returns the claims of a JWT that the key has signed with RS256.
func verify(public *rsa.PublicKey, signed string, options ...jose.ParserOption) (*claimsOf, error) {
	claims := &claimsOf{}
	options = append(options, jose.WithValidMethods([]string{"RS256"}), jose.WithExpirationRequired())
	parsed, err := jose.ParseWithClaims(strings.TrimPrefix(signed, "Bearer "), claims, func(*jose.Token) (any, error) { return public, nil }, options...)
	if err != nil {
		return nil, err
	}
	if id, named := parsed.Header["kid"]; named && id != googleKeyID {
		return nil, fmt.Errorf("kid: %v", id)
	}
	return claims, nil
}

const s3Secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"

// verifyS3 returns an error unless the request has the signature of the one user that there is, over all of it. As "Authenticating
// Requests" in the reference of S3's API says, it signs each request anew, and compares.
func verifyS3(r *http.Request) error { return verifyAWS(r, "eu-central-1", "s3") }

// verifyAWS is verifyS3 for any service. Only S3 demands the hash of the body in a header.
func verifyAWS(r *http.Request, region, service string) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	stamp, payload := r.Header.Get("X-Amz-Date"), r.Header.Get("X-Amz-Content-Sha256")
	at, err := time.Parse("20060102T150405Z", stamp)
	if err != nil || time.Since(at).Abs() > 15*time.Minute {
		return fmt.Errorf("X-Amz-Date: %s", stamp)
	}
	sum := sha256.Sum256(body)
	if hash := hex.EncodeToString(sum[:]); service != "s3" {
		payload = hash
	} else if payload != hash {
		return fmt.Errorf("X-Amz-Content-Sha256: %s", payload)
	}
	scope := stamp[:8] + "/" + region + "/" + service + "/aws4_request"
	rest, found := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/"+scope+", SignedHeaders=")
	names, signature, both := strings.Cut(rest, ", Signature=")
	if !found || !both {
		return fmt.Errorf("Authorization: %s", r.Header.Get("Authorization"))
	}
	signed := strings.Split(names, ";")
	for _, name := range []string{"host", "content-type", "x-amz-content-sha256", "x-amz-date"} {
		if !slices.Contains(signed, name) && (name == "host" || r.Header.Get(name) != "") {
			return fmt.Errorf("%s is not signed", name)
		}
	}
	query := strings.ReplaceAll(r.URL.Query().Encode(), "+", "%20") // which is sorted
	canonical := r.Method + "\n" + strings.ReplaceAll(percentEncoded(r.URL.Path), "%2F", "/") + "\n" + query + "\n"
	for _, name := range signed {
		value := r.Header.Get(name)
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = fmt.Sprint(r.ContentLength)
		}
		canonical += name + ":" + strings.Join(strings.Fields(value), " ") + "\n"
	}
	digest := sha256.Sum256([]byte(canonical + "\n" + names + "\n" + payload))
	key := []byte("AWS4" + s3Secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	if want := hex.EncodeToString(mac(key, "AWS4-HMAC-SHA256\n"+stamp+"\n"+scope+"\n"+hex.EncodeToString(digest[:]))); signature != want {
		return fmt.Errorf("the signature is %s, and that of the canonical request %q is %s", signature, canonical, want)
	}
	return nil
}

// percentEncoded escapes all bytes but the unreserved characters of RFC 3986.
func percentEncoded(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// mac returns the HMAC-SHA256 of a text.
func mac(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}
