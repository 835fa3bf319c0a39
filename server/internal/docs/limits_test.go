package docs

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

func TestContractLimits(t *testing.T) {
	table := map[string]string{}
	for _, row := range rows(under(t, "ABI.md", "## Limits")) {
		table[row[0]] = row[1]
	}
	of := map[string][2]string{ // the row in ABI.md, and its text with % for the number
		"ModuleBytes":         {"module", "%"},
		"MemoryBytes":         {"memory", "% of guest"},
		"BlockBytes":          {"memory", "% and"},
		"Blocks":              {"memory", "% blocks"},
		"Fuel":                {"work", "% units"},
		"CallTime":            {"time", "% a call"},
		"HostCalls":           {"host calls", "% into"},
		"TokenRequests":       {"host calls", "% token requests"},
		"KeyRequests":         {"host calls", "% uses of keys of a store"},
		"LogLines":            {"host calls", "% log lines"},
		"BodyBytes":           {"body", "%, when"},
		"OutputBytes":         {"documents", "output %"},
		"Mutations":           {"documents", "% headers"},
		"TokenBytes":          {"documents", "token answer %"},
		"CacheBytes":          {"documents", "cached value %"},
		"TokensBytes":         {"cache", "% in all"},
		"CachePerPartition":   {"cache", "% a partition"},
		"Keys":                {}, // this and the following are not part of the contract
		"MutationsBytes":      {},
		"ScannersBytes":       {},
		"ConcurrentGuests":    {},
		"ConcurrentExchanges": {},
		"ConcurrentKeys":      {},
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[host.Limits]()) {
		where, ok := of[field.Name]
		if !ok {
			t.Errorf("this test knows no host.Limits.%s", field.Name)
		}
		if want := strings.Replace(where[1], "%", field.Tag.Get("default"), 1); !strings.Contains(table[where[0]], want) {
			t.Errorf("host.Limits.%s: ABI.md's row %q should have %q, has %q", field.Name, where[0], want, table[where[0]])
		}
	}
}

func TestCallConstants(t *testing.T) {
	for file, c := range map[string][2]string{
		"cache.go": {`maxCacheKey += ([0-9]+)`, "a key of % bytes"},
		"sign.go":  {`maxSignatures += ([0-9]+)`, "% signatures"},
	} {
		source := testworld.Must(os.ReadFile(filepath.Join(root, "host/internal/hostfn", file)))(t)
		most := regexp.MustCompile(c[0]).FindSubmatch(source)
		if most == nil || !strings.Contains(under(t, "ABI.md", "## Limits"), strings.Replace(c[1], "%", string(most[1]), 1)) {
			t.Errorf("%s is %q, ABI.md says %q", c[0], most, under(t, "ABI.md", "## Limits"))
		}
	}
}
