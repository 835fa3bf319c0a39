package host_test

import (
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/abi"
)

// What a plugin could learn of a secret from whether its call succeeds. threats.md 68.

// A text that is filled up to a limit must not tell how long the secret in it is.
func TestLimitsDoNotTellHowLongASecretIs(t *testing.T) {
	succeeds := func(t *testing.T, length int, do func(abi.Env, string)) bool {
		w := misusedWorld(t, func(env abi.Env) (string, error) {
			v := value(env, "to_header")
			do(env, v)
			return header("X-Key", v), nil
		})
		w.setSecret("s", strings.Repeat("s", length))
		_, err := w.try(w.connect("custom", misused), get(t.Context()))
		return err == nil
	}
	for name, do := range map[string]func(env abi.Env, v string, n int){
		"a text filled with the secret": func(env abi.Env, v string, n int) {
			env.Encode(abi.FormatBase64, strings.Repeat(v, n))
		},
		"a text filled with what is made of it": func(env abi.Env, v string, n int) {
			v = env.Encode(abi.FormatBase64, strings.Repeat("x", 64<<10)+v)
			env.Encode(abi.FormatHex, strings.Repeat(v, n))
		},
		"a cached value": func(env abi.Env, v string, n int) { env.CacheSet("k", strings.Repeat(v, n), 60) },
	} {
		t.Run(name, func(t *testing.T) {
			want := -1
			for _, length := range []int{1, 100, 1000, 1024} {
				low, high := 0, 600 // it succeeds with low, and not with high
				for high-low > 1 {
					middle := (low + high) / 2
					if succeeds(t, length, func(env abi.Env, v string) { do(env, v, middle) }) {
						low = middle
					} else {
						high = middle
					}
				}
				if want < 0 {
					want = low
				}
				if low == 0 || low != want {
					t.Errorf("with a secret of %d bytes it succeeds up to %d times, and with one of 1 byte %d times", length, low, want)
				}
			}
		})
	}
}

// Two headers of one name are refused. So a plugin that puts its guess beside a secret must be refused in either case.
func TestHeaderNamesDoNotTellWhatASecretIs(t *testing.T) {
	for name, do := range map[string]func(env abi.Env, pairs func(secret string) []abi.Pair) (string, error){
		"mutation": func(env abi.Env, pairs func(string) []abi.Pair) (string, error) {
			return marshal(abi.Mutation{Headers: pairs(value(env, "to_header"))}), nil
		},
		"token request": func(env abi.Env, pairs func(string) []abi.Pair) (string, error) {
			env.TokenRequest([]byte(marshal(abi.TokenRequest{URL: value(env, "url"), Headers: pairs(value(env, "to_token"))})))
			return header("X-Key", value(env, "to_header")), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			said := map[string]bool{}
			for _, guess := range []string{"X-Right-Guess", "X-Wrong-Guess"} {
				for _, first := range []bool{true, false} {
					w := misusedWorld(t, func(env abi.Env) (string, error) {
						return do(env, func(secret string) []abi.Pair {
							if first {
								return []abi.Pair{{Name: guess, Value: "1"}, {Name: secret, Value: "2"}}
							}
							return []abi.Pair{{Name: secret, Value: "1"}, {Name: guess, Value: "2"}}
						})
					})
					w.setSecret("s", "X-Right-Guess")
					_, err := w.try(w.connect("custom", misused), get(t.Context()))
					if err == nil || strings.Contains(err.Error(), "Guess") {
						t.Fatalf("with %s: error %v", guess, err)
					}
					said[err.Error()] = true
				}
			}
			if len(said) != 1 {
				t.Errorf("the error depends on the guess: %v", said)
			}
		})
	}
}
