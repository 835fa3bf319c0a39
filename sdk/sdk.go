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

import "github.com/keywright/keywright/abi"

// Plugin is an auth type.
type Plugin interface {
	// Describe returns the name of the auth type, the fields of its configuration and the host functions that it uses. It
	// runs once, when the plugin is loaded, and must always return the same.
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
	// Uses are the groups of host functions that the plugin calls: [UsesSecret], [UsesToken], [UsesCache], [UsesSign].
	// Calling a function of any other group ends the call.
	Uses []string
	// Anonymous allows a successful call without a credential. If it is false, a mutation without a sealed value is an
	// error.
	Anonymous bool
	// Fields are the fields of the configuration, at most 256. The host refuses a configuration with any other field.
	Fields []Field
}

// Field describes a field of the configuration.
type Field struct {
	// Name is the name of the configuration's member, [A-Za-z][A-Za-z0-9_-]{0,63}.
	Name string
	// Kind is [String], [URL], [Integer], [Boolean], [Object] or [Key].
	Kind string
	// Required fields must be present and must not render to blank text.
	Required bool
	// Sealed passes the whole value to the plugin as one sealed value, even if it holds no secret. An Integer, a Boolean
	// and a String with an Enum cannot be sealed.
	Sealed bool
	// Sinks are the places that the field's sealed values may go to: [ToHeader], [ToQuery], [ToToken], [ToClaim], [ToSign].
	Sinks []string
	// Enum lists the allowed values of a String. If it is empty, every value is allowed.
	Enum []string
	// Default is the value of an absent field. It is not a template.
	Default string
	// Minimum is the smallest allowed value of an Integer, see [AtLeast]. If it is nil, there is none.
	Minimum *int64
	// AlgorithmField is, for a Key, the name of the field that holds its algorithm. That field is a String with an Enum, such
	// as [Algorithms].
	AlgorithmField string
	// Doc is one sentence for users.
	Doc string
}

// Mutation is the set of changes to a request.
type Mutation struct {
	// Headers are set. Each replaces the request's headers of the same name.
	Headers []Pair
	// Query parameters are appended to those of the URL. The host percent-encodes them.
	Query []Pair
}

// Pair is the name and the value of a header, a query parameter or a form field. Both may hold sealed values.
type Pair struct {
	Name  string
	Value string
}

// ABI is the version of the contract that this SDK implements, for [Description].ABI.
const ABI = abi.Version

// Kinds of fields, for [Field].Kind.
const (
	String  = abi.KindString  // a text
	URL     = abi.KindURL     // an https URL; only such fields can be the URL of a token request
	Integer = abi.KindInteger // an integer
	Boolean = abi.KindBoolean // true or false
	Object  = abi.KindObject  // a JSON object whose values may be templates at any depth
	Key     = abi.KindKey     // a signing key, or the secret of an HMAC, which never leaves the host
)

// Sinks, for [Field].Sinks.
const (
	ToHeader = abi.SinkHeader // headers of the mutation
	ToQuery  = abi.SinkQuery  // query parameters of the mutation
	ToToken  = abi.SinkToken  // URL, form and headers of a token request
	ToClaim  = abi.SinkClaim  // header and claims of a JWT
	ToSign   = abi.SinkSign   // keys of signatures and MACs
)

// Groups of host functions, for [Description].Uses.
const (
	UsesSecret = abi.GroupSecret // Call.Secret
	UsesToken  = abi.GroupToken  // Call.RequestToken
	UsesCache  = abi.GroupCache  // Call.Cached and Call.Cache
	UsesSign   = abi.GroupSign   // Call.SignJWT, Call.SignAssertion, Call.MAC and Call.Sign
)

// AtLeast returns a pointer to n, for [Field].Minimum.
func AtLeast(n int64) *int64 { return &n }

// Algorithms returns the signature algorithms that the host supports, for the Enum of an algorithm field: those of RFC 7518
// section 3.1 except none, and EdDSA (RFC 8037 section 3.1).
func Algorithms() []string {
	return []string{
		"HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA",
	}
}

// Header returns a mutation that sets one header.
func Header(name, value string) Mutation {
	return Mutation{Headers: []Pair{{Name: name, Value: value}}}
}

// Query returns a mutation that appends one query parameter.
func Query(name, value string) Mutation {
	return Mutation{Query: []Pair{{Name: name, Value: value}}}
}

// Bearer returns a mutation that sends a token in the Authorization header, RFC 6750 section 2.1.
func Bearer(token string) Mutation {
	return Header("Authorization", "Bearer "+token)
}
