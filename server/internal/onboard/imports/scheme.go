package imports

import (
	"cmp"
	_ "embed" // for schemes.json
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/keywright/keywright/host"
)

//go:embed schemes.json
var schemesJSON []byte

// schemeFacts says in unsupported why a scheme of the header Authorization cannot be imported. In signed it has the names in signatures of
// those services of AWS whose host names have another, by what stands in front of the region.
var schemeFacts = func() (all struct{ Unsupported, Signed map[string]string }) {
	_ = json.Unmarshal(schemesJSON, &all)
	return all
}()

// A schemer makes the auth of a connector of security schemes.
type schemer struct {
	*maker
	document *document
	server   server
	scopes   map[string][]string
}

// all makes the auth of one scheme of a requirement. Keys among the others become headers and query parameters.
func (s *schemer) all(r requirement) error {
	if len(r.names) > maxTogether {
		return fmt.Errorf("the document asks for %d schemes together: a connector has %d at most", len(r.names), maxTogether)
	}
	s.scopes = r.scopes
	first, found := r.names[0], make(map[string]*node, len(r.names))
	for _, name := range r.names {
		n, err := s.document.scheme(name)
		if err != nil {
			return err
		}
		found[name] = n
	}
	if s.options.Scheme == "" || isKey(found[first]) {
		// Only keys can be joined to another scheme.
		if i := slices.IndexFunc(r.names, func(name string) bool { return !isKey(found[name]) }); i >= 0 {
			first = r.names[i]
		}
	}
	if err := s.one(first, found[first]); err != nil {
		return err
	}
	for _, name := range r.names {
		switch endpoint := authorizationOf(found[first]); {
		case name == first:
		case isKey(found[name]):
			s.addKey(name, found[name])
		case endpoint != "" && endpoint == authorizationOf(found[name]): // two flows of one server, either of which brings a token
		default:
			s.note("the document asks for %s beside %s, and a connector authenticates in one way only; keys alone can be added to it", name, first)
		}
	}
	return nil
}

func authorizationOf(n *node) string {
	const member = "authorizationUrl"
	return cmp.Or(n.string("flows", "authorizationCode", member), n.string("flows", "implicit", member), n.string(member))
}

func isKey(n *node) bool { return n.string("type") == "apiKey" && amazon(n) == "" }

func (s *schemer) one(name string, n *node) error {
	switch kind := n.string("type"); kind {
	case "apiKey":
		if signature := amazon(n); signature != "" {
			return s.aws(name, signature)
		}
		return s.key(name, n)
	case "basic": // Swagger 2
		s.basic()
	case "http":
		return s.http(name, n)
	case "oauth2":
		return s.oauth(name, n)
	case "openIdConnect":
		return s.openID(name, n)
	case "mutualTLS":
		s.auth("none")
		s.Connector.TLS.add("certificate", s.secret("certificate", "the client certificate in PEM"))
		s.Connector.TLS.add("key", s.secret("key", "its private key in PEM"))
	case "":
		return fmt.Errorf("the scheme %s has no type", name)
	default:
		return fmt.Errorf("the scheme %s has the type %s, which OpenAPI does not have", name, shownText(kind))
	}
	return nil
}

// shownText returns a text of the document for an error, unless it may be a credential.
func shownText(text string) string {
	if isHarmless(text) {
		return strconv.Quote(text)
	}
	return "a text that may be a credential"
}

func (s *schemer) basic() {
	s.auth("basic", "username", "the user name", "password", "the password")
	s.note("if the API wants a key or a token in place of user name or password, remove the other one of the two")
}

func (s *schemer) key(name string, n *node) error {
	in, key := n.string("in"), n.string("name")
	if !slices.Contains([]string{"header", "query", "cookie"}, in) && (in != "form" || !s.document.ofOperation) {
		return fmt.Errorf("the scheme %s has a key in %s: there are header, query and cookie", name, shownText(in))
	}
	if err := checkKey(name, in, key); err != nil {
		return err
	}
	s.apiKey(in, key, s.secret(key, fmt.Sprintf("the value of the %s %s", parts[in], key)))
	s.wordBefore(in, key)
	return nil
}

var parts = map[string]string{"header": "header", "query": "query parameter", "cookie": "cookie", "form": "field of the form"}

// wordBefore notes that the value of Authorization has a word in front of it.
func (s *schemer) wordBefore(in, key string) {
	if in == "header" && strings.EqualFold(key, "Authorization") {
		s.note("the secret is all of the header Authorization, with its first word, such as Bearer, if the API wants one")
	}
}

func checkKey(name, in, key string) error {
	switch {
	case key == "":
		return fmt.Errorf("the scheme %s has a key without a name", name)
	case in != "query" && !httpguts.ValidHeaderFieldName(key), host.Printable(key) != key:
		return fmt.Errorf("the scheme %s has a key in the %s with a name that cannot be sent: %s", name, parts[in], shownText(key))
	}
	return nil
}

// addKey adds a key to a connector that has its auth already.
func (s *schemer) addKey(name string, n *node) {
	in, key := n.string("in"), n.string("name")
	c := s.Connector
	value := func() string { return s.secret(key, fmt.Sprintf("the value of the %s %s", parts[in], key)) }
	sameName := func(p Parameter) bool { return strings.EqualFold(p.Name, key) }
	switch {
	case checkKey(name, in, key) != nil:
		s.note("the document asks for %s, too, whose name cannot be sent", name)
	case in == "header" && !slices.ContainsFunc(c.Headers, sameName):
		c.Headers = append(c.Headers, Parameter{Name: key, Value: value()})
		s.wordBefore(in, key)
	case in == "query" && !slices.ContainsFunc(c.Query, sameName):
		c.Query = append(c.Query, Parameter{Name: key, Value: value()})
	case in == "cookie" && !slices.ContainsFunc(c.Headers, func(p Parameter) bool { return p.Name == "Cookie" }):
		c.Headers = append(c.Headers, Parameter{Name: "Cookie", Value: literal(key) + "=" + value()})
	default:
		s.note("the document asks for %s, too, which cannot be added to the connector", name)
	}
}

// http makes the auth of a scheme of the header Authorization, by the name that IANA has registered for it.
func (s *schemer) http(name string, n *node) error {
	switch scheme := strings.ToLower(n.string("scheme")); scheme {
	case "basic":
		s.basic()
	case "bearer":
		s.auth("bearer", "token", "the token, without Bearer")
	case "digest":
		s.auth("digest", "username", "the user name", "password", "the password")
	case "oauth":
		s.auth("oauth1", "consumer_key", "the identifier of the client", "consumer_secret", "the secret of the client",
			"token", "the access token", "token_secret", "the secret of the access token")
		s.note("signature_method is HMAC-SHA1 unless it is there: the document cannot say it")
	default:
		why, ok := schemeFacts.Unsupported[scheme]
		if !ok {
			why = "no auth type has this scheme, and the document does not say how it works; a plugin can"
		}
		return fmt.Errorf("the scheme %s is %s of the header Authorization: %s", name, shownText(n.string("scheme")), why)
	}
	return nil
}

// amazon returns how an API Gateway of Amazon authorizes, or "". It is custom for a plain key.
func amazon(n *node) string {
	if kind := n.string("x-amazon-apigateway-authtype"); strings.HasPrefix(kind, "aws") {
		return kind
	}
	return ""
}

var regionSyntax = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9]$`)

func (s *schemer) aws(name, kind string) error {
	switch kind {
	case "awsSigv4":
	case "awsS3":
		s.note("the document has the signatures that S3 had at first; the connector signs with Version 4, which S3 takes everywhere")
	default:
		return fmt.Errorf("the scheme %s is %s, which is older than Signature Version 4: no auth type has it", name, kind)
	}
	c := s.Connector
	s.auth("aws_sigv4", "access_key_id", "the access key ID", "secret_access_key", "the secret access key")
	region, service := s.place()
	c.Config.add("region", literal(region))
	c.Config.add("service", literal(service))
	return nil
}

// place returns the region and the service for signatures, by the host of the API: SERVICE.REGION.amazonaws.com, with more labels in
// front of it, or without the region.
func (s *schemer) place() (region, service string) {
	region = s.server.variables["region"]
	u, err := url.Parse(s.server.url)
	if err != nil {
		return region, ""
	}
	labels := strings.Split(u.Hostname(), ".")
	end := slices.IndexFunc(labels, func(label string) bool { return label == "amazonaws" || label == "aws" })
	if end > 0 && labels[end] == "aws" && labels[end-1] == "api" {
		end--
	}
	if end < 1 {
		region = cmp.Or(region, "us-east-1")
		s.note("service is execute-api, that of an API Gateway, and region is %s: change them if the API is another service, or elsewhere", region)
		return region, "execute-api"
	}
	var prefix []string
	for _, label := range labels[:end] {
		if regionSyntax.MatchString(label) {
			region = label
		} else {
			prefix = append(prefix, label)
		}
	}
	s.note("region and service of the signatures are taken from the host name")
	for i := range prefix {
		if name := schemeFacts.Signed[strings.Join(prefix[i:], ".")]; name != "" {
			return cmp.Or(region, "us-east-1"), name
		}
	}
	if len(prefix) > 0 {
		service = prefix[len(prefix)-1]
	}
	return cmp.Or(region, "us-east-1"), service
}
