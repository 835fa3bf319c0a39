package answer

import (
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Offer is a challenge of WWW-Authenticate (RFC 9110 section 11.6.1).
type Offer struct {
	// Scheme is the authentication scheme, in lower case.
	Scheme string
	// Parameters has the parameters, by their names in lower case. Of several with one name, the first counts.
	Parameters map[string]string
}

// maxOffers is the maximum number of challenges that are read.
const maxOffers = 16

// Offers returns the challenges in the values of WWW-Authenticate. A value may have several, and a challenge ends where
// the next scheme begins: with an element of the list that is a token, alone or in front of something other than "=". Malformed
// text is skipped.
func Offers(values []string) (offers []Offer) {
	for _, value := range values {
		for _, item := range splitList(value) {
			name, rest := cutToken(item)
			if name != "" && !strings.HasPrefix(rest, "=") {
				if len(offers) == maxOffers {
					return offers
				}
				offers = append(offers, Offer{strings.ToLower(name), map[string]string{}})
				item = rest
			}
			if len(offers) > 0 {
				offers[len(offers)-1].add(item)
			}
		}
	}
	return offers
}

// cutToken returns the token (RFC 9110 section 5.6.2) at the beginning of text, and what follows it and white space. The token
// is empty if there is none, or if it does not end at white space, "=" or the end.
func cutToken(text string) (token, rest string) {
	end := 0
	for end < len(text) && httpguts.IsTokenRune(rune(text[end])) {
		end++
	}
	rest = strings.TrimLeft(text[end:], space)
	if end+len(rest) == len(text) && rest != "" && rest[0] != '=' {
		return "", text
	}
	return text[:end], rest
}

// space is the white space between the parts of a header.
const space = " \t"

// Parameters returns the parameters in a header that is a list of them, such as Authentication-Info.
func Parameters(value string) map[string]string {
	all := Offer{Parameters: map[string]string{}}
	for _, item := range splitList(value) {
		all.add(item)
	}
	return all.Parameters
}

// add adds a parameter, such as nonce="abc". There may be white space around the "=". The padding of a token68 is no
// parameter.
func (o *Offer) add(parameter string) {
	name, rest := cutToken(parameter)
	value, found := strings.CutPrefix(rest, "=")
	value = strings.Trim(value, space)
	name = strings.ToLower(name)
	if _, there := o.Parameters[name]; !found || there || name == "" || value == "" || value[0] == '=' {
		return
	}
	if quoted, ok := strings.CutPrefix(value, `"`); ok {
		value = unquote(quoted)
	}
	o.Parameters[name] = value
}

// unquote returns the text of a quoted-string (RFC 9110 section 5.6.4) after its first quote.
func unquote(quoted string) string {
	var b strings.Builder
	for i := 0; i < len(quoted); i++ {
		switch quoted[i] {
		case '"':
			return b.String()
		case '\\':
			if i++; i == len(quoted) {
				return b.String()
			}
		}
		b.WriteByte(quoted[i])
	}
	return b.String()
}

// splitList returns the elements of a list (RFC 9110 section 5.6.1) without those that are empty. Commas in quotes do not
// separate.
func splitList(value string) (items []string) {
	quoted, from := false, 0
	for i := 0; i <= len(value); i++ {
		switch {
		case i == len(value) || value[i] == ',' && !quoted:
			if item := strings.Trim(value[from:i], space); item != "" {
				items = append(items, item)
			}
			from = i + 1
		case value[i] == '"':
			quoted = !quoted
		case value[i] == '\\' && quoted && i+1 < len(value):
			i++
		}
	}
	return items
}
