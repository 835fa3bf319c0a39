package contract

// CheckHeaderName returns the reason why a mutation may not set the named header, or "" if it may. The name must be a
// field name (RFC 9110 section 5.1), and not that of a header that frames the message or is meant for the next hop.
func CheckHeaderName(name string) string {
	if name == "" {
		return "the name of a header is empty"
	}
	lower := make([]byte, len(name))
	for i := 0; i < len(name); i++ {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if !tokenCharacter(c) {
			return "is not the name of a header: letters, digits and any of !#$%&'*+-.^_`|~ are allowed"
		}
		lower[i] = c
	}
	switch string(lower) {
	case "host", "content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade", "keep-alive":
		return "is a header that only the HTTP client may set"
	}
	if len(lower) >= 6 && string(lower[:6]) == "proxy-" {
		return "is a header for proxies, which a connector may not set"
	}
	return ""
}

// IsToken reports whether text is a token, such as a cookie's name or an authentication scheme (RFC 9110 section 5.6.2).
func IsToken(text string) bool {
	for i := 0; i < len(text); i++ {
		if c := text[i]; !tokenCharacter(c) && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return text != ""
}

func tokenCharacter(c byte) bool {
	switch c {
	case '!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~':
		return true
	}
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z'
}
