// Package jws lists the supported JWS algorithms (RFC 7518 section 3.1 and RFC 8037) and returns their implementations. The
// packages that sign use it, and those that verify.
package jws

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

var methods = []jwt.SigningMethod{
	jwt.SigningMethodHS256, jwt.SigningMethodHS384, jwt.SigningMethodHS512,
	jwt.SigningMethodRS256, jwt.SigningMethodRS384, jwt.SigningMethodRS512,
	jwt.SigningMethodES256, jwt.SigningMethodES384, jwt.SigningMethodES512,
	jwt.SigningMethodPS256, jwt.SigningMethodPS384, jwt.SigningMethodPS512,
	jwt.SigningMethodEdDSA,
}

// Algorithms returns the names of the algorithms, which are case-sensitive. It does not include "none".
func Algorithms() []string {
	names := make([]string, len(methods))
	for i, m := range methods {
		names[i] = m.Alg()
	}
	return names
}

// Symmetric reports whether an algorithm signs and verifies with the same key.
func Symmetric(algorithm string) bool { return strings.HasPrefix(algorithm, "HS") }

// Method returns the implementation of an algorithm, or nil if it is not one of [Algorithms]. It does not use golang-jwt's
// registry, which includes "none" and to which any package of the program can add.
func Method(algorithm string) jwt.SigningMethod {
	for _, m := range methods {
		if m.Alg() == algorithm {
			return m
		}
	}
	return nil
}

// Decode decodes a compact JWS whose payload is an object, without verifying it. Numbers are json.Number.
func Decode(token string) (header, claims map[string]any, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, nil, fmt.Errorf("not a compact JWT: it has %d parts", len(parts))
	}
	for i, object := range []*map[string]any{&header, &claims} {
		document, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err == nil {
			decoder := json.NewDecoder(bytes.NewReader(document))
			decoder.UseNumber()
			err = decoder.Decode(object)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("not a compact JWT: part %d: %w", i+1, err)
		}
	}
	return header, claims, nil
}
