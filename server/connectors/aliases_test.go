package connectors

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
)

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
		"{key: X, in: header, secret: 1}":                         "connectors.yaml:2:115: connectors.a.auth.config.secret: is a number, text is wanted",
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
