package httpapi

import (
	"bytes"
	_ "embed" // openapi.json
)

//go:embed openapi.json
var openAPI []byte

// document returns openapi.json with the base path of the operations.
func document(base string) []byte {
	if base == "" {
		return openAPI
	}
	return bytes.Replace(openAPI, []byte(`"url": "/"`), []byte(`"url": "`+base+`"`), 1)
}
