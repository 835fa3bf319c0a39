package daemon

import (
	"maps"
	"net/http"
	"os"

	"github.com/keywright/keywright/server/internal/operate/console"
)

// operate returns the handlers for operators, by their patterns.
func (d *daemon) operate() map[string]http.Handler {
	routes := map[string]http.Handler{"POST /connectors/{permalink}/test": d.gateway.Test(), "GET /metrics": d.metrics.Handler()}
	node, _ := os.Hostname() // the page does without
	maps.Copy(routes, console.New(console.Config{
		Version: d.config.Version, Node: node, Started: d.clock(), Clock: d.clock, Logger: d.config.Logger, Gateway: d.gateway, Recorder: d.recorder, State: d.consoleState,
		Fuel: d.metrics.plugins.fuelOf,
	}).Routes())
	return routes
}

// consoleState returns what the console shows.
func (d *daemon) consoleState() console.State {
	d.mu.Lock()
	defer d.mu.Unlock()
	state := console.State{
		File: d.config.File, Set: d.set.Set, Used: d.used, Changed: d.changed, Refused: d.refusedAt, Problems: d.problems, Waiting: d.waiting, Sessions: d.set.sessions,
	}
	if err := d.audit.failure(); err != nil {
		state.Unrecorded = err.Error()
	}
	if d.certificate != nil {
		state.CertificateEnds = d.certificate.NotAfter()
	}
	return state
}
