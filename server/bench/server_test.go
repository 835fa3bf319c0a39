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
	"strings"
	"sync"
	"syscall"
	"time"
)

// Servers that are measured are separate processes, so that they do not share a garbage collector with their clients. For the
// API and the peer, the test runs itself with serverVerb.

const serverVerb = "server"

var servers = map[string]func(args []string) (http.Handler, error){"api": apiServer, "proxy": proxyServer}

// keyedPath is the path at which the API requires the key.
const keyedPath = "/keyed"

// weather is an answer of the API.
const weather = `{"sun":true,"wind":"north","temperature":12.5}`

func apiServer([]string) (http.Handler, error) {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == keyedPath && r.Header.Get("X-API-Key") != apiKey {
			http.Error(w, "the key is not in the request", http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, weather)
	}), nil
}

// proxyServer returns a ReverseProxy that is configured for speed.
func proxyServer(args []string) (http.Handler, error) {
	if len(args) != 1 {
		return nil, errors.New("the API's URL is missing")
	}
	backend, err := url.Parse(args[0])
	if err != nil {
		return nil, err
	}
	return &httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(backend) },
		Transport:  &http.Transport{MaxIdleConns: 1024, MaxIdleConnsPerHost: 64},
		BufferPool: &pool{},
	}, nil
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

// runServer serves until ctx ends. It writes its URL to stdout.
func runServer(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 0 || servers[args[0]] == nil {
		return errors.New("this is for the command itself to use")
	}
	handler, err := servers[args[0]](args[1:])
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if _, err := fmt.Fprintln(stdout, "callers: http://"+listener.Addr().String()); err != nil {
		return err
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// startSelf starts one of servers.
func startSelf(ctx context.Context, all *sync.WaitGroup, args ...string) (address string, err error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	return start(ctx, all, exec.CommandContext(ctx, path, append([]string{serverVerb}, args...)...))
}

// start starts a server, which runs until ctx ends, and returns its URL: the text after "callers: " on its standard output.
func start(ctx context.Context, all *sync.WaitGroup, cmd *exec.Cmd) (address string, err error) {
	var stderr bytes.Buffer
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	cmd.Stderr = &stderr
	endBySignal(cmd)
	if err := cmd.Start(); err != nil {
		return "", err
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if address, found := strings.CutPrefix(lines.Text(), "callers: "); found {
			all.Go(func() {
				_, _ = io.Copy(io.Discard, stdout)
				_ = cmd.Wait() // an error: a signal ends it
			})
			return address, nil
		}
	}
	return "", fmt.Errorf("%s: %w: %s", cmd, errors.Join(cmd.Wait(), lines.Err(), context.Cause(ctx)), &stderr)
}

// endBySignal lets a server end by itself when its context ends: it gets SIGTERM, and a minute.
func endBySignal(cmd *exec.Cmd) {
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
}
