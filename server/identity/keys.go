package identity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/jws"
)

// Limits of a key set. To verify with a larger RSA key would be too expensive for a request.
const (
	maxKeys    = 100
	minRSABits = 2048
	maxRSABits = 8192
)

// Asymmetric returns the supported asymmetric algorithms, such as RS256: the default of [JWT].Algorithms.
func Asymmetric() []string {
	return slices.DeleteFunc(jws.Algorithms(), jws.Symmetric)
}

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

// age sets the times at which keys were first read: that of prev for the keys that it has, and now for others. prev may
// be nil.
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
	var set struct {
		Keys []jsontext.Value `json:"keys"`
		URL  jsontext.Value   `json:"jwks_uri"`
	}
	if err := json.Unmarshal(document, &set); err != nil {
		return nil, errors.New("it is not a JWK Set: a JSON object with a list of keys is wanted") // err may quote the document
	}
	if set.Keys == nil && set.URL != nil {
		return nil, errors.New("it is not a JWK Set but the metadata of an issuer: remove jwks_url, and the keys are found by the issuer")
	}
	if set.Keys == nil {
		return nil, errors.New("it is not a JWK Set: it has no member keys")
	}
	if len(set.Keys) > maxKeys {
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

// kind returns the kind of a key with its size or curve.
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
