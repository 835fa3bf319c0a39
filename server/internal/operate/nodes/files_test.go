package nodes_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/activity"
)

// Each node says which connectors a file defines otherwise than the file of most nodes.
func TestFilesOfNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, store := newNodes(t, 3)
		usual := map[string]map[string]string{"": {"limits": "1"}, "crm": {"url": "2"}, "erp": {"url": "3"}, "shop": {"url": "4", "timeout": "5"}}
		second := maps.Clone(usual)
		second[""], second["shop"], second["wiki"] = map[string]string{}, map[string]string{"url": "6", "timeout": "5", "paths": "7"}, map[string]string{"url": "8"}
		delete(second, "erp")
		for i, n := range all {
			n.set = func(r *activity.Report) {
				r.SHA256, r.Fingerprints = "usual", func() map[string]map[string]string { return usual }
				if i == 1 {
					r.SHA256, r.Fingerprints = "second", func() map[string]map[string]string { return second }
				}
			}
			n.recorder.Request(&gateway.Event{Connector: "shop", Status: 200, UpstreamStatus: 200, Began: n.clock()})
			testworld.Check(t, n.Write(t.Context()))
		}
		for _, n := range all {
			reports, note := n.Reports(t.Context())
			for _, r := range reports {
				want := "[{ [limits]} {erp []} {shop [paths url]} {wiki []}]"
				if r.Node != "b" {
					want = "[]"
				}
				if got := fmt.Sprint(r.Differences); got != want || note != "" {
					t.Errorf("of %s: %s, want %s, %s", r.Node, got, want, note)
				}
			}
			view, _ := n.View(t.Context())
			names, members := view.Different("shop")
			requests := view.RequestsOn(names, "shop")
			crm, _ := view.Different("crm")
			if !slices.Equal(names, []string{"b"}) || !slices.Equal(members, []string{"paths", "url"}) || requests != 1 || crm != nil {
				t.Errorf("%q of shop differ on %q for %d requests, crm on %q", members, names, requests, crm)
			}
		}
		for range 6 { // reports are written again, and the file is not
			time.Sleep(10 * time.Second)
			for _, n := range all {
				testworld.Check(t, n.Write(t.Context()))
			}
		}
		if writes := store.writes.Load(); writes != 3*2+6*3 {
			t.Errorf("%d writes", writes)
		}
		all[1].set = all[0].set
		testworld.Check(t, all[1].Write(t.Context()))
		time.Sleep(2 * time.Second)
		view, _ := all[2].View(t.Context())
		if names, _ := view.Different("shop"); names != nil {
			t.Errorf("with the same file, there is a difference on %q", names)
		}
	})
}
