package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/keywright/keywright/internal/pluginbuild"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/demo"
)

var update = flag.Bool("update", false, "write what commands put out into the scripts")

// TestScripts runs the command line like a user, with a binary from go build, because an instrumented one takes too long to
// start. Scripts find in $API a server that responds with the request it received, at $API_HOST, in $DEMO and $TOKEN the servers of the demo,
// in $KEYS their keys and three client certificates, and in $CLOSED an address on which nothing listens.
// Among them: a new connector goes to the directory of connectors (specification.md "a new connector"), and a link in place of the directory
// of plugins is refused (threats.md 431). Completion leaves out a name that a shell runs (threats.md 570).
func TestScripts(t *testing.T) {
	keys := testworld.Must(demo.NewKeys())(t)
	bin := filepath.Dir(build(t))
	checkout := testworld.Must(filepath.Abs("../../.."))(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Setup: func(env *testscript.Env) error {
			startCompilers(env)
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv(codeCacheVariable, os.Getenv(codeCacheVariable))
			env.Setenv("CHECKOUT", checkout) // which a program that is built with -trimpath does not know
			startRegistry(env)
			startServers(env, keys)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"fill": fill, "exits": exits, "code": code, "module": module, "unplug": unplug},
	})
}

// built builds the binary in a directory of all tests, with -trimpath as make does where it can: then its packages are compiled
// once for all. Linking it takes seconds.
var built = sync.OnceValues(func() (string, error) {
	program := filepath.Join(scratch, "bin", "keywright")
	if out, err := exec.Command("go", "build", "-trimpath", "-o", program, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return program, nil
})

// build returns the path of the binary.
func build(t *testing.T) string {
	t.Helper()
	return testworld.Must(built())(t)
}

// startCompilers lets scripts run go, and TinyGo as `make tinygo` has built it. In $NODE_MODULES they find AssemblyScript, as `make npm`
// has installed it.
func startCompilers(env *testscript.Env) {
	t := env.T().(testing.TB)
	settings := []string{"GOCACHE", "GOMODCACHE", "GOPROXY", "GOSUMDB", "GOTOOLCHAIN"}
	out := testworld.Must(exec.CommandContext(t.Context(), "go", append([]string{"env"}, settings...)...).Output())(t)
	values := strings.Split(string(out), "\n")
	for i, name := range settings {
		env.Setenv(name, values[i])
	}
	env.Setenv("NODE_MODULES", testworld.Must(filepath.Abs("../../../examples/acme_hmac_as/node_modules"))(t))
	env.Setenv(pluginbuild.CompilerVariable, testworld.Must(pluginbuild.FindCompiler(t.Context(), "../../../.build"))(t).Path)
}

func startServers(env *testscript.Env, keys demo.Keys) {
	t := env.T().(testing.TB)
	servers := testworld.Must(demo.Start(t.Context(), keys, time.Now))(t)
	echo := httptest.NewServer(http.HandlerFunc(echo))
	env.Defer(func() {
		echo.Close()
		_ = servers.Close()
	})
	env.Setenv("API", echo.URL)
	env.Setenv("API_HOST", echo.Listener.Addr().String())
	env.Setenv("DEMO", servers.APIURL)
	env.Setenv("TOKEN", servers.TokenURL)
	env.Setenv("CLOSED", "http://127.0.0.1:1") // a port that was free a moment ago may be in use by another script
	dir := env.WorkDir + "/keys"
	env.Setenv("KEYS", dir)
	testworld.Check(t, os.Mkdir(dir, 0o700))
	values := map[string]string{"rsa": keys.RSA, "ec": keys.EC, "client": keys.ClientSecret, "key": keys.APIKey}
	authority := testworld.NewAuthority(t)
	for name, days := range map[string]int{"ended": -1, "soon": 20, "later": 90} {
		values[name+".crt"], values[name+".key"] = authority.Client("client that ends "+name, time.Now().AddDate(0, 0, days))
	}
	for name, value := range values {
		testworld.Check(t, os.WriteFile(dir+"/"+name, []byte(value+"\n"), 0o600))
	}
}

// echo responds with the request that it received, except at some paths.
func echo(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/missing":
		http.Error(w, "no such thing", http.StatusNotFound)
		return
	case "/moved":
		http.Redirect(w, r, "https://elsewhere.example/", http.StatusFound)
		return
	case "/.well-known/oauth-authorization-server":
		fmt.Fprintf(w, `{"issuer":"http://%s","token_endpoint":"https://login.example.com/token"}`, r.Host)
		return
	case "/digest":
		if r.Header.Get("Authorization") == "" {
			w.Header().Set("WWW-Authenticate", `Digest realm="hidden-realm", nonce="hidden-nonce", qop="auth", algorithm=SHA-256`)
			http.Error(w, "hidden text", http.StatusUnauthorized)
			return
		}
	case "/broken":
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "partial")
		return
	}
	fmt.Fprintf(w, "%s %s\n", r.Method, r.RequestURI)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		fmt.Fprintf(w, "%s: %s\n", name, strings.Join(r.Header[name], " | "))
	}
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "[%s]\n", body)
}

// fill replaces $NAME in files by the values of the environment.
func fill(ts *testscript.TestScript, neg bool, files []string) {
	if neg || len(files) == 0 {
		ts.Fatalf("usage: fill FILE...")
	}
	for _, file := range files {
		filled := os.Expand(ts.ReadFile(file), ts.Getenv)
		ts.Check(os.WriteFile(ts.MkAbs(file), []byte(filled), 0o600))
	}
}

// exits runs a command, and checks its exit code and that it writes nothing to stdout.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	code(ts, neg, args)
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("stdout is not empty: %s", out)
	}
}

// code runs a command, and checks its exit code.
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code CODE COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || strconv.Itoa(exit.ExitCode()) != args[0] {
		ts.Fatalf("%s ends with %v, not exit code %s", args[1], err, args[0])
	}
}
