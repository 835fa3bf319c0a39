package lock

import (
	"fmt"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// Capabilities are the rights of a plugin: for each thing that it is, has or uses, what it may do with it. The lists are sorted.
// A right that an earlier version did not have is a new element, so that versions can be compared without understanding them.
type Capabilities map[string][]string

// plainText is the right of a field whose text the plugin reads.
const plainText = "plain text"

// Of returns the capabilities of a plugin. They are those of the description that the sandbox has got from describe, and of the
// functions that the module imports. Nothing that a publisher says is part of them.
func Of(p host.PluginInfo) Capabilities {
	c := Capabilities{}
	c.add("type", p.Type)
	c.add("aliases", p.Aliases...)
	c.add("uses", p.Uses...)
	for function, grant := range map[string]string{contract.UserReveal: abi.GrantReveal, contract.UserSign: abi.GrantSignRaw} {
		if slices.Contains(p.Imports, contract.ModuleUser+"."+function) {
			c.add("grants", "needs "+grant)
		}
	}
	if p.Anonymous {
		c.add("requests", "without a credential")
	}
	if p.Consent {
		c.add("consent", "of users")
	}
	for _, f := range p.Fields {
		c.field(f)
	}
	for _, a := range p.Answers {
		c.answer("answer "+a.Name, a, p.Fields)
	}
	for _, s := range p.State {
		c.add("state "+s.Name, "kept")
		if s.Seed != "" {
			c.add("state "+s.Name, "begins as "+s.Seed)
		}
	}
	if p.Challenge != nil {
		for _, status := range p.Challenge.Statuses {
			c.add("challenge", fmt.Sprintf("again after %d", status))
		}
		if p.Challenge.Keep > 0 {
			c.add("challenge", fmt.Sprintf("keeps answers for %d s", p.Challenge.Keep))
		}
		for _, a := range p.Challenge.Answers {
			c.answer("challenge answer "+a.Name, a, p.Fields)
		}
	}
	return c
}

// Describe returns what a lock has of a module: its digest, version, contract, fuel and capabilities.
func Describe(p host.PluginInfo) Plugin {
	return Plugin{Module: "sha256:" + p.SHA256, Version: p.Version, Contract: p.ABI, Fuel: p.DescribeFuel, Capabilities: Of(p)}
}

// add adds rights in their order, each once.
func (c Capabilities) add(what string, rights ...string) {
	if len(rights) > 0 {
		c[what] = append(c[what], rights...)
		slices.Sort(c[what])
		c[what] = slices.Compact(c[what])
	}
}

func (c Capabilities) field(f abi.Field) {
	what := "field " + f.Name
	for _, alias := range f.Aliases { // what a file has under that name goes where this field goes
		c.add(what, "also named "+alias)
	}
	switch f.Kind {
	case abi.KindKey:
		purposes := f.Purposes
		if len(purposes) == 0 {
			purposes = []string{contract.PurposeJWT}
		}
		for _, purpose := range purposes {
			c.add(what, "signs: "+purpose)
		}
		if f.Generate {
			c.add(what, "made by the host")
		}
	case abi.KindURL:
		c.add(what, "exchanges")
	}
	readable := f.Kind == abi.KindString || f.Kind == abi.KindObject || f.Kind == abi.KindURL
	if readable && !f.Sealed && len(f.Enum) == 0 {
		c.add(what, plainText)
	}
	c.sinks(what, f.Sinks, f.Derived)
	if f.Sealed && c[what] == nil {
		c.add(what, "sealed") // so that its text is not that of a new field if a later version reads it
	}
}

// sinks adds where a value may go, and what is derived from it. Where the value itself may go, that adds nothing.
func (c Capabilities) sinks(what string, sinks, derived []string) {
	for _, sink := range sinks {
		c.add(what, "to "+sink)
	}
	for _, sink := range derived {
		if !slices.Contains(sinks, sink) {
			c.add(what, "derived to "+sink)
		}
	}
}

func (c Capabilities) answer(what string, a abi.Answer, fields []abi.Field) {
	from := a.From
	if a.FromField != "" {
		from = "the place in " + a.FromField
	}
	for _, f := range fields {
		if f.Name == a.FromField && f.Default != "" {
			from += ", or of " + f.Default
		}
	}
	if a.Alternative != "" {
		from += ", or of " + a.Alternative
	}
	c.add(what, a.Kind+" of "+from)
	switch a.Kind {
	case contract.AnswerEnum:
		for _, name := range a.Enum {
			c.add(what, "is "+name)
		}
	case contract.AnswerSealed:
		c.sinks(what, a.Sinks, a.Derived)
	}
	if a.State != "" {
		c.add(what, "becomes "+a.State)
	}
	if a.Keep {
		c.add(what, "kept")
	}
}

// wider reports whether a plugin may do more with something now. A field that is new and whose text the plugin reads is no right:
// the operator decides whether there is such a field, and writes it.
func wider(what string, previous, now []string) bool {
	if previous == nil && strings.HasPrefix(what, "field ") && slices.Equal(now, []string{plainText}) {
		return false
	}
	return slices.ContainsFunc(now, func(right string) bool { return !slices.Contains(previous, right) })
}
