package contract

import "github.com/keywright/keywright/abi"

// Mutation is the output of [ExportAuthenticate]: the changes to the outgoing request.
type Mutation struct {
	// Headers are set. Each replaces the request's headers of the same name.
	Headers []abi.Pair `json:"headers,omitempty"`
	// Query parameters are appended to those of the request.
	Query []abi.Pair `json:"query,omitempty"`
	// Cookies are put into the request's Cookie header. Each replaces the cookies of the same name.
	Cookies []abi.Pair `json:"cookies,omitempty"`
	// Path replaces placeholders in the path of the request. Name is the placeholder, which the path must hold.
	Path []abi.Pair `json:"path,omitempty"`
	// Form members are appended to the body, which must be a form or empty.
	Form []abi.Pair `json:"form,omitempty"`
	// URL, if not empty, is one sealed value: an https URL without a query, whose host is one of the connector's hosts. Its scheme and host
	// take the place of the request's, and its path stands in front.
	URL string `json:"url,omitempty"`
	// Pass reports whether the host passes the API's answer on to the caller and does not send the request again. It is for
	// calls that run because of an answer of the API, and excludes all other members.
	Pass bool `json:"pass,omitempty"`
}

// Composition holds the texts for a template of [UserCompose] that are not in the outgoing request.
type Composition struct {
	// Headers and Query are changes, as in a [Mutation]. The text is that of the request with them.
	Headers []abi.Pair `json:"headers,omitempty"`
	Query   []abi.Pair `json:"query,omitempty"`
	// Form has members that are added to the body, as in a [Mutation].
	Form []abi.Pair `json:"form,omitempty"`
	// Values are texts that the template names as {NAME}.
	Values []abi.Pair `json:"values,omitempty"`
	// Later asks for a reference to the text in place of the text. A guest that gets to know nothing else of its request need not run for
	// the next one: the host repeats the calls of compose, digest, mac and encode that it has made, see [Env].
	Later bool `json:"later,omitempty"`
}

// Request is the input of [ExportAuthenticate]: the outgoing request.
type Request struct {
	Method string `json:"method"`
	// URL has the host that the API sees in the request's Host.
	URL string `json:"url"`
	// Headers are the request's headers without Authorization, Cookie and Proxy-Authorization.
	Headers []abi.Pair `json:"headers"`
	// ContentLength is the length of the body in bytes. It is absent if that is not known.
	ContentLength *int64 `json:"content_length,omitempty"`
}

// ConsentRequest is the output of [ExportConsent]: the authorization request (RFC 6749 section 4.1.1) that a browser sends. It
// may hold no sealed value. The host adds the parameters of [ConsentParameters].
type ConsentRequest struct {
	// URL is the rendered value of a configuration field of kind [abi.KindURL], exactly as config_get returned it.
	URL string `json:"url"`
	// Query parameters are appended to those of the URL.
	Query []abi.Pair `json:"query,omitempty"`
	// Issuer is the identifier of the authorization server. If it is not empty, an iss that comes back must be equal to it
	// (RFC 9207).
	Issuer string `json:"issuer,omitempty"`
	// IssRequired reports whether an answer without iss is refused.
	IssRequired bool `json:"iss_required,omitempty"`
	// CodeParameter is the name of the parameter that has the code when the browser comes back. If it is empty, it is code.
	CodeParameter string `json:"code_parameter,omitempty"`
	// NoPKCE reports whether the host leaves PKCE (RFC 7636) out.
	NoPKCE bool `json:"no_pkce,omitempty"`
	// Push, if not nil, has the host send the request to the authorization server itself. The browser gets no parameters then but
	// client_id and the server's request_uri (RFC 9126).
	Push *Push `json:"push,omitempty"`
}

// Push says how an authorization request is pushed. Sealed values may stand in it, with the sink [SinkToken].
type Push struct {
	// URL is the pushed authorization request endpoint: the rendered value of a configuration field, like [Exchange].URL.
	URL string `json:"url"`
	// Form authenticates the client. Its parameters replace those of the same name in Query.
	Form []abi.Pair `json:"form,omitempty"`
	// Headers are those of the request.
	Headers []abi.Pair `json:"headers,omitempty"`
}

// ConsentParameters lists the parameters of an authorization request that the host alone sets.
var ConsentParameters = []string{
	"response_type", "response_mode", "redirect_uri", "state", "code_challenge", "code_challenge_method", "nonce",
}

// ConsentReply is the input of [ExportConnect]: the authorization response (RFC 6749 section 4.1.2), after the host has checked
// it.
type ConsentReply struct {
	// Code and CodeVerifier are sealed values with the sink [SinkToken]. Without PKCE, CodeVerifier is empty.
	Code         string `json:"code"`
	CodeVerifier string `json:"code_verifier"`
	// RedirectURI is the redirect_uri of the authorization request.
	RedirectURI string `json:"redirect_uri"`
}

// Exchange is the parameter of [UserExchange]: a request to a URL of the configuration.
type Exchange struct {
	// URL is the rendered value of a configuration field of kind [abi.KindURL], exactly as config_get returned it.
	URL string `json:"url"`
	// Path has segments that are appended to the path of the URL, percent-encoded.
	Path []string `json:"path,omitempty"`
	// Query parameters are appended to those of the URL.
	Query []abi.Pair `json:"query,omitempty"`
	// Method is GET, POST, PUT, PATCH or DELETE. If it is empty, it is POST.
	Method string `json:"method,omitempty"`
	// Headers are added to the request. A Content-Type is an error, because the host sets it.
	Headers []abi.Pair `json:"headers,omitempty"`
	// Form is the body, as application/x-www-form-urlencoded.
	Form []abi.Pair `json:"form,omitempty"`
	// JSON is the body, as application/json. Strings in it, at any depth, may hold sealed values. It excludes Form.
	JSON any `json:"json,omitempty"`
	// Answers are the names of the answers that the plugin wants, of [abi.Description].Answers. If it is empty, all are.
	Answers []string `json:"answers,omitempty"`
}

// ExchangeReply is the result of [UserExchange].
type ExchangeReply struct {
	// Status is the HTTP status.
	Status int `json:"status"`
	// Answers has the answers that were found. Integers and times are in decimal.
	Answers map[string]string `json:"answers,omitempty"`
}

// ChallengeReply is the result of [UserChallenge].
type ChallengeReply struct {
	// Status is the status of the API's answer to this request, if the call runs because of it. Otherwise it is absent.
	Status int `json:"status,omitempty"`
	// Answers has the answers that were found in it, and those of earlier answers that are kept.
	Answers map[string]string `json:"answers,omitempty"`
	// Count is the number of calls so far that got the kept answers, from 1. It is absent if there are none.
	Count int64 `json:"count,omitempty"`
	// ClockChange is the number of seconds by which [UserClockOffset] has changed since the first attempt called it. It is absent
	// if that is 0, and if there is no Status.
	ClockChange int64 `json:"clock_change,omitempty"`
}

// TokenRequest is the parameter of [UserTokenRequest]. The host sends it to a token endpoint as a POST of an HTML form, RFC
// 6749 section 3.2.
type TokenRequest struct {
	// URL is the rendered value of a configuration field of kind [abi.KindURL], exactly as config_get returned it.
	URL string `json:"url"`
	// Form is the body.
	Form []abi.Pair `json:"form,omitempty"`
	// Headers are added to the request. A Content-Type is an error, because the host sets it.
	Headers []abi.Pair `json:"headers,omitempty"`
	// Extra names further members of the answer that the reply should include. They must be strings.
	Extra []string `json:"extra,omitempty"`
}

// TokenReply is the result of [UserTokenRequest], RFC 6749 section 5.
type TokenReply struct {
	// Status is the HTTP status. It is 400 for a 2xx answer with an error and no access token.
	Status int `json:"status"`
	// AccessToken is a sealed value with the sinks [SinkHeader] and [SinkQuery]. It is absent if Status is not 2xx.
	AccessToken string `json:"access_token,omitempty"`
	// TokenType is a registered token type in lower case, or "other".
	TokenType string `json:"token_type,omitempty"`
	// ExpiresIn is the lifetime of the token in seconds, 0 to 2³¹−1. It is absent if the answer has no such value.
	ExpiresIn *int64 `json:"expires_in,omitempty"`
	// Scope is a sealed value with the sinks [SinkHeader], [SinkQuery] and [SinkToken].
	Scope string `json:"scope,omitempty"`
	// Error is a registered error code, or "other".
	Error string `json:"error,omitempty"`
	// Extra has the members that [TokenRequest].Extra names, as sealed values with the sinks of Scope.
	Extra map[string]string `json:"extra,omitempty"`
}

// JWTRequest is the parameter of [UserJWTSign]. Object is the Go type that a side uses for JSON objects.
type JWTRequest[Object any] struct {
	// Key is the name of a configuration field of kind [abi.KindKey].
	Key string `json:"key"`
	// For is the destination of the JWT: [ForHeader] or [ForToken].
	For string `json:"for"`
	// Header has further members of the JOSE header. The host sets alg, and typ if Header lacks it.
	Header Object `json:"header,omitempty"`
	// Claims is the payload.
	Claims Object `json:"claims"`
	// Integers names top-level claims. If such a claim is a numeric string, the host converts it to an integer and
	// discards the fraction.
	Integers []string `json:"integers,omitempty"`
}

// JWSRequest is the parameter of [UserJWSSign]. Object is the Go type that a side uses for JSON objects.
type JWSRequest[Object any] struct {
	// Key is the name of a configuration field of kind [abi.KindKey].
	Key string `json:"key"`
	// Header has further members of the JOSE header. The host sets alg, crit and b64.
	Header Object `json:"header,omitempty"`
	// Crit names members of the header that the recipient must understand, RFC 7515 section 4.1.11. The host adds b64 if Unencoded is
	// set.
	Crit []string `json:"crit,omitempty"`
	// Unencoded reports whether the payload is signed as it is, RFC 7797, and not in base64url.
	Unencoded bool `json:"unencoded,omitempty"`
	// Payload is the text that is signed. It may hold sealed values, such as that of the body.
	Payload string `json:"payload"`
	// Attached reports whether the JWS has its payload, which must be encoded and hold no sealed value.
	Attached bool `json:"attached,omitempty"`
	// Integers names members of the header. If such a member is a numeric string, the host converts it to an integer.
	Integers []string `json:"integers,omitempty"`
}
