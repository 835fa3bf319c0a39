package hosttest

import (
	"os"
	"testing"
	"time"

	"github.com/keywright/keywright/plugins"
)

func TestPluginsConform(t *testing.T) {
	modules := map[string][]byte{}
	for _, name := range plugins.Types() {
		modules[name] = plugins.Of(name)
	}
	delete(modules, "apikey")
	for _, name := range []string{"acme_hmac", "acme_hmac_c", "acme_hmac_as"} {
		wasm, err := os.ReadFile("../../examples/" + name + "/" + name + ".wasm")
		if err != nil {
			t.Fatal(err)
		}
		modules[name] = wasm
	}
	for name, wasm := range modules {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			report, err := Conform(t.Context(), Module{Name: name, Wasm: wasm})
			if err != nil {
				t.Fatal(err)
			}
			t.Log(time.Since(start), len(report.Configs))
			if !report.Conforms {
				t.Errorf("%s", report)
			} else {
				t.Log(report)
			}
		})
	}
}
