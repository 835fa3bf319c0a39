package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// The cases of specification.md "Access tokens". More on concurrent requests is in ahead_test.go, and on answers of the API in
// unauthorized_test.go and send_test.go.

func TestDecision_Tokens_scope(t *testing.T) {
	w := newWorld(t, func(c *host.Config) { c.Variables = map[string]string{"none": ""} })
	for _, c := range []struct {
		name  string
		scope any
		want  string // "" means that the form has no such field
	}{
		{"absent", nil, ""},
		{"empty", "", ""},
		{"renders to empty", "{{ default(get_variable('none'), '') }}", ""},
		{"an expression with a secret renders to empty", "{{ get_secret('s') == 'x' ? 'a' : '' }}", ""},
		{"set", "read write", "read write"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.get(w.connectAs(c.name, "oauth_client_credentials", with(oauth("{{ get_secret('s') }}"), "scope", c.scope)))
			form := w.login.Last().Form()
			if got := form.Get("scope"); got != c.want || form.Has("scope") != (c.want != "") {
				t.Errorf("the form has scope %t, %q, want %q", form.Has("scope"), got, c.want)
			}
		})
	}
}

// threats.md 33 as well.
func TestDecision_Tokens_expires_in_missing_not_a_number_or_short(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		expires string // the member expires_in
		seconds int    // the time in the cache
	}{
		{`"expires_in":3600`, 3540},
		{`"expires_in":"3600"`, 3540},
		{`"expires_in":61`, 1},
		{`"expires_in":61.9`, 1},
		{`"expires_in":2147483647`, 2147483587},
		{`"x":0`, 0},
		{`"expires_in":null`, 0},
		{`"expires_in":60`, 0},
		{`"expires_in":0`, 0},
		{`"expires_in":-3600`, 0},
		{`"expires_in":"soon"`, 0},
		{`"expires_in":true`, 0},
		{`"expires_in":[3600]`, 0},
		{`"expires_in":1e400`, 0},
		{`"expires_in":99999999999999999999`, 0},
		{`"expires_in":9223372036854775807`, 0},
		{`"expires_in":2147483648`, 0},
	} {
		t.Run(c.expires, func(t *testing.T) {
			before, warned := w.login.Count(), w.logged("not cached")
			exchanged := func() int { return w.login.Count() - before }
			w.login.Answer(respond(http.StatusOK, `{"access_token":"t1",`+c.expires+`}`))
			connector := w.connectAs(c.expires, "oauth_client_credentials", oauth("{{ get_secret('s') }}"))
			for range 3 {
				if got := w.get(connector).Header.Get("Authorization"); got != "Bearer t1" {
					t.Errorf("Authorization is %q", got)
				}
			}
			want, warnings := 1, 0
			if c.seconds == 0 {
				want, warnings = 3, 1
			}
			if warned = w.logged("not cached") - warned; exchanged() != want || warned != warnings {
				t.Errorf("%d exchanges and %d warnings, want %d and %d", exchanged(), warned, want, warnings)
			}
			if c.seconds > 0 {
				w.Advance(time.Duration(c.seconds)*time.Second - 1)
				w.get(connector)
				w.Advance(1)
				w.get(connector)
				if exchanged() != 2 {
					t.Errorf("%d exchanges, want a second one after %d seconds and not before", exchanged(), c.seconds)
				}
			}
		})
	}
}

func TestDecision_Tokens_token_ttl_short(t *testing.T) {
	for _, ttl := range []int{1, 60, 61} {
		w := newWorld(t)
		w.canary("k")
		c := w.connect("oauth_jwt_bearer", with(bearer("{{ get_secret('k') }}"), "token_ttl", ttl))
		w.get(c)
		w.get(c)
		want := map[bool]int{true: 2, false: 1}[ttl <= 60]
		if w.login.Count() != want || w.logged("not cached") != want-1 {
			t.Errorf("token_ttl %d: %d exchanges and %d warnings, want %d and %d", ttl, w.login.Count(), w.logged("not cached"), want, want-1)
		}
	}
}

func TestDecision_Tokens_oauth_jwt_bearer_and_a_shorter_expires_in(t *testing.T) {
	w := newWorld(t)
	w.canary("k")
	w.login.Answer(tokens(300))
	c := w.connect("oauth_jwt_bearer", bearer("{{ get_secret('k') }}"))
	w.get(c)
	w.Advance(3540*time.Second - 1)
	if got := w.get(c).Header.Get("Authorization"); got != "Bearer t1" {
		t.Errorf("within token_ttl Authorization is %q", got)
	}
	w.Advance(1)
	if got := w.get(c).Header.Get("Authorization"); got != "Bearer t2" {
		t.Errorf("after token_ttl Authorization is %q", got)
	}
	if n := w.logged("expires_in is shorter than token_ttl"); n != 1 {
		t.Errorf("%d warnings, want one", n)
	}
}

func TestDecision_Tokens_token_type(t *testing.T) {
	w := newWorld(t)
	for i, c := range []struct {
		member string
		fails  bool
	}{
		{``, false},
		{`,"token_type":"bearer"`, false},
		{`,"token_type":"BEARER"`, false},
		{`,"token_type":"Bearer"`, false},
		{`,"token_type":null`, false},
		{`,"token_type":"BearerToken"`, false},
		{`,"token_type":"bearertoken"`, false},
		{`,"token_type":"mac"`, true},
		{`,"token_type":"DPoP"`, true},
		{`,"token_type":""`, true},
		{`,"token_type":7`, true},
	} {
		w.login.Answer(respond(http.StatusOK, `{"access_token":"t1"`+c.member+`}`))
		connector := w.connectAs(fmt.Sprint("c", i), "oauth_client_credentials", oauth("{{ get_secret('s') }}"))
		if c.fails {
			w.refuse(connector, get(t.Context()), host.StageToken, "bearer")
		} else {
			w.get(connector)
		}
	}
}

// specification.md "characters of a token", threats.md 20, 34 as well: errors and logs have only the status and a
// registered code of an answer.
func TestDecision_Tokens_answer_is_no_token(t *testing.T) {
	const secretLooking = "do-not-repeat-this-answer"
	w := newWorld(t)
	w.Hide("the token endpoint's answer", secretLooking)
	for _, c := range []struct {
		name   string
		status int
		body   string
		code   string // the code in the error; "-" if the error is no TokenError
		words  string
	}{
		{"400 with a registered code", 400, `{"error":"invalid_client","error_description":"` + secretLooking + `"}`, "invalid_client", "400 (invalid_client)"},
		{"401 with another code", 401, `{"error":"` + secretLooking + `"}`, "other", "401 (an error code that is not registered)"},
		{"400 with a code that is none", 400, `{"error":{"a":1}}`, "", "400"},
		{"500, HTML", 500, "<html>" + secretLooking, "", "500"},
		{"503, empty", 503, "", "", "503"},
		{"302", 302, "", "", "302"},
		{"307", 307, "", "", "307"},
		{"200, HTML", 200, "<html>" + secretLooking, "", "200 with a body that is not well-formed JSON"},
		{"200, empty", 200, "", "", "200"},
		{"200, a list", 200, `["` + secretLooking + `"]`, "", "200"},
		{"200, no access_token", 200, `{"token":"` + secretLooking + `"}`, "", "without an access_token"},
		{"200, access_token of another type", 200, `{"access_token":{"` + secretLooking + `":1}}`, "", "without an access_token"},
		{"200, empty access_token", 200, `{"access_token":""}`, "", "without an access_token"},
		{"200, blank access_token", 200, `{"access_token":"  "}`, "", "without an access_token"},
		{"200, access_token twice", 200, `{"access_token":"` + secretLooking + `","access_token":"b"}`, "", "two members"},
		{"200, CR LF in the token", 200, `{"access_token":"` + secretLooking + `\r\nX-Evil: 1"}`, "", "no token may have"},
		{"200, NUL in the token", 200, `{"access_token":"` + secretLooking + `\u0000"}`, "", "no token may have"},
		{"200, DEL in the token", 200, `{"access_token":"` + secretLooking + `\u007f"}`, "", "no token may have"},
		{"200, ä in the token", 200, `{"access_token":"` + secretLooking + `ä"}`, "", "no token may have"},
		{"200, over 64 KiB", 200, `{"access_token":"` + strings.Repeat("x", 64<<10) + `"}`, "", "more than 65536 bytes"},
		{"400, over 64 KiB", 400, strings.Repeat("x", 64<<10+1), "-", "more than 65536 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := w.login.Count()
			w.login.Answer(respond(c.status, c.body))
			connector := w.connectAs(c.name, "oauth_client_credentials", oauth("{{ get_secret('s') }}"))
			err := w.refuse(connector, get(t.Context()), host.StageToken, c.words)
			var answer *host.TokenError
			if found := errors.As(err, &answer); found != (c.code != "-") {
				t.Fatalf("errors.As finds a TokenError: %t, in %v", found, err)
			}
			if answer != nil && (answer.Status != c.status || answer.Code != c.code) {
				t.Errorf("the TokenError is %+v", answer)
			}
			// threats.md 32: the next request asks again. That is a second later, unless the endpoint failed.
			w.login.Answer(token("t1", 3600))
			if c.status < http.StatusInternalServerError {
				w.Advance(time.Second)
			}
			w.get(connector)
			if n := w.login.Count() - before; n != 2 {
				t.Errorf("%d exchanges, want another one", n)
			}
		})
	}
}

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
		w := misusedWorld(t, func(env contract.Env) (string, error) {
			document := env.TokenRequest([]byte(marshal(contract.TokenRequest{URL: value(env, "url")})))
			return header("X-Key", value(env, "to_header")), json.Unmarshal(document, &got)
		})
		w.login.Answer(respond(c.status, c.body))
		w.get(w.connect("custom", misused))
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
	w := newWorld(t)
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	w.login.Answer(func(*http.Request) (*http.Response, error) { return nil, refused })
	c := w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}"))
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
	w := newWorld(t)
	c := w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}"))
	for _, code := range []int{301, 302, 303, 307, 308} {
		for _, location := range []string{"https://login.test/other", "https://evil.test/", "/other", "http://[::1", ""} {
			before := w.login.Count()
			w.login.Answer(func(r *http.Request) (*http.Response, error) {
				response, err := status(code)(r)
				if location != "" {
					response.Header.Set("Location", location)
				}
				return response, err
			})
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
		w := newWorld(t)
		w.login.Answer(tokens(3600))
		c := w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}"))
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

// Concurrent requests: specification.md "Access tokens", threats.md 29, 30, 31, 32, 33 and 34.

// everyone returns a configuration that names everything that a template can name.
func everyone(secret string) config {
	return with(oauth("{{ get_secret('"+secret+"') }}"), "client_id",
		"{{ get_variable('v') }} {{ default(user.email, '-') }} {{ default(user.id, '-') }} {{ default(user.username, '-') }} "+
			"{{ default(user.first_name, '-') }} {{ default(user.last_name, '-') }} {{ default(tenant_id, '-') }}")
}

// threats.md 29: if any one part of a partition changes, the cache misses. Variables and the plugin's digest are the
// same in the whole host; partition_test.go changes them.
func TestDecision_Tokens_whose_token(t *testing.T) {
	w := newWorld(t, func(c *host.Config) { c.Variables = map[string]string{"v": "1"} })
	same := w.secrets["s"]
	w.setSecret("s2", same)
	w.login.Answer(tokens(3600))
	base := w.connectAs("crm", "oauth_client_credentials", everyone("s"))
	user := host.User{ID: "1", Email: "e", Username: "n", FirstName: "f", LastName: "l", TenantID: "t"}
	as := func(change func(*host.User)) *http.Request {
		u := user
		change(&u)
		return get(host.WithUser(t.Context(), u))
	}
	nobodyElse := func(*host.User) {}
	w.send(base, as(nobodyElse))
	for _, c := range []struct {
		name      string
		connector *host.Connector
		request   *http.Request
	}{
		{"connector", w.connectAs("crm2", "oauth_client_credentials", everyone("s")), as(nobodyElse)},
		{"type", w.connectAs("crm", "oauth_jwt_bearer", with(bearer("{{ get_secret('s') }}"), "client_id", everyone("s")["client_id"])), as(nobodyElse)},
		{"configuration: a field", w.connectAs("crm", "oauth_client_credentials", with(everyone("s"), "scope", "x")), as(nobodyElse)},
		{"configuration: a secret of the same value", w.connectAs("crm", "oauth_client_credentials", everyone("s2")), as(nobodyElse)},
		{"user.id", base, as(func(u *host.User) { u.ID = "2" })},
		{"user.email", base, as(func(u *host.User) { u.Email = "e2" })},
		{"user.username", base, as(func(u *host.User) { u.Username = "n2" })},
		{"user.first_name", base, as(func(u *host.User) { u.FirstName = "f2" })},
		{"user.last_name", base, as(func(u *host.User) { u.LastName = "l2" })},
		{"tenant_id", base, as(func(u *host.User) { u.TenantID = "t2" })},
		{"two fields that together read the same", base, as(func(u *host.User) { u.Email, u.FirstName = "ef", "" })},
		{"two fields exchanged", base, as(func(u *host.User) { u.FirstName, u.LastName = "l", "f" })},
		{"no user", base, get(t.Context())},
	} {
		before := w.login.Count()
		w.send(c.connector, c.request.Clone(c.request.Context()))
		if n := w.login.Count() - before; n != 1 {
			t.Errorf("%s: %d exchanges, want a miss", c.name, n)
		}
		w.send(c.connector, c.request)
		if n := w.login.Count() - before; n != 1 {
			t.Errorf("%s: %d exchanges, want its own entry to be there", c.name, n)
		}
		if got := w.send(base, as(nobodyElse)).Header.Get("Authorization"); got != "Bearer t1" {
			t.Errorf("after %s the first entry gives %q", c.name, got)
		}
	}
	old := w.login.Count()
	w.canary("s") // rotates the secret
	if w.send(base, as(nobodyElse)); w.login.Count() != old+1 {
		t.Error("a new value of the secret met a token of the old one")
	}
	w.setSecret("s", same)
	if got := w.send(base, as(nobodyElse)).Header.Get("Authorization"); got != "Bearer t1" {
		t.Errorf("with the old value back: %q", got)
	}
	// A second connector with the same configuration has the same entries.
	w.send(w.connectAs("crm", "oauth_client_credentials", everyone("s")), as(nobodyElse))
	if w.login.Count() != old+1 {
		t.Error("a connector that was loaded again met none of its tokens")
	}
}

// gate holds token requests until it is opened.
type gate struct {
	open   chan struct{}
	behind answer
}

func newGate(a answer) *gate { return &gate{make(chan struct{}), a} }

func (g *gate) answer(r *http.Request) (*http.Response, error) {
	select {
	case <-g.open:
		return g.behind(r)
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// gatedWorld returns a world with a connector whose token endpoint answers with t1, once the gate is open.
func gatedWorld(t *testing.T, change ...func(*host.Config)) (*world, *host.Connector, *gate) {
	t.Helper()
	w := newWorld(t, change...)
	g := newGate(token("t1", 3600))
	w.login.Answer(g.answer)
	return w, w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}")), g
}

// threats.md 30.
func TestDecision_Tokens_many_requests_at_once_one_exchange(t *testing.T) {
	const callers = 10_000
	synctest.Test(t, func(t *testing.T) {
		w, c, g := gatedWorld(t, func(c *host.Config) { c.Limits.ConcurrentGuests = 4; c.Observe = nil })
		var before, during runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var all sync.WaitGroup
		var failed atomic.Int32
		for range callers {
			all.Go(func() {
				if _, err := w.try(c, get(t.Context())); err != nil {
					failed.Add(1)
				}
			})
		}
		synctest.Wait()
		runtime.GC()
		runtime.ReadMemStats(&during)
		goroutines := runtime.NumGoroutine()
		if w.login.Count() != 1 || w.api.Count() != 0 {
			t.Errorf("%d exchanges and %d requests while all wait", w.login.Count(), w.api.Count())
		}
		// A guest of this type has 128 KiB of memory, so 10,000 guests would take more than a gigabyte.
		if held := int64(during.HeapAlloc) - int64(before.HeapAlloc); held > callers*16<<10 {
			t.Errorf("%d bytes for each caller that waits", held/callers)
		}
		if goroutines > callers+100 {
			t.Errorf("%d goroutines for %d callers", goroutines, callers)
		}
		close(g.open)
		all.Wait()
		if w.login.Count() != 1 || w.api.Count() != callers || failed.Load() != 0 {
			t.Errorf("%d exchanges, %d requests, %d failures", w.login.Count(), w.api.Count(), failed.Load())
		}
		for _, r := range w.api.Received() {
			if r.Header.Get("Authorization") != "Bearer t1" {
				t.Fatal("a request has another token")
			}
		}
	})
}

func TestDecision_Tokens_many_requests_at_once_one_exchange_for_each_entry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		g := newGate(tokens(3600))
		w.login.Answer(g.answer)
		c := w.connect("oauth_client_credentials", with(oauth("{{ get_secret('s') }}"), "client_id", "{{ user.id }}"))
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				if _, err := w.try(c, get(host.WithUser(t.Context(), host.User{ID: fmt.Sprint(i % 10)}))); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(g.open)
		all.Wait()
		if w.login.Count() != 10 {
			t.Errorf("%d exchanges for 10 users", w.login.Count())
		}
	})
}

// threats.md 31.
func TestDecision_Tokens_the_caller_that_began_goes_away(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c, g := gatedWorld(t)
		first, leave := context.WithCancel(t.Context())
		left := w.background(c, get(first))
		synctest.Wait()
		stayed := w.background(c, get(t.Context()))
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.try(c, get(impatient)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one who waits gets %v when its time is over", err)
		}
		leave()
		var failure *host.Error
		if err := <-left; !errors.Is(err, context.Canceled) || !errors.As(err, &failure) || failure.Stage != host.StageToken {
			t.Errorf("the caller that went away got %v", err)
		}
		synctest.Wait()
		close(g.open)
		if err := <-stayed; err != nil {
			t.Errorf("the other one got %v", err)
		}
		if w.get(c); w.login.Count() != 1 {
			t.Errorf("%d exchanges, want the one that was begun", w.login.Count())
		}
	})
}

// threats.md 34: a slow drip, and an endpoint that never answers.
func TestDecision_Tokens_the_exchange_fails_for_all_who_waited(t *testing.T) {
	drip := func(r *http.Request) (*http.Response, error) {
		response, err := status(http.StatusOK)(r)
		response.Body = io.NopCloser(&dripping{r.Context()})
		return response, err
	}
	for name, login := range map[string]answer{"no answer": newGate(nil).answer, "slow drip": drip} {
		bubble(t, name, func(t *testing.T) {
			// The gate's channel must be made in this bubble.
			if name == "no answer" {
				login = newGate(nil).answer
			}
			w := newWorld(t, func(c *host.Config) { c.Limits.CallTime = 7 * time.Second })
			w.login.Answer(login)
			c := w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}"))
			began := time.Now()
			errs := make(chan error, 20)
			for range cap(errs) {
				go func() {
					_, err := w.try(c, get(t.Context()))
					errs <- err
				}()
			}
			for range cap(errs) {
				var failure *host.Error
				if err := <-errs; !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &failure) || failure.Stage != host.StageToken {
					t.Errorf("one who waited got %v", err)
				}
			}
			if took := time.Since(began); took != 7*time.Second || w.login.Count() != 1 {
				t.Errorf("it took %v and %d exchanges", took, w.login.Count())
			}
			w.login.Answer(token("t1", 3600))
			w.get(c) // threats.md 32: the next request asks again
		})
	}
}

// generations returns a function that makes a new host on each call, in a world of its own. All these hosts share one
// token cache.
func generations(t *testing.T) (next func(t *testing.T, change ...func(*host.Config)) *world) {
	t.Helper()
	clock := func() time.Time { return start }
	tokens := must(host.NewTokenCache(host.TokenCacheConfig{Clock: clock}))(t)
	return func(t *testing.T, change ...func(*host.Config)) *world {
		t.Helper()
		w := newWorld(t, append(change, func(c *host.Config) { c.Tokens, c.Clock = tokens, clock })...)
		w.setSecret("s", "the-same-in-all-of-them")
		return w
	}
}

// threats.md 64: an unchanged connector of a new host uses the token of the old one. Any other connector requests a
// token of its own.
func TestTokensOutliveTheirHost(t *testing.T) {
	next := generations(t)
	base := with(oauth("{{ get_secret('s') }}"), "client_id", "{{ get_variable('v') }}")
	first := next(t, func(c *host.Config) { c.Variables = map[string]string{"v": "1"} })
	first.get(first.connect("oauth_client_credentials", base))
	check(t, first.host.Close(t.Context()))
	for name, c := range map[string]struct {
		variables map[string]string
		secret    string
		connector string
		config    config
		exchanges int
	}{
		"nothing":            {map[string]string{"v": "1"}, "", "crm", base, 0},
		"what nobody names":  {map[string]string{"v": "1", "w": "1"}, "", "crm", base, 0},
		"a variable":         {map[string]string{"v": "2"}, "", "crm", base, 1},
		"a secret":           {map[string]string{"v": "1"}, "another-value", "crm", base, 1},
		"the connector":      {map[string]string{"v": "1"}, "", "crm2", base, 1},
		"the configuration":  {map[string]string{"v": "1"}, "", "crm", with(base, "scope", "x"), 1},
		"where tokens are":   {map[string]string{"v": "1"}, "", "crm", with(base, "token_url", "https://login.test/other"), 1},
		"the cache's limits": {map[string]string{"v": "1"}, "", "crm", base, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := next(t, func(h *host.Config) {
				h.Variables = c.variables
				if name == "the cache's limits" {
					h.Limits.CachePerPartition = 1
				}
			})
			w.login.Answer(token("t2", 3600))
			if c.secret != "" {
				w.setSecret("s", c.secret)
			}
			sent := w.get(w.connectAs(c.connector, "oauth_client_credentials", c.config))
			want := map[int]string{0: "Bearer t1", 1: "Bearer t2"}[c.exchanges]
			if got := sent.Header.Get("Authorization"); w.login.Count() != c.exchanges || got != want {
				t.Errorf("%d exchanges and %s, want %d and %s", w.login.Count(), got, c.exchanges, want)
			}
		})
	}
}

// threats.md 30 and 64: callers of the next host get the token of an exchange that the previous host began, even while
// the previous host closes.
func TestAnExchangeInFlightServesTheNextHost(t *testing.T) {
	for name, fails := range map[string]bool{"it succeeds": false, "it fails": true} {
		bubble(t, name, func(t *testing.T) {
			next := generations(t)
			before, after := next(t), next(t)
			g := newGate(token("t1", 3600))
			if fails {
				g.behind = status(http.StatusInternalServerError)
			}
			before.login.Answer(g.answer)
			after.login.Answer(token("t2", 3600))
			c := oauth("{{ get_secret('s') }}")
			one, other := before.connect("oauth_client_credentials", c), after.connect("oauth_client_credentials", c)
			answers := make(chan error, 2)
			go func() { _, err := before.try(one, get(t.Context())); answers <- err }()
			synctest.Wait()
			go func() { _, err := after.try(other, get(t.Context())); answers <- err }()
			synctest.Wait()
			closed := make(chan error, 1)
			go func() { closed <- before.host.Close(context.Background()) }()
			synctest.Wait()
			close(g.open)
			for range 2 {
				if err := <-answers; (err != nil) != fails {
					t.Errorf("a caller got %v", err)
				}
			}
			if err := <-closed; err != nil {
				t.Error(err)
			}
			want, exchanges := "Bearer t1", 0
			if fails { // the next request asks again
				want, exchanges = "Bearer t2", 1
			}
			if got := after.get(other).Header.Get("Authorization"); got != want || after.login.Count() != exchanges {
				t.Errorf("%s after %d exchanges of the next host, want %s after %d", got, after.login.Count(), want, exchanges)
			}
		})
	}
}

// threats.md 35 and 64: reading the configuration again does not allow more token requests after 401s.
func TestThePaceOf401sOutlivesTheHost(t *testing.T) {
	next := generations(t)
	exchanges := 0
	for range 3 {
		w := next(t)
		w.api.Answer(status(http.StatusUnauthorized))
		c := w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}"))
		for range 3 {
			if got, err := w.try(c, get(t.Context())); got != http.StatusUnauthorized || err != nil {
				t.Errorf("got %d, %v", got, err)
			}
		}
		exchanges += w.login.Count()
	}
	if exchanges != 2 {
		t.Errorf("%d exchanges, want one and another one after the first 401", exchanges)
	}
}

func TestNewTokenCacheErrors(t *testing.T) {
	if _, err := host.NewTokenCache(host.TokenCacheConfig{TokensBytes: -1}); err == nil {
		t.Error("a cache for less than nothing was made")
	}
	if _, err := host.NewTokenCache(host.TokenCacheConfig{Random: emptyReader{}}); err == nil {
		t.Error("a cache was made without randomness")
	}
}

type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, context.Canceled }
