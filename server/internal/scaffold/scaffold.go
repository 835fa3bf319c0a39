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
)

//go:embed go
var templates embed.FS

// Module is the Go module that plugins require.
const Module = "github.com/keywright/keywright"

// A Plugin describes the directory to write.
type Plugin struct {
	// Name is the name of the directory, and Type that of the auth type.
	Name, Type string
	// Version is the version of Keywright that the plugin requires. Checkout is the directory of its sources, for a version that is
	// not published.
	Version, Checkout string
	// Packages are the Debian packages that the plugin is built with, separated by spaces.
	Packages string
}

var (
	nameSyntax = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)
	typeSyntax = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
)

// names has the path of each file in the new directory, by the name of its template.
var names = map[string]string{
	"main.go.tmpl": "main.go", "main_test.go.tmpl": "main_test.go", "go.mod.tmpl": "go.mod", "README.md.tmpl": "README.md",
	"connectors.yaml.tmpl": "connectors.yaml", "gitignore.tmpl": ".gitignore", "workflow.yml.tmpl": ".github/workflows/plugin.yml",
}

// Write writes the directory dir, which must be empty or not there.
func (p Plugin) Write(dir string) error {
	switch {
	case !nameSyntax.MatchString(p.Name):
		return fmt.Errorf("%q cannot be the name of a plugin's directory: it may have a to z, 0 to 9, _ and -, and begins with a letter", p.Name)
	case !typeSyntax.MatchString(p.Type):
		return fmt.Errorf("%q cannot be an auth type: it may have a to z, 0 to 9 and _, and begins with a letter", p.Type)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if there, err := os.ReadDir(dir); err != nil || len(there) > 0 {
		return errors.Join(err, fmt.Errorf("%s is not empty: name a directory that is, or one that is not there", dir))
	}
	all, err := template.New("").Option("missingkey=error").ParseFS(templates, "go/*.tmpl")
	if err != nil {
		return err
	}
	for name, to := range names {
		var text bytes.Buffer
		if err := all.ExecuteTemplate(&text, name, p); err != nil {
			return err
		}
		to = filepath.Join(dir, to)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text.Bytes(), 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// Keywright returns the version of Keywright that this program was built from, and the directory of its sources if that version is
// not a published one. checkout, if not empty, is the directory that the user has named.
func Keywright(checkout string) (version, dir string, err error) {
	if info, ok := debug.ReadBuildInfo(); ok && checkout == "" {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == Module && m.Replace == nil && semver.IsValid(m.Version) && semver.Prerelease(m.Version) == "" && semver.Build(m.Version) == "" {
				return m.Version, "", nil
			}
		}
	}
	dir = checkout
	if _, file, _, ok := runtime.Caller(0); ok && dir == "" {
		dir = filepath.Join(filepath.Dir(file), "../../..")
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", "", err
	}
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", "", err
	}
	if !strings.HasPrefix(string(mod), "module "+Module+"\n") {
		return "", "", errors.New("there is no published version of Keywright yet, and its sources are not where this program was built: name the directory of a checkout with --keywright")
	}
	return "v0.0.0", dir, nil
}

// Marks of the table of fields in the README of a plugin.
const (
	fieldsBegin = "<!-- fields -->\n"
	fieldsEnd   = "<!-- end of fields -->"
)

// WriteFields replaces the table of fields in the README.md of a directory. It does nothing if there is none.
func WriteFields(dir, table string) error {
	name := filepath.Join(dir, "README.md")
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(text), fieldsBegin)
	_, after, ends := strings.Cut(rest, fieldsEnd)
	changed := before + fieldsBegin + table + fieldsEnd + after
	if !begins || !ends || changed == string(text) {
		return nil
	}
	return os.WriteFile(name, []byte(changed), 0o644)
}
