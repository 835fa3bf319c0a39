package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/casefile"
	"github.com/keywright/keywright/internal/conform"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
)

// The code of docs/plugins.md is the code of the plugins that it names, so an author who copies it has what is tested.
func TestPluginCode(t *testing.T) {
	const page = "docs/plugins.md"
	named := map[string]bool{}
	for _, b := range blocks(t, page) {
		first, code, _ := strings.Cut(b.text, "\n")
		name, is := strings.CutPrefix(first, "// ")
		if b.info != "go" || !is {
			continue
		}
		source, err := os.ReadFile(filepath.Join(root, name))
		switch {
		case err != nil:
			t.Errorf("%s:%d: err = %v", page, b.line, err)
		case code == "" || !strings.Contains(string(source), "\n"+code):
			t.Errorf("%s:%d: %s does not have this code", page, b.line, name)
		}
		named[name] = true
	}
	if len(named) < 10 {
		t.Errorf("%s has code of %d files only", page, len(named))
	}
}

// What docs/plugins.md sends its readers to is there.
func TestPluginExamples(t *testing.T) {
	for _, name := range spans(document(t, "docs/plugins.md")) {
		if strings.HasPrefix(name, "plugins/") || strings.HasPrefix(name, "examples/") {
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Error(err)
			}
		}
	}
}

// docs/plugins.md has all members of a case: its authors may have no Go.
func TestDocumentedCaseMembers(t *testing.T) {
	text := document(t, "docs/plugins.md")
	_, text, _ = strings.Cut(text, "\n## Test with cases\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for _, v := range []any{
		casefile.Case{}, casefile.Step{}, casefile.User{}, casefile.Request{}, casefile.Reply{}, casefile.Expect{}, casefile.Exchange{},
	} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
			name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if name != "" && !strings.Contains(text, "`"+name+"`") && !strings.Contains(text, "`"+name+": ") {
				t.Errorf("%T.%s: docs/plugins.md does not say what `%s` is", v, f.Name, name)
			}
		}
	}
}

// The cases of docs/plugins.md hold for the built-in type that they are for, and fail as the page says.
func TestTheCasesOfPluginsHold(t *testing.T) {
	const page = "docs/plugins.md"
	var cases, failure string
	for _, b := range blocks(t, page) {
		if strings.HasPrefix(b.text, "# cases.yaml\n") {
			cases = b.text
		}
		if strings.HasPrefix(b.text, "FAIL ") {
			_, failure, _ = strings.Cut(b.text, "cases.yaml:10: ")
		}
	}
	run := func(tb hosttest.TB, text string) {
		file := filepath.Join(t.TempDir(), "cases.yaml")
		testworld.Check(t, os.WriteFile(file, []byte(text), 0o600))
		read, err := casefile.Read(file)
		if err != nil || len(read) != 2 {
			t.Fatalf("%s: %d cases, %v", page, len(read), err)
		}
		for i := range read {
			read[i].Run(tb, hosttest.New(tb, read[i].Name, hosttest.Module{Name: "plugin", Wasm: plugins.Of("oauth_client_credentials")}))
		}
	}
	run(t, cases)
	got := &failures{TB: t}
	run(got, strings.Replace(cases, "Authorization: Bearer the-first-token", "Authorization: Bearer another", 1))
	if len(got.texts) != 1 || failure == "" || !strings.HasSuffix(got.texts[0], "cases.yaml:10: "+strings.TrimSpace(failure)) {
		t.Errorf("%s: the failures are %q, and not %q", page, got.texts, failure)
	}
}

// The record that docs/plugins.md shows is one that holds, and the script of records runs the commands beside it.
func TestTheRecordOfPluginsHolds(t *testing.T) {
	const page, script = "docs/plugins.md", "server/cmd/keywright/testdata/script/record.txtar"
	text := testworld.Must(os.ReadFile(filepath.Join(root, script)))(t)
	ran := strings.NewReplacer(" --dev", "", "! exec ", "", "exec ", "").Replace(string(text))
	commands, held := 0, false
	for _, b := range blocks(t, page) {
		command := strings.TrimSpace(b.text)
		switch {
		case strings.Contains(command, "failed.yaml") && strings.HasPrefix(command, "keywright "):
			if commands++; !strings.Contains(ran, "\n"+command+"\n") {
				t.Errorf("%s: %s does not run %q", page, script, command)
			}
		case strings.HasPrefix(command, "# failed.yaml\n"):
			held = true
			file := filepath.Join(t.TempDir(), "failed.yaml")
			testworld.Check(t, os.WriteFile(file, []byte(command), 0o600))
			cases := testworld.Must(casefile.Read(file))(t)
			cases[0].Run(t, hosttest.New(t, cases[0].Name, hosttest.Module{Name: "plugin", Wasm: plugins.Of("oauth_client_credentials")}))
		}
	}
	if commands != 2 || !held {
		t.Errorf("%s has %d commands for records; it shows a record: %t", page, commands, held)
	}
}

// failures keeps the failures of a test.
type failures struct {
	hosttest.TB
	texts []string
}

func (f *failures) Errorf(format string, args ...any) {
	f.texts = append(f.texts, fmt.Sprintf(format, args...))
}

// The report in docs/plugins.md is the one of examples/acme_hmac, apart from its numbers. The table below it has all checks.
func TestTheReportOfConformance(t *testing.T) {
	const page, name = "docs/plugins.md", "acme_hmac.wasm"
	wasm := testworld.Must(os.ReadFile(filepath.Join(root, "examples", "acme_hmac", name)))(t)
	report := testworld.Must(conform.Run(t.Context(), hosttest.Module{Name: name, Wasm: wasm}))(t)
	numbers := regexp.MustCompile(`[0-9]+`)
	without := func(text string) string { return numbers.ReplaceAllLiteralString(text, "0") }
	shown := false
	for _, b := range blocks(t, page) {
		shown = shown || without(b.text) == without(report.String())
	}
	if !shown {
		t.Errorf("%s does not have this report:\n%s", page, report)
	}
	table := rows(under(t, page, "## Check that it conforms"))
	var checks, listed []string
	for _, k := range report.Checks {
		checks = append(checks, k.Name)
	}
	for _, row := range table[1:] { // the delimiter row
		listed = append(listed, strings.Trim(row[0], "`"))
	}
	if got, want := strings.Join(listed, " "), strings.Join(checks, " "); got != want {
		t.Errorf("%s lists the checks %s, want %s", page, got, want)
	}
}
