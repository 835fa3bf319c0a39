package run

import (
	"testing"
	"time"

	"github.com/keywright/keywright/host/internal/connect"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/host/internal/tokens"
	"github.com/keywright/keywright/internal/fairqueue"
)

// A call that another one overtakes, when both are about to replace a token ahead of its end, has no place any more.
func TestOvertakenCallAheadHasNoPlace(t *testing.T) {
	start, overtake := time.Unix(1_700_000_000, 0), func() {}
	now := start
	store := tokens.New(1<<20, 1, func() time.Time { overtake(); return now }, nil)
	token := store.Put(t.Context(), nil, tokencache.Key{Owner: "crm"}, nil, time.Hour, true)
	plan := &connect.Plan{Plan: &hostfn.Plan{}, SlotOwners: []string{"connector crm"}}
	rn := &Runner{Shared: &Shared{Tokens: store, Ahead: fairqueue.New(1, 0)}, Plan: plan, RefreshAhead: time.Minute}
	now = start.Add(time.Hour - time.Second)
	overtake = func() { token.BeginAhead(time.Second) }
	rn.refreshAhead(t.Context(), &Outcome{Entries: []*tokencache.Handle{token}}, nil, nil)
	if _, free := rn.Ahead.Try(plan.SlotOwners...); !free {
		t.Error("no other token can be replaced ahead any more")
	}
}
