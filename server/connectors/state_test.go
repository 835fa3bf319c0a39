package connectors_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
)

const stateKey = "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=" // 32 bytes

// Everything that is wrong with the member state is a problem with its place.
func TestStateProblems(t *testing.T) {
	for name, c := range map[string]struct {
		state string
		want  []string
	}{
		"no object":       {"postgres", []string{`connectors.yaml:7:8: state: is text: an object with type and keys is wanted`}},
		"no type":         {"{path: x}", []string{`connectors.yaml:7:8: state.type: is missing`}},
		"another type":    {"{type: redis, url: x}", []string{`connectors.yaml:7:15: state.type: there is no store of type "redis"; there are sqlite, postgres`}},
		"a misspelt type": {"{type: posgres, url: x}", []string{`connectors.yaml:7:15: state.type: there is no store of type "posgres"; did you mean "postgres"?`}},
		"nothing":         {"{type: sqlite}", []string{`connectors.yaml:7:8: state.keys: is missing`, `connectors.yaml:7:8: state.path: is missing`}},
		"misspelt":        {`{type: sqlite, path: x, key: "{{ get_secret('k') }}"}`, []string{`connectors.yaml:7:32: state.key: is not known here; did you mean "keys"?`}},
		"of another type": {`{type: sqlite, path: x, url: x, keys: "{{ get_secret('k') }}"}`, []string{`connectors.yaml:7:32: state.url: is not known here; there are type, keys, lease, path`}},
		"no key":          {`{type: sqlite, path: x, keys: []}`, []string{`connectors.yaml:7:38: state.keys: is empty: it needs a state key, which names a secret`}},
		"a plain key":     {`{type: sqlite, path: x, keys: ["{{ get_secret('k') }}", ` + stateKey + `]}`, []string{`connectors.yaml:7:64: state.keys[1]: names no secret: write "{{ get_secret('state-key') }}", and keep the key in a store of secrets`}},
		"a user's key":    {`{type: sqlite, path: x, keys: "{{ user.id }}{{ get_secret('k') }}"}`, []string{`connectors.yaml:7:38: state.keys: names something of the user, and is the same for all users`}},
		"a wrong key":     {`{type: sqlite, path: x, keys: ["{{ get_secret('k') }}", "{{ get_secrt('k') }}"]}`, []string{`connectors.yaml:7:68: state.keys[1]: unknown function "get_secrt": there are get_secret, get_key, get_variable, identity, discover, now, uuid, default, base64_encode, base64_decode, json_encode, json_get`}},
		"a short lease":   {`{type: sqlite, path: x, keys: "{{ get_secret('k') }}", lease: 2s}`, []string{`connectors.yaml:7:70: state.lease: is not between 3s and 10m0s: a token request has two thirds of it`}},
		"no address":      {`{type: postgres, url: localhost, keys: "{{ get_secret('k') }}"}`, []string{`connectors.yaml:7:30: state.url: is not a URL of PostgreSQL: it has to be like postgres://user:password@host:5432/database?sslmode=verify-full`}},
		"a password":      {`{type: postgres, url: "postgres://a:b@c/d", keys: "{{ get_secret('k') }}"}`, []string{`connectors.yaml:7:30: state.url: has a password in it: keep the whole URL in a secret, and write "{{ get_secret('state-url') }}"`}},
		"a connection":    {`{type: postgres, url: "postgres:///d", connections: 1, keys: "{{ get_secret('k') }}"}`, []string{`connectors.yaml:7:60: state.connections: is 1, and has to be 2 at least`}},
		"good":            {`{type: postgres, url: "{{ get_secret('url') }}", keys: ["{{ get_secret('k') }}"], lease: 1m, connections: 4, pooler: true}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			wantProblems(t, weather+"state: "+c.state, connectors.Options{WithoutStore: true}, c.want...)
		})
	}
}

// With ReadSecrets, what the secrets of state hold is checked, and no problem quotes them. threats.md 139
func TestStateSecrets(t *testing.T) {
	const file = weather + `state: {type: postgres, url: "{{ get_secret('url') }}", keys: ["{{ get_secret('k') }}"]}`
	const canary = "c4n4ry0x9"
	for name, c := range map[string]struct{ url, key, want string }{
		"good":            {"postgres://u:" + canary + "@h/d", stateKey + "\n", ""},
		"of the URL":      {"postgres://u:p@h/d", strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(stateKey), ""},
		"not base64":      {"postgres://u:p@h/d", canary + "!", "keys[0]: the state key is not base64: make one with `openssl rand -base64 32`"},
		"hexadecimal":     {"postgres://u:p@h/d", strings.Repeat("c4", 32), "keys[0]: the state key has 48 bytes in place of 32: make one with `openssl rand -base64 32`"},
		"of zeros":        {"postgres://u:p@h/d", strings.Repeat("A", 43) + "=", "keys[0]: the state key repeats one byte: make one with `openssl rand -base64 32`"},
		"another address": {"mysql://u:" + canary + "@h/d", stateKey, "url: is not a URL of PostgreSQL: it has to be like postgres://user:password@host:5432/database?sslmode=verify-full"},
		"no key":          {"postgres://u:p@h/d", "", `keys[0]: secret "k": it is empty`},
		"padding only":    {"postgres://u:p@h/d", "==", "keys[0]: the state key is empty: make one with `openssl rand -base64 32`"},
	} {
		secrets := host.MapSecrets{"url": c.url, "k": c.key, "weather": "x"}
		_, got := load(t, file, connectors.Options{Host: host.Config{Secrets: secrets}, ReadSecrets: true, WithoutStore: true})
		all := strings.Join(got, "\n")
		if c.want == "" && got != nil || c.want != "" && (len(got) != 1 || !strings.HasSuffix(all, ": state."+c.want)) {
			t.Errorf("%s: all = %s", name, all)
		}
		if strings.Contains(all, canary) {
			t.Errorf("%s: a problem shows a secret: %s", name, all)
		}
	}
	options := connectors.Options{Host: host.Config{Secrets: host.MapSecrets{"weather": "x"}}, ReadSecrets: true, WithoutStore: true}
	wantProblems(t, file, options, `connectors.yaml:7:30: state.url: secret "url": the secret is not found`)
}

// The store is opened once the member is right, before the host is made, and its failure has the place of the member.
func TestOpenState(t *testing.T) {
	const file = weather + `state: {type: sqlite, path: state.db, keys: "{{ get_secret('k') }}"}`
	config := host.StateConfig{Store: state.NewMemory(time.Now), Keys: [][]byte{make([]byte, 32)}}
	there := testworld.Must(host.NewState(t.Context(), config))(t)
	defer there.Close(t.Context())
	opened := 0
	open := func(ctx context.Context, s *connectors.State, c *host.Config) error {
		opened++
		settings, err := s.Read(ctx)
		if err != nil || settings.Type != connectors.StateSQLite || settings.Path != "state.db" || len(settings.Keys) != 1 || len(settings.Keys[0]) != 32 {
			t.Errorf("settings = %+v, err = %v", settings, err)
		}
		c.State = there
		return nil
	}
	secrets := host.MapSecrets{"k": stateKey}
	set, _ := load(t, file, connectors.Options{Host: host.Config{Secrets: secrets}, OpenState: open})
	if opened != 1 || set == nil || set.State.Type() != connectors.StateSQLite || !cmp.Equal(set.StateSecrets, []string{"k"}) {
		t.Errorf("opened %d times, %+v", opened, set)
	}
	failed := func(context.Context, *connectors.State, *host.Config) error {
		return errors.New("state: the disk is full")
	}
	wantProblems(t, file, connectors.Options{OpenState: failed}, "connectors.yaml:7:8: state: the disk is full")
	wantProblems(t, file, connectors.Options{},
		"connectors.yaml:7:8: state: this program opens no store of state: it has to set Options.OpenState")
}

// Two files have the same state if they describe it in the same words.
func TestStateEqual(t *testing.T) {
	read := func(state string) *connectors.State {
		return loadGood(t, weather+state, connectors.Options{WithoutStore: true}).State
	}
	first := read(`state: {type: sqlite, path: a, keys: "{{ get_secret('k') }}"}`)
	for state, same := range map[string]bool{
		`state: {path: a, type: sqlite, keys: ["{{ get_secret('k') }}"]}`:            true,
		`state: {type: sqlite, path: b, keys: "{{ get_secret('k') }}"}`:              false,
		`state: {type: sqlite, path: a, keys: "{{ get_secret('l') }}"}`:              false,
		`state: {type: sqlite, path: a, lease: 1m, keys: ["{{ get_secret('k') }}"]}`: false,
		``: false,
	} {
		if first.Equal(read(state)) != same || read(state).Equal(first) != same {
			t.Errorf("%s: same = %t", state, !same)
		}
	}
}
