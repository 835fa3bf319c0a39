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

// MaxLifetime limits the time from iat to exp that a [Verifier] accepts.
const MaxLifetime = 5 * time.Minute

// A Verifier verifies JWTs like a careful server (RFC 8725). It is safe for concurrent use once its fields are set.
type Verifier struct {
	// Keys has the public key of each allowed algorithm. The token's alg only selects one of these, so an RSA public key cannot
	// be used as an HMAC secret.
	Keys map[string]crypto.PublicKey

	// Issuer is the required iss. If it is empty, iss is not checked.
	Issuer string
	// Audience is required in aud.
	Audience string
	// Subject requires a sub.
	Subject bool
	Now     func() time.Time

	mu sync.Mutex
	// expiries maps each jti to the exp of its token.
	expiries map[string]time.Time
}

// Verify returns the claims of a token that is signed with an allowed key, is for this audience, and is valid now. It must have
// exp and iat, at most MaxLifetime apart. A token with a jti is accepted once. Errors name the claims that are wrong, without
// their values.
func (v *Verifier) Verify(token string) (jwt.MapClaims, error) {
	options := []jwt.ParserOption{
		jwt.WithStrictDecoding(),
		jwt.WithTimeFunc(v.Now),
		jwt.WithExpirationRequired(),
		jwt.WithIssuedAt(),
		jwt.WithAudience(v.Audience),
	}
	if v.Issuer != "" {
		options = append(options, jwt.WithIssuer(v.Issuer))
	}
	claims := jwt.MapClaims{}
	if _, err := jwt.NewParser(options...).ParseWithClaims(token, claims, v.key); err != nil {
		return nil, reason(err)
	}
	expiry, err := v.lifetime(claims)
	if err != nil {
		return nil, err
	}
	if subject, err := claims.GetSubject(); v.Subject && (err != nil || subject == "") {
		return nil, errors.New("there is no sub")
	}
	if err := v.once(claims, expiry); err != nil {
		return nil, err
	}
	return claims, nil
}

func (v *Verifier) key(token *jwt.Token) (any, error) {
	if _, ok := token.Header["crit"]; ok {
		return nil, errCrit // RFC 7515 section 4.1.11: no extension is supported
	}
	key, ok := v.Keys[token.Method.Alg()]
	if !ok {
		return nil, errAlgorithm
	}
	return key, nil
}

var (
	errCrit      = errors.New("the header has crit")
	errAlgorithm = errors.New("its algorithm is not allowed")
)

// lifetime checks that the token has iat and that exp is at most MaxLifetime later. It returns exp.
func (v *Verifier) lifetime(claims jwt.MapClaims) (time.Time, error) {
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
	case expiry.Sub(issued.Time) > MaxLifetime:
		return time.Time{}, fmt.Errorf("it lives longer than %s", MaxLifetime)
	}
	return expiry.Time, nil
}

// once stores the token's jti until the token expires, and returns an error if it was used before.
func (v *Verifier) once(claims jwt.MapClaims, expiry time.Time) error {
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
	now := v.Now()
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
