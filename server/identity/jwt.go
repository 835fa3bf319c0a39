package identity

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/jws"
)

// A session finds the user in a session token.
type session struct {
	// JWT is the configuration, with its defaults.
	JWT
	keys  *keyCache
	clock func() time.Time
}

// newSession returns a session for a configuration without problems. Its keys are read later.
func newSession(ctx context.Context, c *JWT, o Options) *session {
	s := &session{JWT: *c, clock: o.Clock}
	s.Audiences, s.Algorithms, s.Claims = slices.Clone(c.Audiences), slices.Clone(c.Algorithms), c.Claims.withDefaults()
	if len(s.Algorithms) == 0 {
		s.Algorithms = Asymmetric()
	}
	s.keys = &keyCache{refreshPolicy: urlRefresh, clock: o.Clock, log: o.Logger}
	s.keys.unknown, _ = lru.New[keyRef, bool](maxUnknown) // the only error is for sizes below one
	s.keys.base, s.keys.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.keys.read = func(ctx context.Context) ([]byte, error) { return fetcher{o.Transport}.keys(ctx, &s.JWT, o.HTTP) }
	if s.JWKSFile != "" {
		s.keys.refreshPolicy, s.keys.read = fileRefresh, readFile(s.JWKSFile)
		s.keys.admits = admits{private: true, symmetric: slices.ContainsFunc(s.Algorithms, jws.Symmetric)}
	}
	return s
}

func (s *session) user(r *http.Request) (host.User, error) {
	claims, err := s.verify(r)
	if err != nil {
		return host.User{}, err
	}
	u, err := s.read(claims)
	if err != nil {
		return host.User{}, err
	}
	if len(s.TokenHosts) > 0 { // verify has checked both
		u.Token, _ = s.token(r.Header)
		u.TokenExpires, _, _ = timeOf(claims, "exp")
	}
	return u, nil
}

// verify checks the request's token, and returns its claims, without an unverified email address.
func (s *session) verify(r *http.Request) (map[string]any, error) {
	text, err := s.token(r.Header)
	if err != nil {
		return nil, err
	}
	if text == "" {
		return nil, &Error{kind: ErrUnauthenticated, reason: "there is no session token", missing: true}
	}
	t, err := s.parse(text)
	if err != nil {
		return nil, err
	}
	// The claims are checked before the signature, so that an expired token does not cause the keys to be read.
	var claims map[string]any // this json package matches names by case, and refuses duplicates
	if json.Unmarshal(t.payload, &claims) != nil || claims == nil {
		return nil, unauthenticated("the token's claims are not a JSON object as it should be")
	}
	if err := s.valid(claims); err != nil {
		return nil, err
	}
	if err := s.verifySignature(r.Context(), t); err != nil {
		return nil, err
	}
	if err := dropUnverified(claims); err != nil {
		return nil, err
	}
	return claims, nil
}

// challenge adds the value of WWW-Authenticate to an error (RFC 6750 section 3), with an error code if there is a token.
func (s *session) challenge(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !s.Bearer || !ok || errors.Is(err, ErrUnavailable) {
		return err
	}
	e.Challenge = `Bearer realm="keywright"`
	switch {
	case e.missing:
	case errors.Is(err, ErrAmbiguous):
		e.Challenge += `, error="invalid_request"`
	default:
		e.Challenge += `, error="invalid_token"`
	}
	return e
}

// token returns the session token of a request, or "" if there is no token. It returns an error if there are several.
func (s *session) token(h http.Header) (string, error) {
	var found []string
	if values := h["Authorization"]; s.Bearer {
		for _, value := range values {
			scheme, rest, _ := strings.Cut(value, " ")
			if rest = strings.Trim(rest, " "); !strings.EqualFold(scheme, "Bearer") || rest == "" {
				return "", unauthenticated("Authorization is there, but not with a Bearer token")
			}
			found = append(found, rest)
		}
	}
	if s.Cookie != "" {
		// Malformed cookies, which net/http skips, count too: other programs may read them.
		for pair := range strings.SplitSeq(strings.Join(h["Cookie"], ";"), ";") {
			if name, value, _ := strings.Cut(pair, "="); strings.TrimSpace(name) == s.Cookie {
				found = append(found, strings.TrimSpace(value))
			}
		}
	}
	switch {
	case len(found) == 0:
		return "", nil
	case len(found) > 1:
		return "", ambiguous("there is more than one session token")
	case found[0] == "":
		return "", unauthenticated("the session token is empty")
	}
	return found[0], nil
}

// A token is a parsed JWS in compact serialization (RFC 7515 section 7.1).
type token struct {
	algorithm, keyID string
	// signed is the signing input.
	signed             string
	payload, signature []byte
}

// parse parses a token and checks its header. It is strict, so that a token means the same to each program that reads it: it
// refuses duplicate members, names in another case, and other alphabets than base64url.
func (s *session) parse(text string) (*token, error) {
	const maxToken = 16 << 10 // bytes
	if len(text) > maxToken {
		return nil, unauthenticated("the token is too long")
	}
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return nil, unauthenticated("the token is not a signed JWT: it has not three parts")
	}
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		if decoded[i], err = base64.RawURLEncoding.Strict().DecodeString(part); err != nil || strings.ContainsAny(part, "\r\n") {
			return nil, unauthenticated("the token is not base64url")
		}
	}
	var header struct {
		Algorithm string         `json:"alg"`
		KeyID     string         `json:"kid"`
		Type      string         `json:"typ"`
		Critical  jsontext.Value `json:"crit"`
	}
	if err := json.Unmarshal(decoded[0], &header); err != nil {
		return nil, unauthenticated("the token's header is not JSON as it should be")
	}
	switch {
	case !slices.Contains(s.Algorithms, header.Algorithm):
		return nil, unauthenticated("the token's algorithm is not among those that are allowed")
	case header.Critical != nil:
		return nil, unauthenticated("the token has critical extensions, of which none is known here (RFC 7515 section 4.1.11)")
	case !slices.Contains(sessionTypes, strings.TrimPrefix(strings.ToLower(header.Type), "application/")):
		return nil, unauthenticated("the token is of a type that is for something else than sessions")
	}
	signed := parts[0] + "." + parts[1]
	return &token{algorithm: header.Algorithm, keyID: header.KeyID, signed: signed, payload: decoded[1], signature: decoded[2]}, nil
}

// sessionTypes are the values of typ that a session token may have. An issuer signs other kinds of tokens with the same keys, logout
// tokens for example, and typ distinguishes them (RFC 8725 section 3.11).
var sessionTypes = []string{"", "jwt", "at+jwt"}

// verifySignature checks the signature. If no key verifies it, the issuer may have new keys, so it tries again with newer ones.
func (s *session) verifySignature(ctx context.Context, t *token) error {
	received := s.clock()
	set, err := s.keys.current(ctx)
	if err != nil {
		return err
	}
	k := set.find(t.algorithm, t.keyID)
	if k.verifies(t) {
		return nil
	}
	newer, err := s.keys.newer(ctx, set, t, received)
	if newer != set {
		if k = newer.find(t.algorithm, t.keyID); k.verifies(t) {
			return nil
		}
	}
	switch {
	case k == nil && err != nil:
		return err
	case k == nil:
		return unauthenticated("no key of the issuer fits the token")
	}
	return unauthenticated("the token's signature is not valid")
}

func (k *key) verifies(t *token) bool {
	return k != nil && jws.Method(t.algorithm).Verify(t.signed, t.signature, k.public) == nil
}
