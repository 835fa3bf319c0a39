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
	"github.com/keywright/keywright/host/state"
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
	Path string `file:",path"`
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

// Equal reports whether two files describe the same store in the same words. Secrets count by their names. Both may be nil.
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
	h, err := s.host(ctx)
	if err != nil {
		return StateSettings{}, err
	}
	defer h.Close(context.Background()) // it has no calls
	if read.Type == StatePostgres {
		if read.URL, err = render(ctx, h, read.URL); err == nil {
			err = checkAddress(read.URL)
		}
		if err != nil {
			return StateSettings{}, fmt.Errorf("url: %w", err)
		}
	}
	read.Keys = nil
	for i, source := range s.settings.Keys {
		text, err := render(ctx, h, source)
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

// host returns a host without plugins for the templates of a state, because the host of the file needs the state.
func (s *State) host(ctx context.Context) (*host.Host, error) {
	c := s.config
	return host.New(ctx, host.Config{BuiltIns: []host.Plugin{}, Secrets: c.Secrets, Variables: c.Variables, Clock: c.Clock, Random: c.Random})
}

func render(ctx context.Context, h *host.Host, source string) (string, error) {
	t, err := h.Template(source)
	if err != nil {
		return "", err
	}
	text, err := t.Render(ctx)
	return strings.TrimSpace(text.Value), err
}

const stateKeySize = 32 // bytes

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

// The bounds of the member state.
const (
	maxStateKeys = 8
	// leastLease leaves a token request two seconds.
	leastLease = 3 * time.Second
	mostLease  = 10 * time.Minute
)

// stateFiles are the types of the member state. The members of each are fields of [StateSettings], too.
var stateFiles = []variant[any]{
	{StateSQLite, "A file of SQLite, for the processes of one machine.", func() any { return &sqliteFile{} }},
	{StatePostgres, "A database of PostgreSQL, for any number of nodes.", func() any { return &postgresFile{} }},
}

// stateKeys holds the members that all stores of state have.
type stateKeys struct {
	storeType
	// Keys are state keys, each a secret of 32 bytes in base64. The first seals what is written, all of them open what is
	// read. All nodes need the same.
	Keys []string `file:",required,secret"`
	// Lease says for what time one node alone may ask a token endpoint for a token, from 3s to 10m. A token request has two thirds of it.
	Lease time.Duration `default:"30s"`
}

type sqliteFile struct {
	stateKeys
	// Path is the path of the file, which may not be on a network file system. Two more files are made beside it.
	Path string `file:",required,path"`
}

type postgresFile struct {
	stateKeys
	// URL is the URL of the database: postgres://user:password@host:5432/database?sslmode=verify-full. With a password, all
	// of it must be a secret.
	URL string `file:",required,postgres"`
	// Connections is the maximum number of connections of a process, beside the one that waits for changes. At least 2.
	Connections int `default:"16"`
	// Pooler reports whether a pooler such as PgBouncer lends connections for a transaction.
	Pooler bool `default:"false"`
}

// state reads the member state. It returns nil if there is none, or if it is so wrong that nothing else can be said of it.
func (d *definer) state() *StateSettings {
	n := d.file.State
	if n == nil || !d.is(n, object, "state", "state") {
		return nil
	}
	if _, ok := decodeVariant(d, n, "state", "store", stateFiles); !ok {
		return nil
	}
	var s StateSettings
	d.members(n, "state", reflect.ValueOf(&s).Elem()) // what is wrong is reported already
	if s.Connections == 1 {
		d.report(n.get("connections").value.Place, "state.connections", "is 1, and has to be 2 at least")
	}
	switch m := n.get("keys"); {
	case m == nil: // already reported
	case m.value.kind == list && len(m.value.items) == 0:
		d.report(m.value.Place, "state.keys", "is empty: it needs a state key, which names a secret")
	case len(s.Keys) > maxStateKeys:
		d.report(m.value.Place, "state.keys", "has more than %d keys", maxStateKeys)
	}
	if s.Lease != 0 && (s.Lease < leastLease || s.Lease > mostLease) {
		d.report(n.get("lease").value.Place, "state.lease", "is not between %s and %s: a token request has two thirds of it", leastLease, mostLease)
	}
	return &s
}

// openState checks the member state and calls OpenState. If it does not, the host gets a State in memory, for the checks of connectors.
func (l *loader) openState(ctx context.Context, n *node) error {
	ok, err := l.openStore(ctx, n)
	if err != nil || ok {
		return err
	}
	c := &l.options.Host
	key := make([]byte, stateKeySize) // nobody else reads the memory
	c.State, err = host.NewState(ctx, host.StateConfig{Store: state.NewMemory(time.Now), Keys: [][]byte{key}, Clock: c.Clock})
	l.set.memory = c.State
	return err
}

func (l *loader) openStore(ctx context.Context, n *node) (ok bool, err error) {
	settings := l.state()
	if settings == nil {
		return false, nil
	}
	s := &State{settings: *settings, config: l.options.Host}
	if err := l.stateTexts(ctx, n, s); err != nil || len(l.all) > 0 {
		return false, err // a wrong file opens nothing
	}
	l.set.State = s
	if l.options.ReadSecrets {
		_, err = s.Read(ctx)
	}
	switch {
	case err != nil:
	case l.options.WithoutStore:
		return false, nil
	case l.options.OpenState == nil:
		err = errors.New("this program opens no store of state: it has to set Options.OpenState")
	default:
		err = l.options.OpenState(ctx, s, &l.options.Host)
	}
	if err != nil {
		l.stateError(n, err)
	}
	return err == nil, nil
}

// stateTexts reports templates that do not compile, keys that are no secrets, and a password in the file.
func (l *loader) stateTexts(ctx context.Context, n *node, s *State) error {
	h, err := s.host(ctx)
	if err != nil {
		return err
	}
	defer h.Close(context.Background()) // it has no calls
	check := func(path, source string, secret bool) {
		target, _, _ := n.locate(strings.TrimPrefix(path, "state."))
		t, err := h.Template(source)
		var wrong *host.ConfigError
		switch {
		case errors.As(err, &wrong):
			for _, p := range wrong.Problems {
				where := target.Place
				if p.Column > 0 {
					where, _ = l.source.character(target, p.Column)
				}
				l.report(where, path, "%s", p.Message)
			}
			return
		case t.Personal():
			l.report(target.Place, path, "names something of the user, and is the same for all users")
		case secret && len(t.Secrets()) == 0:
			l.report(target.Place, path, "names no secret: write \"{{ get_secret('state-key') }}\", and keep the key in a store of secrets")
		}
		l.set.StateSecrets = append(l.set.StateSecrets, t.Secrets()...)
		if secret {
			l.set.StateKeys = append(l.set.StateKeys, t.Secrets()...)
		}
		if text, ok := t.Literal(); ok && !secret {
			if err := checkAddress(text); err != nil {
				l.report(target.Place, path, "%v", err)
			} else if hasPassword(text) {
				l.report(target.Place, path, "has a password in it: keep the whole URL in a secret, and write \"{{ get_secret('state-url') }}\"")
			}
		}
	}
	if s.settings.Type == StatePostgres && s.settings.URL != "" {
		check("state.url", s.settings.URL, false)
	}
	for i, source := range s.settings.Keys {
		path := fmt.Sprintf("state.keys[%d]", i)
		if n.get("keys").value.kind == scalar {
			path = "state.keys"
		}
		check(path, source, true)
	}
	slices.Sort(l.set.StateSecrets)
	l.set.StateSecrets = slices.Compact(l.set.StateSecrets)
	return nil
}

// stateError reports an error of the state at the member that its text begins with, or else at the state itself.
func (l *loader) stateError(n *node, err error) {
	text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "state."), "state: ")
	if path, message, found := strings.Cut(text, ": "); found && (path == "url" || strings.HasPrefix(path, "keys[")) {
		l.report(n.place(path), "state."+path, "%s", message)
		return
	}
	l.report(n.Place, "state", "%s", text)
}
