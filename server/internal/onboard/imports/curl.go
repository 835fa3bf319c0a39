package imports

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// CurlLine is like [Curl] for a text of sh, which may have comments and other commands beside the one of curl.
func CurlLine(line string, o Options) (*Result, error) {
	text, err := split(line)
	if err != nil {
		return nil, err
	}
	result, err := makeCurl(text.words, o)
	if err == nil && text.commands {
		result.note("other commands of the command line are left out")
	}
	return result, err
}

var errNoCurl = errors.New("the command line has no command of curl: it has to begin with curl, and not with a command of PowerShell, or with another program")

func isCurl(text string) bool {
	name := path.Base(strings.ReplaceAll(text, `\`, "/"))
	return name == "curl" || name == "curl.exe"
}

// Curl makes a connector of a command line of curl. Its values count as credentials, unless it is known that they are not. The
// connector names secrets in their place, and neither the Result nor an error has them.
func Curl(texts []string, o Options) (*Result, error) {
	if len(texts) == 0 || !isCurl(texts[0]) {
		return nil, errNoCurl
	}
	words := make([]word, len(texts))
	for i, text := range texts {
		words[i] = word{text, fmt.Sprintf("word %d", i+1)}
	}
	return makeCurl(words, o)
}

func makeCurl(words []word, o Options) (*Result, error) {
	c := &curl{Result: &Result{}}
	if err := c.parse(words[1:]); err != nil {
		return nil, err
	}
	u, err := c.target()
	if err != nil {
		return nil, err
	}
	base, name := "https://"+u.Host, u.Hostname()
	if userURL, err := url.Parse(o.URL); err == nil && o.URL != "" {
		base, name = strings.TrimSuffix(o.URL, "/"), userURL.Hostname()
	}
	m, err := newMaker(c.Result, o, name, base)
	if err != nil {
		return nil, err
	}
	if err := (&curlMaker{maker: m, curl: c, url: u}).make(); err != nil {
		return nil, err
	}
	return m.done()
}

type curl struct {
	// Result has the notes.
	*Result
	urls, headers []word
	method        string
	user, bearer  *string
	cookies       []string
	// data has the parts of the body, as curl encodes them, and queries what --url-query adds to the URL.
	data, queries           []string
	get, head, json, digest bool
	aws                     string
	// cert is true if there is a client certificate or its key.
	cert bool
	// where is the place of the option that is read, and err the first error of one.
	where string
	err   error
	// rest has the words for which the connector has no place, and unread those that may have a credential that was not read.
	rest   []word
	unread []string
}

func (c *curl) fail(format string, args ...any) {
	if c.err == nil {
		c.err = word{where: c.where}.errorf(format, args...)
	}
}

func (c *curl) leave(text string) { c.rest = append(c.rest, word{text, c.where}) }

// skip notes a part of the command line that is not read, or has no place in the connector, although it may have a credential.
func (c *curl) skip(text string) {
	c.note("%s", text)
	c.unread = append(c.unread, text)
}

func (c *curl) parse(words []word) error {
	for len(words) > 0 && c.err == nil {
		first := words[0]
		words = words[1:]
		c.where = first.where
		switch text := first.text; {
		case text == "--":
			c.urls = append(c.urls, words...)
			words = nil
		case strings.HasPrefix(text, "--"):
			words = c.long(text[2:], words)
		case len(text) > 1 && text[0] == '-':
			words = c.short(text[1:], words)
		default:
			c.urls = append(c.urls, first)
		}
	}
	return c.err
}

// value calls the function of an option with its value, and returns the words behind it.
func (c *curl) value(o option, rest []word) []word {
	if len(rest) == 0 {
		c.fail("an option of curl has no value")
		return nil
	}
	if o.read != nil {
		o.read(c, rest[0].text)
	}
	return rest[1:]
}

// long reads an option by its long name. The name of one that is not known is not shown, since a credential may hang on it.
func (c *curl) long(name string, rest []word) []word {
	if o := options[name]; o.isValued {
		return c.value(o, rest)
	}
	positive, negated := strings.CutPrefix(name, "no-")
	if o, ok := options[positive]; ok && !o.isValued {
		if o.read != nil && !negated {
			o.read(c, "")
		}
		return rest
	}
	c.note("%s of the command line has an option that is not known here, and is left out", c.where)
	c.leave(name)
	for option, o := range options {
		if o.isValued && strings.HasPrefix(name, option) && !optionSyntax.MatchString(name[len(option):]) {
			c.fail("an option of curl has its value without a blank before it")
			return nil
		}
	}
	isValue := func(w word) bool { return !strings.HasPrefix(w.text, "-") }
	if len(rest) > 0 && isValue(rest[0]) && !strings.Contains(rest[0].text, "://") && (len(c.urls) > 0 || slices.ContainsFunc(rest[1:], isValue)) {
		c.leave(rest[0].text)
		return rest[1:]
	}
	return rest
}

func (c *curl) short(letters string, rest []word) []word {
	for i, letter := range letters {
		switch o, ok := shorts[string(letter)]; {
		case !ok:
			c.fail("curl has no option with such a letter")
			return nil
		case o.isValued && i+1 < len(letters):
			c.value(o, []word{{text: letters[i+1:]}})
			return rest
		case o.isValued:
			return c.value(o, rest)
		case o.read != nil:
			o.read(c, "")
		}
	}
	return rest
}

func (c *curl) target() (*url.URL, error) {
	if len(c.urls) == 0 {
		return nil, errors.New("the command line has no URL")
	}
	if len(c.urls) > 1 {
		c.note("the command line has %d URLs, of which the first was taken", len(c.urls))
	}
	for _, w := range c.urls {
		if len(c.urls) > 1 && !strings.Contains(w.text, "://") {
			return nil, w.errorf("something is neither an option of curl nor its value nor the URL: a quote or an option may be missing before it")
		}
	}
	first := c.urls[0]
	text := first.text
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || !isHost(u, text != first.text) || strings.ContainsAny(text, " \t\r\n") { // curl refuses blanks
		return nil, first.errorf("the URL cannot be read: its host is no name, or user or password have a character that has to be percent-encoded")
	}
	c.rest = append(c.rest, word{u.Fragment, first.where})
	switch u.Scheme {
	case "https":
	case "http":
		c.note("the URL is plain http; the connector has https, since http sends the credential in the open")
		if u.Port() == "80" {
			u.Host = u.Hostname()
		}
	default:
		return nil, first.errorf("the URL is neither http nor https")
	}
	return u, nil
}

var hostSyntax = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9._-]{0,251}[a-zA-Z0-9])?$`)

// isHost reports whether a URL has the name or the address of a host, and no part of a password. bare has no scheme.
func isHost(u *url.URL, bare bool) bool {
	name := u.Hostname()
	const longestPort = 5
	if strings.HasSuffix(u.Host, ":") || len(u.Port()) > longestPort {
		return false
	}
	if net.ParseIP(name) != nil {
		return true
	}
	if !strings.Contains(name, ".") && (bare && name != "localhost" || mayBeCredential(name)) {
		return false
	}
	for _, label := range strings.Split(name, ".") {
		mixed := strings.ToLower(label) != label && strings.ContainsAny(label, "0123456789")
		if looksSecret(label) && bare || (mixed || u.User != nil) && mayBeCredential(label) {
			return false
		}
	}
	cut := strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") && (u.Port() != "" || !strings.Contains(name, "."))
	return hostSyntax.MatchString(name) && !cut
}

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

func (c *curl) header(name string) (values []string) {
	for _, line := range c.headers {
		if key, value, ok := strings.Cut(line.text, ":"); ok && strings.EqualFold(strings.TrimSpace(key), name) {
			values = append(values, strings.TrimSpace(value))
		}
	}
	return values
}

func (c *curl) isForm() bool {
	kind := c.header("Content-Type")
	return len(c.data) > 0 && !c.get && !c.json && (len(kind) == 0 || slices.ContainsFunc(kind, func(k string) bool {
		return strings.HasPrefix(strings.ToLower(k), "application/x-www-form-urlencoded")
	}))
}

// form returns the fields of parts of a form, in their order.
func form(parts []string) (fields [][2]string) {
	for _, part := range parts {
		for _, pair := range strings.Split(part, "&") {
			name, value, _ := strings.Cut(pair, "=")
			field := [2]string{name, value}
			for i := range field {
				if text, err := url.QueryUnescape(field[i]); err == nil { // or else the text counts as it is
					field[i] = text
				}
			}
			if field[0] != "" && len(fields) < 1000 {
				fields = append(fields, field)
			}
		}
	}
	return fields
}
