package hostfn

import "strings"

// authOffer is a challenge of WWW-Authenticate (RFC 9110 section 11.6.1).
type authOffer struct {
	// scheme is the authentication scheme, in lower case.
	scheme string
	// parameters has the parameters, by their names in lower case. Of several with one name, the first counts.
	parameters map[string]string
}

// maxOffers is the maximum number of challenges that are read.
const maxOffers = 16

// readOffers returns the challenges in the values of WWW-Authenticate. A value may have several, and a challenge ends where
// the next scheme begins. Malformed text is skipped.
func readOffers(values []string) (offers []authOffer) {
	for _, value := range values {
		for _, item := range splitList(value) {
			name, rest, _ := strings.Cut(item, " ")
			if !strings.Contains(name, "=") { // a scheme, and perhaps its first parameter
				if len(offers) == maxOffers {
					return offers
				}
				offers = append(offers, authOffer{strings.ToLower(name), map[string]string{}})
				item = strings.TrimSpace(rest)
			}
			if len(offers) > 0 {
				offers[len(offers)-1].add(item)
			}
		}
	}
	return offers
}

// readParameters returns the parameters in a header that is a list of them, such as Authentication-Info.
func readParameters(value string) map[string]string {
	all := authOffer{parameters: map[string]string{}}
	for _, item := range splitList(value) {
		all.add(item)
	}
	return all.parameters
}

// add adds a parameter, such as nonce="abc".
func (o *authOffer) add(parameter string) {
	name, value, found := strings.Cut(parameter, "=")
	name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
	if _, there := o.parameters[name]; !found || there {
		return
	}
	if quoted, ok := strings.CutPrefix(value, `"`); ok {
		value = unquote(quoted)
	}
	o.parameters[name] = value
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
			if item := strings.TrimSpace(value[from:i]); item != "" {
				items = append(items, item)
			}
			from = i + 1
		case value[i] == '"':
			quoted = !quoted
		case value[i] == '\\' && quoted:
			i++
		}
	}
	return items
}
