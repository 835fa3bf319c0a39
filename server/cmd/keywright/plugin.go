package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/admission"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/terminal"
)

func (a *app) plugin() *cobra.Command {
	c := &cobra.Command{
		Use:   "plugin",
		Short: "List auth types, and write, build and publish plugins",
		Args:  cobra.ArbitraryArgs,
		RunE:  noCommand,
	}
	c.AddCommand(a.pluginNew(), a.pluginBuild(), a.pluginTest(), a.pluginConform(), a.pluginList(), a.pluginInspect(), a.pluginDiff(), a.pluginPush(), a.pluginInfo(), a.pluginAdd(), a.pluginUpdate(), a.pluginVerify(), a.pluginVendor(), a.pluginAudit())
	return c
}

// listed is an item of the list that plugin list --json writes.
type listed struct {
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

func (a *app) pluginList() *cobra.Command {
	var flags configFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "list [-c FILE]",
		Short: "List the auth types: the built-in ones, and with -c those that a configuration adds",
		Args:  arguments(),
		RunE: a.orJSON(&asJSON, func(c *cobra.Command, _ []string) error {
			infos, err := a.plugins(c, &flags)
			if err != nil {
				return err
			}
			if asJSON {
				list := []listed{}
				for _, p := range infos {
					list = append(list, listed{
						Type: p.Type, Aliases: orEmpty(p.Aliases), Version: p.Version, Summary: p.Summary, Size: p.Size,
						SHA256: p.SHA256, BuiltIn: p.BuiltIn, Plugin: p.Name, Grants: orEmpty(p.Grants),
					})
				}
				return a.writeJSON(list)
			}
			rows := [][]string{{"TYPE (ALIASES)", "VERSION", "SUMMARY"}}
			for _, p := range infos {
				name := p.Type
				if len(p.Aliases) > 0 {
					name += " (" + strings.Join(p.Aliases, ", ") + ")"
				}
				rows = append(rows, []string{name, host.Printable(p.Version), host.Printable(p.Summary)})
			}
			return terminal.Table(a.out, terminal.StyleOf(a.out, a.env), terminal.Columns(a.out), rows)
		}),
	}
	flags.add(c, "")
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON, for machines")
	c.DisableFlagsInUseLine = true
	return c
}

// plugins returns the built-in plugins, and those that a configuration adds.
func (a *app) plugins(c *cobra.Command, f *configFlags) ([]host.PluginInfo, error) {
	ctx := c.Context()
	h, err := host.New(ctx, host.Config{BuiltIns: connectors.BuiltIns(plugins.Types()...)})
	if err != nil {
		return nil, err
	}
	defer h.Close(context.WithoutCancel(ctx))
	infos := h.Plugins()
	if f.file == "" {
		return infos, nil
	}
	options, err := a.options(c, f)
	if err != nil {
		return nil, err
	}
	options.Host.Egress.AllowHTTP = true // nothing is sent
	set, err := connectors.Load(ctx, f.file, options)
	if err != nil {
		return nil, err
	}
	defer closeSet(ctx, set)
	added := slices.DeleteFunc(set.Host.Plugins(), func(p host.PluginInfo) bool { return p.BuiltIn })
	return append(infos, added...), nil
}

// inspected is the document that plugin inspect --json writes.
type inspected struct {
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

func (a *app) pluginInspect() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "inspect TYPE|FILE",
		Short: "Show what a plugin is, what it uses, and the fields of its configuration",
		Long: "Shows what a plugin is, what it uses, and the fields of its configuration. TYPE is a built-in auth type or an alias " +
			"of one, FILE a compiled plugin; a file that is called like a type is ./TYPE.",
		Args: arguments("TYPE or FILE"),
		RunE: a.orJSON(&asJSON, func(c *cobra.Command, args []string) error {
			wasm, err := moduleOf(args[0])
			if err != nil {
				return err
			}
			plugin, err := host.Inspect(c.Context(), host.Plugin{Name: args[0], Wasm: wasm}, host.Limits{})
			if err != nil {
				return err
			}
			plugin.Fields = withSinks(plugin.Fields)
			imports, exports, err := functions(wasm)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if asJSON {
				schema, err := plugin.Schema()
				if err != nil {
					return err
				}
				return a.writeJSON(inspected{plugin.Description, plugin.SHA256, plugin.Size, plugin.NotPooled, imports, exports, schema})
			}
			return a.writeInspected(plugin, imports, exports)
		}),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON, with a JSON Schema of the configuration")
	c.DisableFlagsInUseLine = true
	return c
}

// moduleOf returns the module of a built-in auth type or of a file.
func moduleOf(name string) ([]byte, error) {
	if wasm := plugins.Of(name); wasm != nil {
		return wasm, nil
	}
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		if name == filepath.Base(name) && filepath.Ext(name) == "" {
			return nil, fmt.Errorf("%s is neither a file nor a built-in auth type%s", host.Printable(name), problem.DidYouMean(name, plugins.Types()))
		}
		return nil, fmt.Errorf("%s: there is no such file", name)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	limit := host.Limits{}.WithDefaults().ModuleBytes
	return io.ReadAll(io.LimitReader(file, int64(limit)+1)) // one byte more, so that the host refuses a longer one
}

// withSinks returns fields with the sink that every key has, even if its plugin does not declare it.
func withSinks(fields []abi.Field) []abi.Field {
	fields = slices.Clone(fields)
	for i := range fields {
		if fields[i].Kind == abi.KindKey {
			fields[i].Sinks = []string{abi.SinkSign}
		}
	}
	return fields
}

// functions returns the names of the functions that a module imports and exports.
func functions(wasm []byte) (imports, exports []string, err error) {
	limits := host.Limits{}.WithDefaults()
	module, err := admission.Admit(wasm, admission.Limits{ModuleBytes: limits.ModuleBytes, MemoryBytes: limits.MemoryBytes, Fuel: limits.Fuel})
	if err != nil {
		return nil, nil, err
	}
	for _, i := range module.Imports {
		imports = append(imports, i.Module+"."+i.Name)
	}
	return imports, slices.Sorted(slices.Values(module.Exports)), nil
}

func (a *app) writeInspected(p host.PluginInfo, imports, exports []string) error {
	s, width := terminal.StyleOf(a.out, a.env), terminal.Columns(a.out)
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s%s\n", s.Dim(terminal.Pad(name, 10)), strings.Join(terminal.Wrap(value, max(width-11, 0)), "\n"+strings.Repeat(" ", 10)))
		}
	}
	line("type", p.Type)
	line("aliases", strings.Join(p.Aliases, ", "))
	line("version", host.Printable(p.Version))
	line("summary", host.Printable(p.Summary))
	line("homepage", p.Homepage)
	line("license", p.License)
	line("abi", fmt.Sprintf("%d, of the contract between host and plugin", p.ABI))
	line("size", fmt.Sprintf("%s (%d bytes)", kilobytes(p.Size), p.Size))
	line("sha256", p.SHA256)
	if p.NotPooled == "" {
		line("instances", "used again, each put back to what it was after its initialisation")
	} else {
		line("instances", "a new one for each call: "+p.NotPooled)
	}
	if p.Anonymous {
		line("anonymous", "requests without a credential are allowed")
	}
	states := make([]string, len(p.State))
	for i, s := range p.State {
		states[i] = s.Name
	}
	line("state", strings.Join(states, ", "))
	if p.Consent {
		line("consent", "users give consent in a browser, and requests are authenticated with what they granted")
	}
	line("uses", strings.Join(p.Uses, ", "))
	line("imports", strings.Join(short(imports), " "))
	line("exports", strings.Join(ours(exports), " "))
	if len(p.Fields) > 0 {
		b.WriteByte('\n')
		rows := [][]string{{"FIELD", "KIND", "REQUIRED", "SEALED", "SINKS", "MEANING"}}
		for _, f := range p.Fields {
			rows = append(rows, []string{f.Name, f.Kind, yes(f.Required), yes(f.Sealed || f.Kind == abi.KindKey), strings.Join(f.Sinks, ","), meaning(f)})
		}
		if err := terminal.Table(&b, s, width, rows); err != nil {
			return err
		}
		b.WriteByte('\n')
		paragraph(&b, width, 2, "SEALED: the plugin gets a reference, and the host puts the value in.")
		paragraph(&b, width, 2, "SINKS: where the host puts secrets of this field in. header and query: of the request; token: of a token request; claim: of a JWT; sign: it signs, and goes nowhere.")
	}
	_, err := fmt.Fprint(a.out, b.String())
	return err
}

// short returns imports, sorted, without the prefix of the modules that every plugin imports from.
func short(imports []string) []string {
	names := make([]string, len(imports))
	for i, name := range imports {
		names[i] = strings.TrimPrefix(name, "extism:host/")
	}
	slices.Sort(names)
	return names
}

// ours returns the exports of the contract. Compilers add others, which are ignored.
func ours(exports []string) []string {
	return slices.DeleteFunc(slices.Clone(exports), func(name string) bool {
		return !slices.Contains(abi.Exports, name)
	})
}

// meaning returns the documentation of a field with its permitted values and its default.
func meaning(f abi.Field) string {
	text := f.Doc
	if len(f.Enum) > 0 {
		text += " One of " + strings.Join(f.Enum, ", ") + "."
	}
	if f.Minimum != nil {
		text += fmt.Sprintf(" At least %d.", *f.Minimum)
	}
	if f.Maximum != nil {
		text += fmt.Sprintf(" At most %d.", *f.Maximum)
	}
	if f.Pattern != "" {
		text += " Matches " + f.Pattern + " from beginning to end."
	}
	for _, condition := range f.RequiredIf {
		text += fmt.Sprintf(" Required if %s.", condition)
	}
	for i, condition := range f.OnlyIf {
		text += fmt.Sprintf("%s if %s", map[bool]string{true: " Only", false: ", or"}[i == 0], condition)
	}
	if len(f.OnlyIf) > 0 {
		text += "."
	}
	if f.Default != "" {
		text += " Default " + f.Default + "."
	}
	if len(f.Aliases) > 0 {
		text += " Formerly " + strings.Join(f.Aliases, ", ") + "."
	}
	if f.Obtain != "" {
		text += " " + f.Obtain
	}
	return host.Printable(strings.TrimSpace(text))
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}

func kilobytes(bytes int) string { return fmt.Sprintf("%.1f kB", float64(bytes)/1000) }

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
