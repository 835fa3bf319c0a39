//go:build tinygo || wasip1

// Plugin guest is code that only computes, to be run with and without fuel. It imports nothing.
//
// `make plugins` builds it.
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
)

func main() {} // a reactor module never runs it

// describe is an export without which a module is not admitted, as is authenticate.
//
//go:wasmexport describe
func describe() int32 { return 1 }

// authenticate is required like describe.
//
//go:wasmexport authenticate
func authenticate() int32 { return 1 }

var (
	document = []byte(`{"iss":"client","sub":"user@example.com","aud":"https://api.example.com/","iat":1700000000,"exp":1700000180,` +
		`"roles":["reader","writer"],"tenant":{"id":"t-4711","name":"Example & Söhne","active":true},"scope":"read write admin",` +
		`"jti":"0b9f4c1e-6a53-4c0e-9d1f-2f6c3b7f6a11","description":"what a program keeps"}`)
	encoded = make([]byte, base64.StdEncoding.EncodedLen(len(document)))
	decoded = make([]byte, base64.StdEncoding.DecodedLen(len(encoded)))
)

// run64 encodes a document of a few hundred bytes in base64, and decodes it.
//
//go:wasmexport base64
func run64() int32 {
	base64.StdEncoding.Encode(encoded, document)
	n, err := base64.StdEncoding.Decode(decoded, encoded)
	if err != nil || !bytes.Equal(decoded[:n], document) {
		return 1
	}
	return 0
}

// runJSON decodes the same document with encoding/json, and encodes the result.
//
//go:wasmexport json
func runJSON() int32 {
	var value map[string]any
	if json.Unmarshal(document, &value) != nil {
		return 1
	}
	again, err := json.Marshal(value)
	if err != nil || len(again) < len(document) {
		return 1
	}
	return 0
}
