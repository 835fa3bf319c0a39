package host_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// Hostile endpoints: each answer of a table, as the bytes that a server writes, from an endpoint of exchange, from a token
// endpoint, and from an API whose answers are read for a challenge.

// hostile is an answer of a server.
type hostile struct {
	name string
	// raw is written as it is. SECRET is the credential that the server has received, TOKEN is another one, and ELSEWHERE is the
	// origin of another server. LENGTH is the length of what follows the header.
	raw string
	// endless is written again and again until the connection is closed.
	endless string
	// stalls is set if the server then leaves the connection open.
	stalls bool
	// exchange and token are the outcomes of the request for which the endpoint was asked: "sent" or "error". api is the status
	// that the caller of the API gets, or "error", also if the error is that of the body. It is "200 or 401" if net/http may take
	// what follows the first answer for the answer to the repeated request.
	exchange, token, api string
}

// rawServer is a server on loopback that writes one answer, to each connection.
type rawServer struct {
	origin string

	mu       sync.Mutex
	requests int
}

func (s *rawServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// serve starts a rawServer. It calls stalled when a stalling answer has been written.
func serve(t *testing.T, h *hostile, raw string, stalled func()) *rawServer {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &rawServer{origin: "http://" + listener.Addr().String()}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				r, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				s.mu.Lock()
				s.requests++
				s.mu.Unlock()
				_, err = io.WriteString(conn, raw)
				for h.endless != "" && err == nil {
					_, err = io.WriteString(conn, h.endless)
				}
				if h.stalls {
					stalled()
					_, _ = io.Copy(io.Discard, conn)
				}
			})
		}
	})
	t.Cleanup(func() { _ = listener.Close(); all.Wait() })
	return s
}

// hostileWorld returns a world on a real network whose guest does do, and in which the texts of the guest are outputs.
func hostileWorld(t *testing.T, about abi.Description, do func(env contract.Env, seen func([]byte) []byte) string) *world {
	t.Helper()
	var w *world
	g := &guest{about: about, authenticate: func(env contract.Env) (string, error) {
		return do(env, func(document []byte) []byte {
			w.Out("the guest", string(document))
			return document
		}), nil
	}}
	w = newWorld(t, withoutBuiltIns, withGuest(g), func(c *host.Config) {
		c.Base, c.Egress = nil, host.Egress{AllowHTTP: true, AllowPrivate: true}
	})
	w.setSecret("key", w.Word("the secret"))
	return w
}

// with returns the answer with its placeholders filled in.
func (h *hostile) with(w *world, elsewhere string) string {
	filled := strings.NewReplacer("SECRET", w.secrets["key"], "TOKEN", w.Word("the token"), "ELSEWHERE", elsewhere).Replace(h.raw)
	_, body, _ := strings.Cut(filled, "\r\n\r\n")
	return strings.Replace(filled, "LENGTH", strconv.Itoa(len(body)), 1)
}

// outcome returns "error" for an error, which must be one short line, and otherwise got.
func (w *world) outcome(err error, got string) string {
	w.OutError("the error", err)
	if err == nil {
		return got
	}
	if text := err.Error(); len(text) > 400 || strings.ContainsFunc(text, unicode.IsControl) {
		w.t.Errorf("the error is %q", text)
	}
	return "error"
}

// Every answer of the table comes to one error or to a request that is sent, within the limits. Nothing of the credential or of
// the answer is in the error, in the log or in the memory of the guest, and no other server is asked (threats.md 19, 20, 24, 34,
// 83, 100).
func TestHostileEndpoints(t *testing.T) {
	before := log.Writer()
	log.SetOutput(io.Discard) // net/http logs what servers send, which programs have to discard
	t.Cleanup(func() { log.SetOutput(before) })
	if len(hostileAnswers) < 100 {
		t.Errorf("the table has %d answers", len(hostileAnswers))
	}
	exchange := func(env contract.Env, seen func([]byte) []byte) string {
		var r contract.ExchangeReply
		document := marshal(contract.Exchange{URL: value(env, "url"), Form: pairs("password", value(env, "key"))})
		if err := json.Unmarshal(seen(env.Exchange([]byte(document))), &r); err != nil {
			panic(err)
		}
		return header("Authorization", "Bearer "+r.Answers["token"])
	}
	token := func(env contract.Env, seen func([]byte) []byte) string {
		var r contract.TokenReply
		document := marshal(contract.TokenRequest{URL: value(env, "url"), Form: pairs("password", value(env, "key")), Extra: []string{"custom"}})
		if err := json.Unmarshal(seen(env.TokenRequest([]byte(document))), &r); err != nil {
			panic(err)
		}
		return header("Authorization", "Bearer "+r.AccessToken)
	}
	about := logsIn
	about.Fields = append([]abi.Field{sealedField("key", contract.SinkToken)}, logsIn.Fields...)
	for i := range hostileAnswers {
		h := &hostileAnswers[i]
		t.Run(h.name, func(t *testing.T) {
			for name, c := range map[string]struct {
				do   func(contract.Env, func([]byte) []byte) string
				want string
			}{"exchange": {exchange, h.exchange}, "token_request": {token, h.token}} {
				if got := askEndpoint(t, h, about, c.do); got != c.want {
					t.Errorf("%s: %s, want %s", name, got, c.want)
				}
			}
			if got := askAPI(t, h); !slices.Contains(strings.Split(h.api, " or "), got) {
				t.Errorf("the API: %s, want %s", got, h.api)
			}
		})
	}
}

// askEndpoint sends a request for which an endpoint is asked, and returns the outcome.
func askEndpoint(t *testing.T, h *hostile, about abi.Description, do func(contract.Env, func([]byte) []byte) string) string {
	w := hostileWorld(t, about, do)
	elsewhere := serve(t, &hostile{}, "HTTP/1.1 204 No Content\r\n\r\n", nil)
	api := serve(t, &hostile{}, "HTTP/1.1 204 No Content\r\n\r\n", nil)
	endpoint := serve(t, h, h.with(w, elsewhere.origin), func() {})
	c := host.ConnectorConfig{Name: "crm", Origins: []string{api.origin}, Auth: []host.Auth{{Type: "custom", Config: config{
		"key": "{{ get_secret('key') }}", "url": endpoint.origin,
	}}}}
	if h.stalls {
		c.Timeout = 50 * time.Millisecond // the endpoint never answers, however long it is waited for
	}
	connector := must(w.host.NewConnector(t.Context(), c))(t)
	_, err := w.try(connector, request(t, api.origin))
	var failure *host.Error
	if sent := api.count(); sent != 0 && err != nil || err != nil && (!errors.As(err, &failure) || failure.Stage == host.StagePlugin) {
		t.Errorf("%d requests to the API, %v", sent, err)
	}
	if n := endpoint.count(); n > 1 || n == 0 && !h.stalls || elsewhere.count() != 0 { // the time may end before it is asked
		t.Errorf("%d requests to the endpoint, %d to another server", n, elsewhere.count())
	}
	return w.outcome(err, "sent")
}

// askAPI sends a request to an API whose plugin has a challenge, and returns the status that the caller gets.
func askAPI(t *testing.T, h *hostile) string {
	about := challenged
	about.Fields = []abi.Field{sealedField("key", contract.SinkHeader)}
	about.Challenge = &abi.Challenge{Statuses: []int{401, 403}, Keep: 300, Answers: []abi.Answer{
		{Name: "nonce", From: "auth:Digest/nonce", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}, Keep: true},
		{Name: "next", From: "info:nextnonce", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}, Keep: true},
		{Name: "algorithm", From: "auth:Digest/algorithm", Kind: contract.AnswerEnum, Enum: []string{"SHA-256"}, Keep: true},
		{Name: "cookie", From: "cookie:SID", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}},
		{Name: "token", From: "json:/data/0/token", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}},
		{Name: "code", From: "json:/error/code", Kind: contract.AnswerEnum, Enum: []string{"expired"}},
		{Name: "life", From: "json:/life", Kind: contract.AnswerInteger},
		{Name: "until", From: "header:Date", Kind: contract.AnswerTime},
	}}
	w := hostileWorld(t, about, func(env contract.Env, seen func([]byte) []byte) string {
		var r contract.ChallengeReply
		if err := json.Unmarshal(seen(env.Challenge()), &r); err != nil {
			panic(err)
		}
		m := contract.Mutation{Headers: pairs("X-Key", value(env, "key"))}
		for name, v := range r.Answers {
			m.Headers = append(m.Headers, abi.Pair{Name: "X-" + name, Value: v})
		}
		return marshal(m)
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	elsewhere := serve(t, &hostile{}, "HTTP/1.1 204 No Content\r\n\r\n", nil)
	api := serve(t, h, h.with(w, elsewhere.origin), cancel)
	connector := w.open(host.ConnectorConfig{
		Origins: []string{api.origin}, Auth: []host.Auth{{Type: "custom", Config: config{"key": "{{ get_secret('key') }}"}}},
	})
	r := request(t, api.origin).WithContext(ctx)
	response, err := connector.GuardedTransport(nil).RoundTrip(r)
	got := ""
	if err == nil {
		got = fmt.Sprint(response.StatusCode)
		var body []byte
		if body, err = io.ReadAll(io.LimitReader(response.Body, 1<<20)); strings.Contains(string(body), w.secrets["key"]) {
			t.Error("the caller got the credential")
		}
		_ = response.Body.Close()
	}
	if n := api.count(); n < 1 || n > 2 || elsewhere.count() != 0 {
		t.Errorf("%d requests to the API, %d to another server", n, elsewhere.count())
	}
	return w.outcome(err, got)
}

// answered returns an answer with a body. LENGTH is its length.
func answered(status, body string, headers ...string) string {
	lines := append([]string{"HTTP/1.1 " + status}, headers...)
	return strings.Join(append(lines, "Content-Length: LENGTH"), "\r\n") + "\r\n\r\n" + body
}

// bomb is short, and 64 MiB once it is decompressed.
var bomb = func() string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	for range 64 {
		_, _ = w.Write(make([]byte, 1<<20))
	}
	_ = w.Close()
	return b.String()
}()

// hostileAnswers are the answers of TestHostileEndpoints.
var hostileAnswers = []hostile{
	{name: "nothing at all", raw: "", exchange: "error", token: "error", api: "error"},
	{name: "no HTTP", raw: "TOKEN SECRET\r\n\r\n", exchange: "error", token: "error", api: "error"},
	{name: "TLS", raw: "\x16\x03\x01\x00\x04TOKEN", exchange: "error", token: "error", api: "error"},
	{name: "a status line only", raw: "HTTP/1.1 200 OK\r\n", exchange: "error", token: "error", api: "error"},
	{name: "half a status line", raw: "HTTP/1.1 2", exchange: "error", token: "error", api: "error"},
	{name: "a status that is no number", raw: "HTTP/1.1 TOKEN OK\r\n\r\n", exchange: "error", token: "error", api: "error"},
	{name: "the status 0", raw: "HTTP/1.1 000 SECRET\r\nContent-Length: 0\r\n\r\n", exchange: "error", token: "error", api: "0"},
	{name: "the status 999", raw: "HTTP/1.1 999 SECRET\r\nContent-Length: 0\r\n\r\n", exchange: "error", token: "error", api: "999"},
	{name: "a status of four digits", raw: "HTTP/1.1 2000 SECRET\r\n\r\n", exchange: "error", token: "error", api: "error"},
	{name: "HTTP 0.9", raw: "TOKEN", exchange: "error", token: "error", api: "error"},
	{name: "HTTP 1.0 to its end", raw: "HTTP/1.0 200 OK\r\n\r\n{\"access_token\":\"TOKEN\",\"token_type\":\"bearer\",\"data\":[{\"token\":\"TOKEN\"}]}", exchange: "sent", token: "sent", api: "200"},
	{name: "HTTP 2", raw: "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", exchange: "error", token: "error", api: "200"},
	{name: "another protocol", raw: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: SECRET\r\nConnection: Upgrade\r\n\r\nTOKEN", exchange: "error", token: "error", api: "error"},
	{name: "an upgrade that is asked for", raw: "HTTP/1.1 426 Upgrade Required\r\nUpgrade: SECRET\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n", exchange: "error", token: "error", api: "426"},
	{name: "the credential in the reason", raw: "HTTP/1.1 401 SECRET\r\nContent-Length: 0\r\n\r\n", exchange: "error", token: "error", api: "401"},
	{name: "a header without a colon", raw: "HTTP/1.1 200 OK\r\nSECRET\r\n\r\n", exchange: "error", token: "error", api: "error"},
	{name: "a header with a space in its name", raw: "HTTP/1.1 200 OK\r\nX TOKEN: a\r\n\r\n", exchange: "error", token: "error", api: "200"},
	{name: "a header with a NUL", raw: "HTTP/1.1 200 OK\r\nX-A: \x00TOKEN\r\n\r\n", exchange: "error", token: "error", api: "error"},
	{name: "a continued header", raw: "HTTP/1.1 401 No\r\nWWW-Authenticate: Digest\r\n nonce=\"TOKEN\"\r\nContent-Length: 0\r\n\r\n", exchange: "error", token: "error", api: "401"},
	{name: "a header in two cases", raw: "HTTP/1.1 401 No\r\nwww-authenticate: Digest nonce=\"TOKEN\"\r\nWWW-AUTHENTICATE: Digest nonce=\"b\"\r\nContent-Length: 0\r\n\r\n", exchange: "error", token: "error", api: "401"},
	{name: "bare line feeds", raw: "HTTP/1.1 200 OK\nContent-Length: 5\n\nTOKEN", exchange: "error", token: "error", api: "200"},
	{name: "a Content-Length that is no number", raw: "HTTP/1.1 200 OK\r\nContent-Length: SECRET\r\n\r\n", exchange: "error", token: "error", api: "error"},
	{name: "a Content-Length below 0", raw: "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", exchange: "error", token: "error", api: "error"},
	{name: "a Content-Length beyond 64 bits", raw: "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nTOKEN", exchange: "error", token: "error", api: "error"},
	{name: "two Content-Lengths", raw: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nTOKEN", exchange: "error", token: "error", api: "error"},
	{name: "a Content-Length and chunks", raw: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", exchange: "error", token: "error", api: "200"},
	{name: "another transfer coding", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: SECRET\r\n\r\n", exchange: "error", token: "error", api: "error"},
	{name: "a body that breaks off", raw: "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"access_token\":\"TOKEN\"}", exchange: "error", token: "error", api: "error"},
	{name: "a refusal that breaks off", raw: "HTTP/1.1 401 No\r\nWWW-Authenticate: Digest nonce=\"TOKEN\"\r\nContent-Length: 100\r\n\r\n{\"error\":{\"code\":\"expired\"}}", exchange: "error", token: "error", api: "error"},
	{name: "a chunk that breaks off", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{\"access_token\":\"TOKEN\"}", exchange: "error", token: "error", api: "error"},
	{name: "a chunk without a size", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nSECRET\r\n{}\r\n", exchange: "error", token: "error", api: "error"},
	{name: "a chunk of many digits", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n00000000000000000000000000ff\r\nTOKEN\r\n", exchange: "error", token: "error", api: "error"},
	{name: "a chunk below 0", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nTOKEN\r\n", exchange: "error", token: "error", api: "error"},
	{name: "a trailer that is not declared", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-TOKEN: SECRET\r\n\r\n", exchange: "error", token: "error", api: "200"},
	{name: "a malformed trailer", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2\r\n{}\r\n0\r\nSECRET\r\n\r\n", exchange: "error", token: "error", api: "error"},
	{name: "the credential in a trailer", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2\r\n{}\r\n0\r\nX: SECRET\r\n\r\n", exchange: "error", token: "error", api: "200"},
	{name: "a second answer that nobody asked for", raw: "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nX: SECRET\r\nContent-Length: 5\r\n\r\nTOKEN", exchange: "error", token: "error", api: "200 or 401"},
	{name: "a body of a 204", raw: "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nTOKEN", exchange: "error", token: "error", api: "204"},
	{name: "a body of a 304", raw: "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nTOKEN", exchange: "error", token: "error", api: "304"},
	{name: "hints before the answer", raw: "HTTP/1.1 103 Early Hints\r\nX-A: SECRET\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", exchange: "error", token: "error", api: "200"},
	{name: "nothing but hints", raw: "HTTP/1.1 103 Early Hints\r\nX-A: SECRET\r\n\r\n", exchange: "error", token: "error", api: "error"},
	{name: "a continuation before the answer", raw: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\n{}", exchange: "error", token: "error", api: "403"},
	{name: "hints without end", raw: "HTTP/1.1 103 Early Hints\r\n\r\n", endless: "HTTP/1.1 103 Early Hints\r\nX-A: SECRET\r\n\r\n", exchange: "error", token: "error", api: "error"},
	{name: "a status line without end", raw: "HTTP/1.1 200 ", endless: strings.Repeat("TOKEN", 1000), exchange: "error", token: "error", api: "error"},
	{name: "a header without end", raw: "HTTP/1.1 200 OK\r\nX: ", endless: strings.Repeat("TOKEN", 1000), exchange: "error", token: "error", api: "error"},
	{name: "headers without end", raw: "HTTP/1.1 401 No\r\n", endless: strings.Repeat("WWW-Authenticate: Digest nonce=a\r\n", 100), exchange: "error", token: "error", api: "error"},
	{name: "a body without end", raw: "HTTP/1.1 200 OK\r\n\r\n", endless: strings.Repeat(`{"a":`, 1000), exchange: "error", token: "error", api: "200"},
	{name: "chunks without end", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", endless: strings.Repeat("1\r\n{\r\n", 1000), exchange: "error", token: "error", api: "200"},
	{name: "the extension of a chunk without end", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;", endless: strings.Repeat("x", 5000), exchange: "error", token: "error", api: "error"},
	{name: "a refusal without end", raw: "HTTP/1.1 401 No\r\nWWW-Authenticate: Digest nonce=a\r\n\r\n", endless: strings.Repeat(" ", 5000), exchange: "error", token: "error", api: "401"},
	{name: "silence", raw: "", stalls: true, exchange: "error", token: "error", api: "error"},
	{name: "silence in the header", raw: "HTTP/1.1 200 OK\r\nX-A: TOK", stalls: true, exchange: "error", token: "error", api: "error"},
	{name: "silence in the body", raw: "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", stalls: true, exchange: "error", token: "error", api: "error"},
	{name: "silence in the body of a refusal", raw: "HTTP/1.1 401 No\r\nContent-Length: 100\r\n\r\n{", stalls: true, exchange: "error", token: "error", api: "error"},
	{name: "silence in a chunk", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{", stalls: true, exchange: "error", token: "error", api: "error"},
	{name: "a redirect with 301", raw: answered("301 Go", ``, `Location: ELSEWHERE/?SECRET`), exchange: "error", token: "error", api: "error"},
	{name: "a redirect with 302", raw: answered("302 Go", ``, `Location: ELSEWHERE/?SECRET`), exchange: "error", token: "error", api: "error"},
	{name: "a redirect with 303", raw: answered("303 Go", ``, `Location: ELSEWHERE/?SECRET`), exchange: "error", token: "error", api: "error"},
	{name: "a redirect with 307", raw: answered("307 Go", ``, `Location: ELSEWHERE/?SECRET`), exchange: "error", token: "error", api: "error"},
	{name: "a redirect with 308", raw: answered("308 Go", ``, `Location: ELSEWHERE/?SECRET`), exchange: "error", token: "error", api: "error"},
	{name: "a redirect to nowhere", raw: answered("302 Go", ``), exchange: "error", token: "error", api: "302"},
	{name: "a redirect to no URL", raw: answered("302 Go", ``, `Location: ://SECRET`), exchange: "error", token: "error", api: "error"},
	{name: "a redirect to another scheme", raw: answered("302 Go", ``, `Location: file:///etc/passwd`), exchange: "error", token: "error", api: "302"},
	{name: "a redirect to a URL with a user", raw: answered("302 Go", ``, `Location: http://user:TOKEN@127.0.0.1/`), exchange: "error", token: "error", api: "302"},
	{name: "two redirects", raw: answered("302 Go", ``, `Location: ELSEWHERE/`, `Location: ELSEWHERE/2`), exchange: "error", token: "error", api: "302"},
	{name: "a redirect in a refusal", raw: answered("401 No", `{"error":{"code":"expired"}}`, `Location: ELSEWHERE/`, `WWW-Authenticate: Digest nonce="TOKEN"`), exchange: "error", token: "error", api: "401"},
	{name: "a refresh", raw: answered("200 OK", `{}`, `Refresh: 0; url=ELSEWHERE/`), exchange: "error", token: "error", api: "200"},
	{name: "another place for the service", raw: answered("200 OK", `{}`, `Alt-Svc: h2="ELSEWHERE"`, `Content-Location: ELSEWHERE/`), exchange: "error", token: "error", api: "200"},
	{name: "a good answer", raw: answered("200 OK", `{"access_token":"TOKEN","token_type":"bearer","expires_in":3600,"data":[{"token":"TOKEN"}]}`, `Content-Type: application/json`), exchange: "sent", token: "sent", api: "200"},
	{name: "a good answer with a refusal's status", raw: answered("400 Bad", `{"access_token":"TOKEN","token_type":"bearer","expires_in":3600,"data":[{"token":"TOKEN"}]}`), exchange: "sent", token: "error", api: "400"},
	{name: "a good answer with a failure's status", raw: answered("503 Down", `{"access_token":"TOKEN","token_type":"bearer","expires_in":3600,"data":[{"token":"TOKEN"}]}`, `Retry-After: 99999999999999999999`), exchange: "sent", token: "error", api: "503"},
	{name: "nothing", raw: answered("200 OK", ``), exchange: "error", token: "error", api: "200"},
	{name: "HTML", raw: answered("200 OK", `<html><title>SECRET</title>TOKEN`, `Content-Type: text/html`), exchange: "error", token: "error", api: "error"},
	{name: "a form", raw: answered("200 OK", `access_token=TOKEN&oauth_token=TOKEN`, `Content-Type: application/x-www-form-urlencoded`), exchange: "error", token: "error", api: "200"},
	{name: "XML with an entity", raw: answered("200 OK", `<!DOCTYPE a [<!ENTITY b SYSTEM "ELSEWHERE/">]><a>&b;TOKEN</a>`), exchange: "error", token: "error", api: "200"},
	{name: "null", raw: answered("200 OK", `null`), exchange: "error", token: "error", api: "200"},
	{name: "a text", raw: answered("200 OK", `"TOKEN"`), exchange: "error", token: "error", api: "200"},
	{name: "a list", raw: answered("200 OK", `["TOKEN"]`), exchange: "error", token: "error", api: "200"},
	{name: "a number", raw: answered("200 OK", `1e999999999`), exchange: "error", token: "error", api: "200"},
	{name: "half of the JSON", raw: answered("200 OK", `{"access_token":"TOKEN`), exchange: "error", token: "error", api: "200"},
	{name: "JSON and more", raw: answered("200 OK", `{"access_token":"TOKEN","token_type":"bearer","expires_in":3600,"data":[{"token":"TOKEN"}]} {`), exchange: "error", token: "error", api: "200"},
	{name: "two documents", raw: answered("200 OK", `{"access_token":"TOKEN","token_type":"bearer","expires_in":3600,"data":[{"token":"TOKEN"}]}{"access_token":"TOKEN","token_type":"bearer","expires_in":3600,"data":[{"token":"TOKEN"}]}`), exchange: "error", token: "error", api: "200"},
	{name: "a comment", raw: answered("200 OK", `{/* TOKEN */"access_token":"TOKEN","token_type":"bearer","expires_in":3600,"data":[{"token":"TOKEN"}]}`), exchange: "error", token: "error", api: "200"},
	{name: "members twice", raw: answered("200 OK", `{"access_token":"TOKEN","token_type":"bearer","expires_in":3600,"data":[{"token":"TOKEN"}],"access_token":"TOKEN","token_type":"bearer","expires_in":3600,"data":[{"token":"TOKEN"}]}`), exchange: "error", token: "error", api: "200"},
	{name: "members in another case", raw: answered("200 OK", `{"Access_Token":"TOKEN","DATA":[{"Token":"TOKEN"}]}`), exchange: "error", token: "error", api: "200"},
	{name: "a byte order mark", raw: answered("200 OK", "\xef\xbb\xbf{}"), exchange: "error", token: "error", api: "200"},
	{name: "not UTF-8", raw: answered("200 OK", "{\"access_token\":\"\xffTOKEN\",\"data\":[{\"token\":\"\xffTOKEN\"}]}"), exchange: "error", token: "error", api: "200"},
	{name: "half a surrogate", raw: answered("200 OK", `{"access_token":"\ud800TOKEN","data":[{"token":"\ud800TOKEN"}]}`), exchange: "error", token: "error", api: "200"},
	{name: "a NUL in the token", raw: answered("200 OK", `{"access_token":"\u0000TOKEN","data":[{"token":"\u0000TOKEN"}]}`), exchange: "error", token: "error", api: "200"},
	{name: "line breaks in the token", raw: answered("200 OK", `{"access_token":"TOKEN\r\nX-Evil: 1","data":[{"token":"TOKEN\r\nX-Evil: 1"}]}`), exchange: "error", token: "error", api: "200"},
	{name: "spaces around the token", raw: answered("200 OK", `{"access_token":" TOKEN ","data":[{"token":" TOKEN "}]}`), exchange: "sent", token: "sent", api: "200"},
	{name: "an empty token", raw: answered("200 OK", `{"access_token":"","data":[{"token":""}]}`), exchange: "error", token: "error", api: "200"},
	{name: "a token of null", raw: answered("200 OK", `{"access_token":null,"data":[{"token":null}]}`), exchange: "error", token: "error", api: "200"},
	{name: "a token of false", raw: answered("200 OK", `{"access_token":false,"data":[{"token":false}]}`), exchange: "sent", token: "error", api: "200"},
	{name: "a number as the token", raw: answered("200 OK", `{"access_token":1e400,"data":[{"token":1e400}]}`), exchange: "sent", token: "error", api: "200"},
	{name: "an object as the token", raw: answered("200 OK", `{"access_token":{"a":"TOKEN"},"data":[{"token":{"a":"TOKEN"}}]}`), exchange: "error", token: "error", api: "200"},
	{name: "a token that looks like a reference", raw: answered("200 OK", `{"access_token":"kw_abcdefghijklmnopqrstuvwxyz","data":[{"token":"kw_abcdefghijklmnopqrstuvwxyz"}]}`), exchange: "sent", token: "sent", api: "200"},
	{name: "the credential as the token", raw: answered("200 OK", `{"access_token":"SECRET","data":[{"token":"SECRET"}]}`), exchange: "sent", token: "sent", api: "error"},
	{name: "the credential as the type", raw: answered("200 OK", `{"access_token":"TOKEN","token_type":"SECRET","kind":"SECRET","scope":"SECRET","custom":"SECRET","data":[{"token":"TOKEN"}]}`), exchange: "error", token: "sent", api: "error"},
	{name: "a token of 40 KiB", raw: answered("200 OK", `{"access_token":"`+strings.Repeat("TOKEN", 1300)+`","data":[{"token":"`+strings.Repeat("TOKEN", 1300)+`"}]}`), exchange: "error", token: "error", api: "200"},
	{name: "an answer of 1 MiB", raw: answered("200 OK", `{"access_token":"TOKEN","token_type":"bearer","expires_in":3600,"data":[{"token":"TOKEN"}],"x":"`+strings.Repeat("x", 1<<20)+`"}`), exchange: "error", token: "error", api: "200"},
	{name: "a refusal of 1 MiB", raw: answered("401 No", `{"x":"`+strings.Repeat("x", 1<<20)+`","error":"SECRET"}`, `WWW-Authenticate: Digest nonce="TOKEN"`), exchange: "error", token: "error", api: "401"},
	{name: "deep lists", raw: answered("200 OK", strings.Repeat("[", 50_000)), exchange: "error", token: "error", api: "200"},
	{name: "deep objects", raw: answered("401 No", strings.Repeat(`{"error":`, 7_000), `WWW-Authenticate: Digest nonce="TOKEN"`), exchange: "error", token: "error", api: "401"},
	{name: "many members", raw: answered("200 OK", `{`+strings.Repeat(`"a":1,`, 10_000)+`"b":1}`), exchange: "error", token: "error", api: "200"},
	{name: "many numbers", raw: answered("200 OK", `[`+strings.Repeat(`1e9,`, 15_000)+`1]`), exchange: "error", token: "error", api: "200"},
	{name: "a number of many digits", raw: answered("200 OK", `{"access_token":"TOKEN","expires_in":`+strings.Repeat("9", 60_000)+`,"life":`+"9"+`,"data":[{"token":"TOKEN"}]}`), exchange: "sent", token: "sent", api: "200"},
	{name: "a life below 0", raw: answered("200 OK", `{"access_token":"TOKEN","expires_in":-1,"life":-1,"until":-1,"data":[{"token":"TOKEN"}]}`), exchange: "sent", token: "sent", api: "200"},
	{name: "a life as a text", raw: answered("200 OK", `{"access_token":"TOKEN","expires_in":"SECRET","life":"SECRET","until":"SECRET","data":[{"token":"TOKEN"}]}`), exchange: "sent", token: "sent", api: "error"},
	{name: "a gzip that is none", raw: answered("200 OK", `TOKEN`, `Content-Encoding: gzip`), exchange: "error", token: "error", api: "error"},
	{name: "a gzip that becomes 64 MiB", raw: answered("200 OK", bomb, "Content-Encoding: gzip"), exchange: "error", token: "error", api: "200"},
	{name: "an unknown encoding", raw: answered("200 OK", `{"access_token":"TOKEN","token_type":"bearer","expires_in":3600,"data":[{"token":"TOKEN"}]}`, `Content-Encoding: SECRET`), exchange: "error", token: "error", api: "error"},
	{name: "another character set", raw: answered("200 OK", `{"access_token":"TOKEN","token_type":"bearer","expires_in":3600,"data":[{"token":"TOKEN"}]}`, `Content-Type: application/json; charset=utf-16`), exchange: "sent", token: "sent", api: "200"},
	{name: "an error of 2xx", raw: answered("200 OK", `{"error":"SECRET","error_description":"TOKEN"}`), exchange: "error", token: "error", api: "error"},
	{name: "an unknown error", raw: answered("400 Bad", `{"error":"SECRET","error_description":"TOKEN","error_uri":"ELSEWHERE/"}`), exchange: "error", token: "error", api: "error"},
	{name: "an error that is an object", raw: answered("400 Bad", `{"error":{"code":"SECRET","message":"TOKEN"}}`), exchange: "error", token: "error", api: "error"},
	{name: "cookies", raw: answered("200 OK", `{}`, `Set-Cookie: SID=TOKEN; Domain=evil.test`, `Set-Cookie: SID=SECRET`, `Set-Cookie: =;;;`), exchange: "error", token: "error", api: "200"},
	{name: "a challenge", raw: answered("401 No", `{"error":{"code":"expired"},"life":5}`, `WWW-Authenticate: Digest realm="r", nonce="TOKEN", algorithm=SHA-256`, `Authentication-Info: nextnonce="TOKEN"`, `Date: Wed, 15 Nov 2023 00:00:00 GMT`), exchange: "error", token: "error", api: "401"},
	{name: "a challenge that repeats the credential", raw: answered("401 No", `{"error":{"code":"expired"},"life":5}`, `WWW-Authenticate: Digest nonce="SECRET"`), exchange: "error", token: "error", api: "401"},
	{name: "quotes without an end", raw: answered("401 No", `{"error":{"code":"expired"},"life":5}`, `WWW-Authenticate: Digest nonce="TOKEN`), exchange: "error", token: "error", api: "401"},
	{name: "an escape without an end", raw: answered("401 No", `{"error":{"code":"expired"},"life":5}`, `WWW-Authenticate: Digest nonce="TOKEN\`), exchange: "error", token: "error", api: "401"},
	{name: "nothing but commas", raw: answered("401 No", `{"error":{"code":"expired"},"life":5}`, `WWW-Authenticate: ,,,,,,,,`), exchange: "error", token: "error", api: "401"},
	{name: "nothing but signs", raw: answered("401 No", `{"error":{"code":"expired"},"life":5}`, `WWW-Authenticate: ="=",==,"""\"`), exchange: "error", token: "error", api: "401"},
	{name: "an empty nonce", raw: answered("401 No", `{"error":{"code":"expired"},"life":5}`, `WWW-Authenticate: Digest nonce=""`), exchange: "error", token: "error", api: "error"},
	{name: "an algorithm that nobody has", raw: answered("401 No", `{"error":{"code":"expired"},"life":5}`, `WWW-Authenticate: Digest nonce="TOKEN", algorithm=SECRET`), exchange: "error", token: "error", api: "401"},
	{name: "a date that is none", raw: answered("401 No", `{"error":{"code":"expired"},"life":5}`, `WWW-Authenticate: Digest nonce="TOKEN"`, `Date: SECRET`), exchange: "error", token: "error", api: "401"},
	{name: "the year 9999", raw: answered("401 No", `{"error":{"code":"expired"},"life":5}`, `WWW-Authenticate: Digest nonce="TOKEN"`, `Date: Fri, 31 Dec 9999 23:59:59 GMT`), exchange: "error", token: "error", api: "401"},
	{name: "a nonce of 2 KiB", raw: answered("401 No", "", `WWW-Authenticate: Digest nonce="`+strings.Repeat("TOKEN", 70)+`"`), exchange: "error", token: "error", api: "401"},
	{name: "a thousand challenges", raw: answered("401 No", "", `WWW-Authenticate: `+strings.Repeat(`A b="c", `, 1000)+`Digest nonce="TOKEN"`), exchange: "error", token: "error", api: "401"},
	{name: "a thousand headers", raw: answered("401 No", "", strings.Repeat("WWW-Authenticate: Digest a=b\r\n", 1000)+`X: TOKEN`), exchange: "error", token: "error", api: "401"},
	{name: "a nonce with bytes that are not ASCII", raw: answered("401 No", "", "WWW-Authenticate: Digest nonce=\"\xff\xfeTOKEN\""), exchange: "error", token: "error", api: "401"},
	{name: "a challenge of a proxy", raw: answered("407 No", ``, `Proxy-Authenticate: Digest nonce="TOKEN"`), exchange: "error", token: "error", api: "407"},
	{name: "a 403 with the code", raw: answered("403 No", `{"error":{"code":"expired"}}`), exchange: "error", token: "error", api: "403"},
	{name: "a 401 of JSON with the credential", raw: answered("401 No", `{"error":{"code":"SECRET"},"data":[{"token":"SECRET"}]}`), exchange: "sent", token: "error", api: "error"},
}
