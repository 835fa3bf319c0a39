// Package registry gets plugins from OCI registries, and puts them there. Everything that a registry sends is bounded in size and
// in time, and is believed by its digest only.
package registry

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	oras "oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/internal/urlcheck"
	"github.com/keywright/keywright/server/internal/registry/artifact"
	"github.com/keywright/keywright/server/internal/registry/signature"
)

// Options configures a [Client].
type Options struct {
	// ModuleBytes limits a module.
	ModuleBytes int
	// Timeout limits each method of the client. If it is 0, it is two minutes.
	Timeout time.Duration
}

// A Client asks registries. It is safe for concurrent use.
type Client struct {
	options Options
	http    *auth.Client
}

// New returns a client. Its credentials are those of docker's files and helpers, of the registry that is asked and no other. They go
// to that registry, or to the server of tokens that its answer names as realm, as in docker
// (https://distribution.github.io/distribution/spec/auth/token/).
func New(o Options) (*Client, error) {
	o.Timeout = cmp.Or(o.Timeout, 2*time.Minute)
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		DisableCompression:  true, // the digests are of the bytes as they are sent
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 30 * time.Second, MaxResponseHeaderBytes: 64 << 10,
	}
	c := &Client{options: o, http: &auth.Client{
		Client: &http.Client{Transport: bounded{transport, int64(o.ModuleBytes) + 1<<20}, CheckRedirect: checkRedirect},
		Cache:  auth.NewCache(),
	}}
	c.http.SetUserAgent("keywright")
	store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{})
	if err != nil {
		return nil, errors.New("the credentials of docker cannot be read: mend config.json in the directory of DOCKER_CONFIG, or in .docker of the home directory")
	}
	c.http.Credential = credentials.Credential(store)
	return c, nil
}

const maxRedirects = 5 // limits how often a registry may send the client elsewhere

// checkRedirect refuses what leads from https to anything else. The client of oras drops the credential where the origin changes.
func checkRedirect(r *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return errors.New("the registry redirects without end")
	case r.URL.Scheme != "https" && r.URL.Scheme != via[0].URL.Scheme:
		return fmt.Errorf("the registry redirects to %s, and %s was asked for", r.URL.Scheme, via[0].URL.Scheme)
	case r.URL.User != nil:
		return errors.New("the registry redirects to a URL with a password")
	}
	return nil
}

// bounded is a transport whose answers end with an [http.MaxBytesError] after a number of bytes.
type bounded struct {
	http.RoundTripper
	limit int64
}

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := answers.Final(b.RoundTripper.RoundTrip(r))
	if err == nil {
		answer.Body = http.MaxBytesReader(nil, answer.Body, b.limit)
	}
	return answer, err
}

// ask calls do with the repository of a reference, within the time limit of the client. If what is not empty, its error is one of that.
func ask[T any](ctx context.Context, c *Client, ref Reference, what string, do func(context.Context, *remote.Repository) (T, error)) (v T, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	r, err := remote.NewRepository(ref.Name())
	if err != nil {
		return v, err
	}
	r.Client, r.PlainHTTP = c.http, urlcheck.Loopback(ref.Registry) // only on this machine is plain http used
	r.MaxMetadataBytes = artifact.MaxManifest + 1                   // oras cuts a longer manifest without an error
	r.ReferrerListMaxPages, r.TagListPageSize, r.TagListMaxPages = 4, 400, 16
	if v, err = do(ctx, r); err == nil {
		return v, nil
	}
	if what != "" {
		err = fmt.Errorf("its %s: %w", what, err)
	}
	return v, c.failed(ctx, ref, err)
}

// A Plugin is a plugin in a registry, of which only the manifest was read.
type Plugin struct {
	artifact.Plugin
	// Text is the manifest as the registry sent it, and Digest the digest of that.
	Text   []byte
	Digest string
}

// Resolve gets the manifest of a plugin.
func (c *Client) Resolve(ctx context.Context, ref Reference) (*Plugin, error) {
	text, err := ask(ctx, c, ref, "", func(ctx context.Context, r *remote.Repository) ([]byte, error) {
		return manifest(ctx, r, ref.Reference)
	})
	if err != nil {
		return nil, err
	}
	p := &Plugin{Text: text, Digest: artifact.Digest(text)}
	if artifact.IsDigest(ref.Reference) && p.Digest != ref.Reference {
		return nil, fmt.Errorf("%s: the registry sent a manifest with the digest %s", ref, p.Digest)
	}
	parsed, err := artifact.Parse(text, c.options.ModuleBytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ref, err)
	}
	p.Plugin = *parsed
	return p, nil
}

// Find parses a reference and gets the manifest there, with its signatures, none of which is verified.
func (c *Client) Find(ctx context.Context, reference string) (ref Reference, found *Plugin, all []signature.Signature, err error) {
	if ref, err = ParseReference(reference); err != nil {
		return ref, nil, nil, fmt.Errorf("%q %w", host.Printable(reference), err)
	}
	if found, err = c.Resolve(ctx, ref); err == nil {
		all, err = c.Signatures(ctx, ref, found)
	}
	return ref, found, all, err
}

// Tags gets the tags of a repository, in the order of the registry.
func (c *Client) Tags(ctx context.Context, ref Reference) ([]string, error) {
	return ask(ctx, c, ref, "tags", func(ctx context.Context, r *remote.Repository) ([]string, error) { return oras.Tags(ctx, r) })
}

func manifest(ctx context.Context, r *remote.Repository, name string) ([]byte, error) {
	_, body, err := r.Manifests().FetchReference(ctx, name)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := files.ReadAll(body, artifact.MaxManifest)
	if err == nil && len(text) > artifact.MaxManifest {
		err = fmt.Errorf("its manifest is larger than %d KiB", artifact.MaxManifest>>10)
	}
	return text, err
}

// Module gets the module of a plugin.
func (c *Client) Module(ctx context.Context, ref Reference, p *Plugin) ([]byte, error) {
	return c.blob(ctx, ref, "module", p.Module)
}

// Description gets the description of a plugin, as its publisher wrote it. It returns nil if there is none.
func (c *Client) Description(ctx context.Context, ref Reference, p *Plugin) ([]byte, error) {
	if p.Description == nil {
		return nil, nil
	}
	return c.blob(ctx, ref, "description", *p.Description)
}

func (c *Client) blob(ctx context.Context, ref Reference, what string, d ocispec.Descriptor) ([]byte, error) {
	return ask(ctx, c, ref, what, func(ctx context.Context, r *remote.Repository) ([]byte, error) { return fetch(ctx, r, d) })
}

// fetch gets a blob, of the size and with the digest of its descriptor.
func fetch(ctx context.Context, r *remote.Repository, d ocispec.Descriptor) ([]byte, error) {
	text, err := content.FetchAll(ctx, r.Blobs(), d)
	switch {
	case errors.Is(err, content.ErrMismatchedDigest):
		return nil, errors.New("the registry sent bytes with another digest than the manifest names")
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, content.ErrTrailingData):
		return nil, fmt.Errorf("the registry did not send the %d bytes that the manifest names", d.Size)
	}
	return text, err
}

// Push puts a plugin into a registry, under the tag of ref, and returns the digest of its manifest.
func (c *Client) Push(ctx context.Context, ref Reference, a artifact.Made) (string, error) {
	if artifact.IsDigest(ref.Reference) {
		return "", errors.New("a plugin is pushed under a tag, and this reference has a digest")
	}
	blobs := map[string][]byte{artifact.TypeConfig: a.Config, artifact.TypeModule: a.Module, artifact.TypeDescription: a.Description}
	return ask(ctx, c, ref, "", func(ctx context.Context, r *remote.Repository) (string, error) {
		return artifact.Digest(a.Manifest), push(ctx, r, ref.Reference, blobs, a.Manifest)
	})
}

// push puts blobs, by their media type, and then a manifest under a tag.
func push(ctx context.Context, r *remote.Repository, tag string, blobs map[string][]byte, manifest []byte) error {
	for mediaType, content := range blobs {
		d := artifact.Describe(mediaType, content)
		there, err := r.Blobs().Exists(ctx, d)
		if err == nil && !there {
			err = r.Blobs().Push(ctx, d, bytes.NewReader(content))
		}
		if err != nil {
			return err
		}
	}
	return r.PushReference(ctx, artifact.Describe(artifact.TypeManifest, manifest), bytes.NewReader(manifest), tag)
}

// failed returns the error for a registry that did not do what it was asked. It has the status of the registry's answer, and nothing
// of the body. Words of its headers are printable.
func (c *Client) failed(ctx context.Context, ref Reference, err error) error {
	var answer *errcode.ErrorResponse
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return fmt.Errorf("%s: the registry sends more than is allowed", ref)
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case errors.Is(err, errdef.ErrNotFound):
		return fmt.Errorf("%s: the registry does not have it", ref)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: the registry took longer than %s", ref, c.options.Timeout)
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return fmt.Errorf("%s: the registry wants a credential: run `docker login %s`, or what writes docker's config.json", ref, ref.Registry)
	case errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden):
		return fmt.Errorf("%s: the registry refuses the credential of docker's config.json (status %d)", ref, answer.StatusCode)
	case errors.As(err, &answer):
		return fmt.Errorf("%s: the registry answers with status %d", ref, answer.StatusCode)
	}
	return fmt.Errorf("%s: %s", ref, host.Printable(err.Error()))
}

// A Reference names a plugin in a registry. Registry is a host name, with a port if there is one, Repository a path of names, and
// Reference a tag or a digest.
type Reference oras.Reference

// ParseReference reads a reference such as registry.example/acme/hmac:1.2.0, or one with a digest. The registry and the tag have to
// be there: nothing is taken for granted.
func ParseReference(text string) (Reference, error) {
	const maxReference = 512 // limits a reference, in bytes
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
	case hasDigest && !artifact.IsDigest(parsed.Reference):
		return Reference{}, errors.New("has a digest that is no SHA-256")
	}
	return Reference(parsed), nil
}

// String returns the text of the reference.
func (r Reference) String() string { return oras.Reference(r).String() }

// Name returns the registry and the repository.
func (r Reference) Name() string { return r.Registry + "/" + r.Repository }
