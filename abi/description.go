package abi

import "strings"

// Description is the output of the export describe. It describes an auth type and its configuration.
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
	// Homepage is the https URL of a page about the plugin, for users. License is the SPDX expression of its licence. Each is empty, or
	// at most 512 bytes of printable text.
	Homepage string `json:"homepage,omitempty"`
	License  string `json:"license,omitempty"`
	// Uses are the groups of host functions that the plugin calls: secret, token, cache, sign, body, state, turn.
	Uses []string `json:"uses,omitempty"`
	// Anonymous allows a successful call without a credential. If it is false, a mutation without a sealed value is an
	// error.
	Anonymous bool `json:"anonymous,omitempty"`
	// Fields are the fields of the configuration, at most 256.
	Fields []Field `json:"fields,omitempty"`
	// Answers are the parts of answers of exchange that the plugin may get, at most 16. At most 8 of them are not sealed.
	Answers []Answer `json:"answers,omitempty"`
	// State has the texts that the host keeps for good, at most 4. Together they are a grant.
	State []State `json:"state,omitempty"`
	// Challenge is nil unless the plugin reads answers of the API.
	Challenge *Challenge `json:"challenge,omitempty"`
	// Consent reports whether users give consent to the plugin, which has the exports consent and connect then.
	Consent bool `json:"consent,omitempty"`
}

// State describes a text that may be used once, such as a refresh token that rotates. The host keeps it in a store of state,
// which outlives the process and which several hosts may share.
type State struct {
	// Name is the name of the state, [A-Za-z][A-Za-z0-9_-]{0,63}.
	Name string `json:"name"`
	// Seed is the name of a sealed field of kind [KindString] whose value is the state at first. If the field gets another
	// value, that begins a new grant.
	Seed string `json:"seed,omitempty"`
}

// Answer describes a part of an answer that a plugin may get. It never gets text that it can read.
type Answer struct {
	// Name is the name of the answer, [A-Za-z][A-Za-z0-9_-]{0,63}.
	Name string `json:"name"`
	// From is the place of the value: json:/POINTER (RFC 6901), xml:/ELEMENT/ELEMENT (local names, from the root), form:NAME,
	// header:NAME, cookie:NAME, auth:SCHEME/PARAMETER (of WWW-Authenticate) or info:PARAMETER (of Authentication-Info).
	From string `json:"from,omitempty"`
	// Alternative is another such place, for an answer of exchange that has nothing at From.
	Alternative string `json:"alternative,omitempty"`
	// FromField is the name of a field of kind [KindString] whose value is used in place of From. The field must not be
	// sealed.
	FromField string `json:"from_field,omitempty"`
	// Kind is sealed (a text, which the guest gets as a sealed value), integer (from 0 to 2³¹−1), time (in Unix seconds) or enum.
	Kind string `json:"kind"`
	// Sinks are the places that the sealed value may go to, as those of a [Field].
	Sinks []string `json:"sinks,omitempty"`
	// Derived are the places that a digest, MAC or signature made with the value may go to. If it is empty, these are Sinks.
	Derived []string `json:"derived,omitempty"`
	// Enum lists the names that an enum may have, at most 32. Any other value is "other".
	Enum []string `json:"enum,omitempty"`
	// Pattern is a pattern like that of a [Field], for the whole text of a sealed answer. Any other text, and one of more than 1 KiB,
	// counts as absent. Answers of one place have the same, and a state may not have one.
	Pattern string `json:"pattern,omitempty"`
	// Required ends the call if the answer of an exchange has a status below 400 and lacks the value.
	Required bool `json:"required,omitempty"`
	// State is the name of the state whose value the sealed answer becomes, of [Description].State. It is for answers of
	// exchanges only. The host keeps the answer before the guest goes on.
	State string `json:"state,omitempty"`
	// Keep reports whether later calls get the value as well. It is for answers of a [Challenge] only. A body is read only of an
	// answer with one of the Statuses, and headers of any.
	Keep bool `json:"keep,omitempty"`
}

// Challenge describes how a plugin takes part in what the API answers.
type Challenge struct {
	// Statuses are the statuses, 400 to 499, after which the host runs authenticate once more and repeats the request.
	Statuses []int `json:"statuses,omitempty"`
	// Answers are the parts of the API's answers that the plugin may get, at most 16. At most 8 of them are not sealed.
	Answers []Answer `json:"answers,omitempty"`
	// Keep is the time in seconds for which answers with Keep stay available to later calls.
	Keep int64 `json:"keep,omitempty"`
	// OnlyIf limits the challenge to connectors for which one of the conditions holds. Others are as without one. If it is empty, it
	// is for all.
	OnlyIf []Condition `json:"only_if,omitempty"`
}

// Field describes one field of an auth type's configuration.
type Field struct {
	// Name is the name of the configuration's member, [A-Za-z][A-Za-z0-9_-]{0,63}.
	Name string `json:"name"`
	// Aliases are deprecated names of the member, at most 8. The plugin knows the field by Name only.
	Aliases []string `json:"aliases,omitempty"`
	// Kind is the kind of the value, such as [KindString].
	Kind string `json:"kind"`
	// Required fields must be present and must not render to blank text.
	Required bool `json:"required,omitempty"`
	// RequiredIf makes the field required if any of the conditions holds.
	RequiredIf []Condition `json:"required_if,omitempty"`
	// OnlyIf refuses the field unless one of the conditions holds, since it would have no effect. If it is empty, the field is
	// always allowed.
	OnlyIf []Condition `json:"only_if,omitempty"`
	// Sealed passes the whole value to the plugin as one sealed value. Integers, booleans and strings with an Enum cannot
	// be sealed.
	Sealed bool `json:"sealed,omitempty"`
	// Sinks are the places that the field's sealed values may go to: header (names and values of the mutation's headers, and values of
	// its cookies), query (names and values of its query parameters), path (values in its path), body (members of its form), token
	// (a token request or another exchange), claim (header and claims of a JWT), sign (the key of a signature or MAC) and digest (the
	// data of a digest, MAC or signature).
	Sinks []string `json:"sinks,omitempty"`
	// Derived are the places that a digest, MAC or signature made with the field's sealed values may go to. If
	// it is empty, these are Sinks.
	Derived []string `json:"derived,omitempty"`
	// Enum lists the allowed values of a string. If it is empty, every value is allowed.
	Enum []string `json:"enum,omitempty"`
	// Default is the value of an absent field. It is not a template and must not contain {{.
	Default string `json:"default,omitempty"`
	// Minimum is the smallest allowed value of an integer. If it is nil, there is none.
	Minimum *int64 `json:"minimum,omitempty"`
	// Maximum is the largest allowed value of an integer. If it is nil, there is none.
	Maximum *int64 `json:"maximum,omitempty"`
	// Pattern is a regular expression that the whole text of a string must match, also an empty one. It is for strings without an
	// Enum, and has at most 256 bytes. RE2 and ECMA-262 share its syntax, which has no anchors: characters, their escapes,
	// classes in brackets, \d, \D, \w, \W, groups, alternatives and repetitions. If it is empty, every text is allowed.
	Pattern string `json:"pattern,omitempty"`
	// PatternMessage says what is wrong with a text that does not match Pattern, and what to write. It follows the name of the
	// field, as the message of a problem of the export validate does. Every Pattern has one, of at most 512 bytes of printable
	// text.
	PatternMessage string `json:"pattern_message,omitempty"`
	// AlgorithmField is, for a field of kind [KindKey], the name of the field that holds the key's algorithm. Its values are
	// names of RFC 7518 section 3.1 or EdDSA (RFC 8037), or names that its Algorithms map to them.
	AlgorithmField string `json:"algorithm_field,omitempty"`
	// Algorithms maps values of the Enum of an algorithm field to the algorithms that they stand for, for protocols with names of
	// their own.
	Algorithms map[string]string `json:"algorithms,omitempty"`
	// EncodingField is, for a field of kind [KindKey], the name of the field that says how the secret of an HMAC is written: text,
	// base64, base64url, base32 or hex. Without it, the secret is the bytes of the text. Other keys ignore it.
	EncodingField string `json:"encoding_field,omitempty"`
	// Purposes are the uses of a key: jwt, http_signature (a signature base, RFC 9421 section 2.5) and message (other data). If it is empty,
	// the key signs JWTs only.
	Purposes []string `json:"purposes,omitempty"`
	// Generate reports whether the host makes a key of its own if this field, of kind [KindKey], is absent.
	Generate bool `json:"generate,omitempty"`
	// Escape lists the characters that are special to the plugin in the texts of a field of kind [KindString] or [KindObject]. The
	// host writes a backslash before each of them in the plain values of template expressions, and leaves literal text as it is.
	// Escape is printable ASCII and has the backslash itself. If it is empty, the host escapes nothing.
	Escape string `json:"escape,omitempty"`
	// Composed reports whether the texts of a field of kind [KindString] or [KindObject] are templates of compose. The host checks them when a
	// connector is loaded, and writes a backslash before \ and { in the plain values of template expressions, as with Escape.
	Composed bool `json:"composed,omitempty"`
	// Values are the names of the values that the plugin adds to such templates. A name that ends in .* stands for the members of
	// an object field, such as parts.*; in that field itself, for the members before one, in the order of their names.
	Values []string `json:"values,omitempty"`
	// Suggested lists usual values of a field, for users. It is the place for well-known URLs, since a URL has no default.
	Suggested []string `json:"suggested,omitempty"`
	// Doc is one sentence for users.
	Doc string `json:"doc,omitempty"`
	// Obtain says how users get the value, such as the page of the API's settings where keys are made. It is at most 512 bytes
	// of printable text.
	Obtain string `json:"obtain,omitempty"`
}

// Condition holds if a field has one of some values, if it is present, or if it is absent.
type Condition struct {
	// Field is the name of another field.
	Field string `json:"field"`
	// Values are the values, of that field's Enum. In a RequiredIf, the field may have no RequiredIf itself. If Values is empty,
	// the condition holds if the field is present.
	Values []string `json:"values,omitempty"`
	// Absent makes the condition hold if the field is absent. There are no Values then.
	Absent bool `json:"absent,omitempty"`
}

// String returns the condition in words, such as "grant_type is jwt_bearer".
func (c Condition) String() string {
	switch {
	case c.Absent:
		return c.Field + " is absent"
	case len(c.Values) == 0:
		return c.Field + " is there"
	}
	return c.Field + " is " + strings.Join(c.Values, " or ")
}

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
	// KindCertificate is an X.509 certificate in PEM, or a chain of them. public_key returns its thumbprint.
	KindCertificate = "certificate"
)

// Pair is the name and the value of a header, a query parameter or a form field. Lists of pairs keep their order.
type Pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}
