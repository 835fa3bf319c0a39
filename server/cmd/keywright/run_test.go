package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
	file := filepath.Join(t.TempDir(), "c.yaml")
	text := "connectors: [{name: a, url: '" + server.URL + "', auth: {type: none}}]\n"
	testworld.Check(t, os.WriteFile(file, []byte(text), 0o600))
	code, stdout, stderr := keywright(ctx, "request", "--dev", "-c", file, "a", "/")
	if code != exitFailure || stdout != "" || !strings.HasSuffix(stderr, "\nkeywright: interrupted\n") {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	<-gone
}
