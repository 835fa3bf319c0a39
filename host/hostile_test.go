package host_test

import (
	"bufio"
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
// endpoint, and from an API whose answers are read for a challenge. See hostile_answers_test.go.

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
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
// the answer is in the error, in the log or in the memory of the guest, and no other server is asked (threats.md 20, 24, 34, 83,
// 100).
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
	about.Fields = append([]abi.Field{sealedField("key", abi.SinkToken)}, logsIn.Fields...)
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
	c := host.ConnectorConfig{Name: "crm", Origins: []string{api.origin}, Auth: host.Auth{Type: "custom", Config: config{
		"key": "{{ get_secret('key') }}", "url": endpoint.origin,
	}}}
	if h.stalls {
		c.Timeout = 50 * time.Millisecond // the endpoint never answers, however long it is waited for
	}
	connector, err := w.host.NewConnector(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.try(connector, request(t, api.origin))
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
	about.Fields = []abi.Field{sealedField("key", abi.SinkHeader)}
	about.Challenge = &abi.Challenge{Statuses: []int{401, 403}, Keep: 300, Answers: []abi.Answer{
		{Name: "nonce", From: "auth:Digest/nonce", Kind: contract.AnswerSealed, Sinks: []string{abi.SinkHeader}, Keep: true},
		{Name: "next", From: "info:nextnonce", Kind: contract.AnswerSealed, Sinks: []string{abi.SinkHeader}, Keep: true},
		{Name: "algorithm", From: "auth:Digest/algorithm", Kind: contract.AnswerEnum, Enum: []string{"SHA-256"}, Keep: true},
		{Name: "cookie", From: "cookie:SID", Kind: contract.AnswerSealed, Sinks: []string{abi.SinkHeader}},
		{Name: "token", From: "json:/data/0/token", Kind: contract.AnswerSealed, Sinks: []string{abi.SinkHeader}},
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
	connector, err := w.host.NewConnector(ctx, host.ConnectorConfig{
		Name: "crm", Origins: []string{api.origin}, Auth: host.Auth{Type: "custom", Config: config{"key": "{{ get_secret('key') }}"}},
	})
	if err != nil {
		t.Fatal(err)
	}
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
