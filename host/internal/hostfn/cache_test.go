package hostfn

import (
	"context"
	"crypto/rand"
	"net/http"
	"testing"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/host/internal/tokens"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// planWithCache returns a plan with a cache, whose calls have one partition.
func planWithCache(now *time.Time) *Plan {
	clock := func() time.Time { return *now }
	return &Plan{
		Random: rand.Reader, Clock: clock, Tokens: tokens.New(1<<20, 10, clock, nil), Partition: func(*Inputs) [32]byte { return [32]byte{1} },
		Uses: map[string]bool{contract.GroupOf(contract.UserCacheGet): true, contract.GroupOf(contract.UserCacheSet): true, contract.GroupOf(contract.UserChallenge): true},
	}
}

func keyOf(name string) tokencache.Key { return tokencache.Key{Partition: [32]byte{1}, Name: name} }

// A call that replaces an entry ahead of its end reads other entries as usual, and not that one.
func TestARefreshAheadReadsOtherEntries(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	plan := planWithCache(&now)
	old := plan.Tokens.Put(t.Context(), nil, keyOf("old"), []seal.Piece{{Text: "1"}}, time.Hour, false)
	plan.Tokens.Put(t.Context(), nil, keyOf("other"), []seal.Piece{{Text: "2"}}, time.Hour, false)
	right, err := plan.Tokens.Ahead(t.Context(), old, time.Hour)
	if right == nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"old": "", "other": "2", "missing": ""} {
		c := New(context.Background(), plan, &Inputs{}, Detached)
		c.Right = right
		if got, ok := c.CacheGet(name); got != want || ok != (want != "") {
			t.Errorf("%s: got = %q, ok = %t", name, got, ok)
		}
	}
}

// A call does not get an entry back that it has dropped, although its caller has acquired that for it.
func TestDroppedEntry(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	c := New(context.Background(), planWithCache(&now), &Inputs{}, Detached)
	token := c.plan.Tokens.Put(t.Context(), nil, keyOf("token"), nil, time.Hour, false)
	c.Found = map[tokencache.Key]tokens.Entry{keyOf("token"): {Handle: token}}
	_, first := c.CacheGet("token")
	c.CacheDrop("token")
	if _, second := c.CacheGet("token"); !first || second {
		t.Errorf("the entry is there before it is dropped: %t, and afterwards: %t", first, second)
	}
}

// A call that knows the API's answer to an attempt that read its request reads no other entries than that attempt, and drops all of
// these or none. Otherwise what it reads or drops could depend on the request (threats.md 15c).
func TestEntriesAfterTheRequestWasRead_threats_15c(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	plan := planWithCache(&now)
	read := plan.Tokens.Put(t.Context(), nil, keyOf("read"), []seal.Piece{{Text: "1"}}, time.Hour, false)
	gone := plan.Tokens.Put(t.Context(), nil, keyOf("gone"), []seal.Piece{{Text: "2"}}, time.Second, false)
	unread := plan.Tokens.Put(t.Context(), nil, keyOf("unread"), []seal.Piece{{Text: "3"}}, time.Hour, false)
	now = now.Add(time.Minute)
	for name, want := range map[string]string{"read": "1", "gone": "", "unread": "", "missing": ""} {
		c := New(context.Background(), plan, &Inputs{Answer: &APIAnswer{RequestRead: true, used: []*tokencache.Handle{read, gone}}}, Detached)
		var got string
		_ = c.try(func() { got, _ = c.CacheGet(name) })
		if restarts := c.Restart != nil && c.Restart.Afresh; got != want || restarts != (want == "") {
			t.Errorf("%s: %q, runs afresh %t", name, got, restarts)
		}
	}
	c := New(context.Background(), plan, &Inputs{Answer: &APIAnswer{RequestRead: true, used: []*tokencache.Handle{read, unread}}}, Detached)
	_ = c.try(func() { c.CacheDrop("read") })
	if !read.Gone() || !unread.Gone() || c.Restart == nil || !c.Restart.Afresh {
		t.Errorf("the entries are gone: %t, %t, and the call goes on with %v", read.Gone(), unread.Gone(), c.Restart)
	}
}

func challenged(t *testing.T, c *Call) (reply contract.ChallengeReply) {
	t.Helper()
	testworld.Check(t, strictjson.Unmarshal(c.Challenge(), &reply))
	return reply
}

// headerPart returns the part of an answer that is a header.
func headerPart(t *testing.T, kind, name string) answer.Part {
	t.Helper()
	source := testworld.Must(answer.ParseSource(contract.FromHeader + name))(t)
	return answer.Part{Answer: abi.Answer{Name: "a", Kind: kind}, Source: source}
}

// What is kept of the API's answers reaches later calls, which are counted. Explain shows and counts nothing of it. A call of a
// plugin that keeps nothing does not depend on earlier answers, so that its result can be used again.
func TestKeptAnswers(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for _, keep := range []time.Duration{0, time.Minute} {
		plan := planWithCache(&now)
		plan.Challenge.InDescription, plan.Challenge.Statuses, plan.Challenge.Keep = true, []int{401}, keep
		plan.Challenge.Answers = []answer.Part{headerPart(t, contract.AnswerEnum, "X-Mode"), headerPart(t, contract.AnswerSealed, "X-Text")}
		plan.Challenge.Answers[1].Name = "text"
		plan.Challenge.Answers[0].Enum, plan.Challenge.Answers[0].Keep = []string{"fast"}, keep > 0
		call := func(mode Mode) *Call { return New(context.Background(), plan, &Inputs{Unanswered: true}, mode) }
		header := http.Header{"X-Mode": {"fast"}, "X-Text": {"a\tb"}}
		api, _ := call(Inline).Learn(&http.Response{StatusCode: http.StatusOK, Header: header}, nil, false, &Mutation{}, nil)
		if api.found["text"] != "a\tb" { // only what is kept must be a header that can be sent
			t.Errorf("kept for %v: of this answer the next call gets %q", keep, api.found)
		}
		if reply := challenged(t, call(Explaining)); reply.Count != 0 || len(reply.Answers) != 0 {
			t.Errorf("kept for %v: explain shows %+v", keep, reply)
		}
		c := call(Inline)
		reply := challenged(t, c)
		if kept := keep > 0; (reply.Count == 1) != kept || (reply.Answers["a"] == "fast") != kept || c.impure != kept {
			t.Errorf("kept for %v: %+v, impure %t", keep, reply, c.impure)
		}
	}
}

// An explained call has made-up answers if the plugin's challenge has statuses and answers, and the call is not that of a first
// attempt.
func TestMadeUpAnswers(t *testing.T) {
	answers := []answer.Part{headerPart(t, contract.AnswerSealed, "X-A")}
	for name, c := range map[string]struct {
		statuses   []int
		answers    []answer.Part
		mode       Mode
		unanswered bool
		want       bool
	}{
		"both":            {[]int{401}, answers, Explaining, false, true},
		"no status":       {nil, answers, Explaining, false, false},
		"no answers":      {[]int{401}, nil, Explaining, false, false},
		"a first attempt": {[]int{401}, answers, Explaining, true, false},
		"a real call":     {[]int{401}, answers, Inline, false, false},
	} {
		plan := &Plan{Challenge: Challenge{Statuses: c.statuses, Answers: c.answers}}
		if got := New(context.Background(), plan, &Inputs{Unanswered: c.unanswered}, c.mode).answerMadeUp(); got != c.want {
			t.Errorf("%s: got = %t", name, got)
		}
	}
}
