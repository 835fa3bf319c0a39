package bench

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

var (
	manyUsers = flag.Int("users", 0, "users of one connector, beside ten others; 0 is 2,000 with a hundredth of the memory")
	callers   = flag.Int("callers", 0, "callers of slow servers, and new tokens beside them; 0 is 100 callers, whose times are not compared")
)

// drain is the time within which a process ends.
const drain = 30 * time.Second

// neighbours are servers that are slow or wrong, and the connectors that have them. Each connector has some of the callers.
var neighbours = map[string]func(t *testing.T, api string) (connectors []string){
	"servers that are well": func(t *testing.T, api string) []string {
		return []string{connector("slow", api, origin(t, issue(200)), crowded)}
	},
	"a token endpoint that hangs for 15 s": func(t *testing.T, api string) []string {
		return []string{connector("slow", api, origin(t, hang), crowded)}
	},
	"ten connectors at a token endpoint that hangs, and one at another": func(t *testing.T, api string) (all []string) {
		first, second := origin(t, hang), origin(t, hang)
		for i := range 10 {
			all = append(all, connector(fmt.Sprint("slow", i), api, first, crowded))
		}
		return append(all, connector("slow", api, second, crowded))
	},
	"a token endpoint that answers 101": func(t *testing.T, api string) []string {
		return []string{connector("slow", api, origin(t, switchProtocols), crowded)}
	},
	"a token endpoint that drips": func(t *testing.T, api string) []string {
		return []string{connector("slow", api, origin(t, drip), crowded)}
	},
	"an API that answers 101": func(t *testing.T, _ string) []string {
		return []string{connector("slow", origin(t, switchProtocols), origin(t, issue(200)), crowded)}
	},
	"an API that drips a 401": func(t *testing.T, _ string) []string {
		return []string{connector("slow", origin(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			drip(w, r)
		}), origin(t, issue(200)), crowded)}
	},
}

// crowded lets all callers in at once.
const crowded = "    limits: {concurrent: 2000}\n"

func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // so that the context ends with the connection
	select {
	case <-time.After(15 * time.Second):
	case <-r.Context().Done():
	}
}

// drip writes a byte every half second, for longer than a process may take to end if times are compared.
func drip(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	for range 10 + *callers {
		_, _ = w.Write([]byte(" "))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-time.After(500 * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	}
}

// switchProtocols answers 101, and keeps the connection.
func switchProtocols(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", "websocket")
	w.WriteHeader(http.StatusSwitchingProtocols)
	_ = http.NewResponseController(w).Flush()
	_, _, _ = http.NewResponseController(w).Hijack() // the test ends it
}

// A new token of a connector takes as long beside the callers of slow servers as alone, and the process ends in time while they wait.
func TestNewTokensBesideSlowServers(t *testing.T) {
	for name, slow := range neighbours {
		t.Run(name, func(t *testing.T) {
			many, tokens := *callers, *callers
			if many == 0 {
				many, tokens = 100, 100
				t.Parallel()
			}
			api := origin(t, func(http.ResponseWriter, *http.Request) {})
			connectors := slow(t, api)
			text := connector("healthy", api, origin(t, issue(200)), "")
			for _, c := range connectors {
				if text += c; *callers == 0 {
					text += "    timeout: 4s\n"
				}
			}
			s := serve(t, text, "")
			s.tokens("warms up", 50)
			alone := s.tokens("alone", tokens)
			ctx, stop := context.WithCancel(t.Context())
			waiting := s.crowd(ctx, many, len(connectors))
			beside := s.tokens("beside", tokens)
			t.Logf("a new token alone: %s at p50, %s at p99; beside %d callers of %s: %s, %s", nanoseconds.format(alone.p50()),
				nanoseconds.format(alone.p99()), many, name, nanoseconds.format(beside.p50()), nanoseconds.format(beside.p99()))
			if *callers > 0 && beside.p99() > max(1.2*alone.p99(), alone.p99()+float64(5*time.Millisecond)) {
				t.Error("a new token takes longer beside the callers")
			}
			if most := beside.latencies[len(beside.latencies)-1]; *callers > 0 && most > 2*time.Second {
				t.Errorf("a new token has waited for %s", most)
			}
			took := s.end()
			t.Logf("SIGTERM ends the process after %.1f s", took.Seconds())
			if took > drain+time.Second {
				t.Errorf("the process has ended after %s, and is to end after %s", took, drain)
			}
			stop()
			<-waiting
		})
	}
}

// tokens sends requests that need a new token each, one after another.
func (s *serving) tokens(prefix string, n int) (l load) {
	s.t.Helper()
	for i := range n {
		begin := time.Now()
		if status := s.get(s.t.Context(), "healthy", fmt.Sprint(prefix, " ", i)); status != http.StatusOK {
			s.t.Fatalf("new token %d: %d", i, status)
		}
		l.latencies = append(l.latencies, time.Since(begin))
	}
	slices.Sort(l.latencies)
	return l
}

// Ten connectors keep their tokens while many users of another one get theirs, and the memory is as operating.md says.
func TestManyUsersBesideOthers(t *testing.T) {
	many, bound := *manyUsers, 64<<20
	if many == 0 {
		many, bound = 2000, 1<<20
	}
	api := origin(t, func(http.ResponseWriter, *http.Request) {})
	var asked atomic.Int64
	counting := origin(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		issue(200)(w, r)
	})
	text := connector("many", api, origin(t, issue(200)), "")
	for i := range 10 {
		text += connector(fmt.Sprint("other", i), api, counting, "")
	}
	s := serve(t, text, fmt.Sprintf("limits: {tokens_bytes: %d, mutations_bytes: %[1]d, scanners_bytes: %[1]d}\n", bound))
	others, started := 0, s.memory()
	for user := range many {
		for range 2 {
			if status := s.get(t.Context(), "many", fmt.Sprint("user-", user)); status != http.StatusOK {
				t.Fatalf("user %d: %d", user, status)
			}
		}
		if user%20 == 0 {
			s.get(t.Context(), fmt.Sprint("other", others%10), "ann")
			others++
		}
	}
	grown := s.memory() - started
	t.Logf("of %d requests of ten others, %d asked for a token; what users left has %.1f MiB of %d, and %.0f MiB are resident",
		others, asked.Load(), grown/(1<<20), 3*bound>>20, s.metric("process_resident_memory_bytes")/(1<<20))
	if missed := asked.Load() - 10; missed*100 > int64(others) {
		t.Errorf("%d of %d requests of ten other connectors asked for a token again", missed, others)
	}
	if grown > 3*float64(bound)*1.2+1<<20 {
		t.Errorf("what users left has %.0f bytes, and is to have %d", grown, 3*bound)
	}
}
