package mask

import (
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/internal/contract"
)

// header returns the value of a header as a person may see it, or "".
func (m *Masker) header(name string, header http.Header) string {
	value := strings.Join(header.Values(name), ", ")
	switch name {
	case "Content-Type":
		if media, _, _ := mime.ParseMediaType(value); slices.Contains(mediaTypes, media) {
			return media
		}
		return ""
	case "Date", "Retry-After", "Age":
		if isTime(value) || len(value) < 8 && shortNumber.MatchString(value) { // 90 days, and shorter than a credential
			return value
		}
		return ""
	case "Www-Authenticate":
		var offers []string
		for _, offer := range answer.Offers(header.Values(name)) {
			scheme := m.scheme(offer.Scheme)
			offers = append(offers, strings.TrimSpace(scheme+" "+m.parameters(offer.Parameters)))
		}
		return strings.Join(offers, ", ")
	case "Authentication-Info":
		return m.parameters(answer.Parameters(value))
	case "Set-Cookie":
		for _, cookie := range slices.Backward((&http.Response{Header: header}).Cookies()) {
			if slices.ContainsFunc(m.list, func(a answer.Part) bool { return a.Source.From == contract.FromCookie && a.Source.Name == cookie.Name }) {
				return cookie.Name + "=" + m.text(cookie.Value)
			}
		}
		return ""
	}
	for i := range m.list {
		a := &m.list[i]
		if a.Source.From == contract.FromHeader && strings.EqualFold(a.Source.Name, name) {
			if shows(a, value) {
				return value
			}
			return m.text(value)
		}
	}
	return ""
}

// mediaTypes are the media types that are shown.
var mediaTypes = []string{
	"application/json", "application/x-www-form-urlencoded", "application/problem+json", "application/jwt", "application/xml", "application/soap+xml", "application/octet-stream",
	"text/html", "text/plain", "text/xml",
}

// scheme returns an authentication scheme that is registered or that the plugin reads.
func (m *Masker) scheme(scheme string) string {
	for _, a := range m.list {
		if a.Source.From == contract.FromAuth && strings.EqualFold(a.Source.Name, scheme) {
			return a.Source.Name
		}
	}
	for _, name := range []string{"Basic", "Bearer", "Digest", "DPoP", "GNAP", "HOBA", "Mutual", "Negotiate", "NTLM", "OAuth", "PrivateToken", "SCRAM-SHA-256", "vapid"} {
		if strings.EqualFold(name, scheme) {
			return name
		}
	}
	return "Masked"
}

// parameters returns the parameters of a challenge. Those that no standard has and that the plugin does not read are left out.
func (m *Masker) parameters(all map[string]string) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		read := slices.ContainsFunc(m.list, func(a answer.Part) bool { return a.Source.Parameter == name })
		if !read && !slices.Contains(parameterNames, name) {
			continue
		}
		value := all[name]
		if !m.isVocabulary(name, value) {
			value = m.text(value)
		}
		pairs = append(pairs, name+`="`+value+`"`)
	}
	return strings.Join(pairs, ", ")
}

// isVocabulary reports whether each item of a parameter's value is a word of a standard, or of an enum of the plugin.
func (m *Masker) isVocabulary(name, value string) bool {
	for _, item := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' }) {
		same := func(word string) bool { return strings.EqualFold(word, item) }
		ok := slices.ContainsFunc(words, same) || name == "error" && slices.Contains(answer.ErrorCodes, item) ||
			slices.ContainsFunc(m.list, func(a answer.Part) bool { return a.Source.Parameter == name && slices.ContainsFunc(a.Enum, same) })
		if !ok {
			return false
		}
	}
	return true
}

// parameterNames are the names of parameters of challenges: RFC 6750 section 3, RFC 7616 sections 3.3 and 3.5, RFC 9449 and RFC 9728.
var parameterNames = []string{
	"algorithm", "algs", "charset", "cnonce", "domain", "error", "error_description", "error_uri", "nc", "nextnonce", "nonce", "opaque", "qop",
	"realm", "resource_metadata", "rspauth", "scope", "stale", "userhash",
}

// words are the values of such parameters that are the same everywhere.
var words = []string{
	"true", "false", "auth", "auth-int", "utf-8", "MD5", "MD5-sess", "SHA-256", "SHA-256-sess", "SHA-512-256", "SHA-512-256-sess",
	"invalid_token", "insufficient_scope", "use_dpop_nonce", "ES256", "ES384", "ES512", "RS256", "PS256", "EdDSA", "Ed25519",
}
