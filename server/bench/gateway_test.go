package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/keywright/keywright/internal/testworld"
)

// A gatewayPeer is a proxy that the gateway is compared with.
type gatewayPeer struct {
	against string
	// start starts the proxy in front of the API. It returns the URL for requests, and a note for the report.
	start func(s session, api string) (address, note string)
	// settings is the beginning of our side's file, which has the settings of the gateway.
	settings string
}

// gatewayRows returns the rows for the cost of the gateway, over loopback. Our side is the command that users run, with its
// defaults and a directory of secrets. It, the peer and the API are separate processes on the same machine as the clients.
func gatewayRows() []row {
	// A ReverseProxy sets no key, so the URL is that of a path that needs none.
	reverseProxy := gatewayPeer{against: "ReverseProxy, no credential", start: func(s session, api string) (address, note string) {
		address, _ = start(s, self(s, "proxy", api))
		return address + "/", ""
	}}
	const prefix = "gateway, 16 clients: "
	all := []row{
		gatewayRow(prefix+"time for a request", reverseProxy, 1/0.95, load.each), // 0.95 times its requests per second
		gatewayRow(prefix+"p99", reverseProxy, 1, load.p99),
	}
	for _, p := range proxies {
		peer := gatewayPeer{against: p.name + ", static header", start: p.start}
		all = append(all, gatewayRow(prefix+"time for a request", peer, p.time, load.each), gatewayRow(prefix+"p99", peer, 0, load.p99))
	}
	unaudited := gatewayPeer{
		against: "the gateway without one", settings: "gateway: {audit: {file: audit.log}}\n",
		start: func(s session, api string) (address, note string) { return startGateway(s, "", api), "" },
	}
	// At most 3 % of the requests per second.
	return append(all, gatewayRow("gateway with an audit log, 16 clients: time for a request", unaudited, 1/0.97, load.each))
}

func gatewayRow(work string, peer gatewayPeer, goal float64, figure func(load) float64) row {
	return row{work: work, against: peer.against, unit: nanoseconds, goal: goal, measure: func(s session) result {
		api, _ := start(s, self(s, "api", ""))
		ours := startGateway(s, peer.settings, api)
		theirs, note := peer.start(s, api)
		measured := s.byTurns(loadClients, [2]target{always(ours), always(theirs)}, figure)
		measured.note = note
		return measured
	}}
}

// startGateway runs keywright serve with these settings and a connector for the API, and returns the URL for requests.
func startGateway(s session, settings, api string) string {
	s.Helper()
	dir := s.TempDir()
	secrets, file := filepath.Join(dir, "secrets"), filepath.Join(dir, "connectors.yaml")
	const connectors = `connectors:
  - name: Weather
    url: %s
    auth:
      type: api_key
      config: {key: X-API-Key, value: "{{ get_secret('weather') }}", in: header}
`
	testworld.Check(s, errors.Join(os.Mkdir(secrets, 0o700), os.WriteFile(filepath.Join(secrets, "weather"), []byte(apiKey+"\n"), 0o600),
		os.WriteFile(file, fmt.Appendf(nil, settings+connectors, api+keyedPath), 0o600)))
	// --dev allows an API on this machine without TLS.
	address, _ := start(s, keywright(s, "serve", "-c", file, "--secrets-dir", secrets, "--dev", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"))
	return address + "weather"
}

// versionRows returns the row for what every run of the command costs: the processor time of "keywright version".
func versionRows() []row {
	return []row{{
		work: "keywright version: processor time ÷ 20 ms", against: "20 ms", unit: nanoseconds, goal: 1,
		measure: func(s session) result {
			return s.bound(float64(20*time.Millisecond), func() float64 {
				cmd := keywright(s, "version")
				if out, err := cmd.Output(); err != nil || len(out) == 0 {
					s.Fatalf("%s: it wrote %q, err = %v", cmd, out, err)
				}
				return float64(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime())
			})
		},
	}}
}
