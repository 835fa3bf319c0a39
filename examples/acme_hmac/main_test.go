package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/host/hosttest/cases"
)

// config is the configuration of a connector to Acme's API.
var config = hosttest.Config{"key_id": "north-1", "secret": "{{ get_secret('acme') }}"}

// wantSigned fails the test unless the API got the signature of a method, a target and a body.
func wantSigned(t *testing.T, h *hosttest.Harness, got *hosttest.Result, secret, target, body string) {
	t.Helper()
	now := h.Now().Unix()
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%s\n%s\n%d\n%x", got.Request.Method, target, now, sha256.Sum256([]byte(body)))
	want := fmt.Sprintf("ACME-HMAC-SHA256 key=north-1, time=%d, signature=%s", now, hex.EncodeToString(mac.Sum(nil)))
	if got.Header("Authorization") != want {
		t.Errorf("Authorization is %q, want %q", got.Header("Authorization"), want)
	}
	if sent, err := io.ReadAll(got.Request.Body); err != nil || string(sent) != body {
		t.Errorf("the API got the body %q, want %q (%v)", sent, body, err)
	}
}

func TestSignedRequest(t *testing.T) {
	tests := []struct {
		name, url, body string
		target          string // the part of the URL that is signed
	}{
		{"GET", "https://api.acme.test/v1/orders", "", "/v1/orders"},
		{"GET with a query", "https://api.acme.test/v1/orders?page=2&q=a%20b", "", "/v1/orders?page=2&q=a%20b"},
		{"POST with a body", "https://api.acme.test/v1/orders", `{"item":"crème"}`, "/v1/orders"},
		{"no path", "https://api.acme.test", "", "/"},
		{"a query without a path", "https://api.acme.test?page=2", "", "/?page=2"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			hosttest.Run(t, plugin{}, "acme_hmac.wasm", func(t *testing.T, h *hosttest.Harness) {
				secret := h.Canary("acme")
				request := hosttest.GET(test.url)
				if test.body != "" {
					request = hosttest.POST(test.url, test.body)
				}
				wantSigned(t, h, h.Authenticate(config, request), secret, test.target, test.body)
			})
		})
	}
}

func TestSignedStreamedBody(t *testing.T) {
	hosttest.Run(t, plugin{}, "acme_hmac.wasm", func(t *testing.T, h *hosttest.Harness) {
		secret := h.Canary("acme")
		body := io.MultiReader(strings.NewReader("streamed")) // http.NewRequest sets no GetBody for such a reader
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.acme.test/v1/orders", body)
		if err != nil {
			t.Fatal(err)
		}
		got := h.Authenticate(config, request)
		wantSigned(t, h, got, secret, "/v1/orders", "streamed")
		if got.Request.ContentLength != int64(len("streamed")) {
			t.Errorf("the request has the length %d", got.Request.ContentLength)
		}
	})
}

// A key ID that came with a parameter of its own would be sent beside the signature.
func TestKeyIDWithExtraParameter(t *testing.T) {
	hosttest.Run(t, plugin{}, "acme_hmac.wasm", func(t *testing.T, h *hosttest.Harness) {
		h.Canary("acme")
		h.Variable("key", "north-1, signature=0")
		const want = "has a character that is neither a letter nor a digit nor one of !#$%&'*+-.^_`|~"
		got := h.Problems(hosttest.Config{"key_id": "north-1, signature=0", "secret": config["secret"]})
		if len(got) != 1 || got[0].Path != "auth.config.key_id" || got[0].Message != want {
			t.Errorf("the problems are %v", got)
		}
		err := h.AuthenticateError(hosttest.Config{"key_id": "{{ get_variable('key') }}", "secret": config["secret"]}, hosttest.GET("https://api.acme.test/v1"))
		if !strings.Contains(err.Error(), "key_id "+want) {
			t.Errorf("the error is %v", err)
		}
	})
}

// The cases are those of the same plugin in C and AssemblyScript, too.
func TestCases(t *testing.T) {
	cases.Test(t, plugin{}, "acme_hmac.wasm", "cases.yaml")
}
