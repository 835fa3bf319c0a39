package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/casefile"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/sdk"
)

// counter is a plugin that counts its calls, and sends another number after every limit of them.
type counter struct {
	calls *int
	limit int
}

func (counter) Describe() sdk.Description {
	return sdk.Description{
		ABI: sdk.ABI, Type: "counter", Version: "1.0.0", Summary: "Counts.",
		Fields: []sdk.Field{{Name: "value", Kind: sdk.String, Required: true, Sealed: true, Sinks: []sdk.Sink{sdk.ToHeader}}},
	}
}

func (p counter) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	*p.calls++
	return sdk.Mutation{Headers: []sdk.Pair{
		{Name: "Authorization", Value: c.Config("value")}, {Name: "X-Order", Value: fmt.Sprint(1 + *p.calls/p.limit)},
	}}, nil
}

// A plugin whose requests differ natively, as those with the order of a map do, fails the case.
func TestNativeRunsDiffer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cases.yaml")
	const text = `
- name: a header
  config: {value: a-secret-of-the-case}
  request: {url: https://api.test/}
  expect: {headers: {X-Order: '1'}}`
	testworld.Check(t, os.WriteFile(file, []byte(text), 0o600))
	all := testworld.Must(casefile.Read(file))(t)
	for limit, want := range map[int]int{100: 0, 3: 1} {
		failures := &testworld.Collector{}
		repeat(failures, &all[0], counter{new(int), limit}, "none.wasm")
		got := failures.Failures()
		if len(got) != want || want == 1 && !strings.Contains(got[0], "ranges over a map") {
			t.Errorf("a change after %d calls: failures = %q, want %d", limit, got, want)
		}
	}
}
