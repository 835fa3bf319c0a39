package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"github.com/go-json-experiment/json"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/internal/urlcheck"
	"github.com/keywright/keywright/internal/wellknown"
	"github.com/keywright/keywright/server/internal/codings"
)

// maxDocument limits a JWK Set, and the metadata of an issuer, in bytes.
const maxDocument = 256 << 10

// readFile returns a function that reads the keys from a file. It reads the whole file each time: this costs little, and
// finds every change, including one of a symbolic link on the way.
func readFile(name string) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) {
		info, err := os.Stat(name)
		if err != nil {
			return nil, fmt.Errorf("the file of keys cannot be read: %w", err)
		}
		if !info.Mode().IsRegular() {
			return nil, errors.New("the file of keys is not a regular file") // to open a pipe would block until its other end is opened
		}
		document, err := files.Read(name, maxDocument)
		if err != nil {
			return nil, fmt.Errorf("the file of keys cannot be read: %w", err)
		}
		return bounded(answers.TrimBOM(document), nil)
	}
}

// fetcher fetches documents. A redirect is an error, because the operator decides where keys come from.
type fetcher struct{ transport http.RoundTripper }

// keys fetches the keys at a URL.
func (f fetcher) keys(ctx context.Context, address string) ([]byte, error) {
	const what = "the server of the keys"
	document, status, err := f.get(ctx, what, address, "application/jwk-set+json, application/json")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s answers with status %d, 200 is wanted", server(what, address), status)
	}
	return document, err
}

// get fetches a document. It reads no body unless the status is 200. The errors call the server what.
func (f fetcher) get(ctx context.Context, what, address, accept string) (document []byte, status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, 0, errors.New("the URL of " + what + " is not valid")
	}
	what = server(what, address)
	r.Header.Set("Accept", accept)
	r.Header.Set("Accept-Encoding", "identity") // so that maxDocument limits the bytes on the wire
	r.Header.Set("User-Agent", "keywright")
	response, err := answers.Final(f.transport.RoundTrip(r))
	switch {
	case ctx.Err() != nil:
		return nil, 0, errors.New(what + " did not answer in time")
	case err != nil: // its text may quote the server
		return nil, 0, errors.New(what + ": " + host.Printable(err.Error()))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, response.StatusCode, nil
	}
	document, err = answers.Read(response, codings.Further(), maxDocument)
	document, err = bounded(document, err)
	if ctx.Err() != nil {
		err = errors.New(what + " did not answer in time")
	}
	return document, response.StatusCode, err
}

// server returns what with the host of a URL, not all of the URL: its query may have a secret.
func server(what, address string) string {
	if u, err := url.Parse(address); err == nil {
		what += " (" + host.Printable(u.Host) + ")"
	}
	return what
}

// bounded returns the error for a document that could not be read, or is too long.
func bounded(document []byte, err error) ([]byte, error) {
	if err != nil {
		return nil, errors.New("the keys cannot be read to their end")
	}
	if len(document) > maxDocument {
		return nil, fmt.Errorf("the document of keys has more than %d bytes", maxDocument)
	}
	return document, nil
}

// plainKeys is the end of the error for keys at a URL with plain http.
const plainKeys = "on which anybody on the way can put keys of their own: use https, or allow it, by plain_http of egress in a file of connectors, or by --dev"

// readIssuer returns a function that fetches the keys of an issuer. It reads the metadata of the issuer each time, so that keys
// that have moved count like keys that have changed.
func readIssuer(issuer string, transport http.RoundTripper, plain func(*url.URL) bool) func(context.Context) ([]byte, error) {
	f := fetcher{transport}
	rule := urlcheck.Rule{HTTP: plain, PlainHTTP: plainKeys}
	return func(ctx context.Context) ([]byte, error) {
		address, err := f.discover(ctx, issuer)
		if err != nil {
			return nil, err
		}
		if _, err := rule.Parse(address); err != nil {
			return nil, fmt.Errorf("jwks_uri in the metadata of the issuer %w", err)
		}
		return f.keys(ctx, address)
	}
}

// discover returns the URL of an issuer's keys from its metadata: that of OpenID Connect, and if there is none that of RFC 8414.
// The metadata comes from the issuer's own origin, and has to name the very issuer (RFC 8414 section 3.3), because who answers for
// an issuer decides whose sessions count (threats.md 187).
func (f fetcher) discover(ctx context.Context, issuer string) (string, error) {
	const what = "the server of the issuer's metadata"
	second, first := wellknown.Locations(issuer)
	document, status, err := f.get(ctx, what, first, "application/json")
	if err == nil && wellknown.Absent(status) {
		document, status, err = f.get(ctx, what, second, "application/json")
	}
	switch {
	case err != nil:
		return "", err
	case wellknown.Absent(status):
		return "", fmt.Errorf("the issuer has no metadata: neither %s nor %s is there: compare the issuer with the claim iss of a token, or set jwks_url", first, second)
	case status != http.StatusOK:
		return "", fmt.Errorf("%s answers with status %d, 200 is wanted", server(what, first), status)
	}
	var members map[string]any // this json package refuses duplicates
	if json.Unmarshal(document, &members) != nil {
		return "", errors.New("the metadata of the issuer is not a JSON object as it should be")
	}
	if problem := wellknown.Mismatch(members["issuer"], issuer); problem != "" {
		return "", errors.New("the metadata of the issuer " + problem)
	}
	address, ok := members["jwks_uri"].(string)
	if !ok {
		return "", errors.New("the metadata of the issuer has no jwks_uri: set jwks_url")
	}
	return address, nil
}
