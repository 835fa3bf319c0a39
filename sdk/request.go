package sdk

import "strings"

// Request is the outgoing request.
type Request struct {
	Method string
	// URL has the host that the API sees in the request's Host.
	URL string
	// Headers are the request's headers without Authorization, Cookie and Proxy-Authorization.
	Headers []Pair
	// ContentLength is the length of the body in bytes, or -1 if that is not known.
	ContentLength int64
}

// Request returns the outgoing request. After it, the call cannot use the cache or request a token: that ends the call.
func (c *Call) Request() (Request, error) {
	r := Request{ContentLength: -1}
	err := EachMember(string(c.env.Input()), func(name, value string) error {
		switch name {
		case "method":
			r.Method = text(value)
		case "url":
			r.URL = text(value)
		case "content_length":
			r.ContentLength = integer(value)
		case "headers":
			var err error
			r.Headers, err = pairsOf(value)
			return err
		}
		return nil
	})
	return r, err
}

// Split returns the parts of the request's URL, as they are sent. Scheme and authority are in lower case, and the authority
// lacks the default port of the scheme (RFC 9110 section 4.2.3). The target is the path and the query (RFC 9112 section 3.2.1).
func (r *Request) Split() (scheme, authority, target string) {
	url, _, _ := strings.Cut(r.URL, "#")
	scheme, authority, _ = strings.Cut(url, "://")
	if at := strings.IndexAny(authority, "/?"); at >= 0 {
		authority, target = authority[:at], authority[at:]
	}
	if target == "" || target[0] == '?' {
		target = "/" + target
	}
	scheme, authority = lower(scheme), lower(authority)
	port := ":443"
	if scheme == "http" {
		port = ":80"
	}
	return scheme, strings.TrimSuffix(authority, port), target
}

// lower returns text with its ASCII letters in lower case. The tables of package unicode would add kilobytes to a plugin.
func lower(text string) string {
	b := []byte(text)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// ParseQuery returns the parameters of a query in their order, decoded as those of a form. A % that begins no escape stays as
// it is. The texts may hold bytes that are not UTF-8.
func ParseQuery(query string) (parameters []Pair) {
	for _, parameter := range strings.Split(query, "&") {
		if parameter != "" {
			name, value, _ := strings.Cut(parameter, "=")
			parameters = append(parameters, Pair{unescape(name), unescape(value)})
		}
	}
	return parameters
}

// unescape decodes a name or a value of a form.
//
//go:noinline
func unescape(text string) string {
	b := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '+':
			c = ' '
		case c == '%' && i+2 < len(text):
			if high, low := nibble(text[i+1]), nibble(text[i+2]); high < 16 && low < 16 {
				c = high<<4 | low
				i += 2
			}
		}
		b = append(b, c)
	}
	return string(b)
}

// nibble returns the value of a hexadecimal digit, or 16 for any other byte.
func nibble(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 16
}

// pairsOf returns the pairs of a JSON list.
func pairsOf(list string) (pairs []Pair, err error) {
	err = eachElement(list, func(element string) error {
		var p Pair
		err := EachMember(element, func(name, value string) error {
			switch name {
			case "name":
				p.Name = text(value)
			case "value":
				p.Value = text(value)
			}
			return nil
		})
		pairs = append(pairs, p)
		return err
	})
	return pairs, err
}

// Body returns a sealed value that stands for the body of the request, of whatever length. It can only be hashed, alone or
// with other text: with [Call.Digest], whose result is plain if nothing else is sealed, or with [Call.MAC]. To hash it, the
// host keeps a body that can be read only once. After it, the call cannot use the cache or request a token. It needs
// [UsesBody].
func (c *Call) Body() string { return c.env.Body() }

// BodyForm returns the members of the request's body. ok is false unless that is a form
// (application/x-www-form-urlencoded). After it, the call cannot use the cache or request a token. It needs [UsesBody].
func (c *Call) BodyForm() (members []Pair, ok bool) {
	list, ok := c.env.BodyForm()
	if !ok {
		return nil, false
	}
	members, err := pairsOf(string(list))
	return members, err == nil
}
