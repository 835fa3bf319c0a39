package imports

import (
	"cmp"
	_ "embed" // for options.txt
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// optionSyntax matches what makes the name of an option of curl that of another one, such as url-query of url.
var optionSyntax = regexp.MustCompile(`^-[a-z-]+$`)

// An option is an option of curl that is known.
type option struct {
	isValued bool
	// read reads the value. It is nil for an option that does not matter.
	read func(c *curl, value string)
}

// optionLines has a line for each option: its letter or a hyphen, its name, whether it has a value or is a switch, and if there is more to
// say what is noted of it, behind skip if it may have a credential.
//
//go:embed options.txt
var optionLines string

// options are the options by their long names, and shorts those with a letter.
var options, shorts = readOptions()

func readOptions() (options, shorts map[string]option) {
	options, shorts = map[string]option{}, map[string]option{}
	for line := range strings.Lines(optionLines) {
		words := append(strings.SplitN(strings.TrimSpace(line), " ", 4), "")
		o := option{words[2] == "value", optionReaders[words[1]]}
		if text, skipped := strings.CutPrefix(words[3], "skip "); skipped {
			o.read = func(c *curl, _ string) { c.skip(text) }
		} else if text != "" {
			o.read = func(c *curl, _ string) { c.note("%s", text) }
		}
		options[words[1]], shorts[words[0]] = o, o
	}
	delete(shorts, "-")
	return options, shorts
}

// optionReaders has what is done with the options of which more is read than that they are there.
var optionReaders = map[string]func(c *curl, value string){
	"url":            func(c *curl, v string) { c.urls = append(c.urls, word{v, c.where}) },
	"url-query":      func(c *curl, v string) { c.queries = append(c.queries, v) },
	"request":        (*curl).setMethod,
	"header":         (*curl).addHeader,
	"user":           func(c *curl, v string) { c.user = &v },
	"oauth2-bearer":  func(c *curl, v string) { c.bearer = &v },
	"cookie":         func(c *curl, v string) { c.cookies = append(c.cookies, v) },
	"aws-sigv4":      func(c *curl, v string) { c.aws = v },
	"cert":           func(c *curl, _ string) { c.cert = true },
	"key":            func(c *curl, _ string) { c.cert = true },
	"data":           (*curl).addData,
	"data-ascii":     (*curl).addData,
	"data-binary":    (*curl).addData,
	"data-raw":       func(c *curl, v string) { c.leave(v); c.data = append(c.data, v) },
	"data-urlencode": (*curl).addEncoded,
	"json":           func(c *curl, v string) { c.json = true; c.addData(v) },
	"form":           (*curl).addPart,
	"form-string":    (*curl).addPart,
	"upload-file":    func(c *curl, _ string) { c.method = cmp.Or(c.method, "PUT") },
	"user-agent":     (*curl).leave,
	"referer":        (*curl).leave,
	"get":            func(c *curl, _ string) { c.get = true },
	"head":           func(c *curl, _ string) { c.head = true },
	"digest":         func(c *curl, _ string) { c.digest = true },
	"negotiate":      refuse("--negotiate"),
	"ntlm":           refuse("--ntlm"),
	"ntlm-wb":        refuse("--ntlm-wb"),
	"next":           func(c *curl, _ string) { c.fail("a second request begins (--next): import each by itself") },
}

func refuse(option string) func(*curl, string) {
	return func(c *curl, _ string) {
		c.fail("%s authenticates a connection and not a request, and a pool of connections would share it: no auth type does that", option)
	}
}

var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY", "PROPFIND", "REPORT", "SEARCH", "PURGE", "LINK", "UNLINK", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "PROPPATCH"}

func (c *curl) setMethod(value string) {
	if c.method = strings.ToUpper(value); !slices.Contains(methods, c.method) {
		c.fail("the method is none that is known")
	}
}

// addHeader adds a header. curl sends one with a semicolon in place of the colon without a value.
func (c *curl) addHeader(value string) {
	switch name, _, found := strings.Cut(value, ":"); {
	case strings.HasPrefix(value, "@"):
		c.skip("headers in a file are not read")
	case !found && strings.HasSuffix(value, ";"):
	case !found || !httpguts.ValidHeaderFieldName(strings.TrimSpace(name)):
		c.fail("a header has no colon, or a name that cannot be sent: a quote may be missing or typographic")
	default:
		c.headers = append(c.headers, word{value, c.where})
	}
}

func (c *curl) addData(value string) {
	if strings.HasPrefix(value, "@") {
		c.note("the body in a file is not read")
		value = ""
	}
	c.leave(value)
	c.data = append(c.data, value)
}

func (c *curl) addEncoded(value string) {
	c.leave(value)
	switch name, text, found := strings.Cut(value, "="); {
	case found && name != "":
		c.data = append(c.data, name+"="+url.QueryEscape(text))
	case found:
		c.data = append(c.data, url.QueryEscape(text))
	case strings.Contains(value, "@"):
		c.addData("@")
	default:
		c.data = append(c.data, url.QueryEscape(value))
	}
}

func (c *curl) addPart(value string) {
	c.leave(value)
	c.json = true // no form of which a field could be replaced
	c.data = append(c.data, "")
}

// fields returns the fields of the body, if it is a form, or an object of JSON.
func (c *curl) fields() map[string]string {
	fields := map[string]string{}
	var members map[string]any
	switch err := json.Unmarshal([]byte(strings.Join(c.data, "")), &members); {
	case err == nil:
		for name, value := range members {
			fields[name], _ = value.(string)
		}
	case c.isForm():
		for _, field := range form(c.data) {
			fields[field[0]] = field[1]
		}
	}
	return fields
}

// grantTypes are the grants of token requests that can be imported, with their auth types.
var grantTypes = map[string]string{"client_credentials": "oauth_client_credentials", "password": "oauth_password", "refresh_token": "oauth_refresh_token"}

// grant returns the grant of a token request, if the command line is one, or "".
func (b *curlMaker) grant() (string, error) {
	grant := b.curl.fields()["grant_type"]
	if grant == "" || b.curl.get {
		return "", nil
	}
	if grantTypes[grant] == "" {
		return "", errors.New("the command line is a token request whose grant_type cannot be imported: client_credentials, password and refresh_token can; see docs/auth-types.md for others")
	}
	return grant, nil
}

// tokenRequest makes the connector of a token request: it asks for tokens as the command line does, and sends them to the API.
func (b *curlMaker) tokenRequest(grant string) {
	c := b.Connector
	if b.options.URL == "" {
		b.miss("the URL: the command line asks a token endpoint for a token, and does not say for which API: use --url")
	}
	kind, fields := grantTypes[grant], b.curl.fields()
	switch grant {
	case "password":
		b.auth(kind, "username", "the user's name, username of the form", "password", "the user's password, password of the form")
	case "refresh_token":
		b.auth(kind, "refresh_token", "the refresh token, refresh_token of the form")
	}
	basic := b.curl.user != nil || strings.HasPrefix(strings.ToLower(strings.Join(b.curl.header("Authorization"), "")), "basic ")
	_, secret := fields["client_secret"]
	b.auth(kind, "client_id", "the client's identifier")
	switch {
	case basic:
		b.auth(kind, "client_secret", "the client's secret")
		c.Config.add("client_auth", "client_secret_basic")
	case secret || grant == "client_credentials":
		b.auth(kind, "client_secret", "the client's secret, client_secret of the form")
	default:
		c.Config.add("client_auth", "none")
	}
	endpoint := *b.url
	endpoint.Scheme, endpoint.User, endpoint.RawQuery, endpoint.Fragment = "https", nil, "", ""
	if b.options.TokenURL == "" && shows(uuids.ReplaceAllString(endpoint.Path, "")) {
		b.miss("the token endpoint: its path may have a credential: if it has none, use --token-url")
	}
	c.Config.add("token_url", literal(cmp.Or(b.options.TokenURL, endpoint.String())))
	for _, name := range []string{"scope", "audience"} {
		if shows(uuids.ReplaceAllString(fields[name], "")) {
			b.note("%s may have a credential, and is left out: if it has none, add it by hand", name)
			fields[name] = ""
		}
	}
	c.Config.add("scope", literal(fields["scope"]))
	c.Config.add("audience", literal(fields["audience"]))
	switch {
	case !json.Valid([]byte(strings.Join(b.curl.data, ""))):
	case grant != "refresh_token":
		b.note("the token request of the command line is JSON, and that of the connector a form, as RFC 6749 section 4.4.2 has it: a server that takes JSON alone needs the auth type login")
	default:
		c.Config.add("token_request", "json")
	}
	for _, name := range []string{"grant_type", "client_id", "client_secret", "username", "password", "refresh_token", "scope", "audience"} {
		delete(fields, name)
	}
	if len(fields) > 0 {
		b.note("the body has other fields, which are left out: add them as parameters")
	}
	b.note("the command line is a token request: the connector makes it when it needs a token")
}

var uuids = regexp.MustCompile(`(?i)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// MaxLine limits a command line.
const MaxLine = 1 << 20

// A word is a word of a command line, or another part of it, with its place for errors, such as "line 2".
type word struct{ text, where string }

// errorf returns an error with the place of a word. It never has the word itself, which may be a credential.
func (w word) errorf(format string, args ...any) error {
	return fmt.Errorf(w.where+" of the command line: "+format, args...)
}

// A shellText is a text of sh with one command of curl.
type shellText struct {
	text string
	// words are those of curl.
	words []word
	// rest has all that is in no word: comments, here-documents, assignments and other commands.
	rest []word
	// commands is true if rest has other commands.
	commands bool
}

// split returns what a text of sh has. It expands nothing.
func split(text string) (*shellText, error) {
	const maxOpen = 10_000 // limits the characters that nest commands, since the parser of sh calls itself for each
	switch {
	case len(text) > MaxLine:
		return nil, fmt.Errorf("the command line is longer than %d KiB", MaxLine>>10)
	case strings.Count(text, "(")+strings.Count(text, "`")+strings.Count(text, "${")+strings.Count(text, "<<") > maxOpen:
		return nil, errors.New("the command line is nested too deeply")
	}
	s := &shellText{text: text}
	file, err := syntax.NewParser(syntax.KeepComments(true)).Parse(strings.NewReader(text), "")
	var wrong syntax.ParseError
	switch {
	case errors.As(err, &wrong):
		return nil, wordAt(wrong.Pos).errorf("a quote is not closed, or it is not of sh: \\ continues a line, and neither ^ nor ` does")
	case err != nil:
		return nil, errors.New("the command line is not of sh")
	}
	for _, statement := range file.Stmts {
		if err := s.statement(statement, false); err != nil {
			return nil, err
		}
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.Comment); ok {
			s.leave(c)
		}
		return true
	})
	return s, s.check()
}

func wordAt(p syntax.Pos) word { return word{where: fmt.Sprintf("line %d", p.Line())} }

func (s *shellText) leave(n syntax.Node) {
	w := wordAt(n.Pos())
	w.text = s.text[min(n.Pos().Offset(), uint(len(s.text))):min(n.End().Offset(), uint(len(s.text)))]
	s.rest = append(s.rest, w)
}

// statement reads a statement. One behind a pipe reads what curl writes.
func (s *shellText) statement(n *syntax.Stmt, piped bool) error {
	for _, r := range n.Redirs {
		if r.Hdoc != nil {
			s.leave(r.Hdoc)
		}
		if r.Op == syntax.WordHdoc {
			s.leave(r.Word)
		}
	}
	switch c := n.Cmd.(type) {
	case *syntax.BinaryCmd:
		if err := s.statement(c.X, piped); err != nil {
			return err
		}
		return s.statement(c.Y, piped || c.Op == syntax.Pipe || c.Op == syntax.PipeAll)
	case *syntax.CallExpr:
		for _, a := range c.Assigns {
			s.leave(a)
		}
		words, err := literals(c.Args)
		if len(words) > 1 && words[0].text == "$" {
			words = words[1:] // the prompt of a documentation
		}
		if len(words) == 0 || !isCurl(words[0].text) {
			break
		}
		switch {
		case err != nil:
			return err
		case len(s.words) > 0:
			return words[0].errorf("a second command of curl: import each by itself")
		}
		s.words = words
		return nil
	}
	if n.Cmd != nil {
		s.leave(n)
		s.commands = true
	}
	return nil
}

// lostStart matches the beginning of what is the rest of a command of curl, whose line before does not go on.
var lostStart = regexp.MustCompile(`^([-\x{2010}-\x{2015}]|\S*://|['"“‘])`)

// check returns an error if there is no command of curl, or if a part of the text beside it belongs to it, or shows a credential.
func (s *shellText) check() error {
	if len(s.words) == 0 {
		return errNoCurl
	}
	for _, w := range s.rest {
		switch {
		case lostStart.MatchString(w.text):
			return w.errorf("it begins as the rest of a command of curl does, and is a command of its own: the line before has to end with \\, and a comment ends a command")
		case shows(w.text):
			return w.errorf("a credential shows outside of the command of curl: leave the line out, or put a word in place of the credential")
		}
	}
	return nil
}

// literals returns the words of a command, without quotes. Variables stay as they are. With an error, it returns those before it.
func literals(all []*syntax.Word) (words []word, err error) {
	config := &expand.Config{Env: expand.FuncEnviron(func(name string) string { return "$" + name })}
	for _, n := range all {
		w := wordAt(n.Pos())
		for _, part := range n.Parts {
			if lit, ok := part.(*syntax.Lit); ok && strings.ContainsAny(lit.Value, "^“”„‘’‚«»") {
				return words, w.errorf("a quote is typographic, or a ^ is there, as at the command prompt of Windows: write the quotes and the \\ of sh")
			}
		}
		if w.text, err = expand.Literal(config, n); err != nil {
			return words, w.errorf("another command runs, by $(…) or `…`: write what that puts out, or any text in its place")
		}
		words = append(words, w)
	}
	return words, nil
}

var (
	// behindName matches the name of a credential in front of a value, in a header, a form, JSON or an assignment.
	behindName = regexp.MustCompile(`(?i)(key|token|secret|passw(or)?d|pwd|authorization|signature|jwt|session(_?id)?)["'^\\]*\s*[:=]\s*["'^\\]*[^\s"'^\\,;&{}$]|\b(bearer|basic)\s+[^\s$"']{6}|://[^/\s@]*:[^/\s@]*@`)
	runs       = regexp.MustCompile(`[A-Za-z0-9]{16,}`)
)

// shows reports whether a text seems to have a credential: behind a name for one, or by its form.
func shows(text string) bool {
	return behindName.MatchString(text) || slices.ContainsFunc(runs.FindAllString(text, -1), looksSecret)
}

// Quote returns a word as it has to stand in a command line of a shell.
func Quote(word string) string {
	quoted, err := syntax.Quote(word, syntax.LangBash)
	if err != nil {
		return word // a NUL, which no argument can have
	}
	return quoted
}
