// Package answer reads the answers of token endpoints and APIs: the parts of an answer that a plugin's description names, the
// members of OAuth, and what repeats a text of the request.
package answer

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/printable"
)

// Limits of answers. Lengths are in bytes.
const (
	MaxSealed = 32 << 10 // length of a sealed answer of an exchange
	maxPlain  = 1 << 10  // length of the text of an answer that is not sealed or has a pattern: it bounds the work of comparing it
	maxSource = 256      // length of the text of a Source
	maxOffers = 16       // number of challenges that are read
	maxXML    = 32       // depth of the elements of an XML document that is read
)

// Part is a part of an answer that a plugin's description names.
type Part struct {
	abi.Answer
	Sinks, Derived seal.Sinks
	// Source is the place of the value, and Alternative another one. They are the zero Source if there is none, and Source is that
	// if FromField names a field that is absent.
	Source, Alternative Source
	// Matcher compares texts with the pattern of the description. It is nil if there is none.
	Matcher *expr.Matcher
	// Word is set if the pattern matches words only, see [seal.Value].
	Word bool
}

// Source is a place in an answer.
type Source struct {
	// From is the prefix, such as contract.FromJSON. It is empty in the zero Source.
	From string
	// Name is the name of a header, cookie or member of a form, or the authentication scheme.
	Name string
	// Parameter is the name of a parameter, in lower case.
	Parameter string
	// Pointer has the tokens of a JSON pointer, or the names of elements.
	Pointer []string
}

// ParseSource returns the place that text, such as "json:/data/token", names.
func ParseSource(text string) (s Source, err error) {
	prefix, rest, found := strings.Cut(text, ":")
	s = Source{From: prefix + ":", Name: rest}
	switch {
	case !found || rest == "" && s.From != contract.FromJSON && s.From != contract.FromText || len(text) > maxSource:
		return Source{}, errSource
	case s.From == contract.FromText:
		if rest != "" {
			return Source{}, fmt.Errorf("%s is the whole body: nothing stands behind it", contract.FromText)
		}
	case s.From == contract.FromJSON:
		s.Name = ""
		pointer := jsontext.Pointer(rest) // RFC 6901
		if !pointer.IsValid() {
			return Source{}, errors.New("a JSON pointer begins with /, as in json:/data/token, and a ~ in it is written as ~0, a / in a name as ~1")
		}
		s.Pointer = slices.Collect(pointer.Tokens())
	case s.From == contract.FromXML:
		s.Name, s.Pointer = "", strings.Split(rest, "/")[1:]
		if rest[0] != '/' || slices.ContainsFunc(s.Pointer, func(name string) bool { return name == "" || strings.ContainsAny(name, ": ") }) {
			return Source{}, fmt.Errorf("%s needs names of elements without prefixes, from the root, such as %s/Answer/Token", contract.FromXML, contract.FromXML)
		}
	case s.From == contract.FromHeader:
		if contract.CheckHeaderName(rest) != "" && !strings.EqualFold(rest, "Host") {
			return Source{}, fmt.Errorf("%q is not the name of a header", printable.Text(rest, 64))
		}
		if strings.EqualFold(rest, "Set-Cookie") {
			return Source{}, fmt.Errorf("the header Set-Cookie is read as %sNAME", contract.FromCookie)
		}
	case s.From == contract.FromAuth:
		scheme, parameter, _ := strings.Cut(rest, "/")
		if scheme == "" || parameter == "" {
			return Source{}, fmt.Errorf("%s needs a scheme and a parameter, such as %sDigest/nonce", contract.FromAuth, contract.FromAuth)
		}
		s.Name, s.Parameter = scheme, strings.ToLower(parameter)
	case s.From == contract.FromInfo:
		s.Name, s.Parameter = "", strings.ToLower(rest)
	case s.From != contract.FromForm && s.From != contract.FromCookie:
		return Source{}, errSource
	}
	return s, nil
}

// InBody reports whether the place is in the body.
func (s *Source) InBody() bool {
	return s.From == contract.FromJSON || s.From == contract.FromXML || s.From == contract.FromText || s.From == contract.FromForm
}

var errSource = errors.New("is no place in an answer: write json:/POINTER, xml:/ELEMENT/ELEMENT, text:, form:NAME, header:NAME, cookie:NAME, auth:SCHEME/PARAMETER or info:PARAMETER")

// Read returns the value of a part as the guest gets it, except that it is not sealed. raw is a string, a json.Number or a bool.
func (a *Part) Read(raw any, longest int) (value string, ok bool) {
	text, ok := textOf(raw)
	if !ok || (a.Kind != contract.AnswerSealed || a.Matcher != nil) && len(text) > maxPlain {
		return "", false
	}
	if a.Matcher != nil {
		if matches, err := a.Matcher.Match(text); !matches || err != nil {
			return "", false
		}
	}
	switch a.Kind {
	case contract.AnswerSealed:
		there := strings.TrimSpace(text) != "" || a.Source.Parameter != "" // RFC 7616 section 3.4: opaque may be empty
		return text, there && len(text) <= longest && utf8.ValidString(text)
	case contract.AnswerInteger:
		if n := seconds(raw); n != nil {
			return strconv.FormatInt(*n, 10), true
		}
	case contract.AnswerTime:
		if unix, ok := readTime(raw); ok {
			return strconv.FormatInt(unix, 10), true
		}
	case contract.AnswerEnum:
		return a.nameOf(text), true
	}
	return "", false
}

// nameOf returns the name of the enum that text is, in any case of letters, or that is in it if text is a list. If there are
// several, it is the first of the enum. If there is none, it is "other".
func (a *Part) nameOf(text string) string {
	items := itemsOf(text)
	for _, name := range a.Enum {
		if strings.EqualFold(name, text) || slices.ContainsFunc(items, func(item string) bool { return strings.EqualFold(item, name) }) {
			return name
		}
	}
	return "other"
}

func itemsOf(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// milliseconds is the number from which on a time counts as milliseconds. As seconds it would be in the year 5138.
const milliseconds = 100_000_000_000

// readTime returns a time in Unix seconds. raw is a date of RFC 3339 or of HTTP (RFC 9110 section 5.6.7), or a number of
// seconds or milliseconds since 1970.
func readTime(raw any) (int64, bool) {
	text, _ := textOf(raw)
	text = strings.TrimSpace(text)
	if n, err := strconv.ParseFloat(text, 64); err == nil && n >= 0 && n < milliseconds*1000 {
		if n >= milliseconds {
			n /= 1000
		}
		return int64(math.Floor(n)), true
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.Unix(), true
	}
	if t, err := http.ParseTime(text); err == nil {
		return t.Unix(), true
	}
	return 0, false
}

// Value returns a sealed value with the sinks of the part.
func (a *Part) Value(text string) seal.Value {
	return seal.Value{Text: text, Sinks: a.Sinks, Derived: a.Derived, Mask: "<" + a.Name + ">", Word: a.Word}
}

// CheckSources returns an error if a sealed answer and one that is not have the same source, if one that is not is a whole body, or if
// answers of one source have different patterns: whether each matches would show the guest more of a text than one does.
func CheckSources(list []Part) error {
	for i := range list {
		if a := &list[i]; a.Kind != contract.AnswerSealed && (a.Source.From == contract.FromText || a.Alternative.From == contract.FromText) {
			return fmt.Errorf("%s is not sealed, and %s would show the guest what may be a credential", a.Name, contract.FromText)
		}
		for j := range list {
			a, b := &list[i], &list[j]
			if a.Kind == contract.AnswerSealed && b.Kind != contract.AnswerSealed && a.shares(b) {
				return fmt.Errorf("%s and %s are one place of an answer, sealed here and plain there", a.Name, b.Name)
			}
			if i != j && a.Pattern != b.Pattern && a.shares(b) {
				return fmt.Errorf("%s and %s are one place of an answer, and have not the same pattern", a.Name, b.Name)
			}
		}
	}
	return nil
}

// shares reports whether two answers have a place in common.
func (a *Part) shares(b *Part) bool {
	return slices.ContainsFunc([]Source{a.Source, a.Alternative}, func(s Source) bool {
		return s.From != "" && (s.same(&b.Source) || s.same(&b.Alternative))
	})
}

func (s *Source) same(src *Source) bool {
	return s.From == src.From && strings.EqualFold(s.Name, src.Name) && s.Parameter == src.Parameter && slices.Equal(s.Pointer, src.Pointer)
}

// MadeUp returns made-up values of parts, for a call that is explained.
func MadeUp(list []Part, names []string, now time.Time) map[string]string {
	found := map[string]string{}
	for i := range list {
		a := &list[i]
		if len(names) > 0 && !slices.Contains(names, a.Name) {
			continue
		}
		switch a.Kind {
		case contract.AnswerInteger:
			found[a.Name] = "3600"
		case contract.AnswerTime:
			found[a.Name] = strconv.FormatInt(now.Unix()+3600, 10)
		case contract.AnswerEnum:
			found[a.Name] = a.Enum[0]
		default:
			found[a.Name] = a.Name
		}
	}
	return found
}

// MadeUpToken returns a made-up successful answer with these extras, for a call that is explained.
func MadeUpToken(extra []string) *contract.TokenReply {
	reply := &contract.TokenReply{Status: http.StatusOK, AccessToken: "token", TokenType: "bearer", Extra: map[string]string{}}
	reply.ExpiresIn = new(int64(3600))
	for _, name := range extra {
		reply.Extra[name] = name
	}
	return reply
}

// Token returns the members of an answer that RFC 6749 section 5 defines, and those named in extra. The error says
// what is wrong with an answer of 200 to 299. Other answers cause no error.
func (r *Reply) Token(extra []string) (*contract.TokenReply, error) {
	reply := &contract.TokenReply{Status: r.Status}
	var members map[string]any
	err := strictjson.UnmarshalOpen(r.Body, &members)
	switch {
	case !r.Success():
		if code, ok := members["error"].(string); ok {
			reply.Error = registered(code, ErrorCodes)
		}
		return reply, nil
	case r.TooLong:
		return nil, fmt.Errorf("with more than %d bytes", len(r.Body)-1)
	case err != nil:
		return nil, fmt.Errorf("with a body that %w", err)
	}
	token, ok := members["access_token"].(string)
	if code, hasError := members["error"].(string); hasError && token == "" { // GitHub and Slack refuse in this way
		reply.Error = registered(code, ErrorCodes)
		return reply, nil
	}
	if !ok || strings.TrimSpace(token) == "" {
		return nil, errors.New("without an access_token")
	}
	for _, c := range []byte(token) {
		if c < ' ' || c > '~' { // RFC 6749 appendix A.12
			return nil, errors.New("with an access_token that holds characters no token may have")
		}
	}
	reply.AccessToken = token
	switch tokenType := members["token_type"].(type) {
	case nil:
	case string:
		// Apigee calls tokens of RFC 6750 BearerToken (cloud.google.com/apigee/docs/api-platform/security/oauth/access-tokens).
		reply.TokenType = registered(strings.TrimSuffix(strings.ToLower(tokenType), "token"), TokenTypes)
	default:
		reply.TokenType = "other"
	}
	reply.ExpiresIn = seconds(members["expires_in"])
	reply.Scope, _ = members["scope"].(string)
	for _, name := range extra {
		if value, ok := members[name].(string); ok && !slices.Contains(reservedMembers, name) {
			if reply.Extra == nil {
				reply.Extra = map[string]string{}
			}
			reply.Extra[name] = value
		}
	}
	return reply, nil
}

// reservedMembers holds the members of an answer that a guest cannot get as extras.
var reservedMembers = []string{"access_token", "token_type", "expires_in", "scope", "error"}

// ErrorCodes holds the error codes that are registered for token endpoints: RFC 6749 section 5.2, RFCs 7009, 8628, 8693, 8707 and 9449.
var ErrorCodes = []string{
	"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
	"unsupported_token_type", "authorization_pending", "slow_down", "access_denied", "expired_token", "invalid_target",
	"invalid_dpop_proof", "use_dpop_nonce", "server_error", "temporarily_unavailable",
}

// TokenTypes holds the OAuth access token types that are registered at IANA, in lower case.
var TokenTypes = []string{"bearer", "dpop", "pop", "n_a", "mac"}

// registered returns name if it is among names, and "other" if not.
func registered(name string, names []string) string {
	if slices.Contains(names, name) {
		return name
	}
	return "other"
}

// seconds returns the value of an expires_in: a JSON number or a decimal string from 0 to 2³¹−1, with its fraction cut
// off. For anything else it returns nil, as if it were absent.
func seconds(v any) *int64 {
	text, _ := textOf(v)
	if text == "" || len(text) > 32 || strings.ContainsAny(text, "/_xXoObBpPiI") { // big.Rat would accept these characters
		return nil
	}
	if _, exponent, found := strings.Cut(strings.ToLower(text), "e"); found && len(strings.TrimLeft(exponent, "+-0")) > 2 {
		return nil // with an exponent of three digits, the value is too large or almost 0, and costly to compute
	}
	rat, ok := new(big.Rat).SetString(text)
	if !ok || rat.Sign() < 0 {
		return nil
	}
	n := new(big.Int).Quo(rat.Num(), rat.Denom())
	if !n.IsInt64() || n.Int64() > 1<<31-1 {
		return nil
	}
	return new(n.Int64())
}
