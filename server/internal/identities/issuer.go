package identities

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/MicahParks/jwkset"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/jws"
)

// Issuer is an issuer of tokens of its own. A key that stays in a store of keys signs them, so the process holds none. Parties find the
// public halves by the documents that it serves.
type Issuer struct {
	// URL is the origin of the gateway, which is the claim iss of tokens.
	URL string
	// Subject is the claim sub, in which {{ tenant_id }} and {{ user.id }} stand for those of the request, percent-encoded.
	Subject string
	// TTL is the life of a token.
	TTL time.Duration
	// Key is the key. Without a version, it is the newest.
	Key    host.Key
	Keys   host.Keys
	Clock  func() time.Time
	Random io.Reader

	// mu guards what is known of the key: its versions, the newest first, the time at which they were read, and the error if they could not be.
	mu       sync.Mutex
	versions []keyVersion
	read     time.Time
	failure  error
}

type keyVersion struct {
	host.Key
	public        crypto.PublicKey
	id, algorithm string
	// published is the time since which the documents have it.
	published time.Time
}

// publishTime is the time after which parties that remember the documents have a new version of the key.
const publishTime = time.Hour

// subjectPart matches what stands in a subject for a value of the request.
var subjectPart = regexp.MustCompile(`\{\{ *(tenant_id|user\.id) *\}\}`)

// CheckSubject returns what is wrong with the subject.
func (s *Issuer) CheckSubject() error {
	if strings.Contains(subjectPart.ReplaceAllString(s.Subject, ""), "{{") {
		return errors.New("may have {{ tenant_id }} and {{ user.id }}, and no other template")
	}
	return nil
}

// SubjectOf returns the claim sub for the request of a context. Values are percent-encoded, so that none can look like what stands beside it.
func (s *Issuer) SubjectOf(ctx context.Context) (subject string, err error) {
	user, _ := host.UserFrom(ctx)
	subject = subjectPart.ReplaceAllStringFunc(s.Subject, func(part string) string {
		value, name := user.TenantID, subjectPart.FindStringSubmatch(part)[1]
		if name == "user.id" {
			value = user.ID
		}
		if value == "" {
			err = fmt.Errorf("%w: its subject has %s, and the request has none", host.ErrIdentityRefused, name)
		}
		return url.QueryEscape(value)
	})
	return subject, err
}

// Get returns a new token for an audience.
func (s *Issuer) Get(ctx context.Context, audience string) (string, error) {
	subject, err := s.SubjectOf(ctx)
	if err != nil {
		return "", err
	}
	now, id := s.Clock(), make([]byte, 16)
	if _, err := io.ReadFull(s.Random, id); err != nil {
		return "", err
	}
	key, err := s.signer(ctx, now)
	if err != nil {
		return "", err
	}
	text := part(map[string]any{"alg": key.algorithm, "kid": key.id, "typ": "JWT"}) + "." + part(map[string]any{
		"iss": s.URL, "sub": subject, "aud": audience, "iat": now.Unix(), "exp": now.Add(s.TTL).Unix(), "jti": base64.RawURLEncoding.EncodeToString(id),
	})
	signature, _, err := s.Keys.Sign(ctx, key.Key, key.algorithm, []byte(text))
	if err != nil {
		return "", keyError(err)
	}
	if jws.Method(key.algorithm).Verify(text, signature, key.public) != nil {
		return "", errors.New("the signature of the store of keys is not that of the key")
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

// part returns an object as a part of a JWT. It has texts and numbers only, so it can be encoded.
func part(object map[string]any) string {
	text, _ := json.Marshal(object)
	return base64.RawURLEncoding.EncodeToString(text)
}

// keyError returns an error of the store of keys: one that a person has to fix is a refusal.
func keyError(err error) error {
	if errors.Is(err, host.ErrKeyNotFound) || errors.Is(err, host.ErrKeyRefused) {
		return fmt.Errorf("%w: %w", host.ErrIdentityRefused, err)
	}
	return err
}

// signer returns the newest version that was published for long enough, or else the oldest.
func (s *Issuer) signer(ctx context.Context, now time.Time) (keyVersion, error) {
	all, err := s.published(ctx)
	if err != nil {
		return keyVersion{}, err
	}
	for _, v := range all {
		if now.Sub(v.published) >= publishTime {
			return v, nil
		}
	}
	return all[len(all)-1], nil
}

// published returns the versions of the key, the newest first. If they cannot be read, those that are known count.
func (s *Issuer) published(ctx context.Context) ([]keyVersion, error) {
	const readTime = time.Second // for which versions of the key are used again. Stores remember them for longer
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Clock()
	if age := now.Sub(s.read); age < 0 || age >= readTime {
		if all, err := s.describe(ctx, now); err == nil || s.versions == nil {
			s.versions, s.failure = all, err
		}
		s.read = s.Clock() // and not now, so that those who have waited for a slow store do not ask it once more
	}
	return s.versions, s.failure
}

// describe reads the versions of the key. A process that has just started takes those before the newest for published long ago.
func (s *Issuer) describe(ctx context.Context, now time.Time) (all []keyVersion, err error) {
	const maxVersions = 16 // that are published
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTime)
	defer cancel()
	info, err := s.Keys.Describe(ctx, s.Key)
	newest := info.Version
	for number := newest; ; number-- {
		if err == nil {
			v := keyVersion{Key: host.Key{Name: s.Key.Name, Version: number}, public: info.Public, published: now}
			if err = v.identify(); err != nil {
				return nil, err
			}
			if s.versions == nil && number < newest {
				v.published = now.Add(-publishTime)
			}
			for _, old := range s.versions {
				if old.id == v.id {
					v.published = old.published
				}
			}
			all = append(all, v)
		} else if len(all) == 0 || !errors.Is(keyError(err), host.ErrIdentityRefused) { // one before the newest may be gone
			return nil, keyError(err)
		}
		if number <= 1 || newest-number >= maxVersions-1 {
			return all, nil
		}
		info, err = s.Keys.Describe(ctx, host.Key{Name: s.Key.Name, Version: number - 1})
	}
}

// identify sets the ID and the algorithm of a version by its public half.
func (v *keyVersion) identify() error {
	switch public := v.public.(type) {
	case *rsa.PublicKey:
		v.algorithm = "RS256" // that which all parties have
	case *ecdsa.PublicKey:
		v.algorithm = map[int]string{256: "ES256", 384: "ES384", 521: "ES512"}[public.Params().BitSize]
	case ed25519.PublicKey:
		v.algorithm = "EdDSA"
	}
	der, err := x509.MarshalPKIXPublicKey(v.public)
	if err != nil || v.algorithm == "" {
		return fmt.Errorf("%w: the key of the issuer is no RSA, EC or Ed25519 key", host.ErrIdentityRefused)
	}
	sum := sha256.Sum256(der)
	v.id = base64.RawURLEncoding.EncodeToString(sum[:])
	return nil
}

// Documents returns the documents of the issuer by their paths (OpenID Connect Discovery 1.0 section 4, RFC 7517).
func (s *Issuer) Documents() map[string]func(context.Context) ([]byte, error) {
	document := func(content func([]keyVersion) any) func(context.Context) ([]byte, error) {
		return func(ctx context.Context) ([]byte, error) {
			all, err := s.published(ctx)
			if err != nil {
				return nil, fmt.Errorf("the keys of the issuer of identities cannot be read: %w", err)
			}
			return json.Marshal(content(all))
		}
	}
	return map[string]func(context.Context) ([]byte, error){
		"/.well-known/openid-configuration": document(func(all []keyVersion) any {
			return map[string]any{
				"issuer": s.URL, "jwks_uri": s.URL + keysPath, "response_types_supported": []string{"id_token"},
				"subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{all[0].algorithm},
			}
		}),
		keysPath: document(func(all []keyVersion) any {
			var keys jwkset.JWKSMarshal
			for _, v := range all {
				metadata := jwkset.JWKMetadataOptions{ALG: jwkset.ALG(v.algorithm), KID: v.id, USE: jwkset.UseSig}
				if key, err := jwkset.NewJWKFromKey(v.public, jwkset.JWKOptions{Metadata: metadata}); err == nil {
					keys.Keys = append(keys.Keys, key.Marshal())
				}
			}
			return keys
		}),
	}
}

// keysPath is the path of the public halves of the key.
const keysPath = "/.well-known/jwks.json"

// KeysExcept returns a store of keys without the one of this name, which is neither described nor used.
func KeysExcept(keys host.Keys, name string) host.Keys { return keysExcept{keys, name} }

type keysExcept struct {
	host.Keys
	name string
}

func (k keysExcept) check(key host.Key) error {
	if strings.EqualFold(key.Name, k.name) { // services such as Azure's take names in any case
		return fmt.Errorf("%w: it is that of the issuer of identities, and serves nothing else", host.ErrKeyRefused)
	}
	return nil
}

func (k keysExcept) Describe(ctx context.Context, key host.Key) (host.KeyInfo, error) {
	if err := k.check(key); err != nil {
		return host.KeyInfo{}, err
	}
	return k.Keys.Describe(ctx, key)
}

func (k keysExcept) Sign(ctx context.Context, key host.Key, algorithm string, data []byte) (signature []byte, version int, err error) {
	if err := k.check(key); err != nil { // the host asks for no description before an HMAC
		return nil, 0, err
	}
	return k.Keys.Sign(ctx, key, algorithm, data)
}
