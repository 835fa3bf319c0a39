package identity

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"

	"github.com/keywright/keywright/host"
)

// maxDocument limits a JWK Set, in bytes.
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
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("the file of keys cannot be read: %w", err)
		}
		defer file.Close()
		return readBounded(file)
	}
}

// readURL returns a function that fetches the keys. A redirect is an error, because the operator decides where keys come
// from.
func readURL(address string, transport http.RoundTripper) func(context.Context) ([]byte, error) {
	server := "the server of the keys"
	if u, err := url.Parse(address); err == nil {
		server += " (" + host.Printable(u.Host) + ")" // not the whole URL: its query may have a secret
	}
	return func(ctx context.Context) ([]byte, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return nil, errors.New("the URL of the keys is not valid")
		}
		r.Header.Set("Accept", "application/jwk-set+json, application/json")
		r.Header.Set("Accept-Encoding", "identity") // so that maxDocument limits the bytes on the wire
		r.Header.Set("User-Agent", "keywright")
		response, err := transport.RoundTrip(r)
		switch {
		case ctx.Err() != nil:
			return nil, errors.New(server + " did not answer in time")
		case err != nil: // its text may quote the server
			return nil, errors.New(server + ": " + host.Printable(err.Error()))
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s answers with status %d, 200 is wanted", server, response.StatusCode)
		}
		document, err := readBounded(response.Body)
		if ctx.Err() != nil {
			return nil, errors.New(server + " did not answer in time")
		}
		return document, err
	}
}

func readBounded(r io.Reader) ([]byte, error) {
	document, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err != nil {
		return nil, errors.New("the keys cannot be read to their end")
	}
	if len(document) > maxDocument {
		return nil, fmt.Errorf("the document of keys has more than %d bytes", maxDocument)
	}
	return document, nil
}
