// Package digest tests the auth type digest against web servers that others wrote.
package digest

import (
	"bufio"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

var lion = Account{User: "Mufasa", Password: "the password, or: a \"canary\"", Realm: "a savannah"}

// counter is a transport that counts requests.
type counter struct{ requests int }

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests++
	return http.DefaultTransport.RoundTrip(r)
}

// client returns a client for the API at address, with a user and a password, and the counter of its requests.
func client(t *testing.T, address, user, password string) (*http.Client, *counter) {
	t.Helper()
	wasm, err := os.ReadFile("../../plugins/digest/digest.wasm")
	if err != nil {
		t.Fatalf("%v: `go run ./tools/plugin build plugins/digest` builds it", err)
	}
	h := testworld.Must(host.New(t.Context(), host.Config{
		Secrets: host.MapSecrets{"lion": password}, Egress: host.Egress{AllowHTTP: true},
		BuiltIns: []host.Plugin{}, Plugins: []host.Plugin{{Name: "digest.wasm", Wasm: wasm}},
	}))(t)
	t.Cleanup(func() { _ = h.Close(context.Background()) })
	connector := testworld.Must(h.NewConnector(t.Context(), host.ConnectorConfig{
		Name: "pages", Origins: []string{address},
		Auth: []host.Auth{{Type: "digest", Config: map[string]any{"username": user, "password": "{{ get_secret('lion') }}"}}},
	}))(t)
	base := &counter{}
	return &http.Client{Transport: connector.Transport(base)}, base
}

// The servers let requests in: the first one at the second attempt, and all others at the first.
func TestLetIn(t *testing.T) {
	hashed := Account{User: "Jäsøn Doe", Password: "Secret, or not?", Realm: "api@example.org"}
	for name, test := range map[string]struct {
		account Account
		start   func(t *testing.T, account Account) string
	}{
		"lighttpd with SHA-256": {lion, func(t *testing.T, a Account) string { return Lighttpd(t, a, "SHA-256", false) }},
		"lighttpd with MD5":     {lion, func(t *testing.T, a Account) string { return Lighttpd(t, a, "MD5", false) }},
		"lighttpd with both":    {lion, func(t *testing.T, a Account) string { return Lighttpd(t, a, "SHA-256|MD5", false) }},
		"lighttpd with UTF-8":   {hashed, func(t *testing.T, a Account) string { return Lighttpd(t, a, "SHA-256", false) }},
		"lighttpd with hashed user names": {hashed, func(t *testing.T, a Account) string {
			return Lighttpd(t, a, "SHA-256", true)
		}},
		"Apache":                         {lion, func(t *testing.T, a Account) string { return Apache(t, a, false) }},
		"Apache with UTF-8":              {hashed, func(t *testing.T, a Account) string { return Apache(t, a, false) }},
		"Apache with nonces for one use": {lion, func(t *testing.T, a Account) string { return Apache(t, a, true) }},
	} {
		t.Run(name, func(t *testing.T) {
			address := test.start(t, test.account)
			c, count := client(t, address, test.account.User, test.account.Password)
			for i, target := range []string{"/lions", "/lions?a=b&c=%22", "/lions?", "/lions"} {
				response := testworld.Must(c.Get(address + target))(t)
				body, err := io.ReadAll(response.Body)
				response.Body.Close()
				if err != nil || response.StatusCode != http.StatusOK || string(body) != Page {
					t.Errorf("%s: status %d, %q, %v", target, response.StatusCode, body, err)
				}
				if count.requests != i+2 {
					t.Errorf("%s: %d requests so far", target, count.requests)
				}
			}
			response := testworld.Must(c.Post(address+"/lions", "text/plain", io.NopCloser(strings.NewReader("a body that can be read only once"))))(t)
			response.Body.Close()
			if response.StatusCode == http.StatusUnauthorized || count.requests != 6 { // a file takes no body
				t.Errorf("POST: status %d, %d requests so far", response.StatusCode, count.requests)
			}
		})
	}
}

// The servers refuse a wrong password and a wrong user, whose 401 goes to the caller.
func TestRefused(t *testing.T) {
	for name, address := range map[string]string{
		"lighttpd": Lighttpd(t, lion, "SHA-256", false), "Apache": Apache(t, lion, false),
	} {
		for _, account := range []Account{{User: lion.User, Password: "wrong password"}, {User: "Scar", Password: lion.Password}} {
			c, count := client(t, address, account.User, account.Password)
			response := testworld.Must(c.Get(address + "/lions"))(t)
			response.Body.Close()
			if response.StatusCode != http.StatusUnauthorized || count.requests != 2 {
				t.Errorf("%s: status %d after %d requests", name, response.StatusCode, count.requests)
			}
		}
	}
}

// Account is the only account of a server.
type Account struct{ User, Password, Realm string }

// Page is the content of every page of a server. All need the account.
const Page = "a page for lions"

// tries is the number of ports that are tried. Another process may take a free port before the server does.
const tries = 5

// Lighttpd starts lighttpd and returns its URL. algorithms are those that it offers, such as SHA-256 or MD5|SHA-256. If
// userhash is set, it asks for hashed user names.
func Lighttpd(t testing.TB, account Account, algorithms string, userhash bool) string {
	t.Helper()
	directory := files(t, account)
	more := ""
	if userhash {
		more = `, "userhash" => "enable"`
	}
	return start(t, directory, "/usr/sbin/lighttpd", []string{"-D", "-f"}, "server started", func(port string) string {
		return `
server.modules = ("mod_auth", "mod_authn_file")
server.document-root = "` + directory + `/pages"
server.bind = "127.0.0.1"
server.port = ` + port + `
auth.backend = "htdigest"
auth.backend.htdigest.userfile = "` + directory + `/accounts"
auth.require = ("/" => ("method" => "digest", "algorithm" => "` + algorithms + `", "realm" => "` + account.Realm + `", "require" => "valid-user"` + more + `))
`
	})
}

// Apache starts Apache httpd, which knows MD5 only, and returns its URL. If once is set, each of its nonces is good for one
// request.
func Apache(t testing.TB, account Account, once bool) string {
	t.Helper()
	directory := files(t, account)
	lifetime := "300"
	if once {
		lifetime = "0"
	}
	modules := ""
	for _, name := range []string{"mpm_event", "authn_core", "authn_file", "authz_core", "authz_user", "auth_digest"} {
		modules += "LoadModule " + name + "_module /usr/lib/apache2/modules/mod_" + name + ".so\n"
	}
	return start(t, directory, "/usr/sbin/apache2", []string{"-D", "FOREGROUND", "-f"}, "resuming normal operations", func(port string) string {
		return modules + `
ServerName localhost
ServerRoot ` + directory + `
DefaultRuntimeDir ` + directory + `
PidFile pid
Listen 127.0.0.1:` + port + `
User www-data
Group www-data
ErrorLog /dev/stderr
DocumentRoot ` + directory + `/pages
<Location "/">
	AuthType Digest
	AuthName "` + account.Realm + `"
	AuthDigestProvider file
	AuthDigestNonceLifetime ` + lifetime + `
	AuthUserFile ` + directory + `/accounts
	Require valid-user
</Location>
`
	})
}

// files returns a directory with the files of a server. The servers read them as another user if root runs the test.
func files(t testing.TB, account Account) string {
	t.Helper()
	directory := testworld.Must(os.MkdirTemp("", "digest"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	secret := []byte(account.User + ":" + account.Realm + ":" + account.Password)
	name := []byte(account.User + ":" + account.Realm)
	line := account.User + ":" + account.Realm + ":"
	accounts := fmt.Sprintf("%s%x:%x\n%s%x:%x\n", line, md5.Sum(secret), md5.Sum(name), line, sha256.Sum256(secret), sha256.Sum256(name))
	pages := filepath.Join(directory, "pages")
	for _, err := range []error{
		os.Chmod(directory, 0o755), os.Mkdir(pages, 0o755), os.WriteFile(filepath.Join(directory, "accounts"), []byte(accounts), 0o644),
		os.WriteFile(filepath.Join(pages, "lions"), []byte(Page), 0o644),
	} {
		testworld.Check(t, err)
	}
	return directory
}

// start starts a program on a free port, with a configuration for the port, and returns its URL once it has logged that it is
// ready.
func start(t testing.TB, directory, program string, arguments []string, ready string, config func(port string) string) string {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("there is no %s: install the Debian packages lighttpd and apache2-bin, as make deps does", program)
	}
	file := filepath.Join(directory, "config")
	said := ""
	for range tries {
		port := freePort(t)
		testworld.Check(t, os.WriteFile(file, []byte(config(port)), 0o644))
		if said = run(t, exec.CommandContext(context.Background(), program, append(arguments, file)...), ready); said == "" {
			return "http://127.0.0.1:" + port
		}
	}
	t.Fatalf("%s does not start: %s", program, said)
	return ""
}

// freePort returns a port of loopback on which nothing listens.
func freePort(t testing.TB) string {
	t.Helper()
	listener := testworld.Must((&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	testworld.Check(t, err)
	return port
}

// run starts a command and returns "" once it has logged that it is ready. If it ends before, run returns what it has logged.
// A goroutine keeps the thread that started the command, because Linux ends the command with that thread.
func run(t testing.TB, command *exec.Cmd, ready string) string {
	t.Helper()
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log := testworld.Must(command.StderrPipe())(t)
	result, ended := make(chan string, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer close(ended)
		if err := command.Start(); err != nil {
			result <- err.Error()
			return
		}
		said, started := "", false
		for lines := bufio.NewScanner(log); lines.Scan(); {
			if said += lines.Text() + "\n"; !started && strings.Contains(lines.Text(), ready) {
				started = true
				result <- ""
			}
		}
		if err := command.Wait(); !started {
			result <- fmt.Sprintf("%v\n%s", err, said)
		}
	}()
	said := <-result
	if said == "" {
		t.Cleanup(func() {
			_ = command.Process.Signal(syscall.SIGTERM)
			<-ended
		})
	}
	return said
}
