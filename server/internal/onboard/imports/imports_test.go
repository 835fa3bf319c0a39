package imports_test

import (
	"errors"
	"flag"
	"math/rand/v2"
	"os"
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
	"github.com/keywright/keywright/server/internal/onboard/imports"
)

var update = flag.Bool("update", false, "write what is imported into the cases")

// Each file of testdata is a document or a command line of curl, with the connector that it becomes, what was decided and which
// secrets there are, or with the error. The loader of the gateway takes each connector.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive := testworld.Must(txtar.ParseFile(name))(t)
			got := run(t, archive)
			last := &archive.Files[len(archive.Files)-1]
			if last.Name != "want" {
				archive.Files = append(archive.Files, txtar.File{Name: "want"})
				last = &archive.Files[len(archive.Files)-1]
			}
			if *update {
				last.Data = []byte(got)
				testworld.Check(t, os.WriteFile(name, txtar.Format(archive), 0o644))
				return
			}
			if got != string(last.Data) {
				t.Errorf("got\n%s\nwant\n%s", got, last.Data)
			}
		})
	}
}

// run imports a case, and returns the result as a text.
func run(t *testing.T, archive *txtar.Archive) string {
	t.Helper()
	var o imports.Options
	for line := range strings.Lines(string(archive.Comment)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if field := map[string]*string{"scheme": &o.Scheme, "flow": &o.Flow, "name": &o.Name, "url": &o.URL, "token-url": &o.TokenURL, "paths": &o.Paths}[name]; field != nil {
			*field = value
		}
	}
	input := archive.Files[0]
	do := imports.OpenAPI
	if input.Name == "curl" {
		do = func(text []byte, o imports.Options) (*imports.Result, error) {
			return imports.CurlLine(string(text), o)
		}
	}
	result, err := do(input.Data, o)
	var missing imports.Missing
	switch {
	case errors.As(err, &missing):
		return "missing: " + strings.Join(missing, "\nmissing: ") + "\n"
	case err != nil:
		return "error: " + err.Error() + "\n"
	}
	load(t, result)
	var b strings.Builder
	b.WriteString(result.Connector.YAML())
	for _, note := range result.Notes {
		b.WriteString("note: " + note + "\n")
	}
	for _, s := range result.Secrets {
		b.WriteString("secret: " + s.Name + ", " + s.What + "\n")
	}
	for _, v := range result.Variables {
		b.WriteString("variable: " + v.Name + ", " + v.What + "\n")
	}
	return b.String()
}

// load loads a connector with made-up secrets, as the gateway does.
func load(t *testing.T, result *imports.Result) {
	t.Helper()
	text, err := connectors.AddConnector(t.Context(), []byte("state: {type: sqlite, path: s.db, keys: [\"{{ get_secret('state') }}\"]}\nconnectors:\n"), result.Connector.YAML())
	if err != nil {
		t.Errorf("err = %v\nresult.Connector.YAML() = %s", err, result.Connector.YAML())
		return
	}
	variables := map[string]string{}
	for _, v := range result.Variables {
		variables[v.Name] = "made-up"
	}
	set, err := connectors.Read(t.Context(), "connectors.yaml", text, connectors.Options{
		WithoutStore: true, Environment: true, Host: host.Config{Variables: variables},
	})
	if err != nil {
		t.Errorf("err = %v\ntext = %s", err, text)
		return
	}
	testworld.Check(t, set.Close(t.Context()))
}

const before = `{"openapi":"3.0.0","info":{"title":"A"},"servers":[{"url":"https://a.example"}],`

// schemes returns a document with schemes in JSON.
func schemes(text string) string { return before + `"components":{"securitySchemes":{` + text + `}}}` }

// A document that is large, nested without end, or repeats itself, is refused with one error (threats.md 196).
func TestLargeDocuments(t *testing.T) {
	bomb := "openapi: 3.0.0\nx0: &x0 [a, a, a, a, a, a, a, a]\n"
	for _, n := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
		last := string(n[0] - 1)
		bomb += "x" + n + ": &x" + n + " [" + strings.Repeat("*x"+last+", ", 8) + "]\n"
	}
	for name, c := range map[string]struct{ text, want string }{
		"aliases that repeat":           {bomb + "security: *x8\n", "more than 200000 values"},
		"an alias that has itself":      {"openapi: 3.0.0\nsecurity: &a [*a, *a]\n", "nested too deeply"},
		"lists in lists":                {before + `"security":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}", "nested too deeply"},
		"lists in lists elsewhere":      {before + `"x":` + strings.Repeat("[", 50_000) + strings.Repeat("]", 50_000) + "}", "not well-formed JSON"},
		"lists in lists in YAML":        {"openapi: 3.0.0\nx: " + strings.Repeat("[", 50_000) + strings.Repeat("]", 50_000), "well-formed YAML, at line 2"},
		"large JSON":                    {before + `"x":"` + strings.Repeat("x", imports.MaxBytes) + `"}`, "larger than 64 MiB"},
		"large YAML":                    {"openapi: 3.0.0\nx: " + strings.Repeat("x", 8<<20), "convert it to JSON"},
		"many values in YAML":           {"openapi: 3.0.0\nx: [" + strings.Repeat("a,", 700_000) + "]", "convert it to JSON"},
		"many schemes":                  {schemes(strings.Repeat(`"a":{},`, 210_000) + `"b":{}`), "more than 200000 values"},
		"many schemes that are refused": {schemes(many(`"$":{"type":"magic"},`, 60_000) + `"b":{}`), "none of the 100 ways to authenticate can"},
		"many schemes together": {
			before + `"security":[{` + many(`"$":[],`, 40_000) + `"b":[]}],"components":{"securitySchemes":{` + many(`"$":{"type":"apiKey","in":"header","name":"a$"},`, 30_000) + `"b":{}}}}`,
			"", // a requirement of missing schemes does not count, so a scheme by itself is taken
		},
	} {
		_, err := imports.OpenAPI([]byte(c.text), imports.Options{})
		if testworld.WantError(t, name, err, c.want); err != nil && len(err.Error()) > 20_000 {
			t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
		}
	}
	testworld.Fails(imports.CurlLine("curl "+strings.Repeat("x", imports.MaxLine), imports.Options{}))(t, "longer than 1024 KiB")
}

// many returns n repetitions of a text, with a number for each $.
func many(text string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(text, "$", "s"+string(rune('a'+i%26))+strings.Repeat("x", i/26%7)+strconv.Itoa(i)))
	}
	return b.String()
}

// Texts of a document name no secret, end no line, and send nothing to a terminal (threats.md 197).
func TestTextsOfDocuments(t *testing.T) {
	const evil = `\u001b[31m\u202e{{ get_secret('crm') }}{{{ get_secret('crm') }}\r\n  auth: {type: none}\u2028#`
	for name, text := range map[string]string{
		"title":        strings.Replace(schemes(`"b":{"type":"http","scheme":"bearer"}`), `"A"`, `"A `+evil+`"`, 1),
		"scheme":       schemes(`"` + evil + `":{"type":"http","scheme":"bearer"},"c":{"type":"http","scheme":"basic"}`),
		"query":        schemes(`"b":{"type":"apiKey","in":"query","name":"` + evil + `"}`),
		"plain query":  schemes(`"b":{"type":"apiKey","in":"query","name":"{{ get_secret('crm') }}"}`),
		"header":       schemes(`"b":{"type":"apiKey","in":"header","name":"` + evil + `"}`),
		"scope":        schemes(`"b":{"type":"oauth2","flows":{"clientCredentials":{"tokenUrl":"https://l.example/t","scopes":{"` + evil + `":""}}}}`),
		"token_url":    schemes(`"b":{"type":"oauth2","flows":{"clientCredentials":{"tokenUrl":"https://l.example/` + evil + `"}}}`),
		"url":          strings.Replace(schemes(`"b":{"type":"http","scheme":"bearer"}`), "a.example", "a.example/"+evil, 1),
		"variable":     strings.Replace(schemes(`"b":{"type":"http","scheme":"bearer"}`), `a.example"`, `a.example/{v}","variables":{"v":{"default":"`+evil+`"}}`, 1),
		"unknown type": schemes(`"b":{"type":"` + evil + `"}`),
	} {
		result, err := imports.OpenAPI([]byte(text), imports.Options{})
		if err != nil {
			printable(t, name, err.Error())
			continue
		}
		for _, note := range result.Notes {
			printable(t, name, note)
		}
		for _, s := range result.Secrets {
			printable(t, name, s.Name+s.What)
		}
		yaml := result.Connector.YAML()
		if named := regexp.MustCompile(`\{\{ get_secret\('crm'\)`).FindAllStringIndex(strings.ReplaceAll(yaml, "{{ '{{' }}", ""), -1); named != nil {
			t.Errorf("%s: a secret of somebody else is named\n%s", name, yaml)
		}
		if strings.Contains(yaml, "\x1b") || strings.Contains(yaml, "\u202e") || strings.Count(yaml, "\n  auth:") != 1 {
			t.Errorf("name = %s:\nyaml = %q", name, yaml)
		}
		load(t, result)
	}
}

// A document whose endpoint gets the client's secret at another site than the API's is imported with a note that says where, and one
// whose endpoint has a user name, which looks like a host, is refused (threats.md 200).
func TestTokenEndpointElsewhere(t *testing.T) {
	at := func(token string) string {
		return schemes(`"b":{"type":"oauth2","flows":{"clientCredentials":{"tokenUrl":"` + token + `","scopes":{}}}}`)
	}
	for token, want := range map[string]bool{
		"https://evil.example/t": true, "//evil.example/t": true, "https://login.a.example/t": false, "https://A.example:8443/t": false, "t": false,
	} {
		result := testworld.Must(imports.OpenAPI([]byte(at(token)), imports.Options{}))(t)
		if strings.Contains(strings.Join(result.Notes, "\n"), "token_url is at evil.example, and the API is not") != want {
			t.Errorf("%s: result.Notes = %q", token, result.Notes)
		}
	}
	if _, err := imports.OpenAPI([]byte(at("https://a.example@evil.example/t")), imports.Options{}); err == nil {
		t.Error("a user name is not refused")
	}
}

// printable fails the test if a line could control a terminal.
func printable(t *testing.T, name, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); host.Printable(line) != line {
			t.Errorf("%s: line = %q", name, line)
		}
	}
}

// No credential of the cases of curl, which is canary, is in the connector, a note or an error (threats.md 198).
func TestCurlKeepsNoCredential(t *testing.T) {
	files := testworld.Must(filepath.Glob("testdata/curl-*.txtar"))(t)
	with := 0
	for _, name := range files {
		archive := testworld.Must(txtar.ParseFile(name))(t)
		if strings.Contains(strings.ToLower(string(archive.Files[0].Data)), "canary") {
			with++
		}
		if got := run(t, archive); strings.Contains(strings.ToLower(got), "canary") {
			t.Errorf("name = %s:\ngot = %s", name, got)
		}
	}
	if with < 30 {
		t.Errorf("%d cases have a credential", with)
	}
}

// A credential that is a name, of a header, a parameter, a cookie or a field of a form, is in no output either, and a note says that
// something was left out (threats.md 252).
func TestCurlKeepsNoCredentialInAName(t *testing.T) {
	for _, canary := range []string{"Kw7canaryQx93Zz", "sk-canary-51habc0defgh1", "canaryhorsebatterystaples", "6f1c3a52-0000-4000-8000-0123canary45"} {
		for _, words := range [][]string{
			{"-H", canary + ": x"},
			{"-H", "X-" + canary + "-Version: 1"},
			{"-b", canary + "=x; other=y"},
			{"-H", "Cookie: " + canary + "=1"},
			{"-d", canary + "_token=1"},
			{"-G", "-d", canary + "=1"},
			{"--url-query", canary + "=1"},
		} {
			line := append([]string{"curl", "https://api.example.com/"}, words...)
			checkNames(t, line)
		}
		checkNames(t, []string{"curl", "https://api.example.com/?" + canary + "=1"})
	}
	for _, name := range []string{"X-Amz-Content-Sha256", "Ocp-Apim-Subscription-Key", "X-Shopify-Access-Token", "subscriptionKeyOfTheClient"} {
		result := testworld.Must(imports.Curl([]string{"curl", "-H", name + ": x", "-H", "X-Key: y", "https://api.example.com/"}, imports.Options{}))(t)
		if strings.Contains(strings.Join(result.Notes, "\n"), "left out") {
			t.Errorf("%s: result.Notes = %q", name, result.Notes)
		}
	}
}

// output returns all that an import writes, or its error.
func output(result *imports.Result, err error) string {
	if err != nil {
		return err.Error() + "\n"
	}
	all := result.Connector.YAML() + strings.Join(result.Notes, "\n")
	for _, v := range slices.Concat(result.Secrets, result.Variables) {
		all += v.Name + v.What
	}
	return all
}

func checkNames(t *testing.T, line []string) {
	t.Helper()
	if result, err := imports.Curl(line, imports.Options{}); err == nil {
		if result.Connector.Type == "none" {
			t.Errorf("%q has the type none, although a credential shows", line)
		}
	} else if strings.Contains(strings.ToLower(err.Error()), "canary") {
		t.Errorf("%q: err = %v", line, err)
	}
	line = append(line, "-u", "me:x") // with a credential that has a place, the name is left out
	result := testworld.Must(imports.Curl(line, imports.Options{}))(t)
	out := output(result, nil)
	if strings.Contains(strings.ToLower(out), "canary") {
		t.Errorf("line = %q:\nout = %s", line, out)
	}
	if !strings.Contains(out, "has a name that may be a credential, and is left out") {
		t.Errorf("%q has no note:\n%s", line, out)
	}
}

// The value of an option, in whatever place of the command line, is in no output (threats.md 198).
func TestCurlKeepsNoValue(t *testing.T) {
	const canary = "Kw7canaryQx93Zz"
	long := "aws-sigv4 cacert cert config connect-to cookie cookie-jar data data-ascii data-binary data-raw data-urlencode dump-header form " +
		"form-string frobnicate header json key key-type max-time netrc-file oauth2-bearer output pass proxy proxy-user range referer resolve " +
		"retry trace upload-file user user-agent write-out"
	var lines [][]string
	for _, option := range strings.Fields(long) {
		lines = append(lines, []string{"--" + option, canary, "api.example.com"}, []string{"https://api.example.com", "--" + option, canary})
	}
	for _, letter := range "AbcdDeEFHKmorTuUwx" {
		lines = append(lines, []string{"-" + string(letter), canary, "https://api.example.com/"}, []string{"-s" + string(letter) + canary, "https://api.example.com/"})
	}
	for _, header := range []string{"X: $", "Authorization: $", "Authorization: $ $", "Authorization: Basic $", "Authorization: Bearer $", "X-Request: $", "Accept: $", "Accept: $!", "X-Api-Version: $$$$", "X-Api-Version: 2024-01-01.$", "Proxy-Authorization: $", "Cookie: a=$", "Cookie: $", "$"} {
		lines = append(lines, []string{"-H", strings.ReplaceAll(header, "$", canary), "https://api.example.com/"})
	}
	for _, url := range []string{"https://$@a.example/", "https://$:$@a.example/", "https://a.example/$", "https://a.example/x/$/y", "https://a.example/?key=$", "https://a.example/?q=$", "https://a.example/?$", "https://a.example/#$", "https://a.example/?a[]=$&b", "http://u:$@a.example:80"} {
		lines = append(lines, []string{strings.ReplaceAll(url, "$", canary)})
	}
	for _, data := range []string{"token=$", "a=$", "$", `{"key": "$"}`, "grant_type=password&username=$&password=$&client_id=$&$=1", "grant_type=$"} {
		lines = append(lines, []string{"-d", strings.ReplaceAll(data, "$", canary), "https://a.example/token"})
	}
	for _, line := range lines {
		all := output(imports.Curl(append([]string{"curl"}, line...), imports.Options{URL: "https://api.example.com"}))
		if strings.Contains(strings.ToLower(all), strings.ToLower(canary)) {
			t.Errorf("line = %q:\nall = %s", line, all)
		}
	}
}

// Whatever a document says, there is a connector that the gateway can load or refuse, or an error that a terminal can show
// (threats.md 196, threats.md 197).
func FuzzOpenAPI(f *testing.F) {
	files := testworld.Must(filepath.Glob("testdata/*.txtar"))(f)
	for _, name := range files {
		archive := testworld.Must(txtar.ParseFile(name))(f)
		f.Add(archive.Files[0].Name == "curl", archive.Files[0].Data)
	}
	f.Fuzz(func(t *testing.T, curl bool, text []byte) {
		result, err := imports.OpenAPI(text, imports.Options{})
		if curl {
			result, err = imports.CurlLine(string(text), imports.Options{})
		}
		if err != nil {
			printable(t, "error", err.Error())
			return
		}
		for _, note := range result.Notes {
			printable(t, "note", note)
		}
		yaml := result.Connector.YAML()
		for line := range strings.Lines(yaml) {
			printable(t, "connector", strings.TrimSuffix(line, "\n")[:min(len(line)-1, 1000)])
		}
	})
}

// planted are command lines and documents, in which $ stands for a credential.
var planted = []string{
	`curl https://api.example.com/v1/x -H 'X-Api-Key: $'`,
	"curl -X POST https://api.example.com/v1/x \\\n  -H 'Authorization: Bearer $' \\\n  -H 'Accept: application/json' \\\n  -d '{\"id\": 1}'",
	`curl -u 'me:$' https://api.example.com/v1/x`,
	`curl https://me:$@api.example.com/v1/x`,
	`curl "https://api.example.com/v1/x?q=London&api_key=$"`,
	`curl -H "Cookie: sid=$; lang=en" -b 'csrf=$' https://api.example.com/`,
	`curl https://slack.com/api/chat.postMessage -d token=$ -d text=hello`,
	`curl --json '{"client_id":"$","client_secret":"$","grant_type":"client_credentials","scope":"read"}' https://login.example.com/token`,
	"curl ^\"https://api.example.com/v1/x^\" ^\n  -H ^\"X-Api-Key: $^\"",
	"curl.exe https://api.example.com/v1/x `\n  -H \"X-Api-Key: $\" `\n  -H 'Accept: */*'",
	"Invoke-WebRequest -Uri https://api.example.com/v1/x -Headers @{'X-Api-Key'='$'}",
	"# my key: $\ncurl https://api.example.com/v1/x",
	"TOKEN=$\ncurl https://api.example.com/v1/x -H \"X-Api-Key: $TOKEN\"",
	"curl https://api.example.com/v1/x -H @- <<EOF\nX-Api-Key: $\nEOF\ncurl https://api.example.com/v2",
	"curl -H “X-Api-Key: $” https://api.example.com/v1/x",
	"curl -H $'X-Api-Key: $' --oauth2-bearer $ https://api.example.com/v1/x",
	"curl https://api.example.com/v1/x \\\n# key\n-H 'X-Api-Key: $'",
	"curl --aws-sigv4 aws:amz:eu-central-1:s3 -u AKIA:$ https://s3.eu-central-1.amazonaws.com/b",
	`{"openapi": "3.0.0", "info": {"title": "Orders", "description": "$"}, "servers": [{"url": "https://me:$@api.example.com/v1?key=$"}, {"url": "https://api.example.com/v1"}],
 "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Api-Key", "description": "$", "x-example": "$"}}}}`,
	"openapi: 3.0.0\ninfo: {title: Orders}\nservers: [{url: 'https://{v}.example.com', variables: {v: {default: api, enum: [$]}}}]\npaths:\n  /orders:\n    get:\n      parameters:\n        - {in: header, name: Authorization, example: Bearer $, schema: {default: $}}\n",
	`{"swagger": "2.0", "info": {"title": "Orders"}, "host": "api.example.com", "securityDefinitions": {"o": {"type": "oauth2", "flow": "application", "tokenUrl": "https://login.example.com/t?client_secret=$", "scopes": {"read": "$"}}}}`,
}

// credential returns a random credential of one of the usual forms.
func credential(r *rand.Rand) string {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	text := func(from string, n int) string {
		var b strings.Builder
		for i := range n {
			if i%4 == 3 {
				b.WriteByte(letters[r.IntN(10)])
				continue
			}
			b.WriteByte(from[r.IntN(len(from))])
		}
		return b.String()
	}
	switch r.IntN(6) {
	case 0:
		return text(letters[:16], 32)
	case 1:
		return text(letters+"+/", 40) + "=="
	case 2:
		return "eyJ" + text(letters, 33) + ".eyJ" + text(letters+"-_", 60) + "." + text(letters+"-_", 43)
	case 3:
		return "sk_live_" + text(letters, 24)
	case 4:
		return text(letters+"!#@:/?&%^~", 20)
	default:
		return text(letters, 20)
	}
}

// scraps are put into a mangled text in some place.
var scraps = []string{"'", `"`, "“", "”", "’", "`", "^", "\\", "\n", "\\\n", "^\n", " ", "#", " #", "--", "–", "-H ", "@", ":", "=", "&", "?", "/", ";", "|", "$(", "$'", "<<EOF\n", "{", "}", ",", "curl ", "https://"}

// mangle changes a text in up to four places.
func mangle(r *rand.Rand, text string) string {
	for range r.IntN(5) {
		at := r.IntN(len(text) + 1)
		end := min(len(text), at+1+r.IntN(3))
		switch r.IntN(4) {
		case 0:
			text = text[:at] + text[end:]
		case 1:
			text = text[:at] + scraps[r.IntN(len(scraps))] + text[end:]
		case 2:
			for _, quotes := range []string{"'", `"`, "\\\n", " "} {
				if n := strings.Count(text, quotes); n > 0 && r.IntN(3) == 0 {
					text = strings.Replace(text, quotes, scraps[r.IntN(len(scraps))], 1+r.IntN(n))
				}
			}
		default:
			text = text[:at] + scraps[r.IntN(len(scraps))] + text[at:]
		}
	}
	return text
}

var digits = regexp.MustCompile(`[0-9].*[0-9].*[0-9]`)

// keeps fails the test if a part of a credential is in what an import writes, or in its error.
func keeps(t *testing.T, text, secret string) {
	t.Helper()
	all := ""
	for _, do := range []func() (*imports.Result, error){
		func() (*imports.Result, error) { return imports.CurlLine(text, imports.Options{}) },
		func() (*imports.Result, error) {
			return imports.CurlLine(text, imports.Options{URL: "https://api.example.com"})
		},
		func() (*imports.Result, error) { return imports.Curl(strings.Fields(text), imports.Options{}) },
		func() (*imports.Result, error) { return imports.OpenAPI([]byte(text), imports.Options{}) },
	} {
		all += output(do())
	}
	all = strings.ToLower(all)
	const part = 12 // of which every fourth character is a digit, but for the first of some
	for i := 0; i+part <= len(secret); i++ {
		if digits.MatchString(secret[i:i+part]) && strings.Contains(all, strings.ToLower(secret[i:i+part])) {
			t.Fatalf("%q, a part of the credential %q, is in the output for\n%s\n\n%s", secret[i:i+part], secret, text, all)
		}
	}
}
