package secretstore

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"encoding/asn1"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/expr"
)

// A KeyAPI describes the API of a service that keeps keys and signs with them. In the texts of its requests, {name} and {version} stand for
// those of the key, and {id} for its ID at the service.
type KeyAPI struct {
	Service
	// Public reads a key. Its From is the place of the public half: a JWK, PEM, or DER in Base64 (RFC 5280 section 4.1.2.7).
	Public Request
	// ID, if not empty, is the place of the ID in that answer. What follows the last slash of the text counts.
	ID string
	// Signature makes a signature. In its texts {digest} stands for the digest, {hash} for the name of the hash, such as sha256, and {algorithm} for
	// that of Algorithms.
	Signature Request
	// Algorithms are the service's names of algorithms, without the number of the hash.
	Algorithms Families
	// Versions reports whether a key has versions, one of which must be named.
	Versions bool
	// DER reports whether ECDSA signatures are in DER, in place of the form of RFC 7518 section 3.4.
	DER bool
	// Encoding is the encoding of digests and signatures: base64 or base64url.
	Encoding string
	// Clock returns the current time.
	Clock func() time.Time
}

// Families are the beginnings of a service's names of algorithms, by those of RFC 7518. One that is empty stands for none.
type Families struct{ RS, PS, ES string }

// name returns the service's name of an algorithm, or "".
func (f Families) name(algorithm string) string {
	bits := strings.TrimLeft(algorithm, "RSPE")
	family := map[string]string{"RS": f.RS, "PS": f.PS, "ES": f.ES}[strings.TrimSuffix(algorithm, bits)]
	if family == "" {
		return ""
	}
	return family + bits
}

// Keys returns a store of the keys of a service.
func Keys(api KeyAPI) host.Keys {
	return &keyStore{api, memory[keyOfAPI]{ttl: time.Minute, clock: api.Clock}}
}

type keyStore struct {
	KeyAPI
	descriptions memory[keyOfAPI]
}

type keyOfAPI struct {
	id     string
	public crypto.PublicKey
}

// Describe implements [host.Keys]. It remembers a description for a minute, or until the key cannot be used.
func (k *keyStore) Describe(ctx context.Context, key host.Key) (host.KeyInfo, error) {
	description, err := k.describe(ctx, key)
	if err != nil {
		return host.KeyInfo{}, err
	}
	kind := "unknown"
	switch public := description.public.(type) {
	case *rsa.PublicKey:
		kind = "rsa-" + strconv.Itoa(public.N.BitLen())
	case *ecdsa.PublicKey:
		kind = "ecdsa-" + strings.ToLower(public.Params().Name)
	}
	return host.KeyInfo{Type: kind, Version: key.Version, Public: description.public}, nil
}

func (k *keyStore) describe(ctx context.Context, key host.Key) (description keyOfAPI, err error) {
	switch {
	case !expr.ValidName(key.Name) || key.Version < 0:
		return description, fmt.Errorf("%w: %q is not a key's name", host.ErrKeyNotFound, host.Printable(key.Name))
	case k.Versions && key.Version == 0:
		return description, fmt.Errorf("%w: the service has no newest version of a key: name one, as in get_key('%s', 1)", host.ErrKeyNotFound, key.Name)
	case !k.Versions && key.Version > 0:
		return description, fmt.Errorf("%w: the service has no numbered versions of a key: name none", host.ErrKeyNotFound)
	}
	if description, ok := k.descriptions.get(nameOf(key)); ok {
		return description, nil
	}
	requestTime := k.Clock()
	body, err := k.ask(ctx, &k.Public, key, placeholders{})
	if err != nil {
		return description, err
	}
	if raw := answers.ValueAt(body, k.Public.From); raw.Kind() == '{' {
		description.public = keyOfJWK(raw)
	} else {
		text, _ := answers.Text(raw)
		description.public = publicKey(text)
	}
	if description.public == nil {
		return description, fmt.Errorf("%w: the service has no public half of an RSA or EC key for it", host.ErrKeyRefused)
	}
	if k.ID != "" {
		id, _ := answers.Text(answers.ValueAt(body, k.ID))
		description.id = id[strings.LastIndexByte(id, '/')+1:]
	}
	k.descriptions.put(nameOf(key), description, requestTime)
	return description, nil
}

func nameOf(key host.Key) string { return key.Name + " " + strconv.Itoa(key.Version) }

func (k *keyStore) ask(ctx context.Context, r *Request, key host.Key, p placeholders) ([]byte, error) {
	p["{name}"], p["{version}"] = key.Name, strconv.Itoa(key.Version)
	ctx, cancel := timed(host.WithUser(ctx, host.User{}), "the store", k.Timeout) // as for secrets
	defer cancel()
	status, body, err := k.send(ctx, r, p)
	switch {
	case err != nil:
		return nil, err
	case r.isMissing(status, body):
		return nil, fmt.Errorf("%w: the service has none of that name", host.ErrKeyNotFound)
	case hasCode(status, body, "ThrottlingException"): // of AWS, with 400 (docs.aws.amazon.com/kms/latest/developerguide/throttling.html)
		return nil, errors.New("the service of keys has had too many requests")
	case status == http.StatusBadRequest || status == http.StatusForbidden:
		return nil, fmt.Errorf("%w: the service refuses to use it (%d): check its state, its algorithms and the rights of the gateway", host.ErrKeyRefused, status)
	case status != http.StatusOK:
		return nil, fmt.Errorf("the service of keys answered with status %d", status)
	}
	return body, nil
}

func (k *keyStore) Sign(ctx context.Context, key host.Key, algorithm string, data []byte) (signature []byte, version int, err error) {
	name := k.Algorithms.name(algorithm)
	hash, ok := hashes[strings.TrimLeft(algorithm, "RSPE")]
	if name == "" || !ok {
		return nil, 0, fmt.Errorf("%w: the service has no algorithm %s", host.ErrKeyRefused, host.Printable(algorithm))
	}
	description, err := k.describe(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	encoding := base64.StdEncoding
	if k.Encoding == "base64url" {
		encoding = base64.RawURLEncoding
	}
	digest := hash.hash.New()
	digest.Write(data)
	body, err := k.ask(ctx, &k.Signature, key, placeholders{
		"{id}": description.id, "{digest}": encoding.EncodeToString(digest.Sum(nil)), "{hash}": strings.Replace(hash.name, "sha2-", "sha", 1), "{algorithm}": name,
	})
	if err != nil {
		k.descriptions.forget(nameOf(key))
		return nil, 0, err
	}
	text, _ := answers.Text(answers.ValueAt(body, k.Signature.From))
	signature, err = encoding.DecodeString(text)
	if public, ok := description.public.(*ecdsa.PublicKey); ok && k.DER && err == nil {
		signature, err = rawSignature(signature, public)
	}
	if err != nil || len(signature) == 0 {
		return nil, 0, errors.New("the answer of the service has no signature in the form that it documents")
	}
	return signature, key.Version, nil
}

// rawSignature returns an ECDSA signature in DER in the form of RFC 7518 section 3.4.
func rawSignature(der []byte, public *ecdsa.PublicKey) ([]byte, error) {
	var s struct{ R, S *big.Int }
	size := (public.Params().BitSize + 7) / 8
	rest, err := asn1.Unmarshal(der, &s)
	if err != nil || len(rest) > 0 || s.R.Sign() <= 0 || s.S.Sign() <= 0 || s.R.BitLen() > 8*size || s.S.BitLen() > 8*size {
		return nil, errors.New("no signature in DER")
	}
	both := make([]byte, 2*size)
	s.R.FillBytes(both[:size])
	s.S.FillBytes(both[size:])
	return both, nil
}

// keyOfJWK returns the RSA or EC key of a JWK (RFC 7517), or nil. Azure's kty may end with -HSM.
func keyOfJWK(raw jsontext.Value) crypto.PublicKey {
	var m jwkset.JWKMarshal
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	public := jwkset.JWKMarshal{KTY: jwkset.KTY(strings.TrimSuffix(string(m.KTY), "-HSM")), CRV: m.CRV, X: m.X, Y: m.Y, N: m.N, E: m.E}
	key, err := jwkset.NewJWKFromMarshal(public, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{})
	if err != nil {
		return nil
	}
	return key.Key()
}
