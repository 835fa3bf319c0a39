// Package lock reads and writes keywright.lock, which stands beside a file of connectors. For each plugin that came from a
// registry, it has the digests of what was fetched, who signed it, and what it may do. The operator has accepted that. A
// process that serves reads the lock and the bytes beside it or in the user's cache, and asks no registry.
package lock

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofrs/flock"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/server/internal/registry/artifact"
	"github.com/keywright/keywright/server/internal/registry/signature"
)

// Name is the name of the lock, in the directory of the file of connectors.
const Name = "keywright.lock"

const (
	// format is the version of the lock's form, and of the words of capabilities.
	format     = 1
	maxBytes   = 1 << 20
	maxPlugins = 64
)

// A Lock has the plugins of a file of connectors that came from registries.
type Lock struct {
	Format int `json:"keywright_lock"`
	// Plugins are in the order of their names.
	Plugins []Plugin `json:"plugins"`
	// read is the text of the file when it was read or written, "" if there was none. It is nil for a lock that was not read.
	read *string
}

// ErrChanged is returned by [Lock.Write] if another process has written the lock since it was read.
var ErrChanged = errors.New(Name + " was changed meanwhile by somebody else, and nothing was written to it: run the command again")

// A Plugin holds the facts of one plugin that the operator has accepted.
type Plugin struct {
	// Name is its name in the file.
	Name string `json:"name"`
	// Ref is its reference, as in the file: registry/repository:tag, or registry/repository@digest.
	Ref string `json:"ref"`
	// Manifest and Module are digests, as sha256:hex. The signature is of the manifest, which has the digest of the module.
	Manifest string `json:"manifest"`
	Module   string `json:"module"`
	// Version and Contract are those of the module's description.
	Version  string `json:"version"`
	Contract int    `json:"contract"`
	// Signer is who signed the plugin, with the signature, so that it can be verified without the registry. It is nil for a plugin
	// that nobody signed.
	Signer *signature.Signature `json:"signer,omitempty"`
	// Source and Revision are the repository and the commit of the sources, as the publisher says.
	Source   string `json:"source,omitempty"`
	Revision string `json:"revision,omitempty"`
	// Fuel is the fuel of describe.
	Fuel int64 `json:"describe_fuel"`
	// Capabilities are those of [Of].
	Capabilities Capabilities `json:"capabilities"`
}

var nameSyntax = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// CheckName returns an error for a text that is no name of a plugin.
func CheckName(name string) error {
	if !nameSyntax.MatchString(name) {
		return errors.New("is no name of a plugin: it may have a to z, 0 to 9, _ and -, at most 64")
	}
	return nil
}

// Digest returns a digest of everything that the lock has of a plugin. An operator accepts a plugin by it, and so accepts
// what was shown, whatever the registry sends later.
func (p *Plugin) Digest() (string, error) {
	text, err := json.Marshal(p, json.Deterministic(true))
	return artifact.Digest(text), err
}

// Find returns the plugin with a name, or nil.
func (l *Lock) Find(name string) *Plugin {
	if i := slices.IndexFunc(l.Plugins, func(p Plugin) bool { return p.Name == name }); i >= 0 {
		return &l.Plugins[i]
	}
	return nil
}

// Put adds a plugin, in place of that with the same name.
func (l *Lock) Put(p Plugin) {
	l.Remove(p.Name)
	l.Plugins = append(l.Plugins, p)
	slices.SortFunc(l.Plugins, func(a, b Plugin) int { return strings.Compare(a.Name, b.Name) })
}

// Remove removes the plugin with a name.
func (l *Lock) Remove(name string) {
	l.Plugins = slices.DeleteFunc(l.Plugins, func(p Plugin) bool { return p.Name == name })
}

// Read reads the lock of a directory. If there is none, it returns an empty one.
func Read(dir string) (*Lock, error) {
	text, err := readText(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Name, err)
	}
	l := &Lock{Format: format}
	if text != "" {
		if l, err = parse([]byte(text)); err != nil {
			return nil, err
		}
	}
	l.read = &text
	return l, nil
}

// readText returns the text of the lock of a directory, or "" if there is none.
func readText(dir string) (string, error) {
	text, err := files.ReadRegular(filepath.Join(dir, Name), maxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return string(text), err
}

func parse(text []byte) (*Lock, error) {
	l := &Lock{}
	if len(text) > maxBytes {
		return nil, fmt.Errorf("%s is larger than %d KiB", Name, maxBytes>>10)
	}
	err := json.Unmarshal(text, l, json.RejectUnknownMembers(true)) // a member that this version does not know may be a right
	switch {
	case l.Format > format, err == nil && l.Format != format: // a newer form, the first member, may have other members as well
		return nil, fmt.Errorf("%s has form %d, and this version reads %d: run `keywright plugin update` with the version that is to serve", Name, l.Format, format)
	case err != nil:
		return nil, fmt.Errorf("%s cannot be read: %s: take it from version control; without it, `keywright plugin update` accepts whatever the registries have", Name, host.Printable(err.Error()))
	case len(l.Plugins) > maxPlugins:
		return nil, fmt.Errorf("%s has more than %d plugins", Name, maxPlugins)
	}
	names := map[string]bool{}
	for _, p := range l.Plugins {
		err := p.check()
		if err == nil && names[p.Name] {
			err = errors.New("is there twice")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: plugin %q: %w", Name, host.Printable(p.Name), err)
		}
		names[p.Name] = true
	}
	return l, nil
}

func (p *Plugin) check() error {
	if err := CheckName(p.Name); err != nil {
		return err
	}
	for name, digest := range map[string]string{"manifest": p.Manifest, "module": p.Module} {
		if !artifact.IsDigest(digest) {
			return fmt.Errorf("its %s is no digest: sha256: and 64 digits in lower case are wanted", name)
		}
	}
	return nil
}

// Write writes the lock of a directory. The same plugins result in the same bytes. It replaces the file as a whole, and leaves it
// as it is if [Read] would refuse the new one. If the file is not the one that was read, the error is [ErrChanged]. Of two
// processes, one writes at a time.
func (l *Lock) Write(dir string) error {
	l.Format = format
	var b bytes.Buffer
	if err := json.MarshalWrite(&b, l, json.Deterministic(true), json.FormatNilSliceAsNull(false), jsontext.WithIndent("  ")); err != nil {
		return fmt.Errorf("%s: %w", Name, err)
	}
	b.WriteByte('\n')
	if _, err := parse(b.Bytes()); err != nil {
		return fmt.Errorf("%s stays as it is: the new one could not be read: %w", Name, err)
	}
	lock := flock.New(dir, flock.SetFlag(os.O_RDONLY))
	// Where there are no such locks, as on Windows and on some file systems, two processes that write at the same moment are not noticed.
	if err := lock.Lock(); err != nil && runtime.GOOS != "windows" && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.ENOLCK) {
		return fmt.Errorf("%s: %w", Name, err)
	}
	defer func() { _ = lock.Close() }()
	if l.read != nil {
		switch now, err := readText(dir); {
		case err != nil:
			return fmt.Errorf("%s: %w", Name, err)
		case now != *l.read:
			return ErrChanged
		}
	}
	if err := files.Replace(filepath.Join(dir, Name), b.Bytes(), 0o644); err != nil {
		return err
	}
	l.read = new(b.String())
	return nil
}

// VendorDir is the name of the directory with what was fetched, in the directory of the file of connectors.
const VendorDir = "keywright-plugins"

// Places are the directories in which the bytes of plugins are looked for, in their order. Each file in them is named after its
// digest, and is believed only if it has that digest.
type Places []string

// PlacesOf returns the vendor directory beside a file of connectors in dir and the user's cache, which may be "".
func PlacesOf(dir, cache string) Places {
	places := Places{filepath.Join(dir, VendorDir)}
	if cache != "" {
		places = append(places, cache)
	}
	return places
}

// Hex returns the digits of a digest.
func Hex(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

// fileOf returns the name of the file with a digest, which is valid. It is no path: it has the digits and no separator.
func fileOf(digest string) string { return "sha256-" + Hex(digest) }

// ErrMissing is the error for bytes that are in none of the places.
var ErrMissing = errors.New("is not on this machine")

// Read returns the bytes with a digest, of at most limit bytes, and the file that has them. A file with other bytes is an error,
// and is not passed over: somebody has changed it.
func (places Places) Read(digest string, limit int) (content []byte, name string, err error) {
	if !artifact.IsDigest(digest) {
		return nil, "", errors.New("is no digest")
	}
	for _, dir := range places {
		name = filepath.Join(dir, fileOf(digest))
		info, err := os.Lstat(name)
		if err == nil && !info.Mode().IsRegular() { // to open a pipe would block until its other end is opened
			return nil, name, fmt.Errorf("%s is no regular file", name)
		}
		if err == nil {
			content, err = files.Read(name, limit)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, name, err
		case len(content) > limit:
			return nil, name, fmt.Errorf("the file %s is larger than %d bytes", name, limit)
		case artifact.Digest(content) != digest:
			return nil, name, fmt.Errorf("the file %s was changed: it has not the digest that it is named after; delete it and run `keywright plugin vendor`", name)
		}
		return content, name, nil
	}
	return nil, filepath.Join(places[0], fileOf(digest)), ErrMissing
}

// Store writes bytes into a directory, under their digest. A file that is there already is replaced.
func Store(dir string, content []byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return files.Replace(filepath.Join(dir, fileOf(artifact.Digest(content))), content, 0o644)
}

// Open returns the module of a plugin, and the files that were read. It believes digests and the signature: the
// manifest has the digest in the lock, is signed with the key in the lock, and has the digest of the module.
func (p *Plugin) Open(places Places, maxModule int) (module []byte, files []string, err error) {
	text, name, err := places.Read(p.Manifest, artifact.MaxManifest)
	files = append(files, name)
	if err != nil {
		return nil, files, fmt.Errorf("its manifest %s: %w", p.Manifest, err)
	}
	manifest, err := artifact.Parse(text, maxModule)
	switch {
	case err != nil:
		return nil, files, err
	case manifest.Module.Digest.String() != p.Module:
		return nil, files, fmt.Errorf("%s has another module than the manifest of %s: it was edited", Name, p.Ref)
	}
	if p.Signer != nil {
		if err := p.Signer.Verify(p.Signer.Key, text); err != nil {
			return nil, files, fmt.Errorf("%s: %w", Name, err)
		}
	}
	module, name, err = places.Read(p.Module, maxModule)
	files = append(files, name)
	if err != nil {
		return nil, files, fmt.Errorf("its module %s: %w", p.Module, err)
	}
	return module, files, nil
}
