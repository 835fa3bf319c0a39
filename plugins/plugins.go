// Package plugins contains the compiled modules of the five built-in auth types. They are in the repository because go get
// runs no build step.
package plugins

import _ "embed"

// The modules. `make plugins` builds each from the directory of the same name.
var (
	//go:embed none/none.wasm
	None []byte // the auth type none
	//go:embed apikey/apikey.wasm
	APIKey []byte // the auth type api_key, with the alias apikey
	//go:embed oauthcc/oauthcc.wasm
	OAuthCC []byte // the auth type oauth_client_credentials
	//go:embed jwt/jwt.wasm
	JWT []byte // the auth type jwt
	//go:embed jwtbearer/jwtbearer.wasm
	JWTBearer []byte // the auth type oauth_jwt_bearer
)

// Types returns the auth types of the five modules and their aliases. It does not load the modules.
func Types() []string {
	return []string{"none", "api_key", "apikey", "oauth_client_credentials", "jwt", "oauth_jwt_bearer"}
}

// All returns the five modules, in the order in which a host loads them.
func All() [][]byte { return [][]byte{None, APIKey, OAuthCC, JWT, JWTBearer} }
