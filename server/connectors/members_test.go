package connectors

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
	"github.com/keywright/keywright/server/internal/secretstore"
)

//go:generate go test . -run TestMemberDescriptions -update

var update = flag.Bool("update", false, "write members.json and the tables of docs/gateway.md")

// fieldComments returns the comments of the fields of structs in the package of a type, by struct and field.
func fieldComments(t *testing.T, of reflect.Type) map[string]string {
	t.Helper()
	all := map[string]string{}
	dir := filepath.Join("../..", strings.TrimPrefix(of.PkgPath(), "github.com/keywright/keywright"))
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no sources: %v", dir, err)
	}
	for _, name := range files {
		file := testworld.Must(parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					for _, name := range f.Names {
						all[file.Name.Name+"."+spec.Name.Name+"."+name.Name] = f.Doc.Text()
					}
				}
			}
			return true
		})
	}
	return all
}

// described returns the first paragraph of a field's comment for the author of a file: without the name of the field and a verb that
// says no more, and with members in place of the fields of the struct.
func described(t *testing.T, of reflect.Type, field reflect.StructField, text string) string {
	t.Helper()
	for _, block := range new(comment.Parser).Parse(text).Content[:min(len(text), 1)] {
		p, _ := block.(*comment.Paragraph)
		printer := comment.Printer{TextWidth: -1}
		text = strings.TrimSpace(string(printer.Text(&comment.Doc{Content: []comment.Block{p}})))
	}
	rest, ok := strings.CutPrefix(text, field.Name+" ")
	if !ok {
		t.Errorf("the comment of %v.%s does not begin with its name: %q", of, field.Name, text)
	}
	rest = regexp.MustCompile(`^(is|are|has) (the |an? )?`).ReplaceAllString(rest, "")
	for _, f := range reflect.VisibleFields(of) {
		if len(f.Name) <= len("URL") && strings.ToUpper(f.Name) == f.Name {
			continue // an abbreviation
		}
		rest = regexp.MustCompile(`([a-z,] |\()`+f.Name+`\b`).ReplaceAllString(rest, "${1}"+MemberName(f))
	}
	return strings.ToUpper(rest[:1]) + rest[1:]
}

// tables are the structs whose members docs/gateway.md has in a table, by the name of the member that they are in.
var tables = map[string]reflect.Type{
	"tls": reflect.TypeFor[host.TLS](), "egress": reflect.TypeFor[egressFile](), "limits": reflect.TypeFor[limitsFile](),
}

// withTables returns a text of docs/gateway.md with the rows of tables as the descriptions are.
func withTables(text string, descriptions map[string]string) string {
	for name, of := range tables {
		rows := ""
		for _, f := range fieldsOf(of) {
			meaning := descriptions[of.String()+"."+f.Name]
			if missing := f.Tag.Get("default"); missing != "" {
				meaning += " " + missing + " unless given"
			}
			rows += "| `" + f.name + "` | " + strings.TrimSuffix(meaning, ".") + " |\n"
		}
		table := regexp.MustCompile("(\\| member of `" + name + "` \\| meaning \\|\n\\|---\\|---\\|\n)(?:\\|.*\n)*")
		text = table.ReplaceAllString(text, "${1}"+strings.ReplaceAll(rows, "$", "$$"))
	}
	return text
}

// The descriptions of the schema, and the tables of members in docs/gateway.md, are the comments of the structs that the loader decodes
// into.
func TestMemberDescriptions(t *testing.T) {
	packages, want := map[string]map[string]string{}, map[string]string{}
	w := schemaWriter{describe: func(of reflect.Type, field reflect.StructField) string {
		if packages[of.PkgPath()] == nil {
			packages[of.PkgPath()] = fieldComments(t, of)
		}
		name := of.String() + "." + field.Name
		want[name] = described(t, of, field, packages[of.PkgPath()][name])
		return want[name]
	}}
	w.object("", reflect.TypeFor[wholeFile]())
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	testworld.Check(t, encoder.Encode(want))
	const document = "../../docs/gateway.md"
	docs := testworld.Must(os.ReadFile(document))(t)
	if *update {
		testworld.Check(t, errors.Join(
			os.WriteFile("members.json", text.Bytes(), 0o644), os.WriteFile(document, []byte(withTables(string(docs), want)), 0o644),
		))
		return
	}
	if !bytes.Equal(text.Bytes(), membersJSON) || withTables(string(docs), want) != string(docs) {
		t.Errorf("members.json and docs/gateway.md are not what the comments say: go -C server generate ./connectors")
	}
}

// Each field of a struct is the member of the file that users know: renaming a field must not rename the member.
func TestMemberFields(t *testing.T) {
	for want, v := range map[string]any{
		"name, permalink, url, hosts, hosts_share_secrets, method, paths, headers, query, auth, tls, consent, request, response, timeout, refresh_ahead, resend, limits, streams": gateway.Definition{},
		"name, value, overridable, repeated": gateway.Parameter{},
		"silence":                            gateway.Streams{},
		"filter, records, body, content_type, headers":                                    gateway.Response{},
		"per_user, total, request_bytes, response_bytes, concurrent":                      gateway.Limits{},
		"hosts, origins, consent, user, tls, traces, access_log, audit, access_log_users": Settings{},

		"file, stdout, on_error": Audit{},
		"cert, key":              TLS{},
		"certificate, key, pkcs12, passphrase, ca, for": host.TLS{},
		"type, jwt, header":                             identity.Config{},

		"bearer, cookie, jwks_file, jwks_url, issuer, audiences, algorithms, claims, token_hosts":                         identity.JWT{},
		"id, email, username, first_name, last_name, tenant_id":                                                           identity.Claims{},
		"proxies, required, id, email, username, first_name, last_name, tenant_id":                                        identity.Header{},
		"address, namespace, ca_file, mount, prefix, field, path, transit, token_file, approle, jwt, kubernetes, timeout": secretstore.VaultConfig{},

		"mount, role_id, secret_id_file":              secretstore.VaultAppRole{},
		"mount, role, identity, audience, token_file": secretstore.VaultJWT{},
		"mount": secretstore.VaultTransit{},
		"path, name, ref, sha256, grants, limits": pluginFile{},
	} {
		var names []string
		for _, f := range fieldsOf(reflect.TypeOf(v)) {
			names = append(names, f.name)
		}
		if got := strings.Join(names, ", "); got != want {
			t.Errorf("%T: %s, want %s", v, got, want)
		}
	}
}

// A missing member leaves the zero value, and paths are relative to the directory of the file.
func TestDecodedMembers(t *testing.T) {
	type part struct{ Name string }
	type all struct {
		part
		File   string `file:",path"`
		Rooted string `file:",path"`
		Text   string
		Blank  string `file:",blank"`
		One    []string
		Two    []string
		Yes    bool
		Rate   float64
		Count  int
		Size   int64
		Time   time.Duration
		Any    map[string]any
		Null   map[string]any
		Inner  part
		Pos    *part
		No     *part
		Parts  []part
		hidden string
		Other  string `file:"-"`
	}
	var p problems
	root := parse(t.Context(), `
name: a
file: b
rooted: /b
blank: ""
one: x
two: [x, y]
yes: true
rate: 0.5
count: 3
size: 4
time: 1m30s
any: {a: [1]}
"null": null
inner: {name: b}
pos: {name: c}
parts: [{name: d}, {name: e}]
`, &p)
	l := newLoader("dir/connectors.yaml", nil, Options{})
	l.problems = p
	got := all{hidden: "is left alone"}
	l.decode(root, "", &got)
	if got.Any["a"] == nil {
		t.Error("an object of anything is lost")
	}
	got.Any = nil
	want := all{
		hidden: "is left alone", part: part{"a"}, File: "dir/b", Rooted: "/b", One: []string{"x"}, Two: []string{"x", "y"}, Yes: true, Rate: 0.5, Count: 3, Size: 4,
		Time: 90 * time.Second, Inner: part{"b"}, Pos: &part{"c"}, Parts: []part{{"d"}, {"e"}},
	}
	if diff := cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" || len(l.all) > 0 {
		t.Errorf("diff = %sl.all = %v", diff, l.all)
	}
}
