package registry

import (
	"errors"
	"net"
	"strings"

	oras "oras.land/oras-go/v2/registry"

	"github.com/keywright/keywright/server/internal/registry/artifact"
)

// A Reference names a plugin in a registry.
type Reference struct {
	// Registry is a host name, with a port if there is one.
	Registry string
	// Repository is a path of names.
	Repository string
	// Tag or Digest is set, and the other one is empty.
	Tag, Digest string
}

// maxReference limits a reference, in bytes.
const maxReference = 512

// ParseReference reads a reference such as registry.example/acme/hmac:1.2.0, or one with a digest. The registry and the tag have to
// be there: nothing is taken for granted.
func ParseReference(text string) (Reference, error) {
	const form = "is no reference: registry.example/acme/hmac:1.2.0 is wanted, or @sha256:… in place of the tag"
	name, _, hasDigest := strings.Cut(text, "@")
	parsed, err := oras.ParseReference(text)
	host, _, found := strings.Cut(text, "/")
	switch {
	case len(text) > maxReference || err != nil || !found || parsed.Reference == "":
		return Reference{}, errors.New(form)
	case strings.HasPrefix(host, ".") || !strings.ContainsAny(host, ".:") && host != "localhost":
		return Reference{}, errors.New("has no registry: write its host name first, as in registry.example/acme/hmac:1.2.0")
	case hasDigest && strings.Contains(name[strings.LastIndex(name, "/"):], ":"):
		return Reference{}, errors.New("has a tag and a digest: write one of them")
	}
	r := Reference{Registry: parsed.Registry, Repository: parsed.Repository}
	if hasDigest {
		if r.Digest = parsed.Reference; !artifact.IsDigest(r.Digest) {
			return Reference{}, errors.New("has a digest that is no SHA-256")
		}
		return r, nil
	}
	r.Tag = parsed.Reference
	return r, nil
}

// String returns the text of the reference.
func (r Reference) String() string {
	if r.Digest != "" {
		return r.Name() + "@" + r.Digest
	}
	return r.Name() + ":" + r.Tag
}

// Name returns the registry and the repository.
func (r Reference) Name() string { return r.Registry + "/" + r.Repository }

// local reports whether the registry is on this machine. Only there is plain http used.
func (r Reference) local() bool {
	host, _, err := net.SplitHostPort(r.Registry)
	if err != nil {
		host = r.Registry
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
