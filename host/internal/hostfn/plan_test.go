package hostfn

import "testing"

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
