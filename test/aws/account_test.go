// Package aws compares the plugins that sign requests for AWS with implementations of others.
package aws

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/keywright/keywright/host"
)

// Account is a host with one of the plugins. Requests to the API and to STS go nowhere; they are recorded.
type Account struct {
	host *host.Host

	mu      sync.Mutex
	now     time.Time
	secrets host.MapSecrets
	// Exchanged is the last request to STS, and Answer is the answer to it.
	Exchanged *http.Request
	Body      []byte
	Answer    string
}

// New returns a world with the plugin in a directory of plugins.
func New(ctx context.Context, plugin string) (*Account, error) {
	wasm, err := os.ReadFile(filepath.Join("../../plugins", plugin, plugin+".wasm"))
	if err != nil {
		return nil, err
	}
	w := &Account{secrets: host.MapSecrets{}}
	w.host, err = host.New(ctx, host.Config{
		Secrets:  w,
		BuiltIns: []host.Plugin{},
		Plugins:  []host.Plugin{{Name: plugin, Wasm: wasm}},
		Base:     roundTripper(w.exchange),
		Clock:    w.time,
	})
	return w, err
}

// Secret implements [host.Secrets].
func (w *Account) Secret(ctx context.Context, name string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.secrets.Secret(ctx, name)
}

// SetSecret sets a secret.
func (w *Account) SetSecret(name, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secrets[name] = value
}

// SetTime sets the host's time.
func (w *Account) SetTime(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = now
}

func (w *Account) time() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// Sign returns a request as the API gets it.
func (w *Account) Sign(r *http.Request, authType string, config map[string]any) (*http.Request, error) {
	connector, err := w.host.NewConnector(r.Context(), host.ConnectorConfig{
		Name: fmt.Sprint(config), Origins: []string{r.URL.Scheme + "://" + r.URL.Host}, Auth: host.Auth{Type: authType, Config: config},
	})
	if err != nil {
		return nil, err
	}
	return connector.Authenticate(r)
}

// Close closes the host.
func (w *Account) Close() error { return w.host.Close(context.Background()) }

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements [http.RoundTripper].
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// exchange answers for STS.
func (w *Account) exchange(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Exchanged, w.Body = r, body
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(w.Answer)), Request: r}, nil
}
