// Package abi defines the plugin contract, version 1: the names, limits and JSON documents that the host and a guest
// exchange. ABI.md is the full specification, and a test keeps the two consistent.
//
// Both sides import this package: the host, and the SDK, which is compiled to WebAssembly. It imports nothing, so it adds
// no code to a guest beyond what the guest uses.
package abi

// Version is the version of the contract. A plugin states it in [Description].ABI.
const Version = 1

// Modules that a guest may import from. The host refuses a plugin that imports from any other.
const (
	// ModuleEnv is the Extism kernel.
	ModuleEnv = "extism:host/env"
	// ModuleUser has Keywright's host functions.
	ModuleUser = "extism:host/user"
	// ModuleWASI is WASI, preview 1. It offers the host's clock, random bytes and stderr, and nothing else.
	ModuleWASI = "wasi_snapshot_preview1"
)

// Exports of a plugin. Each has the type () → i32 and returns 0 on success.
const (
	// ExportDescribe is required. It runs once, when the plugin is loaded, and outputs a [Description].
	ExportDescribe = "describe"
	// ExportValidate is optional. It runs when a connector is loaded, and has no output.
	ExportValidate = "validate"
	// ExportAuthenticate is required. It runs for each request and outputs a [Mutation].
	ExportAuthenticate = "authenticate"
)

// ExportReserved is the prefix of the exports that the host adds to a module. No export of a plugin may begin with it.
const ExportReserved = "kw:"

// Functions of the Extism kernel, imported from [ModuleEnv]. Offsets and lengths are i64.
const (
	EnvInputLength  = "input_length"
	EnvInputLoadU8  = "input_load_u8"
	EnvInputLoadU64 = "input_load_u64"
	EnvInputOffset  = "input_offset"
	EnvOutputSet    = "output_set"
	EnvErrorSet     = "error_set"
	EnvConfigGet    = "config_get"
	EnvVarGet       = "var_get"
	EnvVarSet       = "var_set"
	EnvAlloc        = "alloc"
	EnvFree         = "free"
	EnvLength       = "length"
	EnvLengthUnsafe = "length_unsafe"
	EnvLoadU8       = "load_u8"
	EnvLoadU64      = "load_u64"
	EnvStoreU8      = "store_u8"
	EnvStoreU64     = "store_u64"
	EnvGetLogLevel  = "get_log_level"
	EnvLogTrace     = "log_trace"
	EnvLogDebug     = "log_debug"
	EnvLogInfo      = "log_info"
	EnvLogWarn      = "log_warn"
	EnvLogError     = "log_error"
)

// Host functions, imported from [ModuleUser]. Parameters and results are offsets (i64) of Extism memory blocks, unless
// another type is given.
const (
	// UserBlockNew is (address i32, length i32) → block. It returns a new block with these bytes of the guest's memory.
	UserBlockNew = "block_new"
	// UserBlockRead is (block, address i32, room i32) → length i64. It copies at most room bytes of a block to the address
	// in the guest's memory, and returns the length of the whole block.
	UserBlockRead = "block_read"
	// UserTimeNow is () → i64. It returns the time of the host's clock in Unix seconds.
	UserTimeNow = "time_now"
	// UserSecretGet is (name) → sealed value. It needs [GroupSecret].
	UserSecretGet = "secret_get"
	// UserTokenRequest is ([TokenRequest]) → [TokenReply]. It needs [GroupToken].
	UserTokenRequest = "token_request"
	// UserCacheGet is (key) → value, or offset 0 on a miss. It needs [GroupCache].
	UserCacheGet = "cache_get"
	// UserCacheSet is (key, value, ttl_seconds i64). It needs [GroupCache].
	UserCacheSet = "cache_set"
	// UserJWTSign is ([JWTRequest]) → sealed compact JWT. It needs [GroupSign].
	UserJWTSign = "jwt_sign"
	// UserEncode is (format, text) → encoded text, sealed if the text holds a sealed value.
	UserEncode = "encode"
	// UserMAC is (algorithm, key, data) → sealed bytes. It needs [GroupSign].
	UserMAC = "mac"
	// UserSign is (field, data) → signature, as plain bytes. It needs [GroupSign] and [GrantSignRaw].
	UserSign = "sign"
	// UserReveal is (sealed value) → its bytes. It needs [GrantReveal].
	UserReveal = "reveal"
)

// Groups of host functions. A plugin lists the groups that it uses in [Description].Uses. Calling a function of any other
// group ends the call.
const (
	GroupSecret = "secret"
	GroupToken  = "token"
	GroupCache  = "cache"
	GroupSign   = "sign"
)

// Groups lists every group.
var Groups = []string{GroupSecret, GroupToken, GroupCache, GroupSign}

// GroupOf returns the group of a function of [ModuleUser], or "" if every plugin may call the function.
func GroupOf(function string) string {
	switch function {
	case UserSecretGet:
		return GroupSecret
	case UserTokenRequest:
		return GroupToken
	case UserCacheGet, UserCacheSet:
		return GroupCache
	case UserJWTSign, UserMAC, UserSign:
		return GroupSign
	}
	return ""
}

// Grants are rights that an operator may give to one plugin. No plugin has one by default.
const (
	// GrantSignRaw allows [UserSign]: raw signatures of bytes that the plugin chooses.
	GrantSignRaw = "sign_raw"
	// GrantReveal allows [UserReveal]: reading the bytes of sealed values.
	GrantReveal = "reveal"
)

// Grants lists every grant.
var Grants = []string{GrantSignRaw, GrantReveal}

// MaxFields is the maximum number of fields of a description.
const MaxFields = 256

// Kinds of configuration fields.
const (
	KindString = "string"
	// KindURL is an https URL without user info and fragment. Token requests go to values of such fields only.
	KindURL = "url"
	// KindInteger is a JSON integer, or a template that renders to a decimal integer.
	KindInteger = "integer"
	// KindBoolean is true or false, or a template that renders to one of them.
	KindBoolean = "boolean"
	// KindObject is an object. Its values may be templates at any depth; its names are plain text.
	KindObject = "object"
	// KindKey is a signing key, or the secret of an HMAC. It never leaves the host.
	KindKey = "key"
)

// Kinds lists every kind.
var Kinds = []string{KindString, KindURL, KindInteger, KindBoolean, KindObject, KindKey}

// Sinks are the places that a sealed value may go to.
const (
	// SinkHeader stands for the names and values of the mutation's headers.
	SinkHeader = "header"
	// SinkQuery stands for the names and values of the mutation's query parameters.
	SinkQuery = "query"
	// SinkToken stands for the URL, form and headers of a token request.
	SinkToken = "token"
	// SinkClaim stands for the header and claims of a JWT.
	SinkClaim = "claim"
	// SinkSign stands for the key of jwt_sign, mac and sign.
	SinkSign = "sign"
)

// Sinks lists every sink.
var Sinks = []string{SinkHeader, SinkQuery, SinkToken, SinkClaim, SinkSign}

// Formats of [UserEncode].
const (
	FormatBase64    = "base64"    // RFC 4648 section 4, padded
	FormatBase64URL = "base64url" // RFC 4648 section 5, not padded
	FormatHex       = "hex"       // lower case
)

// Algorithms of [UserMAC].
const (
	MACSHA256 = "HS256" // HMAC with SHA-256
	MACSHA384 = "HS384" // HMAC with SHA-384
	MACSHA512 = "HS512" // HMAC with SHA-512
)

// Values of [JWTRequest].For. The value is also the only sink of the signed JWT.
const (
	ForHeader = "header" // sent to the external API, RFC 6750
	ForToken  = "token"  // sent to the token endpoint, RFC 7523
)

// A sealed value is SealedPrefix followed by SealedLength random characters of SealedAlphabet.
const (
	SealedPrefix   = "kw_"
	SealedLength   = 26
	SealedAlphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
)

// Description is the output of [ExportDescribe]. It describes an auth type and its configuration.
type Description struct {
	// ABI is the version of the contract that the plugin was written for: [Version].
	ABI int `json:"abi"`
	// Type is the name of the auth type, [a-z][a-z0-9_]*. The host refuses a name that is taken.
	Type string `json:"type"`
	// Aliases are deprecated names of the type.
	Aliases []string `json:"aliases,omitempty"`
	// Version is the version of the plugin, in semantic versioning.
	Version string `json:"version"`
	// Summary is one sentence for users.
	Summary string `json:"summary"`
	// Uses are the groups of host functions that the plugin calls, of [Groups].
	Uses []string `json:"uses,omitempty"`
	// Anonymous allows a successful call without a credential. If it is false, a mutation without a sealed value is an
	// error.
	Anonymous bool `json:"anonymous,omitempty"`
	// Fields are the fields of the configuration, at most [MaxFields].
	Fields []Field `json:"fields,omitempty"`
}

// Field describes one field of an auth type's configuration.
type Field struct {
	// Name is the name of the configuration's member, [A-Za-z][A-Za-z0-9_-]{0,63}.
	Name string `json:"name"`
	// Kind is one of [Kinds].
	Kind string `json:"kind"`
	// Required fields must be present and must not render to blank text.
	Required bool `json:"required,omitempty"`
	// Sealed passes the whole value to the plugin as one sealed value. Integers, booleans and strings with an Enum cannot
	// be sealed.
	Sealed bool `json:"sealed,omitempty"`
	// Sinks are the places that the field's sealed values may go to, of [Sinks].
	Sinks []string `json:"sinks,omitempty"`
	// Enum lists the allowed values of a string. If it is empty, every value is allowed.
	Enum []string `json:"enum,omitempty"`
	// Default is the value of an absent field. It is not a template and must not contain {{.
	Default string `json:"default,omitempty"`
	// Minimum is the smallest allowed value of an integer. If it is nil, there is none.
	Minimum *int64 `json:"minimum,omitempty"`
	// AlgorithmField is, for a field of kind [KindKey], the name of the field that holds the key's algorithm.
	AlgorithmField string `json:"algorithm_field,omitempty"`
	// Doc is one sentence for users.
	Doc string `json:"doc,omitempty"`
}

// Pair is the name and the value of a header, a query parameter or a form field. Lists of pairs keep their order.
type Pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Mutation is the output of [ExportAuthenticate]: the changes to the outgoing request.
type Mutation struct {
	// Headers are set. Each replaces the request's headers of the same name.
	Headers []Pair `json:"headers,omitempty"`
	// Query parameters are appended to those of the request.
	Query []Pair `json:"query,omitempty"`
}

// Request is the input of [ExportAuthenticate]: the outgoing request.
type Request struct {
	Method string `json:"method"`
	URL    string `json:"url"`
	// Headers are the request's headers without Authorization, Cookie and Proxy-Authorization.
	Headers []Pair `json:"headers"`
	// BodySHA256 is the SHA-256 of the body in hex. It is absent only if the request is being explained, not sent, and its
	// body can be read only once.
	BodySHA256 string `json:"body_sha256,omitempty"`
}

// TokenRequest is the parameter of [UserTokenRequest]. The host sends it to a token endpoint as a POST of an HTML form, RFC
// 6749 section 3.2.
type TokenRequest struct {
	// URL is the rendered value of a configuration field of kind [KindURL], exactly as config_get returned it.
	URL string `json:"url"`
	// Form is the body.
	Form []Pair `json:"form,omitempty"`
	// Headers are added to the request. A Content-Type is an error, because the host sets it.
	Headers []Pair `json:"headers,omitempty"`
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
	// Key is the name of a configuration field of kind [KindKey].
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
