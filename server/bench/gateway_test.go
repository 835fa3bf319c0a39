package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// A gatewayPeer is a proxy that the gateway is compared with.
type gatewayPeer struct {
	against string
	// time and p99 are the goals of its two rows, or 0.
	time, p99 float64
	// start starts the proxy in front of the API, with a directory for its files. It returns the URL for requests, and a note for
	// the report.
	start func(ctx context.Context, all *sync.WaitGroup, directory, api string) (address, note string, err error)
	// settings is the beginning of our side's file, which has the settings of the gateway.
	settings string
}

// gatewayPeers returns ReverseProxy and the proxies of Debian packages.
func gatewayPeers() []gatewayPeer {
	all := []gatewayPeer{{
		// The goal is 0.95 times its requests per second.
		against: "httputil.ReverseProxy with a BufferPool, without authentication, same API", time: 1 / 0.95, p99: 1,
		start: startReverseProxy,
	}}
	for _, p := range proxies {
		all = append(all, gatewayPeer{
			against: p.name + " with a static header, same API", time: p.time, p99: p.p99,
			start: p.start,
		})
	}
	return all
}

// gatewayRows returns the rows for the cost of the gateway, over loopback. Our side is the command that users run, with its
// defaults and a directory of secrets. It, the peer and the API are separate processes on the same machine as the clients.
func gatewayRows(keywright *command) []row {
	var all []row
	for _, peer := range gatewayPeers() {
		for _, f := range []struct {
			name   string
			goal   float64
			figure func(load) float64
		}{{"time for a request at full load", peer.time, load.each}, {"p99", peer.p99, load.p99}} {
			all = append(all, row{
				work: "gateway, api_key, 16 clients: " + f.name, against: peer.against, unit: nanoseconds, goal: f.goal,
				measure: func(ctx context.Context, s session) (result, error) {
					return throughGateway(ctx, s, keywright, peer, f.figure)
				},
			})
		}
	}
	return append(all, auditedRow(keywright))
}

// auditedRow returns the row for the cost of the audit log. The peer is the same command without it.
func auditedRow(keywright *command) row {
	peer := gatewayPeer{
		settings: "gateway: {audit: {file: audit.log}}\n",
		start: func(ctx context.Context, all *sync.WaitGroup, directory, api string) (address, note string, err error) {
			program, err := keywright.path(ctx)
			if err != nil {
				return "", "", err
			}
			address, err = startGateway(ctx, all, program, directory, "", api+keyedPath)
			return address + "weather", "", err
		},
	}
	return row{
		work: "gateway with an audit log, api_key, 16 clients: time for a request at full load", against: "the gateway without one", unit: nanoseconds,
		goal: 1 / 0.97, // at most 3 % of the requests per second
		measure: func(ctx context.Context, s session) (result, error) {
			return throughGateway(ctx, s, keywright, peer, load.each)
		},
	}
}

func throughGateway(ctx context.Context, s session, keywright *command, peer gatewayPeer, figure func(load) float64) (measured result, err error) {
	program, err := keywright.path(ctx)
	if err != nil {
		return result{}, err
	}
	dir, err := os.MkdirTemp("", "keywright-bench-")
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }() // after the gateway, which watches its files
	ctx, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	api, err := startSelf(ctx, &all, "api")
	if err != nil {
		return result{}, err
	}
	ours, err := startGateway(ctx, &all, program, dir, peer.settings, api+keyedPath)
	if err != nil {
		return result{}, err
	}
	files := filepath.Join(dir, "peer")
	if err := os.Mkdir(files, 0o700); err != nil {
		return result{}, err
	}
	theirs, note, err := peer.start(ctx, &all, files, api)
	if err != nil {
		return result{}, err
	}
	measured, err = s.byTurns(ctx, loadClients, [2]target{always(ours + "weather"), always(theirs)}, figure)
	measured.note = note
	return measured, err
}

// startReverseProxy starts a ReverseProxy. It sets no key, so the URL is that of a path that needs none.
func startReverseProxy(ctx context.Context, all *sync.WaitGroup, _, api string) (address, note string, err error) {
	address, err = startSelf(ctx, all, "proxy", api)
	return address + "/", "", err
}

// startGateway runs keywright serve with these settings and a connector for the URL.
func startGateway(ctx context.Context, all *sync.WaitGroup, program, dir, settings, url string) (address string, err error) {
	secrets, file := filepath.Join(dir, "secrets"), filepath.Join(dir, "connectors.yaml")
	if err := os.Mkdir(secrets, 0o700); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(secrets, "weather"), []byte(apiKey+"\n"), 0o600); err != nil {
		return "", err
	}
	const connectors = `connectors:
  - name: Weather
    url: %s
    auth:
      type: api_key
      config: {key: X-API-Key, value: "{{ get_secret('weather') }}", in: header}
`
	if err := os.WriteFile(file, fmt.Appendf(nil, settings+connectors, url), 0o600); err != nil {
		return "", err
	}
	// --dev allows an API on this machine without TLS.
	return start(ctx, all, exec.CommandContext(ctx, program,
		"serve", "-c", file, "--secrets-dir", secrets, "--dev", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"))
}
