package connect

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/internal/testworld"
)

// threats.md 29: the parts of a partition that differ only between hosts. Requests to one host cannot show them.
func TestPartitionHasDigestVariablesAndSalt(t *testing.T) {
	partition := func(change func(p *Input, in *hostfn.Inputs)) [32]byte {
		input := &Input{
			Name: "crm", Values: map[string]any{"a": "b"},
			Plugin: &Plugin{Description: &abi.Description{Type: "t"}, Grants: map[string]bool{}},
			TLS:    &TLSConfig{Certificate: "c", Key: "k", CA: "a", For: []string{ForToken}},
		}
		in := &hostfn.Inputs{Variables: map[string]string{"v": "1", "w": ""}, Secrets: []string{"x"}}
		change(input, in)
		plan := &Plan{Plan: &hostfn.Plan{}, Values: input.Values}
		plan.Names = template.Names{Variables: []string{"v", "w"}, Secrets: []string{"s", "t"}[:len(in.Secrets)]}
		testworld.Check(t, plan.setSeed(input))
		return plan.partition(in)
	}
	base := partition(func(*Input, *hostfn.Inputs) {})
	if base != partition(func(*Input, *hostfn.Inputs) {}) {
		t.Fatal("the same ingredients give another partition")
	}
	// These texts are the same when they are joined.
	split := func(name, authType string, secrets ...string) [32]byte {
		return partition(func(p *Input, in *hostfn.Inputs) {
			p.Name, p.Plugin.Description.Type = name, authType
			in.Secrets = secrets
		})
	}
	if split("crm", "t", "a", "btc") == split("crm", "t", "atb", "c") {
		t.Error("two secrets are taken for two others that have the same characters in all")
	}
	if split("crm", "t", "a", "b") == split("cr", "mt", "a", "b") {
		t.Error("a name and a type are taken for others that have the same characters in all")
	}
	for name, change := range map[string]func(*Input, *hostfn.Inputs){
		"plugin digest":       func(p *Input, _ *hostfn.Inputs) { p.Plugin.Digest[31]++ },
		"salt":                func(p *Input, _ *hostfn.Inputs) { p.Salt[0]++ },
		"grant":               func(p *Input, _ *hostfn.Inputs) { p.Plugin.Grants["reveal"] = true },
		"variable":            func(_ *Input, in *hostfn.Inputs) { in.Variables["v"] = "2" },
		"variable missing":    func(_ *Input, in *hostfn.Inputs) { delete(in.Variables, "w") },
		"variables exchanged": func(_ *Input, in *hostfn.Inputs) { in.Variables["v"], in.Variables["w"] = "", "1" },
		"secret":              func(_ *Input, in *hostfn.Inputs) { in.Secrets[0] = "y" },
		"type":                func(p *Input, _ *hostfn.Inputs) { p.Plugin.Description.Type = "u" },
		"name":                func(p *Input, _ *hostfn.Inputs) { p.Name = "crmt" },
		"configuration":       func(p *Input, _ *hostfn.Inputs) { p.Values["a"] = "c" },
		"certificate":         func(p *Input, _ *hostfn.Inputs) { p.TLS.Certificate = "d" },
		"file of PKCS #12":    func(p *Input, _ *hostfn.Inputs) { p.TLS.PKCS12 = "p" },
		"passphrase":          func(p *Input, _ *hostfn.Inputs) { p.TLS.Passphrase = "p" },
		"authorities":         func(p *Input, _ *hostfn.Inputs) { p.TLS.CA = "b" },
		"purpose of TLS":      func(p *Input, _ *hostfn.Inputs) { p.TLS.For = nil },
	} {
		if partition(change) == base {
			t.Errorf("%s: the partition is the same", name)
		}
	}
	if partition(func(_ *Input, in *hostfn.Inputs) { in.Variables["unnamed"], in.TenantID = "1", "acme" }) != base {
		t.Error("what no template names changes the partition")
	}
}

// A number of Go is the number of JSON that it has in a document.
func TestNumbersOfGo(t *testing.T) {
	got := plainValue([]any{1, int64(-2), uint64(math.MaxUint64), 0.5, 1e6, math.Copysign(0, -1), json.Number("1e3")})
	want := []any{
		json.Number("1"), json.Number("-2"), json.Number("18446744073709551615"), json.Number("0.5"), json.Number("1000000"), json.Number("0"), json.Number("1e3"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if nan, ok := plainValue(math.NaN()).(float64); !ok || !math.IsNaN(nan) {
		t.Errorf("what is no number of JSON is %v", nan)
	}
}
