package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// lines returns the lines of a file in deploy/, without comments and empty lines.
func lines(t *testing.T, name string) []string {
	t.Helper()
	text := testworld.Must(os.ReadFile("../../../deploy/" + name))(t)
	var all []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	return all
}

// serves checks that a command line is one of serve, and returns its flags.
func serves(t *testing.T, args []string) serveLine {
	t.Helper()
	c, rest, err := newApp(nil, io.Discard, io.Discard, os.Getenv).root().Find(args)
	if err != nil || c.Name() != "serve" {
		t.Fatalf("%q is no command line of serve: %v", args, err)
	}
	if err := c.ParseFlags(rest); err != nil || c.Flags().NArg() > 0 {
		t.Fatalf("%q: %v, arguments %q", args, err, c.Flags().Args())
	}
	flag := func(name string) string { return c.Flags().Lookup(name).Value.String() }
	return serveLine{flag("config"), flag("secrets-dir"), flag("listen"), flag("admin"), flag("dev")}
}

type serveLine struct{ config, secrets, listen, admin, dev string }

// settings returns the settings of a unit, under section and name.
func settings(t *testing.T, name string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	section := ""
	for _, line := range lines(t, name) {
		if strings.HasPrefix(line, "[") {
			section = line
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			t.Fatalf("%q is no setting", line)
		}
		all[section+name] = append(all[section+name], value)
	}
	return all
}

// threats.md 22: the units keep memory out of dumps and secrets out of the environment, and isolate the services from the
// system.
func TestUnits(t *testing.T) {
	for unit, own := range map[string]map[string]string{
		"keywright.service": {
			"ExecReload": "/bin/kill -HUP $MAINPID", "MemoryMax": "4G",
			"MemoryDenyWriteExecute": "no", // with yes, plugins could not be compiled
		},
		"keywright-content.service": {
			"MemoryMax": "2G", "MemoryDenyWriteExecute": "yes", "User": "keywright-content", "StateDirectory": "keywright-content", "StateDirectoryMode": "0700",
		},
	} {
		t.Run(unit, func(t *testing.T) {
			settings := settings(t, unit)
			want := map[string]string{
				"DynamicUser": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "LimitCORE": "0", "UMask": "0077",
				"NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "PrivateDevices": "yes", "PrivateTmp": "yes", "RestrictNamespaces": "yes",
				"TasksMax": "1024", // like MemoryMax: one service cannot use up the machine
			}
			maps.Copy(want, own)
			for name, want := range want {
				if got := settings["[Service]"+name]; !slices.Equal(got, []string{want}) {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			if all := settings["[Service]LoadCredential"]; len(all) == 0 || !regexp.MustCompile(`^[\w.-]+:/`).MatchString(all[0]) {
				t.Errorf("LoadCredential is %q: there is no secret to show how", all)
			}
			for _, name := range []string{"Environment", "EnvironmentFile", "PassEnvironment"} {
				if got := settings["[Service]"+name]; got != nil {
					t.Errorf("%s is %q: secrets are in credentials", name, got)
				}
			}
			if command := settings["[Service]ExecStart"]; len(command) != 1 {
				t.Errorf("ExecStart is %q", command)
			}
		})
	}
}

func TestUnitOfTheGateway(t *testing.T) {
	command := settings(t, "keywright.service")["[Service]ExecStart"][0]
	want := serveLine{"/etc/keywright/connectors.yaml", "%d", "127.0.0.1:8080", "127.0.0.1:8081", "false"}
	if got := serves(t, strings.Fields(command)[1:]); got != want {
		t.Errorf("ExecStart has %+v, want %+v", got, want)
	}
}

// The server of the unit starts with its command line, once records are imported as its first lines say, and asks for the key
// that it loads.
func TestUnitOfTheContentInterface(t *testing.T) {
	text := testworld.Must(os.ReadFile("../../../deploy/keywright-content.service"))(t)
	const state = "/var/lib/keywright-content"
	here, secrets := t.TempDir(), t.TempDir()
	local := strings.NewReplacer(state, here, "%d", secrets)
	all := settings(t, "keywright-content.service")
	name, _, _ := strings.Cut(all["[Service]LoadCredential"][0], ":")
	testworld.Check(t, os.WriteFile(filepath.Join(secrets, name), []byte("a-key-that-callers-have"), 0o600))
	imports := regexp.MustCompile(`/usr/local/bin/keywright (content import .*) - <records\.ndjson`).FindSubmatch(text)
	if imports == nil || !strings.Contains(string(imports[1]), state) || !strings.Contains(string(text), "-p User="+all["[Service]User"][0]) {
		t.Fatal("it does not say how to import as its user")
	}
	if code, out, errs := keywright(t.Context(), append(strings.Fields(local.Replace(string(imports[1]))), "/dev/null")...); code != exitOK {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	const listen = " --listen 127.0.0.1:8090 --admin 127.0.0.1:8091" // startServing has others
	command, onLoopback := strings.CutSuffix(local.Replace(all["[Service]ExecStart"][0]), listen)
	command, ours := strings.CutPrefix(command, "/usr/local/bin/keywright ")
	if !onLoopback || !ours {
		t.Fatalf("ExecStart is %q", all["[Service]ExecStart"])
	}
	s := startServing(t, build(t), nil, strings.Fields(command)...)
	for key, want := range map[string]int{"a-key-that-callers-have": 200, "another-one-of-somebody": 401} {
		if status, body := s.get("/articles", "X-API-Key", key); status != want {
			t.Errorf("%d %s, want %d", status, body, want)
		}
	}
	s.end()
}

func TestDockerfile(t *testing.T) {
	var names []string
	values := map[string]string{}
	for _, line := range lines(t, "Dockerfile") {
		name, value, _ := strings.Cut(line, " ")
		names = append(names, name)
		values[name] = value
	}
	if want := []string{"FROM", "COPY", "USER", "EXPOSE", "ENTRYPOINT", "CMD"}; !slices.Equal(names, want) {
		t.Errorf("it has %q, want %q", names, want)
	}
	if values["FROM"] != "scratch" {
		t.Errorf("it begins with %s, which holds more than is needed", values["FROM"])
	}
	if !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(values["USER"]) {
		t.Errorf("the user is %s, of which nobody can tell that it is not root", values["USER"])
	}
	var args []string
	if err := json.Unmarshal([]byte(values["CMD"]), &args); err != nil || values["ENTRYPOINT"] != `["/keywright"]` {
		t.Fatalf("there is no shell for %s and %s: %v", values["ENTRYPOINT"], values["CMD"], err)
	}
	want := serveLine{"/config/connectors.yaml", "/secrets", "0.0.0.0:8080", "127.0.0.1:8081", "false"}
	if got := serves(t, args); got != want {
		t.Errorf("CMD has %+v, want %+v", got, want)
	}
}

const monitoring = "../../../deploy/"

// promtool runs promtool in the directory of the rules, which Debian's package prometheus has.
func promtool(t *testing.T, dir string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "promtool", args...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func readText(t *testing.T, name string) string {
	t.Helper()
	return string(testworld.Must(os.ReadFile(name))(t))
}

// The alerts are raised when they should be, and only then. Each is raised in a test, and docs/operating.md says what to do about it.
func TestAlerts(t *testing.T) {
	promtool(t, monitoring+"prometheus", "check", "rules", "keywright.rules.yaml")
	promtool(t, monitoring+"prometheus", "test", "rules", "keywright.rules.test.yaml")
	rules, tests := readText(t, monitoring+"prometheus/keywright.rules.yaml"), readText(t, monitoring+"prometheus/keywright.rules.test.yaml")
	page := readText(t, "../../../docs/operating.md")
	alerts := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(rules, -1)
	if len(alerts) < 18 {
		t.Errorf("there are %d alerts", len(alerts))
	}
	for _, alert := range alerts {
		if !regexp.MustCompile(`alertname: ` + alert[1] + `\n\s+eval_time: \w+\n\s+exp_alerts:`).MatchString(tests) {
			t.Errorf("no test raises %s", alert[1])
		}
		if !regexp.MustCompile(alert[1] + `\n(.+\n)+          summary: .+\n          description: .+\n          console: "?/`).MatchString(rules) {
			t.Errorf("%s does not say what is wrong, and which page of the console to look at", alert[1])
		}
		if !strings.Contains(page, "\n| `"+alert[1]+"` | ") {
			t.Errorf("docs/operating.md does not have %s", alert[1])
		}
	}
}

// The job of Prometheus is valid, and has the alerts.
func TestScrapes(t *testing.T) {
	promtool(t, monitoring+"prometheus", "check", "config", "--syntax-only", "prometheus.yaml")
	if text := readText(t, monitoring+"prometheus/prometheus.yaml"); !strings.Contains(text, "rule_files: [keywright.rules.yaml]") {
		t.Error("it has no alerts")
	}
}

// metricIn is a metric of the program in an expression, with its selector.
var metricIn = regexp.MustCompile(`\b(?:keywright|process)_[a-z_]+(\{[^}]*\})?`)

// The expressions of the dashboard are those of PromQL, the choice of a job and an instance counts for each of them, and no two panels
// have the same place.
func TestDashboard(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ H, W, X, Y int }
			Targets []struct{ Expr string }
		}
	}
	testworld.Check(t, json.Unmarshal([]byte(readText(t, monitoring+"grafana/keywright.json")), &dashboard))
	var rules strings.Builder
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	n := 0
	for i, p := range dashboard.Panels {
		for _, other := range dashboard.Panels[:i] {
			a, b := p.GridPos, other.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H || p.ID == other.ID {
				t.Errorf("the panels %q and %q are in one place", p.Title, other.Title)
			}
		}
		for _, target := range p.Targets {
			n++
			for _, m := range metricIn.FindAllStringSubmatch(target.Expr, -1) {
				if !strings.Contains(m[1], `job=~"$job"`) || !strings.Contains(m[1], `instance=~"$instance"`) {
					t.Errorf("the panel %q does not choose by job and instance: %s", p.Title, m[0])
				}
			}
			expression := strings.NewReplacer("$__rate_interval", "5m", "$connector", ".*", "$job", ".*", "$instance", ".*").Replace(target.Expr)
			fmt.Fprintf(&rules, "  - record: panel:%d\n    expr: %q\n", n, expression)
		}
	}
	if n < 20 {
		t.Errorf("the dashboard has %d expressions", n)
	}
	dir := t.TempDir()
	testworld.Check(t, os.WriteFile(filepath.Join(dir, "dashboard.yaml"), []byte(rules.String()), 0o600))
	promtool(t, dir, "check", "rules", "dashboard.yaml")
}

// The metrics of the alerts and of the dashboard are those that docs/gateway.md lists, which are those of the program.
func TestDocumentedMetrics(t *testing.T) {
	listed := regexp.MustCompile(`keywright_[a-z_]+`).FindAllString(readText(t, "../../../docs/gateway.md"), -1)
	for _, file := range []string{"prometheus/keywright.rules.yaml", "grafana/keywright.json"} {
		for _, name := range regexp.MustCompile(`keywright_[a-z_]+`).FindAllString(readText(t, monitoring+file), -1) {
			if !slices.Contains(listed, regexp.MustCompile(`_(bucket|count)$`).ReplaceAllString(name, "")) {
				t.Errorf("%s: docs/gateway.md has no metric %s", file, name)
			}
		}
	}
}

// The stages of docs/operating.md are those of failures that are answered with 502.
func TestStagesOfOperating(t *testing.T) {
	source, page := readText(t, "../../../host/errors.go"), readText(t, "../../../docs/operating.md")
	for _, stage := range regexp.MustCompile(`Stage = "(\w+)"`).FindAllStringSubmatch(source, -1) {
		if stage[1] != "response" && !strings.Contains(page, "\n| `"+stage[1]+"` | ") {
			t.Errorf("docs/operating.md does not have the stage %s", stage[1])
		}
	}
}
