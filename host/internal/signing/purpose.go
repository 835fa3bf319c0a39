package signing

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/keywright/keywright/internal/contract"
)

// CheckPurpose returns the reason why data may not be signed for a purpose, or "". It does not look into sealed values, because
// the refusal would show what they are. begin is data in front of the first of them, or all of it. An API may have chosen a
// sealed value, so begin must exclude the forms of other protocols whatever the value is.
func CheckPurpose(purpose, data, begin string) string {
	switch purpose {
	case contract.PurposeJWT:
		return `cannot be for "jwt": jwt_sign signs JWTs`
	case contract.PurposeHTTPSignature:
		lines := strings.Split(data, "\n")
		for i, line := range lines {
			if name, _, ok := component(line); !ok || (name == "@signature-params") != (i == len(lines)-1) {
				return "is no signature base (RFC 9421 section 2.5)"
			}
		}
	case contract.PurposeMessage:
		switch {
		case isJWS(begin):
			return "has the form of a JWS (RFC 7515 section 5.1)"
		case strings.HasPrefix(begin, "SSHSIG"):
			return "has the form of an SSH signature"
		case strings.HasPrefix(begin, strings.Repeat(" ", 64)):
			return "has the form of a TLS handshake (RFC 8446 section 4.4.3)"
		case strings.Contains(data, "\"@signature-params\": "):
			return `has the form of a signature base (RFC 9421 section 2.5), which is for "http_signature"`
		case len(begin) < len(data) && !isSafePrefix(begin):
			return "may have the form of another protocol, depending on a sealed value: put plain text in front of it that has a character which is not of base64url, such as a slash"
		}
	}
	return ""
}

// isSafePrefix reports whether no text that begins with begin can have a form that a message may not have. A
// signature base begins with a quote, a TLS handshake with spaces, and all others with characters of base64url. isJWS has
// looked at what is in front of a dot.
func isSafePrefix(begin string) bool {
	if strings.Trim(begin, " ") == "" || begin[0] == '"' {
		return false
	}
	header, _, found := strings.Cut(begin, ".")
	return found || strings.ContainsFunc(header, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("-_=\r\n", r) // a decoder may skip the last ones
	})
}

// component returns the name and the rest of a line of a signature base (RFC 9421 section 2.5).
func component(line string) (name, rest string, ok bool) {
	line, quoted := strings.CutPrefix(line, `"`)
	name, rest, found := strings.Cut(line, `"`)
	_, _, valued := strings.Cut(rest, ": ")
	return name, rest, quoted && found && name != "" && valued
}

// isJWS reports whether data is the signing input of a JWS: a JSON object in base64url, and a payload after a dot. The payload
// may be anything (RFC 7797).
func isJWS(data string) bool {
	header, _, found := strings.Cut(data, ".")
	if !found {
		return false
	}
	decoded, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(header, "="))
	return err == nil && json.Unmarshal(decoded, &struct{}{}) == nil
}
