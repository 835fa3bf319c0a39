// Package install gets plugins from registries for an operator: it verifies them, runs them in the sandbox to find out what they may
// do, and compares that with what was accepted before.
package install

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/server/internal/registry"
	"github.com/keywright/keywright/server/internal/registry/artifact"
	"github.com/keywright/keywright/server/internal/registry/lock"
	"github.com/keywright/keywright/server/internal/registry/signature"
)

// Options configures [Get].
type Options struct {
	Client *registry.Client
	// Key, if it is not nil, has to be the key of a signature.
	Key *signature.Key
}

// A Result is a plugin that was verified and described, and that nobody has accepted yet.
type Result struct {
	Plugin           lock.Plugin
	Manifest, Module []byte
	// Changes are the differences to what was accepted before, if there was something.
	Changes []lock.Change
}

// Get gets a plugin and compares it with previous, which may be nil. It stores nothing. It returns an error if
// there is something that no operator can accept: wrong bytes, a wrong signature, or a publisher that says what the module does not.
func Get(ctx context.Context, o Options, name, reference string, previous *lock.Plugin) (*Result, error) {
	if err := lock.CheckName(name); err != nil {
		return nil, fmt.Errorf("%q %w", host.Printable(name), err)
	}
	ref, found, signatures, err := o.Client.Find(ctx, reference)
	if err != nil {
		return nil, err
	}
	signer, err := o.signer(signatures, found.Text, previous)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ref, err)
	}
	module, err := o.Client.Module(ctx, ref, found)
	if err != nil {
		return nil, err
	}
	info, err := host.Inspect(ctx, host.Plugin{Name: name, Wasm: module, SHA256: lock.Hex(found.Module.Digest.String())}, host.Limits{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ref, err)
	}
	described, err := o.Client.Description(ctx, ref, found)
	if err == nil {
		err = honest(info, described, found.Annotations)
	}
	if err == nil {
		err = lock.CheckTag(ref.Reference, info.Version)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ref, err)
	}
	p := lock.Describe(info)
	p.Name, p.Ref, p.Manifest, p.Signer = name, ref.String(), found.Digest, signer
	p.Source, p.Revision = annotation(found, ocispec.AnnotationSource), annotation(found, ocispec.AnnotationRevision)
	r := &Result{Plugin: p, Manifest: found.Text, Module: module}
	if previous != nil {
		r.Changes = lock.Compare(*previous, p)
	}
	return r, nil
}

func annotation(p *registry.Plugin, name string) string { return host.Printable(p.Annotations[name]) }

// signer returns who signed a manifest. A key of the operator has to be the one. Otherwise the key that was accepted before comes
// first, and then one that came with its signature.
func (o *Options) signer(all []signature.Signature, manifest []byte, previous *lock.Plugin) (*signature.Signature, error) {
	if o.Key != nil {
		if s := signature.By(all, *o.Key, manifest); s != nil {
			return s, nil
		}
		return nil, errors.New("it has no signature with the key of --key")
	}
	if previous != nil && previous.Signer != nil {
		if s := signature.By(all, previous.Signer.Key, manifest); s != nil {
			return s, nil
		}
	}
	for _, s := range all {
		if s.Text != "" && s.Verify(s.Key, manifest) == nil {
			return &s, nil
		}
	}
	switch {
	case len(all) == 0 || previous != nil && previous.Signer != nil:
		return nil, nil //nolint:nilnil // nobody signed it, or nobody who is known
	case slices.ContainsFunc(all, func(s signature.Signature) bool { return s.Text == "" }):
		return nil, errors.New("it is signed, and the key did not come with the signature: name the file of the public key with --key")
	}
	return nil, errors.New("its signature is not one of this manifest: somebody has changed the one or the other")
}

// honest returns an error if a publisher says something else than the module, or if a type is that of a built-in one.
func honest(info host.PluginInfo, described []byte, annotations map[string]string) error {
	for _, name := range append([]string{info.Type}, info.Aliases...) {
		if plugins.Of(name) != nil {
			return fmt.Errorf("its auth type or alias %q is that of a built-in one", name)
		}
	}
	if version := annotations[ocispec.AnnotationVersion]; version != "" && version != info.Version {
		return fmt.Errorf("its publisher says that it is version %q, and its module says %q", host.Printable(version), host.Printable(info.Version))
	}
	if described == nil {
		return nil
	}
	d, err := DecodeDescription(described)
	if err != nil {
		return err
	}
	published := info
	published.Description = *d
	changes := lock.Describe(published).Compare(lock.Describe(info))
	if len(changes) == 0 {
		return nil
	}
	c := changes[0]
	return fmt.Errorf("its publisher says that its %s is %q, and its module says %q", host.Printable(c.What), host.Printable(strings.Join(c.Before, ", ")), host.Printable(strings.Join(c.Now, ", ")))
}

// EncodeDescription returns the layer of a description.
func EncodeDescription(d abi.Description) ([]byte, error) {
	return json.Marshal(d, json.Deterministic(true))
}

// DecodeDescription reads the layer of a description, which says what its publisher likes. It refuses more fields than a module may
// have, so that nobody has to read them.
func DecodeDescription(text []byte) (*abi.Description, error) {
	d := &abi.Description{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, errors.New("the description of its publisher is no JSON of a description")
	}
	if len(d.Fields) > contract.MaxFields {
		return nil, fmt.Errorf("the description of its publisher has %d fields, and %d are allowed", len(d.Fields), contract.MaxFields)
	}
	return d, nil
}

// TakenBy returns the name of another plugin in a lock that has the auth type or an alias of p, or "".
func TakenBy(l *lock.Lock, p *lock.Plugin) string {
	names := slices.Concat(p.Capabilities["type"], p.Capabilities["aliases"])
	for _, entry := range l.Plugins {
		for _, name := range slices.Concat(entry.Capabilities["type"], entry.Capabilities["aliases"]) {
			if entry.Name != p.Name && slices.Contains(names, name) {
				return entry.Name
			}
		}
	}
	return ""
}

// NameOf returns a name for a new plugin: the last part of its repository.
func NameOf(reference string) (string, error) {
	ref, err := registry.ParseReference(reference)
	if err != nil {
		return "", fmt.Errorf("%q %w", host.Printable(reference), err)
	}
	name := strings.ReplaceAll(path.Base(ref.Repository), ".", "-")
	if lock.CheckName(name) != nil {
		return "", fmt.Errorf("of %q no name can be made: give one with --name", ref.Repository)
	}
	return name, nil
}

// Restore stores the manifest and the module of a plugin in a directory, from the places that have them or else from the registry, by
// the digests in the lock. It reports whether the registry was asked.
func Restore(ctx context.Context, client *registry.Client, p *lock.Plugin, dir string, places lock.Places, maxModule int) (fromRegistry bool, err error) {
	if _, _, err := p.Open(lock.Places{dir}, maxModule); err == nil {
		return false, nil
	}
	manifest, _, err := places.Read(p.Manifest, artifact.MaxManifest)
	module, _, errModule := places.Read(p.Module, maxModule)
	if err != nil || errModule != nil {
		ref, err := registry.ParseReference(p.Ref)
		if err != nil {
			return false, fmt.Errorf("%s: the reference %q %w", lock.Name, p.Ref, err)
		}
		ref.Reference = p.Manifest
		found, err := client.Resolve(ctx, ref)
		if err != nil {
			return true, err
		}
		if module, err = client.Module(ctx, ref, found); err != nil {
			return true, err
		}
		manifest, fromRegistry = found.Text, true
	}
	if err := errors.Join(lock.Store(dir, manifest), lock.Store(dir, module)); err != nil {
		return fromRegistry, err
	}
	_, _, err = p.Open(lock.Places{dir}, maxModule)
	return fromRegistry, err
}
