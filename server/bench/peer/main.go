//go:build tinygo || wasip1

// Plugin peer does the same as the built-in api_key plugin, for a host with extism/go-sdk: it writes the same mutation from the
// same three values. It uses only go-pdk.
//
// `make plugins` builds it.
package main

import pdk "github.com/extism/go-pdk"

func main() {} // a reactor module never runs it

// authenticate reads the values from its input, one per line: with go-sdk, a configuration costs a host call for each value,
// and the input one for every eight bytes.
//
//go:wasmexport authenticate
func authenticate() int32 {
	key, rest := line(string(pdk.Input()))
	value, in := line(rest)
	output(key, value, in)
	return 0
}

// line cuts a text at its first line break. To import package strings would make the module several times as large.
func line(text string) (first, rest string) {
	for i := 0; i < len(text); i++ {
		if text[i] == '\n' {
			return text[:i], text[i+1:]
		}
	}
	return text, ""
}

func output(key, value, in string) {
	member := `{"headers":[{"name":`
	if in == "query" {
		member = `{"query":[{"name":`
	}
	document := appendString([]byte(member), key)
	document = appendString(append(document, `,"value":`...), value)
	pdk.OutputString(string(append(document, "}]}"...)))
}

const hexDigits = "0123456789abcdef"

// appendString appends a JSON string (RFC 8259 section 7).
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
