package host

import (
	"testing"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/template"
)

// threats.md 29: the parts of a partition that differ only between hosts. Requests to one host cannot show them.
func TestPartitionHasDigestVariablesAndSalt(t *testing.T) {
	partition := func(change func(c *Connector, in *hostfn.Inputs)) [32]byte {
		c := &Connector{
			config: ConnectorConfig{Name: "crm", Auth: Auth{Type: "t", Config: map[string]any{"a": "b"}}},
			host:   &Host{cache: &TokenCache{}}, plugin: &plugin{grants: map[string]bool{}}, plan: &hostfn.Plan{},
		}
		c.plugin.info.Type = "t"
		c.plan.Names = template.Names{Variables: []string{"v", "w"}, Secrets: []string{"s"}}
		in := &hostfn.Inputs{Variables: map[string]string{"v": "1", "w": ""}, Secrets: []string{"x"}}
		change(c, in)
		if err := c.seed(); err != nil {
			t.Fatal(err)
		}
		return c.partition(in)
	}
	base := partition(func(*Connector, *hostfn.Inputs) {})
	if base != partition(func(*Connector, *hostfn.Inputs) {}) {
		t.Fatal("the same ingredients give another partition")
	}
	// These texts are the same when they are joined.
	split := func(name, authType string, secrets ...string) [32]byte {
		return partition(func(c *Connector, in *hostfn.Inputs) {
			c.config.Name, c.plugin.info.Type = name, authType
			c.plan.Names.Secrets, in.Secrets = []string{"s", "t"}, secrets
		})
	}
	if split("crm", "t", "a", "btc") == split("crm", "t", "atb", "c") {
		t.Error("two secrets are taken for two others that have the same characters in all")
	}
	if split("crm", "t", "a", "b") == split("cr", "mt", "a", "b") {
		t.Error("a name and a type are taken for others that have the same characters in all")
	}
	for name, change := range map[string]func(*Connector, *hostfn.Inputs){
		"plugin digest":       func(c *Connector, _ *hostfn.Inputs) { c.plugin.digest[31]++ },
		"salt":                func(c *Connector, _ *hostfn.Inputs) { c.host.cache.salt[0]++ },
		"grant":               func(c *Connector, _ *hostfn.Inputs) { c.plugin.grants["reveal"] = true },
		"variable":            func(_ *Connector, in *hostfn.Inputs) { in.Variables["v"] = "2" },
		"variable missing":    func(_ *Connector, in *hostfn.Inputs) { delete(in.Variables, "w") },
		"variables exchanged": func(_ *Connector, in *hostfn.Inputs) { in.Variables["v"], in.Variables["w"] = "", "1" },
		"secret":              func(_ *Connector, in *hostfn.Inputs) { in.Secrets[0] = "y" },
		"type":                func(c *Connector, _ *hostfn.Inputs) { c.plugin.info.Type = "u" },
		"name":                func(c *Connector, _ *hostfn.Inputs) { c.config.Name = "crmt" },
		"configuration":       func(c *Connector, _ *hostfn.Inputs) { c.config.Auth.Config["a"] = "c" },
	} {
		if partition(change) == base {
			t.Errorf("%s: the partition is the same", name)
		}
	}
	if partition(func(_ *Connector, in *hostfn.Inputs) { in.Variables["unnamed"], in.TenantID = "1", "acme" }) != base {
		t.Error("what no template names changes the partition")
	}
}
