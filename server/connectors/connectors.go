// Package connectors reads connectors.yaml, in YAML or JSON: the connectors of a deployment, the plugins that they need, where
// secrets are, and how the gateway serves. It refuses what it does not know, so that a misspelt limit is no missing one.
// Everything that is wrong with a file is found in one go, each with line and column.
//
//	set, err := connectors.Load(ctx, "connectors.yaml", connectors.Options{
//		Host: host.Config{Secrets: host.EnvSecrets(), Observe: gateway.Observe}, Environment: true,
//	})
//	defer set.Close(ctx)
//	users, err := identity.New(ctx, set.Settings.User, identity.Options{Transport: set.Host.Base()})
//	defer users.Close()
//	g := gateway.New(gateway.Config{})
//	g.Use(gateway.Setup{
//		Connectors: set.Connectors, Hosts: set.Settings.Hosts, Origins: set.Settings.Origins, Users: users,
//	})
//
// docs/gateway.md says what a file may have.
package connectors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
)

// Options say what a file is loaded with.
type Options struct {
	// Host configures the host. The plugins of the file come after its own. When its Egress allows plain http, a
	// connector's url may have it.
	Host host.Config
	// First is asked for a secret before the stores that the file names. When it names none, Host has all of them.
	First host.Secrets
	// Environment is set when secrets come from environment variables, even if only some do. Then two names of secrets
	// that are one variable (see [host.EnvName]) are a problem. A file that names stores says so itself.
	Environment bool
	// ReadSecrets is set when the secrets are to be tried: one that is missing or empty, and a key that does not fit its
	// algorithm, are problems then.
	ReadSecrets bool
}

// Set holds the connectors of a file, ready for use, and their host.
type Set struct {
	// Host is made with the plugins of the file. Close closes it.
	Host *host.Host
	// Connectors are in the order of the file.
	Connectors []*gateway.Connector
	// Settings say how the gateway serves.
	Settings Settings
	// PluginFiles are absolute, or relative to the working directory.
	PluginFiles []string
}

// Settings say how the gateway serves. [gateway.Setup] says more of Hosts and Origins.
type Settings struct {
	// Hosts are the names that callers may use.
	Hosts []string
	// Origins are those of the pages that may call from a browser.
	Origins []string
	// User says how the user of a request is found. Paths of files are absolute, or relative to the working directory.
	User identity.Config
	// TLS is for the listener for callers.
	TLS TLS
	// Traces is a URL that takes OTLP over HTTP. "" is none.
	Traces string
	// AccessLog reports whether each request of a caller is to be in the log, also those that went well.
	AccessLog bool
}

// TLS names the files of a certificate with its chain, and of its key, PEM each. The zero value is plain HTTP. The paths are
// absolute, or relative to the working directory.
type TLS struct {
	Cert, Key string `file:",required,path"`
}

// HasUsers reports whether requests have to have a session, or a proxy that says whose they are.
func (s Settings) HasUsers() bool { return s.User.Mode != "" && s.User.Mode != "none" }

// Load reads a file. When anything is wrong with it, the error is an [Error] that lists all of it, and nothing is loaded.
// When the context ends, the error is the context's. The caller closes the set.
func Load(ctx context.Context, name string, o Options) (*Set, error) {
	file, err := os.Open(name)
	if err != nil {
		message := "it cannot be opened"
		switch {
		case errors.Is(err, fs.ErrNotExist):
			message = "there is no such file: name the one to be read with -c"
		case errors.Is(err, fs.ErrPermission):
			message = "there is no permission to read it"
		}
		return nil, &Error{File: name, Problems: []Problem{{Message: message}}}
	}
	defer file.Close()
	defer context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Unix(1, 0)) })() // it may be a pipe that nobody writes to
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, &Error{File: name, Problems: []Problem{{Message: "it cannot be read: " + cause(err)}}}
	}
	return Read(ctx, name, text, o)
}

// cause is an error of the file system without the path, which the message has already.
func cause(err error) string {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		err = pathError.Err
	}
	return err.Error()
}

// Read is [Load] for a text. The name is for problems, and its directory is where paths of plugins begin.
func Read(ctx context.Context, name string, text []byte, o Options) (*Set, error) {
	l := &loader{options: o, dir: filepath.Dir(name), set: &Set{}}
	content := strings.TrimPrefix(string(text), "\ufeff")
	l.source.text = content
	err := l.load(ctx, content)
	if ctx.Err() != nil { // whatever failed, failed of that
		err = ctx.Err()
	}
	if (err != nil || len(l.Problems) > 0) && l.set.Host != nil {
		_ = l.set.Host.Close(context.WithoutCancel(ctx)) // which has no calls
	}
	switch {
	case err != nil:
		return nil, err
	case len(l.Problems) > 0:
		return nil, &Error{File: name, Problems: l.sorted(), PluginFiles: l.set.PluginFiles}
	}
	return l.set, nil
}

// Find returns the connector of a permalink or a name.
func (s *Set) Find(wanted string) (*gateway.Connector, error) {
	var named []*gateway.Connector
	permalinks := make([]string, 0, len(s.Connectors))
	for _, c := range s.Connectors {
		permalinks = append(permalinks, c.Permalink)
		if c.Permalink == wanted {
			return c, nil
		}
		if c.Name == wanted {
			named = append(named, c)
		}
	}
	switch len(named) {
	case 1:
		return named[0], nil
	case 0:
		if len(permalinks) == 0 {
			return nil, errors.New("the file has no connectors")
		}
		if meant, ok := problem.Nearest(wanted, permalinks); ok {
			return nil, fmt.Errorf("there is no connector %q; did you mean %q?", host.Printable(wanted), meant)
		}
		const most = 20
		more := ""
		if len(permalinks) > most {
			permalinks, more = permalinks[:most], fmt.Sprintf(" and %d more", len(permalinks)-most)
		}
		return nil, fmt.Errorf("there is no connector %q; there are %s%s", host.Printable(wanted), strings.Join(permalinks, ", "), more)
	}
	return nil, fmt.Errorf("%d connectors have the name %q: use a permalink", len(named), host.Printable(wanted))
}

// Close closes the host.
func (s *Set) Close(ctx context.Context) error { return s.Host.Close(ctx) }

// loader does what Load does, step by step, with what it knows on the way.
type loader struct {
	problems
	options Options
	dir     string
	source  source
	set     *Set
	types   []string // that there are, with aliases
	lacking bool     // a plugin of the file could not be loaded, so types are missing

	expressions int              // bytes of texts with expressions, of the connectors so far
	patterns    gateway.Patterns // of all connectors
}

// load returns an error only for what is not the file's fault.
func (l *loader) load(ctx context.Context, text string) error {
	root := parse(ctx, text, &l.problems)
	if root == nil {
		return nil
	}
	d := &definer{problems: &l.problems, allowHTTP: l.options.Host.Egress.AllowHTTP, dir: l.dir, meant: map[*node][]string{}}
	definitions, files := d.document(root)
	l.set.Settings = d.settings(root)
	if stores := d.stores(); len(stores) > 0 {
		l.stores(stores)
		l.options.Environment = d.environment
	}
	if err := l.host(ctx, files); err != nil {
		return err
	}
	return l.connectAll(ctx, definitions)
}

// connectAll connects the connectors of the file, and ends with the context.
func (l *loader) connectAll(ctx context.Context, definitions []*definition) error {
	known := map[string]host.PluginInfo{}
	for _, info := range l.set.Host.Plugins() {
		for _, name := range append([]string{info.Type}, info.Aliases...) {
			known[name] = info
			l.types = append(l.types, name)
		}
	}
	taken := map[string]string{} // names of secrets by environment variable
	for _, c := range definitions {
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.member.kind == object {
			l.connect(ctx, c, known[c.gateway.Auth.Type], taken)
		}
	}
	return nil
}

// stores has the host take secrets from what the file says.
func (l *loader) stores(all []host.Secrets) {
	if l.options.First != nil {
		all = append([]host.Secrets{l.options.First}, all...)
	}
	l.options.Host.Secrets = host.FirstOf(all...)
}
