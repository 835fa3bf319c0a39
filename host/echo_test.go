//go:build !race

// Under the race detector this test takes long, and it does one thing after another. make test runs it without it.

package host_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// echoed is a plugin that reads all that an API may repeat, or one part of that, and writes down what it sees.
func echoed(part string, mode *func(env contract.Env) contract.Mutation, seen *[]string) *guest {
	about := challenged
	about.Challenge = &abi.Challenge{Statuses: []int{401}, Keep: 300, Answers: slices.DeleteFunc([]abi.Answer{
		{Name: "nonce", From: "header:X-Nonce", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}, Keep: true},
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
	send := func(namesAndValues ...string) (list []abi.Pair) {
		for pair := range slices.Chunk(namesAndValues, 2) {
			list = append(list, abi.Pair{Name: pair[0], Value: pair[1]})
		}
		return list
	}
	step := map[string]func(ref, guess string) []abi.Pair{
		"secret":         func(ref, _ string) []abi.Pair { return send("X-Send", ref) },
		"guess":          func(_, guess string) []abi.Pair { return send("X-Send", guess) },
		"both":           func(ref, guess string) []abi.Pair { return send("X-Send", guess, "X-Key", ref) },
		"both, secret":   func(ref, guess string) []abi.Pair { return send("X-Send", ref, "X-Key", guess) },
		"with more text": func(ref, guess string) []abi.Pair { return send("X-Send", "id="+guess, "X-Key", ref) },
		"cut by the API": func(ref, guess string) []abi.Pair { return send("X-Send", guess+"/rest of it", "X-Key", ref) },
		"in Base64": func(ref, guess string) []abi.Pair {
			return send("X-Send", "NDgxNTE2MjM0"+map[bool]string{true: "Mg==", false: "Mw=="}[guess == secret], "X-Key", ref)
		},
		"with text around it":         func(ref, guess string) []abi.Pair { return send("X-Send", "id="+guess, "X-Key", ref, "X-Around", "1") },
		"secret, with text around it": func(ref, guess string) []abi.Pair { return send("X-Send", ref, "X-Key", guess, "X-Around", "1") },
		"something else":              func(string, string) []abi.Pair { return send("X-Around", "1") },
		"a query instead":             func(ref, _ string) []abi.Pair { return send("X-Key", ref) },
		"neither":                     func(string, string) []abi.Pair { return send("X-Other", "x") },
	}
	run := func(t *testing.T, part string, status int, steps []string, guess string) []string {
		var seen []string
		var mode func(contract.Env) contract.Mutation
		w := newWorld(t, withoutBuiltIns, withGuest(echoed(part, &mode, &seen)))
		w.setSecret("key", secret)
		w.api.Answer(func(r *http.Request) (*http.Response, error) {
			response := testworld.Response(status, "")
			text, _, _ := strings.Cut(r.Header.Get("X-Send"), "/")
			if r.Header.Get("X-Around") != "" {
				text = "00" + text + "000"
			}
			if text != "" {
				response.Header.Set("X-Echo", text)
				response.Header.Set("X-Nonce", text)
			}
			return response, nil
		})
		connector := w.connect("custom", config{"key": "{{ get_secret('key') }}", "url": tokenURL})
		for _, name := range steps {
			mode = func(env contract.Env) contract.Mutation {
				return contract.Mutation{Headers: step[name](value(env, "key"), guess)}
			}
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
