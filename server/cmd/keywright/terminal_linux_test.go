package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/terminal"
)

// In a terminal, text for people is wrapped at its width, or at 80 columns if the width is unknown. Elsewhere a problem is one
// line of any length.
func TestWidth(t *testing.T) {
	text := "connectors: [{name: a, url: 'https://a.example', auth: {type: jwt, config: {algorithm: RS255, claims: {a: '{{ x }}'}, private_key: \"{{ get_secret('x') }}\"}}}]\n"
	file := testworld.File(t, "c.yaml", text)
	for _, args := range [][]string{
		{"--help"},
		{"request", "--help"},
		{"check", "--help"},
		{"plugin", "list"},
		{"plugin", "inspect", "api_key"},
		{"plugin", "inspect", "oauth_jwt_bearer"},
		{"check", "-c", file},
		{"explain", "-c", file, "a", "/"},
		{},
		{"request", "--nonsense"},
	} {
		for _, width := range []int{0, 80, 100} {
			t.Run(fmt.Sprint(strings.Join(args, " "), " at ", width), func(t *testing.T) {
				want := max(width, terminal.Narrow)
				for line := range strings.Lines(inTerminal(t, width, args...)) {
					line = strings.TrimRight(line, "\r\n")
					if n := utf8.RuneCountInString(line); n > want && strings.Contains(strings.TrimSpace(line), " ") {
						t.Errorf("%d columns: %s", n, line)
					}
				}
			})
		}
	}
	_, stdout, _ := keywright(t.Context(), "check", "-c", file)
	if lines := strings.Split(strings.TrimSpace(stdout), "\n"); len(lines) != 3 || lines[2] != "2 problems" {
		t.Errorf("not a line for each problem: %q", stdout)
	}
}

// In a terminal, check shows the line of each problem and warning with a caret below the character, in the width of the terminal. A line
// with a credential on it has no values (threats.md 250). Elsewhere it does not show the line.
func TestCheckShowsTheLine(t *testing.T) {
	const begin = "connectors: [{name: \"\u00e9\",\t" + `url: 'htps://a.example', auth: {type: jwt, config: {algorithm: RS255, claims: {}, private_key: `
	write := func(key string) string { return testworld.File(t, "c.yaml", "# é\n"+begin+key+"}}}]\r\n") }
	for width, want := range map[int]struct {
		key    string
		carets int
		below  *regexp.Regexp
	}{
		60:  {`"{{ get_secret('a') }}"`, 2, regexp.MustCompile("^('htps:|RS255)")},
		201: {`"{{ get_secret('a') }}"`, 2, regexp.MustCompile("^('htps:|RS255)")},
		61:  {"hunter2", 3, regexp.MustCompile("^…[,}]")},
		200: {"hunter2", 3, regexp.MustCompile("^…[,}]")},
	} {
		file := write(want.key)
		shown := strings.Split(colours.ReplaceAllString(inTerminal(t, width, "check", "-c", file), ""), "\n")
		carets := 0
		for i, text := range shown {
			caret := strings.TrimRight(text, "\r")
			if !strings.HasSuffix(caret, "^") {
				continue
			}
			carets++
			above := []rune(strings.TrimRight(shown[i-1], "\r"))
			wrong := string(above[len([]rune(caret))-1:])
			if len(above) > width || !strings.HasPrefix(string(above), "    2 | ") || !want.below.MatchString(wrong) {
				t.Errorf("at %d columns, the caret is below %q in %q", width, wrong, string(above))
			}
		}
		if text := strings.Join(shown, "\n"); carets != want.carets || strings.Contains(text, "hunter2") {
			t.Errorf("at %d columns, %d carets:\n%s", width, carets, text)
		}
	}
	if _, stdout, _ := keywright(t.Context(), "check", "-c", write("hunter2")); strings.Contains(stdout, "hunter2") || strings.Contains(stdout, "^") {
		t.Errorf("elsewhere than in a terminal: %s", stdout)
	}
}

// Of a file that is no YAML, check knows no credential. It shows the members of the line, and none of their values (threats.md 250).
func TestCheckInvalidYAML(t *testing.T) {
	for line, want := range map[string]string{
		"    value: 'hunter2":          "value: …",
		"    value: hunter2: 'x":       "value: …",
		"    config: {value: hunter2]": "config: {value: …",
		"   value: hunter2":            "value: …",
	} {
		file := testworld.File(t, "c.yaml", "connectors:\n  - name: a\n    x: y\n"+line+"\n")
		shown := colours.ReplaceAllString(inTerminal(t, 100, "check", "-c", file), "")
		if strings.Contains(shown, "hunter2") || !strings.Contains(shown, "    4 | ") || !strings.Contains(shown, want) {
			t.Errorf("of %q, there is\n%s", line, shown)
		}
	}
}

// The line of a problem shows no credential, wherever one stands in it, and whether or not the file can be read (threats.md 280).
func TestTheLineOfAProblemShowsNoCredential(t *testing.T) {
	const canary = "c4n4ry0x9c4n4ry0x9"
	connector := func(more string) string { return "connectors:\n  - {name: a, url: htps://a.example, " + more + "}\n" }
	basic := func(password string) string {
		return "auth: {type: basic, config: {username: me, password: " + password + "}}"
	}
	many := "connectors:\n"
	for i := range 101 {
		many += fmt.Sprintf("  - {name: a%d, url: htps://a.example, auth: {type: bearer, config: {token: %s%d}}}\n", i, canary, i)
	}
	token := "sk" + "_live_" + canary
	for name, text := range map[string]string{
		"a comment":              connector(basic("''")) + "# " + token + "\nnope: 1 # " + token + "\n",
		"two in a text":          connector("headers: [{name: X-A, value: '" + token + " " + token + "'}], auth: {type: none}"),
		"beside an expression":   connector(basic(`"abcdefgh12345678 {{ user.id }} ` + canary + `"`)),
		"several lines":          connector(basic("\"one\n     "+canary+"\"") + ", nope: 1"),
		"a block":                "connectors:\n  - name: a\n    url: https://a.example\n    auth:\n      type: bearer\n      config:\n        token: |\n          " + canary + " {{ nope( }}\n",
		"a byte order mark":      "\ufeffconnectors: [{url: htps://a.example, auth: {type: bearer, config: {token: " + canary + "}}}]\n",
		"more than are listed":   many,
		"two colons":             "connectors:\n  - password: a: " + canary + "\n",
		"no blank":               "connectors:\n  - name: a\n    password:" + canary + "\n",
		"a tag":                  connector(basic("!!str " + canary)),
		"no end":                 connector(basic(`"` + canary)),
		"a bare template":        "connectors:\n  - password: {{ get_secret('a') }} " + canary + "\n",
		"user info":              "connectors: [{url: 'https://me:" + canary + "@a.example', auth: {type: none}}]\n",
		"an alias":               connector(basic("*" + canary)),
		"a bad expression":       "connectors:\n  - {name: a, url: 'https://a.example', auth: {type: basic, config: {username: me, password: \"" + canary[:12] + " {{ bad( }}\"}}}\n",
		"no end of a token":      "connectors:\n  - token: \"" + canary + "\n",
		"no end of single quote": connector(basic("'" + canary)),
		"in braces":              connector(basic(`"{{ ` + token + ` }}"`)),
		"in braces without end":  connector(basic(`"{{` + token + `"`)),
		"behind a brace":         connector(basic(`"}` + canary + `"`)),
		"behind a blank":         connector(basic(`" ` + canary + `"`)),
		"behind a quote":         connector(basic(`"'` + canary + `"`)),
	} {
		t.Run(name, func(t *testing.T) {
			file := testworld.File(t, "c.yaml", text)
			shown := inTerminal(t, 250, "check", "-c", file)
			if strings.Contains(colours.ReplaceAllString(shown, ""), canary[2:12]) || !strings.Contains(shown, "problem") {
				t.Error(shown)
			}
		})
	}
}

// In a terminal, request shows the status of the answer, unless -i does.
func TestRequestShowsTheStatus(t *testing.T) {
	api := httptest.NewServer(http.NotFoundHandler())
	defer api.Close()
	file := testworld.File(t, "c.yaml", "connectors: [{name: a, url: '"+api.URL+"', auth: {type: none}}]\n")
	if shown := inTerminal(t, 100, "request", "--dev", "-c", file, "a", ""); !strings.Contains(shown, "the API answered 404 Not Found\r\n") {
		t.Error(shown)
	}
	if shown := inTerminal(t, 100, "request", "--dev", "-i", "-c", file, "a", ""); strings.Contains(shown, "the API answered") {
		t.Error(shown)
	}
}

// colours matches the sequences that set colours.
var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// In a terminal, a text of several lines keeps its lines.
func TestSeveralLines(t *testing.T) {
	file := func(path string) string {
		return testworld.File(t, "c.yaml", "connectors: [{name: a, url: 'https://a.example/"+path+"', auth: {type: none}}]\n")
	}
	shown := inTerminal(t, 40, "explain", "-c", file("v2"), "--diff", file("v1"))
	if plain := colours.ReplaceAllString(shown, ""); !strings.Contains(plain, "\r\n  + GET https://a.example/v2\r\n") {
		t.Error(shown)
	}
}

// The log of a server is JSON, and on a terminal text for people, in colours unless NO_COLOR is set. Lines below --log-level are left
// out.
func TestServerLog(t *testing.T) {
	write := func(w io.Writer, level, noColour string) {
		t.Helper()
		a := newApp(nil, io.Discard, w, func(name string) string {
			return map[string]string{"NO_COLOR": noColour, "TERM": "xterm"}[name]
		})
		logger := testworld.Must(a.serverLogger(&cobra.Command{}, level))(t)
		logger.Info("serving", "connectors", 3)
		logger.Warn("a warning\x1b[2J", "text", "\x1b[2Ja", "error", errors.New("\x1b[2J"))
	}
	var plain bytes.Buffer
	write(&plain, "info", "")
	if lines := strings.Split(plain.String(), "\n"); len(lines) != 3 || !strings.Contains(lines[0], `"level":"INFO","msg":"serving","connectors":3}`) {
		t.Errorf("elsewhere than on a terminal: %q", lines)
	}
	plain.Reset()
	write(&plain, "warn", "")
	if text := plain.String(); strings.Contains(text, "serving") || !strings.Contains(text, "a warning") {
		t.Errorf("with --log-level warn: %s", text)
	}
	coloured := onTerminal(t, 100, func(terminal *os.File) { write(terminal, "info", "") })
	if !strings.Contains(coloured, "\x1b[") || strings.Contains(coloured, "\x1b[2J") || !strings.Contains(coloured, "serving") {
		t.Errorf("on a terminal: %q", coloured)
	}
	without := onTerminal(t, 100, func(terminal *os.File) { write(terminal, "info", "1") })
	if !regexp.MustCompile(`^\d\d:\d\d:\d\d INF serving connectors=3\r\n`).MatchString(without) || strings.Contains(without, "\x1b") {
		t.Errorf("without colours: %q", without)
	}
	exitsWith(t, exitUsage, `--log-level "warning" is none`, "serve", "--log-level", "warning")
}

// In a terminal, an import shows a progress bar, which is removed at the end. Problems of records have their own lines.
func TestProgressOfAnImport(t *testing.T) {
	article := `{"type":"article","id":"1"}` + "\n"
	file := testworld.File(t, "c.ndjson", strings.Repeat(article, 1500)+`{"type":"article"}`+"\n"+article)
	written := inTerminal(t, 200, "content", "import", "--dry-run", file)
	for _, want := range []string{"c.ndjson  66% |", `:1501:1: there is no "id": an article needs one`, "articles 1501, replies 0, moderators 0; deleted 0; bad records 1"} {
		if !strings.Contains(written, want) {
			t.Errorf("%q has no %q", written, want)
		}
	}
	if after := written[strings.LastIndex(written, "%"):]; !regexp.MustCompile(`\r {50,}\r`).MatchString(after) {
		t.Errorf("the bar is there at the end: %q", written)
	}
}

// inTerminal returns what a command line writes to a terminal with width columns. A terminal with width 0 does not report its
// width.
func inTerminal(t *testing.T, width int, args ...string) string {
	t.Helper()
	noColour := func(string) string { return "1" }
	return onTerminal(t, width, func(terminal *os.File) {
		run(t.Context(), args, strings.NewReader(""), terminal, terminal, noColour)
	})
}

// onTerminal returns what do writes to a terminal with width columns.
func onTerminal(t *testing.T, width int, do func(terminal *os.File)) string {
	t.Helper()
	master := testworld.Must(os.OpenFile("/dev/ptmx", os.O_RDWR, 0))(t)
	defer master.Close()
	fd := int(master.Fd())
	testworld.Check(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number := testworld.Must(unix.IoctlGetInt(fd, unix.TIOCGPTN))(t)
	terminal := testworld.Must(os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0))(t)
	testworld.Check(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(width)}))
	var written bytes.Buffer
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(&written, master) // ends with an error when the terminal is closed
		close(done)
	}()
	do(terminal)
	terminal.Close()
	<-done
	return written.String()
}

// threats.md 22: a server leaves no core dump, except with --dev.
func TestNoDumps(t *testing.T) {
	dumpable := func() bool {
		t.Helper()
		is := testworld.Must(unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0))(t)
		return is != 0
	}
	for _, args := range [][]string{
		{"serve", "-c", "missing.yaml"},
		{"content", "serve", "--db", "missing:"},
	} {
		testworld.Check(t, unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0))
		if code, _, _ := keywright(t.Context(), append(args, "--dev")...); code != exitFailure || !dumpable() {
			t.Errorf("%s: exit %d, dumpable %t with --dev", args, code, dumpable())
		}
		if code, _, _ := keywright(t.Context(), args...); code != exitFailure || dumpable() {
			t.Errorf("%s: exit %d, dumpable %t", args, code, dumpable())
		}
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil || limit != (unix.Rlimit{}) {
		t.Errorf("the limit of a dump is %+v: %v", limit, err)
	}
}
