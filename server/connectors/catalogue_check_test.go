//go:build !race

// Under the race detector these tests take long, and they do one thing after another. make test runs them without it.

package connectors_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// otherRSAKey makes the key of somebody else.
var otherRSAKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// keyTexts returns a key as it stands in files: as PEM in PKCS #1 and in PKCS #8, and the same in JSON.
func keyTexts(t *testing.T, of func() (*rsa.PrivateKey, error)) []string {
	t.Helper()
	key := testworld.Must(of())(t)
	der := testworld.Must(x509.MarshalPKCS8PrivateKey(key))(t)
	texts := []string{
		string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
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

func newP256Key() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// p256Text returns a key as PEM.
func p256Text(t *testing.T, of func() (*ecdsa.PrivateKey, error)) string {
	t.Helper()
	key := testworld.Must(of())(t)
	der := testworld.Must(x509.MarshalPKCS8PrivateKey(key))(t)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
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

// signedIn checks the user name and the password.
func signedIn(name, password string) check {
	return func(r *http.Request) error {
		if gotName, gotPassword, ok := r.BasicAuth(); !ok || gotName != name || gotPassword != password {
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

// userOnly checks the user name, which is the credential, whatever the password is.
func userOnly(name string) check {
	return func(r *http.Request) error {
		if got, _, ok := r.BasicAuth(); !ok || got != name {
			return fmt.Errorf("user %q", got)
		}
		return nil
	}
}

// passwordOnly checks the password, whatever the user name is.
func passwordOnly(password string) check {
	return func(r *http.Request) error {
		if _, got, ok := r.BasicAuth(); !ok || got != password {
			return fmt.Errorf("password %q", got)
		}
		return nil
	}
}
