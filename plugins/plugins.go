// Package plugins contains the compiled modules of the built-in auth types. They are in the repository because go get runs no
// build step. A program contains only the modules that it names.
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

	//go:embed basic/basic.wasm
	Basic []byte // the auth type basic
	//go:embed bearer/bearer.wasm
	Bearer []byte // the auth type bearer
	//go:embed login/login.wasm
	Login []byte // the auth type login
	//go:embed oauthpassword/oauthpassword.wasm
	OAuthPassword []byte // the auth type oauth_password
	//go:embed refreshtoken/refreshtoken.wasm
	RefreshToken []byte // the auth type oauth_refresh_token
	//go:embed tokenexchange/tokenexchange.wasm
	TokenExchange []byte // the auth type token_exchange
	//go:embed dpop/dpop.wasm
	DPoP []byte // the auth type dpop
	//go:embed hmac/hmac.wasm
	HMAC []byte // the auth type hmac
	//go:embed httpsignature/httpsignature.wasm
	HTTPSignature []byte // the auth type http_signature
	//go:embed oauth1/oauth1.wasm
	OAuth1 []byte // the auth type oauth1
	//go:embed digest/digest.wasm
	Digest []byte // the auth type digest
	//go:embed awssigv4/awssigv4.wasm
	AWSSigV4 []byte // the auth type aws_sigv4
	//go:embed awsassumerole/awsassumerole.wasm
	AWSAssumeRole []byte // the auth type aws_assume_role
	//go:embed githubapp/githubapp.wasm
	GitHubApp []byte // the auth type github_app
	//go:embed googleserviceaccount/googleserviceaccount.wasm
	GoogleServiceAccount []byte // the auth type google_service_account
	//go:embed authcode/authcode.wasm
	AuthCode []byte // the auth type oauth_authorization_code
)

// Default returns the five modules that a host loads by default, in this order. The others would make its start slower and a
// program larger.
func Default() [][]byte { return [][]byte{None, APIKey, OAuthCC, JWT, JWTBearer} }

// Types returns the auth types of all modules and their aliases. The types of [Default] come first.
func Types() []string {
	return []string{
		"none", "api_key", "apikey", "oauth_client_credentials", "jwt", "oauth_jwt_bearer",
		"basic", "bearer", "login", "oauth_password", "oauth_refresh_token", "token_exchange", "dpop", "hmac", "http_signature", "oauth1", "digest",
		"aws_sigv4", "aws_assume_role", "github_app", "google_service_account",
		"oauth_authorization_code",
	}
}

// Of returns the module of an auth type or alias. If there is none, it returns nil. A program that calls it contains all
// modules.
func Of(authType string) []byte {
	switch authType {
	case "none":
		return None
	case "api_key", "apikey":
		return APIKey
	case "oauth_client_credentials":
		return OAuthCC
	case "jwt":
		return JWT
	case "oauth_jwt_bearer":
		return JWTBearer
	case "basic":
		return Basic
	case "bearer":
		return Bearer
	case "login":
		return Login
	case "oauth_password":
		return OAuthPassword
	case "oauth_refresh_token":
		return RefreshToken
	case "token_exchange":
		return TokenExchange
	case "dpop":
		return DPoP
	case "hmac":
		return HMAC
	case "http_signature":
		return HTTPSignature
	case "oauth1":
		return OAuth1
	case "digest":
		return Digest
	case "aws_sigv4":
		return AWSSigV4
	case "aws_assume_role":
		return AWSAssumeRole
	case "github_app":
		return GitHubApp
	case "google_service_account":
		return GoogleServiceAccount
	case "oauth_authorization_code":
		return AuthCode
	}
	return nil
}
