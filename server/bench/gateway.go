package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// gatewayRows returns the rows for the cost of the gateway, over loopback. Our side is the command that users run, with its
// defaults and a directory of secrets. It, the peer and the API are separate processes on the same machine as the clients.
func gatewayRows(keywright *command) []row {
	const against = "httputil.ReverseProxy with a BufferPool, without authentication, same API"
	return []row{
		{
			work: "gateway, api_key, 16 clients: time for a request at full load", against: against, unit: nanoseconds, goal: 1 / 0.9,
			measure: func(ctx context.Context, s session) (result, error) {
				return throughGateway(ctx, s, keywright, load.each)
			},
		},
		{
			work: "gateway, api_key, 16 clients: p99", against: against, unit: nanoseconds, goal: 1.2,
			measure: func(ctx context.Context, s session) (result, error) {
				return throughGateway(ctx, s, keywright, load.p99)
			},
		},
	}
}

func throughGateway(ctx context.Context, s session, keywright *command, figure func(load) float64) (measured result, err error) {
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
	peer, err := startSelf(ctx, &all, "proxy", api)
	if err != nil {
		return result{}, err
	}
	ours, err := startGateway(ctx, &all, program, dir, api+keyedPath)
	if err != nil {
		return result{}, err
	}
	return s.byTurns(ctx, loadClients, [2]target{always(ours + "weather"), always(peer + "/")}, figure)
}

// startGateway runs keywright serve with a connector for the URL.
func startGateway(ctx context.Context, all *sync.WaitGroup, program, dir, url string) (address string, err error) {
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
	if err := os.WriteFile(file, fmt.Appendf(nil, connectors, url), 0o600); err != nil {
		return "", err
	}
	// --dev allows an API on this machine without TLS.
	return start(ctx, all, exec.CommandContext(ctx, program,
		"serve", "-c", file, "--secrets-dir", secrets, "--dev", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"))
}
