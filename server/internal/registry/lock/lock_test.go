package lock

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/server/internal/registry/artifact"
	"github.com/keywright/keywright/server/internal/registry/signature"
)

func inspect(t *testing.T, name string) host.PluginInfo {
	t.Helper()
	return testworld.Must(host.Inspect(t.Context(), host.Plugin{Name: name, Wasm: plugins.Of(name)}, host.Limits{}))(t)
}

// Capabilities come from the module: where each field may go, what is read of answers, and what is kept.
func TestCapabilitiesOfAuthTypes(t *testing.T) {
	got := Of(inspect(t, "oauth_refresh_token"))
	for what, want := range map[string][]string{
		"type":                {"oauth_refresh_token"},
		"uses":                {"cache", "sign", "state", "token"},
		"field token_url":     {"exchanges", "plain text", "to claim", "to token"},
		"field refresh_token": {"to token"},
		"state refresh_token": {"begins as refresh_token", "kept"},
	} {
		if !slices.Equal(got[what], want) {
			t.Errorf("%s: %q, and not %q", what, got[what], want)
		}
	}
	if got := Of(inspect(t, "jwt"))["field private_key"]; !slices.Equal(got, []string{"signs: jwt"}) {
		t.Errorf("the key: %q", got)
	}
}

// Each member of a description that lets a plugin do something is part of its capabilities, so that a version with more of it is
// refused (threats.md 160, specification.md "a new field in plain").
func TestGainedRights(t *testing.T) {
	plain := func() host.PluginInfo {
		minimum := int64(1)
		return host.PluginInfo{Description: abi.Description{
			ABI: 1, Type: "acme", Version: "1.0.0", Uses: []string{contract.GroupCache},
			Fields: []abi.Field{
				{Name: "secret", Kind: abi.KindString, Sealed: true, Sinks: []string{contract.SinkHeader, contract.SinkDigest}, Derived: []string{contract.SinkHeader}},
				{Name: "key", Kind: abi.KindKey},
				{Name: "days", Kind: abi.KindInteger, Minimum: &minimum},
				{Name: "unused", Kind: abi.KindString, Sealed: true},
				{Name: "place", Kind: abi.KindString, Default: "json:/token"},
			},
			Answers:   []abi.Answer{{Name: "token", From: "json:/token", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}}, {Name: "code", From: "json:/code", Kind: contract.AnswerEnum, Enum: []string{"a"}}, {Name: "placed", FromField: "place", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}}},
			State:     []abi.State{{Name: "refresh"}},
			Challenge: &abi.Challenge{Statuses: []int{401}, Answers: []abi.Answer{{Name: "nonce", From: "header:Nonce", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}}}},
		}, Imports: []string{contract.ModuleUser + "." + contract.UserMAC}}
	}
	for name, gain := range map[string]func(*host.PluginInfo){
		"another type":         func(p *host.PluginInfo) { p.Type = "jwt" },
		"an alias":             func(p *host.PluginInfo) { p.Aliases = []string{"apikey"} },
		"a group":              func(p *host.PluginInfo) { p.Uses = append(p.Uses, contract.GroupToken) },
		"no credential":        func(p *host.PluginInfo) { p.Anonymous = true },
		"consent":              func(p *host.PluginInfo) { p.Consent = true },
		"reveal":               func(p *host.PluginInfo) { p.Imports = append(p.Imports, contract.ModuleUser+"."+contract.UserReveal) },
		"raw signatures":       func(p *host.PluginInfo) { p.Imports = append(p.Imports, contract.ModuleUser+"."+contract.UserSign) },
		"a sink":               func(p *host.PluginInfo) { p.Fields[0].Sinks = append(p.Fields[0].Sinks, contract.SinkToken) },
		"a derived sink":       func(p *host.PluginInfo) { p.Fields[0].Derived = append(p.Fields[0].Derived, contract.SinkQuery) },
		"the plain text":       func(p *host.PluginInfo) { p.Fields[0].Sealed = false },
		"the plain text alone": func(p *host.PluginInfo) { p.Fields[0].Sealed, p.Fields[0].Sinks, p.Fields[0].Derived = false, nil, nil },
		"the plain text of a secret that is renamed": func(p *host.PluginInfo) {
			p.Fields[0] = abi.Field{Name: "token", Kind: abi.KindString, Aliases: []string{p.Fields[0].Name}}
		},
		"the text of a secret that went nowhere": func(p *host.PluginInfo) { p.Fields[3].Sealed = false },
		"another place of an answer":             func(p *host.PluginInfo) { p.Fields[4].Default = "json:/refresh_token" },
		"a purpose": func(p *host.PluginInfo) {
			p.Fields[1].Purposes = []string{contract.PurposeJWT, contract.PurposeMessage}
		},
		"another algorithm": func(p *host.PluginInfo) {
			p.Fields[4].Algorithms = map[string]string{"RS256": contract.SignRS1}
		},
		"a key of the host's":     func(p *host.PluginInfo) { p.Fields[1].Generate = true },
		"another name of a field": func(p *host.PluginInfo) { p.Fields[0].Aliases = []string{"token"} },
		"the name of another field": func(p *host.PluginInfo) { // what the file has as unused is read in plain (threats.md 183)
			p.Fields[3] = abi.Field{Name: "note", Aliases: []string{"unused"}, Kind: abi.KindString}
		},
		"the name of another field for a sink": func(p *host.PluginInfo) { // threats.md 183
			p.Fields[0].Aliases, p.Fields = []string{"unused"}, p.Fields[:3]
		},
		"a name of a field that is new": func(p *host.PluginInfo) {
			p.Fields = append(p.Fields, abi.Field{Name: "n", Kind: abi.KindInteger, Aliases: []string{"m"}})
		},
		"a field with a sink": func(p *host.PluginInfo) {
			p.Fields = append(p.Fields, abi.Field{Name: "x", Kind: abi.KindString, Sealed: true, Sinks: []string{contract.SinkHeader}})
		},
		"a URL for exchanges": func(p *host.PluginInfo) { p.Fields = append(p.Fields, abi.Field{Name: "url", Kind: abi.KindURL}) },
		"an answer": func(p *host.PluginInfo) {
			p.Answers = append(p.Answers, abi.Answer{Name: "n", From: "json:/n", Kind: contract.AnswerInteger})
		},
		"another place of one":        func(p *host.PluginInfo) { p.Answers[0].From = "json:/other" },
		"a place by a field":          func(p *host.PluginInfo) { p.Answers[0].From, p.Answers[0].FromField = "", "days" },
		"a sink of one":               func(p *host.PluginInfo) { p.Answers[0].Sinks = append(p.Answers[0].Sinks, contract.SinkToken) },
		"a derived sink of an answer": func(p *host.PluginInfo) { p.Answers[0].Derived = []string{contract.SinkHeader, contract.SinkQuery} },
		"an answer in plain":          func(p *host.PluginInfo) { p.Answers[0].Kind, p.Answers[0].Sinks = contract.AnswerInteger, nil },
		"a word of one":               func(p *host.PluginInfo) { p.Answers[1].Enum = append(p.Answers[1].Enum, "b") },
		"an answer that is kept":      func(p *host.PluginInfo) { p.Answers[0].State = "refresh" },
		"a state":                     func(p *host.PluginInfo) { p.State = append(p.State, abi.State{Name: "session"}) },
		"the seed of a state":         func(p *host.PluginInfo) { p.State[0].Seed = "secret" },
		"a status":                    func(p *host.PluginInfo) { p.Challenge.Statuses = append(p.Challenge.Statuses, 403) },
		"an answer of the API": func(p *host.PluginInfo) {
			p.Challenge.Answers = append(p.Challenge.Answers, abi.Answer{Name: "n", From: "auth:x/n", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}})
		},
		"an answer kept for long": func(p *host.PluginInfo) { p.Challenge.Keep = 600 },
		"an answer kept":          func(p *host.PluginInfo) { p.Challenge.Answers[0].Keep = true },
	} {
		before, now := plain(), plain()
		gain(&now)
		if changes := Refused(Of(before).Compare(Of(now))); len(changes) == 0 {
			t.Errorf("%s: is not refused", name)
		}
	}
	for name, harmless := range map[string]func(*host.PluginInfo){
		"nothing":                   func(*host.PluginInfo) {},
		"a version":                 func(p *host.PluginInfo) { p.Version = "2.0.0" },
		"a sink less":               func(p *host.PluginInfo) { p.Fields[0].Sinks = p.Fields[0].Sinks[:1] },
		"a group less":              func(p *host.PluginInfo) { p.Uses = nil },
		"an answer less":            func(p *host.PluginInfo) { p.Answers = p.Answers[:1] },
		"no challenge":              func(p *host.PluginInfo) { p.Challenge = nil },
		"a field for settings":      func(p *host.PluginInfo) { p.Fields = append(p.Fields, abi.Field{Name: "n", Kind: abi.KindInteger}) },
		"a field in plain":          func(p *host.PluginInfo) { p.Fields = append(p.Fields, abi.Field{Name: "n", Kind: abi.KindString}) },
		"words, and other defaults": func(p *host.PluginInfo) { p.Summary, p.Fields[0].Doc, p.Fields[0].Required = "x", "x", true },
	} {
		before, now := plain(), plain()
		harmless(&now)
		if changes := Refused(Of(before).Compare(Of(now))); len(changes) != 0 {
			t.Errorf("%s: is refused: %v", name, changes)
		}
	}
}

func example() Plugin {
	return Plugin{
		Name: "acme", Ref: "registry.example/acme/hmac:1.2.0", Manifest: artifact.Digest([]byte("manifest")), Module: artifact.Digest([]byte("module")),
		Version: "1.2.0", Contract: 1, Signer: &signature.Signature{Key: signature.Key{Kind: "minisign", Text: "RWQ"}, Signature: []byte("sig")}, Source: "https://git.example/acme",
		Revision: "abc", Fuel: 1000, Capabilities: Capabilities{"uses": {"sign"}, "field secret": {"to header"}},
	}
}

// A lower version, another signer, a lost signature, another contract and, where nobody signs, another repository are refused, each
// with its reason (threats.md 160 and 161, specification.md "who publishes what nobody signs" and "fuel of describe").
func TestRefusedUpdates(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Plugin)
		want   []Change
	}{
		"nothing":       {func(*Plugin) {}, nil},
		"a new version": {func(p *Plugin) { p.Version, p.Module = "1.10.0", "sha256:x" }, nil},
		"a new signer where there was one": {
			func(p *Plugin) { p.Signer = &signature.Signature{Key: signature.Key{Kind: "minisign", Text: "RWX"}} },
			[]Change{{"signer", []string{"minisign RWQ"}, []string{"minisign RWX"}, WhySigner}},
		},
		"the same key of another kind":     {func(p *Plugin) { p.Signer.Kind = "cosign" }, []Change{{"signer", []string{"minisign RWQ"}, []string{"cosign RWQ"}, WhySigner}}},
		"more fuel":                        {func(p *Plugin) { p.Fuel *= 100 }, nil},
		"no signature":                     {func(p *Plugin) { p.Signer = nil }, []Change{{"signer", []string{"minisign RWQ"}, []string{}, WhyUnsigned}}},
		"a lower version":                  {func(p *Plugin) { p.Version, p.Module = "1.1.9", "sha256:x" }, []Change{{"version", []string{"1.2.0"}, []string{"1.1.9"}, WhyLower}}},
		"a preliminary version":            {func(p *Plugin) { p.Version, p.Module = "1.2.0-rc.1", "sha256:x" }, []Change{{"version", []string{"1.2.0"}, []string{"1.2.0-rc.1"}, WhyLower}}},
		"other bytes of the same version":  {func(p *Plugin) { p.Module = "sha256:x" }, []Change{{"version", []string{"1.2.0"}, []string{"1.2.0"}, WhyLower}}},
		"a version that cannot be ordered": {func(p *Plugin) { p.Version, p.Module = "new", "sha256:x" }, []Change{{"version", []string{"1.2.0"}, []string{"new"}, WhyLower}}},
		"another contract":                 {func(p *Plugin) { p.Contract = 2 }, []Change{{"contract", []string{"1"}, []string{"2"}, WhyContract}}},
		"a sink more":                      {func(p *Plugin) { p.Capabilities["field secret"] = []string{"to header", "to token"} }, []Change{{"field secret", []string{"to header"}, []string{"to header", "to token"}, WhyWider}}},
	} {
		before, now := example(), example()
		c.change(&now)
		if got := Refused(Compare(before, now)); !cmp.Equal(got, c.want) && len(got)+len(c.want) > 0 {
			t.Errorf("%s: %v, and not %v", name, got, c.want)
		}
	}
	before, signed := example(), example()
	before.Signer = nil
	if got := Compare(before, signed); len(got) != 1 || got[0].Why != "" {
		t.Errorf("a signature where there was none: %v", got)
	}
	elsewhere := example()
	elsewhere.Ref = "other.example:5000/acme/hmac@" + elsewhere.Manifest
	if got := Refused(Compare(before, elsewhere)); len(got) != 1 || got[0].Why != WhyRepository {
		t.Errorf("another repository, where nobody signs: %v", got)
	}
	if got := Refused(Compare(example(), elsewhere)); len(got) != 0 {
		t.Errorf("another repository with the same signer: %v", got)
	}
	moved := before
	moved.Ref = "registry.example/acme/hmac:1.3.0"
	if got := Refused(Compare(before, moved)); len(got) != 0 {
		t.Errorf("another tag: %v", got)
	}
}

// A tag that is a version in full names the version of the plugin (threats.md 171). Others may move.
func TestVersionTags(t *testing.T) {
	for tag, want := range map[string]string{
		"1.2.0": "1.2.0", "v1.2.0": "1.2.0", "1.2.0-rc.1": "1.2.0-rc.1", "1.2": "", "1": "", "latest": "", "v": "", "": "", "20260101": "", "1.2.0.1": "", "vv1.2.0": "",
	} {
		if got := VersionOf(tag); got != want {
			t.Errorf("%q: %q, and not %q", tag, got, want)
		}
		if err := CheckTag(tag, "9.9.9"); (err != nil) != (want != "") {
			t.Errorf("%q: err = %v", tag, err)
		}
	}
}

// The newest tag is the highest version above the own one, by the rules of semantic versioning.
func TestTheNewestTag(t *testing.T) {
	tags := []string{"1.2.0", "v1.10.0", "1.9.0", "2.0.0-rc.1", "latest", "3", "1.10", "sha256-00.sig", "\x1b[31m"}
	for version, want := range map[string]string{"1.2.0": "v1.10.0", "1.9.9": "v1.10.0", "1.10.0": "", "2.0.0-alpha": "2.0.0-rc.1", "3.0.0": "", "new": ""} {
		if got := Newest(tags, version); got != want {
			t.Errorf("above %s: %q, and not %q", version, got, want)
		}
	}
}

// unread compares locks without what they know of their file.
var unread = cmpopts.IgnoreUnexported(Lock{})

func named(name string) Plugin {
	p := example()
	p.Name = name
	return p
}

// The same plugins are the same bytes, in whatever order they came, and what was written is read again.
func TestCanonicalLock(t *testing.T) {
	a, b := example(), example()
	b.Name = "beta"
	first, second := &Lock{}, &Lock{}
	first.Put(a)
	first.Put(b)
	second.Put(b)
	second.Put(a)
	second.Put(a)
	one, two := t.TempDir(), t.TempDir()
	testworld.Check(t, errors.Join(first.Write(one), second.Write(two)))
	x, _ := os.ReadFile(filepath.Join(one, Name))
	y, _ := os.ReadFile(filepath.Join(two, Name))
	if string(x) != string(y) || !strings.Contains(string(x), "\n      \"capabilities\": {\n        \"field secret\": [\n") {
		t.Errorf("%s\nand\n%s", x, y)
	}
	again, err := Read(one)
	if err != nil || !cmp.Equal(again, first, unread) {
		t.Errorf("err = %v\ncmp.Diff(again, first, unread) = %s", err, cmp.Diff(again, first, unread))
	}
	if empty, err := Read(t.TempDir()); err != nil || len(empty.Plugins) > 0 {
		t.Errorf("without a lock: %v, %v", empty, err)
	}
}

// A lock that somebody has edited into something else is not read (threats.md 164).
func TestInvalidLock(t *testing.T) {
	text := func(change func(*Plugin)) string {
		p := example()
		change(&p)
		out, _ := json.Marshal(Lock{Format: format, Plugins: []Plugin{p}})
		return string(out)
	}
	good := text(func(*Plugin) {})
	for name, c := range map[string]struct{ text, want string }{
		"of another form":   {strings.Replace(good, `"keywright_lock":1`, `"keywright_lock":2`, 1), "has form 2"},
		"of a newer form":   {strings.NewReplacer(`"keywright_lock":1`, `"keywright_lock":2`, `"name"`, `"newer":true,"name"`).Replace(good), "has form 2"},
		"an unknown member": {strings.Replace(good, `"name"`, `"trusted":true,"name"`, 1), "cannot be read"},
		"a member twice":    {strings.Replace(good, `"name"`, `"version":"0","name"`, 1), "cannot be read"},
		"something behind":  {good + good, "cannot be read"},
		"a path as a name":  {text(func(p *Plugin) { p.Name = "../acme" }), "is no name of a plugin"},
		"a path as digest":  {text(func(p *Plugin) { p.Module = "sha256:../../etc/passwd" }), "its module is no digest"},
		"a long digest":     {text(func(p *Plugin) { p.Manifest += "00" }), "its manifest is no digest"},
		"too large":         {strings.Repeat(" ", maxBytes) + good, "larger than"},
	} {
		testworld.WantError(t, name, testworld.ErrorOf(parse([]byte(c.text))), c.want)
	}
	out, _ := json.Marshal(Lock{Format: format, Plugins: []Plugin{example(), example()}})
	testworld.Fails(parse(out))(t, "is there twice")
}

// A pipe in place of a lock is an error, and does not wait for a writer.
func TestLockFromPipe(t *testing.T) {
	dir := t.TempDir()
	testworld.Check(t, syscall.Mkfifo(filepath.Join(dir, Name), 0o600))
	testworld.Fails(Read(dir))(t, "keywright.lock: it is no regular file")
}

// A plugin that the lock has no room for is not written, so that the lock can still be read (threats.md 172).
func TestALockHasNoRoom(t *testing.T) {
	many, large := &Lock{}, &Lock{}
	for i := range maxPlugins + 1 {
		p := example()
		p.Name = fmt.Sprintf("acme%d", i)
		many.Put(p)
	}
	p := example()
	p.Capabilities["answer code"] = []string{strings.Repeat("x", maxBytes)}
	large.Put(p)
	for want, l := range map[string]*Lock{"has more than 64 plugins": many, "is larger than 1024 KiB": large} {
		dir := t.TempDir()
		good := &Lock{}
		good.Put(example())
		testworld.Check(t, good.Write(dir))
		testworld.WantError(t, want, l.Write(dir), want)
		if again, err := Read(dir); err != nil || !cmp.Equal(again, good, unread) {
			t.Errorf("the lock that was there: %v, %v", again, err)
		}
	}
}

// Bytes are believed by their digest and not by their name, and a changed file is not passed over (threats.md 165).
func TestBytesOnThisMachine(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	places := PlacesOf(dir, cache)
	vendor, content := filepath.Join(dir, VendorDir), []byte("module")
	read := func() (string, error) {
		got, _, err := places.Read(artifact.Digest(content), 100)
		return string(got), err
	}
	if _, err := read(); !errors.Is(err, ErrMissing) {
		t.Errorf("without bytes: %v", err)
	}
	testworld.Check(t, Store(cache, content))
	if got, err := read(); got != "module" || err != nil {
		t.Errorf("from the cache: %q, %v", got, err)
	}
	testworld.Check(t, Store(vendor, content))
	file := filepath.Join(vendor, fileOf(artifact.Digest(content)))
	testworld.Check(t, os.WriteFile(file, []byte("other"), 0o600))
	testworld.Fails(read())(t, "was changed")
	testworld.Check(t, os.WriteFile(file, make([]byte, 101), 0o600))
	testworld.Fails(read())(t, "larger than 100 bytes")
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	testworld.Check(t, errors.Join(os.WriteFile(elsewhere, content, 0o600), os.Remove(file), os.Symlink(elsewhere, file)))
	testworld.Fails(read())(t, "no regular file")
	if _, _, err := places.Read("sha256:../../../etc/passwd", 100); err == nil {
		t.Error("a path is read")
	}
}

// Every plugin of this repository has the same capabilities each time.
func TestStableCapabilities(t *testing.T) {
	for _, name := range plugins.Types() {
		one := Of(inspect(t, name))
		if changes := one.Compare(Of(inspect(t, name))); len(changes) > 0 || len(one["type"]) != 1 {
			t.Errorf("%s: changes = %v", name, changes)
		}
	}
}

// Of two processes that read a lock and write it, the second one is refused, and undoes nothing of the first (threats.md 193).
func TestTwoWriters(t *testing.T) {
	for name, before := range map[string][]Plugin{"a new lock": nil, "one that is there": {named("other")}} {
		dir := t.TempDir()
		if before != nil {
			testworld.Check(t, (&Lock{Plugins: before}).Write(dir))
		}
		first := testworld.Must(Read(dir))(t)
		second := testworld.Must(Read(dir))(t)
		first.Put(named("one"))
		second.Put(named("two"))
		testworld.Check(t, first.Write(dir))
		if err := second.Write(dir); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: the second one writes: %v", name, err)
		}
		first.Put(named("three"))
		if err := first.Write(dir); err != nil {
			t.Errorf("%s: the first one does not write again: %v", name, err)
		}
		got, err := Read(dir)
		if err != nil || len(got.Plugins) != len(before)+2 || got.Find("one") == nil || got.Find("three") == nil {
			t.Errorf("%s: there is %+v, %v", name, got, err)
		}
	}
}

// Of many writers at one time, each is refused or loses nothing of the others.
func TestManyWriters(t *testing.T) {
	const writers = 20
	dir := t.TempDir()
	var all sync.WaitGroup
	wrote := make([]bool, writers)
	for n := range writers {
		all.Go(func() {
			l, err := Read(dir)
			if err != nil {
				t.Error(err)
				return
			}
			l.Put(named(fmt.Sprint("p", n)))
			if err := l.Write(dir); err != nil && !errors.Is(err, ErrChanged) {
				t.Error(err)
			} else {
				wrote[n] = err == nil
			}
		})
	}
	all.Wait()
	got := testworld.Must(Read(dir))(t)
	for n, wrote := range wrote {
		if there := got.Find(fmt.Sprint("p", n)) != nil; there != wrote {
			t.Errorf("%d wrote: %t, and is there: %t", n, wrote, there)
		}
	}
}
