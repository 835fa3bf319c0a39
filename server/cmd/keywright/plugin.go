package main

import (
	"context"
	_ "embed" // for meaning.txt
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/registry/install"
	"github.com/keywright/keywright/server/internal/registry/lock"
	"github.com/keywright/keywright/server/internal/terminal"
)

type pluginList []pluginItem

type pluginItem struct {
	Type    string   `json:"type"`
	Aliases []string `json:"aliases"`
	Version string   `json:"version"`
	Summary string   `json:"summary"`
	// Size is the size of the module, in bytes.
	Size    int    `json:"size"`
	SHA256  string `json:"sha256"`
	BuiltIn bool   `json:"built_in"`
	// Plugin is the path in the configuration, or "built-in".
	Plugin string   `json:"plugin"`
	Grants []string `json:"grants"`
}

func pluginListCommand(a *app) *cobra.Command {
	var flags configFlags
	c := a.jsonCommand("list", nil, func(c *cobra.Command, _ []string) (document, error) {
		infos, err := a.plugins(c, &flags)
		if err != nil {
			return nil, err
		}
		list := pluginList{}
		for _, p := range infos {
			list = append(list, pluginItem{
				p.Type, append([]string{}, p.Aliases...), p.Version, p.Summary, p.Size, p.SHA256, p.BuiltIn, p.Name, append([]string{}, p.Grants...),
			})
		}
		return list, nil
	})
	flags.add(c, "")
	return c
}

func (list pluginList) print(a *app) {
	terminal.List(a.out, "", list, func(p pluginItem) []string {
		name := p.Type
		if len(p.Aliases) > 0 {
			name += " (" + strings.Join(p.Aliases, ", ") + ")"
		}
		return []string{name, host.Printable(p.Version), host.Printable(p.Summary)}
	}, "TYPE (ALIASES)", "VERSION", "SUMMARY")
}

// plugins returns the built-in plugins, and those that a configuration adds.
func (a *app) plugins(c *cobra.Command, f *configFlags) ([]host.PluginInfo, error) {
	infos, err := a.builtIns(c.Context(), host.Config{})
	if err != nil || f.file == "" {
		return infos, err
	}
	set, err := a.load(c, f, func(o *connectors.Options) { o.Host.Egress.AllowHTTP = true }) // nothing is sent
	if err != nil {
		return nil, err
	}
	added := slices.DeleteFunc(set.Host.Plugins(), func(p host.PluginInfo) bool { return p.BuiltIn })
	return append(infos, added...), nil
}

// builtIns returns the built-in plugins, as a host loads them.
func (a *app) builtIns(ctx context.Context, config host.Config) ([]host.PluginInfo, error) {
	config.BuiltIns = connectors.BuiltIns(plugins.Types()...)
	h, err := host.New(ctx, config)
	if err != nil {
		return nil, err
	}
	a.cleanup(h.Close)
	return h.Plugins(), nil
}

// inspection is the document of plugin inspect.
type inspection struct {
	abi.Description
	SHA256 string `json:"sha256"`
	// Size is the size of the module, in bytes.
	Size int `json:"size"`
	// Fresh is the reason why each call needs a new instance. It is empty if instances are pooled.
	Fresh string `json:"fresh"`
	// Imports holds the imported functions as module.name, in the order of the module.
	Imports []string `json:"imports"`
	// Exports holds the exported functions, sorted.
	Exports []string `json:"exports"`
	// Schema is a JSON Schema of a connector's auth object.
	Schema json.RawMessage `json:"schema"`
}

func pluginInspectCommand(a *app) *cobra.Command {
	c := a.jsonCommand("inspect", arguments("TYPE or FILE"), func(c *cobra.Command, args []string) (document, error) {
		_, plugin, err := inspect(c.Context(), args[0])
		if err != nil {
			return nil, err
		}
		plugin.Fields = withSinks(plugin.Fields)
		schema, err := plugin.Schema()
		exports := slices.Sorted(slices.Values(plugin.Exports))
		return &inspection{plugin.Description, plugin.SHA256, plugin.Size, plugin.NotPooled, plugin.Imports, exports, schema}, err
	})
	c.Flags().Lookup("json").Usage = "write JSON, with a JSON Schema of the configuration"
	return c
}

// inspect returns the module of a built-in auth type or of a file, and what it says of itself in the sandbox.
func inspect(ctx context.Context, name string) (wasm []byte, plugin host.PluginInfo, err error) {
	if wasm, err = moduleOf(name); err == nil {
		plugin, err = host.Inspect(ctx, host.Plugin{Name: name, Wasm: wasm}, host.Limits{})
	}
	return wasm, plugin, err
}

// moduleOf returns the module of a built-in auth type or of a file.
func moduleOf(name string) ([]byte, error) {
	if wasm := plugins.Of(name); wasm != nil {
		return wasm, nil
	}
	wasm, err := files.Read(name, host.Limits{}.WithDefaults().ModuleBytes) // one byte more, so that the host refuses a longer one
	if errors.Is(err, fs.ErrNotExist) {
		if name == filepath.Base(name) && filepath.Ext(name) == "" {
			return nil, fmt.Errorf("%s is neither a file nor a built-in auth type%s", host.Printable(name), problem.DidYouMean(name, plugins.Types()))
		}
		return nil, fmt.Errorf("%s: there is no such file", name)
	}
	return wasm, err
}

// withSinks returns fields with the sink that every key has, even if its plugin does not declare it.
func withSinks(fields []abi.Field) []abi.Field {
	fields = slices.Clone(fields)
	for i := range fields {
		if fields[i].Kind == abi.KindKey {
			fields[i].Sinks = []string{contract.SinkSign}
		}
	}
	return fields
}

func (i *inspection) print(a *app) {
	pair := func(name, value string) { a.out.Pair(10, name, value) }
	pair("type", i.Type)
	pair("aliases", strings.Join(i.Aliases, ", "))
	pair("version", host.Printable(i.Version))
	pair("summary", host.Printable(i.Summary))
	pair("homepage", i.Homepage)
	pair("license", i.License)
	pair("abi", fmt.Sprintf("%d, of the contract between host and plugin", i.ABI))
	pair("size", fmt.Sprintf("%s (%d bytes)", kilobytes(i.Size), i.Size))
	pair("sha256", i.SHA256)
	if i.Fresh == "" {
		pair("instances", "used again, each put back to what it was after its initialisation")
	} else {
		pair("instances", "a new one for each call: "+i.Fresh)
	}
	if i.Anonymous {
		pair("anonymous", "requests without a credential are allowed")
	}
	states := make([]string, len(i.State))
	for n, s := range i.State {
		states[n] = s.Name
	}
	pair("state", strings.Join(states, ", "))
	if i.Consent {
		pair("consent", "users give consent in a browser, and requests are authenticated with what they granted")
	}
	pair("uses", strings.Join(i.Uses, ", "))
	imports := strings.Join(slices.Sorted(slices.Values(i.Imports)), " ")
	pair("imports", strings.ReplaceAll(imports, "extism:host/", "")) // every plugin imports from there
	exports := slices.DeleteFunc(slices.Clone(i.Exports), func(name string) bool { return !slices.Contains(contract.Exports, name) })
	pair("exports", strings.Join(exports, " ")) // those of the contract, and none that compilers add
	if len(i.Fields) > 0 {
		printFields(a.out, i.Fields)
		a.out.Printf("\n")
		a.out.Line("SEALED: the plugin gets a reference, and the host puts the value in.")
		a.out.Line("SINKS: where the host puts secrets of this field in. header and query: of the request; token: of a token request; " +
			"claim: of a JWT; sign: it signs, and goes nowhere.")
	}
}

// printFields prints an empty line and the table of a plugin's fields, with printable texts, since a publisher may have written them.
func printFields(p *terminal.Printer, fields []abi.Field) {
	p.Printf("\n")
	terminal.List(p, "", fields, func(f abi.Field) []string {
		return []string{
			host.Printable(f.Name), host.Printable(f.Kind), yes[f.Required], yes[f.Sealed || f.Kind == abi.KindKey],
			host.Printable(strings.Join(f.Sinks, ",")), meaning(f),
		}
	}, "FIELD", "KIND", "REQUIRED", "SEALED", "SINKS", "MEANING")
}

//go:embed meaning.txt
var meaningText string

var meaningTemplate = template.Must(template.New("meaning.txt").Funcs(template.FuncMap{"join": strings.Join}).Parse(meaningText))

// meaning returns the documentation of a field with its permitted values and its default.
func meaning(f abi.Field) string {
	var b strings.Builder
	_ = meaningTemplate.Execute(&b, f) // it names fields that there are
	return host.Printable(strings.TrimSpace(b.String()))
}

// publication is the document of plugin info.
type publication struct {
	Ref      string `json:"ref"`
	Manifest string `json:"manifest"`
	Module   string `json:"module"`
	// Size is the size of the module, in bytes.
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations"`
	// Signed has the keys that came with signatures which are right.
	Signed      []string         `json:"signed"`
	Description *abi.Description `json:"description"`
}

func pluginInfoCommand(a *app) *cobra.Command {
	return a.jsonCommand("info", arguments("REF"), func(c *cobra.Command, args []string) (document, error) { return publicationAt(c.Context(), args[0]) })
}

// publicationAt asks the registry of a reference for what was published.
func publicationAt(ctx context.Context, reference string) (*publication, error) {
	client, err := newRegistry()
	if err != nil {
		return nil, err
	}
	ref, found, signatures, err := client.Find(ctx, reference)
	if err != nil {
		return nil, err
	}
	text, err := client.Description(ctx, ref, found)
	if err != nil {
		return nil, err
	}
	p := &publication{
		Ref: ref.String(), Manifest: found.Digest, Module: found.Module.Digest.String(), Size: found.Module.Size, Annotations: map[string]string{}, Signed: []string{},
	}
	for name, value := range found.Annotations {
		p.Annotations[host.Printable(name)] = host.Printable(value)
	}
	for _, s := range signatures {
		if s.Verify(s.Key, found.Text) == nil {
			p.Signed = append(p.Signed, s.Key.String())
		}
	}
	if text != nil {
		p.Description, err = install.DecodeDescription(text)
	}
	return p, err
}

func (p *publication) print(a *app) {
	pair := func(name, value string) { a.out.Pair(15, name, value) }
	pair("reference", p.Ref)
	pair("manifest", p.Manifest)
	pair("module", fmt.Sprintf("%s, %s", p.Module, kilobytes(int(p.Size))))
	for _, name := range []string{
		ocispec.AnnotationTitle, ocispec.AnnotationVersion, ocispec.AnnotationDescription, ocispec.AnnotationLicenses,
		ocispec.AnnotationSource, ocispec.AnnotationRevision, ocispec.AnnotationDocumentation,
	} {
		pair(strings.TrimPrefix(name, "org.opencontainers.image."), p.Annotations[name])
	}
	if p.Description != nil {
		pair("homepage", host.Printable(p.Description.Homepage))
	}
	pair("signed by", strings.Join(p.Signed, ", "))
	if p.Description != nil && len(p.Description.Fields) > 0 {
		printFields(a.out, withSinks(p.Description.Fields))
	}
}

// comparison is the document of plugin diff.
type comparison struct {
	// Wider reports whether some change is refused until an operator accepts it.
	Wider   bool          `json:"wider"`
	Changes []lock.Change `json:"changes"`
}

func pluginDiffCommand(a *app) *cobra.Command {
	return a.jsonCommand("diff", arguments("OLD", "NEW"), func(c *cobra.Command, args []string) (document, error) {
		var versions [2]lock.Plugin
		for i, name := range args {
			_, info, err := inspect(c.Context(), name)
			if err != nil {
				return nil, err
			}
			versions[i] = lock.Describe(info)
		}
		changes := lock.Compare(versions[0], versions[1])
		wider := len(lock.Refused(changes)) > 0
		return comparison{wider, append([]lock.Change{}, changes...)}, reportUnless(!wider)
	})
}

func (c comparison) print(a *app) { printChanges(a.out, c.Changes) }

// printChanges prints the changes of a plugin. Its texts come from plugins, so they are made printable.
func printChanges(p *terminal.Printer, changes []lock.Change) {
	terminal.List(p, "nothing is different", changes, func(c lock.Change) []string {
		return []string{host.Printable(c.What), listing(c.Before), listing(c.Now), c.Why}
	}, "WHAT", "BEFORE", "NOW", "REFUSED")
}

// listing returns values for a table. A digest is cut, and a hyphen stands for nothing. Each value is made printable for itself, so that a
// long one does not hide the others.
func listing(values []string) string {
	if len(values) == 0 {
		return "-"
	}
	all := make([]string, len(values))
	for i, value := range values {
		all[i] = host.Printable(value)
		if rest, ok := strings.CutPrefix(value, "sha256:"); ok && len(rest) == 64 {
			all[i] = "sha256:" + rest[:12] + "…"
		}
	}
	return strings.Join(all, ", ")
}

// yes is the word for true in a table.
var yes = map[bool]string{true: "yes"}

func kilobytes(bytes int) string { return fmt.Sprintf("%.1f kB", float64(bytes)/1000) }
