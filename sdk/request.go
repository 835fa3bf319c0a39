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
	input := string(c.env.Input())
	if input == "" {
		return r, nil
	}
	_, err := each(input, 0, '{', '}', func(name string, i int) (end int, err error) {
		if name == "headers" {
			r.Headers, end, err = pairsAt(input, i)
			return end, err
		}
		value, end := textAt(input, i)
		switch name {
		case "method":
			r.Method = value
		case "url":
			r.URL = value
		case "content_length":
			r.ContentLength = integer(value)
		}
		return end, nil
	})
	return r, err
}

// Host returns the host and the port of the request's URL, as they are sent in Host.
func (r *Request) Host() string {
	_, host, _ := strings.Cut(r.URL, "://")
	if end := strings.IndexAny(host, "/?#"); end >= 0 {
		host = host[:end]
	}
	return host
}

// Split returns the parts of the request's URL, as they are sent. Scheme and authority are in lower case, and the authority
// lacks the default port of the scheme (RFC 9110 section 4.2.3). The target is the path and the query (RFC 9112 section 3.2.1).
func (r *Request) Split() (scheme, authority, target string) {
	url, _, _ := strings.Cut(r.URL, "#")
	scheme, authority, _ = strings.Cut(url, "://")
	if end := strings.IndexAny(authority, "/?"); end >= 0 {
		authority, target = authority[:end], authority[end:]
	}
	if target == "" || target[0] == '?' {
		target = "/" + target
	}
	scheme, authority = Lower(scheme), Lower(authority)
	port := ":443"
	if scheme == "http" {
		port = ":80"
	}
	return scheme, strings.TrimSuffix(authority, port), target
}

// ParseQuery returns the parameters of a query in their order, decoded by [formDecode].
func ParseQuery(query string) (parameters []Pair) {
	for _, parameter := range strings.Split(query, "&") {
		if parameter != "" {
			name, value, _ := strings.Cut(parameter, "=")
			parameters = append(parameters, Pair{formDecode(name), formDecode(value)})
		}
	}
	return parameters
}

// pairsAt returns the pairs of the JSON list that begins at i, and the index behind it.
func pairsAt(s string, i int) (pairs []Pair, end int, err error) {
	end, err = each(s, i, '[', ']', func(_ string, i int) (int, error) {
		var p Pair
		end, err := each(s, i, '{', '}', func(name string, i int) (int, error) {
			value, end := textAt(s, i)
			switch name {
			case "name":
				p.Name = value
			case "value":
				p.Value = value
			}
			return end, nil
		})
		pairs = append(pairs, p)
		return end, err
	})
	return pairs, end, err
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
	members, _, err := pairsAt(string(list), 0)
	return members, ok && err == nil
}
