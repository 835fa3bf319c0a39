package tokencache_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/host/view"
)

// refuse asks a question of an owner, and records that it was refused.
func refuse(t *testing.T, r *tokencache.Refusals, owner string, key [32]byte, retryAfter time.Duration) {
	t.Helper()
	q, last, ok := r.Ask(owner, key, false)
	if !ok {
		t.Fatalf("question %x may not be asked, after %+v", key[:4], last)
	}
	q.Refuse(view.TokenError{Status: 400}, retryAfter, 0)
	q.End()
}

// The number of recorded refusals is bounded like that of entries. threats.md 62
func TestRefusalBound_threats_62(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	r := tokencache.New[string](4, 4, func() time.Time { return now }).Refusals
	for i := range byte(100) {
		refuse(t, r, "crm", [32]byte{i}, 0)
		if i > 0 { // to ask for the one before keeps it
			if _, _, may := r.Ask("crm", [32]byte{0}, false); may {
				t.Fatalf("after %d refusals the one that was met again and again is forgotten", i+1)
			}
		}
	}
	remembered := 0
	for i := range byte(100) {
		if _, _, may := r.Ask("crm", [32]byte{i}, false); !may {
			remembered++
		}
	}
	if remembered != 4 {
		t.Errorf("%d are remembered", remembered)
	}
}

// A connector with many refusals keeps those of others. threats.md 62
func TestRefusalsOfOwners_threats_62(t *testing.T) {
	r := tokencache.New[string](100, 4, func() time.Time { return time.Unix(1_700_000_000, 0) }).Refusals
	refuse(t, r, "crm", [32]byte{}, 0)
	for user := range uint32(100_000) {
		var key [32]byte
		binary.BigEndian.PutUint32(key[:], user)
		refuse(t, r, "erp", key, 0)
	}
	if _, _, may := r.Ask("crm", [32]byte{}, false); may {
		t.Error("the refusal of crm is forgotten, want it remembered")
	}
}

// Of several refusals of callers that asked at the same time, one counts.
func TestConcurrentRefusals_threats_62(t *testing.T) {
	r := tokencache.New[string](4, 4, time.Now).Refusals
	var questions [3]*tokencache.Question
	for i := range questions {
		questions[i], _, _ = r.Ask("crm", [32]byte{1}, false)
	}
	for i, q := range questions {
		if refusal, first := q.Refuse(view.TokenError{Status: 400}, 0, 0); first != (i == 0) || refusal.RetryAfter != time.Second {
			t.Errorf("refusal %d is the first: %t, with a wait of %v", i, first, refusal.RetryAfter)
		}
	}
}

// A clock that is set back or forward keeps no caller from asking. threats.md 33
func TestRefusalsAndTheClock_threats_33(t *testing.T) {
	for _, step := range []time.Duration{-time.Second, -1000 * time.Hour, 1000 * time.Hour, 290 * 365 * 24 * time.Hour} {
		now := time.Unix(1_700_000_000, 0)
		r := tokencache.New[string](4, 4, func() time.Time { return now }).Refusals
		refuse(t, r, "crm", [32]byte{1}, time.Hour)
		now = now.Add(step)
		if _, before, may := r.Ask("crm", [32]byte{1}, false); !may {
			t.Errorf("with the clock moved by %v nobody may ask for %v", step, before.RetryAfter)
		}
	}
}

// A caller whose refusal has been dropped meanwhile does not affect others when it ends.
func TestForgottenRefusal(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	r := tokencache.New[string](1, 1, func() time.Time { return now }).Refusals
	refuse(t, r, "crm", [32]byte{1}, 0)
	now = now.Add(time.Second)
	again, _, may := r.Ask("crm", [32]byte{1}, false)
	if _, before, others := r.Ask("crm", [32]byte{1}, false); !may || others || before.RetryAfter != time.Second || before.Status != 400 {
		t.Errorf("one has the turn: %t, others too: %t, with %+v", may, others, before)
	}
	refuse(t, r, "crm", [32]byte{2}, 0)
	again.End()
	if refusal, counts := again.Refuse(view.TokenError{Status: 403}, 0, 0); !counts || refusal.RetryAfter != time.Second {
		t.Errorf("it is refused for %v", refusal.RetryAfter)
	}
	again.Accept()
	if _, _, may := r.Ask("crm", [32]byte{1}, false); !may {
		t.Error("an answer is not forgotten")
	}
}

// The waits double up to five minutes, each shortened at random by up to a fifth. Retry-After replaces a wait, from a
// second to an hour, and does not change the next one.
func TestHowLongARefusalWaits(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	r := tokencache.New[string](4, 4, func() time.Time { return now }).Refusals
	for i, tt := range []struct {
		after  time.Duration
		jitter float64
		want   time.Duration
	}{
		{0, 0, time.Second},
		{0, 0.5, 1800 * time.Millisecond},
		{-time.Second, 0, 4 * time.Second},
		{30 * time.Second, 0.5, 30 * time.Second},
		{0, 0.5, 14400 * time.Millisecond},
		{time.Millisecond, 0, time.Second},
		{2 * time.Hour, 0, time.Hour},
		{0, 0, 128 * time.Second},
		{0, 0, 256 * time.Second},
		{0, 0, 5 * time.Minute},
		{0, 0.5, 270 * time.Second},
	} {
		q, before, may := r.Ask("crm", [32]byte{1}, false)
		if !may {
			t.Fatalf("refusal %d has to wait for %v more", i, before.RetryAfter)
		}
		got, _ := q.Refuse(view.TokenError{Status: 400}, tt.after, tt.jitter)
		q.End()
		if got.RetryAfter != tt.want {
			t.Errorf("refusal %d: the wait is %v, not %v", i, got.RetryAfter, tt.want)
		}
		now = now.Add(tt.want - time.Nanosecond)
		if _, before, may := r.Ask("crm", [32]byte{1}, false); may || before.RetryAfter != time.Nanosecond {
			t.Errorf("refusal %d: a moment before the end of the wait may ask: %t, wait %v", i, may, before.RetryAfter)
		}
		now = now.Add(time.Nanosecond)
	}
}

// An operator asks again without a wait of more than a second, and a refusal of that counts as any other. threats.md 241
func TestAnOperatorAsksAnew_threats_241(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	r := tokencache.New[string](4, 4, func() time.Time { return now }).Refusals
	key := [32]byte{1}
	q, _, _ := r.Ask("crm", key, false)
	q.Refuse(view.TokenError{Status: 401, Code: "invalid_client"}, time.Minute, 0)
	q.End()
	now = now.Add(time.Second - 1)
	if _, before, may := r.Ask("crm", key, true); may || before.Age != time.Second-1 {
		t.Errorf("within a second, the operator may ask: %t, after %v", may, before.Age)
	}
	now = now.Add(1)
	if _, before, may := r.Ask("crm", key, false); may || before.RetryAfter != 59*time.Second || before.Age != time.Second || before.Code != "invalid_client" {
		t.Errorf("a caller may ask: %t, with %+v", may, before)
	}
	q, _, may := r.Ask("crm", key, true)
	if !may {
		t.Fatal("the operator may not ask")
	}
	if _, _, others := r.Ask("crm", key, true); others {
		t.Error("two operators ask at the same time")
	}
	if refusal, first := q.Refuse(view.TokenError{Status: 401}, 0, 0); !first || refusal.RetryAfter != 2*time.Second {
		t.Errorf("the next refusal waits for %v", refusal.RetryAfter)
	}
	q.End()
	now = now.Add(time.Second)
	q, _, may = r.Ask("crm", key, true)
	if !may {
		t.Fatal("the operator may not ask again")
	}
	q.Accept()
	if _, _, may := r.Ask("crm", key, false); !may {
		t.Error("after the repair, callers have to wait")
	}
}
