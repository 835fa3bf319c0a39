package main

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// lines returns the lines of a file in deploy/, without comments and empty lines.
func lines(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile("../../../deploy/" + name)
	if err != nil {
		t.Fatal(err)
	}
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
	c, rest, err := (&app{}).root().Find(args)
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

// threats.md 22: the unit keeps memory out of dumps and secrets out of the environment, and isolates the service from the
// system.
func TestUnit(t *testing.T) {
	settings := map[string][]string{}
	section := ""
	for _, line := range lines(t, "keywright.service") {
		if strings.HasPrefix(line, "[") {
			section = line
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			t.Fatalf("%q is no setting", line)
		}
		settings[section+name] = append(settings[section+name], value)
	}
	for name, want := range map[string]string{
		"ExecReload": "/bin/kill -HUP $MAINPID", "DynamicUser": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "LimitCORE": "0",
		"NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "PrivateDevices": "yes", "PrivateTmp": "yes", "RestrictNamespaces": "yes",
		"MemoryMax": "4G", "TasksMax": "1024", // one service cannot use up the machine
		"MemoryDenyWriteExecute": "no", // with yes, plugins could not be compiled
	} {
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
	command := settings["[Service]ExecStart"]
	if len(command) != 1 {
		t.Fatalf("ExecStart is %q", command)
	}
	want := serveLine{"/etc/keywright/connectors.yaml", "%d", "127.0.0.1:8080", "127.0.0.1:8081", "false"}
	if got := serves(t, strings.Fields(command[0])[1:]); got != want {
		t.Errorf("ExecStart has %+v, want %+v", got, want)
	}
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
