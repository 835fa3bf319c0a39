// Package scaffold writes the directory of a new plugin.
package scaffold

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"text/template"

	"golang.org/x/mod/semver"

	"github.com/keywright/keywright/internal/pluginbuild"
	"github.com/keywright/keywright/sdk/assemblyscript"
	"github.com/keywright/keywright/sdk/c"
	"github.com/keywright/keywright/sdk/rust"
)

//go:embed common go c assemblyscript rust
var templates embed.FS

// Module is the Go module that plugins require.
const Module = "github.com/keywright/keywright"

// A Plugin describes the directory to write.
type Plugin struct {
	// Language is the language of the plugin.
	Language pluginbuild.Language
	// Name is the name of the directory, and Type that of the auth type.
	Name, Type string
	// Version is the version of Keywright that the plugin requires, or empty if none is published. Checkout is the directory of its
	// sources then, for a plugin in Go.
	Version, Checkout string
	// Packages are the Debian packages that the plugin is built with, separated by spaces.
	Packages string
}

// Published reports whether there is a version of Keywright that others can get.
func (p Plugin) Published() bool { return p.Version != "" }

// Variable returns the end of the name of the environment variable with the secret of connectors.yaml.
func (p Plugin) Variable() string { return strings.ToUpper(p.Type) }

var (
	nameSyntax = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)
	typeSyntax = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
)

// Check returns an error if the plugin cannot have its name or its type.
func (p Plugin) Check() error {
	switch {
	case !nameSyntax.MatchString(p.Name):
		return fmt.Errorf("%q cannot be the name of a plugin's directory: it may have a to z, 0 to 9, _ and -, and begins with a letter", p.Name)
	case p.Name == "keywright" && p.Language != pluginbuild.Go:
		return errors.New(`"keywright" cannot be the name of the plugin: the file of the SDK beside its sources has it`)
	case !typeSyntax.MatchString(p.Type):
		return fmt.Errorf("%q cannot be an auth type: it may have a to z, 0 to 9 and _, and begins with a letter", p.Type)
	}
	return nil
}

// files returns the files of the new directory by their paths in it. A template x.tmpl makes the file x, unless path has another name for
// it. Those in the directory common are for all languages.
func (p Plugin) files() (map[string][]byte, error) {
	files := map[string][]byte{}
	switch p.Language {
	case pluginbuild.C:
		files["keywright.h"], files["keywright.cfg"] = c.Header, c.Options
	case pluginbuild.AssemblyScript:
		files["keywright.ts"] = assemblyscript.Module
	case pluginbuild.Rust:
		files["keywright.rs"], files["keywright.args"] = rust.Module, rust.Options
	}
	for _, dir := range []string{"common", string(p.Language)} {
		all, err := template.New("").Option("missingkey=error").ParseFS(templates, dir+"/*.tmpl")
		if err != nil {
			return nil, err
		}
		for _, t := range all.Templates() {
			var text bytes.Buffer
			if err := t.Execute(&text, p); err != nil {
				return nil, err
			}
			files[p.path(strings.TrimSuffix(t.Name(), ".tmpl"))] = text.Bytes()
		}
	}
	return files, nil
}

// path returns the path in the new directory of the file with which a template begins.
func (p Plugin) path(template string) string {
	switch template {
	case "gitignore":
		return ".gitignore"
	case "workflow.yml":
		return ".github/workflows/plugin.yml"
	case "main.c", "main.ts", "main.rs":
		return p.Name + filepath.Ext(template)
	}
	return template
}

// Write writes the directory dir, which must be empty or not there.
func (p Plugin) Write(dir string) error {
	if err := p.Check(); err != nil {
		return err
	}
	files, err := p.files()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if there, err := os.ReadDir(dir); err != nil || len(there) > 0 {
		return errors.Join(err, fmt.Errorf("%s is not empty: name a directory that is, or one that is not there", dir))
	}
	for to, text := range files {
		to = filepath.Join(dir, filepath.FromSlash(to))
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// Published returns the version of Keywright that this program was built from, or an empty text if that version is not a published one.
func Published() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == Module && m.Replace == nil && semver.IsValid(m.Version) && semver.Prerelease(m.Version) == "" && semver.Build(m.Version) == "" {
			return m.Version
		}
	}
	return ""
}

// Checkout returns checkout, or if it is empty the directory of the sources that this program was built from.
func Checkout(checkout string) (dir string, err error) {
	dir = checkout
	if _, file, _, ok := runtime.Caller(0); ok && dir == "" {
		dir = filepath.Join(filepath.Dir(file), "../../../..")
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if !strings.HasPrefix(string(mod), "module "+Module+"\n") {
		return "", errors.New("there is no published version of Keywright yet, and its sources are not where this program was built: name the directory of a checkout with --keywright")
	}
	return dir, nil
}

// WriteFields replaces the table of fields in the README.md of a directory. It does nothing if there is none.
func WriteFields(dir, table string) error {
	const fieldsBegin, fieldsEnd = "<!-- fields -->\n", "<!-- end of fields -->"
	name := filepath.Join(dir, "README.md")
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	head, rest, begins := strings.Cut(string(text), fieldsBegin)
	_, tail, ends := strings.Cut(rest, fieldsEnd)
	changed := head + fieldsBegin + table + fieldsEnd + tail
	if !begins || !ends || changed == string(text) {
		return nil
	}
	return os.WriteFile(name, []byte(changed), 0o644)
}
