package identity

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
)

const (
	// leeway is the time that the issuer's clock may be ahead. It applies to nbf and iat, not to exp.
	leeway = 30 * time.Second
	// maxTime is the end of the year 9999 as a Unix time, in seconds.
	maxTime = 253402300799
)

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
	for _, f := range s.claims.fields() {
		claim := *f.name
		value, ok := claims[claim]
		if claim == "" || !ok {
			continue
		}
		text, ok := value.(string)
		if !ok {
			return host.User{}, unauthenticated(fmt.Sprintf("the claim %q is not text", claim))
		}
		if wrong := fit(text); wrong != "" {
			return host.User{}, unauthenticated(fmt.Sprintf("the claim %q %s", claim, wrong))
		}
		f.set(&u, text)
	}
	if u.ID == "" {
		return host.User{}, unauthenticated(fmt.Sprintf("the token has no claim %q, which says who the user is", s.claims.ID))
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
	if issuer, ok := claims["iss"].(string); !ok || issuer != s.issuer {
		return unauthenticated("the token is of another issuer")
	}
	if !s.isAudience(claims["aud"]) {
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
func (s *session) isAudience(claim any) bool {
	list, ok := claim.([]any)
	if !ok {
		list = []any{claim}
	}
	found := false
	for _, element := range list {
		text, ok := element.(string)
		if !ok {
			return false
		}
		found = found || slices.Contains(s.audiences, text)
	}
	return found
}

// timeOf returns the time of a claim that is a NumericDate: seconds, possibly with a fraction. There is false if the token
// does not have the claim.
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
