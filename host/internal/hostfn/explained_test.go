package hostfn

import (
	"context"
	"crypto/rand"
	"slices"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/template"
)

// An explanation has each endpoint that was discovered once, and each member of each issuer.
func TestDiscoveriesOfAnExplanation(t *testing.T) {
	c := New(context.Background(), &Plan{Random: rand.Reader}, &Inputs{}, Explaining)
	c.explainSigned("mac HS256", "data")
	want := []string{"a.test token", "a.test jwks", "b.test token"}
	for range 2 {
		c.explainDiscovery(template.Discovery{Issuer: "a.test", Member: "token"}, "1")
		c.explainDiscovery(template.Discovery{Issuer: "a.test", Member: "jwks"}, "2")
		c.explainDiscovery(template.Discovery{Issuer: "b.test", Member: "token"}, "3")
	}
	var got []string
	for _, step := range c.Steps[1:] {
		got = append(got, step.Discovery.Issuer+" "+step.Discovery.Endpoint)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The span of an exchange names the field of kind url that the URL is from, not another field of the configuration.
func TestFieldOfAnExchange(t *testing.T) {
	c := New(context.Background(), &Plan{Random: rand.Reader, Fields: map[string]*Field{
		"name": fieldOfKind(t, "name", abi.KindString, "x"), "text": fieldOfKind(t, "text", abi.KindString, "https://b.test"),
		"first": fieldOfKind(t, "first", abi.KindURL, "https://a.test"), "url": fieldOfKind(t, "url", abi.KindURL, "https://b.test"),
	}, CheckURL: func(string) error { return nil }}, &Inputs{}, Inline)
	for _, name := range []string{"name", "text", "first", "url"} {
		c.ConfigGet(name)
	}
	for url, want := range map[string]string{"https://a.test": "first", "https://b.test": "url", "https://c.test": "", "x": ""} {
		if c.setExchangeField(url); c.urlField != want {
			t.Errorf("%s is from the field %q", url, c.urlField)
		}
	}
}
