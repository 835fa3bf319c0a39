package host_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
)

func TestLimitsThatCannotBe(t *testing.T) {
	refused := func(l host.Limits, want string) {
		t.Helper()
		h, err := host.New(context.Background(), host.Config{Limits: l})
		if err == nil {
			_ = h.Close(t.Context())
		}
		if err == nil || !strings.HasPrefix(err.Error(), "limits: "+want) {
			t.Errorf("%+v: %v, want %q", l, err, want)
		}
	}
	for i := range reflect.TypeFor[host.Limits]().NumField() {
		var l host.Limits
		reflect.ValueOf(&l).Elem().Field(i).SetInt(-1)
		name := reflect.TypeFor[host.Limits]().Field(i).Name
		refused(l, fmt.Sprintf("%s is -1: give a positive number, or 0 for the default", name))
	}
	for _, bytes := range []int{1, 65535, 1<<32 + 1, 1 << 48} {
		refused(host.Limits{MemoryBytes: bytes}, fmt.Sprintf("MemoryBytes is %d: a guest's memory has 64 KiB to 4 GiB", bytes))
	}
}
