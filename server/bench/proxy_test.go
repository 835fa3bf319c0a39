package bench

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// asked starts a proxy in front of the API. It returns the error of a request through the proxy, or of starting it.
func asked(t *testing.T, p proxy) error {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() {
		stop()
		all.Wait()
	})
	api := testworld.Must(startSelf(ctx, &all, "api"))(t)
	address, note, err := p.start(ctx, &all, t.TempDir(), api)
	if err != nil {
		return err
	}
	if !strings.Contains(note, p.name+" is ") {
		t.Errorf("the note is %q", note)
	}
	client := newClient()
	defer client.CloseIdleConnections()
	return fetch(ctx, client, address, io.Discard)
}

// A proxy is measured only if the API finds the key in each request that comes through it.
func TestAProxyHasToSetTheKey(t *testing.T) {
	for _, p := range proxies {
		if err := asked(t, p); err != nil {
			t.Errorf("%s: err = %v", p.name, err)
		}
		p.config = strings.Replace(p.config, "CREDENTIAL", "another", 1)
		if err := asked(t, p); err == nil || !strings.Contains(err.Error(), "401") {
			t.Errorf("%s with another key: %v, want 401", p.name, err)
		}
	}
}

func TestProxyStartError(t *testing.T) {
	noDirective := strings.NewReplacer("header_up", "nonsense", "proxy_set_header", "nonsense", "set-header", "nonsense")
	for _, p := range proxies {
		p.config = noDirective.Replace(p.config)
		if err := asked(t, p); err == nil || !strings.Contains(err.Error(), "nonsense") {
			t.Errorf("%s: %v, want what it wrote about its configuration", p.name, err)
		}
	}
	err := asked(t, proxy{program: "no-such-proxy"})
	if err == nil || !strings.Contains(err.Error(), "install the Debian package no-such-proxy") {
		t.Errorf("a program that is not installed: %v", err)
	}
}

// Rows without a goal are in all reports, and are not counted as goals.
func TestReportOfARowWithoutAGoal(t *testing.T) {
	measured := func(work string, goal float64) measuredRow {
		return measuredRow{row{work: work, against: "another", goal: goal}, result{ours: 30, peer: 20, ratio: 1.5, low: 1.5, high: 1.5}}
	}
	all := measurements{rows: []measuredRow{measured("one", 0), measured("two", 1), measured("three", 1.5)}}
	tables := markdown(all, 1)
	const values = " | another | 30 ns | 20 ns | 1.5 | 1.5–1.5 | "
	for _, want := range []string{"| one" + values + "– | – |\n", "| two" + values + "1 | no |\n", "| three" + values + "1.5 | yes |\n"} {
		if !strings.Contains(tables, want) {
			t.Errorf("the table has no %q:\n%s", want, tables)
		}
	}
}
