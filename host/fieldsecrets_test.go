package host_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/keywright/keywright/host"
)

// A connector lists the secrets of each of its fields, also in objects, and the user's token.
func TestTheSecretsOfEachField(t *testing.T) {
	w := onBehalfWorld(t, cachedExchange)
	c, err := w.host.NewConnector(t.Context(), host.ConnectorConfig{Name: "c", Origins: []string{"https://api.test"}, Auth: host.Auth{Type: "custom", Config: map[string]any{
		"subject": "{{ user.token }}", "plain": "text", "url": "https://login.test/token", "key": "{{ get_secret('k') }}",
		"object": map[string]any{"a": []any{"{{ get_secret('two') + get_secret('one') }}", "{{ get_secret('two') }}"}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{"subject": {"user.token"}, "key": {"k"}, "object": {"one", "two"}}
	if got := c.FieldSecrets(); !maps.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Errorf("%v, and not %v", got, want)
	}
}
