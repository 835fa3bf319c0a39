package lock

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/keywright/keywright/host"
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
	// WhyRepository is for a plugin that nobody has signed.
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
	why := ""
	if previous.Contract != now.Contract {
		why = WhyContract
	}
	add("contract", strconv.Itoa(previous.Contract), strconv.Itoa(now.Contract), why)
	why = ""
	if previous.Module != now.Module && !higher(previous.Version, now.Version) {
		why = WhyLower
	}
	add("version", previous.Version, now.Version, why)
	why = ""
	switch {
	case previous.Signer != nil && now.Signer == nil:
		why = WhyUnsigned
	case previous.Signer != nil && !previous.Signer.Same(now.Signer):
		why = WhySigner
	}
	add("signer", previous.Signer.String(), now.Signer.String(), why)
	changes = append(changes, previous.Capabilities.Compare(now.Capabilities)...)
	why = ""
	if previous.Signer == nil && repository(previous.Ref) != repository(now.Ref) {
		why = WhyRepository // nothing else says who its publisher is
	}
	add("reference", previous.Ref, now.Ref, why)
	add("module", previous.Module, now.Module, "")
	add("source", previous.Source, now.Source, "")
	add("commit", previous.Revision, now.Revision, "")
	add("fuel of describe", strconv.FormatInt(previous.Fuel, 10), strconv.FormatInt(now.Fuel, 10), "")
	slices.SortStableFunc(changes, func(a, b Change) int { return rank(a) - rank(b) })
	return changes
}

// Compare returns the changes of version, contract and capabilities. It leaves out what is not part of a description.
func (p Plugin) Compare(now Plugin) []Change {
	p.Ref, p.Signer, p.Source, p.Revision, p.Fuel = now.Ref, now.Signer, now.Source, now.Revision, now.Fuel
	return Compare(p, now)
}

// Differs returns what is different between a plugin in a lock and its module, as the sandbox describes it.
func (p *Plugin) Differs(info host.PluginInfo) []Change {
	return p.Compare(Describe(info))
}

// repository returns a reference without its tag or digest.
func repository(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	if i := strings.LastIndex(ref, ":"); i > strings.LastIndex(ref, "/") { // a colon further left is that of a port
		return ref[:i]
	}
	return ref
}

func rank(c Change) int {
	if c.Why != "" {
		return 0
	}
	return 1
}

// Compare returns what is different, in the order of names. A change with rights that c does not have is [WhyWider].
func (c Capabilities) Compare(now Capabilities) (changes []Change) {
	names := slices.AppendSeq(slices.Collect(maps.Keys(c)), maps.Keys(now))
	slices.Sort(names)
	for _, what := range slices.Compact(names) {
		if slices.Equal(c[what], now[what]) {
			continue
		}
		why := ""
		if wider(what, c[what], now[what]) {
			why = WhyWider
		}
		changes = append(changes, Change{what, values(c[what]...), values(now[what]...), why})
	}
	return changes
}

// values returns the texts that are not empty.
func values(texts ...string) []string {
	return slices.DeleteFunc(append([]string{}, texts...), func(text string) bool { return text == "" })
}

// Refused returns the changes that the operator has to accept.
func Refused(changes []Change) []Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return c.Why == "" })
}

// VersionOf returns the version that a tag of a registry names, with v before it or without, or "" for a tag such as latest or 1.2,
// which may lead to any version.
func VersionOf(tag string) string {
	version := strings.TrimPrefix(tag, "v")
	if semver.Canonical("v"+version) != "v"+version {
		return ""
	}
	return version
}

// Newest returns the tag with the highest version above a plugin's own, or "". It passes over preliminary versions, unless the plugin's
// own is one.
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

// higher reports whether a version is above another one, by the rules of semantic versioning. It is false for a text that is no
// such version.
func higher(previous, now string) bool {
	return semver.IsValid("v"+previous) && semver.Compare("v"+previous, "v"+now) < 0
}
