//go:build tinygo || wasip1

// Plugin peer does what the built-in api_key plugin does, for a host made with extism/go-sdk: it writes the same mutation
// from the same three values. It uses go-pdk alone.
//
// `make plugins` builds it.
package main

import pdk "github.com/extism/go-pdk"

func main() {} // a reactor module never runs it

// authenticate reads the values from the configuration, as the built-in plugin does.
//
//go:wasmexport authenticate
func authenticate() int32 {
	key, _ := pdk.GetConfig("key")
	value, _ := pdk.GetConfig("value")
	in, _ := pdk.GetConfig("in")
	output(key, value, in)
	return 0
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

// appendString appends a JSON string, RFC 8259 section 7.
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
