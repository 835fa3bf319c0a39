package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/internal/jws"
	"github.com/keywright/keywright/internal/urlcheck"
	"github.com/keywright/keywright/internal/wellknown"
	"github.com/keywright/keywright/server/internal/codings"
)

// Asymmetric returns the supported asymmetric algorithms, such as RS256: the default of [JWT].Algorithms.
func Asymmetric() []string { return slices.DeleteFunc(jws.Algorithms(), jws.Symmetric) }

// Algorithms returns all algorithms that [JWT].Algorithms may list.
func Algorithms() []string { return jws.Algorithms() }

// keySet holds the keys that verify tokens. It is immutable.
type keySet struct {
	keys []key
	// ignored holds the reason for each key of the document that is not used.
	ignored []string
}

type key struct {
	id string
	// algorithm is the alg of the JWK, or "". If it is set, the key is used with no other algorithm.
	algorithm string
	// public is an *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey, or the []byte of an HMAC key.
	public any
	// first is the time at which the key was first read. It is not that of its making, which a JWK does not have.
	first time.Time
}

// age sets the times at which keys were first read: that of prev, which may be nil, for the keys that it has, and now for others.
func (s *keySet) age(prev *keySet, now time.Time) {
	for i := range s.keys {
		k := &s.keys[i]
		k.first = now
		if prev == nil {
			continue
		}
		for _, old := range prev.keys {
			if old.id == k.id && old.algorithm == k.algorithm && reflect.DeepEqual(old.public, k.public) {
				k.first = old.first
			}
		}
	}
}

// fits reports whether a key has the type and size that an algorithm requires (RFC 7518 section 3, RFC 8037 section 3.1).
// Without this check, a public key could be used as the secret of an HMAC.
func (k *key) fits(algorithm string) bool {
	if k.algorithm != "" && k.algorithm != algorithm {
		return false
	}
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		return algorithm[:2] == "RS" || algorithm[:2] == "PS"
	case *ecdsa.PublicKey:
		curve := map[string]string{"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}[algorithm]
		return curve == public.Params().Name
	case ed25519.PublicKey:
		return algorithm == "EdDSA"
	case []byte:
		size := map[string]int{"HS256": 32, "HS384": 48, "HS512": 64}[algorithm]
		return size > 0 && len(public) >= size
	}
	return false
}

// find returns the key for a token with this algorithm and key ID, or nil if there is none or more than one. The ID may be
// empty if only one key fits: to try several keys would let a sender choose how expensive a request is.
func (s *keySet) find(algorithm, id string) *key {
	var found *key
	for i := range s.keys {
		k := &s.keys[i]
		if (id != "" && k.id != id) || !k.fits(algorithm) {
			continue
		}
		if found != nil {
			return nil
		}
		found = k
	}
	return found
}

// admits configures which keys that are not public a document may have. Only a file may have such keys.
type admits struct {
	// private permits the private half of asymmetric keys. It is not used.
	private   bool
	symmetric bool
}

// parseKeys parses a JWK Set. It leaves out keys that cannot be used (RFC 7517 section 5), with the reason in keySet.ignored.
// It returns an error if the set has keys and none of them can be used.
func parseKeys(document []byte, a admits) (*keySet, error) {
	const maxKeys = 100
	var set struct {
		Keys []jsontext.Value `json:"keys"`
		URL  jsontext.Value   `json:"jwks_uri"`
	}
	if err := json.Unmarshal(document, &set); err != nil {
		return nil, errors.New("it is not a JWK Set: a JSON object with a list of keys is wanted") // err may quote the document
	}
	switch {
	case set.Keys == nil && set.URL != nil:
		return nil, errors.New("it is not a JWK Set but the metadata of an issuer: remove jwks_url, and the keys are found by the issuer")
	case set.Keys == nil:
		return nil, errors.New("it is not a JWK Set: it has no member keys")
	case len(set.Keys) > maxKeys:
		return nil, fmt.Errorf("it has more than %d keys", maxKeys)
	}
	s := &keySet{}
	for i, raw := range set.Keys {
		k, err := parseKey(raw, a)
		if err != nil {
			s.ignored = append(s.ignored, fmt.Sprintf("keys[%d] %v", i, err))
			continue
		}
		s.keys = append(s.keys, k)
	}
	if len(s.keys) == 0 && len(set.Keys) > 0 { // an empty set is valid: with it, an issuer revokes all keys
		return nil, fmt.Errorf("none of its keys can be used: %s", s.ignored[0])
	}
	return s, nil
}

func parseKey(raw []byte, a admits) (key, error) {
	var m jwkset.JWKMarshal
	if err := json.Unmarshal(raw, &m); err != nil {
		return key{}, errors.New("is not a JWK")
	}
	private := m.D+m.P+m.Q+m.DP+m.DQ+m.QI != "" || len(m.OTH) > 0
	switch {
	case m.USE != "" && m.USE != jwkset.UseSig:
		return key{}, errors.New("is not for signatures")
	case len(m.KEYOPS) > 0 && !slices.Contains(m.KEYOPS, jwkset.KeyOpsVerify):
		return key{}, errors.New("is not for verifying")
	case m.KTY == jwkset.KtyOct && !a.symmetric:
		return key{}, errors.New("is symmetric: that counts only in a file, with HS256, HS384 or HS512 among the algorithms")
	case private && !a.private:
		return key{}, errors.New("holds its private half: whoever can read that can make tokens, have it replaced")
	}
	// Only the public half is used. Certificates add nothing to the issuer's document, and x5u is a URL to fetch.
	public := jwkset.JWKMarshal{KTY: m.KTY, CRV: m.CRV, X: m.X, Y: m.Y, N: m.N, E: m.E, K: m.K}
	jwk, err := jwkset.NewJWKFromMarshal(public, jwkset.JWKMarshalOptions{Private: m.KTY == jwkset.KtyOct}, jwkset.JWKValidateOptions{})
	if err != nil {
		return key{}, errors.New("is malformed, or of a type that is not known here")
	}
	k := key{id: m.KID, algorithm: string(m.ALG), public: jwk.Key()}
	if rsaKey, ok := k.public.(*rsa.PublicKey); ok {
		const minRSABits, maxRSABits = 2048, 8192 // to verify with a larger key would be too expensive for a request
		if bits := rsaKey.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return key{}, fmt.Errorf("is an RSA key of %d bits; %d to %d are used", bits, minRSABits, maxRSABits)
		}
	}
	if !slices.ContainsFunc(jws.Algorithms(), k.fits) {
		return key{}, fmt.Errorf("fits no algorithm that is known here (%s)", host.Printable(k.algorithm))
	}
	return k, nil
}

// list returns the keys for people.
func (c *keyCache) list() Keys {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := Keys{Read: c.since, Err: c.err}
	if c.set == nil {
		return all
	}
	all.Ignored = slices.Clone(c.set.ignored)
	for _, k := range c.set.keys {
		all.List = append(all.List, Key{ID: host.Printable(k.id), Algorithm: host.Printable(k.algorithm), Kind: k.kind(), First: k.first})
	}
	return all
}

func (k *key) kind() string {
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		return fmt.Sprintf("RSA %d", public.N.BitLen())
	case *ecdsa.PublicKey:
		return public.Params().Name
	case ed25519.PublicKey:
		return "Ed25519"
	case []byte:
		return "HMAC"
	}
	return ""
}

// maxDocument limits a JWK Set, and the metadata of an issuer, in bytes.
const maxDocument = 256 << 10

// readFile returns a function that reads the keys from a file. It reads the whole file each time: this costs little, and
// finds every change, including one of a symbolic link on the way.
func readFile(name string) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) {
		document, err := files.ReadRegular(name, maxDocument)
		if err != nil {
			return nil, fmt.Errorf("the file of keys cannot be read: %w", err)
		}
		return bounded(answers.TrimBOM(document), nil)
	}
}

// fetcher fetches documents. A redirect is an error, because the operator decides where keys come from.
type fetcher struct{ transport http.RoundTripper }

// keys fetches the keys, and the metadata of the issuer each time if that names them, so that keys may move. plain is HTTP of [Options].
func (f fetcher) keys(ctx context.Context, c *JWT, plain func(*url.URL) bool) ([]byte, error) {
	const what = "the server of the keys"
	address := c.JWKSURL
	if address == "" {
		var err error
		if address, err = f.discover(ctx, c.Issuer); err != nil {
			return nil, err
		}
		if _, err := (urlcheck.Rule{HTTP: plain, PlainHTTP: plainKeys}).Parse(address); err != nil {
			return nil, fmt.Errorf("jwks_uri in the metadata of the issuer %w", err)
		}
	}
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
