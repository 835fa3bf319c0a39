package identity

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host"
)

// maxTime is the end of the year 9999 as a Unix time, in seconds.
const maxTime = 253402300799

func (c Claims) withDefaults() Claims {
	return Claims{
		ID: cmp.Or(c.ID, "sub"), Email: cmp.Or(c.Email, "email"), Username: cmp.Or(c.Username, "preferred_username"),
		FirstName: cmp.Or(c.FirstName, "given_name"), LastName: cmp.Or(c.LastName, "family_name"), TenantID: c.TenantID,
	}
}

func (c *Claims) fields() []namedField {
	return fieldsOf(&c.ID, &c.Email, &c.Username, &c.FirstName, &c.LastName, &c.TenantID)
}

// read returns the user that the claims of a token name.
func (s *session) read(claims map[string]any) (host.User, error) {
	var u host.User
	for _, f := range s.Claims.fields() {
		claim := *f.name
		value, there := claims[claim]
		text, isText := value.(string)
		switch wrong := fit(text); {
		case claim == "" || !there:
		case !isText:
			return host.User{}, unauthenticated(fmt.Sprintf("the claim %q is not text", claim))
		case wrong != "":
			return host.User{}, unauthenticated(fmt.Sprintf("the claim %q %s", claim, wrong))
		default:
			f.set(&u, text)
		}
	}
	if u.ID == "" {
		return host.User{}, unauthenticated(fmt.Sprintf("the token has no claim %q, which says who the user is", s.Claims.ID))
	}
	return u, nil
}

// dropUnverified removes the claim email if email_verified is false (OpenID Connect Core section 5.1), whichever field of the
// user it is for. Some issuers write the boolean as a string.
func dropUnverified(claims map[string]any) error {
	verified, ok := claims["email_verified"]
	switch {
	case !ok || verified == true || verified == "true":
	case verified == false || verified == "false":
		delete(claims, "email")
	default:
		return unauthenticated(`the claim "email_verified" is not true or false`)
	}
	return nil
}

// valid checks the registered claims (RFC 7519 section 4.1).
func (s *session) valid(claims map[string]any) error {
	const leeway = 30 * time.Second // that the issuer's clock may be ahead: for nbf and iat, not for exp
	if issuer, ok := claims["iss"].(string); !ok || issuer != s.Issuer {
		return unauthenticated("the token is of another issuer")
	}
	if !s.isAudience(claims) {
		return unauthenticated("the token is for another audience")
	}
	now := s.clock()
	expiry, ok, err := timeOf(claims, "exp")
	switch {
	case err != nil:
		return err
	case !ok:
		return unauthenticated("the token has no expiry (exp)")
	case !now.Before(expiry):
		return unauthenticated("the token has expired")
	}
	for _, name := range []string{"nbf", "iat"} {
		begin, ok, err := timeOf(claims, name)
		switch {
		case err != nil:
			return err
		case ok && now.Add(leeway).Before(begin):
			return unauthenticated("the token is not valid yet (" + name + ")")
		}
	}
	return nil
}

// isAudience reports whether the claim aud, a string or a list of strings, contains one of the accepted audiences.
func (s *session) isAudience(claims map[string]any) bool {
	audiences, err := jwt.MapClaims(claims).GetAudience() // an element that is no string is an error
	return err == nil && slices.ContainsFunc(audiences, func(audience string) bool { return slices.Contains(s.Audiences, audience) })
}

// timeOf returns the time of a claim that is a NumericDate: seconds, possibly with a fraction. It may be absent.
func timeOf(claims map[string]any, name string) (t time.Time, there bool, err error) {
	claim, ok := claims[name]
	if !ok {
		return time.Time{}, false, nil
	}
	seconds, ok := claim.(float64)
	if !ok || seconds < 0 || seconds > maxTime {
		return time.Time{}, false, unauthenticated(fmt.Sprintf("the claim %q is not a time in seconds", name))
	}
	sec := int64(seconds)
	return time.Unix(sec, int64((seconds-float64(sec))*1e9)), true, nil
}

// HasClaim reports whether a claim is value, or a list that contains value. The claims scope and scp are lists of words with
// spaces between them (RFC 8693 section 4.2), so value may be one of their words. Other claims are not split: a name, for
// example, may be text that the user has chosen.
func HasClaim(claims map[string]any, name, value string) bool {
	switch claim := claims[name].(type) {
	case string:
		return claim == value || (name == "scope" || name == "scp") && slices.Contains(strings.Fields(claim), value)
	case []any:
		return slices.Contains(claim, any(value))
	}
	return false
}

// header finds the user in headers that a proxy sets.
type header struct {
	proxies  []netip.Prefix
	required bool
	fields   []namedField
	// names maps the folded name of a header to its canonical name.
	names map[string]string
}

// namedField is a field of the user, with the name of its header or claim.
type namedField struct {
	// field is the name of the member in configurations.
	field string
	// name points to the name of the header or claim.
	name *string
	set  func(*host.User, string)
}

func fieldsOf(id, email, username, firstName, lastName, tenantID *string) []namedField {
	return []namedField{
		{"id", id, func(u *host.User, v string) { u.ID = v }},
		{"email", email, func(u *host.User, v string) { u.Email = v }},
		{"username", username, func(u *host.User, v string) { u.Username = v }},
		{"first_name", firstName, func(u *host.User, v string) { u.FirstName = v }},
		{"last_name", lastName, func(u *host.User, v string) { u.LastName = v }},
		{"tenant_id", tenantID, func(u *host.User, v string) { u.TenantID = v }},
	}
}

func (c *Header) fields() []namedField {
	return fieldsOf(&c.ID, &c.Email, &c.Username, &c.FirstName, &c.LastName, &c.TenantID)
}

// newHeader returns a header for a configuration without problems.
func newHeader(configured *Header) *header {
	c := *configured
	h := &header{required: c.Required, names: map[string]string{}}
	for _, text := range c.Proxies {
		prefix, _ := parseProxy(text)
		h.proxies = append(h.proxies, prefix)
	}
	for _, f := range c.fields() {
		if *f.name == "" {
			continue
		}
		*f.name = textproto.CanonicalMIMEHeaderKey(*f.name)
		h.names[fold(*f.name)] = *f.name
		h.fields = append(h.fields, f)
	}
	return h
}

func (h *header) user(r *http.Request) (host.User, error) {
	var u host.User
	if h.believes(r.RemoteAddr) {
		if err := h.unambiguous(r.Header); err != nil {
			return host.User{}, err
		}
		for _, f := range h.fields {
			value, err := f.value(r.Header)
			if err != nil {
				return host.User{}, err
			}
			f.set(&u, value)
		}
	}
	if h.required && u.ID == "" && u.Email == "" {
		return host.User{}, unauthenticated("no header of a proxy that is believed names the user")
	}
	return u, nil
}

// believes reports whether the peer of a connection is one of the proxies. It ignores X-Forwarded-For and similar headers.
func (h *header) believes(remote string) bool {
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false // such as the peer of a Unix socket
	}
	address := peer.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(h.proxies, func(prefix netip.Prefix) bool { return prefix.Contains(address) })
}

// unambiguous returns an error if a header's name differs from a configured one, but is the same for programs that turn
// headers into variables, as CGI does. A proxy that removes X-Forwarded-Email may pass the browser's X_Forwarded_Email.
func (h *header) unambiguous(all http.Header) error {
	for key := range all {
		if name, ok := h.names[fold(key)]; ok && key != name {
			return ambiguous(fmt.Sprintf("a header is written almost like %s, and some programs take it for that", name))
		}
	}
	return nil
}

// value returns the value of the field's header, or "". It refuses several. Only the names of a person may have commas.
func (f *namedField) value(all http.Header) (string, error) {
	name := *f.name
	value := strings.TrimSpace(all.Get(name))
	switch wrong := fit(value); {
	case len(all[name]) > 1:
		return "", ambiguous(name + " is there more than once: the proxy has to replace what browsers send, not to add to it")
	case strings.Contains(value, ",") && f.field != "first_name" && f.field != "last_name":
		return "", ambiguous(name + " has a comma, as when two headers were joined: the proxy has to replace what browsers send")
	case wrong != "":
		return "", unauthenticated(name + " " + wrong)
	}
	return value, nil
}

// fold returns a name in lower case, with a hyphen in place of other characters, so that names that programs may confuse are the same.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		}
		return '-'
	}, name)
}

// fit returns what is wrong with a field of the user, or "". Values end up in headers, URLs and logs.
func fit(value string) string {
	const maxValue = 1024 // bytes
	switch {
	case len(value) > maxValue:
		return "is too long"
	case !utf8.ValidString(value):
		return "is not valid UTF-8"
	case strings.ContainsFunc(value, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) }):
		return "has control characters"
	}
	return ""
}
