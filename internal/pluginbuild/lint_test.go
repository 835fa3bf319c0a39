package pluginbuild

import (
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// Code that compiles but works differently in the sandbox is refused, with its place (threats.md 69).
func TestRefusalPlaces(t *testing.T) {
	for name, test := range map[string]struct {
		source string
		want   []string // parts of the error; nil for no error
	}{
		"math/rand":          {"import \"math/rand\"\n\nvar n = rand.Int()", []string{"main.go:3:8: math/rand repeats", "{{ uuid() }}"}},
		"math/rand/v2":       {"import r \"math/rand/v2\"\n\nvar n = r.Int()", []string{"main.go:3:8: math/rand/v2 repeats"}},
		"crypto/rand":        {"import \"crypto/rand\"\n\nvar n = rand.Text()", []string{"main.go:3:8: crypto/rand repeats the same values in every call, or fails"}},
		"time.Now":           {"import \"time\"\n\nvar n = time.Now()", []string{"main.go:5:9: time.Now does not see", "use Call.Now"}},
		"under another name": {"import clock \"time\"\n\nvar n = clock.Since(clock.Time{})", []string{"main.go:5:9: time.Since"}},
		"as a value":         {"import \"time\"\n\nvar n = time.Now", []string{"main.go:5:9: time.Now"}},
		"with a dot":         {"import . \"time\"\n\nvar n = Now()", []string{"main.go:3:8: time is imported with a dot"}},
		"sleeping":           {"import \"time\"\n\nfunc f() { time.Sleep(time.Second) }", []string{"main.go:5:12: time.Sleep does not wait"}},
		"environment":        {"import \"os\"\n\nvar n = os.Getenv(\"HOME\")", []string{"main.go:5:9: os.Getenv is empty"}},
		"environment, below": {"import \"syscall\"\n\nvar n, _ = syscall.Getenv(\"HOME\")", []string{"main.go:5:12: syscall.Getenv is empty"}},
		"in a file with C":   {"import \"C\"\nimport \"time\"\n\nvar n = time.Now()", []string{"main.go:6:9: time.Now does not see"}},
		"hash/maphash":       {"import \"hash/maphash\"\n\nvar h maphash.Hash", []string{"main.go:3:8: hash/maphash does not end"}},
		"net/http":           {"import \"net/http\"\n\nvar n = http.MethodGet", []string{"main.go:3:8: net/http has no network behind it", "Call.RequestToken"}},
		"several":            {"import (\n\t\"math/rand\"\n\t\"time\"\n)\n\nvar n, m = rand.Int(), time.Now()", []string{"main.go:4:2: math/rand", "main.go:8:24: time.Now"}},
		"a package of it":    {"import \"example.test/echo/word\"\n\nvar n = word.Size", []string{"word.go:5:12: time.Now"}},

		"recover":         {"func f() { defer func() { _ = recover() }() }", []string{"main.go:3:31: recover does not stop a panic in the sandbox", "return an error"}},
		"println":         {"func f() { println(1) }", []string{"main.go:3:12: println writes errors into the host's log, or nothing"}},
		"fmt.Printf":      {"import \"fmt\"\n\nfunc f() { fmt.Printf(\"x\") }", []string{"main.go:5:12: fmt.Printf writes errors"}},
		"log.Println":     {"import \"log\"\n\nfunc f() { log.Println(\"x\") }", []string{"main.go:5:12: log.Println writes errors"}},
		"a counter":       {"var n int\n\nfunc f() { n++ }", []string{"main.go:5:12: n is a package variable, and every call begins with its first value", "Call.Cache"}},
		"a sum":           {"var n int\n\nfunc f() { n += 2 }", []string{"main.go:5:12: n is a package variable"}},
		"a map":           {"var n = map[int]int{}\n\nfunc f() { n[1] = 2 }", []string{"main.go:5:12: n is a package variable"}},
		"a part":          {"var n struct{ x []int }\n\ntype t int\n\nfunc (t) f() { _, n.x[0] = 1, 2 }", []string{"main.go:7:19: n is a package variable"}},
		"of another file": {"import \"example.test/echo/word\"\n\nvar _ = word.Size\n\nfunc f() { other = 1 }", []string{"main.go:7:12: other is a package variable"}},

		"a function of that name":    {"func recover() int { return 1 }\n\nfunc f() { _ = recover() }", nil},
		"a local variable":           {"var n int\n\nfunc f() { n := 1; n++; _ = n }", nil},
		"a local variable of var":    {"var n int\n\nfunc f() { var n int; n++ }", nil},
		"a blank variable":           {"var _ = 1\n\nfunc f() { _ = 2 }", nil},
		"a parameter":                {"var n int\n\nfunc f(n []int) { n[0]++ }", nil},
		"a variable that init sets":  {"var n, m int\n\nfunc init() { n = 1; fill() }\n\nfunc fill() { fillMore() }\n\nfunc fillMore() { m = 1 }", nil},
		"a variable that a value is": {"var n = f()\n\nvar m int\n\nfunc f() int { m = 2; return 1 }", nil},

		"other uses of time":      {"import \"time\"\n\nvar n = time.Unix(1, 0).Add(time.Second)", nil},
		"a variable of that name": {"var time struct{ Now int }\n\nvar n = time.Now", nil},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"go.mod": pluginSources["go.mod"], "main.go": "package main\n\n" + test.source + "\n\nfunc main() {}\n"}
			files["other.go"] = "package main\n\nvar other int\n"
			files["word/word.go"] = "package word\n\nimport \"time\"\n\nvar Size = time.Now()\n"
			packages := testworld.Must(listPackages(t.Context(), writeFiles(t, "echo", files)))(t)
			wantErrors(t, testworld.ErrorOf(lint(packages)), test.want)
		})
	}
}

func TestCompileRefusals(t *testing.T) {
	files := map[string]string{"go.mod": pluginSources["go.mod"], "main.go": "package main\n\nimport _ \"math/rand\"\n\nfunc main() {}\n"}
	dir := writeFiles(t, "echo", files)
	_, err := Compiler{Path: "/bin/false"}.Compile(t.Context(), dir)
	testworld.WantError(t, "", err, "the plugin in "+dir+" cannot work in the sandbox as it is:\n")
	if _, err := (Compiler{Path: "/bin/false", Guest: true}).Compile(t.Context(), dir); err == nil || strings.Contains(err.Error(), "sandbox") {
		t.Errorf("what is no plugin: error %v", err)
	}
}

// Escaping a sealed value is refused: it has no character to escape, and the host would insert the secret unescaped.
func TestEscapedReference(t *testing.T) {
	source := `package main

import "net/url"

type call struct{}

func (call) Config(string) string { return "" }

func main() {
	var c call
	secret := "Bearer " + c.Config("secret")
	_ = url.QueryEscape(c.Config("secret"))
	_ = url.PathEscape(secret)
	_ = url.QueryEscape(c.Config("id"))
	secret = url.QueryEscape(secret)
}
`
	packages := testworld.Must(listPackages(t.Context(), writeFiles(t, "echo", map[string]string{"go.mod": pluginSources["go.mod"], "main.go": source})))(t)
	escapes := testworld.Must(lint(packages))(t)
	err := checkEscapes(escapes, []string{"secret"})
	for _, want := range []string{"main.go:12:6: net/url.QueryEscape does nothing to the field \"secret\"", "main.go:13:6: net/url.PathEscape", "main.go:15:11:"} {
		testworld.WantError(t, "", err, want)
	}
	if err := checkEscapes(escapes, []string{"other"}); err != nil {
		t.Errorf("a field that comes in plain: %v", err)
	}
}

// A reference cannot be cut or changed: its bytes are not those of the secret.
func TestCutReference(t *testing.T) {
	source := `package main

import "strings"

type call struct{}

func (call) Config(string) string { return "" }

func (call) Hex(text string) string { return text }

func main() {
	var c call
	secret := c.Config("secret")
	_ = strings.TrimPrefix(secret, "sk_")
	_ = strings.ToUpper("a" + c.Config("secret"))
	_ = secret[:8]
	_ = (c.Config("secret"))[0]
	_ = strings.ToUpper(c.Config("id"))
	_ = strings.ToUpper(part(c.Config("secret")))
	_ = strings.Join([]string{secret}, ",")
	_ = strings.Repeat(secret, 2)
}

func part(string) string { return "a text" }
`
	packages := testworld.Must(listPackages(t.Context(), writeFiles(t, "echo", map[string]string{"go.mod": pluginSources["go.mod"], "main.go": source})))(t)
	escapes := testworld.Must(lint(packages))(t)
	wantErrors(t, checkEscapes(escapes, []string{"secret"}), []string{
		`main.go:14:6: strings.TrimPrefix gets a reference in place of the value of the field "secret": have users configure`,
		"main.go:15:6: strings.ToUpper", "main.go:16:6: a slice gets", "main.go:17:6: an index gets",
	})
	if problems := checkEscapes(escapes, []string{"secret"}).Error(); strings.Count(problems, "\n") != 3 {
		t.Errorf("more than four problems:\n%s", problems)
	}
	wantErrors(t, checkEscapes(escapes, []string{"id"}), []string{"main.go:18:6: strings.ToUpper"})
}
