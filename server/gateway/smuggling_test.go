package gateway_test

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"
)

const marker = "canary-of-a-caller"

// want is the expected outcome of a caller's request.
type want struct {
	statuses []int
	closed   bool     // the connection takes no further request
	sent     []string // method, path, framing and body of each request that the API gets, separated by vertical lines
}

// threats.md 42, 41, 49: a caller's request becomes at most one request to the API, with one framing. No part of a refused
// request reaches the API.
func TestSmuggling(t *testing.T) {
	const (
		get  = "GET /connectors/weather/a HTTP/1.1\r\nHost: GATEWAY\r\n"
		post = "POST /connectors/weather/a HTTP/1.1\r\nHost: GATEWAY\r\n"
		next = "GET /connectors/weather/" + marker + " HTTP/1.1\r\nHost: GATEWAY\r\n\r\n"
		te   = "Transfer-Encoding: chunked\r\n"
		none = "0\r\n\r\n"
	)
	refused, unsupported := want{[]int{400}, true, nil}, want{[]int{501}, true, nil}
	empty := want{[]int{200}, false, []string{"GET|/a||"}}
	five := want{[]int{200}, false, []string{"POST|/a|Content-Length: 5|hello"}}
	streamed := want{[]int{200}, true, []string{"POST|/a|Transfer-Encoding: chunked|hello"}}
	nothing := want{[]int{200}, true, []string{"POST|/a|Transfer-Encoding: chunked|"}}
	api := newWire(t)
	address := serveWire(t, api)
	for name, c := range map[string]struct {
		raw string
		want
	}{
		"without a body":         {get + "\r\n", empty},
		"with a length":          {post + "Content-Length: 5\r\n\r\nhello", five},
		"in chunks":              {post + te + "\r\n5\r\nhello\r\n" + none, streamed},
		"two, one after another": {get + "\r\n" + strings.Replace(get, "/a ", "/b ", 1) + "\r\n", want{[]int{200, 200}, false, []string{"GET|/a||", "GET|/b||"}}},
		"a body and the next":    {post + "Content-Length: 5\r\n\r\nhello" + get + "\r\n", want{[]int{200, 200}, false, []string{"POST|/a|Content-Length: 5|hello", "GET|/a||"}}},

		// Both framings together.
		"length before chunks, which end first":  {post + "Content-Length: 99\r\n" + te + "\r\n" + none + next, nothing},
		"chunks before length, which ends first": {post + te + "Content-Length: 1\r\n\r\n5\r\nhello\r\n" + none + next, streamed},
		"length zero and chunks":                 {post + "Content-Length: 0\r\n" + te + "\r\n" + none + next, nothing},
		"bad length and chunks":                  {post + "Content-Length: x\r\n" + te + "\r\n" + none + next, refused},
		"length and chunks of a GET":             {get + "Content-Length: 5\r\n" + te + "\r\n" + none + next, want{[]int{200}, true, []string{"GET|/a|Transfer-Encoding: chunked|"}}},
		"chunks of HTTP/1.0":                     {"POST /connectors/weather/a HTTP/1.0\r\nHost: GATEWAY\r\nConnection: keep-alive\r\nContent-Length: 5\r\n" + te + "\r\n" + none + next, want{[]int{200}, true, []string{"POST|/a|Content-Length: 5|0\r\n\r\n"}}},

		// Lengths.
		"lengths that differ":       {post + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello" + next, refused},
		"lengths that are the same": {post + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", five},
		"list of lengths":           {post + "Content-Length: 5, 5\r\n\r\nhello" + next, refused},
		"list of differing lengths": {post + "Content-Length: 5, 6\r\n\r\nhello" + next, refused},
		"length with a plus":        {post + "Content-Length: +5\r\n\r\nhello" + next, refused},
		"negative length":           {post + "Content-Length: -5\r\n\r\nhello" + next, refused},
		"length in hexadecimal":     {post + "Content-Length: 0x5\r\n\r\nhello" + next, refused},
		"length with a blank":       {post + "Content-Length: 5 0\r\n\r\nhello" + next, refused},
		"length with a letter":      {post + "Content-Length: 5a\r\n\r\nhello" + next, refused},
		"length that is empty":      {post + "Content-Length:\r\n\r\nhello" + next, refused},
		"length over 64 bits":       {post + "Content-Length: 18446744073709551621\r\n\r\nhello" + next, refused},
		"length with an underscore": {post + "Content_Length: 30\r\nContent-Length: 5\r\n\r\nhello", five},
		"length on a folded line":   {post + "Content-Length: 5\r\n 0\r\n\r\nhello" + next, refused},
		"length after a bare LF":    {post + "X-A: a\nContent-Length: 5\r\n\r\nhello", five},
		"length in another case":    {post + "cONTENT-lENGTH: 5\r\n\r\nhello", five},

		// Transfer codings.
		"unknown coding":               {post + "Transfer-Encoding: xchunked\r\n\r\n" + none + next, unsupported},
		"coding before chunked":        {post + "Transfer-Encoding: gzip, chunked\r\n\r\n" + none + next, unsupported},
		"coding after chunked":         {post + "Transfer-Encoding: chunked, identity\r\n\r\n" + none + next, unsupported},
		"identity and a length":        {post + "Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello" + next, unsupported},
		"chunked twice":                {post + te + te + "\r\n" + none + next, unsupported},
		"chunked and identity":         {post + te + "Transfer-Encoding: identity\r\n\r\n" + none + next, unsupported},
		"chunked with a comma":         {post + "Transfer-Encoding: ,chunked\r\n\r\n" + none + next, unsupported},
		"chunked in quotes":            {post + "Transfer-Encoding: \"chunked\"\r\n\r\n" + none + next, unsupported},
		"chunked after a vertical tab": {post + "Transfer-Encoding: \vchunked\r\n\r\n" + none + next, refused},
		"coding that is empty":         {post + "Transfer-Encoding:\r\nContent-Length: 5\r\n\r\nhello" + next, unsupported},
		"chunked in capitals":          {post + "transfer-encoding: CHUNKED\r\n\r\n5\r\nhello\r\n" + none, streamed},
		"chunked on a folded line":     {post + "Transfer-Encoding:\r\n chunked\r\n\r\n5\r\nhello\r\n" + none, streamed},

		// Chunks.
		"chunk with an extension":       {post + te + "\r\n5;a=b\r\nhello\r\n" + none, streamed},
		"chunk with a quoted extension": {post + te + "\r\n5;a=\"b\"\r\nhello\r\n" + none, streamed},
		"chunk size with zeros":         {post + te + "\r\n0005\r\nhello\r\n" + none, streamed},
		"trailers":                      {post + te + "\r\n5\r\nhello\r\n0\r\nX-Api-Key: " + marker + "\r\n\r\n", streamed},
		"announced trailers":            {post + te + "Trailer: X-T\r\n\r\n5\r\nhello\r\n0\r\nX-T: " + marker + "\r\n\r\n", streamed},

		// Lines and names.
		"line that ends by LF":         {strings.ReplaceAll(get, "\r", "") + "\n", empty},
		"bare CR in a value":           {get + "X-A: a\rX-B: b\r\n\r\n" + next, refused},
		"bare CR for a line's end":     {get + "X-A: a\rContent-Length: 5\r\n\r\n" + next, refused},
		"folded line":                  {get + "X-A: a\r\n b\r\n\r\n", empty},
		"folded first line":            {"GET /connectors/weather/a HTTP/1.1\r\n X: a\r\nHost: GATEWAY\r\n\r\n" + next, refused},
		"space before the colon":       {post + "Content-Length : 5\r\n\r\nhello" + next, refused},
		"tab before the colon":         {post + "Transfer-Encoding\t: chunked\r\n\r\n" + none + next, refused},
		"line without a colon":         {get + "X-A\r\n\r\n" + next, refused},
		"name that is empty":           {get + ": a\r\n\r\n" + next, refused},
		"NUL in a value":               {get + "X-A: a\x00b\r\n\r\n" + next, refused},
		"NUL in a name":                {get + "X-\x00A: a\r\n\r\n" + next, refused},
		"control character in a name":  {get + "X-\x01A: a\r\n\r\n" + next, refused},
		"bytes beyond ASCII in a name": {get + "X-\xc3\xa4: a\r\n\r\n" + next, refused},
		"DEL in a value":               {get + "X-A: \x7f\r\n\r\n" + next, refused},

		// Request lines and hosts.
		"absolute URL":                       {"GET http://GATEWAY/connectors/weather/a HTTP/1.1\r\nHost: GATEWAY\r\n\r\n", empty},
		"absolute URL of another":            {"GET http://other.example/connectors/weather/a HTTP/1.1\r\nHost: GATEWAY\r\n\r\n", want{[]int{421}, false, nil}},
		"URL of another host alone":          {"GET http://other.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n", want{[]int{421}, false, nil}},
		"CONNECT":                            {"CONNECT other.example:443 HTTP/1.1\r\nHost: GATEWAY\r\n\r\n" + next, want{[]int{421}, true, nil}},
		"CONNECT to the gateway":             {"CONNECT GATEWAY HTTP/1.1\r\nHost: GATEWAY\r\n\r\n" + next, want{[]int{405}, true, nil}},
		"authority of a GET":                 {"GET GATEWAY HTTP/1.1\r\nHost: GATEWAY\r\n\r\n" + next, refused},
		"TRACE":                              {"TRACE /connectors/weather/a HTTP/1.1\r\nHost: GATEWAY\r\n\r\n", want{[]int{405}, false, nil}},
		"two Hosts":                          {get + "Host: other.example\r\n\r\n" + next, refused},
		"the same Host twice":                {get + "Host: GATEWAY\r\n\r\n" + next, refused},
		"no Host":                            {"GET /connectors/weather/a HTTP/1.1\r\n\r\n" + next, refused},
		"empty Host":                         {"GET /connectors/weather/a HTTP/1.1\r\nHost:\r\n\r\n", want{[]int{421}, false, nil}},
		"Host with a path":                   {"GET /connectors/weather/a HTTP/1.1\r\nHost: GATEWAY/x\r\n\r\n" + next, want{[]int{400}, true, nil}},
		"HTTP/1.0 that wants to go on":       {"GET /connectors/weather/a HTTP/1.0\r\nHost: GATEWAY\r\nConnection: keep-alive\r\n\r\n" + next, want{[]int{200}, true, []string{"GET|/a||"}}},
		"HTTP/1.0 without a Host":            {"GET /connectors/weather/a HTTP/1.0\r\n\r\n", want{[]int{421}, true, nil}},
		"HTTP/0.9":                           {"GET /connectors/weather/a\r\n\r\n" + next, refused},
		"HTTP/3.0":                           {"GET /connectors/weather/a HTTP/3.0\r\nHost: GATEWAY\r\n\r\n" + next, want{[]int{505}, true, nil}},
		"blanks in the line":                 {"GET  /connectors/weather/a HTTP/1.1\r\nHost: GATEWAY\r\n\r\n" + next, refused},
		"more after the version":             {"GET /connectors/weather/a HTTP/1.1 x\r\nHost: GATEWAY\r\n\r\n" + next, refused},
		"method that is none":                {"G@T /connectors/weather/a HTTP/1.1\r\nHost: GATEWAY\r\n\r\n" + next, refused},
		"request line in the path":           {"GET /connectors/weather/a%20HTTP/1.1%0d%0aX:%20y HTTP/1.1\r\nHost: GATEWAY\r\n\r\n", want{[]int{400}, false, nil}},
		"preface of HTTP/2":                  {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + next, want{[]int{421}, true, nil}},
		"upgrade to HTTP/2":                  {get + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n" + next, want{[]int{400}, true, nil}},
		"header over 32 KiB":                 {get + strings.Repeat("X-A: "+strings.Repeat("a", 1000)+"\r\n", 40) + "\r\n" + next, want{[]int{431}, true, nil}},
		"line over 32 KiB":                   {"GET /connectors/weather/" + strings.Repeat("a", 40_000) + " HTTP/1.1\r\nHost: GATEWAY\r\n\r\n" + next, want{[]int{431}, true, nil}},
		"body over the limit, not asked for": {post + "Content-Length: 1001\r\nExpect: 100-continue\r\n\r\n" + strings.Repeat("a", 1001) + next, want{[]int{413}, true, nil}},
		"other expectation":                  {post + "Content-Length: 5\r\nExpect: 200-maybe\r\n\r\nhello", want{[]int{417}, true, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			api.forget()
			raw := strings.ReplaceAll(c.raw, "GATEWAY", address)
			if got := exchange(t, address, raw, len(c.statuses), c.closed); !slices.Equal(got, c.statuses) && (c.closed || !slices.Equal(got, append(c.statuses, http.StatusOK))) {
				t.Errorf("the caller got %v, want %v", got, c.statuses)
			}
			api.mu.Lock()
			defer api.mu.Unlock()
			expected := []string{}
			for _, s := range c.sent {
				parts := strings.Split(s, "|")
				expected = append(expected, api.request(parts[0], parts[1], parts[2], parts[3]))
			}
			if !c.closed {
				expected = append(expected, api.request("GET", "/last", "", ""))
			}
			if !slices.Equal(api.requests, expected) {
				t.Errorf("the API received\n%q, want\n%q", api.requests, expected)
			}
			if bytes.Contains(api.raw, []byte(marker)) {
				t.Error("the API received what was no request")
			}
		})
	}
}

// threats.md 42: if a body turns out malformed or too large while it is passed on, the API never receives its end.
func TestBrokenBodies(t *testing.T) {
	const (
		post = "POST /connectors/weather/a HTTP/1.1\r\nHost: GATEWAY\r\nTransfer-Encoding: chunked\r\n\r\n"
		next = "0\r\n\r\nGET /connectors/weather/" + marker + " HTTP/1.1\r\nHost: GATEWAY\r\n\r\n"
	)
	api := newWire(t)
	address := serveWire(t, api)
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"size that is none":         {"x\r\nhello\r\n", 400},
		"size in 0x":                {"0x5\r\nhello\r\n", 400},
		"negative size":             {"-5\r\nhello\r\n", 400},
		"size that is empty":        {"\r\nhello\r\n", 400},
		"size over 64 bits":         {"10000000000000005\r\nhello\r\n", 400},
		"size and a blank within":   {"5 5\r\nhello\r\n", 400},
		"data longer than its size": {"4\r\nhello\r\n", 400},
		"data that ends by LF":      {"5\r\nhello\n", 400},
		"size that ends by LF":      {"5\nhello\r\n", 400},
		"size that ends by CR":      {"5\rhello\r\n", 400},
		"LF in an extension":        {"5;a\nb\r\nhello\r\n", 400},
		"extension without an end":  {"5;" + strings.Repeat("a", 10_000) + "\r\nhello\r\n", 400},
		"more than the limit":       {strings.Repeat("64\r\n"+strings.Repeat("a", 100)+"\r\n", 11), 413},
	} {
		t.Run(name, func(t *testing.T) {
			api.forget()
			if got := exchange(t, address, strings.ReplaceAll(post+c.body+next, "GATEWAY", address), 1, true); !slices.Equal(got, []int{c.status}) {
				t.Errorf("the caller got %v, want %d", got, c.status)
			}
			api.mu.Lock()
			defer api.mu.Unlock()
			if len(api.requests) > 0 || bytes.Contains(api.raw, []byte(marker)) {
				t.Errorf("the API received %q", api.requests)
			}
		})
	}
}
