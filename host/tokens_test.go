package host_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"strings"
	"syscall"
	"testing"
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
