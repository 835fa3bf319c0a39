package sdk

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
