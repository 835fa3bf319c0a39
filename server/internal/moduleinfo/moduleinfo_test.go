package moduleinfo

import (
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/plugins"
)

func TestRead(t *testing.T) {
	info, err := Read(t.Context(), plugins.OAuthCC)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(info.Imports, "extism:host/user.token_request") || !slices.Contains(info.Exports, "authenticate") {
		t.Errorf("%+v", info)
	}
	for _, name := range info.Imports {
		if !strings.HasPrefix(name, "extism:host/") {
			t.Errorf("imports %s", name)
		}
	}
	if _, err := Read(t.Context(), []byte("\x00asm")); err == nil {
		t.Error("a module of four bytes was read")
	}
}
