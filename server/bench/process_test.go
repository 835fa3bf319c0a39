package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
)

// Some rows measure a separate process: one that has just started, that holds nothing else, or that has one processor. Servers that
// are measured are separate processes, so that they do not share a garbage collector with their clients. For these, the test runs
// itself, and the environment has what it is to do in partName: the name of one of the functions below, and its arguments.
const partName = "KEYWRIGHT_BENCH_PART"

// TestPart is run in processes of their own.
func TestPart(t *testing.T) {
	name, args, _ := strings.Cut(os.Getenv(partName), "\n")
	part := map[string]func(t *testing.T, args string){
		"start": partStart, "compile": partCompile, "idle": partIdle, "throughput": partThroughput, "api": partAPI, "proxy": partProxy,
	}[name]
	if part == nil {
		return // other tests run it
	}
	part(t, args)
}

// valuePrefix stands before the number that a part writes, and addressPrefix before the URL of a server.
const valuePrefix, addressPrefix = "value: ", "callers: "

func writeValue(v float64) { fmt.Println(valuePrefix + strconv.FormatFloat(v, 'g', -1, 64)) }

// self returns the command for a part.
func self(t testing.TB, name, args string) *exec.Cmd {
	t.Helper()
	path := testworld.Must(os.Executable())(t)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, "-test.run", "^TestPart$")
	cmd.Env = append(os.Environ(), partName+"="+name+"\n"+args)
	return cmd
}

// child runs a part with additional environment variables, and returns its number.
func child(s session, name, args string, environment ...string) float64 {
	s.Helper()
	cmd := self(s, name, args)
	cmd.Env = append(cmd.Env, environment...)
	out, err := cmd.CombinedOutput()
	_, text, found := strings.Cut(string(out), valuePrefix)
	text, _, _ = strings.Cut(text, "\n")
	if err != nil || !found {
		s.Fatalf("child %s %s: %v: %s", name, args, err, out)
	}
	return testworld.Must(strconv.ParseFloat(text, 64))(s)
}

// keyedPath is the path at which the API requires the key.
const keyedPath = "/keyed"

// weather is an answer of the API.
const weather = `{"sun":true,"wind":"north","temperature":12.5}`

func partAPI(t *testing.T, _ string) {
	serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == keyedPath && r.Header.Get("X-API-Key") != apiKey {
			http.Error(w, "the key is not in the request", http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, weather)
	}))
}

// partProxy serves a ReverseProxy that is configured for speed. Its argument is the API's URL.
func partProxy(t *testing.T, api string) {
	backend := testworld.Must(url.Parse(api))(t)
	serveHandler(t, &httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(backend) },
		Transport:  &http.Transport{MaxIdleConns: 1024, MaxIdleConnsPerHost: 64},
		BufferPool: &pool{},
	})
}

// A pool holds buffers of the size that ReverseProxy allocates without a pool.
type pool struct{ buffers sync.Pool }

const poolBytes = 32 << 10

func (p *pool) Get() []byte {
	if buffer, ok := p.buffers.Get().(*[poolBytes]byte); ok {
		return buffer[:]
	}
	return make([]byte, poolBytes)
}

func (p *pool) Put(buffer []byte) { p.buffers.Put((*[poolBytes]byte)(buffer)) }

// serveHandler serves until SIGTERM, and writes its URL.
func serveHandler(t *testing.T, handler http.Handler) {
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer stop()
	listener := testworld.Must((&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"))(t)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Println(addressPrefix + "http://" + listener.Addr().String())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		t.Fatal(err)
	}
}

// launch starts a server. stop ends it by SIGTERM, as does the end of the test. ended is closed when it has ended.
func launch(t testing.TB, cmd *exec.Cmd) (ended <-chan struct{}, stop func()) {
	t.Helper()
	testworld.Check(t, cmd.Start())
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // an error: a signal ends it
		close(done)
	}()
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		<-done
		late.Stop()
	})
	t.Cleanup(stop)
	return done, stop
}

// start starts a server, and returns its URL: the text after "callers: " on its standard output.
func start(t testing.TB, cmd *exec.Cmd) (address string, stop func()) {
	t.Helper()
	read, write := io.Pipe()
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = write, &stderr
	ended, stop := launch(t, cmd)
	go func() {
		<-ended
		_ = write.Close()
	}()
	for lines := bufio.NewScanner(read); lines.Scan(); {
		if address, found := strings.CutPrefix(lines.Text(), addressPrefix); found {
			go func() { _, _ = io.Copy(io.Discard, read) }()
			return address, stop
		}
	}
	t.Fatalf("%s has ended: %s", cmd, &stderr)
	return "", nil
}

// startListening starts a server, and returns when it accepts connections.
func startListening(t testing.TB, cmd *exec.Cmd, address string) {
	t.Helper()
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	ended, _ := launch(t, cmd)
	late := time.After(time.Minute)
	for {
		if connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address); err == nil {
			_ = connection.Close()
			return
		}
		select {
		case <-ended:
			t.Fatalf("%s ended before it listened: %s", cmd, &output)
		case <-late:
			t.Fatalf("%s does not listen on %s", cmd, address)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// freeAddress returns an address of this machine at which nothing listens, for programs that cannot choose one themselves.
func freeAddress(t testing.TB) string {
	t.Helper()
	listener := testworld.Must((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	return listener.Addr().String()
}

// program returns the path of the keywright command. It is compiled for the first test that needs it.
var program = sync.OnceValues(func() (string, error) {
	directory, err := os.MkdirTemp("", "keywright-bench-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(directory, "keywright")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", path, "./cmd/keywright")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("go build: %w: %s", err, out), os.RemoveAll(directory))
	}
	built = directory
	return path, nil
})

// built is the directory of the program, if it is compiled.
var built string

func removeProgram() {
	if built != "" {
		_ = os.RemoveAll(built)
	}
}

// keywright returns a command line of keywright.
func keywright(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	path := testworld.Must(program())(t)
	return exec.CommandContext(context.WithoutCancel(t.Context()), path, args...)
}
