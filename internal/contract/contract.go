// Package contract has what the host and a guest exchange and nobody else meets, of the plugin contract, version 1: exports, host
// functions, and their JSON documents. Package abi has the rest. ABI.md is the full specification, and a test keeps them consistent.
//
// Both sides import this package: the host, and the SDK, which is compiled to WebAssembly.
package contract

import "github.com/keywright/keywright/abi"

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
	// ExportDescribe is required. It runs once, when the plugin is loaded, and outputs an [abi.Description].
	ExportDescribe = "describe"
	// ExportValidate is optional. It runs when a connector is loaded, and has no output.
	ExportValidate = "validate"
	// ExportAuthenticate is required. It runs for each request and outputs a [Mutation].
	ExportAuthenticate = "authenticate"
	// ExportConsent runs when a user begins to give consent, and outputs a [ConsentRequest].
	// It also runs when a connector is loaded, with made-up secrets, so that a secret that a browser would see is found.
	ExportConsent = "consent"
	// ExportConnect runs when the user has come back with a code. Its input is a [ConsentReply], and
	// it has no output: the host keeps the answers with a state.
	ExportConnect = "connect"
	// ExportDisconnect is optional. It runs when a grant is taken back, to revoke it, and has no output.
	ExportDisconnect = "disconnect"
)

// Exports lists every export.
var Exports = []string{ExportDescribe, ExportValidate, ExportAuthenticate, ExportConsent, ExportConnect, ExportDisconnect}

// HasOutput reports whether an export must set an output.
func HasOutput(export string) bool {
	return export == ExportDescribe || export == ExportAuthenticate || export == ExportConsent
}

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
// another type is given. [GroupOf] has their groups, and [Env] what they do.
const (
	UserBlockNew     = "block_new"     // (address i32, length i32) → new block with these bytes of the guest's memory
	UserBlockRead    = "block_read"    // (block, address i32, room i32) → length i64 of the block; copies at most room bytes
	UserTimeNow      = "time_now"      // () → i64
	UserSecretGet    = "secret_get"    // (name) → sealed value
	UserTimeMillis   = "time_millis"   // () → i64
	UserClockOffset  = "clock_offset"  // () → i64
	UserRandom       = "random"        // (length i64) → text
	UserBody         = "body"          // () → sealed value
	UserBodyForm     = "body_form"     // () → list of [abi.Pair], or offset 0 if the body is not a form
	UserCompose      = "compose"       // (template, [Composition]) → text; the composition may be empty
	UserChallenge    = "challenge"     // () → [ChallengeReply]
	UserTokenRequest = "token_request" // ([TokenRequest]) → [TokenReply]
	UserExchange     = "exchange"      // ([Exchange]) → [ExchangeReply]
	UserCacheGet     = "cache_get"     // (key) → value, or offset 0 on a miss
	UserCacheSet     = "cache_set"     // (key, value, ttl_seconds i64)
	UserCacheDrop    = "cache_drop"    // (key) → i64: 1 if a new value may help, and otherwise 0
	UserCounter      = "counter"       // (floor i64) → i64, a number that only rises
	UserStateGet     = "state_get"     // (name) → sealed value, or offset 0 if the grant has no such state
	UserJWTSign      = "jwt_sign"      // ([JWTRequest]) → sealed compact JWT
	UserJWSSign      = "jws_sign"      // ([JWSRequest]) → sealed JWS, without its payload unless it is asked for
	UserEncode       = "encode"        // (format, text) → encoded text, sealed if the text holds a sealed value
	UserDecode       = "decode"        // (format, text) → bytes, sealed if the text holds a sealed value
	UserDigest       = "digest"        // (algorithm, data) → bytes, sealed if data holds a sealed value other than the body
	UserMAC          = "mac"           // (algorithm, key, data) → sealed bytes
	UserSignSealed   = "sign_sealed"   // (field, purpose, data) → signature, as sealed bytes
	UserPublicKey    = "public_key"    // (field, form) → text
	UserSign         = "sign"          // (field, data) → signature, as plain bytes; needs [abi.GrantSignRaw]
	UserReveal       = "reveal"        // (sealed value) → its bytes; needs [abi.GrantReveal]
)

// Groups of host functions. A plugin lists the groups that it uses in [Description].Uses. Calling a function of any other
// group ends the call.
const (
	GroupSecret = "secret"
	GroupToken  = "token"
	GroupCache  = "cache"
	GroupSign   = "sign"
	GroupBody   = "body"
	GroupState  = "state"
	GroupTurn   = "turn"
)

// Groups lists every group.
var Groups = []string{GroupSecret, GroupToken, GroupCache, GroupSign, GroupBody, GroupState, GroupTurn}

// GroupOf returns the group of a function of [ModuleUser], or "" if every plugin may call the function.
func GroupOf(function string) string {
	switch function {
	case UserSecretGet:
		return GroupSecret
	case UserTokenRequest, UserExchange:
		return GroupToken
	case UserCacheGet, UserCacheSet, UserCacheDrop:
		return GroupCache
	case UserJWTSign, UserJWSSign, UserMAC, UserSignSealed, UserPublicKey, UserSign:
		return GroupSign
	case UserBody, UserBodyForm:
		return GroupBody
	case UserStateGet:
		return GroupState
	case UserCounter:
		return GroupTurn
	}
	return ""
}

// Grants lists every grant.
var Grants = []string{abi.GrantSignRaw, abi.GrantReveal}

// MaxRandom is the maximum number of bytes that [UserRandom] returns, before they are written in hex.
const MaxRandom = 64

// Formats of [UserEncode]. [UserDecode] knows base64, base64url, base32 and hex, each with or without padding and in
// either case of letters where that matters not.
const (
	FormatBase64          = "base64"           // RFC 4648 section 4, padded
	FormatBase64URL       = "base64url"        // RFC 4648 section 5, not padded
	FormatBase64URLPadded = "base64url_padded" // RFC 4648 section 5, padded
	FormatBase32          = "base32"           // RFC 4648 section 6, padded
	FormatHex             = "hex"              // RFC 4648 section 8, lower case
	FormatHexUpper        = "hex_upper"        // RFC 4648 section 8, upper case
	FormatPercent         = "percent"          // RFC 3986 section 2.1, all but unreserved characters
	FormatForm            = "form"             // application/x-www-form-urlencoded, as RFC 6749 appendix B
	FormatQuoted          = "quoted"           // a quoted-string with its quotes, RFC 9110 section 5.6.4
	FormatLower           = "lower"            // with the ASCII letters in lower case
	FormatUpper           = "upper"            // with the ASCII letters in upper case
	FormatPathNormalized  = "path_normalized"  // a path without dot segments (RFC 3986 section 5.2.4) and empty segments
	FormatPathPercent     = "path_percent"     // a path whose segments are encoded as by percent
	FormatPathReencoded   = "path_reencoded"   // a path that is decoded, and then encoded as by path_percent
	FormatQuerySorted     = "query_sorted"     // a query whose parameters are decoded, encoded as by percent, and sorted
	FormatQueryJoined     = "query_joined"     // the same, with the values of a name in one parameter, joined by commas
	FormatQueryLines      = "query_lines"      // a line break, the name in lower case, a colon and the values for each name of a query, decoded and sorted
	FormatNonzero         = "nonzero"          // the text, or nothing for 0
)

// Algorithms of [UserDigest].
const (
	DigestMD5       = "md5"
	DigestSHA1      = "sha1"
	DigestSHA256    = "sha256"
	DigestSHA384    = "sha384"
	DigestSHA512    = "sha512"
	DigestSHA512256 = "sha512_256" // SHA-512/256
)

// Digests lists every algorithm of [UserDigest].
var Digests = []string{DigestMD5, DigestSHA1, DigestSHA256, DigestSHA384, DigestSHA512, DigestSHA512256}

// Algorithms of [UserMAC].
const (
	MACSHA1   = "HS1"   // HMAC with SHA-1
	MACSHA256 = "HS256" // HMAC with SHA-256
	MACSHA384 = "HS384" // HMAC with SHA-384
	MACSHA512 = "HS512" // HMAC with SHA-512
)

// SignRS1 is RSASSA-PKCS1-v1_5 with SHA-1, RFC 8812 section 2, for old protocols such as OAuth 1.0 (RFC 5849 section 3.4.3).
// A key with this algorithm signs for [PurposeMessage] only. The other algorithms of keys are those of JWS.
const SignRS1 = "RS1"

// Forms of [UserPublicKey].
const (
	PublicJWK        = "jwk"            // of a key: a JWK with its required members, RFC 7517
	PublicThumbprint = "jwk_thumbprint" // of a key: the thumbprint with SHA-256 in base64url, RFC 7638
	PublicX5T        = "x5t#S256"       // of a certificate: the SHA-256 of its DER in base64url, RFC 7515 section 4.1.8
	PublicX5C        = "x5c"            // of a certificate: the JSON array of the chain, RFC 7515 section 4.1.6
)

// Values of [JWTRequest].For. The value is also the only sink of the signed JWT.
const (
	ForHeader = "header" // sent to the external API, RFC 6750
	ForQuery  = "query"  // sent to the external API in the query
	ForToken  = "token"  // sent to the token endpoint, RFC 7523
)

// A sealed value is SealedPrefix followed by SealedLength random characters of SealedAlphabet.
const (
	SealedPrefix   = "kw_"
	SealedLength   = 26
	SealedAlphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
)

// Limits of an [abi.Description].
const (
	MaxFields       = 256 // fields
	MaxAliases      = 8   // aliases of a field
	MaxAbout        = 512 // bytes of Homepage, License, Obtain and PatternMessage, each
	MaxPattern      = 256 // bytes of the Pattern of a field
	MaxAnswers      = 16  // answers, separately of exchanges and of the challenge
	MaxPlainAnswers = 8   // of these, answers that are not sealed
	MaxStates       = 4   // states
	MaxEnum         = 32  // values in the enum of an answer
)

// Kinds lists every kind.
var Kinds = []string{abi.KindString, abi.KindURL, abi.KindInteger, abi.KindBoolean, abi.KindObject, abi.KindKey, abi.KindCertificate}

// Sinks are the places that a sealed value may go to.
const (
	SinkHeader = "header" // names and values of the mutation's headers, and values of its cookies
	SinkQuery  = "query"  // names and values of the mutation's query parameters
	SinkToken  = "token"  // URL, query, body and headers of a token request or another exchange
	SinkClaim  = "claim"  // header and claims of a JWT, header of a JWS
	SinkSign   = "sign"   // the key of jwt_sign, mac, sign_sealed and sign
	SinkDigest = "digest" // the data of digest, mac and sign_sealed, and the payload of jws_sign
	SinkPath   = "path"   // values of the mutation's path
	SinkBody   = "body"   // members of the form that the mutation adds to the body
	SinkURL    = "url"    // the mutation's URL
)

// Sinks lists every sink.
var Sinks = []string{SinkHeader, SinkQuery, SinkToken, SinkClaim, SinkSign, SinkDigest, SinkPath, SinkBody, SinkURL}

// Purposes of a key. A field of kind [abi.KindKey] lists them.
const (
	// PurposeJWT allows jwt_sign. It is the purpose of a key that lists none.
	PurposeJWT = "jwt"
	// PurposeHTTPSignature allows sign_sealed for a signature base, RFC 9421 section 2.5.
	PurposeHTTPSignature = "http_signature"
	// PurposeMessage allows sign_sealed for other data. Data that has the form of a JWS, of an SSH signature or of a
	// TLS handshake is refused.
	PurposeMessage = "message"
	// PurposeJWS allows jws_sign. A key with this purpose has no other, in any connector of the host.
	PurposeJWS = "jws"
)

// Purposes lists every purpose.
var Purposes = []string{PurposeJWT, PurposeHTTPSignature, PurposeMessage, PurposeJWS}

// Kinds of answers.
const (
	AnswerSealed  = "sealed"  // a text that the guest gets as a sealed value
	AnswerInteger = "integer" // an integer from 0 to 2³¹−1
	AnswerTime    = "time"    // a time in Unix seconds
	AnswerEnum    = "enum"    // one of the names that the description lists, or "other"
)

// Sources of answers, the prefixes of [abi.Answer].From.
const (
	FromJSON   = "json:"   // a JSON pointer into the body, RFC 6901
	FromXML    = "xml:"    // the local names of elements of the body, from the root, each behind a slash
	FromText   = "text:"   // all of the body, without the white space around it: a token alone
	FromForm   = "form:"   // a member of the body, application/x-www-form-urlencoded
	FromHeader = "header:" // a header
	FromCookie = "cookie:" // the value of a cookie that is set
	FromAuth   = "auth:"   // SCHEME/PARAMETER of WWW-Authenticate, RFC 9110 section 11.6.1
	FromInfo   = "info:"   // a parameter of Authentication-Info, RFC 9110 section 11.6.3
)
