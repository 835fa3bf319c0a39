package host_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// escapingWorld returns a world whose guest has fields with escape, and writes down what it reads of text and object.
func escapingWorld(t *testing.T, text *string, object *[]string) *world {
	t.Helper()
	g := &guest{authenticate: func(env contract.Env) (string, error) {
		*text = value(env, "text")
		var got struct {
			List []string `json:"list"`
		}
		err := json.Unmarshal([]byte(value(env, "object")), &got)
		*object = got.List
		return header("X-Key", value(env, "key")), err
	}}
	g.about.Fields = []abi.Field{
		{Name: "text", Kind: abi.KindString, Sinks: []string{abi.SinkHeader}, Escape: `\{%`},
		{Name: "object", Kind: abi.KindObject, Sinks: []string{abi.SinkHeader}, Escape: `\{%`},
		sealedField("key", abi.SinkHeader),
	}
	return newWorld(t, withoutBuiltIns, withGuest(g))
}

// threats.md 103: in values of expressions, a backslash stands before each character that is special to the plugin. Literal
// text and secrets are as they were.
func TestEscapedExpressionValues_threats_103(t *testing.T) {
	var text string
	var object []string
	w := escapingWorld(t, &text, &object)
	w.setSecret("s", `{a}%\`)
	w.canary("k")
	connector := w.connect("custom", config{
		"text": `\{%{x}\\{{ user.username }}\`, "key": "{{ get_secret('k') }}",
		"object": config{"list": []any{"{{ user.username }}{{ user.username }}", "{{ user.username + '{' }}", "{y}", "{{ get_secret('s') }}", "{{ user.username }}:{{ get_secret('s') }}"}},
	})
	for name, want := range map[string]string{
		"ann": "ann", "é{": `é\{`, `{header:X-As}`: `\{header:X-As}`, `CORP\tom`: `CORP\\tom`, `\`: `\\`, `\{%}`: `\\\{\%}`,
	} {
		w.send(connector, get(host.WithUser(t.Context(), host.User{ID: name, Username: name})))
		if wanted := `\{%{x}\\` + want + `\`; text != wanted {
			t.Errorf("%s: the plugin read %s, want %s", name, text, wanted)
		}
		if len(object) != 5 || object[0] != want+want || object[1] != want+`\{` || object[2] != "{y}" {
			t.Fatalf("%s: the plugin read %q", name, object)
		}
		if strings.ContainsAny(object[3], `\{%`) || len(object[4]) != len(want+":"+object[3]) || !strings.HasPrefix(object[4], want+":") {
			t.Errorf("%s: sealed values are changed: %q", name, object[3:])
		}
	}
}

// threats.md 103: a backslash right before a value would undo the one that the host writes, so the configuration is refused.
func TestBackslashBeforeAValue_threats_103(t *testing.T) {
	var text string
	var object []string
	w := escapingWorld(t, &text, &object)
	w.canary("k")
	for source, wrong := range map[string]bool{
		`CORP\{{ user.username }}`: true, `\\\{{ user.username }}`: true, `{{ tenant_id }}\{{ user.username }}`: true,
		`CORP\\{{ user.username }}`: false, `{{ user.username }}\`: false, `\n{{ user.username }}`: false,
	} {
		problems := w.problems("custom", config{"key": "{{ get_secret('k') }}", "text": source, "object": config{"list": []any{source}}})
		all := strings.Join(problems, "\n")
		if !wrong && all != "" || wrong && (len(problems) != 2 || strings.Count(all, `a single \ stands right before {{: write \\`) != 2) {
			t.Errorf("%s: problems = %q", source, problems)
		}
	}
}
