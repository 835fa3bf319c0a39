// Package registries tests plugins in registries with programs of others: Debian's docker-registry, and cosign.
package registries

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"aead.dev/minisign"
	"github.com/google/go-containerregistry/pkg/registry"
)

const (
	plugin = "../../../examples/acme_hmac/acme_hmac.wasm"
	file   = `connectors:
  - {name: a, url: 'https://api.example.com', auth: {type: acme_hmac, config: {key_id: a, secret: "{{ get_secret('x') }}"}}}
`
)

// A user has a directory and a cache that nobody else has.
type user struct {
	*testing.T
	dir string
	env []string
}

func newUser(t *testing.T) *user {
	t.Helper()
	u := &user{T: t, dir: t.TempDir()}
	u.env = append(os.Environ(), "HOME="+u.dir, "XDG_CACHE_HOME="+u.dir+"/cache", "DOCKER_CONFIG="+u.dir+"/docker",
		"COSIGN_PASSWORD=correct horse", "KEYWRIGHT_SIGN_PASSWORD=correct horse")
	u.write("connectors.yaml", file)
	return u
}

func (u *user) write(name, text string) {
	u.Helper()
	if err := os.WriteFile(filepath.Join(u.dir, name), []byte(text), 0o600); err != nil {
		u.Fatal(err)
	}
}

// try runs a program in the user's directory, and returns what it writes and whether it succeeds.
func (u *user) try(program string, args ...string) (string, bool) {
	u.Helper()
	c := exec.CommandContext(u.Context(), program, args...)
	c.Dir, c.Env = u.dir, u.env
	out, err := c.CombinedOutput()
	return string(out), err == nil
}

func (u *user) run(program string, args ...string) string {
	u.Helper()
	out, ok := u.try(program, args...)
	if !ok {
		u.Fatalf("filepath.Base(program) = %s args = %v:\nout = %s", filepath.Base(program), args, out)
	}
	return out
}

func (u *user) refused(want, program string, args ...string) {
	u.Helper()
	if out, ok := u.try(program, args...); ok || !strings.Contains(out, want) {
		u.Errorf("%s %v:\n%s\nand not %s", filepath.Base(program), args, out, want)
	}
}

// bin is the directory of what the tests build.
var bin string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if bin, err = os.MkdirTemp("", "registries"); err != nil {
			log.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(bin) }()
		return m.Run()
	}())
}

// keywright builds keywright once, and returns its path.
var keywright = sync.OnceValues(func() (string, error) {
	program := filepath.Join(bin, "keywright")
	out, err := exec.Command("go", "build", "-C", "../..", "-o", program, "./cmd/keywright").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return program, nil
})

// cosign returns the path of cosign in the build cache of go, so that it is not linked anew each time.
var cosign = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "tool", "-n", "cosign").Output()
	if err != nil {
		return "", fmt.Errorf("go tool cosign: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
})

func program(t *testing.T, build func() (string, error)) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// registries starts a registry of each kind. Each returns its address, and a function that ends it.
var registries = map[string]func(t *testing.T) (address string, end func()){
	"go-containerregistry": func(t *testing.T) (string, func()) {
		t.Helper()
		server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)))
		t.Cleanup(server.Close)
		return strings.TrimPrefix(server.URL, "http://"), server.Close
	},
	"docker-registry": dockerRegistry,
}

var listening = regexp.MustCompile(`listening on (127\.0\.0\.1:\d+)`)

func dockerRegistry(t *testing.T) (string, func()) {
	t.Helper()
	program, err := exec.LookPath("docker-registry")
	if err != nil {
		t.Fatal("there is no docker-registry: apt-get install docker-registry")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yml")
	text := "version: 0.1\nstorage: {filesystem: {rootdirectory: " + dir + "/data}}\nhttp: {addr: '127.0.0.1:0'}\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	c := exec.CommandContext(ctx, program, "serve", config)
	output, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		cancel()
		_ = c.Wait()
	})
	t.Cleanup(end)
	var said bytes.Buffer
	for lines := bufio.NewScanner(io.TeeReader(output, &said)); lines.Scan(); {
		if match := listening.FindStringSubmatch(lines.Text()); match != nil {
			go func() { _, _ = io.Copy(io.Discard, output) }()
			return match[1], end
		}
	}
	t.Fatalf("docker-registry ended:\n%s", &said)
	return "", nil
}

// One user publishes a plugin, another one installs it from either registry, and serves it when the registry is gone.
func TestPublishAndInstall(t *testing.T) {
	keywright := program(t, keywright)
	wasm, err := filepath.Abs(plugin)
	if err != nil {
		t.Fatal(err)
	}
	for name, start := range registries {
		t.Run(name, func(t *testing.T) {
			address, end := start(t)
			ref := address + "/acme/hmac:1.0.0"
			publisher, operator := newUser(t), newUser(t)
			public, private, err := minisign.GenerateKey(rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := private.MarshalText()
			publisher.write("acme.key", string(text))
			operator.write("acme.pub", public.String())
			publisher.run(keywright, "plugin", "push", wasm, ref, "--sign", "acme.key")
			if out := operator.run(keywright, "plugin", "info", ref); !strings.Contains(out, public.String()) {
				t.Errorf("it shows no signer:\n%s", out)
			}
			operator.run(keywright, "plugin", "add", ref, "--key", "acme.pub")
			operator.run(keywright, "plugin", "verify", "--registry")
			operator.run(keywright, "plugin", "vendor")
			publisher.run(keywright, "plugin", "push", wasm, ref, "--source", "https://evil.example")
			operator.refused("the tag has moved", keywright, "plugin", "verify", "--registry")
			operator.refused("signature lost", keywright, "plugin", "update")
			end()
			if err := os.RemoveAll(filepath.Join(operator.dir, "cache")); err != nil {
				t.Fatal(err)
			}
			operator.run(keywright, "check")
			operator.run(keywright, "plugin", "verify")
			operator.refused(address, keywright, "plugin", "update")
		})
	}
}

var digest = regexp.MustCompile(`@(sha256:[0-9a-f]{64})`)

// cosign verifies what keywright has signed, and keywright what cosign has, in both of its formats (threats.md 161).
func TestCosign(t *testing.T) {
	keywright, cosign := program(t, keywright), program(t, cosign)
	wasm, err := filepath.Abs(plugin)
	if err != nil {
		t.Fatal(err)
	}
	for name, start := range registries {
		t.Run(name, func(t *testing.T) {
			address, _ := start(t)
			u, other := newUser(t), newUser(t)
			u.run(cosign, "generate-key-pair")
			other.run(cosign, "generate-key-pair")
			wrong := filepath.Join(other.dir, "cosign.pub")
			verify := func(key, ref string) []string {
				return []string{"verify", "--key", key, "--insecure-ignore-tlog=true", "--allow-http-registry", ref}
			}

			ours := address + "/acme/ours:1.0.0"
			u.run(keywright, "plugin", "push", wasm, ours, "--sign", "cosign.key")
			u.run(cosign, verify("cosign.pub", ours)...)
			if out, ok := u.try(cosign, verify(wrong, ours)...); ok {
				t.Errorf("another key verifies it:\n%s", out)
			}
			u.run(keywright, "plugin", "add", ours, "--key", "cosign.pub")

			for format, bundle := range map[string]string{"tag": "false", "bundle": "true"} {
				ref := address + "/acme/" + format + ":1.0.0"
				pushed := digest.FindStringSubmatch(u.run(keywright, "plugin", "push", wasm, ref, "--source", "https://git.example/"+format))
				u.run(cosign, "sign", "--key", "cosign.key", "--yes", "--tlog-upload=false", "--use-signing-config=false", "--new-bundle-format="+bundle,
					"--allow-http-registry", strings.Replace(ref, ":1.0.0", "@"+pushed[1], 1))
				v := newUser(t)
				v.refused("name the file of the public key with --key", keywright, "plugin", "add", ref)
				v.refused("no signature with the key of --key", keywright, "plugin", "add", ref, "--key", wrong)
				v.run(keywright, "plugin", "add", ref, "--key", filepath.Join(u.dir, "cosign.pub"))
				v.run(keywright, "plugin", "verify", "--registry")
			}
		})
	}
}
