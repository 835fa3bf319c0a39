package connectors_test

import (
	"context"
	"errors"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
)

// The file sets limits of its host, also for the cache that outlives that. Those that it leaves out are the ones of the program.
// threats.md 330
func TestLimitsOfTheProcess_threats_330(t *testing.T) {
	var got host.Limits
	o := connectors.Options{Host: host.Config{Limits: host.Limits{ConcurrentKeys: 7}}, OpenState: func(_ context.Context, _ *connectors.State, c *host.Config) error {
		got = c.Limits
		return errors.New("no more is needed")
	}}
	read := func(limits string) error {
		_, err := connectors.Read(t.Context(), "connectors.yaml", []byte("limits: "+limits+`
state: {type: sqlite, path: state.db, keys: "{{ get_secret('k') }}"}
connectors: [{name: a, url: "https://a.example", auth: {type: none}}]`), o)
		return err
	}
	if err := read("{concurrent_exchanges: 100, tokens_bytes: 1000, mutations_bytes: 2000, scanners_bytes: 3000}"); got.ConcurrentExchanges != 100 || got.ConcurrentKeys != 7 ||
		got.TokensBytes != 1000 || got.MutationsBytes != 2000 || got.ScannersBytes != 3000 {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := read("{concurrent_exchanges: 0}"); !errors.As(err, new(*connectors.Error)) {
		t.Errorf("no place at all: %v", err)
	}
}
