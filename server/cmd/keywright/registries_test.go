package main

import (
	"bytes"
	"crypto/rand"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"aead.dev/minisign"
	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/keywright/keywright/internal/testworld"
)

var shellBlock = regexp.MustCompile("(?s)\n```sh\n(.*?)```\n")

// signingKey returns a new private key of minisign.
func signingKey(t *testing.T) []byte {
	t.Helper()
	_, private, err := minisign.GenerateKey(rand.Reader)
	testworld.Check(t, err)
	return testworld.Must(private.MarshalText())(t)
}

// The commands of docs/registries.md, from the first to the last, work as they are written, with a registry on this machine for
// registry.example. What they leave behind serves a request with the plugin's mutation once the registry is gone, and a file that
// somebody changes while the registry is asked keeps the change.
func TestThePageOfRegistries(t *testing.T) {
	page := testworld.Must(os.ReadFile("../../../docs/registries.md"))(t)
	wasm := testworld.Must(os.ReadFile("../../../examples/acme_hmac/acme_hmac.wasm"))(t)
	key := signingKey(t)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ") // the gateway passes no answer on that holds the credential
		_, _ = io.WriteString(w, scheme)
	}))
	t.Cleanup(api.Close)
	dir := t.TempDir()
	file := filepath.Join(dir, "connectors.yaml")
	write := func(name string, text []byte) {
		t.Helper()
		testworld.Check(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	write("acme.wasm", wasm)
	write("acme.key", key)
	write("secret", []byte("hunter2hunter2"))
	connectors := "connectors:\n  - {name: a, url: 'https://api.example.com', auth: {type: acme_hmac, config: {key_id: a, secret: \"{{ get_secret('secret') }}\"}}}\n"
	write("connectors.yaml", []byte(connectors))

	behind := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text, err := os.ReadFile(file); err == nil && string(text) == connectors && r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			write("connectors.yaml", []byte("# A note that came meanwhile.\n"+connectors))
		}
		behind.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	t.Setenv("DOCKER_CONFIG", filepath.Join(dir, "docker"))
	t.Chdir(dir)

	blocks := shellBlock.FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 4 {
		t.Fatalf("the page has %d blocks of commands", len(blocks))
	}
	for _, block := range blocks {
		commands := strings.NewReplacer("\\\n", " ", "registry.example", strings.TrimPrefix(server.URL, "http://")).Replace(block[1])
		for line := range strings.Lines(commands) {
			args := strings.Fields(line)
			if args[0] != "keywright" {
				t.Fatalf("the page has a command of another program: %s", line)
			}
			if code, out, errs := keywright(t.Context(), args[1:]...); code != exitOK {
				t.Fatalf("%s: exit %d\n%s%s", line, code, out, errs)
			}
		}
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(text), "# A note that came meanwhile.\n") || !strings.Contains(string(text), "/acme/hmac:1.0.0") {
		t.Errorf("err = %v\ntext = %s", err, text)
	}

	server.Close()
	testworld.Check(t, os.RemoveAll(filepath.Join(dir, "cache")))
	write("connectors.yaml", bytes.Replace(text, []byte("https://api.example.com"), []byte(api.URL), 1))
	out, _, end := serveUntil(t, noEnvironment, "/readyz", "serve", "-c", file, "--secrets-dir", dir, "--dev")
	address := curlURL.FindString(out.text.String())
	status, _, answer := curl(t, address+"a")
	if status != http.StatusOK || answer != "ACME-HMAC-SHA256" {
		t.Errorf("%s is answered %d: %s", address, status, answer)
	}
	if code := end(); code != exitOK {
		t.Errorf("exit %d", code)
	}
}
