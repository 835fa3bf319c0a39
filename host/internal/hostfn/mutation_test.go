package hostfn

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/internal/testworld"
)

// mutationOf returns what a call makes of a mutation with one part of a sort. The part has text, in which SEALED stands for a
// sealed value.
func mutationOf(t *testing.T, sort, text, sealed string) (*Mutation, *Failure) {
	t.Helper()
	c := New(context.Background(), &Plan{Random: rand.Reader, Limits: Limits{Mutations: 2}, Anonymous: true}, &Inputs{}, Inline)
	if strings.Contains(text, "SEALED") {
		text = strings.ReplaceAll(text, "SEALED", c.seal(seal.Value{Text: sealed, Sinks: seal.All}))
	}
	output := testworld.Must(json.Marshal(map[string][]abi.Pair{sort: {{Name: "n", Value: text}}}))(t)
	return c.Mutation(output)
}

// The limit of a mutation's parts counts those of each sort.
func TestLimitOfMutations(t *testing.T) {
	part := func(names ...string) (pairs []abi.Pair) {
		for _, name := range names {
			pairs = append(pairs, abi.Pair{Name: name, Value: "v"})
		}
		return pairs
	}
	for _, sort := range []string{"headers", "query", "cookies", "path", "form"} {
		for _, names := range [][]string{{"a", "b"}, {"a", "b", "c"}} {
			c := New(context.Background(), &Plan{Random: rand.Reader, Limits: Limits{Mutations: 2}, Anonymous: true}, &Inputs{}, Inline)
			output := testworld.Must(json.Marshal(map[string][]abi.Pair{sort: part(names...)}))(t)
			_, failure := c.Mutation(output)
			if over := len(names) > 2; over != (failure != nil) || over && !strings.Contains(failure.Error(), "has 3 headers, query parameters and other parts, over the limit of 2") {
				t.Errorf("%d %s: failure = %v", len(names), sort, failure)
			}
		}
	}
}

// The value of a cookie has no character that would end it, whether the guest wrote that or it is in a secret.
func TestCharactersOfCookies(t *testing.T) {
	for r := range rune(0x100) {
		fits := r > ' ' && r < 0x7f && r != ';' && r != '\\'
		for _, text := range []string{"a" + string(r), "SEALED"} {
			m, err := mutationOf(t, "cookies", text, "a"+string(r))
			if fits != (err == nil) {
				t.Errorf("%q as %s: %v", r, text, err)
			}
			if fits && m.Cookies[0].Value != "a"+string(r) {
				t.Errorf("%q as %s became %q", r, text, m.Cookies[0].Value)
			}
		}
	}
}

// A secret that is blank is no credential, wherever it goes. A plain text may be blank.
func TestBlankCredentials(t *testing.T) {
	for _, sort := range []string{"headers", "query", "path", "form"} {
		testworld.WantError(t, sort, testworld.ErrorOf(mutationOf(t, sort, "SEALED", " ")), "empty")
		for _, text := range []string{"", " "} {
			if _, err := mutationOf(t, sort, text, ""); err != nil {
				t.Errorf("%q in %s: %v", text, sort, err)
			}
		}
	}
}

// An address that an API names repeats a credential of the path, but not what else a plugin put there (threats.md 88).
func TestAnAddressRepeatsACredentialOfThePath_threats_88(t *testing.T) {
	const address = "https://api.test/bot-1234567890/me"
	for text, want := range map[string]bool{"SEALED": true, "bot-1234567890": false} {
		m, failure := mutationOf(t, "path", text, "bot-1234567890")
		if failure != nil || m.Echoed(address) != want {
			t.Errorf("%s: echoed = %t, %v, want %t", text, !want, failure, want)
		}
	}
}

// The user's token is a secret like those of the secret store: texts that people read do not have it (threats.md 97).
func TestUserTokenSecrecy_threats_97(t *testing.T) {
	for token, want := range map[string][]string{"": {"secret-of-store"}, "token-of-user": {"secret-of-store", "token-of-user"}} {
		in := &Inputs{Secrets: []string{"secret-of-store"}, Subject: Subject{User: template.User{Token: token}}}
		if got := in.secrets(); !slices.Equal(got, want) {
			t.Errorf("with the token %q: %q", token, got)
		}
	}
	in := &Inputs{Secrets: []string{"secret-of-store"}, Subject: Subject{User: template.User{Token: "token-of-user"}}}
	c := New(context.Background(), &Plan{Random: rand.Reader}, in, Inline)
	if got := c.Scrub("secret-of-store token-of-user"); got != "<sealed> <sealed>" {
		t.Errorf("the text is %q", got)
	}
}

// The credentials of a request are the secrets of its fields and the user's token, also if a template has encoded them. A secret
// that no field names is none, although it occurs in another.
func TestSecretsInAMutation(t *testing.T) {
	in := &Inputs{Secrets: []string{"alice:wonderland", "bob:builder"}, Subject: Subject{User: template.User{Token: "carol:christmas"}}}
	plan := &Plan{Random: rand.Reader, Limits: Limits{Mutations: 1}, SecretSinks: map[string]seal.Sinks{"a": seal.All}}
	plan.Names.Secrets = []string{"a", "b"}
	c := New(context.Background(), plan, in, Inline)
	output := []byte(`{"headers":[{"name":"X-Key","value":"` + c.seal(seal.Value{Text: "1 alice:wonderland 2 bob:builder 3 carol:christmas", Sinks: seal.Header}) + `"}]}`)
	m, failure := c.Mutation(output)
	if failure != nil {
		t.Fatal(failure)
	}
	got := c.Credentials(m)
	for text, want := range map[string]bool{"alice:wonderland": true, "bob:builder": false, "carol:christmas": true} {
		if slices.Contains(got, text) != want {
			t.Errorf("%s: %t, want %t: %q", text, !want, want, got)
		}
	}
}
