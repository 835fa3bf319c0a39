// Package abi is the plugin contract, version 1: the names, limits and documents that cross the border between
// the host and a guest. ABI.md says the same in prose, and a test keeps the two equal.
//
// Both sides import this package: the SDK compiled to WebAssembly, and the host. It uses nothing but the standard
// library's smallest packages, so that it costs a guest nothing.
package abi

// Version is the version of the contract. A plugin states in its description which one it was written for.
const Version = 1

// Modules that a guest may import from. Anything else is refused when the plugin is loaded.
const (
	ModuleEnv  = "extism:host/env"        // the Extism kernel
	ModuleUser = "extism:host/user"       // Keywright's host functions
	ModuleWASI = "wasi_snapshot_preview1" // clock, random bytes, stderr; nothing else behind it
)

// Exports of a plugin. Each has the type () → i32, where 0 is success.
const (
	ExportDescribe     = "describe"     // required; runs once, when the plugin is loaded
	ExportValidate     = "validate"     // optional; runs when a connector is loaded
	ExportAuthenticate = "authenticate" // required; runs for each request
)

// ExportReserved begins the names of exports that the host itself adds to a module. A plugin may not have one.
const ExportReserved = "kw:"

// Functions of the Extism kernel, in ModuleEnv. Offsets and lengths are i64.
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

// Host functions, in ModuleUser. Parameters and results are Extism offsets (i64) of memory blocks unless said.
const (
	UserBlockNew     = "block_new"     // (address i32, length i32): a block of these bytes of the guest's memory
	UserBlockRead    = "block_read"    // (block, address i32, room i32) → length of the block, of which as much is copied as there is room for
	UserTimeNow      = "time_now"      // () → i64, Unix seconds of the host's clock
	UserSecretGet    = "secret_get"    // (name) → sealed value
	UserTokenRequest = "token_request" // (TokenRequest) → TokenReply
	UserCacheGet     = "cache_get"     // (key) → value, or 0
	UserCacheSet     = "cache_set"     // (key, value, ttl_seconds i64)
	UserJWTSign      = "jwt_sign"      // (JWTRequest) → sealed compact JWT
	UserEncode       = "encode"        // (format, text) → text
	UserMAC          = "mac"           // (algorithm, key, data) → sealed bytes
	UserSign         = "sign"          // (field, data) → signature; grant sign_raw
	UserReveal       = "reveal"        // (sealed value) → its bytes; grant reveal
)

// Groups of host functions. A plugin names those it uses in its description; another group's function ends the call.
const (
	GroupSecret = "secret"
	GroupToken  = "token"
	GroupCache  = "cache"
	GroupSign   = "sign"
)

// Groups lists every group.
var Groups = []string{GroupSecret, GroupToken, GroupCache, GroupSign}

// GroupOf returns the group of a host function in ModuleUser, or "" for one that every plugin has.
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

// Grants are the rights that an operator may give one plugin beyond the default.
const (
	GrantSignRaw = "sign_raw" // sign: raw signatures over bytes that the plugin chose
	GrantReveal  = "reveal"   // reveal: the bytes of sealed values
)

// Grants lists every grant.
var Grants = []string{GrantSignRaw, GrantReveal}

// MaxFields is how many fields a description may have.
const MaxFields = 256

// Kinds of configuration fields.
const (
	KindString  = "string"
	KindURL     = "url"     // https, no user info, no fragment; the only place token_request may go to
	KindInteger = "integer" // a JSON integer, or a template that renders to a decimal integer
	KindBoolean = "boolean" // true or false, or a template that renders to one of them
	KindObject  = "object"  // values are templates at any depth, names are plain text
	KindKey     = "key"     // a signing key; never leaves the host
)

// Kinds lists every kind.
var Kinds = []string{KindString, KindURL, KindInteger, KindBoolean, KindObject, KindKey}

// Sinks are the places where a sealed value may be put.
const (
	SinkHeader = "header" // header names and values of the mutation
	SinkQuery  = "query"  // query names and values of the mutation
	SinkToken  = "token"  // URL, form and headers of a token request
	SinkClaim  = "claim"  // header and claims of a JWT
	SinkSign   = "sign"   // key of jwt_sign, mac and sign
)

// Sinks lists every sink.
var Sinks = []string{SinkHeader, SinkQuery, SinkToken, SinkClaim, SinkSign}

// Formats of encode.
const (
	FormatBase64    = "base64"    // RFC 4648 section 4, padded
	FormatBase64URL = "base64url" // RFC 4648 section 5, not padded
	FormatHex       = "hex"       // lower case
)

// Algorithms of mac.
const (
	MACSHA256 = "HS256" // HMAC with SHA-256
	MACSHA384 = "HS384" // HMAC with SHA-384
	MACSHA512 = "HS512" // HMAC with SHA-512
)

// Where a JWT goes: the one sink of what jwt_sign gives.
const (
	ForHeader = "header" // to the external API, RFC 6750
	ForToken  = "token"  // to the token endpoint, RFC 7523
)

// Sealed values: SealedPrefix and SealedLength characters of SealedAlphabet.
const (
	SealedPrefix   = "kw_"
	SealedLength   = 26
	SealedAlphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
)

// Description is the document that describe puts out: what the plugin is, and what its configuration looks like.
type Description struct {
	ABI       int      `json:"abi"`                 // Version
	Type      string   `json:"type"`                // the auth type, [a-z][a-z0-9_]*
	Aliases   []string `json:"aliases,omitempty"`   // deprecated names of the type
	Version   string   `json:"version"`             // of the plugin, semantic versioning
	Summary   string   `json:"summary"`             // one sentence
	Uses      []string `json:"uses,omitempty"`      // groups of host functions
	Anonymous bool     `json:"anonymous,omitempty"` // success without a credential is allowed
	Fields    []Field  `json:"fields,omitempty"`    // of the configuration
}

// Field describes one field of an auth type's configuration.
type Field struct {
	Name           string   `json:"name"`
	Kind           string   `json:"kind"`
	Required       bool     `json:"required,omitempty"`
	Sealed         bool     `json:"sealed,omitempty"`          // the whole value comes as one sealed value
	Sinks          []string `json:"sinks,omitempty"`           // where its sealed values may be put
	Enum           []string `json:"enum,omitempty"`            // the allowed values of a string
	Default        string   `json:"default,omitempty"`         // the value when the field is absent
	Minimum        *int64   `json:"minimum,omitempty"`         // of an integer
	AlgorithmField string   `json:"algorithm_field,omitempty"` // of a key: the field that names its algorithm
	Doc            string   `json:"doc,omitempty"`             // one sentence for the user
}

// Pair is a name and a value: a header, a query parameter or a form field. Order is kept.
type Pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Mutation is the document that authenticate puts out: what is to be changed in the outgoing request.
type Mutation struct {
	Headers []Pair `json:"headers,omitempty"` // set, replacing what is there
	Query   []Pair `json:"query,omitempty"`   // appended
}

// Request is the input of authenticate: the outgoing request, without Authorization, Cookie and Proxy-Authorization.
type Request struct {
	Method     string `json:"method"`
	URL        string `json:"url"`
	Headers    []Pair `json:"headers"`
	BodySHA256 string `json:"body_sha256,omitempty"` // hex; absent when a request with a body that can be read only once is explained
}

// TokenRequest is the parameter of token_request: a POST of an HTML form to a token endpoint, RFC 6749 section 3.2.
type TokenRequest struct {
	URL     string   `json:"url"` // a rendered configuration field of kind url
	Form    []Pair   `json:"form,omitempty"`
	Headers []Pair   `json:"headers,omitempty"`
	Extra   []string `json:"extra,omitempty"` // further string members of the answer that are wanted
}

// TokenReply is the result of token_request, RFC 6749 section 5. AccessToken, Scope and Extra are sealed values.
type TokenReply struct {
	Status      int               `json:"status"` // of HTTP
	AccessToken string            `json:"access_token,omitempty"`
	TokenType   string            `json:"token_type,omitempty"` // a registered name in lower case, or "other"
	ExpiresIn   *int64            `json:"expires_in,omitempty"` // seconds, 0 to 2³¹−1; absent when there is none that fits
	Scope       string            `json:"scope,omitempty"`
	Error       string            `json:"error,omitempty"` // a registered code, or "other"
	Extra       map[string]string `json:"extra,omitempty"`
}

// JWTRequest is the parameter of jwt_sign. Header and Claims are JSON objects, in whatever type a side holds one.
type JWTRequest[Object any] struct {
	Key      string   `json:"key"` // name of a configuration field of kind key
	For      string   `json:"for"` // ForHeader or ForToken
	Header   Object   `json:"header,omitempty"`
	Claims   Object   `json:"claims"`
	Integers []string `json:"integers,omitempty"` // top-level claims whose numeric strings become integers
}
