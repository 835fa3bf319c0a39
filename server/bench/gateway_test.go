package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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

// A proxy is a program of a Debian package. It sends requests on to the API, and sets a static header with the key.
type proxy struct {
	name string
	// program is the name of the program and of its package.
	program string
	// args are the arguments to run it in the foreground, in the directory of proxyFile, its configuration.
	args []string
	// version is the argument to write the version.
	version string
	// config has LISTEN and UPSTREAM in place of the addresses of proxy and API, and CREDENTIAL of the key.
	config string
	// time is the goal of the time for a request, or 0.
	time float64
}

const proxyFile = "proxy.conf"

// proxies are in the order of the report. Caddy has its defaults. nginx and HAProxy are configured for speed.
var proxies = []proxy{
	{
		name: "Caddy", program: "caddy", args: []string{"run", "--config", proxyFile, "--adapter", "caddyfile"}, version: "version",
		time: 1 / 1.1, // 1.1 times its requests per second
		config: `{
	admin off
}
http://LISTEN {
	bind 127.0.0.1
	reverse_proxy UPSTREAM {
		header_up X-API-Key CREDENTIAL
	}
}
`,
	},
	{
		name: "nginx", program: "nginx", args: []string{"-p", ".", "-c", proxyFile}, version: "-v",
		// Without keepalive_requests, it closes connections. With reuseport, its p99 is lower.
		config: `daemon off;
worker_processes auto;
pid nginx.pid;
error_log stderr;
events {
	worker_connections 1024;
}
http {
	access_log off;
	client_body_temp_path client_body;
	proxy_temp_path proxy;
	fastcgi_temp_path fastcgi;
	uwsgi_temp_path uwsgi;
	scgi_temp_path scgi;
	keepalive_requests 1000000000;
	upstream api {
		server UPSTREAM;
		keepalive 64;
		keepalive_requests 1000000000;
	}
	server {
		listen LISTEN reuseport;
		location / {
			proxy_pass http://api;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_set_header X-API-Key CREDENTIAL;
		}
	}
}
`,
	},
	{
		name: "HAProxy", program: "haproxy", args: []string{"-db", "-f", proxyFile}, version: "-v",
		config: `defaults
	mode http
	timeout connect 5s
	timeout client 1m
	timeout server 1m
frontend callers
	bind LISTEN
	default_backend api
backend api
	http-reuse always
	http-request set-header X-API-Key CREDENTIAL
	server api UPSTREAM
`,
	},
}

// start starts the proxy, and waits until it accepts connections. The note has its version.
func (p proxy) start(s session, api string) (address, note string) {
	s.Helper()
	path, err := exec.LookPath(p.program)
	if err != nil { // Debian has servers in a directory that is on the PATH of root only
		path, err = exec.LookPath(filepath.Join("/usr/sbin", p.program))
	}
	if err != nil {
		s.Fatalf("there is no %s: install the Debian package %[1]s, as make bench does", p.program)
	}
	out := testworld.Must(exec.CommandContext(s.Context(), path, p.version).CombinedOutput())(s)
	version := regexp.MustCompile(`\d+\.\d\S*`).Find(out)
	if version == nil {
		s.Fatalf("%s %s wrote no version, but %q", path, p.version, out)
	}
	listen, directory := freeAddress(s), s.TempDir()
	config := strings.NewReplacer("LISTEN", listen, "UPSTREAM", strings.TrimPrefix(api, "http://"), "CREDENTIAL", apiKey).Replace(p.config)
	testworld.Check(s, os.WriteFile(filepath.Join(directory, proxyFile), []byte(config), 0o600))
	cmd := exec.CommandContext(context.WithoutCancel(s.Context()), path, p.args...)
	cmd.Dir = directory
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+directory, "XDG_DATA_HOME="+directory) // Caddy writes there
	startListening(s, cmd, listen)
	return "http://" + listen + keyedPath, fmt.Sprintf("The version of %s is %s.", p.name, version)
}

// A proxy is measured only if the API finds the key in each request that comes through it.
func TestProxiesSetKey(t *testing.T) {
	for _, p := range proxies {
		t.Run(p.name, func(t *testing.T) {
			s := session{T: t}
			api, _ := start(t, self(t, "api", ""))
			address, _ := p.start(s, api)
			testworld.Check(t, fetch(t.Context(), newClient(t), address, io.Discard))
			p.config = strings.Replace(p.config, "CREDENTIAL", "another", 1)
			address, _ = p.start(s, api)
			testworld.WantError(t, "with another key", fetch(t.Context(), newClient(t), address, io.Discard), "401")
		})
	}
}
