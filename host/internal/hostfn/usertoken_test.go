package hostfn

import (
	"context"
	"crypto/rand"
	"slices"
	"testing"

	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/template"
)

// The user's token is a secret like those of the secret store: texts that people read do not have it (threats.md 97).
func TestUserTokenSecrecy_threats_97(t *testing.T) {
	for token, want := range map[string][]string{"": {"secret-of-store"}, "token-of-user": {"secret-of-store", "token-of-user"}} {
		in := &Inputs{Secrets: []string{"secret-of-store"}, User: template.User{Token: token}}
		if got := in.secrets(); !slices.Equal(got, want) {
			t.Errorf("with the token %q: %q", token, got)
		}
	}
	in := &Inputs{Secrets: []string{"secret-of-store"}, User: template.User{Token: "token-of-user"}}
	c := New(context.Background(), &Plan{Random: rand.Reader}, in, Inline)
	if got := c.Scrub("secret-of-store token-of-user"); got != "<sealed> <sealed>" {
		t.Errorf("the text is %q", got)
	}
}

// The credentials of a request are the secrets of its fields and the user's token, also if a template has encoded them. A secret
// that no field names is none, although it occurs in another.
func TestSecretsInAMutation(t *testing.T) {
	in := &Inputs{Secrets: []string{"alice:wonderland", "bob:builder"}, User: template.User{Token: "carol:christmas"}}
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
