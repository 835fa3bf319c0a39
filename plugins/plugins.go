// Package plugins holds the five built-in auth types, compiled: go get runs no build step.
package plugins

import _ "embed"

// The modules, made by `make plugins` from the directories of the same names.
var (
	//go:embed none/none.wasm
	None []byte // auth type none
	//go:embed apikey/apikey.wasm
	APIKey []byte // auth type api_key, alias apikey
	//go:embed oauthcc/oauthcc.wasm
	OAuthCC []byte // auth type oauth_client_credentials
	//go:embed jwt/jwt.wasm
	JWT []byte // auth type jwt
	//go:embed jwtbearer/jwtbearer.wasm
	JWTBearer []byte // auth type oauth_jwt_bearer
)

// Types returns the auth types of the five, with their aliases, without loading them.
func Types() []string {
	return []string{"none", "api_key", "apikey", "oauth_client_credentials", "jwt", "oauth_jwt_bearer"}
}

// All returns the five modules.
func All() [][]byte { return [][]byte{None, APIKey, OAuthCC, JWT, JWTBearer} }
