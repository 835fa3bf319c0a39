package host_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// threats.md 34: a connector's Timeout limits its exchanges, whether it is shorter or longer than the host's CallTime.
func TestTimeoutOfAConnector(t *testing.T) {
	for _, timeout := range []time.Duration{2 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, func(c *host.Config) { c.Limits.CallTime = 7 * time.Second })
			w.login.Answer(newGate(nil).answer)
			c := w.open(host.ConnectorConfig{
				Name: "slow", Timeout: timeout, Auth: []host.Auth{{Type: "oauth_client_credentials", Config: oauth("{{ get_secret('s') }}")}},
			})
			began := time.Now()
			w.refuse(c, get(t.Context()), host.StageToken, "deadline exceeded")
			if took := time.Since(began); took != timeout {
				t.Errorf("it took %v, want %v", took, timeout)
			}
		})
	}
}

// dripping is a body that returns one blank a second until its context ends.
type dripping struct{ ctx context.Context }

func (d *dripping) Read(p []byte) (int, error) {
	select {
	case <-time.After(time.Second):
		return copy(p, " "), nil
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	}
}

// A token answer may be compressed though nobody asked for it (RFC 9110 section 12.5.3), and may begin with a byte order mark.
func TestTokenAnswersAsTheyCome(t *testing.T) {
	const answer = `{"access_token":"t1","token_type":"bearer","expires_in":3600}`
	packed := func(w interface {
		io.WriteCloser
		Reset(io.Writer)
	},
	) string {
		var b bytes.Buffer
		w.Reset(&b)
		_, _ = io.WriteString(w, answer)
		_ = w.Close()
		return b.String()
	}
	for name, c := range map[string]struct{ coding, body string }{
		"gzip":            {"gzip", packed(gzip.NewWriter(nil))},
		"deflate":         {"deflate", packed(zlib.NewWriter(nil))},
		"byte order mark": {"", "\ufeff" + answer},
	} {
		w := newWorld(t)
		w.login.Answer(respond(http.StatusOK, c.body, "Content-Encoding", c.coding))
		if got := w.get(w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}"))).Header.Get("Authorization"); got != "Bearer t1" {
			t.Errorf("%s: Authorization = %q, want Bearer t1", name, got)
		}
	}
}

// threats.md 34: the host reads a bounded part of an answer, even if the answer claims to be compressed.
func TestTokenAnswerBound_threats_34(t *testing.T) {
	for encoding, want := range map[string]string{"": "more than 65536 bytes", "gzip": "damaged"} {
		w := newWorld(t)
		endless := &counting{Reader: strings.NewReader(strings.Repeat("\x1f\x8b", 5<<20))}
		w.login.Answer(func(r *http.Request) (*http.Response, error) {
			if r.Header.Get("Accept-Encoding") != "" {
				t.Error("the host asks for compression")
			}
			response, err := status(http.StatusOK)(r)
			response.Header.Set("Content-Encoding", encoding)
			response.Body = endless
			return response, err
		})
		w.refuse(w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}")), get(t.Context()), host.StageToken, want)
		if endless.read > 128<<10 || endless.closed != 1 {
			t.Errorf("%d bytes were read, and the body was closed %d times", endless.read, endless.closed)
		}
	}
}

// counting is a body that counts the bytes read and the calls of Close.
type counting struct {
	io.Reader
	read, closed int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	return n, err
}

func (c *counting) Close() error {
	c.closed++
	return nil
}

func TestCloseWaitsForCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c, g := gatedWorld(t)
		gone, leave := context.WithCancel(t.Context())
		go func() { _, _ = w.try(c, get(gone)) }()
		synctest.Wait()
		leave() // the call goes on without its caller
		synctest.Wait()
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.host.Close(impatient); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Close results in %v while a call runs and its own time is over", err)
		}
		closed := make(chan error, 1)
		go func() { closed <- w.host.Close(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-closed:
			t.Errorf("Close did not wait: %v", err)
		default:
		}
		if err := w.refuse(c, get(t.Context()), host.StageClosed); !errors.Is(err, host.ErrClosed) || !err.Retryable() {
			t.Errorf("a new request gets %v", err)
		}
		if _, err := c.Explain(get(t.Context())); !errors.Is(err, host.ErrClosed) {
			t.Errorf("Explain gets %v", err)
		}
		if _, err := w.host.NewConnector(t.Context(), host.ConnectorConfig{Name: "x", Origins: []string{apiOrigin}, Auth: []host.Auth{{Type: "none"}}}); !errors.Is(err, host.ErrClosed) {
			t.Errorf("Connect gets %v", err)
		}
		close(g.open)
		if err := <-closed; err != nil {
			t.Errorf("Close results in %v", err)
		}
	})
}

// A run that ends to wait for an entry has no effect: its cache_set would otherwise take effect twice.
func TestRestartedCallHasHadNoEffect(t *testing.T) {
	w, c := misuser(t, func(env contract.Env) (string, error) {
		count, _ := env.CacheGet("count")
		env.CacheSet("count", count+"x", 60)
		if _, found := env.CacheGet("other"); !found {
			env.CacheSet("other", "there", 60)
		}
		return header("X-Key", value(env, "to_header")+count), nil
	})
	for _, want := range []string{"", "x", "xx", "xxx"} {
		if got := strings.TrimPrefix(w.get(c).Header.Get("X-Key"), w.secrets["s"]); got != want {
			t.Errorf("the count is %q, want %q", got, want)
		}
	}
}

// A call that waited for one entry, and then long for a second one, does not use the first if it has expired meanwhile.
func TestExpiredEntryAfterWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := make(chan struct{}), make(chan struct{})
		made := 0
		w, c := misuser(t, func(env contract.Env) (string, error) {
			one, found := env.CacheGet("one")
			if !found {
				<-first
				made++
				one = fmt.Sprint("one-", made)
				env.CacheSet("one", one, 10)
			}
			two, found := env.CacheGet("two")
			if !found {
				<-second
				two = " two"
				env.CacheSet("two", two, 36000)
			}
			return marshal(contract.Mutation{Headers: []abi.Pair{{Name: "X-Key", Value: value(env, "to_header")}, {Name: "X-Entries", Value: one + two}}}), nil
		})
		var all sync.WaitGroup
		for range 3 { // one call makes the first entry, one makes the second, and one waits for both
			all.Go(func() { _, _ = w.try(c, get(t.Context())) })
			synctest.Wait()
		}
		first <- struct{}{}
		synctest.Wait()
		w.Advance(2 * time.Hour)
		close(second)
		synctest.Wait()
		close(first)
		all.Wait()
		if got := w.api.Last().Header.Get("X-Entries"); w.api.Count() != 3 || got != "one-2 two" {
			t.Errorf("%d requests were sent, the last with %q", w.api.Count(), got)
		}
	})
}

// The cases of specification.md "Access tokens" that are the host's. The tests of the plugins show the others.

// specification.md "characters of a token": the host sends every character that RFC 6749 allows in a token. An answer may
// be as long as the limit.
func TestDecision_Tokens_characters_of_a_token(t *testing.T) {
	w := newWorld(t)
	const rest = `{"access_token":"x"}`
	for i, accessToken := range []string{" ! ~", strings.Repeat("x", 64<<10-len(rest)+1)} {
		w.login.Answer(respond(http.StatusOK, strings.Replace(rest, "x", accessToken, 1)))
		got := w.get(w.connectAs(fmt.Sprint("c", i), "oauth_client_credentials", oauth("{{ get_secret('s') }}"))).Header.Get("Authorization")
		if got != "Bearer "+accessToken {
			t.Errorf("a token of %d bytes is sent as %.20q, of %d", len(accessToken), got, len(got))
		}
	}
}

// A plugin learns the status and the error code of an answer. If an answer with status 200 to 299 has an error code,
// the plugin gets the status 400.
func TestTokenAnswerForPlugin(t *testing.T) {
	const granted, refused = `{"access_token":"t1"}`, `{"error":"invalid_grant"}`
	for _, c := range []struct {
		status int
		body   string
		want   contract.TokenReply
	}{
		{200, granted, contract.TokenReply{Status: 200, AccessToken: "it"}},
		{299, granted, contract.TokenReply{Status: 299, AccessToken: "it"}},
		{300, granted, contract.TokenReply{Status: 300}},
		{200, refused, contract.TokenReply{Status: 400, Error: "invalid_grant"}},
		{299, refused, contract.TokenReply{Status: 400, Error: "invalid_grant"}},
		{300, refused, contract.TokenReply{Status: 300, Error: "invalid_grant"}},
		{401, refused, contract.TokenReply{Status: 401, Error: "invalid_grant"}},
	} {
		var got contract.TokenReply
		w, connector := misuser(t, sendsKeyAfter(func(env contract.Env) { got = tokenReply(env, contract.TokenRequest{URL: value(env, "url")}) }))
		w.login.Answer(respond(c.status, c.body))
		w.get(connector)
		if got.AccessToken != "" {
			got.AccessToken = "it"
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%d %s is %+v, want %+v", c.status, c.body, got, c.want)
		}
	}
}

// A plugin that fails after it received a token has the stage plugin, unless it cannot use the type of the token.
func TestStageAfterToken(t *testing.T) {
	for member, stage := range map[string]host.Stage{
		``: host.StagePlugin, `,"token_type":"bearer"`: host.StagePlugin, `,"token_type":"BEARER"`: host.StagePlugin,
		`,"token_type":"mac"`: host.StageToken, `,"token_type":"unheard of"`: host.StageToken,
	} {
		w := misusedWorld(t, func(env contract.Env) (string, error) {
			env.TokenRequest([]byte(marshal(contract.TokenRequest{URL: value(env, "url")})))
			return "", errors.New("no luck")
		})
		w.login.Answer(respond(http.StatusOK, `{"access_token":"t1"`+member+`}`))
		w.refuse(w.connect("custom", misused), get(t.Context()), stage, "no luck")
	}
}

// threats.md 32.
func TestDecision_Tokens_the_endpoint_is_down_then_up(t *testing.T) {
	w, c := tokenWorld(t, nil)
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	w.login.Answer(func(*http.Request) (*http.Response, error) { return nil, refused })
	for range 50 { // each attempt begins at once, and must not meet remains of the previous one
		if err := w.refuse(c, get(t.Context()), host.StageToken, "connection refused"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("errors.Is does not find the cause in %v", err)
		}
	}
	w.login.Answer(token("t1", 3600))
	w.get(c)
	w.get(c)
	if w.login.Count() != 51 {
		t.Errorf("%d exchanges, want one for each failure and one more", w.login.Count())
	}
}

// threats.md 24.
func TestDecision_Tokens_redirects_are_never_followed(t *testing.T) {
	w, c := tokenWorld(t, nil)
	for _, code := range []int{301, 302, 303, 307, 308} {
		for _, location := range []string{"https://login.test/other", "https://evil.test/", "/other", "http://[::1", ""} {
			before := w.login.Count()
			w.login.Answer(respond(code, "", "Location", location))
			w.refuse(c, get(t.Context()), host.StageToken)
			if n := w.login.Count() - before; n != 1 {
				t.Errorf("%d to %q: %d requests, want 1", code, location, n)
			}
			w.Advance(5 * time.Minute)
		}
	}
}

// Hosts share tokens only if they share a cache on purpose, see TestTokensOutliveTheirHost.
func TestDecision_Tokens_live_in_memory_of_one_host_only(t *testing.T) {
	for range 2 {
		w := newWorld(t)
		w.get(w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}")))
		if w.login.Count() != 1 {
			t.Error("a new host has a token already")
		}
	}
}

// threats.md 33: an entry is valid only within its time, whether the clock is set back or forward.
func TestDecision_Tokens_clock_set_back_and_forward(t *testing.T) {
	for _, step := range []time.Duration{-time.Second, -1000 * time.Hour, 1000 * time.Hour, 290 * 365 * 24 * time.Hour} {
		w, c := tokenWorld(t, tokens(3600))
		w.get(c)
		w.Advance(step)
		if got := w.get(c).Header.Get("Authorization"); got != "Bearer t2" {
			t.Errorf("with the clock moved by %v Authorization is %q: an entry has no place outside of its time", step, got)
		}
		w.Advance(3540*time.Second - 1)
		w.get(c)
		if w.login.Count() != 2 {
			t.Errorf("with the clock moved by %v: %d exchanges", step, w.login.Count())
		}
	}
}

// everyone returns a configuration that names everything that a template can name.
func everyone(secret string) config {
	return with(oauth("{{ get_secret('"+secret+"') }}"), "client_id",
		"{{ get_variable('v') }} {{ default(user.email, '-') }} {{ default(user.id, '-') }} {{ default(user.username, '-') }} "+
			"{{ default(user.first_name, '-') }} {{ default(user.last_name, '-') }} {{ default(tenant_id, '-') }}")
}
