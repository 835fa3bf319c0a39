package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// A proxy is a program of a Debian package. It sends requests on to the API, and sets a static header with the key.
type proxy struct {
	name string
	// program is the name of the program and of its package.
	program string
	// args are the arguments to run it in the foreground, in the directory of proxyFile, its configuration.
	args []string
	// version is the argument to write the version.
	version string
	// config is the configuration. LISTEN and UPSTREAM stand for the addresses of the proxy and of the API, and CREDENTIAL for
	// the key.
	config string
	// time and p99 are goals, as in gatewayPeer.
	time, p99 float64
}

const proxyFile = "proxy.conf"

// proxies holds the proxies in the order of the report. Caddy has its defaults, which most users have. nginx and HAProxy are
// configured for speed.
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
		// Without keepalive_requests, it closes a connection after a thousand requests. With reuseport, its workers share the
		// connections, and its p99 is lower.
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

// path returns the path of the program. Debian has servers in a directory that is on the PATH of root only.
func (p proxy) path() (string, error) {
	for _, name := range []string{p.program, filepath.Join("/usr/sbin", p.program)} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no %s: install the Debian package %[1]s, as make bench does", p.program)
}

// start starts the proxy, which runs until ctx ends, and waits until it accepts connections.
func (p proxy) start(ctx context.Context, all *sync.WaitGroup, directory, api string) (address, note string, err error) {
	path, err := p.path()
	if err != nil {
		return "", "", err
	}
	if note, err = p.note(ctx, path); err != nil {
		return "", "", err
	}
	listen, err := freeAddress(ctx)
	if err != nil {
		return "", "", err
	}
	config := strings.NewReplacer("LISTEN", listen, "UPSTREAM", strings.TrimPrefix(api, "http://"), "CREDENTIAL", apiKey).Replace(p.config)
	if err := os.WriteFile(filepath.Join(directory, proxyFile), []byte(config), 0o600); err != nil {
		return "", "", err
	}
	cmd := exec.CommandContext(ctx, path, p.args...)
	cmd.Dir = directory
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+directory, "XDG_DATA_HOME="+directory) // Caddy writes there
	return "http://" + listen + keyedPath, note, startListening(ctx, all, cmd, listen)
}

// note returns the version of the program in a sentence.
func (p proxy) note(ctx context.Context, path string) (string, error) {
	out, err := exec.CommandContext(ctx, path, p.version).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", path, p.version, err, out)
	}
	version := regexp.MustCompile(`\d+\.\d\S*`).Find(out)
	if version == nil {
		return "", fmt.Errorf("%s %s wrote no version, but %q", path, p.version, out)
	}
	return fmt.Sprintf("The version of %s is %s.", p.name, version), nil
}

// freeAddress returns an address of this machine at which nothing listens, for programs that cannot choose one themselves.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// startListening starts a server, which runs until ctx ends, and returns when it accepts connections.
func startListening(ctx context.Context, all *sync.WaitGroup, cmd *exec.Cmd, address string) error {
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	endBySignal(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	all.Go(func() { ended <- cmd.Wait() })
	late := time.After(time.Minute)
	for {
		if connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address); err == nil {
			return connection.Close()
		}
		select {
		case err := <-ended:
			return errors.Join(fmt.Errorf("%s ended before it listened: %s", cmd, &output), err, context.Cause(ctx))
		case <-late:
			return fmt.Errorf("%s does not listen on %s", cmd, address)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
