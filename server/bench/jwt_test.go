package bench

import (
	"context"
	"crypto"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// The claims of both sides, except iat and exp.
const (
	issuer   = "client"
	subject  = "user@example.com"
	audience = "https://api.example.com/"
	lifetime = 180 // seconds
)

// claims holds the claims that the peer signs. Of golang-jwt's two ways, a struct is the faster one, by a quarter for HS256.
type claims struct {
	// Claims is nil, because golang-jwt calls its methods only for verification.
	jwt.Claims `json:"-"`

	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Audience string `json:"aud"`
	IssuedAt int64  `json:"iat"`
	Expires  int64  `json:"exp"`
}

// jwtRows returns the rows for signing the JWT of a request. Our side is a whole call of the jwt plugin, which includes
// checking and cloning the request. The peer's is the signing alone.
func jwtRows() []row {
	var all []row
	for _, a := range []struct {
		algorithm string
		goal      float64
	}{{"RS256", 1.05}, {"ES256", 1.4}, {"EdDSA", 1.5}, {"HS256", 5}} {
		all = append(all, row{
			work: "jwt, a whole call, key parsed already, " + a.algorithm, against: "golang-jwt v5.3.1 in plain Go, claims in a struct, key parsed already",
			unit: nanoseconds, goal: a.goal,
			measure: func(ctx context.Context, s session) (result, error) { return signing(ctx, s, a.algorithm) },
		})
	}
	return all
}

func signing(ctx context.Context, s session, algorithm string) (result, error) {
	h, c, err := connected(ctx, &base{}, jwtAuth(algorithm))
	if err != nil {
		return result{}, err
	}
	defer h.Close(ctx)
	r := request(ctx)
	k := keys()
	private := map[string]any{"RS256": k.rsa, "ES256": k.ecdsa, "EdDSA": k.ed25519, "HS256": []byte(hmacKey)}[algorithm]
	method := jwt.GetSigningMethod(algorithm)
	native := func() (string, error) {
		now := time.Now().Unix()
		return jwt.NewWithClaims(method, claims{nil, issuer, subject, audience, now, now + lifetime}).SignedString(private)
	}
	authenticate := func() (string, error) {
		authenticated, err := c.Authenticate(r)
		if err != nil {
			return "", err
		}
		token, _ := strings.CutPrefix(authenticated.Header.Get("Authorization"), "Bearer ")
		return token, nil
	}
	if err := sameToken(algorithm, private, authenticate, native); err != nil {
		return result{}, err
	}
	return s.pair(ctx, op{run: func() error { _, err := authenticate(); return err }}, op{run: func() error { _, err := native(); return err }})
}

// sameToken checks that the tokens of both sides are valid and have the same claims.
func sameToken(algorithm string, private any, sides ...func() (string, error)) error {
	public := private
	if signer, ok := private.(crypto.Signer); ok {
		public = signer.Public()
	}
	var all []jwt.MapClaims
	for _, side := range sides {
		text, err := side()
		if err != nil {
			return err
		}
		token, err := jwt.Parse(text, func(*jwt.Token) (any, error) { return public, nil }, jwt.WithValidMethods([]string{algorithm}))
		if err != nil {
			return fmt.Errorf("a token is not valid: %w", err)
		}
		claims := token.Claims.(jwt.MapClaims)
		if at, ok := claims["iat"].(float64); !ok || claims["exp"] != at+lifetime {
			return fmt.Errorf("iat is %v, exp is %v", claims["iat"], claims["exp"])
		}
		delete(claims, "iat")
		delete(claims, "exp")
		all = append(all, claims)
	}
	if fmt.Sprint(all[0]) != fmt.Sprint(all[1]) {
		return fmt.Errorf("the claims are %v and %v", all[0], all[1])
	}
	return nil
}
