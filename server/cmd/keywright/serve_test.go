package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// output collects what is written, and can wait for a text.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	last    string
	written chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := strings.Contains(o.text.String(), o.last)
	o.text.Write(p)
	if !before && strings.Contains(o.text.String(), o.last) {
		close(o.written)
	}
	return len(p), nil
}

var (
	curlHeader = regexp.MustCompile(`-H '([^:]+): ([^']+)'`)
	curlBody   = regexp.MustCompile(`-d '([^']+)'`)
	curlURL    = regexp.MustCompile(`http://\S+`)
)

// curl sends the request of a curl command.
func curl(t *testing.T, line string) (status int, header http.Header, answer string) {
	t.Helper()
	method, body := http.MethodGet, ""
	if found := curlBody.FindStringSubmatch(line); found != nil {
		method, body = http.MethodPost, found[1]
	}
	request, err := http.NewRequestWithContext(t.Context(), method, curlURL.FindString(line), strings.NewReader(body))
	testworld.Check(t, err)
	if found := curlHeader.FindStringSubmatch(line); found != nil {
		request.Header.Set(found[1], found[2])
	}
	response := testworld.Must(http.DefaultTransport.RoundTrip(request))(t)
	defer response.Body.Close()
	content := testworld.Must(io.ReadAll(response.Body))(t)
	return response.StatusCode, response.Header, string(content)
}

// serveDemo runs serve --demo. end ends it like Ctrl-C, and returns the exit code.
func serveDemo(t *testing.T, env func(string) string) (out, errs *output, end func() int) {
	t.Helper()
	return serveUntil(t, env, "Ctrl-C", "serve", "--demo")
}

// serveUntil runs a server, until it has written the text last. end ends it like Ctrl-C, and returns the exit code.
func serveUntil(t *testing.T, env func(string) string, last string, args ...string) (out, errs *output, end func() int) {
	t.Helper()
	ctx, interrupt := context.WithCancel(context.Background())
	out, errs = &output{last: last, written: make(chan struct{})}, &output{last: "\n", written: make(chan struct{})}
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append(args, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"), strings.NewReader(""), out, errs, env)
	}()
	end = sync.OnceValue(func() int { interrupt(); return <-ended })
	t.Cleanup(func() { end() })
	select {
	case <-out.written:
	case code := <-ended:
		ended <- code
		t.Fatalf("exit %d: %s", code, errs.text.String())
	}
	return out, errs, end
}

func noEnvironment(string) string { return "" }

// besidesWaiting returns a server's log without the line at its start, those about acts of operators, and without the one that it waits for
// requests to end, which any server may log on a busy machine.
func besidesWaiting(log string) string {
	var rest strings.Builder
	usual := regexp.MustCompile(`"level":"INFO","msg":"(serving|an act of an operator|ending: waiting for the requests in flight)"`)
	for line := range strings.Lines(log) {
		if !usual.MatchString(line) {
			rest.WriteString(line)
		}
	}
	return rest.String()
}

// Each command that serve --demo suggests works, and Ctrl-C ends the server.
func TestServeDemo(t *testing.T) {
	out, errs, end := serveDemo(t, noEnvironment)
	lines := 0
	for line := range strings.Lines(out.text.String()) {
		if !strings.HasPrefix(line, "  curl ") {
			continue
		}
		lines++
		status, _, answer := curl(t, line)
		metrics := strings.Contains(line, "/metrics")
		test := strings.Contains(line, "/test")
		if status != http.StatusOK || !metrics && !test && !strings.Contains(answer, `"ok":true`) {
			t.Errorf("%s is answered %d: %s", strings.TrimSpace(line), status, answer)
		}
		if test && (!strings.Contains(answer, `"status":200`) || !strings.Contains(answer, `"request":{"method"`)) {
			t.Errorf("%s shows %s", strings.TrimSpace(line), answer)
		}
		if strings.Contains(line, "X-User-Email") && !strings.Contains(answer, "ada@example.com") {
			t.Errorf("%s is not for the user: %s", strings.TrimSpace(line), answer)
		}
	}
	if lines != 7 {
		t.Errorf("%d lines to try: %s", lines, out.text.String())
	}
	if code := end(); code != exitOK || besidesWaiting(errs.text.String()) != "" {
		t.Errorf("exit %d, stderr %s", code, errs.text.String())
	}
}

func TestServeDemoNeedsNoConfiguration(t *testing.T) {
	for _, flag := range []string{"-c=x.yaml", "--secrets-dir=x", "--var=a=b", "--dev"} {
		exitsWith(t, exitUsage, "of its own: leave --", "serve", "--demo", flag)
	}
}

// The variables of OpenTelemetry enable traces. Without them there are none.
func TestServeTraces(t *testing.T) {
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", ""} {
		t.Run(variable, func(t *testing.T) {
			var got atomic.Int64
			collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1) }))
			defer collector.Close()
			env := noEnvironment
			if variable != "" {
				t.Setenv(variable, collector.URL)
				env = os.Getenv
			}
			out, _, end := serveDemo(t, env)
			curl(t, regexp.MustCompile(`curl .*/none`).FindString(out.text.String()))
			if code := end(); code != exitOK || (got.Load() > 0) != (variable != "") {
				t.Errorf("exit %d, the collector got %d requests", code, got.Load())
			}
		})
	}
}

// threats.md 156, specification.md "login of operators": a listener for operators that other machines reach needs a login, which the error names. With
// a token, they log in.
func TestServeOperatorsOfOtherMachines(t *testing.T) {
	file := testworld.File(t, "connectors.yaml", "connectors: [{name: A, url: 'https://api.example.com', auth: {type: none}}]\n")
	token := testworld.File(t, "token", "0123456789abcdef\n")
	for _, c := range map[string]struct {
		flags []string
		code  int
		want  string
	}{
		"no login":        {[]string{"--admin", "0.0.0.0:0"}, exitFailure, "on 0.0.0.0:0: operators from other machines have to log in: name a file with a token in --admin-token-file, or listen on 127.0.0.1"},
		"no claim":        {[]string{"--admin-claim", "operator"}, exitUsage, `--admin-claim wants CLAIM=VALUE, such as role=operator, not "operator"`},
		"no value":        {[]string{"--admin-claim", "role="}, exitUsage, `--admin-claim wants CLAIM=VALUE`},
		"no sessions":     {[]string{"--admin-claim", "role=operator"}, exitFailure, "gateway.user has to be of type jwt"},
		"no token":        {[]string{"--admin-token-file", token + "s"}, exitFailure, "the login of operators: stat"},
		"only of metrics": {[]string{"--metrics-token-file", token}, exitUsage, "is good for /metrics alone: give --admin-token-file"},
	} {
		args := append([]string{"serve", "-c", file, "--dev", "--listen", "127.0.0.1:0"}, c.flags...)
		exitsWith(t, c.code, c.want, args...)
	}
	out, _, end := serveUntil(t, noEnvironment, "operators: ", "serve", "-c", file, "--dev", "--admin-token-file", token)
	at := "curl " + strings.TrimSpace(out.text.String()[strings.Index(out.text.String(), "operators: ")+len("operators: "):])
	metrics := strings.Replace(at, "/readyz", "/metrics", 1)
	for line, want := range map[string]int{at: 200, metrics: 401, metrics + " -H 'Authorization: Bearer 0123456789abcdef'": 200} {
		if status, _, answer := curl(t, line); status != want {
			t.Errorf("%s is answered %d, want %d: %s", line, status, want, answer)
		}
	}
	if code := end(); code != exitOK {
		t.Errorf("exit %d", code)
	}
}
