package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/operate/difference"
)

// The console knows what the last change altered, and what a file alters that waits for a restart. Of a bad file it has the problems.
func TestFileChanges(t *testing.T) {
	r := newReader(t, file)
	first := r.consoleState()
	if first.Changed != nil || first.Waiting != nil || len(first.Set.SHA256) != 64 {
		t.Errorf("at first there is %+v", first)
	}
	path := []difference.Connector{{Permalink: "echo", Members: []difference.Member{{Path: "method", Before: "GET", After: "POST", Wider: "callers may use POST"}}}}
	has := func(what string, d *difference.Document) {
		t.Helper()
		if d == nil || !slices.EqualFunc(d.Changed, path, func(a, b difference.Connector) bool {
			return a.Permalink == b.Permalink && slices.Equal(a.Members, b.Members)
		}) {
			t.Errorf("%s changes %+v", what, d)
		}
	}
	changed := strings.Replace(file, "    auth:", "    method: POST\n    auth:", 1)
	r.write("gateway: {traces: 'https://collector.example.com/v1/traces'}\n" + changed)
	if err := r.reload(t.Context()); err == nil {
		t.Fatal("the traces have changed")
	}
	waiting := r.consoleState()
	has("the file that waits", waiting.Waiting)
	if len(waiting.Problems) != 1 || waiting.Problems[0].Text != errTraces.Error() || len(waiting.Waiting.Others) != 1 || waiting.Waiting.Others[0].Path != "gateway.traces" {
		t.Errorf("a file that waits is shown as %+v", waiting)
	}
	r.write("gateway: {traces: 'https://collector.example.com/v1/traces', tls: {cert: none.pem, key: none.pem}}\n" + changed)
	if err := r.reload(t.Context()); err == nil {
		t.Fatal("a file whose certificate is missing is in use")
	}
	if missing := r.consoleState(); missing.Waiting != nil || len(missing.Problems) != 1 || !strings.HasPrefix(missing.Problems[0].Text, "gateway.tls: ") {
		t.Errorf("a file that no restart puts in use is shown as %+v", missing)
	}
	r.write(strings.Replace(changed, "method", "metod", 1))
	if err := r.reload(t.Context()); err == nil {
		t.Fatal("a bad file is in use")
	}
	bad := r.consoleState()
	if bad.Waiting != nil || len(bad.Problems) != 1 || bad.Problems[0].Line != "    metod: …" || bad.Problems[0].Indent != "    " || bad.Set.SHA256 != first.Set.SHA256 {
		t.Errorf("a bad file is shown as %+v", bad)
	}
	r.write(changed)
	testworld.Check(t, r.reload(t.Context()))
	used := r.consoleState()
	has("the file in use", used.Changed)
	if used.Waiting != nil || len(used.Problems) > 0 || used.Set.SHA256 == first.Set.SHA256 {
		t.Errorf("the file in use is shown as %+v", used)
	}
}

// While the lines of a bad file are read again, which a disk may delay, the console and /readyz answer.
func TestBadFileLinesWithoutLock(t *testing.T) {
	r := newReader(t, file)
	slow := filepath.Join(t.TempDir(), "slow.yaml")
	testworld.Check(t, syscall.Mkfifo(slow, 0o600))
	r.read = func(context.Context) (*connectors.Set, error) {
		return nil, &connectors.Error{File: r.file, Problems: []connectors.Problem{{File: slow, Line: 1, Column: 1, Message: "is wrong"}}}
	}
	refused := make(chan error)
	go func() { refused <- r.reload(t.Context()) }()
	pipe, err := os.OpenFile(slow, os.O_WRONLY, 0) // waits for the reader
	testworld.Check(t, err)
	if state := r.consoleState(); len(state.Problems) > 0 {
		t.Errorf("the problems are %+v", state.Problems)
	}
	_, err = pipe.WriteString("url: x")
	if err = errors.Join(err, pipe.Close()); err != nil {
		t.Error(err)
	}
	if <-refused == nil {
		t.Error("the file is in use")
	}
	if state := r.consoleState(); len(state.Problems) != 1 || state.Problems[0].Line != "url: …" {
		t.Errorf("the problems are %+v", state.Problems)
	}
}
