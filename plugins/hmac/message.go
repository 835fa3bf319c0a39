package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/keywright/keywright/sdk"
)

// expand returns text with placeholders replaced by what value returns for them, and with escapes replaced.
func expand(text string, value func(placeholder string) (string, error)) (string, error) {
	const names, characters = `ntr\{`, "\n\t\r\\{"
	var b []byte
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
			k := -1
			if i < len(text) {
				k = strings.IndexByte(names, text[i])
			}
			if k < 0 {
				return "", errors.New(`has a \ before another character than n, t, r, \ and {: write \\ for the character`)
			}
			b = append(b, characters[k])
		case '{':
			length := strings.IndexByte(text[i:], '}')
			if length < 0 {
				return "", errors.New(`has a { without a }: write \{ for the character`)
			}
			v, err := value(text[i+1 : i+length])
			if err != nil {
				return "", err
			}
			b = append(b, v...)
			i += length
		default:
			b = append(b, text[i])
		}
	}
	return string(b), nil
}

const (
	names   = " method scheme host hostname port path query target url body timestamp timestamp_ms iso8601 nonce "
	formats = " md5 sha1 sha256 sha384 sha512 base64 base64url base64url_padded base32 hex hex_upper percent form "
	digests = " md5 sha1 sha256 sha384 sha512 "
)

// listed reports whether a list has a word.
func listed(list, word string) bool {
	return strings.IndexByte(word, ' ') < 0 && strings.Contains(list, " "+word+" ")
}

// known returns an error if there is no such placeholder. signed reports whether the text may have the signature.
func known(placeholder string, signed bool) error {
	for i, word := range strings.Split(placeholder, "|") {
		name, argument, _ := strings.Cut(word, ":")
		switch {
		case i > 0 && listed(formats, word):
		case i > 0:
			return errors.New("has {" + placeholder + "}, but there is no format " + word + ":" + formats + "are known")
		case name == "header" && (sdk.Lower(argument) == "authorization" || sdk.Lower(argument) == "cookie"):
			return errors.New("has {" + placeholder + "}, which plugins do not see")
		case (name == "header" || name == "time") && argument != "":
		case word == "signature" && !signed:
			return errors.New("has {signature}, which only value may have")
		case word != "signature" && !listed(names, word):
			return errors.New("has {" + placeholder + "}, but there is no such placeholder:" + names + `header:NAME and time:FORMAT are known; write \{ for the character`)
		}
	}
	return nil
}

// message is the request that is signed, with what is added to it so far.
type message struct {
	call    *sdk.Call
	request sdk.Request
	// millis is the time of the API, as far as that is known.
	millis int64
	// query has what is added, too.
	scheme, hostname, port, path, query string
	headers                             []sdk.Pair
	nonce, signature                    string
}

// newMessage returns the outgoing request.
func newMessage(c *sdk.Call) (*message, error) {
	m := &message{call: c, millis: c.NowMillis() + 1000*c.ClockOffset(), port: "443"}
	var err error
	if m.request, err = c.Request(); err != nil {
		return nil, err
	}
	var target string
	m.scheme, m.hostname, target = m.request.Split()
	m.path, m.query, _ = strings.Cut(target, "?")
	if m.scheme == "http" {
		m.port = "80"
	}
	if colon := strings.LastIndexByte(m.hostname, ':'); colon > strings.LastIndexByte(m.hostname, ']') {
		m.hostname, m.port = m.hostname[:colon], m.hostname[colon+1:]
	}
	return m, nil
}

// pairs returns the members of an object field with their placeholders replaced.
func (m *message) pairs(field string) ([]sdk.Pair, error) {
	pairs, err := sdk.Pairs(m.call.Config(field))
	for i := range pairs {
		if err == nil {
			pairs[i].Value, err = m.field(field+"."+pairs[i].Name, pairs[i].Value)
		}
	}
	return pairs, err
}

// field returns the text of a field with its placeholders replaced.
//
//go:noinline
func (m *message) field(name, text string) (string, error) {
	text, err := expand(text, m.value)
	if err != nil {
		return "", errors.New(name + " " + err.Error())
	}
	return text, nil
}

// value returns the value of a placeholder.
func (m *message) value(placeholder string) (string, error) {
	if err := known(placeholder, m.signature != ""); err != nil {
		return "", err
	}
	words := strings.Split(placeholder, "|")
	name, argument, _ := strings.Cut(words[0], ":")
	v := m.part(name, argument)
	for _, format := range words[1:] {
		if listed(digests, format) {
			v = m.call.Digest(format, v)
		} else {
			v = m.call.Encode(format, v)
		}
	}
	return v, nil
}

// part returns the value of a placeholder without formats.
//
//go:noinline
func (m *message) part(name, argument string) string {
	target := m.path
	if m.query != "" {
		target += "?" + m.query
	}
	switch name {
	case "method":
		return m.request.Method
	case "scheme":
		return m.scheme
	case "host":
		return m.request.Host()
	case "hostname":
		return m.hostname
	case "port":
		return m.port
	case "path":
		return m.path
	case "query":
		return m.query
	case "target":
		return target
	case "url":
		return m.scheme + "://" + m.request.Host() + target
	case "body":
		return m.call.Body()
	case "header":
		return m.header(sdk.Lower(argument))
	case "timestamp":
		return sdk.FormatTime(m.millis, "%s")
	case "timestamp_ms":
		return strconv.FormatInt(m.millis, 10)
	case "iso8601":
		return sdk.FormatTime(m.millis, "%Y-%m-%dT%H:%M:%SZ")
	case "time":
		return sdk.FormatTime(m.millis, argument)
	case "nonce":
		if m.nonce == "" {
			m.nonce = m.call.Random(16)
		}
		return m.nonce
	}
	return m.signature
}

// header returns the values of a header that is added or is in the request, or "". The name is in lower case.
func (m *message) header(name string) string {
	switch {
	case name == "host":
		return m.request.Host()
	case name == "content-length" && m.request.ContentLength > 0:
		return strconv.FormatInt(m.request.ContentLength, 10)
	}
	value, added := sdk.HeaderValue(m.headers, name)
	if !added {
		value, _ = sdk.HeaderValue(m.request.Headers, name)
	}
	return value
}
