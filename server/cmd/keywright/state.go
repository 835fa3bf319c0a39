package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/connectors/statestore"
	"github.com/keywright/keywright/server/internal/terminal"
)

type stateStatus struct {
	Type string `json:"type"`
	// Values is the number of values that have not expired, and Leased is the number of those with a lease.
	Values int `json:"values"`
	Leased int `json:"leased"`
	// Grants are the numbers of grants by their condition.
	Grants map[host.Condition]int `json:"grants,omitempty"`
	// Milliseconds is the time of one read.
	Milliseconds float64 `json:"milliseconds"`
}

func stateStatusCommand(a *app) *cobra.Command {
	var flags configFlags
	c := a.jsonCommand("status", nil, func(c *cobra.Command, _ []string) (document, error) {
		store, stateConfig, err := a.stateOf(c, &flags)
		if err != nil {
			return nil, err
		}
		status := &stateStatus{Type: stateConfig.Type()}
		began := time.Now()
		if _, err := store.Database.Get(c.Context(), state.ID{}); err != nil {
			return nil, err
		}
		status.Milliseconds = float64(time.Since(began).Microseconds()) / 1000
		err = store.Database.Rows(c.Context(), func(_ state.ID, row state.Row) error {
			status.Values++
			if row.LeasedFor > 0 {
				status.Leased++
			}
			return nil
		})
		if err == nil {
			status.Grants, err = store.State.Grants(c.Context())
		}
		return status, err
	})
	flags.add(c, "connectors.yaml")
	return c
}

func (s *stateStatus) print(a *app) {
	text := fmt.Sprintf("%s: %s, %d leased; a read took %.1f ms",
		s.Type, terminal.Count(s.Values, "value"), s.Leased, s.Milliseconds)
	between := "; grants: "
	for _, condition := range slices.Sorted(maps.Keys(s.Grants)) {
		text += fmt.Sprintf("%s%d %s", between, s.Grants[condition], condition)
		between = ", "
	}
	a.out.Line("%s", text)
}

// rekeyCounts is the document of state rekey.
type rekeyCounts struct {
	// Sealed is the number of values that were sealed under the first state key, Current of those that were before, and
	// Unopened of those that no state key opens.
	Sealed   int `json:"sealed"`
	Current  int `json:"current"`
	Unopened int `json:"unopened"`
}

func stateRekeyCommand(a *app) *cobra.Command {
	var flags configFlags
	c := a.jsonCommand("rekey", nil, func(c *cobra.Command, _ []string) (document, error) {
		store, _, err := a.stateOf(c, &flags)
		if err != nil {
			return nil, err
		}
		counts, err := store.State.Rekey(c.Context())
		if err != nil {
			return nil, fmt.Errorf("%d values were sealed under the first key before this: %w", counts.Sealed, err)
		}
		if counts.Unopened > 0 {
			a.printErr("keywright: no state key opens %s: add the key that is missing, or they are of no use", terminal.Count(counts.Unopened, "value"))
		}
		return rekeyCounts(counts), reportUnless(counts.Unopened == 0)
	})
	flags.add(c, "connectors.yaml")
	return c
}

func (r rekeyCounts) print(a *app) {
	a.out.Line("sealed under the first key: %s; before: %d", terminal.Count(r.Sealed, "value"), r.Current)
}

// stateOf opens the store of state of a configuration until the command ends.
func (a *app) stateOf(c *cobra.Command, f *configFlags) (*statestore.Store, *connectors.State, error) {
	set, err := a.load(c, f, nil)
	if err != nil {
		return nil, nil, err
	}
	if set.State == nil {
		return nil, nil, fmt.Errorf("%s: the file has no state: its member state says where tokens are kept (docs/several-nodes.md)", f.file)
	}
	store, err := a.openState(c.Context(), set.State)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.file, err)
	}
	return store, set.State, nil
}
