package host_test

import (
	"context"
	"errors"
	"fmt"
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

// The default of a sealed field is sealed like a configured value, and may go only to the field's sinks.
func TestDefaultOfASealedField(t *testing.T) {
	field := sealedField("to_header", contract.SinkHeader)
	field.Default = "anonymous-access"
	sealed := ""
	g := &guest{about: abi.Description{Fields: []abi.Field{field}}, authenticate: func(env contract.Env) (string, error) {
		sealed = value(env, "to_header")
		return header("X-Key", sealed), nil
	}}
	w := newWorld(t, withoutBuiltIns, withGuest(g))
	if got := w.get(w.connect("custom", nil)).Header.Get("X-Key"); got != field.Default || !strings.HasPrefix(sealed, contract.SealedPrefix) {
		t.Errorf("the plugin sees %q, and the API %q", sealed, got)
	}
}

// Invalid output, floods, and texts for logs: threats.md 8, 10, 20, 21 and 26.

// set returns a guest that sets one header to its secret, with texts before and after it.
func set(name, before, after string) func(contract.Env) (string, error) {
	return func(env contract.Env) (string, error) { return header(name, before+value(env, "to_header")+after), nil }
}

func TestDecision_Requests_the_plugin_fails_with_nonsense_threats_8(t *testing.T) {
	pairs := func(n int) func(contract.Env) (string, error) {
		return func(env contract.Env) (string, error) {
			m := contract.Mutation{Headers: []abi.Pair{{Name: "X-Key", Value: value(env, "to_header")}}}
			for i := range n - 1 {
				m.Query = append(m.Query, abi.Pair{Name: fmt.Sprint("q", i), Value: "v"})
			}
			return marshal(m), nil
		}
	}
	refuseAll(t, []misuse{
		{"empty", fixedOutput(""), host.StageMutation, "not well-formed"},
		{"no JSON", fixedOutput("<html>"), host.StageMutation, "not well-formed"},
		{"cut off", fixedOutput(`{"headers":[{"name":"X-Key","value"`), host.StageMutation, "not well-formed"},
		{"two documents", fixedOutput(`{}{}`), host.StageMutation, "not well-formed"},
		{"not UTF-8", fixedOutput("{\"headers\":[{\"name\":\"X\",\"value\":\"\xff\"}]}"), host.StageMutation, "not well-formed"},
		{"a list", fixedOutput(`[]`), host.StageMutation, "wrong type"},
		{"an unknown member", fixedOutput(`{"header":[]}`), host.StageMutation, "unknown member"},
		{"a member in another case", fixedOutput(`{"Headers":[]}`), host.StageMutation, "unknown member"},
		{"a member twice", fixedOutput(`{"headers":[],"headers":[]}`), host.StageMutation, "two members"},
		{"a value of another type", fixedOutput(`{"headers":[{"name":"X-Key","value":1}]}`), host.StageMutation, "wrong type"},
		{"too many", pairs(65), host.StageMutation, "over the limit of 64"},
		{"its own error", func(contract.Env) (string, error) { return "", errors.New("no luck") }, host.StagePlugin, "no luck"},
		{"an error without a message", func(contract.Env) (string, error) { return "", errors.New("") }, host.StagePlugin, "without a message"},
		{"an error that is not UTF-8", func(contract.Env) (string, error) { return "", errors.New("\xff") }, host.StagePlugin, "dropped"},
		{"a query parameter without a name", func(env contract.Env) (string, error) { return query(" ", value(env, "to_query")), nil }, host.StageMutation, "without a name"},
	})
	w := misusedWorld(t, pairs(64))
	w.get(w.connect("custom", misused))
}

func TestRefusedDescriptions_threats_8(t *testing.T) {
	plain := func(kind string) abi.Field { return abi.Field{Name: "f", Kind: kind} }
	answer := func(change func(*abi.Answer)) *guest {
		a := abi.Answer{Name: "a", From: "json:/a", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}}
		change(&a)
		return &guest{about: abi.Description{Answers: []abi.Answer{a}}}
	}
	challenge := func(change func(*abi.Challenge)) *guest {
		c := abi.Challenge{Statuses: []int{401}, Keep: 60, Answers: []abi.Answer{{Name: "a", From: "json:/a", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}, Keep: true}}}
		change(&c)
		return &guest{about: abi.Description{Challenge: &c}}
	}
	enumOf := func(length int) *guest {
		return answer(func(a *abi.Answer) {
			a.Kind, a.Sinks, a.Enum = contract.AnswerEnum, nil, []string{strings.Repeat("x", length)}
		})
	}
	many := slices.Repeat([]abi.Answer{{}}, contract.MaxAnswers+1)
	for i := range many {
		many[i] = abi.Answer{Name: fmt.Sprint("a", i), From: "json:/a", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}}
	}
	numbers := slices.Clone(many[:contract.MaxPlainAnswers+1])
	for i := range numbers {
		numbers[i].Kind, numbers[i].Sinks = contract.AnswerInteger, nil
	}
	for name, g := range map[string]*guest{
		"no JSON":                  {output: "x"},
		"an unknown member":        {output: `{"abi":1,"type":"custom","version":"1","summary":"s","more":1}`},
		"another version":          {output: `{"abi":2,"type":"custom","version":"1","summary":"s"}`},
		"a type that is taken":     {about: abi.Description{Type: "api_key"}},
		"a type that is an alias":  {about: abi.Description{Type: "apikey"}},
		"an alias that is taken":   {about: abi.Description{Aliases: []string{"none"}}},
		"a type that is no name":   {about: abi.Description{Type: "A b"}},
		"an unknown group":         {about: abi.Description{Uses: []string{"files"}}},
		"an unknown kind":          {about: abi.Description{Fields: []abi.Field{plain("secret")}}},
		"an unknown sink":          {about: abi.Description{Fields: []abi.Field{sealedField("f", "log")}}},
		"a field twice":            {about: abi.Description{Fields: []abi.Field{plain(abi.KindURL), plain(abi.KindURL)}}},
		"a field that is no name":  {about: abi.Description{Fields: []abi.Field{{Name: "a.b", Kind: abi.KindString}}}},
		"too many fields":          {about: abi.Description{Fields: slices.Repeat([]abi.Field{{}}, contract.MaxFields+1)}},
		"a key without algorithms": {about: abi.Description{Fields: []abi.Field{plain(abi.KindKey)}}},
		"a key of no field":        {about: abi.Description{Fields: []abi.Field{{Name: "f", Kind: abi.KindKey, AlgorithmField: "b"}, {Name: "a", Kind: abi.KindString, Enum: []string{"ES256"}}}}},
		"a key of a free text":     {about: abi.Description{Fields: []abi.Field{{Name: "f", Kind: abi.KindKey, AlgorithmField: "a"}, {Name: "a", Kind: abi.KindString}}}},
		"a sealed object":          {about: abi.Description{Fields: []abi.Field{{Name: "f", Kind: abi.KindObject, Sealed: true, Sinks: []string{contract.SinkHeader}}}}},
		"a default of an object":   {about: abi.Description{Fields: []abi.Field{{Name: "f", Kind: abi.KindObject, Default: "{}"}}}},
		"a default that is unused": {about: abi.Description{Fields: []abi.Field{{Name: "f", Kind: abi.KindString, Required: true, Default: "x"}}}},
		"an unknown derived sink":  {about: abi.Description{Fields: []abi.Field{{Name: "f", Kind: abi.KindString, Derived: []string{"log"}}}}},
		"purposes of no key":       {about: abi.Description{Fields: []abi.Field{{Name: "f", Kind: abi.KindString, Purposes: []string{contract.PurposeJWT}}}}},
		"a generated string":       {about: abi.Description{Fields: []abi.Field{{Name: "f", Kind: abi.KindString, Generate: true}}}},
		"an unknown purpose":       {about: abi.Description{Fields: []abi.Field{{Name: "f", Kind: abi.KindKey, AlgorithmField: "a", Purposes: []string{"x"}}, {Name: "a", Kind: abi.KindString, Enum: []string{"ES256"}}}}},
		"a required generated key": {about: abi.Description{Fields: []abi.Field{{Name: "f", Kind: abi.KindKey, AlgorithmField: "a", Generate: true, Required: true}, {Name: "a", Kind: abi.KindString, Enum: []string{"ES256"}}}}},

		"an answer without a name":        answer(func(a *abi.Answer) { a.Name = "" }),
		"an answer without a place":       answer(func(a *abi.Answer) { a.From = "" }),
		"an answer with two places":       answer(func(a *abi.Answer) { a.FromField = "f" }),
		"an answer of no field":           answer(func(a *abi.Answer) { a.From, a.FromField = "", "f" }),
		"an answer of an unknown place":   answer(func(a *abi.Answer) { a.From = "body:" }),
		"an answer of no pointer":         answer(func(a *abi.Answer) { a.From = "json:a" }),
		"an answer of a wrong pointer":    answer(func(a *abi.Answer) { a.From = "json:/~2" }),
		"an answer of no header":          answer(func(a *abi.Answer) { a.From = "header:a b" }),
		"an answer of Set-Cookie":         answer(func(a *abi.Answer) { a.From = "header:set-cookie" }),
		"an answer of no parameter":       answer(func(a *abi.Answer) { a.From = "auth:Digest" }),
		"an answer of an unknown kind":    answer(func(a *abi.Answer) { a.Kind = "text" }),
		"a sealed answer without sinks":   answer(func(a *abi.Answer) { a.Sinks = nil }),
		"an integer with sinks":           answer(func(a *abi.Answer) { a.Kind = contract.AnswerInteger }),
		"an enum without names":           answer(func(a *abi.Answer) { a.Kind, a.Sinks = contract.AnswerEnum, nil }),
		"an enum with a long name":        enumOf(65),
		"an enum with an empty name":      enumOf(0),
		"names of no enum":                answer(func(a *abi.Answer) { a.Enum = []string{"x"} }),
		"a kept answer of an exchange":    answer(func(a *abi.Answer) { a.Keep = true }),
		"too many answers":                {about: abi.Description{Answers: many}},
		"too many plain answers":          {about: abi.Description{Answers: numbers}},
		"two answers of one name":         {about: abi.Description{Answers: slices.Repeat(many[:1], 2)}},
		"a challenge after 200":           challenge(func(c *abi.Challenge) { c.Statuses = []int{200} }),
		"a challenge after 429":           challenge(func(c *abi.Challenge) { c.Statuses = []int{429} }),
		"a challenge after 500":           challenge(func(c *abi.Challenge) { c.Statuses = []int{500} }),
		"a challenge after too many":      challenge(func(c *abi.Challenge) { c.Statuses = slices.Repeat([]int{401}, contract.MaxAnswers+1) }),
		"answers are kept for no time":    challenge(func(c *abi.Challenge) { c.Keep = 0 }),
		"answers are kept for ever":       challenge(func(c *abi.Challenge) { c.Keep = 1 << 40 }),
		"no answer is kept for a time":    challenge(func(c *abi.Challenge) { c.Answers[0].Keep = false }),
		"a required answer of the API":    challenge(func(c *abi.Challenge) { c.Answers[0].Required = true }),
		"an answer of the API by a field": challenge(func(c *abi.Challenge) { c.Answers[0].FromField = "f" }),
		"a key with another sink":         {about: abi.Description{Fields: []abi.Field{{Name: "f", Kind: abi.KindKey, Sinks: []string{contract.SinkHeader}}}}},
	} {
		config := host.Config{Plugins: []host.Plugin{g.plugin()}}
		if !strings.Contains(name, "taken") && !strings.Contains(name, "alias") {
			withoutBuiltIns(&config) // they take time to compile
		}
		_, err := host.New(t.Context(), config)
		testworld.WantError(t, name, err, `plugin "guest"`)
	}
	longest := host.Config{Plugins: []host.Plugin{enumOf(64).plugin()}}
	withoutBuiltIns(&longest)
	if _, err := host.New(t.Context(), longest); err != nil {
		t.Errorf("an enum with the longest name: %v", err)
	}
	if _, err := host.New(t.Context(), host.Config{Plugins: []host.Plugin{(&guest{}).plugin("root")}}); err == nil {
		t.Error("an unknown grant is accepted")
	}
	ask := func(env contract.Env) error { env.TimeNow(); return nil }
	w := newWorld(t, withGuest(&guest{validate: ask}))
	if got := w.problems("custom", nil); len(got) != 1 || !strings.Contains(got[0], "time_now") {
		t.Errorf("validate that asks for more than literals results in %q", got)
	}
}

// threats.md 12.
func TestPluginFileSwapped_threats_12(t *testing.T) {
	_, err := host.New(t.Context(), host.Config{Plugins: []host.Plugin{{Name: "acme.wasm", Wasm: []byte("\x00asm"), SHA256: strings.Repeat("0", 64)}}})
	testworld.WantError(t, "", err, "is pinned")
}

func TestQuotas_threats_10(t *testing.T) {
	again := func(n int, do func(contract.Env)) func(contract.Env) (string, error) {
		return sendsKeyAfter(func(env contract.Env) {
			for range n {
				do(env)
			}
		})
	}
	logs := func(env contract.Env) { env.Log(contract.LevelDebug, "x") }
	asks := func(env contract.Env) {
		env.TokenRequest([]byte(marshal(contract.TokenRequest{URL: value(env, "url")})))
	}
	stores := func(env contract.Env) { env.CacheSet("k", "v", 60) }
	for _, c := range []struct {
		name      string
		do        func(contract.Env) (string, error)
		words     string // "" means success
		exchanges int
		lines     int
	}{
		{"100 log lines", again(100, logs), "", 0, 100},
		{"101 log lines", again(101, logs), "more than 100 log lines", 0, 100},
		{"4 token requests", again(4, asks), "", 4, 0},
		{"5 token requests", again(5, asks), "more than 4 token requests", 4, 0},
		{"64 KiB in the cache", again(1, func(env contract.Env) { env.CacheSet("k", strings.Repeat("x", 64<<10), 60) }), "", 0, 0},
		{"64 KiB and more in the cache", again(1, func(env contract.Env) { env.CacheSet("k", strings.Repeat("x", 64<<10+1), 60) }), "more than 65536 bytes", 0, 0},
		{"the longest cache key", again(1, func(env contract.Env) { env.CacheGet(strings.Repeat("k", 256)) }), "", 0, 0},
		{"a long cache key", again(1, func(env contract.Env) { env.CacheGet(strings.Repeat("k", 257)) }), "1 to 256 bytes", 0, 0},
		{"no cache key", again(1, func(env contract.Env) { env.CacheGet("") }), "1 to 256 bytes", 0, 0},
		{"many values", again(900, stores), "", 0, 0},
		{"much that is sealed", again(1000, func(env contract.Env) {
			env.Encode(contract.FormatHex, strings.Repeat(value(env, "to_header"), 1000))
		}), "too long", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, connector := misuser(t, c.do)
			if c.words == "" {
				w.get(connector)
			} else {
				w.refuse(connector, get(t.Context()), host.StagePlugin, c.words)
			}
			if got := w.calls[0].Exchanges; got != c.exchanges {
				t.Errorf("Observe was called with %d exchanges, want %d", got, c.exchanges)
			}
			if w.login.Count() != c.exchanges || w.logged("level=DEBUG msg=x") != c.lines {
				t.Errorf("%d exchanges and %d lines, want %d and %d", w.login.Count(), w.logged("level=DEBUG msg=x"), c.exchanges, c.lines)
			}
		})
	}
}

// specification.md "entries of a partition": a partition has 16 entries, so one connector cannot evict another one's.
func TestCacheEntriesOfOnePartition_threats_10(t *testing.T) {
	n := 0
	w := newWorld(t, withGuest(misusing(sendsKeyAfter(func(env contract.Env) {
		n++
		for i := range 100 {
			env.CacheSet(fmt.Sprint("k", n, i), "v", 60)
		}
	}))))
	w.canary("k")
	w.canary("text")
	w.login.Answer(tokens(3600))
	victim := w.connectAs("victim", "oauth_client_credentials", oauth("{{ get_secret('s') }}"))
	w.get(victim)
	flood := w.connect("custom", misused)
	for range 200 { // 20,000 entries, twice the host's limit
		w.get(flood)
	}
	if got := w.get(victim).Header.Get("Authorization"); got != "Bearer t1" {
		t.Errorf("the other connector's token was pushed out: %q", got)
	}
}

func TestHeadersOfAPlugin_threats_26(t *testing.T) {
	var cases []misuse
	for _, bad := range []string{"\r", "\n", "\x00", "\x7f", "\r\nX-Evil: 1"} {
		cases = append(cases,
			misuse{fmt.Sprintf("%q in a value", bad), set("X-Key", "a"+bad, ""), host.StageMutation, "control character"},
			misuse{fmt.Sprintf("%q in a name", bad), set("X-Key"+bad, "", ""), host.StageMutation, "not the name of a header"})
	}
	for _, name := range []string{"Host", "content-length", "Transfer-Encoding", "Connection", "TE", "Trailer", "Upgrade", "Keep-Alive", "Proxy-Authorization", ""} {
		cases = append(cases, misuse{"header " + name, set(name, "", ""), host.StageMutation, ""})
	}
	refuseAll(t, cases)
	for _, name := range []string{"Host", "X\r\nY", "Content-Type"} { // headers of a token request
		w := misusedWorld(t, func(env contract.Env) (string, error) {
			env.TokenRequest([]byte(marshal(contract.TokenRequest{URL: value(env, "url"), Headers: []abi.Pair{{Name: name, Value: value(env, "to_token")}}})))
			return set("X-Key", "", "")(env)
		})
		if _, err := w.try(w.connect("custom", misused), get(t.Context())); err == nil || w.login.Count() != 0 {
			t.Errorf("header %q in a token request: %v", name, err)
		}
	}
}

// threats.md 26: a plugin's own Accept and User-Agent are sent unchanged with a token request. Without them, the host's
// are sent, once each.
func TestHeadersOfATokenRequest_threats_26(t *testing.T) {
	for own, want := range map[string][2]string{
		"":           {"application/json", "keywright"},
		"Accept":     {"own value", "keywright"},
		"user-agent": {"application/json", "own value"},
	} {
		w := misusedWorld(t, sendsKeyAfter(func(env contract.Env) {
			r := contract.TokenRequest{URL: value(env, "url"), Headers: []abi.Pair{{Name: "X-Own", Value: "too"}}}
			if own != "" {
				r.Headers = append(r.Headers, abi.Pair{Name: own, Value: "own value"})
			}
			env.TokenRequest([]byte(marshal(r)))
		}))
		w.get(w.connect("custom", misused))
		got := w.login.Last().Header
		if accept, agent := got.Values("Accept"), got.Values("User-Agent"); len(accept) != 1 || len(agent) != 1 || accept[0] != want[0] || agent[0] != want[1] || got.Get("X-Own") != "too" {
			t.Errorf("with %q of its own: %v", own, got)
		}
	}
}

// A token endpoint receives the form as the plugin set it, encoded, and nothing else in the body.
func TestFormOfATokenRequest(t *testing.T) {
	w := misusedWorld(t, func(env contract.Env) (string, error) {
		return tokenRequest(env, tokenURL, abi.Pair{Name: "a b", Value: "1&2"}, abi.Pair{Name: "s", Value: value(env, "to_token")})
	})
	w.setSecret("s", "x/y")
	w.get(w.connect("custom", misused))
	if got := w.login.Last().Body; got != "a+b=1%262&s=x%2Fy" {
		t.Errorf("the body is %s", got)
	}
}

// Errors and logs have no text of the endpoint's answer, even if it echoes the secret.
func TestTokenEndpointEchoesTheSecret_threats_20(t *testing.T) {
	for _, code := range []int{200, 400, 401, 500} {
		w := newWorld(t)
		w.login.Answer(func(r *http.Request) (*http.Response, error) {
			_ = r.ParseForm()
			return respond(code, marshal(map[string]string{"error": r.Form.Get("client_secret"), "error_description": r.Form.Encode()}))(r)
		})
		w.refuse(w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}")), get(t.Context()), host.StageToken)
		w.Advance(time.Second) // so that an endpoint that refused is asked again
		w.login.Answer(func(r *http.Request) (*http.Response, error) {
			_ = r.ParseForm()
			return nil, fmt.Errorf("malformed HTTP response %q", r.Form.Encode()+r.Form.Get("client_secret"))
		})
		w.refuse(w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}")), get(t.Context()), host.StageToken, "cannot be reached")
	}
}

func TestControlCharactersInLogsAndErrors_threats_21(t *testing.T) {
	const evil = "a\r\nlevel=ERROR msg=forged\x1b[2J\u202eb\u2028c\x00"
	w := misusedWorld(t, func(env contract.Env) (string, error) {
		env.Log(contract.LevelError, evil)
		env.Log(contract.LevelInfo, strings.Repeat("x", 100_000))
		return "", errors.New(evil)
	})
	err := w.refuse(w.connectAs("crm", "custom", misused), get(t.Context()), host.StagePlugin, `a\r\nlevel`)
	if strings.ContainsAny(err.Error(), "\r\n\x1b\x00\u202e\u2028") {
		t.Errorf("the error is %q", err)
	}
	log := w.log.String()
	if n := strings.Count(log, "\n"); n != 4 || strings.ContainsAny(log, "\r\x1b\x00\u202e\u2028") || len(log) > 20_000 {
		t.Errorf("%d lines of log, %d bytes: %q", n, len(log), log)
	}
}

// The lines of a plugin have the levels of package slog. A trace is four below a debug line.
func TestLevelsOfLogLines(t *testing.T) {
	w := misusedWorld(t, func(env contract.Env) (string, error) {
		for level := contract.LevelTrace; level <= contract.LevelError; level++ {
			env.Log(level, fmt.Sprint("level ", level))
		}
		return "", errors.New("the end")
	})
	w.refuse(w.connect("custom", misused), get(t.Context()), host.StagePlugin, "the end")
	for level, want := range []string{"DEBUG-4", "DEBUG", "INFO", "WARN", "ERROR"} {
		if line := fmt.Sprintf("level=%s msg=\"level %d\"", want, level); w.logged(line) != 1 {
			t.Errorf("there is no line with %s:\n%s", line, w.log.String())
		}
	}
}

// A request whose context is already cancelled fails with the context's error, and is not sent.
func TestCancelledBeforeItBegins(t *testing.T) {
	w := newWorld(t)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, err := w.try(w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}")), get(ctx)); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if w.api.Count() != 0 {
		t.Error("the request was sent")
	}
}

// A description may have as many fields and answers as the contract says, and as many of these plain. Its challenge may have as
// many statuses as answers, and keep an answer for a day. Names may have 64 bytes, and an enum as many as the contract says.
func TestAsManyAnswersAsThereMayBe(t *testing.T) {
	list := make([]abi.Answer, contract.MaxAnswers)
	for i := range list {
		list[i] = abi.Answer{Name: fmt.Sprint("a", i), From: fmt.Sprint("json:/", i), Kind: contract.AnswerInteger}
		if i >= contract.MaxPlainAnswers {
			list[i].Kind, list[i].Sinks = contract.AnswerSealed, []string{contract.SinkHeader}
		}
	}
	challenge := &abi.Challenge{Keep: 24 * 60 * 60, Answers: []abi.Answer{{Name: "a", From: "json:/a", Kind: contract.AnswerEnum, Keep: true}}}
	for status := 409; len(challenge.Statuses) < contract.MaxAnswers; status++ {
		challenge.Statuses = append(challenge.Statuses, status)
	}
	for i := range contract.MaxEnum {
		challenge.Answers[0].Enum = append(challenge.Answers[0].Enum, fmt.Sprintf("%064d", i))
	}
	fields := make([]abi.Field, contract.MaxFields)
	for i := range fields {
		fields[i] = abi.Field{Name: fmt.Sprintf("f%063d", i), Aliases: []string{fmt.Sprintf("a%063d", i)}, Kind: abi.KindString, Escape: `\!~`}
	}
	newWorld(t, withoutBuiltIns, withGuest(&guest{about: abi.Description{Fields: fields, Answers: list, Challenge: challenge}})) // fails if the description is refused
}

func TestDecision_JWT_warnings_at_most_32_texts(t *testing.T) {
	n := 0
	g := &guest{authenticate: func(env contract.Env) (string, error) {
		env.Log(contract.LevelWarn, fmt.Sprintf("warning %d", n/2))
		n++
		return header("X-Key", value(env, "s")), nil
	}}
	g.about.Fields = append(g.about.Fields, sealedField("s", "header"))
	w := newWorld(t, withGuest(g))
	c := w.connect("custom", config{"s": "v"})
	for range 100 {
		w.get(c)
	}
	if got := w.logged("warning"); got != 32 {
		t.Errorf("%d lines, want 32", got)
	}
	w.get(w.connectAs("other", "custom", config{"s": "v"}))
	if got := w.logged("warning"); got != 33 {
		t.Errorf("%d lines, want one of another connector", got)
	}
}
