package host_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// Plugins that take part in what the API answers.

// challenged is the description of a guest with a challenge.
var challenged = abi.Description{
	Uses: contract.Groups, Anonymous: true,
	Fields: []abi.Field{sealedField("key", contract.SinkHeader), {Name: "url", Kind: abi.KindURL, Sinks: []string{contract.SinkToken}}},
	Challenge: &abi.Challenge{Statuses: []int{401, 403}, Keep: 300, Answers: []abi.Answer{
		{Name: "nonce", From: "auth:Digest/nonce", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}, Keep: true},
		{Name: "next", From: "info:nextnonce", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}, Keep: true},
		{Name: "code", From: "json:/error/code", Kind: contract.AnswerEnum, Enum: []string{"expired"}},
	}},
}

// challengeOf returns what a guest gets of the API's answers.
func challengeOf(env contract.Env) (r contract.ChallengeReply) {
	if err := json.Unmarshal(env.Challenge(), &r); err != nil {
		panic("a test's reply: " + err.Error())
	}
	return r
}

func challengeWorld(t *testing.T, do func(contract.Env) (string, error), change ...func(*host.Config)) (*world, *host.Connector) {
	t.Helper()
	w := newWorld(t, append(change, withoutBuiltIns, withGuest(&guest{about: challenged, authenticate: do}))...)
	w.canary("key")
	return w, w.connect("custom", config{"key": "{{ get_secret('key') }}", "url": tokenURL})
}

// sendsNonce returns a mutation with the newest nonce and its count, or none.
func sendsNonce(env contract.Env) (string, error) {
	c := challengeOf(env)
	nonce := c.Answers["next"]
	if nonce == "" {
		nonce = c.Answers["nonce"]
	}
	if nonce == "" {
		return "{}", nil
	}
	return header("X-Nonce", fmt.Sprintf("%s %d", nonce, c.Count)), nil
}

// nonces returns the X-Nonce of each request that the API has received.
func nonces(w *world) (all []string) {
	for _, r := range w.api.Received() {
		all = append(all, r.Header.Get("X-Nonce"))
	}
	return all
}

// An API may have a nonce with a word of the credential. The second attempt has it, beside the entry that the first has stored, and no
// later request does. threats.md 344
func TestNonceLikeTheCredential_threats_344(t *testing.T) {
	w, connector := challengeWorld(t, func(env contract.Env) (string, error) {
		c := challengeOf(env)
		token, ok := env.CacheGet("token")
		if !ok {
			token = value(env, "key")
			env.CacheSet("token", token, 300)
		}
		env.Input()
		return marshal(contract.Mutation{Headers: []abi.Pair{{Name: "X-Key", Value: token}, {Name: "X-Nonce", Value: "nonce " + c.Answers["nonce"]}}}), nil
	})
	w.setSecret("key", "conformance-key")
	w.api.Answer(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.Header.Get("X-Nonce"), "nonce ") {
			return respond(http.StatusUnauthorized, "", "WWW-Authenticate", `Digest nonce="conformance-nonce"`)(r)
		}
		return status(http.StatusOK)(r)
	})
	for range 2 {
		w.get(connector)
	}
	equal(t, []string{"nonce ", "nonce conformance-nonce", "nonce ", "nonce conformance-nonce"}, nonces(w))
	if n := w.logged("the answer counts for this request at most"); n != 1 {
		t.Errorf("the log says %d times that nothing is kept, want 1", n)
	}
}

// A nonce of a 401 is used at once and then kept for later requests, with a count, until a newer one comes or it is too old.
func TestNonceReuse(t *testing.T) {
	w, connector := challengeWorld(t, sendsNonce)
	offer := ""
	w.api.Answer(func(r *http.Request) (*http.Response, error) {
		switch sent := r.Header.Get("X-Nonce"); {
		case offer != "":
			response := respond(http.StatusOK, "", "Authentication-Info", `nextnonce="`+offer+`"`)
			offer = ""
			return response(r)
		case sent == "":
			return respond(http.StatusUnauthorized, "", "WWW-Authenticate", `Digest nonce="first-nonce"`)(r)
		case sent == "second-nonce 2":
			return respond(http.StatusUnauthorized, "", "WWW-Authenticate", `Digest nonce="third-nonce"`)(r)
		}
		return respond(http.StatusOK, "")(r)
	})
	w.get(connector)
	w.get(connector)
	offer = "second-nonce"
	w.get(connector)
	w.get(connector)
	w.get(connector) // is refused, and repeated
	w.Advance(301 * time.Second)
	w.get(connector)
	want := []string{
		"", "first-nonce 1", "first-nonce 2", "first-nonce 3", "second-nonce 1", "second-nonce 2", "third-nonce 1", "", "first-nonce 1",
	}
	equal(t, want, nonces(w))
}

// What a refusal brings takes the place of what is kept. A refusal that brings nothing leaves it, and so does one that brings
// the same again: requests with a nonce are counted as long as the API repeats it. Otherwise a server that counts too would
// refuse the next request for a number that it has seen (RFC 7616 section 3.4).
func TestRepeatedNonceCount(t *testing.T) {
	refusal := []string{"WWW-Authenticate", `Digest nonce="first-nonce"`}
	w, connector := challengeWorld(t, sendsNonce)
	refuse := true
	w.api.Answer(func(r *http.Request) (*http.Response, error) {
		if refuse = !refuse; refuse || len(refusal) == 0 {
			return respond(http.StatusOK, "")(r)
		}
		return respond(http.StatusUnauthorized, "", refusal...)(r)
	})
	w.get(connector)
	w.get(connector)
	refusal = []string{"WWW-Authenticate", `Basic realm="r"`}
	w.get(connector)
	refusal = []string{"WWW-Authenticate", `Digest nonce="first-nonce"`, "Authentication-Info", `nextnonce="next-nonce"`}
	w.get(connector)
	refusal = []string{"WWW-Authenticate", `Digest nonce="second-nonce"`} // takes the place of both
	w.get(connector)
	want := []string{
		"", "first-nonce 1", "first-nonce 2", "first-nonce 3", "first-nonce 4", "first-nonce 5", "first-nonce 6", "next-nonce 1",
		"next-nonce 2", "second-nonce 1",
	}
	equal(t, want, nonces(w))
}

// A request is sent twice at most, and the caller gets the second answer. If its body cannot be sent again, it is sent once
// (threats.md 86).
func TestChallengeAnsweredOnce(t *testing.T) {
	for body, requests := range map[string]int{"": 2, "x": 1} {
		w, connector := challengeWorld(t, sendsNonce)
		w.api.Answer(respond(http.StatusUnauthorized, "no", "WWW-Authenticate", `Digest nonce="a-nonce-again"`))
		r := get(t.Context())
		if body != "" {
			r = post(t.Context(), once(body), 1)
		}
		if status, err := w.try(connector, r); status != 401 || err != nil || w.api.Count() != requests {
			t.Errorf("with the body %q: %d, %v after %d requests, want %d", body, status, err, w.api.Count(), requests)
		}
	}
}

// A plugin passes an answer on that it can do nothing about. The caller gets all of its body.
func TestAPluginPassesAnAnswerOn(t *testing.T) {
	var codes []string
	w, connector := challengeWorld(t, func(env contract.Env) (string, error) {
		if c := challengeOf(env); c.Status == http.StatusForbidden {
			codes = append(codes, c.Answers["code"])
			if c.Answers["code"] != "expired" {
				return marshal(contract.Mutation{Pass: true}), nil
			}
		}
		return header("X-Key", value(env, "key")), nil
	})
	long := `{"error":{"code":"expired"},"text":"` + strings.Repeat("x", 70_000) + `"}`
	for _, c := range []struct {
		body string
		sent int
	}{{`{"error":{"code":"other"}}`, 1}, {`{"error":{"code":"EXPIRED"}}`, 2}, {`expired`, 1}, {long, 1}} {
		before := w.api.Count()
		w.api.Answer(respond(http.StatusForbidden, c.body))
		body, err := w.read(connector.Transport(nil).RoundTrip(get(t.Context())))
		if n := w.api.Count() - before; body != c.body || err != nil || n != c.sent {
			t.Errorf("%.60s: %d requests, want %d; the caller got %.60s, %v", c.body, n, c.sent, body, err)
		}
	}
	equal(t, []string{"other", "expired", "", ""}, codes)
}

// A plugin that drops its token after a refusal gets a new one. A token that another request has brought meanwhile stays.
func TestAPluginDropsItsToken(t *testing.T) {
	w, connector := challengeWorld(t, func(env contract.Env) (string, error) {
		if challengeOf(env).Status == http.StatusForbidden && !env.CacheDrop("token") {
			return marshal(contract.Mutation{Pass: true}), nil
		}
		token, ok := env.CacheGet("token")
		if !ok {
			reply := tokenReply(env, contract.TokenRequest{URL: value(env, "url")})
			token = reply.AccessToken
			env.CacheSet("token", token, 600)
		}
		return header("Authorization", "Bearer "+token), nil
	})
	w.login.Answer(tokens(3600))
	refused := ""
	w.api.Answer(func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("Authorization") == refused {
			return status(http.StatusForbidden)(r)
		}
		return status(http.StatusOK)(r)
	})
	w.get(connector)
	refused = "Bearer t1"
	once := get(t.Context()) // cannot be sent again, so that the plugin does not run, and nothing is dropped
	once.Method, once.Body, once.ContentLength = http.MethodPost, io.NopCloser(strings.NewReader("x")), 1
	if status, err := w.try(connector, once); status != http.StatusForbidden || err != nil || w.login.Count() != 1 || w.api.Count() != 2 {
		t.Errorf("%d, %v after %d exchanges and %d requests", status, err, w.login.Count(), w.api.Count())
	}
	if got := w.get(connector).Header.Get("Authorization"); got != "Bearer t2" || w.login.Count() != 2 {
		t.Errorf("%s after %d exchanges", got, w.login.Count())
	}
	refused = "Bearer t2" // which is new, so that a newer one would not help
	if w.get(connector); w.login.Count() != 2 || w.api.Count() != 5 {
		t.Errorf("%d exchanges, %d requests", w.login.Count(), w.api.Count())
	}
	refused = ""
	if got := w.get(connector).Header.Get("Authorization"); got != "Bearer t2" || w.login.Count() != 2 {
		t.Errorf("%s after %d exchanges", got, w.login.Count())
	}
}

// The offset of the API's clock is that of its Date, once it has refused a request. A Date that is days away is not believed:
// a signature for that time would be valid when its key has been replaced (threats.md 99).
func TestClockOffset(t *testing.T) {
	var offset int64
	stamp := ""
	w, connector := challengeWorld(t, func(env contract.Env) (string, error) {
		offset, stamp = env.ClockOffset(), env.Compose("{timestamp}", nil)
		return header("X-Key", value(env, "key")), nil
	})
	const day = 24 * time.Hour
	date := func(ahead time.Duration) string { return start.Add(ahead).UTC().Format(http.TimeFormat) }
	for _, c := range []struct {
		name   string
		status int
		date   string
		want   int64
		header []string
	}{
		{"a success", 200, date(time.Hour), 0, nil},
		{"a refusal", 403, date(5 * time.Minute), 300, nil},
		{"some seconds more", 403, date(5*time.Minute + 9*time.Second), 300, nil},
		{"more than that", 403, date(5*time.Minute + 10*time.Second), 310, nil},
		{"a failure", 500, date(time.Hour), 310, nil},
		{"an answer of a cache", 403, date(-time.Hour), 310, []string{"Age", "3600"}},
		{"hardly any offset", 403, date(5 * time.Second), 0, nil},
		{"a clock that is behind", 401, date(-time.Hour), -3600, nil},
		{"a day ahead", 400, date(day), 86400, nil},
		{"more than a day ahead", 400, date(day + time.Minute), 86400, nil},
		{"a day behind", 400, date(-day), -86400, nil},
		{"more than a day behind", 400, date(-day - time.Minute), -86400, nil},
		{"the year 1970", 401, "Thu, 01 Jan 1970 00:00:00 GMT", -86400, nil},
		{"the year 9999", 401, "Fri, 31 Dec 9999 23:59:59 GMT", -86400, nil},
	} {
		w.api.Answer(respond(c.status, "", append(c.header, "Date", c.date)...))
		must(w.try(connector, get(t.Context())))(t)
		w.api.Answer(status(http.StatusOK))
		if w.get(connector); offset != c.want {
			t.Errorf("after %s: %d, want %d", c.name, offset, c.want)
		}
		if want := fmt.Sprint(start.Unix() + c.want); stamp != want {
			t.Errorf("after %s, a text has the time %s, want %s", c.name, stamp, want)
		}
	}
}

// The second run gets the seconds by which the API's clock differs from what the first one was told, even if another request
// has learnt the offset meanwhile.
func TestClockOffsetChange(t *testing.T) {
	var changes []int64
	asks := true
	w, connector := challengeWorld(t, func(env contract.Env) (string, error) {
		if c := challengeOf(env); c.Status != 0 {
			changes = append(changes, c.ClockChange)
		} else if c.ClockChange != 0 {
			t.Errorf("the first run: %d", c.ClockChange)
		}
		if asks {
			env.ClockOffset()
		}
		return header("X-Key", value(env, "key")), nil
	})
	date := func(ahead time.Duration) string { return start.Add(ahead).UTC().Format(http.TimeFormat) }
	w.api.Answer(respond(http.StatusForbidden, "", "Date", date(time.Hour)))
	w.get(connector) // 3600
	w.get(connector) // the same
	w.api.Answer(respond(http.StatusForbidden, "", "Date", date(-time.Minute)))
	w.get(connector)
	other := false
	w.api.Answer(func(r *http.Request) (*http.Response, error) {
		if !other {
			other = true
			w.get(connector) // another request learns the offset
		}
		return respond(http.StatusForbidden, "", "Date", date(time.Hour))(r)
	})
	w.get(connector)
	asks = false
	w.api.Answer(respond(http.StatusForbidden, "", "Date", date(0)))
	w.get(connector)
	if want := []int64{3600, 0, -3660, 3660, 3660, 0}; !slices.Equal(changes, want) {
		t.Errorf("%v, want %v", changes, want)
	}
}

// bodyNonceWorld returns a world whose guest sends a nonce that the API sends in the body of a 401.
func bodyNonceWorld(t *testing.T) (*world, *host.Connector) {
	t.Helper()
	about := challenged
	about.Challenge = &abi.Challenge{Statuses: []int{401}, Keep: 300, Answers: []abi.Answer{
		{Name: "nonce", From: "json:/nonce", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}, Keep: true},
	}}
	w := newWorld(t, withoutBuiltIns, withGuest(&guest{about: about, authenticate: sendsNonce}))
	return w, w.connect("custom", config{"key": "k"})
}

// A value that no header may hold is not taken, or it would fail later requests for as long as it is kept.
func TestInvalidHeaderValueNotKept(t *testing.T) {
	w, connector := bodyNonceWorld(t)
	w.api.Answer(respond(http.StatusUnauthorized, `{"nonce":"a good nonce"}`))
	w.get(connector)
	for _, bad := range []string{`a\nbad nonce`, `a bad\r\nnonce`, `\u0000nonce`, `a nonce\u007f`} {
		w.api.Answer(respond(http.StatusUnauthorized, `{"nonce":"`+bad+`"}`))
		w.get(connector)
	}
	w.api.Answer(respond(http.StatusOK, ""))
	w.get(connector)
	for i, nonce := range nonces(w) {
		if i > 0 && !strings.HasPrefix(nonce, "a good nonce ") {
			t.Errorf("request %d has the nonce %q", i, nonce)
		}
	}
}

// A value in a body is kept of an answer with one of the statuses only. The body of any other streams to the caller.
func TestChallengeBodyOnly(t *testing.T) {
	w, connector := bodyNonceWorld(t)
	for _, answer := range []testworld.Answer{
		respond(http.StatusUnauthorized, `{"nonce":"first"}`), respond(http.StatusOK, `{"nonce":"second"}`), respond(http.StatusForbidden, `{"nonce":"third"}`),
	} {
		w.api.Answer(answer)
		w.get(connector)
	}
	if got, want := nonces(w), []string{"", "first 1", "first 2", "first 3"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// What a guest may not do with a challenge.
func TestMisuseOfAChallenge(t *testing.T) {
	for name, c := range map[string]struct {
		do    func(contract.Env) (string, error)
		stage host.Stage
		words string
	}{
		"after the request was read": {func(env contract.Env) (string, error) {
			env.Input()
			env.Challenge()
			return "{}", nil
		}, host.StagePlugin, "ask for the challenge first"},
		"dropping after the request was read": {func(env contract.Env) (string, error) {
			env.Input()
			env.CacheDrop("token")
			return "{}", nil
		}, host.StagePlugin, "after the request was read"},
		"passing on without an answer": {func(contract.Env) (string, error) { return marshal(contract.Mutation{Pass: true}), nil }, host.StageMutation, "passes the API's answer on"},
	} {
		t.Run(name, func(t *testing.T) {
			w, connector := challengeWorld(t, c.do)
			w.refuse(connector, get(t.Context()), c.stage, c.words)
		})
	}
}

// A plugin gets answers of a body of at most 64 KiB that is whole and not encoded. The caller gets the body in any case, with
// the error at which it ends.
func TestChallengeBodies(t *testing.T) {
	const expired = `{"error":{"code":"expired"}}`
	broken := errors.New("the connection broke")
	for name, tt := range map[string]struct {
		body     string
		end      error
		encoding string
		want     string
	}{
		"64 KiB":            {body: expired + strings.Repeat(" ", 64<<10-len(expired)), want: "expired"},
		"64 KiB and a byte": {body: expired + strings.Repeat(" ", 64<<10-len(expired)+1)},
		"cut off":           {body: expired, end: broken},
		"encoded":           {body: expired, encoding: "gzip"},
	} {
		t.Run(name, func(t *testing.T) {
			var code string
			w, connector := challengeWorld(t, func(env contract.Env) (string, error) {
				if c := challengeOf(env); c.Status != 0 {
					code = c.Answers["code"]
					return `{"pass":true}`, nil
				}
				return "{}", nil
			})
			w.api.Answer(func(r *http.Request) (*http.Response, error) {
				response, err := respond(http.StatusForbidden, tt.body)(r)
				if tt.encoding != "" {
					response.Header.Set("Content-Encoding", tt.encoding)
				}
				if tt.end != nil {
					response.Body = io.NopCloser(io.MultiReader(strings.NewReader(tt.body), iotest.ErrReader(tt.end)))
				}
				return response, err
			})
			got, err := w.read(connector.Transport(nil).RoundTrip(get(t.Context())))
			if got != tt.body || !errors.Is(err, tt.end) || code != tt.want {
				t.Errorf("%d bytes, code %q, want %d bytes, code %q (%v)", len(got), code, len(tt.body), tt.want, err)
			}
		})
	}
}

// The plugin also learns from the answer to the second attempt.
func TestNonceOfSecondAnswer(t *testing.T) {
	w, connector := challengeWorld(t, sendsNonce)
	w.api.Answer(func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("X-Nonce") == "" {
			return respond(http.StatusUnauthorized, "", "WWW-Authenticate", `Digest nonce="first-nonce"`)(r)
		}
		return respond(http.StatusOK, "", "Authentication-Info", `nextnonce="second-nonce"`)(r)
	})
	w.get(connector)
	w.get(connector)
	equal(t, []string{"", "first-nonce 1", "second-nonce 1"}, nonces(w))
}

// The body of an answer that is no challenge streams to the caller: the host reads none of it first.
func TestOrdinaryAnswerStreams(t *testing.T) {
	w, connector := challengeWorld(t, sendsNonce)
	body := &counting{Reader: strings.NewReader(`{"error":{"code":"expired"}}`)}
	w.api.Answer(func(r *http.Request) (*http.Response, error) {
		response, err := respond(http.StatusOK, "", "Authentication-Info", `nextnonce="a-nonce-to-keep"`)(r)
		response.Body = body
		return response, err
	})
	response := must(connector.Transport(nil).RoundTrip(get(t.Context())))(t)
	if body.read != 0 {
		t.Errorf("%d bytes are read before the caller gets the answer", body.read)
	}
	_ = response.Body.Close()
}
