// Package template compiles and renders text with expressions in it, such as "Bearer {{ get_secret('crm') }}". Package
// expr implements the expressions.
package template

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/internal/urlcheck"
	"github.com/keywright/keywright/internal/urlpath"
)

// Limits of one template.
const (
	maxSource = 64 << 10 // bytes of source
	maxTokens = 512      // tokens in an expression; this also bounds nesting
	maxText   = 1 << 20  // bytes of a rendered template, and of each value in its computation
	maxWork   = 8 << 20  // bytes of the operands and results of all functions and operators of a template or object
)

// limits are the limits of a rendering. Each value is bounded, but a source of 64 KiB can make hundreds of values of the
// greatest length, so their sum is, too.
var limits = &expr.Limits{
	Steps: maxWork, TooManySteps: "the expressions take more than 8 MiB of text in all",
	Text: maxText, JSON: maxText, TooLong: "the text is longer than 1 MiB",
}

// Template is a compiled template. It is safe for concurrent use.
type Template struct {
	source   string
	segments []segment
	names    Names
	// escape, if not nil, writes a backslash before special characters in values that are not secret.
	escape *strings.Replacer
	// key is the key that the template names if it is a call of get_key, and nil otherwise.
	key *expr.Key
}

// segment is literal text, or an expression if value is not nil.
type segment struct {
	// text is the literal text, or the source of the expression with its braces.
	text  string
	value *expr.Expression
	// column is the column of the expression's first brace.
	column int
}

// Part is a piece of a rendered template. Adjacent text and values that are not secret are one Part.
type Part struct {
	Text string
	// Secret is set if Text is the value of an expression that calls get_secret or identity, or names user.token, anywhere in it.
	Secret bool
	// Source is the source of a secret Part's expression with its braces, which may be shown instead of Text.
	Source string
}

// Compile compiles a template. If it returns errors, the template is nil.
func Compile(source string) (*Template, []*Error) { return CompileEscaped(source, "") }

// CompileEscaped is like Compile, but the template writes a backslash before each character of special in the values of
// expressions, except in secret ones. Special is ASCII and has the backslash, or is empty. If it is not, literal text right
// before an expression must not end in an odd number of backslashes, which would undo the backslash of the value.
func CompileEscaped(source, special string) (*Template, []*Error) {
	if len(source) > maxSource {
		return nil, []*Error{{Message: "the template is longer than 64 KiB"}}
	}
	t := &Template{source: source}
	if special != "" {
		var pairs []string
		for _, c := range strings.Split(special, "") {
			pairs = append(pairs, c, `\`+c)
		}
		t.escape = strings.NewReplacer(pairs...)
	}
	pieces, problem := expr.Cut(source, maxTokens)
	var errs []*Error
	if problem != nil {
		errs = append(errs, problem)
	}
	var names []Names
	for _, p := range pieces {
		if !p.Expression {
			t.segments = append(t.segments, segment{text: p.Text})
			continue
		}
		e, problems := language.Compile(p, nil)
		if errs = append(errs, problems...); e == nil {
			continue
		}
		if !e.Kind.Is(expr.Scalar) {
			errs = append(errs, &Error{Column: e.Column, Message: "an expression gives a text, a number or a boolean"})
		}
		t.segments = append(t.segments, segment{text: "{{" + p.Text + "}}", value: e, column: p.Start})
		names = append(names, e.Names)
	}
	errs = append(errs, t.check()...)
	if len(errs) > 0 {
		return nil, expr.Sorted(errs)
	}
	t.names = expr.Merged(names...)
	return t, nil
}

// check returns what is wrong with segments beside others, and sets key.
func (t *Template) check() (errs []*Error) {
	for i, s := range t.segments {
		if t.escape != nil && s.value != nil && i > 0 && openEscape(&t.segments[i-1]) {
			errs = append(errs, &Error{Column: s.column, Message: `a single \ stands right before {{: write \\ for the character`})
		}
		switch {
		case s.value == nil:
		case len(s.value.Identities) > 0 && len(t.segments) > 1:
			errs = append(errs, &Error{Column: s.column, Message: "identity must stand alone, with no text around it: its token goes to a token endpoint as it is"})
		case s.value.Key == nil:
		case len(t.segments) > 1:
			errs = append(errs, &Error{Column: s.column, Message: "get_key must stand alone, with no text around it: such a key stays in its store, and has no text"})
		default:
			t.key = s.value.Key
		}
	}
	return errs
}

// openEscape reports whether literal text ends in a backslash that no other backslash precedes as its escape.
func openEscape(s *segment) bool {
	return s.value == nil && (len(s.text)-len(strings.TrimRight(s.text, `\`)))%2 == 1
}

// secret reports whether the segment is an expression that calls get_secret or identity, or names user.token.
func (s *segment) secret() bool { return s.value != nil && s.value.Secret }

// Source returns the text that was compiled.
func (t *Template) Source() string { return t.source }

// Literal returns the template's text. ok is false if the template has an expression.
func (t *Template) Literal() (text string, ok bool) {
	for _, s := range t.segments {
		if s.value != nil {
			return "", false
		}
	}
	return t.source, true
}

// Names returns the names that the template's expressions use.
func (t *Template) Names() Names { return expr.Merged(t.names) }

// Secret reports whether an expression of the template uses a secret, the user's token or an identity.
func (t *Template) Secret() bool { return len(t.names.Secrets) > 0 || t.names.Listed() }

// Key returns the key that the template names if it is a call of get_key. Such a template has no text, so it must not be
// rendered. For any other template, Key returns nil.
func (t *Template) Key() *expr.Key { return t.key }

// Render evaluates the expressions once: text of the form {{ … }} in a value stays as it is. Empty text makes no Part,
// unless it is a secret. The error is an *Error; errors.Is finds the error that Values.Secret or Values.UUID returned.
func (t *Template) Render(v Values) ([]Part, error) {
	r := &rendering{Run: expr.NewRun(v, limits)}
	return t.render(&r.Run, r.first[:0], nil)
}

// RenderURL renders a URL. It is like Render, but percent-encodes the value of each expression, so that the value stays
// within its path segment, or behind the first ? of the literal text within its query parameter. In the host it must be a label:
// otherwise the error is [urlcheck.ErrLabel].
func (t *Template) RenderURL(v Values) ([]Part, error) {
	text := ""
	r := &rendering{Run: expr.NewRun(v, limits)}
	return t.render(&r.Run, r.first[:0], func(literal, value string) (string, error) {
		text += literal
		_, rest, hasScheme := strings.Cut(text, "://")
		switch {
		case strings.Contains(text, "?"):
			return urlpath.Percent(value), nil
		case hasScheme && !strings.Contains(rest, "/") && !urlcheck.Label(value):
			return "", urlcheck.ErrLabel
		}
		return url.PathEscape(value), nil
	})
}

// rendering is a run with room for the parts of most templates.
type rendering struct {
	expr.Run
	first [2]Part
}

// render appends the parts of the rendered template to parts. If escape is not nil, render replaces the value of each
// expression by the result of escape. literal is the literal text between the expression and the one before.
func (t *Template) render(r *expr.Run, parts []Part, escape func(literal, value string) (string, error)) ([]Part, error) {
	literal, size := "", 0
	var wrong error
	for _, s := range t.segments {
		text := s.text
		if s.value != nil {
			value, err := r.Evaluate(s.value)
			if err != nil {
				return nil, err
			}
			if text = format(value); escape != nil {
				text, wrong = escape(literal, text)
			}
			if wrong != nil {
				return nil, &Error{Column: s.column, Err: wrong}
			}
			if t.escape != nil && !s.secret() {
				text = t.escape.Replace(text)
			}
			literal = ""
		} else {
			literal += text
		}
		if size += len(text); size > maxText {
			return nil, &Error{Column: s.column, Message: "the rendered text is longer than 1 MiB"}
		}
		last := len(parts) - 1
		switch {
		case s.secret():
			parts = append(parts, Part{Text: text, Secret: true, Source: s.text})
		case text == "":
		case last >= 0 && !parts[last].Secret:
			parts[last].Text += text
		default:
			parts = append(parts, Part{Text: text})
		}
	}
	return parts, nil
}

// Join returns the whole text of parts, secrets included.
func Join(parts []Part) string {
	if len(parts) == 1 {
		return parts[0].Text
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// format returns the text of an expression's value. Numbers have the form of RFC 8785 section 3.2.2.3, which is valid JSON.
func format(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case int64:
		return strconv.FormatInt(value, 10)
	case float64:
		return formatFloat(value)
	case bool:
		return strconv.FormatBool(value)
	}
	return "" // scalar expressions have no other types
}

func formatFloat(f float64) string { return string(jsontext.AppendFloat(nil, f+0, 64)) } // + 0 makes 0 of -0

type (
	// Error describes what is wrong with a template, or why it could not be rendered.
	Error = expr.Error
	// Values provides the values that expressions use.
	Values = expr.Values
	// Discovery is a call of discover.
	Discovery = expr.Discovery
	// Identity is a call of identity.
	Identity = expr.Identity
	// User is the person on whose behalf a request is made.
	User = expr.User
	// Names holds the names that the expressions of a template use.
	Names = expr.Names
)

// Lists of the known names, for errors about unknown ones. A test compares them with the language.
const (
	knownFunctions = "there are get_secret, get_key, get_variable, identity, discover, now, uuid, default, base64_encode, base64_decode, json_encode, json_get"
	knownVariables = "there are tenant_id and user.email, user.id, user.username, user.first_name, user.last_name, user.token"
)

// NoKey is the error for get_key at a place that takes no key.
const NoKey = "get_key is for a field that takes a key, and this takes a text: use get_secret"

var language = &expr.Language{
	Group: func(path string) bool { return path == "user" },
	Name: func(group, name string) (*expr.Name, string) {
		if group != "" {
			name = group + "." + name
		}
		if name == "user" {
			return nil, "user is no value: name a field of it, such as user.email"
		}
		secret := ""
		if group == "" {
			secret = "; a secret, also one of the environment, is get_secret('NAME')"
		}
		return nil, "unknown variable " + problem.Quote(name) + ": " + knownVariables + secret
	},
	UnknownFunction: func(string) string { return knownFunctions },
	CheckDiscovery:  checkDiscovery,
}

// UserToken is the expression for the token of the user's session.
const UserToken = "user." + expr.UserToken

// endpoints are the members of an authorization server's metadata that discover returns: RFC 8414 section 2, RFC 8628 section 4,
// RFC 9126 section 5, OpenID Connect Discovery section 3. Each is the URL of an endpoint.
var endpoints = []string{
	"authorization_endpoint", "token_endpoint", "revocation_endpoint", "introspection_endpoint", "registration_endpoint",
	"device_authorization_endpoint", "pushed_authorization_request_endpoint", "userinfo_endpoint",
}

// checkDiscovery returns what is wrong with a call of discover, and the number of the argument that is wrong. Whether an issuer
// may be one of plain http is for the host to decide.
func checkDiscovery(d Discovery) (argument int, wrong string) {
	const issuer = "the issuer "
	rule := urlcheck.Rule{AllowHTTP: true, Example: "https://login.example.com"}
	u, err := rule.Parse(d.Issuer)
	switch {
	case err != nil:
		return 0, issuer + err.Error()
	case strings.Contains(u.Path, "/.well-known/"):
		return 0, issuer + "is the URL of the metadata: write the value of the member issuer in it"
	case strings.Contains(d.Issuer, "?"):
		return 0, issuer + "has a query, which an issuer must not have (RFC 8414 section 2)"
	case !slices.Contains(endpoints, d.Member):
		return 1, "there is no such endpoint" + problem.DidYouMean(d.Member, endpoints)
	}
	return 0, ""
}
