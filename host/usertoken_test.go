package host_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// onBehalf is the description of a guest that exchanges the user's token.
var onBehalf = abi.Description{Uses: contract.Groups, Fields: []abi.Field{
	sealedField("subject", contract.SinkToken, contract.SinkHeader), sealedField("header_only", contract.SinkHeader),
	{Name: "plain", Kind: abi.KindString, Sinks: []string{contract.SinkToken}},
	{Name: "object", Kind: abi.KindObject, Sinks: []string{contract.SinkToken}},
	{Name: "url", Kind: abi.KindURL, Sinks: []string{contract.SinkToken}},
	{Name: "sealed_url", Kind: abi.KindURL, Sealed: true, Sinks: []string{contract.SinkToken}},
	{Name: "key", Kind: abi.KindKey, AlgorithmField: "algorithm"},
	{Name: "algorithm", Kind: abi.KindString, Enum: []string{"HS256"}, Default: "HS256"},
}}

// onBehalfWorld returns a world whose guest does what authenticate does, with login.test and no other host listed.
func onBehalfWorld(t *testing.T, authenticate func(contract.Env) (string, error), change ...func(*host.Config)) *world {
	t.Helper()
	g := &guest{about: onBehalf, authenticate: authenticate}
	return newWorld(t, append([]func(*host.Config){withoutBuiltIns, withGuest(g), listed("login.test")}, change...)...)
}

// listed returns a change of a configuration that lists hosts for tokens of users.
func listed(hosts ...string) func(*host.Config) {
	return func(c *host.Config) { c.UserTokenHosts = hosts }
}

// as returns a request for a user with a token, which is valid for an hour.
func (w *world) as(token string) *http.Request {
	return w.until(token, w.Now().Add(time.Hour))
}

func (w *world) until(token string, expires time.Time) *http.Request {
	return get(host.WithUser(w.t.Context(), host.User{ID: "1", Token: token, TokenExpires: expires}))
}

// cachedExchange exchanges the user's token unless the cache has what it was exchanged for, for a day.
func cachedExchange(env contract.Env) (string, error) {
	if token, ok := env.CacheGet("token"); ok {
		return header("Authorization", "Bearer "+token), nil
	}
	r := tokenReply(env, contract.TokenRequest{URL: value(env, "url"), Form: []abi.Pair{{Name: "subject_token", Value: value(env, "subject")}}})
	env.CacheSet("token", r.AccessToken, 24*60*60)
	return header("Authorization", "Bearer "+r.AccessToken), nil
}

// threats.md 96, specification.md 2.8, specification.md "token of the user": a connector may have tokens
// exchanged at any URL, but the user's token goes only to a host that the operator lists.
func TestUserTokenGoesToListedHostsOnly(t *testing.T) {
	for _, c := range []struct {
		listed, url string
		want        bool
	}{
		{"login.test", "https://login.test/token", true},
		{"LOGIN.test", "https://Login.test:443/token?a=b", true},
		{"login.test:443", "https://login.test/token", true},
		{"login.test:8443", "https://login.test:8443/token", true},
		{"[::1]:8443", "https://[::1]:8443/token", true},
		{"localhost", "http://localhost/token", true},
		{"bücher.test", "https://xn--bcher-kva.test/token", true},
		{"BÜCHER.test", "https://xn--bcher-kva.test/token", true},
		{"xn--BCHER-kva.test", "https://bücher.test/token", true},
		{"login.test", "https://login.test./token", false},
		{"login.test", "https://evil.test/token", false},
		{"login.test", "https://login.test:8443/token", false},
		{"login.test:8443", "https://login.test/token", false},
		{"login.test", "https://login.test.evil.test/token", false},
		{"login.test", "https://evil.test/login.test", false},
		{"login.test", "https://sub.login.test/token", false},
		{"login.test", "http://login.test:443/token", false},
	} {
		t.Run(c.listed+" and "+c.url, func(t *testing.T) {
			w := onBehalfWorld(t, cachedExchange, listed(c.listed), func(h *host.Config) { h.Egress.AllowHTTP = true })
			w.api.Answer(token("t1", 3600)) // for every other host than login.test
			connector := w.connect("custom", config{"url": c.url, "subject": "{{ user.token }}"})
			if c.want {
				w.send(connector, w.as(w.Secret("the user's token")))
			} else {
				at := strings.ToLower(strings.SplitN(c.url, "/", 4)[2])
				w.refuse(connector, w.as(w.Secret("the user's token")), host.StageConfig, "user.token may not go to "+at, "UserTokenHosts", "gateway.user.jwt.token_hosts")
			}
			asked := slices.DeleteFunc(append(w.login.Received(), w.api.Received()...), func(r sent) bool { return r.URL == apiURL })
			if (len(asked) > 0) != c.want {
				t.Errorf("%d requests for a token, want one: %t", len(asked), c.want)
			}
		})
	}
}

// sendsCachedSubject puts the token into the cache, encoded, and sends it at the next call.
func sendsCachedSubject(env contract.Env) (string, error) {
	subject, ok := env.CacheGet("subject")
	if !ok {
		env.CacheSet("subject", env.Encode(contract.FormatBase64, "user:"+value(env, "subject")), 60)
		return header("X", "1"), nil
	}
	env.Exchange([]byte(marshal(contract.Exchange{URL: value(env, "url"), Headers: []abi.Pair{{Name: "Authorization", Value: "Basic " + subject}}})))
	return header("X", "1"), nil
}

// threats.md 96: the token keeps its bounds in the cache, and a redirect of a listed host is not followed.
func TestUserTokenStaysWithListedHosts(t *testing.T) {
	t.Run("from the cache", func(t *testing.T) {
		w := onBehalfWorld(t, sendsCachedSubject)
		connector := w.connect("custom", config{"url": "https://evil.test/", "subject": "{{ user.token }}"})
		subject := w.Secret("the user's token")
		_, _ = w.try(connector, w.as(subject)) // uses no credential, so it is not sent
		w.refuse(connector, w.as(subject), host.StageConfig, "user.token may not go to evil.test")
	})
	t.Run("a redirect", func(t *testing.T) {
		w := onBehalfWorld(t, cachedExchange)
		w.login.Answer(respond(http.StatusTemporaryRedirect, "", "Location", "https://evil.test/"))
		connector := w.connect("custom", config{"url": tokenURL, "subject": "{{ user.token }}"})
		w.refuse(connector, w.as(w.Secret("the user's token")), host.StageMutation)
		if w.login.Count() != 1 || w.api.Count() != 0 {
			t.Errorf("%d requests to the endpoint, %d to others", w.login.Count(), w.api.Count())
		}
	})
	t.Run("a host that is secret", func(t *testing.T) {
		w := onBehalfWorld(t, cachedExchange)
		name := w.Word("the host")
		w.setSecret("host", name+".test")
		connector := w.connect("custom", config{"url": "https://{{ get_secret('host') }}/", "subject": "{{ user.token }}"})
		w.refuse(connector, w.as(w.Secret("the user's token")), host.StageConfig, "user.token may not go to <sealed>")
	})
}

// threats.md 97: where user.token may stand is checked when the connector is loaded.
func TestUserTokenStandsInFieldsForTokenEndpoints(t *testing.T) {
	const may = "so it may stand in a sealed field of auth.config of kind string with the sink token"
	w := onBehalfWorld(t, cachedExchange)
	for name, c := range map[string]struct {
		config config
		want   string
	}{
		"a field with other sinks too":        {config{"subject": "{{ user.token }}"}, ""},
		"a field that never goes to a token":  {config{"header_only": "{{ user.token }}"}, "auth.config.header_only: names user.token, and its value goes elsewhere (header): "},
		"a field that is not sealed":          {config{"plain": "{{ user.token }}"}, "auth.config.plain: names user.token, and is not sealed: "},
		"a member of an object":               {config{"object": config{"a": []any{"{{ user.token }}"}}}, "auth.config.object: names user.token, and no object is sealed: "},
		"a URL":                               {config{"url": "https://login.test/{{ user.token }}"}, "auth.config.url: names user.token, and is not sealed: "},
		"a sealed URL":                        {config{"sealed_url": "https://login.test/{{ user.token }}"}, "auth.config.sealed_url: names user.token, and is of kind url: "},
		"a key":                               {config{"key": "{{ user.token }}"}, "auth.config.key: names user.token, and is not sealed: "},
		"a branch that is never evaluated":    {config{"plain": "{{ false ? user.token : 'a' }}"}, "auth.config.plain: names user.token, and is not sealed: "},
		"another way to write it":             {config{"plain": "{{ user['token'] }}"}, "auth.config.plain: names user.token, and is not sealed: "},
		"a field without a value of its kind": {config{"algorithm": "{{ user.token }}"}, "auth.config.algorithm: names user.token, and is not sealed: "},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.problems("custom", c.config)
			if c.want == "" {
				if got != nil {
					t.Errorf("got = %q", got)
				}
				return
			}
			if !slices.ContainsFunc(got, func(p string) bool { return strings.HasPrefix(p, c.want) && strings.HasSuffix(p, may) }) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	_, err := w.host.Template("https://api.test/{{ user.token }}")
	if wrong := (*host.ConfigError)(nil); !errors.As(err, &wrong) || !strings.HasSuffix(err.Error(), may) {
		t.Errorf("a template of an embedder: %v", err)
	}

	none := onBehalfWorld(t, cachedExchange, listed())
	want := "auth.config.subject: names user.token, which no host may get: the operator lists token endpoints in UserTokenHosts (gateway.user.jwt.token_hosts)"
	if got := none.problems("custom", config{"subject": "{{ user.token }}"}); !slices.Equal(got, []string{want}) {
		t.Errorf("without hosts: %q", got)
	}
	for _, bad := range []string{"", "https://login.test", "*.test", "login.test/token", "login.test:0", "login.test.", "login.test:", "login.test:0443", "[0::1]"} {
		_, err := host.New(t.Context(), host.Config{BuiltIns: []host.Plugin{}, UserTokenHosts: []string{bad}})
		testworld.WantError(t, bad, err, "UserTokenHosts: ")
	}
}

// threats.md 97: no plugin gets the user's token in plain, not even one that the operator trusts with secrets.
func TestUserTokenNeverRevealed(t *testing.T) {
	g := &guest{about: onBehalf, authenticate: func(env contract.Env) (string, error) {
		return header("Authorization", string(env.Reveal(value(env, "subject")))), nil
	}}
	w := newWorld(t, withoutBuiltIns, withGuest(g, abi.GrantReveal), listed("login.test"))
	w.refuse(w.connect("custom", config{"url": tokenURL, "subject": "{{ user.token }}"}), w.as(w.Secret("the user's token")), host.StagePlugin, "no plugin gets in plain")
}

// threats.md 97: a user's token is masked in an explanation, and wherever a User is printed.
func TestMaskedUserToken(t *testing.T) {
	w := onBehalfWorld(t, cachedExchange)
	subject := w.Secret("the user's token")
	connector := w.connect("custom", config{"url": tokenURL, "subject": "{{ user.token }}"})
	e := must(connector.Explain(w.as(subject)))(t)
	w.Out("the explanation", fmt.Sprintf("%+v %+v", e, e.Steps[0].Exchange))
	if got := e.Steps[0].Exchange.Body; got != "subject_token={{ user.token }}" {
		t.Errorf("the body is %s", got)
	}

	u := host.User{ID: "ann", Token: subject}
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		fmt.Fprintf(&out, verb+" "+verb+" "+verb, u, &u, []host.User{u})
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("line", "user", u)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("line", "user", u)
	out.WriteString(marshal(u))
	w.Out("what was printed", out.String())
	if !strings.Contains(out.String(), "ann") || !strings.Contains(out.String(), "<token>") {
		t.Errorf("out = %s", out.String())
	}
}

// threats.md 98: two users never share what was cached with their tokens, and neither do two sessions of one user.
func TestUserTokenCacheSeparation(t *testing.T) {
	w := onBehalfWorld(t, cachedExchange)
	w.login.Answer(func(r *http.Request) (*http.Response, error) {
		if err := r.ParseForm(); err != nil {
			return nil, err
		}
		return token("for-"+r.PostForm.Get("subject_token"), 3600)(r)
	})
	connector := w.connect("custom", config{"url": tokenURL, "subject": "{{ user.token }}"})
	ann, bob, again := w.Word("Ann's token"), w.Word("Bob's token"), w.Word("Ann's next token")
	for range 3 {
		for _, subject := range []string{ann, bob, again} {
			if got := w.send(connector, w.as(subject)).Header.Get("Authorization"); got != "Bearer for-"+subject {
				t.Errorf("the API got the token of somebody else")
			}
		}
	}
	if w.login.Count() != 3 {
		t.Errorf("%d exchanges, want one for each token", w.login.Count())
	}
	w.refuse(connector, get(t.Context()), host.StageTemplate, "user.token is missing")
}

// threats.md 98: nothing that was got with a user's token is used after that token has expired.
func TestNothingOutlivesTheUsersToken(t *testing.T) {
	w := onBehalfWorld(t, cachedExchange)
	w.login.Answer(tokens(24 * 60 * 60))
	connector := w.connect("custom", config{"url": tokenURL, "subject": "{{ user.token }}"})
	exchanges := func(want int, r *http.Request) {
		t.Helper()
		w.send(connector, r)
		if got := w.login.Count(); got != want {
			t.Errorf("%d exchanges so far, want %d", got, want)
		}
	}
	subject := w.Secret("the user's token")
	expires := w.Now().Add(time.Minute)
	exchanges(1, w.until(subject, expires))
	exchanges(1, w.until(subject, expires))
	w.Advance(59 * time.Second)
	exchanges(1, w.until(subject, expires))
	w.Advance(time.Second)
	w.refuse(connector, w.until(subject, expires), host.StageTemplate, "the token has expired")
	exchanges(2, w.until(subject, w.Now().Add(time.Minute))) // the issuer has extended it, and the entry is gone

	other := w.Secret("a token that says nothing of its time")
	exchanges(3, w.until(other, time.Time{}))
	exchanges(4, w.until(other, time.Time{}))
}

// threats.md 98: what the host keeps of the API's answers does not outlive the token either.
func TestKeptAnswersDoNotOutliveTheUsersToken(t *testing.T) {
	about := onBehalf
	about.Challenge = &abi.Challenge{Keep: 3600, Answers: []abi.Answer{
		{Name: "session", From: "cookie:S", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}, Keep: true},
	}}
	about.Anonymous = true
	g := &guest{about: about, authenticate: func(env contract.Env) (string, error) {
		value(env, "subject")
		if session := challengeOf(env).Answers["session"]; session != "" {
			return header("X-Session", session), nil
		}
		return marshal(contract.Mutation{}), nil
	}}
	w := newWorld(t, withoutBuiltIns, withGuest(g), listed("login.test"))
	w.api.Answer(respond(http.StatusOK, "", "Set-Cookie", "S=the-session-of-the-api"))
	connector := w.connect("custom", config{"subject": "{{ user.token }}"})
	subject := w.Secret("the user's token")
	expires := w.Now().Add(time.Minute)
	for _, want := range []string{"", "the-session-of-the-api"} {
		if got := w.send(connector, w.until(subject, expires)).Header.Get("X-Session"); got != want {
			t.Errorf("the API got %q, want %q", got, want)
		}
	}
	w.Advance(time.Minute)
	if got := w.send(connector, w.until(subject, expires.Add(time.Hour))).Header.Get("X-Session"); got != "" {
		t.Errorf("the API got %q of a session that has ended", got)
	}
}

// threats.md 96 and 98: a host that is no longer listed has no part in what the next host uses.
func TestTokensOfUnlistedHosts(t *testing.T) {
	next := generations(t)
	subject := ""
	for i, hosts := range [][]string{{"login.test"}, {"login.test"}, {"login.test", "other.test"}} {
		g := &guest{about: onBehalf, authenticate: cachedExchange}
		w := next(t, withoutBuiltIns, withGuest(g), listed(hosts...))
		if subject == "" {
			subject = w.Secret("the user's token")
		}
		w.Hide("the user's token", subject)
		w.send(w.connect("custom", config{"url": tokenURL, "subject": "{{ user.token }}"}), w.as(subject))
		if want := []int{1, 0, 1}[i]; w.login.Count() != want {
			t.Errorf("with %v, %d exchanges, want %d", hosts, w.login.Count(), want)
		}
	}
}

// A URL that may not get the user's token is a warning when the connector is loaded.
func TestUnlistedHostWarning(t *testing.T) {
	for name, c := range map[string]struct {
		config config
		want   int
	}{
		"a host that is not listed": {config{"url": "https://other.test/token", "subject": "{{ user.token }}"}, 1},
		"one that is listed":        {config{"url": tokenURL, "subject": "{{ user.token }}"}, 0},
		"without the user's token":  {config{"url": "https://other.test/token", "subject": "text"}, 0},
		"one that a variable names": {config{"url": "{{ get_variable('url') }}", "subject": "{{ user.token }}"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := onBehalfWorld(t, cachedExchange, func(c *host.Config) { c.Variables = map[string]string{"url": "https://other.test/token"} })
			w.connect("custom", c.config)
			if n := w.logged("auth.config.url: the operator does not list its host other.test"); n != c.want || w.logged("does not list") != n {
				t.Errorf("%d warnings, want %d:\n%s", n, c.want, w.log.String())
			}
		})
	}
}
