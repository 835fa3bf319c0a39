// Package plugins contains the compiled modules of the built-in auth types. They are in the repository because go get runs no
// build step. A program contains only the modules whose functions it calls. Each call returns a copy.
package plugins

import _ "embed"

// The modules. `make plugins` builds each from the directory of the same name.
var (
	//go:embed none/none.wasm
	noneModule string
	//go:embed apikey/apikey.wasm
	apikeyModule string
	//go:embed oauthcc/oauthcc.wasm
	oauthccModule string
	//go:embed jwt/jwt.wasm
	jwtModule string
	//go:embed jwtbearer/jwtbearer.wasm
	jwtbearerModule string
	//go:embed basic/basic.wasm
	basicModule string
	//go:embed bearer/bearer.wasm
	bearerModule string
	//go:embed login/login.wasm
	loginModule string
	//go:embed oauthpassword/oauthpassword.wasm
	oauthpasswordModule string
	//go:embed refreshtoken/refreshtoken.wasm
	refreshtokenModule string
	//go:embed tokenexchange/tokenexchange.wasm
	tokenexchangeModule string
	//go:embed dpop/dpop.wasm
	dpopModule string
	//go:embed signature/signature.wasm
	signatureModule string
	//go:embed httpsignature/httpsignature.wasm
	httpsignatureModule string
	//go:embed jws/jws.wasm
	jwsModule string
	//go:embed oauth1/oauth1.wasm
	oauth1Module string
	//go:embed digest/digest.wasm
	digestModule string
	//go:embed awssigv4/awssigv4.wasm
	awssigv4Module string
	//go:embed awsassumerole/awsassumerole.wasm
	awsassumeroleModule string
	//go:embed githubapp/githubapp.wasm
	githubappModule string
	//go:embed googleserviceaccount/googleserviceaccount.wasm
	googleserviceaccountModule string
	//go:embed authcode/authcode.wasm
	authcodeModule string
)

// None returns the module of the auth type none.
func None() []byte { return []byte(noneModule) }

// APIKey returns the module of the auth type api_key, with the alias apikey.
func APIKey() []byte { return []byte(apikeyModule) }

// OAuthClientCredentials returns the module of the auth type oauth_client_credentials.
func OAuthClientCredentials() []byte { return []byte(oauthccModule) }

// JWT returns the module of the auth type jwt.
func JWT() []byte { return []byte(jwtModule) }

// OAuthJWTBearer returns the module of the auth type oauth_jwt_bearer.
func OAuthJWTBearer() []byte { return []byte(jwtbearerModule) }

// Basic returns the module of the auth type basic.
func Basic() []byte { return []byte(basicModule) }

// Bearer returns the module of the auth type bearer.
func Bearer() []byte { return []byte(bearerModule) }

// Login returns the module of the auth type login.
func Login() []byte { return []byte(loginModule) }

// OAuthPassword returns the module of the auth type oauth_password.
func OAuthPassword() []byte { return []byte(oauthpasswordModule) }

// OAuthRefreshToken returns the module of the auth type oauth_refresh_token.
func OAuthRefreshToken() []byte { return []byte(refreshtokenModule) }

// TokenExchange returns the module of the auth type token_exchange.
func TokenExchange() []byte { return []byte(tokenexchangeModule) }

// DPoP returns the module of the auth type dpop.
func DPoP() []byte { return []byte(dpopModule) }

// Signature returns the module of the auth type signature, with the alias hmac.
func Signature() []byte { return []byte(signatureModule) }

// HTTPSignature returns the module of the auth type http_signature.
func HTTPSignature() []byte { return []byte(httpsignatureModule) }

// JWS returns the module of the auth type jws.
func JWS() []byte { return []byte(jwsModule) }

// OAuth1 returns the module of the auth type oauth1.
func OAuth1() []byte { return []byte(oauth1Module) }

// Digest returns the module of the auth type digest.
func Digest() []byte { return []byte(digestModule) }

// AWSSigV4 returns the module of the auth type aws_sigv4.
func AWSSigV4() []byte { return []byte(awssigv4Module) }

// AWSAssumeRole returns the module of the auth type aws_assume_role.
func AWSAssumeRole() []byte { return []byte(awsassumeroleModule) }

// GitHubApp returns the module of the auth type github_app.
func GitHubApp() []byte { return []byte(githubappModule) }

// GoogleServiceAccount returns the module of the auth type google_service_account.
func GoogleServiceAccount() []byte { return []byte(googleserviceaccountModule) }

// OAuthAuthorizationCode returns the module of the auth type oauth_authorization_code.
func OAuthAuthorizationCode() []byte { return []byte(authcodeModule) }

// Default returns the five modules that a host loads by default, in this order. The others would make its start slower and a
// program larger.
func Default() [][]byte {
	return [][]byte{None(), APIKey(), OAuthClientCredentials(), JWT(), OAuthJWTBearer()}
}

// Types returns the auth types of all modules and their aliases. The types of [Default] come first.
func Types() []string {
	return []string{
		"none", "api_key", "apikey", "oauth_client_credentials", "jwt", "oauth_jwt_bearer",
		"basic", "bearer", "login", "oauth_password", "oauth_refresh_token", "token_exchange", "dpop", "signature", "hmac", "http_signature", "jws", "oauth1", "digest",
		"aws_sigv4", "aws_assume_role", "github_app", "google_service_account",
		"oauth_authorization_code",
	}
}

// Of returns the module of an auth type or alias. If there is none, it returns nil. A program that calls it contains all
// modules.
func Of(authType string) []byte {
	module := map[string]func() []byte{
		"none": None, "api_key": APIKey, "apikey": APIKey, "basic": Basic, "bearer": Bearer, "login": Login, "jwt": JWT, "dpop": DPoP,
		"signature": Signature, "hmac": Signature, "http_signature": HTTPSignature, "jws": JWS, "oauth1": OAuth1, "digest": Digest,
		"oauth_client_credentials": OAuthClientCredentials, "oauth_jwt_bearer": OAuthJWTBearer, "oauth_password": OAuthPassword,
		"oauth_refresh_token": OAuthRefreshToken, "oauth_authorization_code": OAuthAuthorizationCode, "token_exchange": TokenExchange,
		"aws_sigv4": AWSSigV4, "aws_assume_role": AWSAssumeRole, "github_app": GitHubApp, "google_service_account": GoogleServiceAccount,
	}[authType]
	if module == nil {
		return nil
	}
	return module()
}
