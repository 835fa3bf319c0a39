package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
)

const canary = "canary-p3Hs8Vw1Ny6K"

// wasm is the compiled plugin. `go run ./tools/plugin build examples/acme_hmac` builds it, run at the top of the repository.
//
//go:embed acme_hmac.wasm
var wasm []byte

// acme is Acme's API. It records the requests.
type acme struct {
	requests []*http.Request
	bodies   []string
}

// RoundTrip implements http.RoundTripper.
func (a *acme) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	a.requests, a.bodies = append(a.requests, r), append(a.bodies, string(body))
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: r,
	}, nil
}

// client returns a client that signs requests with the plugin, in its sandbox and at the given time.
func client(t *testing.T, api *acme, now time.Time) *http.Client {
	t.Helper()
	h, err := host.New(t.Context(), host.Config{
		Secrets: host.MapSecrets{"acme": canary},
		Plugins: []host.Plugin{{Name: "acme_hmac.wasm", Wasm: wasm}},
		Base:    api,
		Clock:   func() time.Time { return now },
	})
	if err != nil {
		t.Fatalf("load the plugin: %v", err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("close the host: %v", err)
		}
	})
	connector, err := h.Connect(t.Context(), host.ConnectorConfig{
		Name:    "acme",
		Origins: []string{"https://api.acme.test"},
		Auth: host.Auth{Type: "acme_hmac", Config: map[string]any{
			"key_id": "north-1",
			"secret": "{{ get_secret('acme') }}",
		}},
	})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	return &http.Client{Transport: connector.Transport(nil)}
}

func TestRequestIsSigned(t *testing.T) {
	tests := []struct {
		name, method, url, body string
		target                  string // the part of the URL that is signed
	}{
		{"GET", http.MethodGet, "https://api.acme.test/v1/orders", "", "/v1/orders"},
		{"GET with a query", http.MethodGet, "https://api.acme.test/v1/orders?page=2&q=a%20b", "", "/v1/orders?page=2&q=a%20b"},
		{"POST with a body", http.MethodPost, "https://api.acme.test/v1/orders", `{"item":"crème"}`, "/v1/orders"},
		{"no path", http.MethodGet, "https://api.acme.test", "", "/"},
		{"a query without a path", http.MethodGet, "https://api.acme.test?page=2", "", "/?page=2"},
	}
	now := time.Unix(1_772_366_400, 0)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			api := &acme{}
			request, err := http.NewRequestWithContext(t.Context(), test.method, test.url, strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			response, err := client(t, api, now).Do(request)
			if err != nil {
				t.Fatal(err)
			}
			if err := response.Body.Close(); err != nil {
				t.Fatal(err)
			}

			if len(api.requests) != 1 || api.bodies[0] != test.body {
				t.Fatalf("the API got the bodies %q, want one of %q", api.bodies, test.body)
			}
			body := sha256.Sum256([]byte(test.body))
			mac := hmac.New(sha256.New, []byte(canary))
			fmt.Fprintf(mac, "%s\n%s\n%d\n%x", test.method, test.target, now.Unix(), body)
			want := "ACME-HMAC-SHA256 key=north-1, time=1772366400, signature=" + hex.EncodeToString(mac.Sum(nil))
			if got := api.requests[0].Header.Get("Authorization"); got != want {
				t.Errorf("Authorization is %q, want %q", got, want)
			}
		})
	}
}

func TestStreamedBodyIsSigned(t *testing.T) {
	api := &acme{}
	body := io.MultiReader(strings.NewReader("streamed")) // http.NewRequest sets no GetBody for such a reader
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://api.acme.test/v1/orders", body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client(t, api, time.Unix(1_772_366_400, 0)).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if len(api.requests) != 1 || api.bodies[0] != "streamed" || api.requests[0].ContentLength != int64(len("streamed")) {
		t.Fatalf("the API got the bodies %q", api.bodies)
	}
	mac := hmac.New(sha256.New, []byte(canary))
	fmt.Fprintf(mac, "POST\n/v1/orders\n1772366400\n%x", sha256.Sum256([]byte("streamed")))
	want := "ACME-HMAC-SHA256 key=north-1, time=1772366400, signature=" + hex.EncodeToString(mac.Sum(nil))
	if got := api.requests[0].Header.Get("Authorization"); got != want {
		t.Errorf("Authorization is %q, want %q", got, want)
	}
}
