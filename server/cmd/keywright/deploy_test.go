package main

import (
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// lines returns the lines of a file in deploy/, without comments and empty lines.
func lines(t *testing.T, name string) []string {
	t.Helper()
	text := testworld.Must(os.ReadFile("../../../deploy/" + name))(t)
	var all []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	return all
}

// serves checks that a command line is one of serve, and returns its flags.
func serves(t *testing.T, args []string) serveLine {
	t.Helper()
	c, rest, err := newApp(nil, io.Discard, io.Discard, os.Getenv).root().Find(args)
	if err != nil || c.Name() != "serve" {
		t.Fatalf("%q is no command line of serve: %v", args, err)
	}
	if err := c.ParseFlags(rest); err != nil || c.Flags().NArg() > 0 {
		t.Fatalf("%q: %v, arguments %q", args, err, c.Flags().Args())
	}
	flag := func(name string) string { return c.Flags().Lookup(name).Value.String() }
	return serveLine{flag("config"), flag("secrets-dir"), flag("listen"), flag("admin"), flag("dev")}
}

type serveLine struct{ config, secrets, listen, admin, dev string }

// settings returns the settings of a unit, under section and name.
func settings(t *testing.T, name string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	section := ""
	for _, line := range lines(t, name) {
		if strings.HasPrefix(line, "[") {
			section = line
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			t.Fatalf("%q is no setting", line)
		}
		all[section+name] = append(all[section+name], value)
	}
	return all
}

// threats.md 22: the units keep memory out of dumps and secrets out of the environment, and isolate the services from the
// system.
func TestUnits(t *testing.T) {
	for unit, own := range map[string]map[string]string{
		"keywright.service": {
			"ExecReload": "/bin/kill -HUP $MAINPID", "MemoryMax": "4G",
			"MemoryDenyWriteExecute": "no", // with yes, plugins could not be compiled
		},
		"keywright-content.service": {
			"MemoryMax": "2G", "MemoryDenyWriteExecute": "yes", "User": "keywright-content", "StateDirectory": "keywright-content", "StateDirectoryMode": "0700",
		},
	} {
		t.Run(unit, func(t *testing.T) {
			settings := settings(t, unit)
			want := map[string]string{
				"DynamicUser": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "LimitCORE": "0", "UMask": "0077",
				"NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "PrivateDevices": "yes", "PrivateTmp": "yes", "RestrictNamespaces": "yes",
				"TasksMax": "1024", // like MemoryMax: one service cannot use up the machine
			}
			maps.Copy(want, own)
			for name, want := range want {
				if got := settings["[Service]"+name]; !slices.Equal(got, []string{want}) {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			if all := settings["[Service]LoadCredential"]; len(all) == 0 || !regexp.MustCompile(`^[\w.-]+:/`).MatchString(all[0]) {
				t.Errorf("LoadCredential is %q: there is no secret to show how", all)
			}
			for _, name := range []string{"Environment", "EnvironmentFile", "PassEnvironment"} {
				if got := settings["[Service]"+name]; got != nil {
					t.Errorf("%s is %q: secrets are in credentials", name, got)
				}
			}
			if command := settings["[Service]ExecStart"]; len(command) != 1 {
				t.Errorf("ExecStart is %q", command)
			}
		})
	}
}

func TestUnitOfTheGateway(t *testing.T) {
	command := settings(t, "keywright.service")["[Service]ExecStart"][0]
	want := serveLine{"/etc/keywright/connectors.yaml", "%d", "127.0.0.1:8080", "127.0.0.1:8081", "false"}
	if got := serves(t, strings.Fields(command)[1:]); got != want {
		t.Errorf("ExecStart has %+v, want %+v", got, want)
	}
}

// The server of the unit starts with its command line, once records are imported as its first lines say, and asks for the key
// that it loads.
func TestUnitOfTheContentInterface(t *testing.T) {
	text := testworld.Must(os.ReadFile("../../../deploy/keywright-content.service"))(t)
	const state = "/var/lib/keywright-content"
	here, secrets := t.TempDir(), t.TempDir()
	local := strings.NewReplacer(state, here, "%d", secrets)
	all := settings(t, "keywright-content.service")
	name, _, _ := strings.Cut(all["[Service]LoadCredential"][0], ":")
	testworld.Check(t, os.WriteFile(filepath.Join(secrets, name), []byte("a-key-that-callers-have"), 0o600))
	imports := regexp.MustCompile(`/usr/local/bin/keywright (content import .*) - <records\.ndjson`).FindSubmatch(text)
	if imports == nil || !strings.Contains(string(imports[1]), state) || !strings.Contains(string(text), "-p User="+all["[Service]User"][0]) {
		t.Fatal("it does not say how to import as its user")
	}
	if code, out, errs := keywright(t.Context(), append(strings.Fields(local.Replace(string(imports[1]))), "/dev/null")...); code != exitOK {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	const listen = " --listen 127.0.0.1:8090 --admin 127.0.0.1:8091" // startServing has others
	command, onLoopback := strings.CutSuffix(local.Replace(all["[Service]ExecStart"][0]), listen)
	command, ours := strings.CutPrefix(command, "/usr/local/bin/keywright ")
	if !onLoopback || !ours {
		t.Fatalf("ExecStart is %q", all["[Service]ExecStart"])
	}
	s := startServing(t, build(t), nil, strings.Fields(command)...)
	for key, want := range map[string]int{"a-key-that-callers-have": 200, "another-one-of-somebody": 401} {
		if status, body := s.get("/articles", "X-API-Key", key); status != want {
			t.Errorf("%d %s, want %d", status, body, want)
		}
	}
	s.end()
}

func TestDockerfile(t *testing.T) {
	var names []string
	values := map[string]string{}
	for _, line := range lines(t, "Dockerfile") {
		name, value, _ := strings.Cut(line, " ")
		names = append(names, name)
		values[name] = value
	}
	if want := []string{"FROM", "COPY", "COPY", "USER", "EXPOSE", "ENTRYPOINT", "CMD"}; !slices.Equal(names, want) {
		t.Errorf("it has %q, want %q", names, want)
	}
	if values["FROM"] != "scratch" {
		t.Errorf("it begins with %s, which holds more than is needed", values["FROM"])
	}
	if !regexp.MustCompile(`^[1-9]\d*:[1-9]\d*$`).MatchString(values["USER"]) {
		t.Errorf("the user is %s, of which nobody can tell that it is not root", values["USER"])
	}
	var args []string
	if err := json.Unmarshal([]byte(values["CMD"]), &args); err != nil || values["ENTRYPOINT"] != `["/keywright"]` {
		t.Fatalf("there is no shell for %s and %s: %v", values["ENTRYPOINT"], values["CMD"], err)
	}
	want := serveLine{"/config/connectors.yaml", "/secrets", "0.0.0.0:8080", "127.0.0.1:8081", "false"}
	if got := serves(t, args); got != want {
		t.Errorf("CMD has %+v, want %+v", got, want)
	}
}
