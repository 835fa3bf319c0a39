package imports

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// optionSyntax matches what makes the name of an option of curl that of another one, such as url-query of url.
var optionSyntax = regexp.MustCompile(`^-[a-z-]+$`)

func ignored(*curl, string) {}

// other keeps the value of an option without a place in a connector.
func other(c *curl, v string) { c.leave(v) }

func noted(text string) func(*curl, string) {
	return func(c *curl, _ string) { c.note("%s", text) }
}

const noCheck = "-k is refused: the connector verifies certificates, since it would send its credential to anybody otherwise. " +
	"For an authority of your own, use ca of the member tls, or ca_file of egress"

// options are the options of curl that are known, by their long names. An option without set has no value.
var options = map[string]setting{
	"url":            {set: func(c *curl, v string) { c.urls = append(c.urls, word{v, c.where}) }},
	"url-query":      {set: func(c *curl, v string) { c.queries = append(c.queries, v) }},
	"request":        {set: (*curl).setMethod},
	"header":         {set: (*curl).addHeader},
	"user":           {set: func(c *curl, v string) { c.user = &v }},
	"oauth2-bearer":  {set: func(c *curl, v string) { c.bearer = &v }},
	"cookie":         {set: func(c *curl, v string) { c.cookies = append(c.cookies, v) }},
	"aws-sigv4":      {set: func(c *curl, v string) { c.aws = v }},
	"cert":           {set: func(c *curl, _ string) { c.cert = true }},
	"key":            {set: func(c *curl, _ string) { c.key = true }},
	"data":           {set: (*curl).addData},
	"data-ascii":     {set: (*curl).addData},
	"data-binary":    {set: (*curl).addData},
	"data-raw":       {set: func(c *curl, v string) { c.leave(v); c.data = append(c.data, v) }},
	"data-urlencode": {set: (*curl).addEncoded},
	"json":           {set: func(c *curl, v string) { c.json = true; c.addData(v) }},
	"form":           {set: (*curl).addPart}, "form-string": {set: (*curl).addPart},
	"upload-file": {set: func(c *curl, _ string) { c.method = cmp.Or(c.method, "PUT") }},
	"get":         {switched: func(c *curl) { c.get = true }},
	"head":        {switched: func(c *curl) { c.head = true }},
	"digest":      {switched: func(c *curl) { c.digest = true }},
	"basic":       {}, "anyauth": {},
	"negotiate": {switched: refuse("--negotiate")}, "ntlm": {switched: refuse("--ntlm")}, "ntlm-wb": {switched: refuse("--ntlm-wb")},
	"insecure": {switched: func(c *curl) { c.note("%s", noCheck) }},

	"cacert":     {set: noted("--cacert is left out: put the certificates into ca of the member tls, or into a file that ca_file of egress names")},
	"capath":     {set: noted("--capath is left out: put the certificates into a file that ca_file of egress names")},
	"proxy":      {set: noted("the proxy is left out: proxy of the member egress names one")},
	"proxy-user": {set: noted("--proxy-user is left out: no connector authenticates to a proxy in this way")},
	"resolve":    {set: noted("--resolve is left out: a connector dials what its name leads to")},
	"connect-to": {set: noted("--connect-to is left out: a connector dials what its name leads to")},
	"config":     {set: unread("the file of --config is not read: add what it has to the command line")},
	"netrc-file": {set: unread("the file of --netrc-file is not read: add its user and password with -u")},
	"netrc":      {switched: func(c *curl) { c.skip("the file .netrc is not read: add its user and password with -u") }},
	"location":   {switched: func(c *curl) { c.note("-L is left out: redirects go to the caller, and are not followed") }},
	"max-time":   {set: noted("the time limit is left out: timeout of a connector is one, 15s unless given")},
	"next":       {switched: func(c *curl) { c.fail("a second request begins (--next): import each by itself") }},
	"user-agent": {set: other}, "referer": {set: other}, "output": {set: ignored}, "write-out": {set: ignored},
	"connect-timeout": {set: ignored}, "retry": {set: ignored}, "retry-delay": {set: ignored}, "retry-max-time": {set: ignored},
	"cookie-jar": {set: ignored}, "dump-header": {set: ignored}, "limit-rate": {set: ignored}, "max-redirs": {set: ignored},
	"output-dir": {set: ignored}, "trace": {set: ignored}, "trace-ascii": {set: ignored}, "stderr": {set: ignored},
	"cert-type": {set: ignored}, "key-type": {set: ignored}, "pass": {set: ignored}, "ciphers": {set: ignored},
	"tls-max": {set: ignored}, "range": {set: ignored}, "noproxy": {set: ignored}, "interface": {set: ignored},
	"continue-at": {set: ignored}, "ftp-port": {set: ignored}, "quote": {set: ignored}, "telnet-option": {set: ignored},
	"speed-limit": {set: ignored}, "speed-time": {set: ignored}, "time-cond": {set: ignored}, "parallel": {}, "append": {}, "use-ascii": {},
	"remote-time": {}, "list-only": {}, "proxytunnel": {}, "sslv2": {}, "sslv3": {},
	"silent": {}, "show-error": {}, "verbose": {}, "include": {}, "fail": {}, "fail-with-body": {}, "compressed": {}, "globoff": {},
	"junk-session-cookies": {}, "no-buffer": {}, "remote-name": {}, "remote-header-name": {}, "progress-bar": {}, "http1.0": {},
	"http1.1": {}, "http2": {}, "http2-prior-knowledge": {}, "http3": {}, "tlsv1": {}, "tlsv1.2": {}, "tlsv1.3": {}, "ipv4": {},
	"ipv6": {}, "path-as-is": {}, "buffer": {}, "progress-meter": {}, "keepalive": {}, "create-dirs": {}, "disable": {}, "ssl-reqd": {},
	"location-trusted": {}, "retry-connrefused": {}, "retry-all-errors": {}, "tcp-nodelay": {}, "styled-output": {}, "sessionid": {},
}

// shorts are the long names of options with one letter.
var shorts = map[rune]string{
	'X': "request", 'H': "header", 'u': "user", 'b': "cookie", 'd': "data", 'G': "get", 'I': "head", 'E': "cert", 'F': "form",
	'T': "upload-file", 'k': "insecure", 'x': "proxy", 'U': "proxy-user", 'K': "config", 'n': "netrc", 'L': "location", 'm': "max-time",
	'A': "user-agent", 'e': "referer", 'o': "output", 'w': "write-out", 'c': "cookie-jar", 'D': "dump-header", 'r': "range", 's': "silent",
	'S': "show-error", 'v': "verbose", 'i': "include", 'f': "fail", 'g': "globoff", 'j': "junk-session-cookies", 'N': "no-buffer",
	'O': "remote-name", 'J': "remote-header-name", '#': "progress-bar", '0': "http1.0", '1': "tlsv1", '4': "ipv4", '6': "ipv6", 'q': "disable",
	'a': "append", 'B': "use-ascii", 'C': "continue-at", 'P': "ftp-port", 'Q': "quote", 'R': "remote-time", 't': "telnet-option", 'Y': "speed-limit",
	'y': "speed-time", 'z': "time-cond", 'Z': "parallel", 'l': "list-only", 'p': "proxytunnel", ':': "next", '2': "sslv2", '3': "sslv3",
}

func refuse(option string) func(*curl) {
	return func(c *curl) {
		c.fail("%s authenticates a connection and not a request, and a pool of connections would share it: no auth type does that", option)
	}
}

func unread(text string) func(*curl, string) { return func(c *curl, _ string) { c.skip(text) } }

// methods are the methods of requests that connectors have.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY", "PROPFIND", "REPORT", "SEARCH", "PURGE", "LINK", "UNLINK", "MKCOL", "COPY", "MOVE", "LOCK", "UNLOCK", "PROPPATCH"}

func (c *curl) setMethod(value string) {
	if c.method = strings.ToUpper(value); !slices.Contains(methods, c.method) {
		c.fail("the method is none that is known")
	}
}

// addHeader adds a header. curl sends one with a semicolon in place of the colon without a value.
func (c *curl) addHeader(value string) {
	name, _, found := strings.Cut(value, ":")
	switch {
	case strings.HasPrefix(value, "@"):
		c.skip("headers in a file are not read")
	case !found && strings.HasSuffix(value, ";"):
	case !found || !nameSyntax.MatchString(strings.TrimSpace(name)):
		c.fail("a header has no colon, or a name that cannot be sent: a quote may be missing or typographic")
	default:
		c.headers = append(c.headers, word{value, c.where})
	}
}

// addData adds a part of the body. One in a file is not read.
func (c *curl) addData(value string) {
	if strings.HasPrefix(value, "@") {
		c.note("the body in a file is not read")
		value = ""
	}
	c.leave(value)
	c.data = append(c.data, value)
}

// addEncoded adds a part of the body that curl encodes.
func (c *curl) addEncoded(value string) {
	c.leave(value)
	name, text, found := strings.Cut(value, "=")
	switch {
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

// addPart adds a part of a body of the type multipart/form-data.
func (c *curl) addPart(value string) {
	c.leave(value)
	c.json = true // no form of which a field could be replaced
	c.data = append(c.data, "")
}
