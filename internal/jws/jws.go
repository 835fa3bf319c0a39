// Package jws lists the supported JWS algorithms (RFC 7518 section 3.1 and RFC 8037) and returns their implementations. The
// packages that sign use it, and those that verify.
package jws

import (
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// Algorithms returns the names of the algorithms, which are case-sensitive. It does not include "none".
func Algorithms() []string {
	return []string{
		"HS256", "HS384", "HS512",
		"RS256", "RS384", "RS512",
		"ES256", "ES384", "ES512",
		"PS256", "PS384", "PS512",
		"EdDSA",
	}
}

// Symmetric reports whether an algorithm signs and verifies with the same key.
func Symmetric(algorithm string) bool { return strings.HasPrefix(algorithm, "HS") }

// Method returns the implementation of an algorithm, or nil if it is not one of [Algorithms]. It does not use golang-jwt's
// registry, which includes "none" and to which any package of the program can add.
func Method(algorithm string) jwt.SigningMethod {
	switch algorithm {
	case "HS256":
		return jwt.SigningMethodHS256
	case "HS384":
		return jwt.SigningMethodHS384
	case "HS512":
		return jwt.SigningMethodHS512
	case "RS256":
		return jwt.SigningMethodRS256
	case "RS384":
		return jwt.SigningMethodRS384
	case "RS512":
		return jwt.SigningMethodRS512
	case "ES256":
		return jwt.SigningMethodES256
	case "ES384":
		return jwt.SigningMethodES384
	case "ES512":
		return jwt.SigningMethodES512
	case "PS256":
		return jwt.SigningMethodPS256
	case "PS384":
		return jwt.SigningMethodPS384
	case "PS512":
		return jwt.SigningMethodPS512
	case "EdDSA":
		return jwt.SigningMethodEdDSA
	}
	return nil
}
