package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/files"
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
