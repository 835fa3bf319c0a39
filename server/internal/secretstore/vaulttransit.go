package secretstore

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/expr"
)

// VaultTransit configures keys of the transit engine.
type VaultTransit struct {
	// Mount is the mount path of the transit engine.
	Mount string `default:"transit"`
}

// transit is a transit engine, and the keys of it that are known.
type transit struct {
	mount string
	keys  memory[transitKey]
}

type transitKey struct {
	kind   string
	latest int
	// minVersion is the least version that may sign, or 0.
	minVersion int
	// public holds the public half of each version. It is nil for a key without one.
	public map[int]crypto.PublicKey
}

// path returns the path of a key below one of the engine's operations, such as "keys".
func (t *transit) path(operation, name string) string {
	return t.mount + "/" + operation + "/" + url.PathEscape(name)
}

// useKey returns the error for a key that cannot be in the engine.
func (v *VaultStore) useKey(key host.Key) error {
	switch {
	case v.transit == nil:
		return fmt.Errorf("%w: the store has no transit engine", host.ErrKeyNotFound)
	case !expr.ValidName(key.Name) || key.Version < 0:
		return fmt.Errorf("%w: %q is not a key's name", host.ErrKeyNotFound, host.Printable(key.Name))
	}
	return nil
}

// Describe implements [host.Keys]. It remembers a description for a minute, or until the key cannot be used.
func (v *VaultStore) Describe(ctx context.Context, key host.Key) (host.KeyInfo, error) {
	if err := v.useKey(key); err != nil {
		return host.KeyInfo{}, err
	}
	description, ok := v.transit.keys.get(key.Name)
	if !ok || key.Version > description.latest {
		requestTime := v.clock()
		var err error
		if description, err = v.describe(ctx, key.Name); err != nil {
			return host.KeyInfo{}, err
		}
		v.transit.keys.put(key.Name, description, requestTime)
	}
	info := host.KeyInfo{Type: description.kind, Version: key.Version}
	if key.Version == 0 {
		info.Version = description.latest
	}
	if info.Version < description.minVersion {
		return host.KeyInfo{}, fmt.Errorf("%w: version %d at %s is below min_encryption_version, which is %d", host.ErrKeyRefused, info.Version, v.transit.path("keys", key.Name), description.minVersion)
	}
	if info.Public = description.public[info.Version]; info.Version > description.latest || info.Public == nil && description.public != nil {
		return host.KeyInfo{}, fmt.Errorf("%w: vault has no version %d at %s, the newest is %d", host.ErrKeyNotFound, info.Version, v.transit.path("keys", key.Name), description.latest)
	}
	return info, nil
}

func (v *VaultStore) describe(ctx context.Context, name string) (transitKey, error) {
	ctx, cancel := timed(ctx, "vault", v.timeout)
	defer cancel()
	path := v.transit.path("keys", name)
	reply, err := v.ask(ctx, http.MethodGet, path, nil)
	switch {
	case err != nil:
		return transitKey{}, err
	case reply.status == http.StatusNotFound && reply.ofEngine():
		return transitKey{}, fmt.Errorf("%w: vault has nothing at %s", host.ErrKeyNotFound, path)
	case reply.status == http.StatusNotFound:
		return transitKey{}, fmt.Errorf("%w: %w", host.ErrKeyNotFound, errNoEngine(path))
	case reply.status == http.StatusForbidden:
		return transitKey{}, refusedKey(path, "read")
	case reply.status != http.StatusOK:
		return transitKey{}, fmt.Errorf("vault cannot read %s: %w", path, reply.unexpected())
	}
	return reply.transitKey()
}

func refusedKey(path, capability string) error {
	return fmt.Errorf("%w: vault refuses %s (403): the policy must allow %s there, and the token must be valid", host.ErrKeyRefused, path, capability)
}

// transitKey returns the key in a response. A key that is derived from a context for each use has no public half.
func (r *reply) transitKey() (transitKey, error) {
	var document struct {
		Data *struct {
			Type    string                    `json:"type"`
			Derived bool                      `json:"derived"`
			Latest  int                       `json:"latest_version"`
			Least   int                       `json:"min_encryption_version"`
			Keys    map[string]jsontext.Value `json:"keys"`
		} `json:"data"`
	}
	if err := r.decode(&document); err != nil {
		return transitKey{}, err
	}
	data := document.Data
	if data == nil || data.Type == "" || data.Latest < 1 {
		return transitKey{}, r.wrong("there is no key of a transit engine: check the mount")
	}
	key := transitKey{kind: kindOf(data.Type), latest: data.Latest, minVersion: data.Least}
	if data.Derived {
		key.kind += " (derived)"
		return key, nil
	}
	for number, raw := range data.Keys {
		version, err := strconv.Atoi(number)
		if err != nil || raw.Kind() != '{' { // the versions of a key without a public half are times
			continue
		}
		var half struct {
			Public string `json:"public_key"`
		}
		if json.Unmarshal(raw, &half) != nil {
			return transitKey{}, r.wrong("the public half of a key is not text: does the address lead to Vault or OpenBao?")
		}
		if public := publicKey(half.Public); public != nil {
			if key.public == nil {
				key.public = map[int]crypto.PublicKey{}
			}
			key.public[version] = public
		}
	}
	return key, nil
}

// kindOf returns a type of keys for errors. An unknown one could be any text, such as the token of the request, so it is not quoted.
func kindOf(text string) string {
	switch text {
	case "aes128-gcm96", "aes256-gcm96", "chacha20-poly1305", "xchacha20-poly1305", "aes128-cmac", "aes192-cmac", "aes256-cmac", "hmac",
		"ed25519", "ecdsa-p256", "ecdsa-p384", "ecdsa-p521", "rsa-2048", "rsa-3072", "rsa-4096", "ml-dsa", "slh-dsa", "hybrid", "managed_key":
		return text
	}
	return "unknown"
}

// publicKey returns a public key in PEM, one in DER in Base64, or an Ed25519 key in Base64. It returns nil for anything else.
func publicKey(text string) crypto.PublicKey {
	der, err := base64.StdEncoding.DecodeString(text)
	block, _ := pem.Decode([]byte(text))
	switch {
	case block != nil:
		der = block.Bytes
	case err != nil:
		return nil
	case len(der) == ed25519.PublicKeySize:
		return ed25519.PublicKey(der)
	}
	if key, err := x509.ParsePKIXPublicKey(der); err == nil { // with an error, it may be a nil pointer
		return key
	}
	return nil
}

// A signRequest is a request to sign, or to make an HMAC.
type signRequest struct {
	// Input is in Base64.
	Input string `json:"input"`
	// Version is 0 for the newest one.
	Version   int    `json:"key_version,omitzero"`
	Hash      string `json:"hash_algorithm,omitzero"`
	Prehashed bool   `json:"prehashed,omitzero"`
	Scheme    string `json:"signature_algorithm,omitzero"`
	Salt      string `json:"salt_length,omitzero"`
	// Marshaling is "jws" for signatures in the form of RFC 7518.
	Marshaling string `json:"marshaling_algorithm,omitzero"`
	// HMAC is the hash of an HMAC.
	HMAC string `json:"algorithm,omitzero"`
}

// hashes are the hashes of algorithms, by the end of their names.
var hashes = map[string]struct {
	name string
	hash crypto.Hash
}{"256": {"sha2-256", crypto.SHA256}, "384": {"sha2-384", crypto.SHA384}, "512": {"sha2-512", crypto.SHA512}, "1": {"sha1", crypto.SHA1}}

// newSignRequest returns a request with an algorithm, if it is known. It sends the digest of data, unless the algorithm needs all of it.
func newSignRequest(algorithm string, data []byte) (r signRequest, ok bool) {
	r.Marshaling = "jws"
	if algorithm == "EdDSA" {
		r.Input = base64.StdEncoding.EncodeToString(data)
		return r, true
	}
	family := strings.TrimRight(algorithm, "0123456789")
	h, ok := hashes[strings.TrimPrefix(algorithm, family)]
	if !ok {
		return r, false
	}
	switch family {
	case "HS":
		return signRequest{Input: base64.StdEncoding.EncodeToString(data), HMAC: h.name}, true
	case "RS":
		r.Scheme = "pkcs1v15"
	case "PS":
		r.Scheme, r.Salt = "pss", "hash"
	case "ES":
	default:
		return r, false
	}
	if h.hash == crypto.SHA1 && algorithm != "RS1" {
		return r, false
	}
	digest := h.hash.New()
	digest.Write(data)
	r.Input, r.Hash, r.Prehashed = base64.StdEncoding.EncodeToString(digest.Sum(nil)), h.name, true
	return r, true
}

// Sign implements [host.Keys].
func (v *VaultStore) Sign(ctx context.Context, key host.Key, algorithm string, data []byte) (signature []byte, version int, err error) {
	if err := v.useKey(key); err != nil {
		return nil, 0, err
	}
	request, ok := newSignRequest(algorithm, data)
	if !ok {
		return nil, 0, fmt.Errorf("%w: vault has no algorithm %s", host.ErrKeyRefused, host.Printable(algorithm))
	}
	request.Version = key.Version
	ctx, cancel := timed(ctx, "vault", v.timeout)
	defer cancel()
	path := v.transit.path("sign", key.Name)
	if request.HMAC != "" {
		path = v.transit.path("hmac", key.Name)
	}
	reply, err := v.ask(ctx, http.MethodPost, path, request)
	if err != nil {
		return nil, 0, err
	}
	if reply.status != http.StatusOK {
		return nil, 0, v.notSigned(ctx, key, path, reply, request.HMAC == "")
	}
	return reply.signature()
}

// notSigned returns the error for a response that is no signature. The server answers 500 for a version that may not sign, and
// 400 for a key that is gone. So if described is set, the description of the key is asked for again, which says more.
func (v *VaultStore) notSigned(ctx context.Context, key host.Key, path string, reply *reply, described bool) error {
	v.transit.keys.forget(key.Name)
	switch reply.status {
	case http.StatusNotFound:
		return fmt.Errorf("%w: %w", host.ErrKeyNotFound, errNoEngine(path))
	case http.StatusForbidden:
		return refusedKey(path, "update")
	case http.StatusBadRequest, http.StatusInternalServerError:
		if described {
			if _, err := v.Describe(ctx, key); errors.Is(err, host.ErrKeyNotFound) || errors.Is(err, host.ErrKeyRefused) {
				return err
			}
		}
	}
	if reply.status == http.StatusBadRequest {
		return fmt.Errorf("%w: vault cannot use it at %s (400): the key or its version may be gone, or below min_encryption_version", host.ErrKeyRefused, path)
	}
	return fmt.Errorf("vault cannot use %s: %w", path, reply.unexpected())
}

// signature returns the signature or the HMAC in a response, and the version of its key.
func (r *reply) signature() (signature []byte, version int, err error) {
	var document struct {
		Data struct {
			Signature string `json:"signature"`
			HMAC      string `json:"hmac"`
		} `json:"data"`
	}
	if err := r.decode(&document); err != nil {
		return nil, 0, err
	}
	text, encoding := document.Data.Signature, base64.RawURLEncoding
	if document.Data.HMAC != "" {
		text, encoding = document.Data.HMAC, base64.StdEncoding
	}
	rest, found := strings.CutPrefix(text, "vault:v")
	number, encoded, separated := strings.Cut(rest, ":")
	version, err = strconv.Atoi(number)
	if !found || !separated || err != nil || version < 1 {
		return nil, 0, r.wrong("there is no signature in the answer")
	}
	if signature, err = encoding.DecodeString(encoded); err != nil {
		return nil, 0, r.wrong("the signature in the answer is not in the form that was asked for")
	}
	return signature, version, nil
}
