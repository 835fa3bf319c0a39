package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// keywright runs a command line in this process.
func keywright(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, err strings.Builder
	code = run(ctx, args, strings.NewReader(""), &out, &err, func(string) string { return "" })
	return code, out.String(), err.String()
}

// exitsWith runs a command line, and checks its exit code and whether stderr has a text.
func exitsWith(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	if got, _, stderr := keywright(t.Context(), args...); got != code || !strings.Contains(stderr, want) {
		t.Errorf("%q: exit %d, want %d, and %q in stderr:\n%s", args, got, code, want, stderr)
	}
}

// Ctrl-C ends a running request.
func TestInterrupt(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	gone := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		interrupt()
		<-r.Context().Done() // the client has closed the connection
		close(gone)
	}))
	defer server.Close()
	file := testworld.File(t, "c.yaml", "connectors: [{name: a, url: '"+server.URL+"', auth: {type: none}}]\n")
	code, stdout, stderr := keywright(ctx, "request", "--dev", "-c", file, "a", "/")
	if code != exitFailure || stdout != "" || !strings.HasSuffix(stderr, "\nkeywright: interrupted\n") {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	<-gone
}
