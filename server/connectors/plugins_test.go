package connectors

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
)

const oneConnector = "connectors: [{name: a, url: 'https://api.example.com', auth: {type: none}}]\n"

// told reads a file in a directory, and returns its problems and the bytes that reading allocates.
func told(t *testing.T, dir, text string) (string, uint64) {
	t.Helper()
	cost, err := allocated(func() error {
		set, err := Read(t.Context(), filepath.Join(dir, "connectors.yaml"), []byte(text), Options{Host: host.Config{CodeCache: filepath.Join(dir, "code")}})
		if err == nil {
			err = set.Close(t.Context())
		}
		return err
	})
	var wrong *Error
	if err != nil && !errors.As(err, &wrong) {
		t.Fatal(err)
	}
	return fmt.Sprint(err), cost
}

// A file that several plugins name, under any names, is read and compiled once (threats.md 54).
func TestPluginNamedTwice(t *testing.T) {
	dir := t.TempDir()
	testworld.Check(t, errors.Join(os.WriteFile(filepath.Join(dir, "a.wasm"), []byte("nothing"), 0o600), os.Symlink("a.wasm", filepath.Join(dir, "b.wasm"))))
	said, _ := told(t, dir, oneConnector+"plugins: [{path: a.wasm}, {path: ./a.wasm}, {path: b.wasm}]")
	if n := strings.Count(said, "names a file that another plugin names"); n != 2 || strings.Count(said, "\n") != 2 {
		t.Errorf("it says %s", said)
	}
}

// The connectors of a plugin that is one too many are no further problems.
func TestAPluginTooMany(t *testing.T) {
	items := strings.Repeat("{path: a.wasm}, ", maxPlugins)
	said, _ := told(t, t.TempDir(), strings.Replace(oneConnector, "none", "acme_hmac", 1)+"plugins: ["+items+"{path: b.wasm}]")
	if !strings.Contains(said, "plugins: has more than 32 plugins") || strings.Contains(said, "auth type") {
		t.Errorf("it says %s", said)
	}
}

// A plugin that cannot be used is judged by the limits of the host.
func TestAPluginOverTheLimitsOfTheHost(t *testing.T) {
	const large = "\x00asm\x01\x00\x00\x00\x05\x03\x01\x00\x20" // a memory of 2 MiB
	dir := t.TempDir()
	testworld.Check(t, os.WriteFile(filepath.Join(dir, "a.wasm"), []byte(large), 0o600))
	for limit, want := range map[int]bool{1 << 20: true, 2 << 20: false} {
		options := Options{Host: host.Config{Limits: host.Limits{MemoryBytes: limit}}}
		_, err := Read(t.Context(), filepath.Join(dir, "connectors.yaml"), []byte(oneConnector+"plugins: [{path: a.wasm}]"), options)
		if err == nil || strings.Contains(err.Error(), "memory") != want {
			t.Errorf("with %d bytes: %v", limit, err)
		}
	}
}

// A plugin may have limits of its own in the file. One above the host's is a problem at its place (threats.md 182).
func TestLimitsOfAPluginInTheFile_threats_182(t *testing.T) {
	dir := t.TempDir()
	testworld.Check(t, os.WriteFile(filepath.Join(dir, "a.wasm"), plugins.Of("api_key"), 0o600))
	for limits, want := range map[string]string{
		"{fuel: 6000000}":          "connectors.yaml:2:41: plugins[0].limits.fuel: is 6000000, and the host's own limit is 5000000: give at most that, or leave it out",
		"{call_time: 1m}":          "plugins[0].limits.call_time: is 1m0s, and the host's own limit is 15s",
		"{memory_bytes: 17000000}": "plugins[0].limits.memory_bytes: is 17000000, and the host's own limit is 16777216",
		"{token_requests: 5}":      "plugins[0].limits.token_requests: is 5, and the host's own limit is 4",
		"{fuel: 10}":               "plugins[0].limits.fuel: the guest is over a limit: more than 10 units of fuel",
		"{memory: 1}":              "plugins[0].limits.memory: is not known here",
		"{fuel: -1}":               "plugins[0].limits.fuel: is not a number above 0",
		"[1]":                      "plugins[0].limits: is a list",
		"{fuel: 5000000, call_time: 15s, memory_bytes: 65536, token_requests: 4}": "<nil>",
	} {
		said, _ := told(t, dir, oneConnector+"plugins: [{path: a.wasm, limits: "+limits+"}]")
		if !strings.Contains(said, want) {
			t.Errorf("%s: it says %s, want %s", limits, said, want)
		}
	}
}

// The cost of plugins that cannot be used grows with their number, and not with its square (threats.md 54).
func TestUnusablePluginCost(t *testing.T) {
	dir := t.TempDir()
	file := func(n int) string {
		var b strings.Builder
		for i := range n {
			name := fmt.Sprintf("%d-%d.wasm", n, i)
			testworld.Check(t, os.WriteFile(filepath.Join(dir, name), []byte("nothing"), 0o600))
			b.WriteString("{path: " + name + "}, ")
		}
		return oneConnector + "plugins: [" + b.String() + "]"
	}
	told(t, dir, oneConnector) // compiles the built-in ones
	_, few := told(t, dir, file(2))
	said, many := told(t, dir, file(maxPlugins))
	if n := strings.Count(said, "no WebAssembly module"); n != maxPlugins {
		t.Errorf("%d are complained of: %s", n, said)
	}
	if many > maxPlugins/2*few {
		t.Errorf("%d plugins cost %d bytes, 2 cost %d", maxPlugins, many, few)
	}
}

// There is a limit for all plugins of a file together, and one for each (threats.md 54).
func TestLargePlugins(t *testing.T) {
	dir := t.TempDir()
	var list strings.Builder
	for i := range 6 {
		name := fmt.Sprintf("%d.wasm", i)
		testworld.Check(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		testworld.Check(t, os.Truncate(filepath.Join(dir, name), 7<<20))
		list.WriteString("{path: " + name + "}, ")
	}
	said, _ := told(t, dir, oneConnector+"plugins: ["+list.String()+"]")
	if n := strings.Count(said, "larger than 32 MiB, all together"); n != 2 {
		t.Errorf("it says so of %d: %s", n, said)
	}
}

// The number of stores is limited, because each may hold a file of certificates (threats.md 54).
func TestStoresWithoutNumber(t *testing.T) {
	file := func(n int) string { return oneConnector + "secrets: [" + strings.Repeat("{type: env}, ", n) + "]" }
	if said, _ := told(t, t.TempDir(), file(maxStores)); said != "<nil>" {
		t.Error(said)
	}
	if said, _ := told(t, t.TempDir(), file(1000)); strings.Count(said, "has more than 32 stores") != 1 {
		t.Error(said)
	}
}

// withAlias returns a module whose field value has the alias secret. It is api_key with another description of the same length.
func withAlias(t *testing.T) []byte {
	t.Helper()
	wasm := plugins.Of("api_key")
	for old, changed := range map[string]string{
		`"type":"api_key","aliases":["apikey"]`: `"type":"old_key","aliases":["oldkey"]`,
		`"doc":"The credential."`:               `"aliases":["secret"]   `,
	} {
		if len(old) != len(changed) || bytes.Count(wasm, []byte(old)) != 1 {
			t.Fatalf("the description of api_key does not have %s once", old)
		}
		wasm = bytes.Replace(wasm, []byte(old), []byte(changed), 1)
	}
	return wasm
}

// A file may have the former name of a field. The log has a warning with the name of now; problems have the places of the
// file.
func TestFormerNameOfAFieldInAFile(t *testing.T) {
	dir := t.TempDir()
	testworld.Check(t, os.WriteFile(filepath.Join(dir, "a.wasm"), withAlias(t), 0o600))
	for config, want := range map[string]string{
		"{key: X, in: header, value: a}":                          "",
		"{key: X, in: header, secret: a}":                         "",
		"{key: X, in: header, secret: a, value: a}":               "connectors.yaml:2:115: connectors.a.auth.config.secret: is a former name of value, and value is there too: remove it",
		"{key: X, in: header, secret: 1}":                         "connectors.yaml:2:115: connectors.a.auth.config.secret: is a number, text is wanted: put it in quotes",
		"{key: X, in: header, secret: '{{ get_secret(1) }}'}":     "connectors.yaml:2:130: connectors.a.auth.config.secret: ",
		"{key: X, in: header, secret: '{{ get_secret(''s'') }}'}": "connectors.a.auth.config.secret: ", // there is no such secret
	} {
		var log bytes.Buffer
		text := "plugins: [{path: a.wasm}]\nconnectors: [{name: a, url: 'https://api.example.com', auth: {type: old_key, config: " + config + "}}]"
		set, err := Read(t.Context(), filepath.Join(dir, "connectors.yaml"), []byte(text), Options{
			Host: host.Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Secrets: host.MapSecrets{}}, ReadSecrets: true,
		})
		if err == nil {
			err = set.Close(t.Context())
		}
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)), want != "" && strings.Contains(err.Error(), "is missing"):
			t.Errorf("%s: %v, want %q", config, err, want)
		}
		if warned := strings.Contains(log.String(), `auth.config.secret: is a deprecated name, use \"value\"`); warned != (strings.Contains(config, "secret:") && (want == "" || strings.Contains(config, "''s''"))) {
			t.Errorf("%s: the log is %s", config, log.String())
		}
	}
}
