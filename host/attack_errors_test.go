package host_test

import (
	"bufio"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/abi"
)

// Attacks on what a person reads: errors, and explanations. Each world searches all that came out of it for its secrets,
// so that a test has only to make the host talk.

func TestSealedHeaderNameIsNotInTheError_threats_15a(t *testing.T) {
	twice := func(name string) []abi.Pair { return []abi.Pair{{Name: name, Value: "1"}, {Name: name, Value: "2"}} }
	for _, c := range []struct {
		name  string
		do    func(abi.Env) (string, error)
		stage host.Stage
	}{
		{"set twice", func(env abi.Env) (string, error) {
			return marshal(abi.Mutation{Headers: twice(value(env, "to_header"))}), nil
		}, host.StageMutation},
		{"set twice in a token request", func(env abi.Env) (string, error) {
			env.TokenRequest([]byte(marshal(abi.TokenRequest{URL: value(env, "url"), Headers: twice(value(env, "to_token"))})))
			return "", nil
		}, host.StagePlugin},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := misusedWorld(t, c.do)
			w.setSecret("s", "X-Sealed-Header-Name") // a canary may have characters that no name may have
			w.hide("the sealed name", "X-Sealed-Header-Name")
			w.hide("the sealed name in lower case", "x-sealed-header-name")
			w.refuse(w.connect("custom", misused), get(t.Context()), c.stage, "twice")
			if w.exchanged() != 0 {
				t.Error("the token request was sent")
			}
		})
	}
}

// quoting are answers that net/http quotes in its errors, by what is wrong with them.
var quoting = map[string]string{
	"no HTTP at all":       "%s\r\n\r\n",
	"the status code":      "HTTP/1.1 %s\r\n\r\n",
	"the version":          "%s 200 OK\r\n\r\n",
	"a line of the header": "HTTP/1.1 200 OK\r\n%s\r\n\r\n",
	"a continued line":     "HTTP/1.1 200 OK\r\n %s\r\n\r\n",
	"Content-Length":       "HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n",
	"Transfer-Encoding":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: %s\r\n\r\n",
}

// quotingTokens are such answers of a token endpoint, whose body is read, and whose redirects are looked at.
var quotingTokens = map[string]string{
	"Location":  "HTTP/1.1 302 Found\r\nLocation: ://%s\r\nContent-Length: 0\r\n\r\n",
	"a chunk":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s\r\n",
	"a trailer": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2\r\n{}\r\n0\r\n%s\r\n\r\n",
}

// said is what whoever was sent a secret may answer with: a token of its own, or the secret in a form that nobody looks for.
func said(secret string) map[string]string {
	return map[string]string{
		"a token":                         "a-token-of-the-endpoint",
		"the secret without its end":      secret[:len(secret)-1],
		"the secret with a dash in it":    secret[:12] + "-" + secret[12:],
		"the secret in upper-case hex":    strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"the secret in base64, displaced": base64.StdEncoding.EncodeToString([]byte("x" + secret)),
		"the secret in quotes, twice":     strconv.Quote(strconv.Quote(`\` + secret)),
	}
}

// endpoint is a server on loopback that reads each request and answers with bytes, which need not be HTTP.
func endpoint(t *testing.T) (origin string, answer func(string)) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	answers, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(conn, <-answers)
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-ended })
	return "http://" + listener.Addr().String(), func(text string) { answers <- text }
}

// inLoopback has the host use its own network, on which the test's servers are.
func inLoopback(c *host.Config) {
	c.Base, c.Egress = nil, host.Egress{AllowHTTP: true, AllowPrivate: true}
}

func TestMalformedAnswerOfATokenEndpointIsNotQuoted_threats_20(t *testing.T) {
	origin, answer := endpoint(t)
	w := customWorld(t, misusing(func(env abi.Env) (string, error) {
		return tokenRequest(env, value(env, "url"), abi.Pair{Name: "client_secret", Value: value(env, "to_token")})
	}), inLoopback)
	secret := "a-client-secret-of-this-test-0123456789"
	w.setSecret("s", secret)
	w.hide("the secret", secret)
	w.hide("the middle of the secret", secret[14:30])
	c := w.connect("custom", with(misused, "url", origin+"/token"))
	for _, answers := range []map[string]string{quoting, quotingTokens} {
		for place, format := range answers {
			for what, text := range said(secret) {
				w.hide(what, text)
				answer(fmt.Sprintf(format, text))
				w.refuse(c, get(t.Context()), host.StageToken, "the token endpoint")
			}
			if t.Failed() {
				t.Fatalf("in %s", place)
			}
		}
	}
}

func TestMalformedAnswerOfTheAPIIsNotQuoted_threats_19(t *testing.T) {
	for name, where := range map[string]func(abi.Env) string{
		"header": func(env abi.Env) string { return header("X-Key", value(env, "to_header")) },
		"query":  func(env abi.Env) string { return query("key", value(env, "to_query")) },
	} {
		t.Run(name, func(t *testing.T) {
			origin, answer := endpoint(t)
			w := customWorld(t, misusing(func(env abi.Env) (string, error) { return where(env), nil }), inLoopback)
			secret := "an-api-key-of-this-test-0123456789"
			w.setSecret("s", secret)
			w.hide("the secret", secret)
			w.hide("the middle of the secret", secret[14:30])
			c, err := w.host.Connect(t.Context(), host.Connector{Name: "crm", Origins: []string{origin}, Auth: host.Auth{Type: "custom", Config: misused}})
			if err != nil {
				t.Fatal(err)
			}
			for place, format := range quoting {
				for what, text := range said(secret) {
					w.hide(what, text)
					answer(fmt.Sprintf(format, text))
					if _, err := w.try(c, request(t, origin+"/things?a=b")); err == nil || !strings.Contains(err.Error(), "does not speak HTTP") {
						t.Errorf("%s in %s: %v", what, place, err)
					}
				}
			}
		})
	}
}

// A plugin that the operator trusts with bytes puts them into its mutation plainly.
func TestExplainShowsNothingThatWasRevealed_threats_18(t *testing.T) {
	var w *world
	w = customWorld(t, nil)
	_ = w
}
