package host_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// threats.md 343: what a plugin gets plain of an answer holds no credential, in digits or in any spelling of a number or a time. Short
// numbers, such as a lifetime, are read as ever.
func TestPlainAnswersHoldNoCredential(t *testing.T) {
	const number, long, word = "2147483600", "48151623421", "a-word-that-is-secret"
	for name, c := range map[string]struct {
		kind, secret, body string
		ends               bool
	}{
		"an integer":                 {contract.AnswerInteger, number, `{"n":2147483600}`, true},
		"a text":                     {contract.AnswerInteger, number, `{"n":"2147483600"}`, true},
		"an exponent":                {contract.AnswerInteger, number, `{"n":21474836e2}`, true},
		"a fraction":                 {contract.AnswerInteger, number, `{"n":"2147483600.5"}`, true},
		"a time":                     {contract.AnswerTime, long, `{"n":48151623421}`, true},
		"a time in milliseconds":     {contract.AnswerTime, long + "123", `{"n":48151623421123}`, true},
		"milliseconds of a secret":   {contract.AnswerTime, long, `{"n":48151623421000}`, true},
		"a date":                     {contract.AnswerTime, "2000000000", `{"n":"2033-05-18T03:33:20Z"}`, true},
		"a part of a secret":         {contract.AnswerTime, long, `{"n":48151623}`, true},
		"a text around a number":     {contract.AnswerTime, word, `{"n":13579246805}`, true},
		"a text that was sent":       {contract.AnswerEnum, word, `{"n":"x, Sent-As-A-Guess"}`, true},
		"a text around one":          {contract.AnswerEnum, word, `{"n":"x:sent-as-a-guess-y"}`, true},
		"an enum":                    {contract.AnswerEnum, word, `{"n":"` + word + `"}`, true},
		"an item of an enum":         {contract.AnswerEnum, word, `{"n":"x, ` + word + `"}`, true},
		"a secret in Base64":         {contract.AnswerEnum, word, `{"n":"YS13b3JkLXRoYXQtaXMtc2VjcmV0"}`, true},
		"digits of the token":        {contract.AnswerTime, word, `{"n":98765432101,"access_token":"98765432101"}`, true},
		"a number of the request":    {contract.AnswerInteger, word, `{"n":1357924680}`, true},
		"a lifetime":                 {contract.AnswerInteger, number, `{"n":3600}`, false},
		"a time of day":              {contract.AnswerTime, long, `{"n":1700000000}`, false},
		"a part that is short":       {contract.AnswerInteger, number, `{"n":2147483}`, false},
		"a name":                     {contract.AnswerEnum, word, `{"n":"urn:a-type-of-token"}`, false},
		"a name that was sent":       {contract.AnswerEnum, word, `{"n":"sent-as-it-is"}`, false},
		"a secret that is too short": {contract.AnswerInteger, "2147483", `{"n":2147483}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			g := misusing(func(env contract.Env) (string, error) {
				var reply contract.ExchangeReply
				form := []abi.Pair{{Name: "a", Value: value(env, "to_token")}, {Name: "b", Value: "1357924680"}, {Name: "c", Value: "sent-as-it-is"}, {Name: "d", Value: "sent-as-a-guess"}}
				err := json.Unmarshal(env.Exchange([]byte(marshal(contract.Exchange{URL: value(env, "url"), Form: form}))), &reply)
				got = reply.Answers["n"]
				return header("X-Key", value(env, "to_header")), err
			})
			g.about.Answers = []abi.Answer{
				{Name: "access_token", From: "json:/access_token", Kind: contract.AnswerSealed, Sinks: []string{abi.SinkHeader}},
				{Name: "n", From: "json:/n", Kind: c.kind},
			}
			if c.kind == contract.AnswerEnum {
				g.about.Answers[1].Enum = []string{word, "urn:a-type-of-token", "sent-as-it-is", "YS13b3JkLXRoYXQtaXMtc2VjcmV0"}
			}
			w := newWorld(t, withoutBuiltIns, withGuest(g))
			w.setSecret("s", c.secret)
			w.setSecret("k", "k")
			w.setSecret("text", "t")
			w.login.Answer(respond(http.StatusOK, c.body))
			connector := w.connect("custom", misused)
			if !c.ends {
				if w.get(connector); got == "" {
					t.Error("the answer is missing")
				}
				return
			}
			w.refuse(connector, get(t.Context()), host.StageToken, "repeats in n a text of its request, or a sealed answer")
			if got != "" {
				t.Errorf("the plugin got %s", got)
			}
		})
	}
}

// A lifetime that holds the token or the secret is not read either.
func TestALifetimeHoldsNoCredential(t *testing.T) {
	for name, body := range map[string]string{
		"the token":  `{"access_token":"1234567890","expires_in":1234567890}`,
		"the secret": `{"access_token":"t","expires_in":2147483600}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.setSecret("s", "2147483600")
			w.login.Answer(respond(http.StatusOK, body))
			w.refuse(w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}")), get(t.Context()), host.StageToken, "repeats in expires_in")
		})
	}
}

// threats.md 343: a place of an answer is sealed or plain, and not both, whether the description or the configuration names it.
func TestAnswerPlaceSealedAndPlain(t *testing.T) {
	sealed := func(from string) abi.Answer {
		return abi.Answer{Name: "a", From: from, Kind: contract.AnswerSealed, Sinks: []string{abi.SinkHeader}}
	}
	for from, other := range map[string]string{
		"json:/access_token": "json:/access_token", "header:X-Token": "header:x-token", "auth:Digest/nonce": "auth:digest/NONCE", "info:a": "info:A", "cookie:a": "cookie:a", "form:a": "form:a",
	} {
		g := &guest{about: abi.Description{Uses: contract.Groups, Answers: []abi.Answer{sealed(from), {Name: "b", From: other, Kind: contract.AnswerTime}}}}
		if _, err := host.New(t.Context(), host.Config{BuiltIns: []host.Plugin{}, Plugins: []host.Plugin{g.plugin()}}); err == nil || !strings.Contains(err.Error(), "a and b are one place of an answer, sealed here and plain there") {
			t.Errorf("%s and %s: %v", from, other, err)
		}
	}
	g := misusing(nil)
	g.about.Fields = []abi.Field{{Name: "place", Kind: abi.KindString}}
	g.about.Answers = []abi.Answer{sealed("json:/access_token"), {Name: "b", FromField: "place", Kind: contract.AnswerTime}}
	w := newWorld(t, withoutBuiltIns, withGuest(g))
	if got := w.problems("custom", config{"place": "json:/access_token"}); len(got) != 1 || !strings.Contains(got[0], "sealed here and plain there") {
		t.Errorf("the problems are %q", got)
	}
	if got := w.problems("custom", config{"place": "json:/expires_at"}); len(got) != 0 {
		t.Errorf("the problems are %q", got)
	}
}

// echoed is a plugin that reads all that an API may repeat, or one part of that, and writes down what it sees.
func echoed(part string, mode *func(env contract.Env) contract.Mutation, seen *[]string) *guest {
	about := challenged
	about.Challenge = &abi.Challenge{Statuses: []int{401}, Keep: 300, Answers: slices.DeleteFunc([]abi.Answer{
		{Name: "nonce", From: "header:X-Nonce", Kind: contract.AnswerSealed, Sinks: []string{abi.SinkHeader}, Keep: true},
		{Name: "mode", From: "header:X-Echo", Kind: contract.AnswerEnum, Enum: []string{"4815162342"}, Keep: true},
		{Name: "number", From: "header:X-Echo", Kind: contract.AnswerTime},
	}, func(a abi.Answer) bool { return part != "all" && part != a.Name })}
	return &guest{about: about, authenticate: func(env contract.Env) (string, error) {
		c := challengeOf(env)
		line := fmt.Sprintf("status %d, count %d, %v", c.Status, c.Count, slices.Sorted(maps.Keys(c.Answers)))
		*seen = append(*seen, line)
		return marshal((*mode)(env)), nil
	}}
}

// threats.md 343 and 344: a plugin has an API repeat a secret and its own guesses, in any order and place. What it sees, of this answer
// and in later calls, does not depend on whether a guess is right, nor does what is sent and logged.
func TestEchoedGuessOracle(t *testing.T) {
	const secret = "4815162342"
	by := func(pairs func(ref, guess string) []abi.Pair) func(string) func(contract.Env) contract.Mutation {
		return func(guess string) func(contract.Env) contract.Mutation {
			return func(env contract.Env) contract.Mutation {
				return contract.Mutation{Headers: pairs(value(env, "key"), guess)}
			}
		}
	}
	step := map[string]func(string) func(contract.Env) contract.Mutation{
		"secret": by(func(ref, _ string) []abi.Pair { return []abi.Pair{{Name: "X-Send", Value: ref}} }),
		"guess":  by(func(_, g string) []abi.Pair { return []abi.Pair{{Name: "X-Send", Value: g}} }),
		"both": by(func(ref, g string) []abi.Pair {
			return []abi.Pair{{Name: "X-Send", Value: g}, {Name: "X-Key", Value: ref}}
		}),
		"both, secret": by(func(ref, g string) []abi.Pair {
			return []abi.Pair{{Name: "X-Send", Value: ref}, {Name: "X-Key", Value: g}}
		}),
		"with more text": by(func(ref, g string) []abi.Pair {
			return []abi.Pair{{Name: "X-Send", Value: "id=" + g}, {Name: "X-Key", Value: ref}}
		}),
		"cut by the API": by(func(ref, g string) []abi.Pair {
			return []abi.Pair{{Name: "X-Send", Value: g + "/rest of it"}, {Name: "X-Key", Value: ref}}
		}),
		"in Base64": by(func(ref, g string) []abi.Pair {
			return []abi.Pair{{Name: "X-Send", Value: "NDgxNTE2MjM0" + map[bool]string{true: "Mg==", false: "Mw=="}[g == secret]}, {Name: "X-Key", Value: ref}}
		}),
		"with text around it": by(func(ref, g string) []abi.Pair {
			return []abi.Pair{{Name: "X-Send", Value: "id=" + g}, {Name: "X-Key", Value: ref}, {Name: "X-Around", Value: "1"}}
		}),
		"secret, with text around it": by(func(ref, g string) []abi.Pair {
			return []abi.Pair{{Name: "X-Send", Value: ref}, {Name: "X-Key", Value: g}, {Name: "X-Around", Value: "1"}}
		}),
		"something else":  by(func(string, string) []abi.Pair { return []abi.Pair{{Name: "X-Around", Value: "1"}} }),
		"a query instead": by(func(ref, _ string) []abi.Pair { return []abi.Pair{{Name: "X-Key", Value: ref}} }),
		"neither":         by(func(string, string) []abi.Pair { return []abi.Pair{{Name: "X-Other", Value: "x"}} }),
	}
	run := func(t *testing.T, part string, status int, steps []string, guess string) []string {
		var seen []string
		var mode func(contract.Env) contract.Mutation
		w := newWorld(t, withoutBuiltIns, withGuest(echoed(part, &mode, &seen)))
		w.setSecret("key", secret)
		w.api.Answer(func(r *http.Request) (*http.Response, error) {
			response := testworld.Response(status, "")
			sent, _, _ := strings.Cut(r.Header.Get("X-Send"), "/")
			if r.Header.Get("X-Around") != "" {
				sent = "00" + sent + "000"
			}
			if sent != "" {
				response.Header.Set("X-Echo", sent)
				response.Header.Set("X-Nonce", sent)
			}
			return response, nil
		})
		connector := w.connect("custom", config{"key": "{{ get_secret('key') }}", "url": tokenURL})
		for _, name := range steps {
			mode = step[name](guess)
			answered, err := w.try(connector, get(t.Context()))
			seen = append(seen, fmt.Sprintf("after %s: %d, %v, %d requests", name, answered, err, w.api.Count()))
		}
		return append(seen, fmt.Sprintf("%d lines", strings.Count(w.log.String(), "\n")))
	}
	names := slices.Sorted(maps.Keys(step))
	for _, part := range []string{"all", "nonce", "mode"} {
		for _, status := range []int{200, 401} {
			for i := range len(names) * len(names) {
				first, second := names[i/len(names)], names[i%len(names)]
				steps := []string{first, second, second, "neither", first, "neither"}
				right, wrong := run(t, part, status, steps, secret), run(t, part, status, steps, "4815162343")
				if !slices.Equal(right, wrong) {
					t.Errorf("%s, %d, %q: with the right guess\n%s\nand with a wrong one\n%s", part, status, steps, strings.Join(right, "\n"), strings.Join(wrong, "\n"))
				}
			}
		}
	}
}
