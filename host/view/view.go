// Package view has types of package host that its internal packages share. Package host has most of them
// under its own names too.
//
//   - What people may see of a call, masked: steps of a plugin, exchanges with token endpoints, and answers.
//   - Errors about token endpoints, the metadata of issuers, client certificates and fields of a configuration.
//   - Keys of a store of keys, and client certificates.
package view

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/internal/printable"
)

// Step is something that a plugin did before its mutation. Credentials are masked.
type Step struct {
	// Signed is the text that was signed or hashed. It is empty for an exchange and a discovery.
	Signed string `json:"signed,omitempty"`
	// By is the host function and the algorithm, such as "mac HS256".
	By string `json:"by,omitempty"`
	// Discovery is an endpoint from the metadata of an issuer, or nil.
	Discovery *Discovery `json:"discovery,omitempty"`
	// Exchange is a request to a token endpoint, or nil.
	Exchange *Exchange `json:"exchange,omitempty"`
}

// Discovery is an endpoint that the metadata of an issuer names: the member Endpoint has the value URL.
type Discovery struct {
	Issuer   string `json:"issuer"`
	Endpoint string `json:"endpoint"`
	URL      string `json:"url"`
}

// Exchange is a request to a token endpoint. Credentials are masked.
type Exchange struct {
	Method  string     `json:"method"`
	URL     string     `json:"url"`
	Headers []abi.Pair `json:"headers,omitempty"`
	// Body is the form or the JSON. The form is not percent-encoded.
	Body string `json:"body,omitempty"`
	// Answer is the answer, or nil if the request was not sent.
	Answer *Answer `json:"answer,omitempty"`
}

// String returns the step for people to read: a line that says what it is, and then the text or the request with two spaces
// before each line. Control characters are escaped.
func (s Step) String() string {
	switch d := s.Discovery; {
	case s.Exchange != nil:
		return s.Exchange.String()
	case d != nil:
		return indent("the metadata of "+d.Issuer, d.Endpoint+": "+d.URL)
	}
	return indent("the data of "+s.By, strings.Split(s.Signed, "\n")...)
}

// String returns the exchange for people to read: a line that says what it is, and then the request with two spaces before each
// line, and in the same way the answer, if there is one. Control characters are escaped.
func (e Exchange) String() string {
	lines := []string{e.Method + " " + e.URL}
	for _, pair := range e.Headers {
		lines = append(lines, pair.Name+": "+pair.Value)
	}
	if e.Body != "" {
		lines = append(lines, strings.Split(e.Body, "\n")...)
	}
	text := indent("the request to the token endpoint", lines...)
	if e.Answer != nil {
		text += e.Answer.String()
	}
	return text
}

// indent returns a heading, and lines with two spaces before each, printable.
func indent(heading string, lines ...string) string {
	const maxLine = 1024
	var b strings.Builder
	b.WriteString(heading + "\n")
	for _, line := range lines {
		b.WriteString("  " + printable.Text(line, maxLine) + "\n")
	}
	return b.String()
}

// Answer is an answer of a token endpoint or the API, masked: its texts are replaced by made-up ones. Numbers, booleans,
// times, and words that a standard or the plugin's description lists stay.
type Answer struct {
	// Status is the HTTP status. It is 0 if there is no answer.
	Status int `json:"status"`
	// Error is the error if there is no answer, or not all of it, or "". It holds no credential.
	Error string `json:"error,omitempty"`
	// Headers are sorted by name. A header whose value is not shown has an empty one.
	Headers []abi.Pair `json:"headers,omitempty"`
	// Body is the masked body if it is JSON or a form, or "". Of the API's answers, there is a body only if the plugin reads it. Length
	// is the length of the whole body in bytes, if it was read.
	Body   string `json:"body,omitempty"`
	Length int    `json:"length,omitempty"`
	// Description is the error_description of a token endpoint (RFC 6749 section 5.2) if the trace asks for it, or "". It is
	// printable, cut after 500 bytes, and not masked. One that holds a secret or a sealed value of the call is not there.
	Description string `json:"error_description,omitempty"`
	// Milliseconds is the time until the answer, by the host's clock.
	Milliseconds float64 `json:"milliseconds"`
}

// String returns the answer for people to read: a line with the status and the time, and then headers and body with two spaces before
// each line. Control characters are escaped.
func (a Answer) String() string {
	heading := "no answer"
	if a.Status != 0 {
		heading = strings.TrimRight(fmt.Sprintf("the answer %d %s", a.Status, http.StatusText(a.Status)), " ")
	}
	var lines, hidden []string
	if a.Error != "" {
		lines = append(lines, a.Error)
	}
	for _, pair := range a.Headers {
		if pair.Value == "" {
			hidden = append(hidden, pair.Name)
		} else {
			lines = append(lines, pair.Name+": "+pair.Value)
		}
	}
	if len(hidden) > 0 {
		lines = append(lines, "not shown: "+strings.Join(hidden, ", "))
	}
	switch {
	case a.Body != "":
		lines = append(lines, a.Body)
	case a.Length > 0:
		lines = append(lines, fmt.Sprintf("(a body of %d bytes)", a.Length))
	}
	if a.Description != "" {
		lines = append(lines, "the endpoint's error_description: "+a.Description)
	}
	return indent(fmt.Sprintf("%s, after %d ms", heading, int64(a.Milliseconds)), lines...)
}
