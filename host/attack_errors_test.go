package host_test

import (
	"bufio"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// Attacks on errors and explanations, which people read. Each world searches all its output for its secrets, so a test
// only has to make the host produce output.

func TestSealedHeaderNameInError_threats_15a(t *testing.T) {
	twice := func(name string) []abi.Pair { return []abi.Pair{{Name: name, Value: "1"}, {Name: name, Value: "2"}} }
	for _, c := range []struct {
		name  string
		do    func(contract.Env) (string, error)
		stage host.Stage
	}{
		{"set twice", func(env contract.Env) (string, error) {
			return marshal(contract.Mutation{Headers: twice(value(env, "to_header"))}), nil
		}, host.StageMutation},
		{"set twice in a token request", func(env contract.Env) (string, error) {
			env.TokenRequest([]byte(marshal(contract.TokenRequest{URL: value(env, "url"), Headers: twice(value(env, "to_token"))})))
			return "", nil
		}, host.StagePlugin},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := misusedWorld(t, c.do)
			w.setSecret("s", "X-Sealed-Header-Name") // a canary may have characters that are invalid in a name
			w.Hide("the sealed name", "X-Sealed-Header-Name")
			w.Hide("the sealed name in lower case", "x-sealed-header-name")
			w.refuse(w.connect("custom", misused), get(t.Context()), c.stage, "only a header that is alone may have such a name")
			if w.login.Count() != 0 {
				t.Error("the token request was sent")
			}
		})
	}
}

// quoting has answers that net/http quotes in its errors, by the part that is wrong.
var quoting = map[string]string{
	"no HTTP at all":       "%s\r\n\r\n",
	"the status code":      "HTTP/1.1 %s\r\n\r\n",
	"the version":          "%s 200 OK\r\n\r\n",
	"a line of the header": "HTTP/1.1 200 OK\r\n%s\r\n\r\n",
	"a continued line":     "HTTP/1.1 200 OK\r\n %s\r\n\r\n",
	"Content-Length":       "HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\n",
	"Transfer-Encoding":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: %s\r\n\r\n",
}

// quotingTokens has further such answers for token endpoints, whose bodies and redirects the host reads.
var quotingTokens = map[string]string{
	"Location":  "HTTP/1.1 302 Found\r\nConnection: close\r\nLocation: ://%s\r\nContent-Length: 0\r\n\r\n",
	"a chunk":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s\r\n",
	"a trailer": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2\r\n{}\r\n0\r\n%s\r\n\r\n",
}

// said returns texts with which a server may answer a request with a secret: a token of its own, and the secret in
// forms for which nothing searches.
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

// endpoint starts a server on loopback that reads each request and writes the given bytes, which need not be HTTP.
func endpoint(t *testing.T) (origin string, answer func(string)) {
	t.Helper()
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
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

func TestMalformedTokenAnswerUnquoted_threats_20(t *testing.T) {
	const secret = "a-client-secret-of-this-test-0123456789"
	origin, answer := endpoint(t)
	w := onLoopback(t)
	w.setSecret("s", secret)
	w.Hide("the secret", secret)
	w.Hide("the middle of the secret", secret[14:30])
	c := w.connect("oauth_client_credentials", with(oauth("{{ get_secret('s') }}"), "token_url", origin+"/token"))
	for _, answers := range []map[string]string{quoting, quotingTokens} {
		for place, format := range answers {
			for what, text := range said(secret) {
				w.Hide(what+" in "+place, text)
				answer(fmt.Sprintf(format, text))
				w.refuse(c, get(t.Context()), host.StageToken, "the token endpoint", "does not speak HTTP")
			}
		}
	}
}

func TestMalformedAPIAnswerUnquoted_threats_19(t *testing.T) {
	const secret = "an-api-key-of-this-test-0123456789"
	origin, answer := endpoint(t)
	w := onLoopback(t)
	w.setSecret("s", secret)
	w.Hide("the secret", secret)
	w.Hide("the middle of the secret", secret[14:30])
	for name, auth := range credentials {
		c := w.connectTo(origin, auth)
		for place, format := range quoting {
			for what, text := range said(secret) {
				w.Hide(what+" in "+place, text)
				answer(fmt.Sprintf(format, text))
				if _, err := w.try(c, request(t, origin+"/things?a=b")); err == nil || !strings.Contains(err.Error(), "does not speak HTTP") {
					t.Errorf("%s: %s in %s: %v", name, what, place, err)
				}
			}
		}
	}
}

// textError is an error that is its own text. %#v shows that text in each value that contains the error. net/http has
// such an error for header lines.
type textError string

func (e textError) Error() string { return string(e) }

func TestForeignTransportErrors_threats_18(t *testing.T) {
	w := misusedWorld(t, func(env contract.Env) (string, error) {
		return tokenRequest(env, value(env, "url"), abi.Pair{Name: "client_secret", Value: value(env, "to_token")})
	})
	c := w.connect("custom", misused)
	w.login.Answer(token("a-token-that-no-secret-holds", 3600)) // a random secret may hold the two characters of t1
	cause := textError("cannot send " + w.secrets["s"])
	fails := func(*http.Request) (*http.Response, error) { return nil, cause }
	w.api.Answer(fails)
	if _, err := w.try(c, get(t.Context())); !errors.Is(err, cause) || err.Error() != "cannot send <sealed>" {
		t.Errorf("the API's transport failed with %v", err)
	}
	w.login.Answer(fails)
	if err := w.refuse(c, get(t.Context()), host.StageToken, "cannot send <sealed>"); !errors.Is(err, cause) {
		t.Errorf("errors.Is does not find the cause in %v", err)
	}
}

// A plugin with the grant reveal may put revealed bytes into its mutation in plain. Explain masks them.
func TestExplainMasksRevealedValues_threats_18(t *testing.T) {
	revealed, signature := "", ""
	w := misusedWorld(t, func(env contract.Env) (string, error) {
		revealed, signature = string(env.Reveal(value(env, "nowhere"))), string(env.Sign("key", "data"))
		credential := base64.RawURLEncoding.EncodeToString([]byte(signature))
		return marshal(contract.Mutation{
			Headers: []abi.Pair{{Name: "X-Key", Value: "key " + revealed}, {Name: "X-Signature", Value: credential}, {Name: "X-Plain", Value: "plain"}},
			Query:   []abi.Pair{{Name: "key", Value: revealed}, {Name: "signature", Value: fmt.Sprintf("%x", signature)}},
		}), nil
	}, abi.GrantReveal, abi.GrantSignRaw)
	e := must(w.explain(w.connect("custom", misused), get(t.Context())))(t)
	if w.Hide("the signature", signature); revealed != w.secrets["s"] || len(signature) != 32 {
		t.Fatal("the guest was not given what the test is about")
	}
	for _, want := range []string{"X-Key: key <sealed>", "X-Signature: <sealed>", "X-Plain: plain"} {
		name, shown, _ := strings.Cut(want, ": ")
		if !slices.Contains(e.Headers, abi.Pair{Name: name, Value: shown}) {
			t.Errorf("the headers are %v, want %s", e.Headers, want)
		}
	}
	if e.Added.Query != "key=<sealed>&signature=<sealed>" {
		t.Errorf("the query is %s", e.Added.Query)
	}
}

// In a template for a credential, literal text may be the credential. Explain shows none of the template then, whatever
// expressions stand beside the text.
func TestExplainMasksLiterals_threats_18(t *testing.T) {
	w := misusedWorld(t, func(env contract.Env) (string, error) { return header("X-Key", value(env, "to_header")), nil })
	w.Hide("the credential", "written-out-key")
	for _, text := range []string{
		"written-out-key", "written-out-key{{ '' }}", "{{ '' }}written-out-key", "{{ 'written-out-key' }}", "{{ default(user.id, '') }}written-out-key",
		"{{ 'written-out' + '-key' }}", "written-out-key {{ now(0) }}",
	} {
		e := must(w.explain(w.connect("custom", with(misused, "to_header", text)), get(t.Context())))(t)
		if got := e.Added.Headers[0].Value; got != "<to_header>" {
			t.Errorf("%s shows as %s", text, got)
		}
	}
}
