package nodes_test

import (
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
		usual := map[string]string{"": "1", "crm": "2", "erp": "3", "shop": "4"}
		second := maps.Clone(usual)
		second[""], second["shop"], second["wiki"] = "5", "6", "7"
		delete(second, "erp")
		for i, n := range all {
			n.set = func(r *activity.Report) {
				r.SHA256, r.Fingerprints = "usual", func() map[string]string { return usual }
				if i == 1 {
					r.SHA256, r.Fingerprints = "second", func() map[string]string { return second }
				}
			}
			n.recorder.Request(&gateway.Event{Connector: "shop", Status: 200, UpstreamStatus: 200, Began: n.clock()})
			testworld.Check(t, n.Write(t.Context()))
		}
		for _, n := range all {
			reports, note := n.Reports(t.Context())
			for _, r := range reports {
				want := []string{"", "erp", "shop", "wiki"}
				if r.Node != "b" {
					want = nil
				}
				if !slices.Equal(r.Differences, want) || note != "" {
					t.Errorf("of %s: %q, want %q, %s", r.Node, r.Differences, want, note)
				}
			}
			view, _ := n.View(t.Context())
			names, requests := view.NodesThatDiffer("shop")
			crm, _ := view.NodesThatDiffer("crm")
			if !slices.Equal(names, []string{"b"}) || requests != 1 || crm != nil {
				t.Errorf("shop differs on %q for %d requests, crm on %q", names, requests, crm)
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
		if names, _ := view.NodesThatDiffer("shop"); names != nil {
			t.Errorf("with the same file, there is a difference on %q", names)
		}
	})
}
