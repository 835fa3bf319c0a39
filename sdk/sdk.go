// Package sdk is the Go SDK for Keywright plugins. A plugin implements one auth type, as a Go type with two methods:
//
//	package main
//
//	import "github.com/keywright/keywright/sdk"
//
//	func init() { sdk.Register(plugin{}) }
//
//	func main() {} // a reactor module never runs it
//
//	type plugin struct{}
//
//	func (plugin) Describe() sdk.Description                         { … }
//	func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error)    { … }
//
// The same code compiles to WebAssembly, which runs in the host's sandbox, and natively, to vet, debug and test it.
// Package hosttest runs each test both ways.
//
// # Sealed values
//
// A plugin never sees a credential. In place of a secret, a token or a signature it gets a sealed value: a string of fixed
// length that refers to the bytes. The plugin can concatenate it with other text. After the call, the host replaces it by
// the bytes. A sealed value may only be used where its sinks allow it, see [Field].Sinks. Anywhere else it ends the call.
//
// Operations on text see the reference and not the secret. So url.QueryEscape does nothing to a sealed value, and
// strings.ToUpper makes it invalid.
//
// # Errors
//
// If a host function fails, it ends the call and does not return. So most methods of [Call] return no error.
//
// # Sandbox
//
// The only clock is [Call.Now]. There is no randomness and no environment. The build refuses time.Now, math/rand,
// crypto/rand and os.Getenv.
package sdk

import (
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/internal/contract"
)

// Plugin is an auth type.
type Plugin interface {
	// Describe returns the name of the auth type, the fields of its configuration and the host functions that it uses. It
	// must always return the same. It runs in [Register], which in a module mostly means while the module is compiled.
	Describe() Description
	// Authenticate returns the changes to one outgoing request. If it returns an error, the request is not sent, and the
	// operator sees the error's text. A text that holds a sealed value ends the call.
	Authenticate(c *Call) (Mutation, error)
}

// Validator is implemented by a [Plugin] whose configuration has rules that [Description].Fields cannot express.
type Validator interface {
	// Validate returns every problem with the configuration of a connector. It runs when the connector is loaded.
	Validate(c *Config) []Problem
}

// Problem is an error in a field of the configuration.
type Problem struct {
	// Field is the name of the field, or the path of a member of an object, such as claims.exp.
	Field string
	// Message says what is wrong and what to do, in one line. It follows the field's name: "is fixed by the host, remove it".
	Message string
}

// Description describes an auth type and its configuration. ABI.md has the rules in full.
type Description struct {
	// ABI is the version of the contract: the constant [ABI].
	ABI int
	// Type is the name of the auth type, [a-z][a-z0-9_]*.
	Type string
	// Aliases are deprecated names of the type. The host accepts them with a warning.
	Aliases []string
	// Version is the version of the plugin, such as 1.0.0 (semantic versioning).
	Version string
	// Summary is one sentence for users.
	Summary string
	// Homepage is the https URL of a page about the plugin, and License the SPDX expression of its licence. Both may be empty, and have at
	// most 512 bytes.
	Homepage, License string
	// Uses are the groups of host functions that the plugin calls: [UsesSecret], [UsesToken], [UsesCache], [UsesSign],
	// [UsesBody], [UsesState], [UsesTurn].
	// Calling a function of any other group ends the call.
	Uses []Group
	// Anonymous allows a successful call without a credential. If it is false, a mutation without a sealed value is an
	// error.
	Anonymous bool
	// Fields are the fields of the configuration, at most 256. The host refuses a configuration with any other field.
	Fields []Field
	// Answers are the parts of answers of [Call.Exchange] that the plugin gets, at most 16.
	Answers []Answer
	// State has the texts that the host keeps for good, at most 4. Together they are a grant. See [Call.State].
	State []State
	// Challenge is set if the plugin reads answers of the API.
	Challenge *Challenge
	// Consent reports whether users give consent to the plugin, which is a [Consenter] then.
	Consent bool
}

// State describes a text that may be used once, such as a refresh token that rotates. The host keeps it in a store of state,
// which outlives the process and which several hosts may share.
type State struct {
	// Name is the name of the state, [A-Za-z][A-Za-z0-9_-]{0,63}.
	Name string
	// Seed is the name of a sealed field of kind [String] whose value is the state at first. If the field gets another value,
	// that begins a new grant.
	Seed string
}

// Answer describes a part of an answer. The plugin never gets a text that it can read.
type Answer struct {
	// Name is the name of the answer, [A-Za-z][A-Za-z0-9_-]{0,63}.
	Name string
	// From is the place of the value: json:/POINTER (RFC 6901), xml:/ELEMENT/ELEMENT (local names, from the root), form:NAME,
	// header:NAME, cookie:NAME, auth:SCHEME/PARAMETER (of WWW-Authenticate) or info:PARAMETER (of Authentication-Info).
	From string
	// Alternative is another place, for an answer of [Call.Exchange] that has nothing at From.
	Alternative string
	// FromField is the name of a field of kind [String] whose value is used in place of From.
	FromField string
	// Kind is [AnswerSealed], [AnswerInteger], [AnswerTime] or [AnswerEnum].
	Kind AnswerKind
	// Sinks are the places that the sealed value may go to.
	Sinks []Sink
	// Derived are the places that a digest, MAC or signature made with the value may go to. If it is empty, these are Sinks.
	Derived []Sink
	// Enum lists the names of an [AnswerEnum]. Any other value is "other".
	Enum []string
	// Pattern is a pattern like that of a [Field], for the whole text of a sealed answer. Any other text, and one of more than 1 KiB,
	// counts as absent. Answers of one place have the same, and a state may not have one.
	Pattern string
	// Required ends the call if the answer of an exchange has a status below 400 and lacks the value.
	Required bool
	// State is the name of the state whose value the answer becomes. It is for [AnswerSealed] answers of [Call.Exchange] only.
	State string
	// Keep reports whether later calls get the value as well. It is for answers of a [Challenge] only. A body is read only of an
	// answer with one of the Statuses, and headers of any.
	Keep bool
}

// AnswerKind is the kind of an [Answer].
type AnswerKind string

// Kinds of answers.
const (
	AnswerSealed  AnswerKind = contract.AnswerSealed  // a text, as a sealed value
	AnswerInteger AnswerKind = contract.AnswerInteger // an integer from 0 to 2³¹−1
	AnswerTime    AnswerKind = contract.AnswerTime    // a time in Unix seconds
	AnswerEnum    AnswerKind = contract.AnswerEnum    // one of a few names
)

// Challenge describes how a plugin takes part in what the API answers. If it is set, the host drops no token by itself
// after one of the Statuses, except after a 401 to a request that cannot be repeated.
type Challenge struct {
	// Statuses are the statuses, 400 to 499, after which the host runs Authenticate once more, and repeats the request.
	Statuses []int
	// Answers are the parts of the API's answers that the plugin gets from [Call.Challenge].
	Answers []Answer
	// Keep is the time for which answers with Keep stay available to later calls, in whole seconds.
	Keep time.Duration
	// OnlyIf limits the challenge to connectors for which one of the conditions holds. Others are as without one, and [Call.Challenge]
	// returns nothing. If it is empty, the challenge is for all.
	OnlyIf []Condition
}

// Field describes a field of the configuration.
type Field struct {
	// Name is the name of the configuration's member, [A-Za-z][A-Za-z0-9_-]{0,63}.
	Name string
	// Aliases are deprecated names of the member, at most 8, so that a field can be renamed. The host accepts them with a warning.
	// The plugin uses Name.
	Aliases []string
	// Kind is [String], [URL], [Integer], [Boolean], [Object], [Key] or [Certificate].
	Kind FieldKind
	// Required fields must be present and must not render to blank text.
	Required bool
	// RequiredIf makes the field required if any of the conditions holds. The host checks it, because Validate does not see
	// whether a sealed field is present.
	RequiredIf []Condition
	// OnlyIf refuses the field unless one of the conditions holds, since it would have no effect. If it is empty, the field is
	// always allowed.
	OnlyIf []Condition
	// Sealed passes the whole value to the plugin as one sealed value, even if it holds no secret. An Integer, a Boolean
	// and a String with an Enum cannot be sealed.
	Sealed bool
	// Sinks are the places that the field's sealed values may go to: [ToHeader], [ToQuery], [ToToken], [ToClaim], [ToSign],
	// [ToDigest], [ToPath], [ToBody], [ToURL].
	Sinks []Sink
	// Derived are the places that a digest, MAC or signature made with the field's sealed values may go to. If it is empty,
	// these are Sinks.
	Derived []Sink
	// Enum lists the allowed values of a String. If it is empty, every value is allowed.
	Enum []string
	// Default is the value of an absent field. It is not a template.
	Default string
	// Minimum is the smallest allowed value of an Integer, see [Limit]. If it is nil, there is none.
	Minimum *int64
	// Maximum is the largest allowed value of an Integer, see [Limit]. If it is nil, there is none.
	Maximum *int64
	// Pattern is a regular expression that the whole text of a String without an Enum must match, such as `[a-z][a-z0-9-]*`. The
	// host checks it, also in texts from templates and in sealed ones. See [abi.Field] for its syntax, which has no anchors. If it is
	// empty, every text is allowed.
	Pattern string
	// PatternMessage says what is wrong with a text that does not match Pattern, and what to write, such as "has a space: write one
	// word". It follows the name of the field, as Message does in a [Problem]. Every Pattern has one.
	PatternMessage string
	// AlgorithmField is, for a Key, the name of the field that holds its algorithm. That field is a String with an Enum, such
	// as [Algorithms].
	AlgorithmField string
	// Algorithms maps values of the Enum of an algorithm field to the algorithms that they stand for, such as
	// [HTTPSignatureAlgorithms]. A value that is not there stands for the algorithm of that name.
	Algorithms []Pair
	// EncodingField is, for a Key, the name of the field that says how the secret of an HMAC is written: a String whose Enum is
	// [SecretEncodings]. Without it, the secret is the bytes of the text. Other keys ignore it.
	EncodingField string
	// Purposes are the uses of a Key: [ForJWT], [ForHTTPSignature], [ForMessage], or [ForJWS] alone. If it is empty, the key signs JWTs only.
	Purposes []Purpose
	// Generate reports whether the host makes a key of its own if this field, a Key, is absent.
	Generate bool
	// Escape lists the characters that are special to the plugin in the texts of a String or an Object, such as `\{` if it
	// replaces placeholders like {time}. In values of template expressions that come in plain, the host writes a backslash before
	// each of them, so that a user's name is never taken for a placeholder. Escape must have the backslash.
	Escape string
	// Composed reports whether the texts of a String or an Object are templates of [Call.Compose]. The host checks them when a connector is
	// loaded. In values of template expressions that come in plain, it writes a backslash before \ and {, as with Escape.
	Composed bool
	// Values are the names of the values that such templates get. A name that ends in .* stands for the members of an Object, such as
	// parts.*, see [Call.Parts].
	Values []string
	// Suggested lists usual values, for users. It is the place for well-known URLs, since a URL has no default.
	Suggested []string
	// Doc is one sentence for users.
	Doc string
	// Obtain says how users get the value, such as the page of the API's settings where keys are made. It has at most 512 bytes.
	Obtain string
}

// Condition holds if a field has one of some values, if it is present, or if it is absent.
type Condition struct {
	// Field is the name of another field.
	Field string
	// Values are the values, of that field's Enum. In a RequiredIf, the field may have no RequiredIf itself. If Values is empty,
	// the condition holds if the field is present.
	Values []string
	// Absent makes the condition hold if the field is absent. There are no Values then.
	Absent bool
}

// Mutation is the set of changes to a request.
type Mutation struct {
	// Headers are set. Each replaces the request's headers of the same name.
	Headers []Pair
	// Query parameters are appended to those of the URL. The host percent-encodes them.
	Query []Pair
	// Cookies are put into the Cookie header. Each replaces the cookies of the same name.
	Cookies []Pair
	// Path replaces placeholders in the path of the URL, which must hold them. Name is the placeholder. The host
	// percent-encodes the value.
	Path []Pair
	// Form members are appended to the body, which must be a form or empty.
	Form []Pair
	// URL, if not empty, is one sealed value with the sink [ToURL]: the https URL that an answer names for requests. Its scheme and host take
	// the place of the request's, and its path stands in front. The connector's hosts must list the host.
	URL string
	// Pass passes the API's answer on to the caller, in place of another attempt. It is for calls whose [Challenged] has a
	// Status, and excludes all other members.
	Pass bool
}

// Pair is the name and the value of a header, a query parameter or a form field. Both may hold sealed values.
type Pair struct{ Name, Value string }

// ABI is the version of the contract that this SDK implements, for [Description].ABI.
const ABI = abi.Version

// FieldKind is the kind of a [Field].
type FieldKind string

// Kinds of fields.
const (
	String  FieldKind = abi.KindString  // a text
	URL     FieldKind = abi.KindURL     // an https URL; only such fields can be the URL of a token request
	Integer FieldKind = abi.KindInteger // an integer
	Boolean FieldKind = abi.KindBoolean // true or false
	Object  FieldKind = abi.KindObject  // a JSON object whose values may be templates at any depth
	Key     FieldKind = abi.KindKey     // a signing key, or the secret of an HMAC, which never leaves the host
	// Certificate is an X.509 certificate in PEM, with its chain. [Call.PublicKey] returns its thumbprint.
	Certificate FieldKind = abi.KindCertificate
)

// Sink is a place that a sealed value may go to.
type Sink string

// Sinks.
const (
	ToHeader Sink = contract.SinkHeader // headers of the mutation
	ToQuery  Sink = contract.SinkQuery  // query parameters of the mutation
	ToToken  Sink = contract.SinkToken  // URL, body and headers of a token request or another exchange
	ToClaim  Sink = contract.SinkClaim  // header and claims of a JWT
	ToSign   Sink = contract.SinkSign   // keys of signatures and MACs
	ToDigest Sink = contract.SinkDigest // data of digests, MACs and signatures
	ToPath   Sink = contract.SinkPath   // values in the path of the mutation
	ToBody   Sink = contract.SinkBody   // form members of the mutation
	ToURL    Sink = contract.SinkURL    // URL of the mutation
)

// Group is a group of host functions, for [Description].Uses.
type Group string

// Groups of host functions.
const (
	UsesSecret Group = contract.GroupSecret // Call.Secret
	UsesToken  Group = contract.GroupToken  // Call.RequestToken and Call.Exchange
	UsesCache  Group = contract.GroupCache  // Call.Cached, Call.Cache and Call.Drop
	UsesSign   Group = contract.GroupSign   // Call.SignJWT, Call.SignAssertion, Call.SignJWS, Call.MAC, Call.SignSealed, Call.PublicKey and Call.Sign
	UsesBody   Group = contract.GroupBody   // Call.Body and Call.BodyForm
	UsesState  Group = contract.GroupState  // Call.State
	UsesTurn   Group = contract.GroupTurn   // Call.Counter
)

// Fields returns the fields of all lists, for [Description].Fields.
func Fields(lists ...[]Field) []Field {
	n := 0
	for _, list := range lists {
		n += len(list)
	}
	all := make([]Field, 0, n) // not grown by append, so that TinyGo can run it while it compiles, see Register
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// Limit returns a pointer to n, for [Field].Minimum and [Field].Maximum.
func Limit(n int64) *int64 { return &n }

// Algorithms returns the signature algorithms that the host supports, for the Enum of an algorithm field: those of RFC 7518
// section 3.1 except none, and EdDSA (RFC 8037 section 3.1).
func Algorithms() []string {
	return []string{"HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA"}
}

// HTTPSignatureAlgorithms returns the algorithms of RFC 9421 section 3.3 with the names of RFC 7518 and RFC 8037 for the same
// signatures, for the Algorithms of an algorithm field.
func HTTPSignatureAlgorithms() []Pair {
	return []Pair{
		{"hmac-sha256", "HS256"},
		{"ed25519", "EdDSA"},
		{"ecdsa-p256-sha256", "ES256"},
		{"ecdsa-p384-sha384", "ES384"},
		{"rsa-pss-sha512", "PS512"},
		{"rsa-v1_5-sha256", "RS256"},
	}
}

// Names returns the names of pairs, in their order, for an Enum.
func Names(pairs []Pair) []string {
	names := make([]string, len(pairs))
	for i, p := range pairs {
		names[i] = p.Name
	}
	return names
}

// SecretEncodings returns the ways in which the secret of an HMAC may be written, for the Enum of an [Field].EncodingField. All but
// text are formats of [Call.Decode].
func SecretEncodings() []string { return []string{"text", "base64", "base64url", "base32", "hex"} }

// Header returns a mutation that sets one header.
func Header(name, value string) Mutation {
	return Mutation{Headers: []Pair{{Name: name, Value: value}}}
}

// Bearer returns a mutation that sends a token in the Authorization header, RFC 6750 section 2.1.
func Bearer(token string) Mutation { return Header("Authorization", "Bearer "+token) }

// Place returns a mutation that sends pairs in a place: header, query, path, cookie or form. It is for a field whose Enum has such
// places.
func Place(place string, pairs ...Pair) Mutation {
	switch place {
	case "query":
		return Mutation{Query: pairs}
	case "path":
		return Mutation{Path: pairs}
	case "cookie":
		return Mutation{Cookies: pairs}
	case "form":
		return Mutation{Form: pairs}
	}
	return Mutation{Headers: pairs}
}

// Present returns those of the pairs that have a value.
func Present(pairs []Pair) []Pair {
	present := make([]Pair, 0, len(pairs))
	for _, p := range pairs {
		if p.Value != "" {
			present = append(present, p)
		}
	}
	return present
}
