package imports

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

type curlMaker struct {
	*maker
	curl *curl
	url  *url.URL
	// keys are the credentials that are keys.
	keys []key
}

// A key is a credential that goes into one place of a request. Its value is not kept.
type key struct {
	// in is header, query, cookie or form.
	in, name string
}

func (b *curlMaker) make() error {
	c := b.Connector
	switch grant, err := b.grant(); {
	case err != nil:
		return err
	case grant != "":
		b.tokenRequest(grant)
		return nil
	}
	if err := b.credential(); err != nil {
		return err
	}
	b.headers()
	b.query()
	b.cookies()
	b.form()
	path := b.path()
	b.place()
	b.pathKey()
	if c.Type == "" {
		if err := b.none(); err != nil {
			return err
		}
		c.Type = "none"
		b.note("the command line has no credential, so the type is none")
	}
	if b.curl.cert {
		c.TLS.add("certificate", b.secret("certificate", "the client certificate in PEM, that of --cert"))
		c.TLS.add("key", b.secret("key", "its private key in PEM, without a passphrase, that of --key"))
	}
	if method := b.curl.verb(); method != "GET" {
		c.Methods = []string{method}
	}
	switch {
	case b.options.Paths == PathsNone:
		b.note("callers of the gateway may use no path: add paths")
	case b.options.Paths == PathsAll:
		c.Paths = []string{"/**"}
	case path != "":
		c.Paths = []string{path}
		b.note("callers of the gateway may use the path %s and no other: change paths, and method, as they need", path)
	}
	if len(b.curl.data) > 0 && !b.curl.get {
		b.note("the body is not imported: each request has its own")
	}
	return nil
}

// none returns an error if a credential shows that has no place, so that the auth type would be none by mistake.
func (b *curlMaker) none() error {
	for _, w := range b.curl.rest {
		if shows(w.text) {
			return w.errorf("a credential shows where no auth type puts one, such as in a body of JSON: leave it out if it is none, or if the request is a login, which the auth type login makes")
		}
	}
	if len(b.curl.unread) > 0 {
		return errors.New("the command line shows no credential, and may have one nevertheless: " + strings.Join(b.curl.unread, "; "))
	}
	return nil
}

// credential makes the auth of the options that stand for one, and of Authorization.
func (b *curlMaker) credential() error {
	const username, password = "the user name", "the password"
	switch line := b.curl; {
	case line.aws != "":
		return b.aws()
	case line.user != nil && line.digest:
		b.auth("digest", "username", username, "password", password)
	case (line.user != nil || b.url.User != nil) && b.hasPassword():
		b.auth("basic", "username", username, "password", password)
	case line.user != nil || b.url.User != nil:
		b.auth("basic", "username", username)
	case line.bearer != nil:
		b.auth("bearer", "token", "the token of --oauth2-bearer")
	default:
		return b.authorization()
	}
	return nil
}

// hasPassword reports whether -u, or the URL, has a password. Without a colon in -u, curl asks for one.
func (b *curlMaker) hasPassword() bool {
	if b.curl.user != nil {
		return !strings.HasSuffix(*b.curl.user, ":")
	}
	password, _ := b.url.User.Password()
	return password != ""
}

func (b *curlMaker) authorization() error {
	values := b.curl.header("Authorization")
	if len(values) == 0 || values[0] == "" {
		return nil
	}
	word, rest, found := strings.Cut(values[0], " ")
	lower := strings.ToLower(word)
	if !found {
		lower = ""
	}
	switch {
	case lower == "basic":
		b.auth("basic", "username", "the user name, before the colon of the decoded header")
		if decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest)); err != nil || !strings.HasSuffix(string(decoded), ":") {
			b.auth("basic", "password", "the password")
		}
	case lower == "bearer":
		b.auth("bearer", "token", "the token, without Bearer")
	case lower == "digest" || strings.HasPrefix(lower, "aws4-") || lower == "oauth" || lower == "signature" || lower == "hawk":
		use := map[string]string{"digest": "--digest with -u", "oauth": "the auth type oauth1", "signature": "the auth type http_signature", "hawk": "the auth type hmac"}[lower]
		return fmt.Errorf("the header Authorization has a signature of this one request, so that it cannot be sent again: use %s", cmp.Or(use, "--aws-sigv4 with -u"))
	case slices.Contains(words, lower):
		b.Connector.Config.add("prefix", literal(word))
		b.auth("bearer", "token", "the header Authorization, without its first word")
	default:
		b.apiKey("header", "Authorization", b.secret("authorization", "the header Authorization"))
	}
	return nil
}

// words are words in front of a credential. Any other counts as a part of it.
var words = []string{
	"token", "apikey", "api-key", "api_key", "geniekey", "key", "jwt", "bot", "ssws", "pat", "splunk", "client-id",
	"zoho-oauthtoken", "klaviyo-api-key", "deepl-auth-key", "discogs", "snowflake", "apptoken", "accesskey",
}

// aws makes the auth of --aws-sigv4, whose value is aws:amz:REGION:SERVICE.
func (b *curlMaker) aws() error {
	parts := strings.Split(b.curl.aws, ":")
	if parts[0] != "aws" || len(parts) > 1 && parts[1] != "amz" {
		return errors.New("--aws-sigv4 names another provider than aws:amz: no auth type has its signature")
	}
	s := schemer{maker: b.maker, server: server{url: "https://" + b.url.Host}}
	region, service := s.place()
	if len(parts) > 2 && parts[2] != "" {
		region = parts[2]
	}
	if len(parts) > 3 && parts[3] != "" {
		service = parts[3]
	}
	if !regionSyntax.MatchString(region) || !isHarmless(service) {
		return errors.New("--aws-sigv4 has a region or a service that AWS does not have: it is aws:amz:REGION:SERVICE")
	}
	c := b.Connector
	b.auth("aws_sigv4", "access_key_id", "the access key ID, the user of -u", "secret_access_key", "the secret access key, the password of -u")
	if len(b.curl.header("X-Amz-Security-Token")) > 0 {
		b.auth("aws_sigv4", "session_token", "the session token, the header X-Amz-Security-Token")
	}
	c.Config.add("region", literal(region))
	c.Config.add("service", literal(service))
	return nil
}

// callers are headers that are no credentials, and that callers may set.
var callers = []string{"accept", "accept-language", "content-type", "prefer", "accept-version"}

// clients are headers that HTTP clients and browsers set.
var clients = regexp.MustCompile(`(?i)^(accept-encoding|cache-control|connection|content-length|dnt|expect|host|if-.*|keep-alive|origin|pragma|priority|proxy-.*|referer|sec-.*|te|trailer|transfer-encoding|upgrade.*|user-agent|authorization|cookie|x-amz-security-token|x-amz-date|x-amz-content-sha256)$`)

// isHarmless reports whether a value is no credential by its form: versions, media types, languages. Each of its words is one, or a
// number, or has few letters and digits.
func isHarmless(value string) bool {
	const longest, longestWord, longestNumber, longestMixed = 80, 20, 8, 5
	separator := func(r rune) bool { return strings.ContainsRune(" -_.,:;=/*+()[]&\"", r) }
	return len(value) <= longest && !slices.ContainsFunc(strings.FieldsFunc(value, separator), func(part string) bool {
		letters := strings.Trim(strings.ToLower(part), "abcdefghijklmnopqrstuvwxyz") == ""
		capitals := strings.Trim(part[1:], "abcdefghijklmnopqrstuvwxyz")
		switch {
		case letters && (capitals == "" || len(part) <= longestMixed):
			return len(part) > longestWord
		case strings.Trim(part, "0123456789") == "":
			return len(part) > longestNumber
		}
		return len(part) > longestMixed || strings.Trim(strings.ToLower(part), "abcdefghijklmnopqrstuvwxyz0123456789") != ""
	})
}

// headers adds the headers of the command line. The value of a header that is not known to be harmless counts as a credential.
func (b *curlMaker) headers() {
	c := b.Connector
	for _, line := range b.curl.headers {
		name, value, _ := strings.Cut(line.text, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		lower := strings.ToLower(name)
		switch overridable := slices.Contains(callers, lower); {
		case value == "":
		case clients.MatchString(name):
			if !slices.Contains([]string{"authorization", "cookie"}, lower) {
				b.curl.rest = append(b.curl.rest, line)
			}
		case isCredential(name):
			b.leftOut("header")
		case slices.ContainsFunc(c.Headers, func(p Parameter) bool { return strings.EqualFold(p.Name, name) }), len(c.Headers)+len(b.keys) >= 100:
		case (overridable || strings.HasSuffix(lower, "version")) && isHarmless(value):
			c.Headers = append(c.Headers, Parameter{name, literal(value), overridable})
		case overridable:
			b.curl.skip("the header " + name + " has a value that may be a credential, and is left out")
		default:
			b.keys = append(b.keys, key{in: "header", name: name})
		}
	}
	if b.curl.json && len(b.curl.header("Content-Type")) == 0 && len(b.curl.data) > 0 && b.curl.data[0] != "" {
		c.Headers = append(c.Headers, Parameter{"Content-Type", "application/json", true})
	}
}

// credential matches the names of parameters that hold credentials.
var credential = regexp.MustCompile(`(?i)(^|[^a-z])(api|app|access|auth|client|consumer|private|user|subscription|license|developer|x)?[._-]?(key|token|secret|pass|password|passwd|pwd|signature|sig|credentials?|auth|authorization|session|sid|jwt|apikey|appid)$|key$|token$|secret$|password$`)

// looksSecret reports whether a value may be a credential, by its form alone.
func looksSecret(value string) bool {
	return len(value) >= 16 && strings.ContainsAny(value, "0123456789") && strings.ContainsFunc(value, func(r rune) bool { return r >= 'A' && r <= 'z' })
}

// isCredential reports whether a name may be a credential itself: a part of it, between hyphens and the like, is long and mixes letters
// and digits, or is longer than a word.
func isCredential(name string) bool {
	return issued.MatchString(name) || slices.ContainsFunc(strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("-_.[]:", r) }), func(part string) bool {
		const longest = 24
		if len(part) >= longest && strings.ToLower(part) != part && strings.ToUpper(part) != part && !strings.ContainsAny(part, "0123456789") {
			return false // words, each of which begins with a capital
		}
		return mayBeCredential(part)
	})
}

// issued matches the beginnings that issuers give to their credentials, so that a part of one is known, too.
var issued = regexp.MustCompile(`(?i)^(?:[rs]k_(?:live|test)_|gh[opusr]_|github_pat_|glpat-|xox[a-z]-|xapp-|shp[a-z]{2}_|AIza|ya29\.|SG\.|hvs\.)`)

// leftOut notes that something of the command line has a credential for a name (threats.md 252).
func (b *curlMaker) leftOut(in string) {
	b.curl.skip(fmt.Sprintf("a %s has a name that may be a credential, and is left out: if it is none, add it by hand", parts[in]))
}

// query adds the query parameters: credentials as keys, and others as those of callers, without their values.
func (b *curlMaker) query() {
	texts := append([]string{b.url.RawQuery}, b.curl.queries...)
	if b.curl.get {
		texts = append(texts, b.curl.data...)
	}
	c := b.Connector
	for _, pair := range form(texts) {
		duplicate := slices.ContainsFunc(c.Query, func(p Parameter) bool { return p.Name == pair[0] }) ||
			slices.ContainsFunc(b.keys, func(k key) bool { return k.in == "query" && k.name == pair[0] })
		switch {
		case duplicate || len(c.Query)+len(b.keys) >= 100:
		case isCredential(pair[0]):
			b.leftOut("query")
		case pair[1] == "" && !plainName.MatchString(pair[0]):
			b.curl.skip("a query parameter has no value, and is left out")
		case credential.MatchString(pair[0]) || looksSecret(pair[1]):
			b.keys = append(b.keys, key{in: "query", name: pair[0]})
		default:
			c.Query = append(c.Query, Parameter{Name: literal(pair[0]), Overridable: true})
			b.note("the query parameter %s is for callers to set", pair[0])
		}
	}
}

// plainName matches names of query parameters that are no values.
var plainName = regexp.MustCompile(`^[A-Za-z_.-]{1,24}$`)

// cookies adds the cookies, all of which count as credentials.
func (b *curlMaker) cookies() {
	for _, text := range append(slices.Clone(b.curl.cookies), b.curl.header("Cookie")...) {
		if !strings.Contains(text, "=") {
			b.curl.skip("the file with cookies is not read")
			continue
		}
		for _, pair := range strings.Split(text, ";") {
			switch name, _, ok := strings.Cut(strings.TrimSpace(pair), "="); {
			case !ok || !httpguts.ValidHeaderFieldName(name) || len(b.keys) >= 100:
			case isCredential(name):
				b.leftOut("cookie")
			default:
				b.keys = append(b.keys, key{in: "cookie", name: name})
			}
		}
	}
}

// form adds the first field of a form that is a credential, if there is no other.
func (b *curlMaker) form() {
	if !b.curl.isForm() {
		return
	}
	for _, field := range form(b.curl.data) {
		if !credential.MatchString(field[0]) || field[1] == "" {
			continue
		}
		if isCredential(field[0]) {
			b.leftOut("form")
			continue
		}
		if b.Connector.Type == "" && len(b.keys) == 0 {
			b.keys = append(b.keys, key{in: "form", name: field[0]})
			continue
		}
		b.note("the field %s of the body may be a credential: a connector adds one such field, and only in place of another credential", field[0])
	}
}

// place makes the first key the auth, unless there is one, and adds the others.
func (b *curlMaker) place() {
	c := b.Connector
	var cookies []string
	for _, k := range b.keys {
		template := b.secret(k.name, fmt.Sprintf("the %s %s", parts[k.in], k.name))
		switch {
		case c.Type == "":
			b.apiKey(k.in, k.name, template)
		case k.in == "header":
			c.Headers = append(c.Headers, Parameter{Name: k.name, Value: template})
			if !credential.MatchString(k.name) {
				b.note("the header %s counts as a secret: write its value in its place, if it is none", k.name)
			}
		case k.in == "query":
			c.Query = append(c.Query, Parameter{Name: literal(k.name), Value: template})
		default:
			cookies = append(cookies, literal(k.name)+"="+template)
		}
	}
	if len(cookies) > 0 {
		if c.Type == "api_key" && c.Config[0].Value == "cookie" {
			// The type adds its cookie to those that the request has.
			b.note("the connector sends all cookies of the command line; of many, the API may need one only")
		}
		c.Headers = append(c.Headers, Parameter{Name: "Cookie", Value: strings.Join(cookies, "; ")})
	}
}

// path returns the path for callers as a pattern, in which * stands for segments that may be a credential or an ID.
func (b *curlMaker) path() string {
	base, err := url.Parse(b.Connector.URL)
	path := b.url.EscapedPath()
	if err == nil && base.Host == b.url.Host {
		path = strings.TrimPrefix(path, strings.TrimSuffix(base.EscapedPath(), "/"))
	}
	path = strings.TrimSuffix(path, "/")
	if path == "" {
		return ""
	}
	return pattern(strings.TrimPrefix(path, "/"), mayBeCredential)
}

// mayBeCredential reports whether a segment of a path may be a credential or an ID: one of letters and digits, or a long one.
func mayBeCredential(segment string) bool {
	const short, long = 10, 24
	letters := strings.ContainsFunc(segment, func(r rune) bool { return r >= 'A' && r <= 'z' })
	return len(segment) >= long || len(segment) >= short && letters && strings.ContainsAny(segment, "0123456789")
}

var plainSegment = regexp.MustCompile(`^[A-Za-z0-9_.~@-]+$`)

// pathKey makes the longest segment of the path that may be a credential the auth, unless there is one.
func (b *curlMaker) pathKey() {
	longest := ""
	for _, segment := range strings.Split(b.url.Path, "/") {
		if looksSecret(segment) && uuids.ReplaceAllString(segment, "") != "" && len(segment) > len(longest) {
			longest = segment
		}
	}
	if longest == "" || b.Connector.Type != "" {
		return
	}
	b.apiKey("path", "{token}", b.secret("token", "the segment of the path that is a credential"))
	b.note("a segment of the path looks like a credential: write {token} in its place in the paths of requests")
}
