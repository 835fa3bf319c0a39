package connectors

import (
	"slices"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
)

// A text is a kind of text. Fields name it in their tag "file".
type text struct {
	// pattern is a regular expression with no more than what RE2 and JavaScript both understand.
	pattern string
	// message says what is wrong with a text without the pattern.
	message string
}

// schema returns the schema of a value that has the pattern if it is a text.
func (t text) schema() schema { return schema{"pattern": t.pattern, "patternErrorMessage": t.message} }

// wrong returns the message as the loader has it, behind the path of a member.
func (t text) wrong() string { return strings.TrimSuffix(strings.TrimPrefix(t.message, "This "), ".") }

const (
	notBlank       = `\S` // a text that is not blank
	anyTemplate    = `\{\{`
	headerName     = "[A-Za-z0-9!#$%&'+.^_`|~-]"
	timeUnits      = `([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)`
	closedTemplate = `^([^{]|\{[^{]|\{\{([^}]|\}[^}])*\}\})*\{?$` // each {{ has its }}
)

var texts = map[string]text{
	"filled": {notBlank, "This is empty."},
	"closed": {closedTemplate, "There is no }} that ends a {{."},
	"secret": {anyTemplate, "This names no secret: write \"{{ get_secret('NAME') }}\", and keep the value in a store of secrets."},
	// The operator decides whether http is allowed.
	"url": {`^https?://`, "This is not a URL: it begins with https://."},
	// Here http is for hosts that may be inside, by their names.
	"insideurl": {
		`^(https://|http://([^./:?]+|[0-9.]+|\[[^/]*|[^/]*\.(internal|local|localhost|lan|svc|test|home\.arpa))([:/?]|$))`,
		"This is plain http: use https, or name the host in plain_http of egress.",
	},
	"duration":  {`^\+?` + timeUnits + `(` + timeUnits + `)*$`, "This is not a time above 0 and up to an hour: write 15s, or 1m30s."},
	"digest":    {`^[0-9A-Fa-f]{64}$`, "This is not 64 hexadecimal digits."},
	"permalink": {`^[a-z0-9][a-z0-9-]{0,63}$`, "This may have a to z, 0 to 9 and hyphens, at most 64, and begins with no hyphen."},
	"method":    {"^[A-Z0-9!#$%&'*+.^_`|~-]+$", "This is not a method: they are in capitals, as in GET."},
	"route":     {`^/([^?#%\\{}]|\*%2F\*)*$`, "This is not a pattern of a path: it begins with a slash, as in /users/* or /**."},
	"mediatype": {`^[^/ ]+/[^/ ;]+`, "This is no media type, such as text/html; charset=utf-8."},
	"header": {
		"^(" + headerName + "+|" + headerName + `{3,}-\*)$`,
		"This is not the name of a header, or names with a * after a hyphen, such as X-RateLimit-*.",
	},
	"hosts": {`^(\*\.)?[^/ @*:]+(:[0-9]+)?$`, "This is not the name of a host, or one with a star for its first label, such as *.example.com."},
	"host":  {`^[^/ @*]+$`, "This is not the name of a host, such as gateway.example.com or localhost:8080."},
	"origin": {
		`^[A-Za-z][A-Za-z0-9+.-]*://[^/*?# ]+$`,
		"This is not an origin: scheme and host, without a slash at the end, such as https://app.example.com.",
	},
	"collector": {`^https?://`, "This is not the URL of a collector, with its path, such as http://localhost:4318/v1/traces."},
	"postgres": {
		anyTemplate + `|^postgres(ql)?://`,
		"This is not a URL of PostgreSQL, such as postgres://user:password@host:5432/database?sslmode=verify-full.",
	},
	"range":     {`^[0-9A-Fa-f.:]+(/[0-9]{1,3})?$`, "This is neither an address nor a range of addresses, such as 10.20.0.0/16."},
	"plainhost": {`^[^/?#@* ]+$`, "This is not the name of a host, such as keycloak or keycloak:8080."},
	"proxy":     {`^(none|(https?|socks5h?)://[^@/?#]+/?)$`, "This is no URL of a proxy, such as http://proxy.example:3128, or none."},
}

// A rule says more about the value of a member than the struct that it is decoded into.
type rule struct {
	// values are all values of a text, or of the texts of a list, and meanings has a sentence about each of them.
	values, meanings []string
	// slips are misspelt values. If there are some, other texts that have the pattern of the field are allowed.
	slips []string
	// minimum and maximum bound the length of a list, or an integer.
	minimum, maximum int
	// required are members that an object must have, beside those that a tag says, and all has further schemas of it.
	required []string
	all      []schema
}

// rules has the rules by the path of a member. Those of a type of store are under PATH(TYPE).
var rules = map[string]rule{
	"": {all: []schema{
		oneOf("This has no connectors: it needs the member connectors, or connectors_dir.", "connectors", "connectors_dir"),
		secureURLs(members(schema{"connectors": schema{"items": secureURLs(members(schema{"url": texts["insideurl"].schema()}))}})),
	}},
	"connectors": {minimum: 1},
	"connectors[]": {required: []string{"auth"}, all: []schema{members(schema{
		"url": closed, "request": closed,
		"tls": members(schema{"certificate": closed, "key": closed, "pkcs12": closed, "passphrase": closed, "ca": closed}),
	})}},
	"connectors[].method": {values: methods, slips: slipsOf(methods)},
	"connectors[].resend": {
		values:   []string{gateway.ResendNever},
		meanings: []string{"It is not sent again: the grant is lost, and its owner connects again."},
	},
	"connectors[].response":         {all: []schema{dependsOn("records", "filter")}},
	"connectors[].response.headers": {maximum: 50},
	"connectors[].tls": {all: []schema{
		dependsOn("certificate", "key"), dependsOn("key", "certificate"),
		conflicts("pkcs12", "pkcs12 takes the place of certificate and key: remove them, or pkcs12.", "certificate", "key"),
		dependsOn("passphrase", "pkcs12"),
		oneOf("This has neither a certificate nor ca.", "certificate", "key", "pkcs12", "ca"),
	}},
	"connectors[].tls.for": {
		values:   []string{host.TLSForAPI, host.TLSForToken},
		meanings: []string{"The requests to the API.", "The requests to token endpoints."},
	},
	"gateway": {all: []schema{{"if": hasValue("access_log_users", true), "then": hasValue("access_log", true)}}},
	"gateway.audit.on_error": {
		values: []string{AuditRefuse, AuditContinue},
		meanings: []string{
			"Requests are refused: no credential is used without a line.",
			"Requests are answered, and lines that do not fit into memory are lost.",
		},
	},
	"gateway.user": {all: []schema{
		ofType(identity.ModeNone, forbid(otherType, "jwt", "header")),
		ofType(identity.ModeJWT, schema{"required": []string{"jwt"}}), ofType(identity.ModeJWT, forbid(otherType, "header")),
		ofType(identity.ModeHeader, schema{"required": []string{"header"}}), ofType(identity.ModeHeader, forbid(otherType, "jwt")),
	}},
	"gateway.user.type": {
		values: []string{identity.ModeNone, identity.ModeJWT, identity.ModeHeader},
		meanings: []string{
			"Requests have no user.", "The user is that of a session token, which the gateway verifies.",
			"A proxy in front of the gateway names the user in headers.",
		},
	},
	"gateway.user.header": {required: []string{"proxies"}, all: []schema{
		oneOf("This does not say who the user is: set id or email to the name of a header.", "id", "email"),
	}},
	"gateway.user.jwt": {required: []string{"issuer", "audiences"}, all: []schema{
		{"if": oneOf("", "jwks_url", "jwks_file"), "else": members(schema{"issuer": schema{
			"pattern":             texts["url"].pattern,
			"patternErrorMessage": "Without jwks_url and jwks_file, the keys are found by the issuer, which then is an https URL.",
		}})},
		conflicts("jwks_url", "The keys are at jwks_url: remove one of them.", "jwks_file"),
		{"if": hasValue("bearer", false), "then": schema{"required": []string{"cookie"}}},
	}},
	"gateway.user.jwt.algorithms": {values: identity.Algorithms()},
	"plugins":                     {maximum: maxPlugins},
	"plugins[]": {all: []schema{
		oneOf("This is no plugin: it needs a path, or name and ref.", "path", "ref"),
		conflicts("path", "A plugin is a file, or comes from a registry: one with path has neither name nor ref.", "name", "ref"),
		conflicts("ref", "The digest of a plugin from a registry is in keywright.lock.", "sha256"), dependsOn("ref", "name"),
	}},
	"plugins[].grants": {values: contract.Grants, meanings: []string{
		"The plugin signs bytes that it chooses, with the keys of its connectors.", "The plugin reads the secrets of its connectors.",
	}},
	"secrets": {maximum: maxStores},
	"secrets[](vault)": {all: []schema{
		oneOf("There must be one of token_file, approle, jwt and kubernetes, which say how to log in.", "token_file", "approle", "jwt", "kubernetes"),
		conflicts("token_file", "token_file says how to log in: remove one of them.", "approle", "jwt", "kubernetes"),
		conflicts("approle", "approle says how to log in: remove one of them.", "jwt", "kubernetes"),
		conflicts("jwt", "jwt says how to log in: remove one of them.", "kubernetes"),
		conflicts("prefix", "This is for secrets that are fields of one path: leave it out, or prefix.", "path"),
		conflicts("field", "This is for secrets that are fields of one path: leave it out, or field.", "path"),
	}},
	"identities":                  {maximum: maxIdentities},
	"identities[](http)":          {required: []string{"url"}},
	"state(sqlite).keys":          {minimum: 1, maximum: maxStateKeys},
	"state(postgres).keys":        {minimum: 1, maximum: maxStateKeys},
	"state(postgres).connections": {minimum: 2},
}

const otherType = "The type is another: change it, or remove this."

var closed = texts["closed"].schema()

func members(properties schema) schema { return schema{"properties": properties} }

// hasValue returns a schema that holds if a member is there and has a value.
func hasValue(member string, value any) schema {
	return schema{"properties": schema{member: schema{"const": value}}, "required": []string{member}}
}

func forbid(message string, names ...string) schema {
	noMembers := schema{}
	for _, name := range names {
		noMembers[name] = false
	}
	return schema{"properties": noMembers, "errorMessage": message}
}

// conflicts returns a schema that refuses members if another one is there.
func conflicts(member, message string, names ...string) schema {
	return schema{"if": schema{"required": []string{member}}, "then": forbid(message, names...)}
}

// dependsOn returns a schema that requires another member if one is there.
func dependsOn(member, dependency string) schema {
	return schema{"if": schema{"required": []string{member}}, "then": schema{"required": []string{dependency}}}
}

// oneOf returns a schema that requires one of some members.
func oneOf(message string, names ...string) schema {
	var some []schema
	for _, name := range names {
		one := schema{"required": []string{name}}
		if message != "" {
			one["errorMessage"] = message
		}
		some = append(some, one)
	}
	return schema{"anyOf": some}
}

// secureURLs returns a schema that holds if the member egress has plain_http, or if otherwise holds.
func secureURLs(otherwise schema) schema {
	plain := schema{"properties": schema{"egress": schema{"required": []string{"plain_http"}}}, "required": []string{"egress"}}
	return schema{"if": plain, "else": otherwise}
}

// methods are the usual methods.
var methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}

// slipsOf returns texts with one typing error: names with a letter fewer, one twice, or two swapped.
func slipsOf(names []string) (all []string) {
	for _, name := range names {
		for i := range name {
			all = append(all, name[:i]+name[i+1:], name[:i+1]+name[i:])
			if i > 0 {
				all = append(all, name[:i-1]+name[i:i+1]+name[i-1:i]+name[i+1:])
			}
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(text string) bool { return slices.Contains(names, text) })
}
