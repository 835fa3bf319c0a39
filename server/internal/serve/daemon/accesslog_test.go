package daemon_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

const headerUsers = `user: {type: header, header: {proxies: [127.0.0.1/32], id: X-User, tenant_id: X-Tenant, required: false}}`

// With gateway.access_log, each request has a line, without its path and query, and with the user's ID only if the operator wants it.
func TestAccessLog(t *testing.T) {
	api := func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/gone") {
			rw.WriteHeader(http.StatusGone)
		}
	}
	for name, c := range map[string]struct {
		settings string
		lines    int
		user     any
	}{
		"off":        {"", 0, nil},
		"on":         {"access_log: true, ", 2, nil},
		"with users": {"access_log: true, access_log_users: true, ", 2, `a\u202en`}, // threats.md 21
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, api, "gateway: {"+c.settings+headerUsers+"}\n"+echo+"    paths: [/notes/*]\n    query: [{name: q, value: '', overridable: true}]\n")
			w.ask("GET", w.callers+"/connectors/echo/notes/gone?q=private", http.Header{"X-User": {"a\u202en"}, "X-Tenant": {"acme"}}, "")
			w.ask("BREW", w.callers+"/connectors/echo/private", nil, "")
			w.stop()
			log := w.log.String()
			var lines []map[string]any
			for text := range strings.Lines(log) {
				line := map[string]any{}
				testworld.Check(t, json.Unmarshal([]byte(text), &line))
				if line["msg"] == "request" {
					lines = append(lines, line)
				}
			}
			if len(lines) != c.lines || strings.Contains(log, "private") {
				t.Fatalf("the log is %s", log)
			}
			if c.lines == 0 {
				return
			}
			for member, want := range map[string]any{
				"method": "GET", "connector": "echo", "pattern": "/notes/*", "tenant": "acme", "user": c.user, "status": 410.0, "upstream_status": 410.0, "problem": "",
			} {
				if lines[0][member] != want {
					t.Errorf("%s is %v, want %v", member, lines[0][member], want)
				}
			}
			total, isNumber := lines[0]["total_ms"].(float64)
			upstream := lines[0]["upstream_ms"].(float64)
			if !isNumber || upstream <= 0 || total < upstream || total > patience.Seconds()*1000 {
				t.Errorf("the times are %v and %v", total, upstream)
			}
			if lines[1]["method"] != "OTHER" || lines[1]["pattern"] != "" || lines[1]["upstream_status"] != 0.0 || lines[1]["status"] != 405.0 {
				t.Errorf("the line of a refused request is %v", lines[1])
			}
		})
	}
}
