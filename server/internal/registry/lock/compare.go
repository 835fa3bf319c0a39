package lock

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// A Change is a row of the comparison of two versions of a plugin.
type Change struct {
	// What names the thing that has changed, such as "field secret".
	What string `json:"what"`
	// Before and Now are its values, or the rights in it.
	Before []string `json:"before"`
	Now    []string `json:"now"`
	// Why is the reason why the change is refused until the operator accepts it. It is empty for a harmless change.
	Why string `json:"why,omitempty"`
}

// The reasons why a change is refused.
const (
	WhyWider    = "wider"
	WhySigner   = "another signer"
	WhyUnsigned = "signature lost"
	WhyLower    = "not a higher version"
	WhyContract = "another contract"
	// WhyRepository is the reason for a plugin that nobody has signed.
	WhyRepository = "another repository"
)

// Compare returns what is different between two versions of a plugin, with the refused changes first.
func Compare(previous, now Plugin) []Change {
	var changes []Change
	add := func(what, previous, now, why string) {
		if previous != now || why != "" {
			changes = append(changes, Change{what, values(previous), values(now), why})
		}
	}
	add("contract", strconv.Itoa(previous.Contract), strconv.Itoa(now.Contract), reason(previous.Contract != now.Contract, WhyContract))
	add("version", previous.Version, now.Version, reason(previous.Module != now.Module && !higher(previous.Version, now.Version), WhyLower))
	unsigned := reason(previous.Signer != nil && now.Signer == nil, WhyUnsigned)
	add("signer", previous.Signer.String(), now.Signer.String(), cmp.Or(unsigned, reason(previous.Signer != nil && !previous.Signer.Same(now.Signer), WhySigner)))
	changes = append(changes, previous.Capabilities.Compare(now.Capabilities)...)
	// Without a signer, nothing else says who its publisher is.
	add("reference", previous.Ref, now.Ref, reason(previous.Signer == nil && repository(previous.Ref) != repository(now.Ref), WhyRepository))
	add("module", previous.Module, now.Module, "")
	add("source", previous.Source, now.Source, "")
	add("commit", previous.Revision, now.Revision, "")
	add("fuel of describe", strconv.FormatInt(previous.Fuel, 10), strconv.FormatInt(now.Fuel, 10), "")
	return append(Refused(changes), slices.DeleteFunc(changes, func(c Change) bool { return c.Why != "" })...)
}

func reason(refused bool, why string) string {
	if refused {
		return why
	}
	return ""
}

// Compare returns the changes of version, contract and capabilities. It leaves out what is not part of a description.
func (p Plugin) Compare(now Plugin) []Change {
	p.Ref, p.Signer, p.Source, p.Revision, p.Fuel = now.Ref, now.Signer, now.Source, now.Revision, now.Fuel
	return Compare(p, now)
}

func repository(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	if i := strings.LastIndex(ref, ":"); i > strings.LastIndex(ref, "/") { // a colon further left is that of a port
		return ref[:i]
	}
	return ref
}

// Compare returns what is different, in the order of names. A change with rights that c does not have is [WhyWider].
func (c Capabilities) Compare(now Capabilities) (changes []Change) {
	names := slices.AppendSeq(slices.Collect(maps.Keys(c)), maps.Keys(now))
	slices.Sort(names)
	for _, what := range slices.Compact(names) {
		if !slices.Equal(c[what], now[what]) {
			changes = append(changes, Change{what, values(c[what]...), values(now[what]...), reason(wider(what, c[what], now[what]), WhyWider)})
		}
	}
	return changes
}

func values(texts ...string) []string {
	return slices.DeleteFunc(append([]string{}, texts...), func(text string) bool { return text == "" })
}

// Refused returns the changes that the operator has to accept.
func Refused(changes []Change) []Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return c.Why == "" })
}

// VersionOf returns the version that a tag names, with v before it or without, or "" for one such as latest or 1.2.
func VersionOf(tag string) string {
	version := strings.TrimPrefix(tag, "v")
	if semver.Canonical("v"+version) != "v"+version {
		return ""
	}
	return version
}

// Newest returns the tag with the highest version above a plugin's own, preliminary only if its own is, or "".
func Newest(tags []string, version string) (newest string) {
	for _, tag := range tags {
		tagVersion := VersionOf(tag)
		if higher(version, tagVersion) && (newest == "" || higher(VersionOf(newest), tagVersion)) &&
			(semver.Prerelease("v"+tagVersion) == "" || semver.Prerelease("v"+version) != "") {
			newest = tag
		}
	}
	return newest
}

// CheckTag returns an error if a tag names another version than a plugin's own.
func CheckTag(tag, version string) error {
	if tagVersion := VersionOf(tag); tagVersion != "" && tagVersion != version {
		return fmt.Errorf("the tag is %s, and the plugin says that it is version %s: they have to be the same", tag, host.Printable(version))
	}
	return nil
}

// higher reports whether a version is above another one, by semantic versioning. For other texts it is false.
func higher(previous, now string) bool {
	return semver.IsValid("v"+previous) && semver.Compare("v"+previous, "v"+now) < 0
}

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
	for name, algorithm := range f.Algorithms { // which the file does not name
		c.add(what, name+" stands for "+algorithm)
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
	if a.Pattern != "" { // of which the plugin sees whether the text matches, and which may let a key sign it
		c.add(what, "matches "+a.Pattern)
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
