package host_test

import (
	"os"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
)

// describing returns the error of a host for a plugin whose describe has this output.
func describing(t *testing.T, output string) error {
	t.Helper()
	h, err := host.New(t.Context(), host.Config{BuiltIns: []host.Plugin{}, Plugins: []host.Plugin{(&guest{output: output}).plugin()}})
	if err == nil {
		_ = h.Close(t.Context())
	}
	return err
}

// A description with all that contract 1 has is accepted; consent is left out, because it excludes a seed. The document belongs to the promise in ABI.md: once Keywright is
// released, it grows, and nothing of it changes or leaves.
func TestContractOneStability(t *testing.T) {
	document, err := os.ReadFile("testdata/contract1.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := describing(t, string(document)); err != nil {
		t.Error(err)
	}
}

// A module of another contract is refused by its number alone, whatever else it says. One of this contract that has more than this
// host knows is refused by what it has (threats.md 185).
func TestUnknownContract_threats_185(t *testing.T) {
	const rest = `"type":"custom","version":"1.0.0","summary":"s"}`
	for output, want := range map[string]string{
		`{"abi":2,` + rest:                                  "describe: abi is 2, this host knows 1: the module is of a contract that a later Keywright may know",
		`{"abi":2,"magic":["x"],"fields":"none"}`:           "describe: abi is 2, this host knows 1: ",
		`{"abi":0,` + rest:                                  "describe: abi is 0, this host knows 1: no plugin has that contract",
		`{` + rest:                                          "describe: abi is 0, this host knows 1: ",
		`{"abi":-1,` + rest:                                 "describe: abi is -1, this host knows 1: ",
		`{"abi":1,"abi":2,` + rest:                          "describe: its output has two members of one name",
		`{"abi":"1",` + rest:                                `describe: its output has a value of the wrong type at "/abi"`,
		`{"abi":1,"magic":true,` + rest:                     `describe: its output has an unknown member at "/magic", which a later Keywright may know`,
		`{"abi":1,"fields":[{"nome":"x"}],` + rest:          `describe: its output has an unknown member at "/fields/0/nome", which a later`,
		`{"abi":1,"magic":true,"fields":"none",` + rest:     `describe: its output has `,
		`{"abi":1,"fields":[{"name":"x","kind":1}],` + rest: `describe: its output has a value of the wrong type at "/fields/0/kind"`,
	} {
		err := describing(t, output)
		if err == nil || !strings.HasPrefix(err.Error(), `plugin "guest": `+want) || strings.Contains(want, "wrong type") && strings.Contains(err.Error(), "later") {
			t.Errorf("%s: %v, want %q", output, err, want)
		}
	}
}
