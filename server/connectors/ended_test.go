package connectors_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
)

// ending is a source of randomness, a log and a store of secrets that ends a context when it is used.
type ending struct{ end context.CancelFunc }

func (e ending) Read(p []byte) (int, error) { e.end(); return rand.Read(p) }

func (e ending) Write(p []byte) (int, error) { e.end(); return len(p), nil }

func (e ending) Secret(context.Context, string) (string, error) {
	e.end()
	return "", context.Canceled
}

// A program that is ended while it reads a file reports no problem of the file or of a plugin.
func TestInterruptedLoad(t *testing.T) {
	for name, options := range map[string]func(ending) connectors.Options{
		"before plugins are loaded": func(e ending) connectors.Options { return connectors.Options{Host: host.Config{Random: e}} },
		"while connectors are connected": func(e ending) connectors.Options {
			return connectors.Options{Host: host.Config{Logger: slog.New(slog.NewTextHandler(e, nil))}}
		},
		"while secrets are tried": func(e ending) connectors.Options {
			return connectors.Options{Host: host.Config{Secrets: e}, ReadSecrets: true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			defer end()
			text := strings.Replace(weather, "api_key", "apikey", 1) // an alias, for which the log has a warning
			other := strings.Replace(strings.TrimPrefix(text, "connectors:\n"), "Weather", "Other", 1)
			set, err := connectors.Read(ctx, "connectors.yaml", []byte(text+other), options(ending{end}))
			var wrong *connectors.Error
			if ctx.Err() == nil || set != nil || !errors.Is(err, context.Canceled) || errors.As(err, &wrong) || strings.Contains(err.Error(), "built-in") {
				t.Errorf("the error is a %T: %v", err, err)
			}
		})
	}
}
