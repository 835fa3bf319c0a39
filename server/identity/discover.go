package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"

	"github.com/keywright/keywright/internal/urlcheck"
	"github.com/keywright/keywright/internal/wellknown"
)

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
