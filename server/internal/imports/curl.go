package imports

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
)

// CurlLine is like [Curl] for a command line, with the quotes of sh.
func CurlLine(line string, o Options) (*Result, error) {
	words, operator, err := split(line)
	if err != nil {
		return nil, err
	}
	if len(words) > 0 && words[0] == "$" {
		words = words[1:] // the prompt of a documentation
	}
	result, err := Curl(words, o)
	if err == nil && operator != "" && operator != "\n" && operator != "#" {
		(&maker{result: result}).note("what follows %q in the command line is left out", operator)
	}
	return result, err
}

// Curl makes a connector of a command line of curl. Its values count as credentials, unless it is known that they are not. The
// connector names secrets in their place, and neither the Result nor an error has them.
func Curl(words []string, o Options) (*Result, error) {
	if len(words) == 0 {
		return nil, errors.New("the command line is empty")
	}
	if name := path.Base(strings.ReplaceAll(words[0], `\`, "/")); name != "curl" && name != "curl.exe" {
		return nil, errors.New("the command line has to begin with curl")
	}
	c := &curl{}
	if err := c.parse(words[1:]); err != nil {
		return nil, err
	}
	u, err := c.target()
	if err != nil {
		return nil, err
	}
	base, name := "https://"+u.Host, u.Hostname()
	if given, err := url.Parse(o.URL); err == nil && o.URL != "" {
		base, name = strings.TrimSuffix(o.URL, "/"), given.Hostname()
	}
	m, err := newMaker(o, name, base)
	if err != nil {
		return nil, err
	}
	b := &curlMaker{maker: m, curl: c, url: u}
	if err := b.make(); err != nil {
		return nil, err
	}
	if o.URL == "" {
		m.result.Connector.URL = literal(m.result.Connector.URL)
	}
	return m.done()
}

// curl holds what a command line of curl says.
type curl struct {
	urls    []string
	method  string
	user    *string
	bearer  *string
	headers []string
	cookies []string
	// data has the parts of the body, and encoded is true for those that curl encodes.
	data    []string
	get     bool
	head    bool
	json    bool
	digest  bool
	aws     string
	cert    bool
	key     bool
	refused string
	notes   []string
}

// A setting describes what an option of curl does.
type setting struct {
	// set is called with the value of an option that has one, and switched for one without.
	set      func(c *curl, value string)
	switched func(c *curl)
}

func (c *curl) note(format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf(format, args...))
}

// parse reads the options and URLs of a command line.
func (c *curl) parse(words []string) error {
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		switch {
		case word == "--":
			c.urls = append(c.urls, words...)
			words = nil
		case strings.HasPrefix(word, "--"):
			rest, err := c.long(word, words)
			if err != nil {
				return err
			}
			words = rest
		case len(word) > 1 && word[0] == '-':
			rest, err := c.short(word[1:], words)
			if err != nil {
				return err
			}
			words = rest
		default:
			c.urls = append(c.urls, word)
		}
	}
	if c.refused != "" {
		return errors.New(c.refused)
	}
	return nil
}

func (c *curl) long(word string, rest []string) ([]string, error) {
	name := strings.TrimPrefix(word, "--")
	s, known := options[name]
	if !known {
		s, known = options[strings.TrimPrefix(name, "no-")]
	}
	switch {
	case known && s.set == nil:
		if !strings.HasPrefix(name, "no-") && s.switched != nil {
			s.switched(c)
		}
		return rest, nil
	case known && len(rest) == 0:
		return nil, fmt.Errorf("the option --%s of curl has no value", name)
	case known:
		s.set(c, rest[0])
		return rest[1:], nil
	case !optionSyntax.MatchString(name):
		return nil, errors.New("the command line has something that is no option of curl")
	}
	c.note("the option --%s is not known here, and is left out", name)
	isValue := func(word string) bool { return !strings.HasPrefix(word, "-") }
	if len(rest) > 0 && isValue(rest[0]) && !strings.Contains(rest[0], "://") && (len(c.urls) > 0 || slices.ContainsFunc(rest[1:], isValue)) {
		return rest[1:], nil // its value
	}
	return rest, nil
}

func (c *curl) short(letters string, rest []string) ([]string, error) {
	for i, letter := range letters {
		s, known := options[shorts[letter]]
		switch {
		case !known:
			c.note("the option -%c is not known here, and is left out", letter)
		case s.set == nil:
			if s.switched != nil {
				s.switched(c)
			}
		case i+1 < len(letters):
			s.set(c, letters[i+1:])
			return rest, nil
		case len(rest) == 0:
			return nil, fmt.Errorf("the option -%c of curl has no value", letter)
		default:
			s.set(c, rest[0])
			return rest[1:], nil
		}
	}
	return rest, nil
}

// target returns the URL of the request.
func (c *curl) target() (*url.URL, error) {
	if len(c.urls) == 0 {
		return nil, errors.New("the command line has no URL")
	}
	if len(c.urls) > 1 {
		c.note("the command line has %d URLs, of which the first was taken", len(c.urls))
	}
	text := c.urls[0]
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return nil, errors.New("the URL of the command line cannot be read") // it may hold a credential
	}
	switch u.Scheme {
	case "https":
	case "http":
		c.note("the URL is plain http; the connector has https, since http sends the credential in the open")
		if u.Port() == "80" {
			u.Host = u.Hostname()
		}
	default:
		return nil, errors.New("the URL of the command line is neither http nor https")
	}
	return u, nil
}

// verb returns the method of the request.
func (c *curl) verb() string {
	switch {
	case c.method != "":
		return strings.ToUpper(c.method)
	case c.head:
		return "HEAD"
	case len(c.data) > 0 && !c.get:
		return "POST"
	}
	return "GET"
}

// header returns the values of a header.
func (c *curl) header(name string) (values []string) {
	for _, line := range c.headers {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.EqualFold(strings.TrimSpace(key), name) {
			values = append(values, strings.TrimSpace(value))
		}
	}
	return values
}

// isForm reports whether the body is a form.
func (c *curl) isForm() bool {
	kind := c.header("Content-Type")
	return len(c.data) > 0 && !c.get && !c.json && (len(kind) == 0 || slices.ContainsFunc(kind, func(k string) bool {
		return strings.HasPrefix(strings.ToLower(k), "application/x-www-form-urlencoded")
	}))
}

// form returns the fields of the data, in their order.
func (c *curl) form() (fields [][2]string) {
	for _, part := range c.data {
		for _, pair := range strings.Split(part, "&") {
			name, value, _ := strings.Cut(pair, "=")
			name, nameErr := url.QueryUnescape(name)
			value, valueErr := url.QueryUnescape(value)
			if nameErr == nil && valueErr == nil && name != "" && len(fields) < 1000 {
				fields = append(fields, [2]string{name, value})
			}
		}
	}
	return fields
}
