// Package sdk is what a Keywright plugin imports: an auth type is a type with two methods.
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
// The same code compiles to WebAssembly, where it runs in the host's sandbox, and natively, where it can be vetted,
// debugged and tested: package hosttest runs each test both ways.
//
// A plugin never sees a credential. What the configuration takes from secrets, and what token endpoints and signatures
// give, comes as sealed values: short references (strings) that may be put together with other text and put into the
// places that the field's sinks name. The host puts the bytes in after the call.
//
// A host function either succeeds or ends the call, so that most methods of [Call] have no error to check.
//
// There is no clock but [Call.Now], no randomness and no environment: the build refuses time.Now, math/rand, crypto/rand and
// os.Getenv. A reference has no character that url.QueryEscape or strings.ToUpper would change, and none of the secret's.
package sdk

import "github.com/keywright/keywright/abi"

// Plugin is an auth type.
type Plugin interface {
	// Describe says what the plugin is and what its configuration looks like. It runs once, when the plugin is loaded,
	// and must always return the same.
	Describe() Description
	// Authenticate says what is to be changed in one outgoing request. Its error goes to the operator, and nothing is
	// sent then; a text that holds a sealed value ends the call.
	Authenticate(c *Call) (Mutation, error)
}

// Validator is implemented by a Plugin whose configuration has rules that the description of its fields cannot express.
type Validator interface {
	// Validate runs when a connector is loaded, and returns what is wrong with its configuration.
	Validate(c *Config) []Problem
}

// Problem is something wrong with a field of the configuration.
type Problem struct {
	Field   string // its name; a member of an object is "claims.exp"
	Message string // what is wrong and what to do, in one line
}

// Description describes an auth type and its configuration. ABI.md has its rules in full.
type Description struct {
	// ABI is the constant [ABI].
	ABI int
	// Type is the name of the auth type: [a-z][a-z0-9_]*.
	Type string
	// Aliases are deprecated names of the type. A connector may use them, and the host warns.
	Aliases []string
	// Version is that of the plugin, such as 1.0.0 (semantic versioning).
	Version string
	// Summary is one sentence for users.
	Summary string
	// Uses are the groups of host functions that the plugin calls: [UsesSecret], [UsesToken], [UsesCache], [UsesSign]. A call of
	// a function of another group fails.
	Uses []string
	// Anonymous allows success without a credential. Otherwise a mutation has to hold a sealed value.
	Anonymous bool
	// Fields are those of the configuration, 256 at most. A configuration with any other field is refused.
	Fields []Field
}

// Field describes a field of the configuration.
type Field struct {
	// Name is that of the member: [A-Za-z][A-Za-z0-9_-]*.
	Name string
	// Kind is [String], [URL], [Integer], [Boolean], [Object] or [Key].
	Kind string
	// Required refuses a configuration without the field.
	Required bool
	// Sealed hands the whole value to the plugin as one sealed value, whether or not it holds a secret.
	Sealed bool
	// Sinks are the places where a sealed value of the field may be put: [ToHeader], [ToQuery], [ToToken], [ToClaim], [ToSign].
	Sinks []string
	// Enum are the values that a String may have. Empty: any.
	Enum []string
	// Default is the value when the field is absent. It is no template.
	Default string
	// Minimum is the least value of an Integer. Nil: any. [AtLeast] makes one.
	Minimum *int64
	// AlgorithmField is, of a Key, the name of the field that says its algorithm.
	AlgorithmField string
	// Doc is one sentence for users.
	Doc string
}

// Mutation is the change of a request.
type Mutation struct {
	// Headers are set, and replace those of the request.
	Headers []Pair
	// Query is appended to the query of the URL.
	Query []Pair
}

// Pair is a name and a value: a header, a query parameter or a form field. Both may hold sealed values.
type Pair struct {
	Name  string
	Value string
}

// ABI is the version of the contract that this SDK implements; it goes into the Description.
const ABI = abi.Version

// Kinds of fields.
const (
	String  = abi.KindString
	URL     = abi.KindURL
	Integer = abi.KindInteger
	Boolean = abi.KindBoolean
	Object  = abi.KindObject
	Key     = abi.KindKey
)

// Sinks of fields.
const (
	ToHeader = abi.SinkHeader
	ToQuery  = abi.SinkQuery
	ToToken  = abi.SinkToken
	ToClaim  = abi.SinkClaim
	ToSign   = abi.SinkSign
)

// Groups of host functions, for the Description's Uses.
const (
	UsesSecret = abi.GroupSecret
	UsesToken  = abi.GroupToken
	UsesCache  = abi.GroupCache
	UsesSign   = abi.GroupSign
)

// AtLeast is a minimum for an integer field.
func AtLeast(n int64) *int64 { return &n }

// Algorithms returns the names of the signature algorithms that an algorithm field may have: RFC 7518 section 3.1 and
// RFC 8037 section 3.1, without none.
func Algorithms() []string {
	return []string{
		"HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA",
	}
}

// Header is a mutation that sets one header.
func Header(name, value string) Mutation {
	return Mutation{Headers: []Pair{{Name: name, Value: value}}}
}

// Query is a mutation that appends one query parameter.
func Query(name, value string) Mutation {
	return Mutation{Query: []Pair{{Name: name, Value: value}}}
}

// Bearer is a mutation that sends a token in the Authorization header, RFC 6750 section 2.1.
func Bearer(token string) Mutation {
	return Header("Authorization", "Bearer "+token)
}
