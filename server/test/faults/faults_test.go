package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

const plain = `connectors:
  - name: Plain
    url: API/v1
    timeout: TIMEOUT
    auth: {type: api_key, config: {key: X-Key, value: "{{ get_secret('key') }}", in: header}}
`

const oauth = `connectors:
  - name: OAuth
    url: API/v1
    timeout: TIMEOUT
    auth:
      type: oauth_client_credentials
      config: {client_id: crm, client_secret: "{{ get_secret('key') }}", token_url: LOGIN/token}
`

// threats.md 32, 48: if the token endpoint fails, the caller gets a problem with a type, and the API gets no request. Once it
// works again, the next request succeeds.
func TestTokenEndpoint(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			w := newDeployment(t, f, oauth, host.MapSecrets{"key": secret})
			mend := w.login.fail(f)
			for range 2 {
				w.wantProblem(f, "/connectors/oauth", "authentication-failed", "token")
			}
			if n := w.api.asked.Load(); n > 0 {
				t.Errorf("the API received %d requests", n)
			}
			mend()
			w.wantBody("/connectors/oauth")
		})
	}
}

// If the API fails, the caller gets a problem with a type, before and after successful requests.
func TestUpstream(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			w := newDeployment(t, f, plain, host.MapSecrets{"key": secret})
			kind := "upstream-failed"
			if f.late {
				kind = "upstream-timeout"
			}
			for range 2 { // the second time on used connections
				mend := w.api.fail(f)
				w.wantProblem(f, "/connectors/plain", kind, "")
				mend()
				w.wantBody("/connectors/plain")
			}
		})
	}
}

// If a response stops after its header was passed on, the caller's response is cut off too, in time.
func TestUpstreamStopsInLongBody(t *testing.T) {
	f := fault{late: true} // the backend itself stops
	w := newDeployment(t, f, plain+"    paths: [/long]\n", host.MapSecrets{"key": secret})
	for range 2 {
		a := w.get("/connectors/plain/long")
		if a.status != http.StatusOK || !errors.Is(a.broken, io.ErrUnexpectedEOF) || a.body != strings.Repeat(body, 20) || a.took > f.within() {
			t.Errorf("the caller got %d with %d bytes in %v: %v", a.status, len(a.body), a.took, a.broken)
		}
		w.wantBody("/connectors/plain")
	}
}

// vault returns a backend with the part of Vault's HTTP API that is needed to read one secret.
func vault(t *testing.T) *backend {
	return newBackend(t, func(w http.ResponseWriter, r *http.Request) {
		padding := strings.Repeat(" ", 5000)
		switch r.URL.Path {
		case "/v1/auth/token/lookup-self":
			_, _ = io.WriteString(w, `{"data":{"ttl":0,"renewable":false}}`+padding)
		case "/v1/secret/data/key":
			_, _ = fmt.Fprintf(w, `{"data":{"data":{"value":%q}}}%s`, secret, padding)
		default:
			t.Errorf("vault was asked for %s", r.URL.Path)
		}
	})
}

// If the store of secrets fails, no older value is used, and the API gets no request.
func TestSecretsStore(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			store := vault(t)
			file := filepath.Join(t.TempDir(), "token")
			testworld.Check(t, os.WriteFile(file, []byte("hvs.of-the-test"), 0o600))
			w := newDeployment(t, f, fmt.Sprintf("secrets: [{type: vault, address: %q, token_file: %q, timeout: TIMEOUT, remember: 1s}]\n", store.url, file)+plain, nil)
			mend := store.fail(f)
			w.wantProblem(f, "/connectors/plain", "authentication-failed", "template")
			if n := w.api.asked.Load(); n > 0 {
				t.Errorf("the API received %d requests", n)
			}
			mend()
			w.wantBody("/connectors/plain")
			mend = store.fail(f)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second+f.within())
			defer cancel()
			for w.get("/connectors/plain").status == http.StatusOK && ctx.Err() == nil { // while the secret is cached
			}
			w.wantProblem(f, "/connectors/plain", "authentication-failed", "template")
			mend()
			w.wantBody("/connectors/plain")
		})
	}
}
