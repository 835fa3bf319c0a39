package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/pluginbuild"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/server/internal/registry"
	"github.com/keywright/keywright/server/internal/registry/artifact"
	"github.com/keywright/keywright/server/internal/registry/install"
	"github.com/keywright/keywright/server/internal/registry/lock"
	"github.com/keywright/keywright/server/internal/registry/scaffold"
	"github.com/keywright/keywright/server/internal/registry/signature"
)

func pluginNewCommand(a *app) *cobra.Command {
	var p scaffold.Plugin
	var lang, checkout string
	c := command("new", arguments("DIR"), func(c *cobra.Command, args []string) (err error) {
		if p.Language, err = language(lang); err != nil {
			return err
		}
		dir := args[0]
		absolute, err := filepath.Abs(dir)
		if err != nil {
			return err
		}
		if p.Name = filepath.Base(absolute); p.Type == "" {
			p.Type = strings.ReplaceAll(p.Name, "-", "_")
		}
		if plugins.Of(p.Type) != nil {
			return fmt.Errorf("%q is the name of a built-in auth type, and no host loads both: give the plugin another one with --type", p.Type)
		}
		return a.newPlugin(c.Context(), p, dir, checkout)
	})
	c.Flags().StringVar(&p.Type, "type", "", "the `TYPE` of auth that the plugin adds; that of the directory's name unless given")
	c.Flags().StringVar(&lang, "lang", string(pluginbuild.Go), "the `LANGUAGE` of the plugin: go, c, assemblyscript or rust")
	c.Flags().StringVar(&checkout, "keywright", "", "the `DIR` of a checkout of Keywright that a plugin in Go is built with")
	return c
}

func language(name string) (pluginbuild.Language, error) {
	var names []string
	for _, l := range pluginbuild.Languages() {
		if string(l) == name {
			return l, nil
		}
		names = append(names, string(l))
	}
	return "", fmt.Errorf("--lang %s is not a language of plugins%s", problem.Quote(host.Printable(name)), problem.DidYouMean(name, names))
}

// newPlugin writes the directory of a plugin, and prints what to do next.
func (a *app) newPlugin(ctx context.Context, p scaffold.Plugin, dir, checkout string) (err error) {
	p.Version = scaffold.Published()
	switch p.Packages = strings.Join(p.Language.Packages(), " "); {
	case p.Language != pluginbuild.Go && checkout != "":
		return fmt.Errorf("--keywright is for plugins in Go: one with --lang %s needs no checkout", p.Language)
	case p.Language == pluginbuild.Go && (p.Version == "" || checkout != ""):
		p.Version = ""
		if p.Checkout, err = scaffold.Checkout(checkout); err != nil {
			return err
		}
	}
	if err := p.Write(dir); err != nil {
		return err
	}
	if p.Language == pluginbuild.Go {
		tidy := exec.CommandContext(ctx, "go", "mod", "tidy")
		tidy.Dir, tidy.Env = dir, append(os.Environ(), "GOWORK=off")
		if out, err := tidy.CombinedOutput(); err != nil {
			return fmt.Errorf("%s is written, but `go mod tidy` fails in it: %w\n%s", dir, err, strings.TrimSpace(string(out)))
		}
	}
	a.out.Printf("%s: a plugin with the auth type %s. The lines to change are marked with CHANGE.\n\n"+
		"  cd %s\n  keywright plugin build\n  keywright plugin test\n", dir, p.Type, dir)
	return nil
}

// fieldsTable returns the fields of a plugin as a table in Markdown.
func fieldsTable(info host.PluginInfo) string {
	var b strings.Builder
	b.WriteString("| field | kind | required | secret | goes to | meaning |\n|-|-|-|-|-|-|\n")
	for _, f := range withSinks(info.Fields) {
		_, _ = fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", f.Name, f.Kind, yes[f.Required], yes[f.Sealed || f.Kind == abi.KindKey],
			strings.Join(f.Sinks, ", "), strings.ReplaceAll(host.Printable(f.Doc), "|", `\|`))
	}
	return b.String()
}

func pluginBuildCommand(a *app) *cobra.Command {
	var check bool
	c := command("build", cobra.ArbitraryArgs, func(c *cobra.Command, dirs []string) error {
		if len(dirs) == 0 {
			dirs = []string{"."}
		}
		return pluginbuild.Each(c.Context(), dirs, func(ctx context.Context, dir string) error { return a.buildPlugin(ctx, dir, check) })
	})
	c.Flags().BoolVar(&check, "check", false, "write no module, and fail if the one that is there is not what the sources result in")
	return c
}

// compiler returns the compiler for the plugin in a directory. It builds TinyGo if there is none.
func (a *app) compiler(ctx context.Context, dir string) (compiler pluginbuild.Compiler, err error) {
	language, err := pluginbuild.LanguageOf(dir)
	if err != nil {
		return compiler, err
	}
	switch language {
	case pluginbuild.C:
		return pluginbuild.FindClang(ctx)
	case pluginbuild.Rust:
		return pluginbuild.FindRust(ctx)
	case pluginbuild.AssemblyScript:
		return pluginbuild.FindAssemblyScript(ctx, dir, func(command string) {
			a.printErr("keywright: %s in %s, once: it installs AssemblyScript", command, dir)
		})
	}
	cache, err := pluginbuild.Cache()
	if err == nil {
		err = pluginbuild.Install(ctx, cache, func() {
			a.printErr("keywright: building TinyGo %s in %s, once: this takes about two minutes", pluginbuild.Pinned, cache)
		})
	}
	if err != nil {
		return compiler, err
	}
	return pluginbuild.FindCompiler(ctx, cache)
}

// buildPlugin builds a plugin and prints what it is, or compares it with the module that is there.
func (a *app) buildPlugin(ctx context.Context, dir string, check bool) error {
	compiler, err := a.compiler(ctx, dir)
	if err != nil {
		return err
	}
	out, err := pluginbuild.OutputPath(dir)
	if err != nil {
		return err
	}
	if check {
		if err := compiler.Check(ctx, dir); err != nil {
			return err
		}
		a.out.Printf("%s is what its sources result in\n", out)
		return nil
	}
	var info host.PluginInfo
	compiler.Accept = func(ctx context.Context, name string, wasm []byte) (_ []string, err error) {
		info, err = host.Inspect(ctx, host.Plugin{Name: name, Wasm: wasm}, host.Limits{})
		return info.SealedFields(), err
	}
	if err := compiler.Build(ctx, dir); err != nil {
		return err
	}
	if err := scaffold.WriteFields(dir, fieldsTable(info)); err != nil {
		return fmt.Errorf("the table of fields in README.md: %w", err)
	}
	if err := a.refreshSchema(ctx, filepath.Join(dir, "connectors.yaml")); err != nil { // such as that of a copy, which names another module
		a.printErr("keywright: the module is built; the schema beside connectors.yaml is not renewed: %v", err)
	}
	a.out.Printf("%s: auth type %s %s, %s\n", out, host.Printable(info.Type), host.Printable(info.Version), kilobytes(info.Size))
	for _, name := range append([]string{info.Type}, info.Aliases...) {
		if plugins.Of(name) != nil {
			a.printErr("keywright: %q is the name of a built-in auth type: give the plugin another one, because no host loads both", host.Printable(name))
		}
	}
	return nil
}

// passwordVariable is the environment variable with the password of a private key.
const passwordVariable = "KEYWRIGHT_SIGN_PASSWORD" //nolint:gosec // a name

type pushFlags struct {
	sign, source, revision, licenses, documentation string
}

func pluginPushCommand(a *app) *cobra.Command {
	var flags pushFlags
	c := command("push", arguments("FILE", "REF"), func(c *cobra.Command, args []string) error {
		ref, err := registry.ParseReference(args[1])
		if err != nil {
			return fmt.Errorf("%q %w", host.Printable(args[1]), err)
		}
		signer, err := a.signer(flags.sign)
		if err != nil {
			return err
		}
		wasm, info, err := inspect(c.Context(), args[0])
		if err != nil {
			return err
		}
		if err := lock.CheckTag(ref.Reference, info.Version); err != nil {
			return err
		}
		bundle, err := flags.build(wasm, info)
		if err != nil {
			return err
		}
		return a.push(c, ref, bundle, info, signer)
	})
	c.Flags().StringVar(&flags.sign, "sign", "", "a `FILE` with the private key that signs")
	c.Flags().StringVar(&flags.source, "source", "", "the `URL` of the sources")
	c.Flags().StringVar(&flags.revision, "revision", "", "the `COMMIT` of the sources")
	c.Flags().StringVar(&flags.licenses, "licenses", "", "the licence, by its `NAME` of SPDX, if the plugin does not say it")
	c.Flags().StringVar(&flags.documentation, "documentation", "", "the `URL` of documentation")
	return c
}

func (f *pushFlags) build(wasm []byte, info host.PluginInfo) (artifact.Made, error) {
	description, err := install.EncodeDescription(info.Description)
	if err != nil {
		return artifact.Made{}, err
	}
	annotations := map[string]string{}
	for name, value := range map[string]string{
		ocispec.AnnotationTitle: info.Type, ocispec.AnnotationDescription: info.Summary, ocispec.AnnotationVersion: info.Version,
		ocispec.AnnotationSource: f.source, ocispec.AnnotationRevision: f.revision, ocispec.AnnotationLicenses: cmp.Or(f.licenses, info.License),
		ocispec.AnnotationDocumentation: f.documentation,
	} {
		if value != "" {
			annotations[name] = value
		}
	}
	return artifact.Make(wasm, description, annotations)
}

// signer reads a private key. For "" it returns nil.
func (a *app) signer(file string) (*signature.Signer, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // there is no signature then
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--sign %s: %w", file, errors.Unwrap(err))
	}
	signer, err := signature.ParsePrivate(text, func() (string, error) {
		if password := a.env(passwordVariable); password != "" {
			return password, nil
		}
		return "", fmt.Errorf("is encrypted: put its password into %s", passwordVariable)
	})
	if err != nil {
		return nil, fmt.Errorf("--sign %s %w", file, err)
	}
	return signer, nil
}

// push pushes a plugin and its signature. The signature comes first, so that nobody gets the plugin without it.
func (a *app) push(c *cobra.Command, ref registry.Reference, bundle artifact.Made, info host.PluginInfo, signer *signature.Signer) error {
	client, err := newRegistry()
	if err != nil {
		return err
	}
	key := signature.Key{}
	if signer != nil {
		s, err := signer.Sign(rand.Reader, bundle.Manifest, ref.Name(), info.Type+" "+info.Version+" "+ref.String())
		if err == nil {
			err = client.PushSignature(c.Context(), ref, artifact.Digest(bundle.Manifest), s)
		}
		if err != nil {
			return err
		}
		key = s.Key
	}
	digest, err := client.Push(c.Context(), ref, bundle)
	if err != nil {
		return err
	}
	a.out.Line("%s@%s, signed by %s", ref.Name(), digest, cmp.Or(key.String(), "nobody"))
	return nil
}
