package hostfn

import (
	"context"
	"crypto/rand"
	"testing"

	"github.com/keywright/keywright/abi"
)

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
