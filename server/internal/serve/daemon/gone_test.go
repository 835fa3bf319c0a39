package daemon_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// A removed connector is removed from the metrics, so that the number of labels does not grow without bound.
func TestCurrentMetrics(t *testing.T) {
	w := start(t, version, echo+named("Other"))
	w.get(w.callers + "/connectors/echo")
	w.get(w.callers + "/connectors/other")
	w.eventually("the metrics show the connectors", func() bool { return w.shown("echo") && w.shown("other") })
	w.write(echo)
	w.said()
	w.eventually("the connector that is gone is forgotten", func() bool { return !w.shown("other") })
	if !w.shown("echo") {
		t.Error("the metrics do not show the connector that is there")
	}
}

// A connector that is added again keeps its metrics when a request ends that began before its removal.
func TestMetricsOfReturnedConnector(t *testing.T) {
	api, there, release := slow()
	w := start(t, api, slowEcho+named("Other")+named("Third"))
	done := make(chan struct{})
	w.get(w.callers + "/connectors/third")
	go func() { defer close(done); w.get(w.callers + "/connectors/echo/slow") }()
	<-there
	w.write(slowEcho)
	w.said()
	w.write(slowEcho + named("Other"))
	w.said()
	w.get(w.callers + "/connectors/other")
	w.eventually("the metrics show other and third", func() bool { return w.shown("other") && w.shown("third") })
	close(release)
	<-done
	w.eventually("the first file's connectors are forgotten", func() bool { return !w.shown("third") })
	if !w.shown("other") {
		t.Error("the metrics of a connector that is in use are gone, since an older request ended")
	}
}

// Metrics of a removed connector that a request adds two changes later are removed too.
func TestMetricsOfLastingRequest(t *testing.T) {
	api, there, release := slow()
	w := start(t, api, slowEcho)
	done := make(chan struct{})
	go func() { defer close(done); w.get(w.callers + "/connectors/echo/slow") }()
	<-there
	for _, text := range []string{slowEcho + named("Other"), "gateway: {access_log: true}\nconnectors:\n" + named("Other")} {
		w.write(text)
		w.said()
	}
	close(release)
	<-done
	w.eventually("the request is counted", func() bool { return strings.Contains(w.log.String(), `"msg":"request"`) })
	w.eventually("the connector that is gone is forgotten", func() bool { return !w.shown("echo") })
}

// A file of authorities that changes is read again.
func TestChangedAuthorities(t *testing.T) {
	ca := testworld.File(t, "company.pem", testworld.NewAuthority(t).PEM())
	w := start(t, version, "egress: {ca_file: "+ca+"}\n"+echo)
	testworld.Check(t, os.WriteFile(ca, []byte("not a certificate"), 0o600))
	w.says("egress.ca_file: has no certificate in PEM")
	w.gets(w.callers+"/connectors/echo", http.StatusOK, "")
}

// A file whose plugin is not in keywright.lock is read again when the lock is written.
func TestLaterLock(t *testing.T) {
	w := start(t, version, echo)
	w.write("plugins: [{name: acme, ref: 'registry.example/acme:1'}]\n" + echo)
	w.says("is not in keywright.lock")
	testworld.Check(t, os.WriteFile(filepath.Join(filepath.Dir(w.file), "keywright.lock"), []byte("not a lock"), 0o600))
	w.says("keywright.lock cannot be read")
}
