package connectors

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
)

// State is the member state of a file: the store that keeps tokens and grants beyond the end of the process, and for all
// processes with the same store. Package statestore opens it.
type State struct {
	settings StateSettings
	// config has the secrets and variables that the texts of settings name.
	config host.Config
}

// StateSettings is the member state of a file.
type StateSettings struct {
	// Type is sqlite or postgres.
	Type string
	// Path is the file of SQLite.
	Path string
	// URL is that of PostgreSQL. It may have a password.
	URL string
	// Keys are the state keys: templates in the file, and the keys themselves after [State.Read].
	Keys []string
	// Lease, Connections and Pooler are zero if the file does not have them.
	Lease       time.Duration
	Connections int
	Pooler      bool
}

// The types of stores of state.
const (
	StateSQLite   = "sqlite"
	StatePostgres = "postgres"
)

// Equal reports whether two files describe the same store in the same words. It compares the names of secrets, not their
// values. Both may be nil.
func (s *State) Equal(t *State) bool {
	if s == nil || t == nil {
		return s == t
	}
	return reflect.DeepEqual(s.settings, t.settings)
}

// Type returns the type of the store.
func (s *State) Type() string { return s.settings.Type }

// Read reads the secrets that the member names, and returns it with their values. Its errors begin with the path of a member,
// and hold neither a key nor a URL.
func (s *State) Read(ctx context.Context) (StateSettings, error) {
	read := s.settings
	render, err := s.renderer(ctx)
	if err != nil {
		return StateSettings{}, err
	}
	defer render.close()
	if read.Type == StatePostgres {
		if read.URL, err = render.text(ctx, read.URL); err == nil {
			err = checkAddress(read.URL)
		}
		if err != nil {
			return StateSettings{}, fmt.Errorf("url: %w", err)
		}
	}
	read.Keys = nil
	for i, source := range s.settings.Keys {
		text, err := render.text(ctx, source)
		var key []byte
		if err == nil {
			key, err = stateKey(text)
		}
		if err != nil {
			return StateSettings{}, fmt.Errorf("keys[%d]: %w", i, err)
		}
		read.Keys = append(read.Keys, string(key))
	}
	return read, nil
}

// A renderer renders the templates of a state. It has a host without plugins, because the host of the file needs the state.
type renderer struct{ host *host.Host }

func (s *State) renderer(ctx context.Context) (renderer, error) {
	h, err := host.New(ctx, host.Config{
		BuiltIns: []host.Plugin{}, Secrets: s.config.Secrets, Variables: s.config.Variables, Clock: s.config.Clock, Random: s.config.Random,
	})
	return renderer{h}, err
}

func (r renderer) close() { _ = r.host.Close(context.Background()) } // it has no calls

func (r renderer) text(ctx context.Context, source string) (string, error) {
	t, err := r.host.Template(source)
	if err != nil {
		return "", err
	}
	text, err := t.Render(ctx)
	return strings.TrimSpace(text.Value), err
}

// stateKeySize is the size of a state key in bytes.
const stateKeySize = 32

// stateKey parses a state key: base64, with or without padding, of either alphabet. Its errors do not quote the text.
func stateKey(text string) ([]byte, error) {
	const advice = "make one with `openssl rand -base64 32`"
	plain := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	key, err := base64.RawStdEncoding.DecodeString(plain)
	switch {
	case plain == "":
		return nil, errors.New("the state key is empty: " + advice)
	case err != nil:
		return nil, errors.New("the state key is not base64: " + advice)
	case len(key) != stateKeySize:
		return nil, fmt.Errorf("the state key has %d bytes in place of %d: %s", len(key), stateKeySize, advice)
	case len(slices.Compact(slices.Clone(key))) == 1:
		return nil, errors.New("the state key repeats one byte: " + advice)
	}
	return key, nil
}

// checkAddress checks that a URL is one of PostgreSQL. Its error does not quote the URL.
func checkAddress(address string) error {
	if !strings.HasPrefix(address, "postgres://") && !strings.HasPrefix(address, "postgresql://") {
		return errors.New("is not a URL of PostgreSQL: it has to be like postgres://user:password@host:5432/database?sslmode=verify-full")
	}
	return nil
}

// hasPassword reports whether a URL of a database may have a password.
func hasPassword(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return true // some part of it may be one
	}
	_, there := u.User.Password()
	return there || u.Query().Has("password")
}
