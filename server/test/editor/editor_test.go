// Package editor drives yaml-language-server, the language server of VS Code, Neovim and Helix, with the schema of connectors.yaml. It
// compares what the editor underlines with what the loader refuses.
package editor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/onboard/catalogue"
)

const modeline = "# yaml-language-server: $schema=connectors.schema.json\n"

// withSchema returns a directory with the schema of a file that has a plugin, and with files that other files name.
func withSchema(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	module := testworld.Must(os.ReadFile("../../../examples/acme_hmac/acme_hmac.wasm"))(t)
	files := map[string][]byte{
		"acme_hmac.wasm": module, "company-ca.pem": []byte(testworld.NewAuthority(t).PEM()), "plugins.yaml": []byte("plugins: [{path: acme_hmac.wasm}]\n"),
	}
	for name, text := range files {
		testworld.Check(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	all := testworld.Must(connectors.Plugins(t.Context(), filepath.Join(dir, "plugins.yaml"), connectors.Options{}))(t)
	schema, err := connectors.Schema(all)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "connectors.schema.json"), schema, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// refused returns what the loader refuses in a file, or nil.
func refused(t *testing.T, dir, text string) []connectors.Problem {
	t.Helper()
	set, err := connectors.Read(t.Context(), filepath.Join(dir, "connectors.yaml"), []byte(text), connectors.Options{
		WithoutStore: true, Host: host.Config{CodeCache: filepath.Join(dir, "code")},
	})
	var wrong *connectors.Error
	switch {
	case errors.As(err, &wrong):
		return wrong.Problems
	case err != nil:
		t.Fatal(err)
	}
	testworld.Check(t, set.Close(context.WithoutCancel(t.Context())))
	return nil
}

// said returns what the editor underlines, a line each.
func said(found []diagnostic) string {
	var b strings.Builder
	for _, d := range found {
		fmt.Fprintf(&b, "\n  %d:%d: %s", d.Range.Start.Line+1, d.Range.Start.Character+1, d.Message)
	}
	return b.String()
}

// What `keywright check` refuses, the editor underlines in the same line, or in that of the member that lacks something.
func TestEditorUnderlines(t *testing.T) {
	dir := withSchema(t)
	s := start(t, dir)
	broken, err := txtar.ParseFile("testdata/broken.txtar")
	if err != nil || len(broken.Files) < 50 {
		t.Fatalf("%d files, %v", len(broken.Files), err)
	}
	for _, file := range broken.Files {
		t.Run(file.Name, func(t *testing.T) {
			text := string(file.Data)
			var check, editor int
			for i, line := range strings.Split(modeline+text, "\n") {
				if strings.HasPrefix(line, "▶") {
					check = i + 1
				}
				if strings.HasPrefix(line, "▷") {
					editor = i + 1
				}
			}
			if editor == 0 {
				editor = check
			}
			text = modeline + strings.NewReplacer("▶", "", "▷", "").Replace(text)
			if problems := refused(t, dir, text); !slices.ContainsFunc(problems, func(p connectors.Problem) bool { return p.Line == check }) {
				t.Errorf("check does not refuse line %d: %v", check, problems)
			}
			_, found := s.open(text)
			if !slices.ContainsFunc(found, func(d diagnostic) bool { return d.Range.Start.Line+1 == editor }) {
				t.Errorf("the editor does not underline line %d:%s", editor, said(found))
			}
		})
	}
}

// In a file that `keywright check` accepts, the editor underlines nothing: those of the documents, of the catalogue, of the examples, and
// all valid ones in tests.
func TestTheEditorUnderlinesNothingInAValidFile(t *testing.T) {
	dir := withSchema(t)
	s := start(t, dir)
	files := map[string]string{}
	documents(t, files)
	products := cataloguedFiles(t, files)
	sources(t, files)
	checked := map[string]<-chan []diagnostic{}
	for name, text := range files {
		if refused(t, dir, text) == nil {
			_, checked[name] = s.opening(modeline + text)
		} else if strings.HasPrefix(name, "the catalogue") {
			t.Errorf("%s is no valid file", name)
		}
	}
	for name, found := range checked {
		// An anchor that no alias names is no fault of a file.
		found := slices.DeleteFunc(<-found, func(d diagnostic) bool { return strings.HasPrefix(d.Message, "Unused anchor") })
		if len(found) > 0 {
			t.Errorf("name = %s:said(found) = %s\nfiles[name] = %s", name, said(found), files[name])
		}
	}
	t.Logf("%d of %d files are valid, %d of them products of the catalogue", len(checked), len(files), products)
	const least = 120
	if len(checked) < least {
		t.Errorf("only %d of %d files are valid", len(checked), len(files))
	}
}

var fenced = regexp.MustCompile("(?ms)^```ya?ml\n(.*?)^```")

// documents adds the files that documents show, and files of the repository.
func documents(t *testing.T, files map[string]string) {
	t.Helper()
	testworld.Check(t, filepath.WalkDir("../../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == ".git" || entry.Name() == ".build"):
			return filepath.SkipDir
		case entry.IsDir():
			return nil
		}
		read := func() string {
			var text []byte
			if text, err = os.ReadFile(path); err != nil {
				return ""
			}
			return string(text)
		}
		switch filepath.Ext(path) {
		case ".md":
			for i, block := range fenced.FindAllStringSubmatch(read(), -1) {
				keep(files, fmt.Sprintf("%s, block %d", path, i+1), block[1])
			}
		case ".yaml", ".yml":
			keep(files, path, read())
		case ".txtar":
			for _, file := range txtar.Parse([]byte(read())).Files {
				keep(files, path+" "+file.Name, string(file.Data))
			}
		}
		return err
	}))
}

// keep adds a text that may be a file with connectors.
func keep(files map[string]string, name, text string) {
	if strings.Contains(text, "connectors:") && !strings.HasPrefix(strings.TrimSpace(text), "{") {
		files[name] = text
	}
}

// cataloguedFiles adds a file for each product of the catalogue, and returns their number.
func cataloguedFiles(t *testing.T, files map[string]string) int {
	t.Helper()
	all := testworld.Must(catalogue.All())(t)
	for _, api := range all {
		text := testworld.Must(connectors.AddConnector(t.Context(), []byte("connectors:\n"), api.Item()))(t)
		files["the catalogue: "+api.Name] = string(text)
		if api.NeedsState() {
			files["the catalogue: "+api.Name] += "state: {type: sqlite, path: state.db, keys: \"{{ get_secret('state-key') }}\"}\n"
		}
	}
	return len(all)
}

// sources adds the files that stand in tests in Go.
func sources(t *testing.T, files map[string]string) {
	t.Helper()
	names := testworld.Must(filepath.Glob("../../*/*_test.go"))(t)
	set := token.NewFileSet()
	for _, name := range names {
		file := testworld.Must(parser.ParseFile(set, name, nil, parser.SkipObjectResolution))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil {
					keep(files, set.Position(literal.Pos()).String(), text)
				}
			}
			return true
		})
	}
}

// place returns a text without the mark ▮, and the position of the mark.
func place(t *testing.T, text string) (string, position) {
	t.Helper()
	before, after, ok := strings.Cut(text, "▮")
	if !ok {
		t.Fatalf("there is no mark in %s", text)
	}
	return before + after, position{strings.Count(before, "\n"), len(before) - 1 - strings.LastIndex(before, "\n")}
}

// completed has proposals of the editor at the mark, with a part of their descriptions. It must not make those behind "!".
var completed = map[string]struct {
	file  string
	wants map[string]string
}{
	"members of a file":      {"▮", map[string]string{"connectors": "Connectors", "gateway": "keywright serve", "secrets": "Stores of secrets", "state": "tokens and grants", "egress": "may connect to", "plugins": "further auth types"}},
	"members of a connector": {"connectors:\n  - name: A\n    ▮", map[string]string{"url": "URL of the API", "limits": "Limits of the use", "refresh_ahead": "before the end", "!name": ""}},
	"limits":                 {"connectors:\n  - name: A\n    limits:\n      ▮", map[string]string{"per_user": "requests per second", "concurrent": "number of concurrent requests"}},
	"auth types": {
		"connectors:\n  - name: A\n    auth:\n      type: ▮", map[string]string{"oauth_client_credentials": "client credentials grant", "acme_hmac": "", "none": "No credentials", "!apikey": ""},
	},
	"fields of an auth type": {
		"connectors:\n  - name: A\n    auth:\n      type: jwt\n      config:\n        ▮", map[string]string{"private_key": "Signing key", "claims": "payload", "!token_url": ""},
	},
	"fields of a plugin's type": {
		"connectors:\n  - name: A\n    auth:\n      type: acme_hmac\n      config:\n        ▮", map[string]string{"secret": "", "!claims": ""},
	},
	"values of a field": {
		"connectors:\n  - name: A\n    auth:\n      type: api_key\n      config:\n        in: ▮", map[string]string{"header": "", "query": ""},
	},
	"types of users":     {"gateway:\n  user:\n    type: ▮", map[string]string{"jwt": "session token", "header": "proxy"}},
	"members of a store": {"secrets:\n  - type: vault\n    ▮", map[string]string{"approle": "Login", "address": "URL of the server", "!identity": ""}},
	"types of stores":    {"secrets:\n  - type: ▮", map[string]string{"vault": "OpenBao", "age": "encrypted"}},
	"grants":             {"plugins:\n  - path: a.wasm\n    grants:\n      - ▮", map[string]string{"reveal": "secrets"}},
	"what tls is for":    {"connectors:\n  - name: A\n    tls:\n      for: ▮", map[string]string{"token": "token endpoints"}},
	"methods":            {"connectors:\n  - name: A\n    method: ▮", map[string]string{"POST": ""}},
}

// The editor offers members, auth types, and the fields of an auth type.
func TestTheEditorCompletes(t *testing.T) {
	s := start(t, withSchema(t))
	for name, test := range completed {
		t.Run(name, func(t *testing.T) {
			text, where := place(t, modeline+test.file)
			uri, _ := s.open(text)
			var list struct {
				Items []struct {
					Label         string
					Documentation json.RawMessage
				}
			}
			s.request("textDocument/completion", at(uri, where), &list)
			offered := map[string]string{}
			for _, item := range list.Items {
				offered[item.Label] += string(item.Documentation) + " "
			}
			for label, part := range test.wants {
				label, absent := strings.CutPrefix(label, "!")
				documentation, there := offered[label]
				if there == absent || !strings.Contains(documentation, part) {
					t.Errorf("%s: offered: %t, with %s, want %q", label, there, documentation, part)
				}
			}
			if t.Failed() {
				t.Log(list.Items)
			}
		})
	}
}

// The editor explains the member at the mark.
func TestTheEditorExplains(t *testing.T) {
	s := start(t, withSchema(t))
	const connector = "connectors:\n  - name: A\n    url: https://a.example\n"
	for text, want := range map[string]string{
		"con▮nectors: []":                                              "Connectors, each an external API",
		connector + "    time▮out: 3s":                                 "Limits the token exchange",
		connector + "    limits: {per▮_user: 3}":                       "Maximum number of requests per second of one user",
		connector + "    auth: {ty▮pe: bearer}":                        "bearer`: A token in the Authorization header",
		connector + "    auth: {type: jw▮t}":                           "Auth type of the API",
		connector + "    auth: {type: jwt, con▮fig: {}}":               "A JWT that is signed for each request",
		connector + "    auth: {type: jwt, config: {private▮_key: a}}": "#### jwt\n\nSigning key in PEM",
		connector + "    auth: {type: apikey, config: {ke▮y: a}}":      "#### api\\_key",
		"gateway: {user: {type: jwt, jwt: {iss▮uer: a}}}":              "claim iss",
		"secrets: [{type: vault, appr▮ole: {}}]":                       "Login with the auth method approle",
		"state: {type: postgres, pool▮er: true}":                       "PgBouncer",
		"egress: {pro▮xy: none}":                                       "URL of the proxy of all connections",
	} {
		text, where := place(t, modeline+text)
		uri, _ := s.open(text)
		var hover struct{ Contents struct{ Value string } }
		s.request("textDocument/hover", at(uri, where), &hover)
		if !strings.Contains(hover.Contents.Value, want) {
			t.Errorf("%s\nshows %q, want %q", text, hover.Contents.Value, want)
		}
	}
}

// The editor has the words of a plugin for a text that does not match the pattern of its field.
func TestEditorMessages(t *testing.T) {
	s := start(t, withSchema(t))
	_, found := s.open(modeline + `connectors:
  - name: A
    url: https://a.example
    auth: {type: bearer, config: {token: "{{ get_secret('a') }}", prefix: "Token token="}}
`)
	if len(found) != 1 || !strings.HasPrefix(found[0].Message, "This is not one word, such as Token: ") {
		t.Errorf("the editor says:%s", said(found))
	}
}

// Ajv takes the schema without the words for editors, in its strict mode, and refuses what check refuses.
func TestAjvTakesTheStrictSchema(t *testing.T) {
	schema := testworld.Must(os.ReadFile(filepath.Join(withSchema(t), "connectors.schema.json")))(t)
	const program = `const Ajv = require("ajv").default, said = []
const logger = {log() {}, warn: m => said.push(m), error: m => said.push(m)}
const valid = new Ajv({logger}).compile(JSON.parse(require("fs").readFileSync(0)))
const file = method => ({connectors: [{name: "a", url: "https://a.example", method, auth: {type: "bearer", config: {token: "{{ get_secret('a') }}"}}}]})
console.log(valid(file("GET")), valid(file("POTS")))`
	strict := testworld.Must(connectors.StrictSchema(schema))(t)
	for text, want := range map[string]string{string(schema): "unknown keyword", string(strict): "true false\n"} {
		c := exec.CommandContext(t.Context(), "node", "-e", program)
		c.Stdin = strings.NewReader(text)
		if out, _ := c.CombinedOutput(); !strings.Contains(string(out), want) {
			t.Errorf("node says %s, want %q", out, want)
		}
	}
}
