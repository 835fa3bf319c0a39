// Package constants compares the constants of the plugin contract with those of the SDKs for C, AssemblyScript and Rust, between two
// comments. They are those of package sdk, under the same names, and the limits of the contract. Their values come from packages
// abi and contract. With -update, the test writes them:
//
//	go generate ./tools/constants
package constants

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

//go:generate go test . -update

var update = flag.Bool("update", false, "write the constants into the SDKs")

const root = "../.."

// The comments that the constants stand between.
const (
	begins = "// Constants of the contract. go generate ./tools/constants writes them.\n"
	ends   = "// End of the constants.\n"
)

// sdks has the files with constants, and how each writes one.
var sdks = map[string]func(constant) string{
	"sdk/c/keywright.h": func(c constant) string {
		if c.text() {
			return fmt.Sprintf("#define KW_%s KW(%s)\n", c.name, c.value)
		}
		return fmt.Sprintf("#define KW_%s %s\n", c.name, c.value)
	},
	"sdk/assemblyscript/keywright.ts": func(c constant) string {
		if c.text() {
			return fmt.Sprintf("export const %s: string = %s;\n", c.name, c.value)
		}
		return fmt.Sprintf("export const %s: i64 = %s;\n", c.name, c.value)
	},
	"sdk/rust/keywright.rs": func(c constant) string {
		if c.text() {
			return fmt.Sprintf("pub const %s: &str = %s;\n", c.name, c.value)
		}
		return fmt.Sprintf("pub const %s: i64 = %s;\n", c.name, c.value)
	},
}

// updated returns the file of an SDK with the constants of the contract.
func updated(root, name string) (string, error) {
	constants, err := constantsOf(root)
	if err != nil {
		return "", err
	}
	source, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return "", err
	}
	before, rest, found := strings.Cut(string(source), begins)
	_, after, closed := strings.Cut(rest, ends)
	if !found || !closed {
		return "", fmt.Errorf("%s does not have the lines %q and %q", name, begins, ends)
	}
	var list strings.Builder
	for _, c := range constants {
		list.WriteString(sdks[name](c))
	}
	return before + begins + list.String() + ends + after, nil
}

// constant is a constant of the contract. The value is a literal, which is the same in Go, C, AssemblyScript and Rust.
type constant struct{ name, value string }

func (c constant) text() bool { return c.value[0] == '"' }

// constantsOf returns the constants in the order of the sources.
func constantsOf(root string) (list []constant, err error) {
	values := map[string]string{}
	var limits []constant
	for _, dir := range []string{"internal/contract", "abi"} {
		declared, err := declared(filepath.Join(root, dir))
		if err != nil {
			return nil, err
		}
		for _, c := range declared {
			values[filepath.Base(dir)+"."+c.name] = c.value
			if strings.HasPrefix(c.name, "Max") {
				limits = append(limits, constant{upper(c.name), c.value})
			}
		}
	}
	offered, err := declared(filepath.Join(root, "sdk"))
	if err != nil {
		return nil, err
	}
	for _, c := range offered {
		if value := values[c.value]; value != "" {
			list = append(list, constant{upper(c.name), value})
		}
	}
	return append(list, limits...), nil
}

// declared returns the exported constants of a package whose values are literals or constants of other packages.
func declared(dir string) (list []constant, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			if group, ok := d.(*ast.GenDecl); ok && group.Tok == token.CONST {
				for _, s := range group.Specs {
					list = append(list, literals(s.(*ast.ValueSpec))...)
				}
			}
		}
	}
	return list, nil
}

func literals(s *ast.ValueSpec) (list []constant) {
	for i, name := range s.Names {
		if !name.IsExported() || i >= len(s.Values) {
			continue
		}
		switch value := s.Values[i].(type) {
		case *ast.BasicLit:
			list = append(list, constant{name.Name, value.Value})
		case *ast.SelectorExpr:
			list = append(list, constant{name.Name, fmt.Sprint(value.X, ".", value.Sel)})
		}
	}
	return list
}

// word matches the end of a word in a name and the beginning of the next, such as tS in DigestSHA256.
var word = regexp.MustCompile(`([a-z])([A-Z])|([A-Z0-9])([A-Z][a-z])`)

// upper returns a name as constants are written in C, such as DIGEST_SHA256 for DigestSHA256.
func upper(name string) string {
	return strings.ToUpper(word.ReplaceAllString(strings.Replace(name, "MACSHA", "MAC_SHA", 1), "${1}${3}_${2}${4}"))
}

func TestSDKConstants(t *testing.T) {
	for name := range sdks {
		want, err := updated(root, name)
		if err != nil {
			t.Error(err)
			continue
		}
		if *update {
			testworld.Check(t, os.WriteFile(filepath.Join(root, name), []byte(want), 0o644))
		}
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(got) != want {
			t.Errorf("%s has other constants than the contract: run go generate ./tools/constants (%v)", name, err)
		}
	}
}

func TestNamesOfConstants(t *testing.T) {
	constants := testworld.Must(constantsOf(root))(t)
	for _, want := range []constant{
		{"ABI", "1"},
		{"TO_HEADER", `"header"`},
		{"USES_SIGN", `"sign"`},
		{"DIGEST_SHA256", `"sha256"`},
		{"DIGEST_SHA512256", `"sha512_256"`},
		{"MAC_SHA256", `"HS256"`},
		{"MD5", ""},
		{"FOR_HTTP_SIGNATURE", `"http_signature"`},
		{"FOR_JWT", `"jwt"`},
		{"JWK_THUMBPRINT", `"jwk_thumbprint"`},
		{"X5T", `"x5t#S256"`},
		{"X5C", `"x5c"`},
		{"RS1", `"RS1"`},
		{"ANSWER_INTEGER", `"integer"`},
		{"ANSWER_SEALED", `"sealed"`},
		{"URL", `"url"`},
		{"MAX_RANDOM", "64"},
		{"MAX_PLAIN_ANSWERS", "8"},
		{"CERTIFICATE", `"certificate"`},
	} {
		at := slices.IndexFunc(constants, func(c constant) bool { return c.name == want.name })
		switch {
		case at < 0 && want.value != "":
			t.Errorf("there is no %s", want.name)
		case at >= 0 && constants[at].value != want.value:
			t.Errorf("%s is %s, want %q", want.name, constants[at].value, want.value)
		}
	}
	if n := len(constants); n < 50 {
		t.Errorf("there are %d constants only", n)
	}
}
