// Package connectors reads connectors.yaml, in YAML or JSON: the connectors of a deployment, their plugins, the stores of
// their secrets, and the settings of the gateway. It refuses unknown members, so that a misspelt limit is not ignored. It
// reports all problems of a file at once, each with line and column.
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
//		Consent: set.Settings.Consent,
//	})
//
// docs/gateway.md describes the members of a file.
package connectors

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/registry/lock"
	"github.com/keywright/keywright/server/internal/secretstore"
)

// Options configures [Load] and [Read].
type Options struct {
	// Host configures the host. The plugins of the file are added to its Plugins. If its BuiltIns are nil, these are all that
	// the connectors of the file use. If its Egress allows plain http, the URLs of connectors may be plain http.
	Host host.Config
	// First, if not nil, is asked for a secret before the stores of the file. If the file has no stores, First is not used, and
	// all secrets come from Host.Secrets.
	First host.Secrets
	// Environment must be true if some secrets come from environment variables. Two secrets with the same variable (see
	// [host.EnvSecrets]) are then a problem. If the file has stores, they replace this setting.
	Environment bool
	// ReadSecrets reads the secrets, and asks the store of keys about its keys. A secret that is missing or empty, a key that
	// does not fit its algorithm, and a client certificate that cannot be used, are then problems.
	ReadSecrets bool
	// Inspect looks for what is probably a mistake, for the Warnings of the result: credentials in the file, placeholders that were not
	// filled in, and what the host warns of in its connectors, which Host.Logger does not get then. It reads the certificate of the
	// gateway and the files of keys and authorities, too. Those that cannot be used are problems then.
	Inspect bool
	// Conceal finds the credentials that stand in the file, for the method Conceal of the result.
	Conceal bool
	// User is the user whose secrets are read, if it has an ID, and those of the tenant, if it has a TenantID.
	User host.User
	// OpenState is called with the member state of the file, if there is one and the file is not wrong so far. It sets c.State.
	// The caller closes what it opens after the Set. Package statestore opens stores.
	OpenState func(ctx context.Context, s *State, c *host.Config) error
	// PluginCache is a directory with plugins from registries, or "", asked after keywright-plugins beside the file. Nothing is fetched.
	PluginCache string
	// WithoutStore leaves the store of the file closed, for programs that send nothing. A State in memory takes its place.
	WithoutStore bool
}

// Unread reports whether ReadSecrets leaves out a secret of [host.Connector.Secrets]: one of a tenant or a user that User does not name.
func (o *Options) Unread(name string) bool {
	return o.User.TenantID == "" && strings.HasPrefix(name, "tenants/") || o.User.ID == "" && strings.HasPrefix(name, "users/")
}

// A Set holds the connectors of a file, ready for use, and their host.
type Set struct {
	// Host has the plugins of the file. Close closes it.
	Host *host.Host
	// Connectors are in the order of the file. Those of its directory follow, in the order of the names of files.
	Connectors []*gateway.Connector
	// Sources has the path of the file in which a connector is, by permalink, of those in the directory.
	Sources map[string]string
	// Settings are the settings of the gateway.
	Settings Settings
	// ClientCertificates has the client certificates of the connectors, by permalink, if [Options].ReadSecrets is set.
	ClientCertificates map[string]*host.ClientCertificate
	// Warnings lists probable mistakes, if [Options].Inspect is set: up to 100 by their places, and then one with the number of the others.
	Warnings []Problem
	// State is the member state of the file, or nil. Options.OpenState has opened it.
	State *State
	// StateSecrets holds the names of the secrets in State, sorted, and StateKeys those of them that are state keys.
	StateSecrets, StateKeys []string
	// Owned has the secrets and variables that tenants have given, if the file has a store of secrets of type state. Otherwise it is nil.
	Owned *host.State
	// SHA256 is the digest of the file, in hex, or if it has a directory of connectors, that of the file and the files in there.
	SHA256 string
	// Egress is the member egress of the file, with that of the options.
	Egress host.Egress
	// Limits are those of the options, with the member limits.
	Limits host.Limits
	// Files holds the paths of the files that the file names and that were read with it, absolute or relative to the working
	// directory: plugins, keywright.lock, the authorities of egress, and the logo and languages of consent.
	Files []string

	// Documents are those of the issuer of identities, for gateway.Setup. They are nil without one.
	Documents map[string]func(context.Context) ([]byte, error)

	// concealer replaces the credentials that stand in the file.
	concealer *strings.Replacer
	// memory is the State of a Set without a store.
	memory *host.State
	// secrets are the stores of secrets, or nil.
	secrets host.Secrets
	// stores and identities are the members secrets and identities as they are in the file.
	stores, identities any
	// storeHosts are the hosts of stores behind an API.
	storeHosts []*host.Host
}

// Load reads the file name. If the file has problems, Load returns an [*Error] that lists all of them, up to 100. If ctx ends,
// it returns the error of ctx. The caller must close the Set.
func Load(ctx context.Context, name string, o Options) (*Set, error) {
	text, err := readFile(ctx, name)
	if err != nil {
		return nil, err
	}
	return Read(ctx, name, text, o)
}

// readFile returns the text of a file, up to one byte more than a file may have.
func readFile(ctx context.Context, name string) ([]byte, error) {
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
	defer context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Unix(1, 0)) })() // the file may be a pipe without a writer
	text, err := files.ReadAll(file, maxFile)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, &Error{File: name, Problems: []Problem{{Message: "it cannot be read: " + cause(err)}}}
	}
	return text, nil
}

// cause returns the text of an error of the file system without its path, which the message has already.
func cause(err error) string {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err
	}
	return err.Error()
}

// Read is like [Load] for the text of a file. Its name appears in problems, and paths in the file are relative to its directory.
func Read(ctx context.Context, name string, text []byte, o Options) (*Set, error) {
	l := newLoader(name, text, o)
	if err := l.failure(ctx, name, l.load(ctx)); err != nil {
		return nil, err
	}
	l.set.Warnings, l.set.concealer = l.warnings.sorted(l.parts, moreWarnings), concealer(l.literals)
	return l.set, nil
}

// failure returns err, or the problems of the file name, or nil. If it returns an error, it closes the set.
func (l *loader) failure(ctx context.Context, name string, err error) error {
	switch {
	case ctx.Err() != nil: // the cause of any other error
		err = ctx.Err()
	case err == nil && len(l.all) > 0:
		err = &Error{
			File: name, Problems: l.sorted(l.parts, moreProblems), Warnings: l.warnings.sorted(l.parts, moreWarnings), Files: l.set.Files,
		}
	}
	if err != nil {
		_ = l.set.Close(context.WithoutCancel(ctx)) // does not block: there are no calls
	}
	return err
}

// Find returns the connector with a permalink or name. It returns an error if there is none, or if several have the name.
func (s *Set) Find(name string) (*gateway.Connector, error) {
	var matches []*gateway.Connector
	var permalinks []string
	for _, c := range s.Connectors {
		d := c.Definition()
		if d.Permalink == name {
			return c, nil
		}
		if d.Name == name {
			matches = append(matches, c)
		}
		permalinks = append(permalinks, d.Permalink)
	}
	label, more := host.Printable(name), ""
	suggestion, similar := problem.Nearest(name, permalinks)
	const limit = 20
	switch {
	case len(matches) == 1:
		return matches[0], nil
	case len(matches) > 1:
		return nil, fmt.Errorf("%d connectors have the name %q: use a permalink", len(matches), label)
	case len(permalinks) == 0:
		return nil, errors.New("the file has no connectors")
	case similar:
		return nil, fmt.Errorf("there is no connector %q; did you mean %q?", label, suggestion)
	case len(permalinks) > limit:
		permalinks, more = permalinks[:limit], fmt.Sprintf(" and %d more", len(permalinks)-limit)
	}
	return nil, fmt.Errorf("there is no connector %q; there are %s%s", label, strings.Join(permalinks, ", "), more)
}

// CheckSecret reads a secret, and drops its value. name is one of [host.Connector.Secrets], and u is the user whose secret it is, or
// the tenant's. It returns an error if there is no such secret, it is blank, or the store cannot answer.
func (s *Set) CheckSecret(ctx context.Context, name string, u host.User) error {
	_, err := s.secret(ctx, name, u)
	return err
}

// secret is like CheckSecret, and returns the value.
func (s *Set) secret(ctx context.Context, name string, u host.User) (value string, err error) {
	secretName, err := host.SecretName(name, u)
	if err != nil {
		return "", err
	}
	if s.secrets == nil {
		return "", host.ErrSecretNotFound
	}
	value, err = s.secrets.Secret(ctx, secretName)
	if err == nil && strings.TrimSpace(value) == "" {
		err = errors.New("it is empty")
	}
	return value, err
}

// SameStores reports whether two files describe the same stores of secrets in the same words.
func (s *Set) SameStores(t *Set) bool { return reflect.DeepEqual(s.stores, t.stores) }

// SameIdentities reports whether two files describe the same identities in the same words.
func (s *Set) SameIdentities(t *Set) bool { return reflect.DeepEqual(s.identities, t.identities) }

// Close closes the host.
func (s *Set) Close(ctx context.Context) (err error) {
	if s.Host != nil {
		err = s.Host.Close(ctx)
	}
	for _, h := range s.storeHosts {
		err = errors.Join(err, h.Close(ctx))
	}
	if s.memory != nil {
		err = errors.Join(err, s.memory.Close(ctx))
	}
	return err
}

// A definer reads the definitions from a document.
type definer struct {
	problems
	// options are those of the caller, with what the file says in place of them.
	options Options
	set     *Set
	// dir is the directory of the file.
	dir  string
	file wholeFile
	// source is the text of the file, with that of parts, which are the files of connectors_dir.
	source source
	parts  []part
	// trusted has the TLS of each file of authorities.
	trusted map[string]*tls.Config
	// suggestions holds the likely names of the misspelt members of each object.
	suggestions map[*node][]string
	// keys is the store of keys of the file, or nil.
	keys host.Keys
	// owned and ownedVariables have what tenants have given to the store of state. They are nil if the file asks no such store.
	owned, ownedVariables *secretstore.Owned
	// startIssuer adds the issuer of identities to those of connectors, once there are stores. It is nil without one.
	startIssuer func()
	// above has the secrets of the stores above the one that is being opened.
	above host.Secrets
	// placeholders has the texts of that store, by its members in braces.
	placeholders map[string]string
}

// A loader holds the state of one Load.
type loader struct {
	definer
	// locked is keywright.lock, once a plugin needs it. lockError is the error of reading it.
	locked    *lock.Lock
	lockError error
	// modules are the files of plugins that were read.
	modules []os.FileInfo
	// pluginsMissing is true if a plugin of the file could not be loaded, so that its auth types are missing.
	pluginsMissing bool
	warnings       problems
	// literals has the credentials that stand in the file.
	literals []string
	// current is the connector that is being checked, of which the host may warn.
	current *definition

	// variables has the name of a secret for each environment variable.
	variables map[string]string
	// expressions counts the bytes of texts with expressions in the connectors read so far.
	expressions int
	// patterns is shared by all connectors.
	patterns gateway.Patterns
}

func newLoader(name string, text []byte, o Options) *loader {
	if o.Host.Clock == nil {
		o.Host.Clock = time.Now
	}
	return &loader{definer: definer{
		options: o, set: &Set{ClientCertificates: map[string]*host.ClientCertificate{}, Sources: map[string]string{}},
		dir: filepath.Dir(name), source: source{text: strings.TrimPrefix(string(text), "\ufeff")},
		trusted: map[string]*tls.Config{}, suggestions: map[*node][]string{},
	}}
}

// load loads the file. It returns an error only for failures that are not problems of the file.
func (l *loader) load(ctx context.Context) error {
	root := parse(ctx, l.source.text, &l.problems)
	if root == nil {
		return nil
	}
	definitions, plugins := l.document(ctx, root)
	l.options.Host.Egress = l.set.Egress
	if m := root.get("limits"); m != nil && len(l.all) == 0 {
		l.members(m.value, "limits", reflect.ValueOf(&l.options.Host.Limits).Elem()) // as limitsFile
	}
	l.set.Limits = l.options.Host.Limits
	l.set.SHA256 = fmt.Sprintf("%x", sha256.Sum256([]byte(l.source.text)))
	l.set.Settings = l.settings(root)
	read, notices := l.set.Settings.Consent.Read()
	l.set.Files = append(l.set.Files, read...)
	for _, notice := range notices {
		l.warn(root.get("gateway").value.place("consent.languages"), "gateway.consent.languages", "%s", notice)
	}
	l.checkFiles(ctx, root)
	l.set.stores = (&node{kind: list, items: l.file.Secrets}).decoded()
	l.set.identities = (&node{kind: list, items: l.file.Identities}).decoded()
	l.openIdentities()
	l.openStores(ctx)
	if l.startIssuer != nil {
		l.startIssuer()
	}
	if l.file.State != nil {
		if err := l.openState(ctx, l.file.State); err != nil {
			return err
		}
	}
	if s := l.options.Host.State; l.owned != nil && s != nil {
		l.owned.Bind(s.Secrets())
		l.ownedVariables.Bind(s.Variables())
		l.set.Owned = s
	}
	l.set.secrets = l.options.Host.Secrets
	if l.options.Host.BuiltIns == nil { // the host would take longer to load all of them
		var types []string
		for _, c := range definitions {
			for _, a := range c.auths {
				types = append(types, a.Type)
			}
		}
		l.options.Host.BuiltIns = BuiltIns(types...)
	}
	if l.options.Inspect {
		l.inspectRoot(root)
		l.options.Host.Warn = l.hostWarning
	}
	l.pluginsMissing = len(l.file.Plugins) > maxPlugins
	if err := l.host(ctx, plugins); err != nil {
		return err
	}
	return l.connectAll(ctx, definitions)
}

func (l *loader) connectAll(ctx context.Context, definitions []*definition) error {
	l.variables = map[string]string{}
	for _, name := range l.set.StateSecrets {
		l.variables[expr.EnvName(name)] = name
	}
	for _, c := range definitions {
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.member.kind == object {
			l.current = c
			for i := range c.auths {
				c.auths[i].info, _ = l.set.Host.Plugin(c.auths[i].Type)
			}
			l.inspectConnector(c)
			l.connect(ctx, c)
		}
	}
	for _, c := range definitions { // keys that sign JWS and, in a connector anywhere in the file, something else
		if c.connected == nil {
			continue
		}
		if wrong, ok := errors.AsType[*host.ConfigError](c.connected.Upstream().CheckSharedKeys()); ok {
			for _, p := range wrong.Problems {
				l.reportProblem(c, p)
			}
		}
	}
	return nil
}
