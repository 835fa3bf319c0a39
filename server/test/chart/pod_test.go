package chart

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// pod is the process of a pod of the Deployment, with a directory in place of its root.
type pod struct {
	t                  *testing.T
	root               string
	callers, operators string
	command            *exec.Cmd
	log                *bufio.Scanner
}

// newPod runs the command of the Deployment. files are those of its volumes.
func newPod(t *testing.T, files map[string]map[string]string, flags ...string) *pod {
	t.Helper()
	p := &pod{t: t, root: t.TempDir()}
	for volume, contents := range files {
		p.mount(volume, contents)
	}
	keywright := filepath.Join(p.root, "keywright")
	build := exec.Command("go", "build", "-o", keywright, "./cmd/keywright")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	container := deployment(t, render(t, flags...)).Spec.Template.Spec.Containers[0]
	local := strings.NewReplacer("=/", "="+p.root+"/", "=:8080", "=127.0.0.1:0", "=:8081", "=127.0.0.1:0")
	for i, arg := range container.Args {
		container.Args[i] = local.Replace(arg)
	}
	p.command = exec.Command(keywright, container.Args...)
	for _, v := range container.Env {
		p.command.Env = append(p.command.Env, v.Name+"="+v.Value)
	}
	p.log = bufio.NewScanner(testworld.Must(p.command.StderrPipe())(t))
	out := testworld.Must(p.command.StdoutPipe())(t)
	testworld.Check(t, p.command.Start())
	t.Cleanup(func() { _ = p.command.Process.Kill() })
	lines := bufio.NewScanner(out)
	for p.operators == "" && lines.Scan() {
		switch name, address, _ := strings.Cut(lines.Text(), ": "); name {
		case "callers":
			p.callers = strings.TrimSuffix(address, "/connectors/")
		case "operators":
			p.operators = strings.TrimSuffix(address, "/readyz")
		}
	}
	if p.operators == "" {
		p.await("\n") // no line has it, so the log is that of the failure
	}
	return p
}

// await reads the log up to a line with a text.
func (p *pod) await(text string) {
	p.t.Helper()
	for p.log.Scan() {
		if strings.Contains(p.log.Text(), text) {
			return
		}
		p.t.Log(p.log.Text())
	}
	p.t.Fatalf("the gateway ends before %q", text)
}

// mount writes the files of a volume as the kubelet does: a link to their directory is replaced, so that all change together.
func (p *pod) mount(volume string, contents map[string]string) {
	p.t.Helper()
	dir := filepath.Join(p.root, volume)
	testworld.Check(p.t, os.MkdirAll(dir, 0o750))
	version := testworld.Must(os.MkdirTemp(dir, ".."))(p.t)
	for name, text := range contents {
		testworld.Check(p.t, os.WriteFile(filepath.Join(version, name), []byte(text), 0o440))
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !os.IsExist(err) {
			p.t.Fatal(err)
		}
	}
	testworld.Check(p.t, os.Symlink(filepath.Base(version), filepath.Join(dir, "..data_tmp")))
	testworld.Check(p.t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
}

// get sends a request with a Host and a token, if there is one, and returns the answer.
func (p *pod) get(url, host, token string) (status int, body string) {
	p.t.Helper()
	r := testworld.Must(http.NewRequestWithContext(p.t.Context(), http.MethodGet, url, nil))(p.t)
	r.Host = host
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	response := testworld.Must(http.DefaultClient.Do(r))(p.t)
	defer response.Body.Close()
	return response.StatusCode, string(testworld.Must(io.ReadAll(response.Body))(p.t))
}

// The gateway starts with the arguments and the volumes of a pod, answers probes and callers by the names that they have in a cluster, and
// reads a changed ConfigMap.
func TestPod(t *testing.T) {
	const byAddress, byName, metrics = "10.1.2.3:8081", "keywright.apps:8080", "metrics-token-of-16"
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, r.Header.Get("Authorization") == "Bearer the-secret", " ", r.URL.Path)
	}))
	t.Cleanup(api.Close)
	connectors := `gateway: {hosts: [keywright.apps]}
egress: {allow: [127.0.0.1], plain_http: ["` + strings.TrimPrefix(api.URL, "http://") + `"]}
connectors:
`
	connector := func(name string) string {
		return fmt.Sprintf("  - {name: %s, url: \"%s/{{ get_variable('region') }}\", auth: {type: bearer, config: {token: \"{{ get_secret('orders') }}\"}}}\n", name, api.URL)
	}
	text := connectors + connector("orders")
	p := newPod(t, map[string]map[string]string{
		"config":    {"connectors.yaml": text},
		"secrets":   {"orders": "the-secret"},
		"operators": {"admin-token": "admin-token-of-16-and-more", "metrics-token": metrics},
	}, "--set", "existingConfigMap=own,secrets[0].name=apis,variables.region=eu,drainDelaySeconds=0")
	for _, r := range []struct {
		url, host, token string
		status           int
		body             string
	}{
		{p.operators + "/healthz", byAddress, "", 200, "ok"},
		{p.operators + "/readyz", byAddress, "", 200, "ready"},
		{p.operators + "/metrics", byAddress, "", 401, ""},
		{p.operators + "/metrics", byAddress, metrics, 200, "keywright_build_info"},
		{p.callers + "/connectors/orders", byName, "", 200, "true /eu"},
		{p.callers + "/connectors/orders", "other.apps", "", 421, "unknown-host"},
	} {
		if status, body := p.get(r.url, r.host, r.token); status != r.status || !strings.Contains(body, r.body) {
			t.Errorf("%s of %s: %d %s, want %d %s", r.url, r.host, status, body, r.status, r.body)
		}
	}
	p.mount("config", map[string]string{"connectors.yaml": text + connector("refunds")})
	p.await("the configuration is in use")
	p.mount("config", map[string]string{"connectors.yaml": text + "connecters: []\n"})
	p.await("the configuration is not used, and the one before goes on")
	if status, body := p.get(p.callers+"/connectors/refunds", byName, ""); status != 200 {
		t.Errorf("a connector of a changed ConfigMap: %d %s, want 200", status, body)
	}
	testworld.Check(t, p.command.Process.Signal(syscall.SIGTERM))
	testworld.Check(t, p.command.Wait())
}
