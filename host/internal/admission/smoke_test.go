package admission

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

func TestSmoke(t *testing.T) {
	files, _ := filepath.Glob("../../../plugins/*/*.wasm")
	for _, f := range files {
		wasm, _ := os.ReadFile(f)
		begin := time.Now()
		m, err := Admit(wasm, DefaultLimits())
		took := time.Since(begin)
		if err != nil {
			t.Fatal(f, err)
		}
		os.WriteFile("/tmp/"+filepath.Base(f), m.Wasm, 0o600)
		t.Log(f, len(wasm), len(m.Wasm), took, m.Resettable, m.Reason, m.Globals, m.Exports)
		r := wazero.NewRuntimeWithConfig(context.Background(), wazero.NewRuntimeConfig().WithCoreFeatures(api.CoreFeaturesV2&^api.CoreFeatureSIMD))
		if _, err := r.CompileModule(context.Background(), m.Wasm); err != nil {
			t.Error(err)
		}
	}
}
