package hostfn

import (
	"context"
	"crypto/rand"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/template"
)

// Each name has its own secret. There is no secret for a name that the templates do not have, or whose secret was not read.
func TestSecretsByName(t *testing.T) {
	plan := &Plan{}
	plan.Names.Secrets = []string{"a", "b", "c"}
	in := &Inputs{Secrets: []string{"1", "2"}}
	for name, want := range map[string]string{"a": "1", "b": "2", "c": "", "d": ""} {
		if got, ok := in.secret(plan, name); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %t, want %q", name, got, ok, want)
		}
	}
}

// Each issuer and member has its own endpoint. There is none for an endpoint that the templates do not have, or that was not read.
func TestDiscoveredByIssuerAndMember(t *testing.T) {
	plan := &Plan{Random: rand.Reader}
	of := func(member string) template.Discovery {
		return template.Discovery{Issuer: "https://login.test", Member: member}
	}
	plan.Names.Discovered = []template.Discovery{of("a"), of("b"), of("c")}
	c := New(context.Background(), plan, &Inputs{Discovered: []string{"1", "2"}}, Inline)
	for member, want := range map[string]string{"a": "1", "b": "2", "c": "", "d": ""} {
		if got, err := c.Values().Discovered(of(member)); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", member, got, err, want)
		}
	}
}

// Whether a field is required depends on the value of another one only if the condition names values. Otherwise the other field is
// not rendered.
func TestRequiredIfValue(t *testing.T) {
	plan := &Plan{Random: rand.Reader, Fields: map[string]*Field{"other": fieldOfKind(t, "other", abi.KindString, "{{ get_secret('unread') }}"), "mode": fieldOfKind(t, "mode", abi.KindString, "fast")}}
	for _, c := range []struct {
		condition abi.Condition
		want      bool
	}{
		{abi.Condition{Field: "other"}, false},
		{abi.Condition{Field: "mode", Values: []string{"slow"}}, false},
		{abi.Condition{Field: "mode", Values: []string{"slow", "fast"}}, true},
	} {
		call := New(context.Background(), plan, &Inputs{}, Inline)
		got := false
		err := call.try(func() { got = call.required(&Field{Field: abi.Field{RequiredIf: []abi.Condition{c.condition}}}) })
		if err != nil || got != c.want {
			t.Errorf("%+v: got = %t, err = %v", c.condition, got, err)
		}
	}
}
