package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

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
	if len(alerts) < 9 {
		t.Errorf("there are %d alerts", len(alerts))
	}
	for _, alert := range alerts {
		if !regexp.MustCompile(`alertname: ` + alert[1] + `\n\s+eval_time: \w+\n\s+exp_alerts:`).MatchString(tests) {
			t.Errorf("no test raises %s", alert[1])
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

// The expressions of the dashboard are those of PromQL, and no two panels have the same place.
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
			expression := strings.NewReplacer("$__rate_interval", "5m", "$connector", ".*", "$job", ".*").Replace(target.Expr)
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

// The metrics of the alerts and of the dashboard are those that docs/gateway.md lists.
func TestDocumentedMetrics(t *testing.T) {
	listed := regexp.MustCompile(`keywright_[a-z_]+`).FindAllString(readText(t, "../../../docs/gateway.md"), -1)
	for _, file := range []string{"prometheus/keywright.rules.yaml", "grafana/keywright.json"} {
		for _, name := range regexp.MustCompile(`keywright_[a-z_]+`).FindAllString(readText(t, monitoring+file), -1) {
			if !slices.Contains(listed, strings.TrimSuffix(name, "_bucket")) {
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
