package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/server/gateway/internal/connectpage"
	"github.com/keywright/keywright/server/internal/trial"
)

// A page of another origin may open the list of connections in a tab, but not read it.
func TestNavigation(t *testing.T) {
	for name, c := range map[string]struct {
		method, origin, mode, dest string
		want                       bool
	}{
		"a link":         {"GET", "", "navigate", "document", true},
		"a form":         {"POST", "", "navigate", "document", false},
		"with an origin": {"GET", "https://evil.test", "navigate", "document", false},
		"fetch":          {"GET", "", "cors", "document", false},
		"an iframe":      {"GET", "", "navigate", "iframe", false},
		"no browser":     {"GET", "", "", "", false},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, "/connect", nil)
		for name, value := range map[string]string{"Origin": c.origin, "Sec-Fetch-Mode": c.mode, "Sec-Fetch-Dest": c.dest} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		if got := (&visit{r: r}).navigates(); got != c.want {
			t.Errorf("%s: it navigates: %t", name, got)
		}
	}
}

// The query of a callback may have 16 KiB.
func TestLongestCallback(t *testing.T) {
	longest := "code=" + strings.Repeat("c", 16<<10-len("code="))
	if values, err := callbackValues(longest); err != nil || len(values.Get("code")) != len(longest)-len("code=") {
		t.Errorf("16 KiB are refused: %v", err)
	}
	if _, err := callbackValues(longest + "c"); err == nil {
		t.Error("one byte more is taken")
	}
}

// The list of connections says how each is, and lets the user end all but those that were not connected.
func TestConditionsOfConnections(t *testing.T) {
	look, _ := connectpage.NewLook("", "", "")
	for condition, want := range map[host.Condition]string{
		host.ConditionConnected: "</span> Connected</span>", host.ConditionNotConnected: "Not connected", host.ConditionUncertain: "Being checked", host.ConditionLost: "</span> No longer connected</span>", host.ConditionRefused: "</span> No longer connected</span>",
	} {
		v := &visit{call: &call{gateway: New(Config{})}, words: look.For("")}
		list := []connection{{Name: "CRM", Condition: condition, State: v.words.Say("state." + string(condition))}}
		page := string(v.words.Render(http.Header{}, &connectpage.Page{Kind: "list", List: list}, time.Now()))
		connected := condition != host.ConditionNotConnected
		if !strings.Contains(page, want) || strings.Contains(page, ">Disconnect<span") != connected || strings.Contains(page, ">Connect<span") == connected {
			t.Errorf("%s: the page is %s", condition, page)
		}
	}
}

// A stream of events is recognised with and without parameters.
func TestEventStream(t *testing.T) {
	for kind, want := range map[string]bool{
		"text/event-stream": true, "Text/Event-Stream; charset=utf-8": true, "text/event-strea": false, "text/plain": false, "": false,
	} {
		if got := isEventStream(http.Header{"Content-Type": {kind}}); got != want {
			t.Errorf("%q is a stream of events: %t", kind, got)
		}
	}
}

// The test of a connector shows an answer of 1 MiB as a whole, and says that a longer one is cut.
func TestLongestTestedAnswer(t *testing.T) {
	w := &testedAnswer{header: http.Header{}, method: http.MethodGet, cancel: func() {}}
	if n, err := w.Write(make([]byte, maxTestBody)); n != maxTestBody || err != nil || w.cut != "" {
		t.Errorf("%d bytes are written: %v %s", n, err, w.cut)
	}
	if n, err := w.Write(make([]byte, 1)); n != 0 || err == nil || !strings.Contains(w.cut, "more than 1048576 bytes") {
		t.Errorf("%d bytes more are written: %v %s", n, err, w.cut)
	}
}

// The test of a connector shows the length of an empty answer only if the caller would get one.
func TestLengthOfAnEmptyTestedAnswer(t *testing.T) {
	for status, want := range map[int]string{200: "0", 204: "", 304: ""} {
		w := &testedAnswer{header: http.Header{}, method: http.MethodGet, cancel: func() {}}
		w.serve(func() { w.WriteHeader(status) })
		if got := w.sentHeader.Get("Content-Length"); got != want {
			t.Errorf("the length of %d is %q, not %q", status, got, want)
		}
	}
}

// Each step of a request has the time that the others do not have.
func TestTimesOfSteps(t *testing.T) {
	began := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	var result trial.Result
	event := Event{
		Began: began, Ready: at(5), Sent: at(50), Upstream: 50 * time.Millisecond, API: 40 * time.Millisecond, UpstreamStatus: 200,
		Total: 107500 * time.Microsecond, Attempt: host.Attempt{KeyRequests: 1, KeyTime: 20 * time.Millisecond},
	}
	result.Exchanges = []view.Exchange{{Answer: &view.Answer{Milliseconds: 11}}, {Answer: &view.Answer{Milliseconds: 3}}}
	want := map[string]float64{trial.StepRequest: 5, trial.StepAuthentication: 95 - 40 - 20 - 14, trial.StepKey: 20, trial.StepToken: 14, trial.StepAPI: 40, trial.StepAnswer: 7.5}
	setStages(&result, event)
	for _, step := range result.Stages {
		if step.Milliseconds != want[step.Name] {
			t.Errorf("%s took %v ms, want %v", step.Name, step.Milliseconds, want[step.Name])
		}
		delete(want, step.Name)
	}
	if len(want) > 0 {
		t.Errorf("there is no %v", want)
	}
}

// An answer reads as in a trace of the host: with the milliseconds, and the error if there is one.
func TestTextOfATestedAnswer(t *testing.T) {
	for want, a := range map[string]view.Answer{
		"the answer 401 Unauthorized, after 12 ms\n":                 {Status: 401, Milliseconds: 12},
		"no answer, after 1500 ms\n  the server closes the stream\n": {Milliseconds: 1500, Error: "the server closes the stream"},
	} {
		if got := a.String(); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
