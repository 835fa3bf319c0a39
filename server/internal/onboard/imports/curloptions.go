package imports

import (
	"cmp"
	_ "embed" // for options.txt
	"encoding/json"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
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
	c := b.result.Connector
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
