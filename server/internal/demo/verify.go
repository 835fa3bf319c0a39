package demo

import (
	"crypto"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// maxLifetime limits the time from iat to exp that a verifier accepts.
const maxLifetime = 5 * time.Minute

// A verifier verifies JWTs like a careful server (RFC 8725). It is safe for concurrent use.
type verifier struct {
	// algorithm is the only alg of tokens, so that an RSA public key cannot be used as an HMAC secret.
	algorithm string
	key       crypto.PublicKey
	// issuer is the iss of assertions, which need a sub. If it is empty, neither is required.
	issuer string
	// audience is required in aud.
	audience string
	now      func() time.Time

	mu sync.Mutex
	// expiries maps each jti to the exp of its token.
	expiries map[string]time.Time
}

// verify returns the sub of a token that is signed with the key, is for this audience, and is valid now. It must have
// exp and iat, at most maxLifetime apart. A token with a jti is accepted once. Errors name the claims that are wrong, without
// their values.
func (v *verifier) verify(token string) (subject string, err error) {
	options := []jwt.ParserOption{
		jwt.WithStrictDecoding(), jwt.WithTimeFunc(v.now), jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithAudience(v.audience),
	}
	if v.issuer != "" {
		options = append(options, jwt.WithIssuer(v.issuer))
	}
	claims := jwt.MapClaims{}
	if _, err := jwt.NewParser(options...).ParseWithClaims(token, claims, v.keyOf); err != nil {
		return "", reason(err)
	}
	expiry, err := v.lifetime(claims)
	if err != nil {
		return "", err
	}
	subject, err = claims.GetSubject()
	if err != nil || subject == "" && v.issuer != "" {
		return "", errors.New("there is no sub, or it is not a text")
	}
	return subject, v.once(claims, expiry)
}

func (v *verifier) keyOf(token *jwt.Token) (any, error) {
	if _, ok := token.Header["crit"]; ok {
		return nil, errCrit // RFC 7515 section 4.1.11: no extension is supported
	}
	if token.Method.Alg() != v.algorithm {
		return nil, errAlgorithm
	}
	return v.key, nil
}

var (
	errCrit      = errors.New("the header has crit")
	errAlgorithm = errors.New("its algorithm is not allowed")
)

// lifetime checks that the token has iat and that exp is at most maxLifetime later. It returns exp.
func (v *verifier) lifetime(claims jwt.MapClaims) (time.Time, error) {
	expiry, err := claims.GetExpirationTime()
	if err != nil {
		return time.Time{}, reason(err)
	}
	issued, err := claims.GetIssuedAt()
	switch {
	case err != nil:
		return time.Time{}, reason(err)
	case issued == nil:
		return time.Time{}, errors.New("there is no iat")
	case expiry.Sub(issued.Time) > maxLifetime:
		return time.Time{}, fmt.Errorf("it lives longer than %s", maxLifetime)
	}
	return expiry.Time, nil
}

// once stores the token's jti until the token expires, and returns an error if it was used before.
func (v *verifier) once(claims jwt.MapClaims, expiry time.Time) error {
	value, ok := claims["jti"]
	if !ok {
		return nil
	}
	id, ok := value.(string)
	if !ok || id == "" {
		return errors.New("jti is not a text")
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.now()
	maps.DeleteFunc(v.expiries, func(_ string, expiry time.Time) bool { return !now.Before(expiry) })
	if _, ok := v.expiries[id]; ok {
		return errors.New("jti was used before")
	}
	if v.expiries == nil {
		v.expiries = map[string]time.Time{}
	}
	v.expiries[id] = expiry
	return nil
}

// reason replaces an error of the library, because some of these quote the token.
func reason(err error) error {
	for _, r := range []struct {
		is   error
		text string
	}{
		{errCrit, errCrit.Error()},
		{errAlgorithm, errAlgorithm.Error()},
		{jwt.ErrTokenMalformed, "it is not a JWT"},
		{jwt.ErrTokenSignatureInvalid, "its signature is wrong"},
		{jwt.ErrTokenRequiredClaimMissing, "exp, aud or iss is missing"},
		{jwt.ErrTokenInvalidAudience, "aud is not this server"},
		{jwt.ErrTokenInvalidIssuer, "iss is unknown"},
		{jwt.ErrTokenExpired, "it is expired"},
		{jwt.ErrTokenUsedBeforeIssued, "iat is in the future"},
		{jwt.ErrTokenNotValidYet, "nbf is in the future"},
		{jwt.ErrInvalidType, "a claim has the wrong type"},
	} {
		if errors.Is(err, r.is) {
			return errors.New(r.text)
		}
	}
	return errors.New("it cannot be checked")
}
