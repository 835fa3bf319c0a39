package connectors

import (
	"slices"

	"github.com/keywright/keywright/server/identity"
)

// of returns the schema of a member, which must be there.
func (all namedSchemas) of(name string) *schema {
	for _, m := range all {
		if m.name == name {
			return m.schema
		}
	}
	return nil
}

// without returns a schema that refuses members, with a message.
func without(message string, names ...string) *schema {
	s := &schema{ErrorMessage: message}
	for _, name := range names {
		s.Properties = append(s.Properties, namedSchema{name, nil})
	}
	return s
}

// beside returns a schema that refuses members if another one is there.
func beside(member, message string, names ...string) *schema {
	return &schema{If: &schema{Required: []string{member}}, Then: without(message, names...)}
}

// needs returns a schema that requires members if another one is there.
func needs(member string, names ...string) *schema {
	return &schema{If: &schema{Required: []string{member}}, Then: &schema{Required: names}}
}

// either returns a schema that requires one of some members.
func either(message string, names ...string) *schema {
	s := &schema{}
	for _, name := range names {
		s.AnyOf = append(s.AnyOf, &schema{Required: []string{name}, ErrorMessage: message})
	}
	return s
}

// secureURLs returns a schema that holds if the member egress has plain_http, or if without holds.
func secureURLs(without *schema) *schema {
	egress := &schema{Required: []string{"plain_http"}}
	return &schema{If: &schema{Properties: namedSchemas{{"egress", egress}}, Required: []string{"egress"}}, Else: without}
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

func changeConnector(s *schema) {
	s.Required = append(s.Required, "auth")
	closed := &schema{Pattern: closedTemplate, PatternErrorMessage: notClosed}
	tls := &schema{Properties: namedSchemas{{"certificate", closed}, {"key", closed}, {"pkcs12", closed}, {"passphrase", closed}, {"ca", closed}}}
	s.AllOf = append(s.AllOf, &schema{Properties: namedSchemas{{"url", closed}, {"request", closed}, {"tls", tls}}})
}

func changePlugin(s *schema) {
	s.AllOf = append(s.AllOf, either("This is no plugin: it needs a path, or name and ref.", "path", "ref"),
		beside("path", "A plugin is a file, or comes from a registry: one with path has neither name nor ref.", "name", "ref"),
		beside("ref", "The digest of a plugin from a registry is in keywright.lock.", "sha256"), needs("ref", "name"))
}

func changeGateway(s *schema) {
	users := &schema{Properties: namedSchemas{{"access_log_users", &schema{Const: true}}}, Required: []string{"access_log_users"}}
	log := &schema{Properties: namedSchemas{{"access_log", &schema{Const: true}}}, Required: []string{"access_log"}}
	s.AllOf = append(s.AllOf, &schema{If: users, Then: log})
}

func changeUser(s *schema) {
	const other = "The type is another: change it, or remove this."
	s.AllOf = append(s.AllOf, ofType(identity.ModeNone, without(other, "jwt", "header")),
		ofType(identity.ModeJWT, &schema{Required: []string{"jwt"}}), ofType(identity.ModeJWT, without(other, "header")),
		ofType(identity.ModeHeader, &schema{Required: []string{"header"}}), ofType(identity.ModeHeader, without(other, "jwt")))
}

func changeJWT(s *schema) {
	s.Required = []string{"issuer", "audiences"}
	noBearer := &schema{Properties: namedSchemas{{"bearer", &schema{Const: false}}}, Required: []string{"bearer"}}
	issuer := &schema{Pattern: httpURL, PatternErrorMessage: "Without jwks_url and jwks_file, the keys are found by the issuer, which then is an https URL."}
	s.AllOf = append(s.AllOf, &schema{If: either("", "jwks_url", "jwks_file"), Else: &schema{Properties: namedSchemas{{"issuer", issuer}}}},
		beside("jwks_url", "The keys are at jwks_url: remove one of them.", "jwks_file"),
		&schema{If: noBearer, Then: &schema{Required: []string{"cookie"}}})
}

func changeHeader(s *schema) {
	s.Required = []string{"proxies"}
	s.AllOf = append(s.AllOf, either("This does not say who the user is: set id or email to the name of a header.", "id", "email"))
}

func changeVault(s *schema) {
	s.AllOf = append(s.AllOf, either("There must be one of token_file, approle and kubernetes, which say how to log in.", "token_file", "approle", "kubernetes"),
		beside("token_file", "token_file says how to log in: remove one of them.", "approle", "kubernetes"),
		beside("approle", "approle says how to log in: remove one of them.", "kubernetes"),
		beside("prefix", "This is for secrets that are fields of one path: leave it out, or prefix.", "path"),
		beside("field", "This is for secrets that are fields of one path: leave it out, or field.", "path"))
}

func changeTLS(s *schema) {
	s.AllOf = append(s.AllOf, needs("certificate", "key"), needs("key", "certificate"),
		beside("pkcs12", "pkcs12 takes the place of certificate and key: remove them, or pkcs12.", "certificate", "key"), needs("passphrase", "pkcs12"),
		either("This has neither a certificate nor ca.", "certificate", "key", "pkcs12", "ca"))
}

func changeResponse(s *schema) {
	s.AllOf = append(s.AllOf, needs("records", "filter"))
}
