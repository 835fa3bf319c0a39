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

// MaxLifetime is the longest time from iat to exp that a Verifier takes.
const MaxLifetime = 5 * time.Minute

// Verifier checks JWTs as a careful server does, RFC 8725. It is for one audience and one clock.
type Verifier struct {
	// Keys has a public key for each algorithm that is allowed: an RSA public key cannot be taken for an HMAC secret,
	// because the token's alg only chooses among these.
	Keys map[string]crypto.PublicKey

	Issuer   string // what iss has to be; empty for any, and none
	Audience string // what aud has to hold
	Subject  bool   // sub has to be there
	Now      func() time.Time

	mu   sync.Mutex
	seen map[string]time.Time // jti to exp
}

// Verify returns the claims of a token that is signed with an allowed key, and is meant for this audience, now. Its exp
// and iat have to be there, at most MaxLifetime apart; if it has a jti, it is taken once. Errors hold nothing of the
// token but the names of what is wrong.
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
		return nil, errCrit // RFC 7515 section 4.1.11: nothing that could stand there is understood here
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

// lifetime checks that iat is there and exp not too far from it, and gives exp.
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

// once remembers the token's jti until the token is expired, and refuses one that was here before.
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
	maps.DeleteFunc(v.seen, func(_ string, expiry time.Time) bool { return !now.Before(expiry) })
	if _, ok := v.seen[id]; ok {
		return errors.New("jti was used before")
	}
	if v.seen == nil {
		v.seen = map[string]time.Time{}
	}
	v.seen[id] = expiry
	return nil
}

// reason puts a library error into words of our own: some of the library's quote the token.
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
