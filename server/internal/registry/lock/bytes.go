package lock

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/server/internal/registry/artifact"
	"github.com/keywright/keywright/server/internal/registry/signature"
)

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
		content, err = readFile(name, limit)
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

func readFile(name string, limit int) ([]byte, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	return files.Read(name, limit)
}

// Store writes bytes into a directory, under their digest. A file that is there already is replaced.
func Store(dir string, content []byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return files.Replace(filepath.Join(dir, fileOf(artifact.Digest(content))), content, 0o644)
}

// Open returns the module of a plugin, and the files that were read. It believes nothing but digests and the signature: the manifest
// has to have the digest in the lock and the module, the signature has to be one of the manifest with the key in the lock, and the
// module has to have its digest.
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
		if err := p.Signer.verify(text); err != nil {
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

func (s *Signer) verify(manifest []byte) error {
	text, err := base64.StdEncoding.DecodeString(s.Signature)
	if err != nil {
		return errors.New("its signature is not in Base64")
	}
	payload, err := base64.StdEncoding.DecodeString(s.Payload)
	if err != nil {
		return errors.New("what its signature signs is not in Base64")
	}
	return signature.Signature{Kind: s.Kind, Signature: text, Payload: payload}.Verify(signature.Key{Kind: s.Kind, Text: s.Key}, manifest)
}

// SignerOf returns what a lock has of a signature that was verified with a key.
func SignerOf(s signature.Signature, key signature.Key) *Signer {
	return &Signer{
		Kind: key.Kind, Key: key.Text, Signature: base64.StdEncoding.EncodeToString(s.Signature), Payload: base64.StdEncoding.EncodeToString(s.Payload),
	}
}
