package httpapi

import (
	"bytes"
	_ "embed" // openapi.json
)

//go:embed openapi.json
var openAPI []byte

// document is the description of the interface, with the path that it is served at.
func document(base string) []byte {
	if base == "" {
		return openAPI
	}
	return bytes.Replace(openAPI, []byte(`"url": "/"`), []byte(`"url": "`+base+`"`), 1)
}
