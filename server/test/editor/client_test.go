package editor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

const program = "node_modules/yaml-language-server/bin/yaml-language-server"

// A server is a running language server, and what it has sent.
type server struct {
	t   *testing.T
	in  io.Writer
	dir string

	mu sync.Mutex
	// last is the ID of the last request to the server, and opened the number of files.
	last, opened int
	// answers has a channel for each request under way, and found one for the diagnostics of each file.
	answers map[int]chan message
	found   map[string]chan []diagnostic
	// configured is closed when the server has asked for its settings.
	configured func()
}

// A message is one of JSON-RPC 2.0.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      *int            `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// A diagnostic is a text that the editor underlines, and why. Lines and columns count from 0.
type diagnostic struct {
	Range   struct{ Start, End position }
	Message string
}

type position struct {
	Line      int `json:"line"`
	Character int `json:"character"`
}

// settings are those of the editor. Nothing is fetched.
const settings = `{"validate": true, "hover": true, "completion": true, "schemaStore": {"enable": false}, "hoverSchemaSource": false}`

// start starts the language server, as an editor does, with a directory whose files it reads.
func start(t *testing.T, dir string) *server {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%v: run `make npm`", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, "node", program, "--stdio")
	c.Stderr = os.Stderr
	in := testworld.Must(c.StdinPipe())(t)
	out := testworld.Must(c.StdoutPipe())(t)
	testworld.Check(t, c.Start())
	configured := make(chan struct{})
	s := &server{t: t, in: in, dir: dir, answers: map[int]chan message{}, found: map[string]chan []diagnostic{}, configured: sync.OnceFunc(func() { close(configured) })}
	read := make(chan error, 1)
	go func() { read <- s.read(bufio.NewReader(out)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-read; err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
		_ = c.Wait() // it was killed
	})
	s.request("initialize", map[string]any{
		"processId": nil, "rootUri": "file://" + dir,
		"capabilities": map[string]any{
			"workspace":    map[string]any{"configuration": true},
			"textDocument": map[string]any{"hover": map[string]any{"contentFormat": []string{"markdown"}}, "completion": map[string]any{"completionItem": map[string]any{"snippetSupport": true}}},
		},
	}, nil)
	s.send(message{Method: "initialized", Params: json.RawMessage(`{}`)})
	<-configured
	return s
}

// read handles what the server sends, until it ends.
func (s *server) read(from *bufio.Reader) error {
	for {
		header, err := textproto.NewReader(from).ReadMIMEHeader()
		if err != nil {
			return err
		}
		length, err := strconv.Atoi(header.Get("Content-Length"))
		if err != nil {
			return err
		}
		text := make([]byte, length)
		if _, err := io.ReadFull(from, text); err != nil {
			return err
		}
		var m message
		if err := json.Unmarshal(text, &m); err != nil {
			return err
		}
		if err := s.handle(m); err != nil {
			return err
		}
	}
}

func (s *server) handle(m message) error {
	switch {
	case m.Method == "workspace/configuration":
		var asked struct{ Items []struct{ Section string } }
		if err := json.Unmarshal(m.Params, &asked); err != nil {
			return err
		}
		values := make([]json.RawMessage, len(asked.Items))
		for i, item := range asked.Items {
			if values[i] = json.RawMessage(`{}`); item.Section == "yaml" {
				values[i] = json.RawMessage(settings)
			}
		}
		result, err := json.Marshal(values)
		if err != nil {
			return err
		}
		s.send(message{ID: m.ID, Result: result})
		s.configured()
	case m.Method == "textDocument/publishDiagnostics":
		var found struct {
			URI         string
			Diagnostics []diagnostic
		}
		if err := json.Unmarshal(m.Params, &found); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if to := s.found[found.URI]; to != nil {
			to <- found.Diagnostics
			delete(s.found, found.URI)
		}
	case m.Method != "" && m.ID != nil:
		s.send(message{ID: m.ID, Result: json.RawMessage(`null`)})
	case m.Method == "":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.answers[*m.ID] <- m
		delete(s.answers, *m.ID)
	}
	return nil
}

func (s *server) send(m message) {
	m.Version = "2.0"
	text, err := json.Marshal(m)
	if err == nil {
		_, err = fmt.Fprintf(s.in, "Content-Length: %d\r\n\r\n%s", len(text), text)
	}
	if err != nil {
		s.t.Error(err)
	}
}

// request sends a request and decodes the answer.
func (s *server) request(method string, params, into any) {
	s.t.Helper()
	text := testworld.Must(json.Marshal(params))(s.t)
	answer := make(chan message, 1)
	s.mu.Lock()
	s.last++
	id := s.last
	s.answers[id] = answer
	s.mu.Unlock()
	s.send(message{ID: &id, Method: method, Params: text})
	m := <-answer
	if m.Error != nil {
		s.t.Fatalf("%s: m.Error = %s", method, m.Error)
	}
	if into != nil {
		testworld.Check(s.t, json.Unmarshal(m.Result, into))
	}
}

// open opens a file with a text in the editor, and returns its URI and what the editor underlines.
func (s *server) open(text string) (uri string, found []diagnostic) {
	s.t.Helper()
	uri, coming := s.opening(text)
	return uri, <-coming
}

// opening is like open, and does not wait.
func (s *server) opening(text string) (uri string, found <-chan []diagnostic) {
	s.t.Helper()
	s.mu.Lock()
	s.opened++
	uri = "file://" + filepath.Join(s.dir, fmt.Sprintf("file%d.yaml", s.opened))
	diagnostics := make(chan []diagnostic, 1)
	s.found[uri] = diagnostics
	s.mu.Unlock()
	params := testworld.Must(json.Marshal(map[string]any{"textDocument": map[string]any{"uri": uri, "languageId": "yaml", "version": 1, "text": text}}))(s.t)
	s.send(message{Method: "textDocument/didOpen", Params: params})
	return uri, diagnostics
}

// at returns the parameters of a request about a place.
func at(uri string, where position) any {
	return map[string]any{"textDocument": map[string]any{"uri": uri}, "position": where}
}
