package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

// loopbackConsent is a consent with a state, as a host begins and ends it.
type loopbackConsent struct {
	redirectURI, binding string
	ended                []host.AuthorizationResponse
	err                  error
	during               func()
}

func (c *loopbackConsent) BeginConsent(_ context.Context, r host.ConsentRequest) (string, error) {
	c.redirectURI, c.binding = r.RedirectURI, r.Binding
	return "https://login.example.com/authorize?" + url.Values{"state": {"st4te"}, "redirect_uri": {r.RedirectURI}}.Encode(), nil
}

func (c *loopbackConsent) Callback(ctx context.Context, back host.AuthorizationResponse) error {
	if c.during != nil {
		c.during()
	}
	c.ended = append(c.ended, back)
	return errors.Join(c.err, ctx.Err())
}

func startLoopback(t *testing.T, of *loopbackConsent, localhost bool) *loopback {
	t.Helper()
	l, to, err := beginLoopback(t.Context(), localhost, 0, "Orders", of.BeginConsent, of.Callback)
	testworld.Check(t, err)
	t.Cleanup(l.close)
	if !strings.Contains(to, url.QueryEscape(of.redirectURI)) {
		t.Fatalf("the browser is sent to %s", to)
	}
	return l
}

// browse sends a request as a browser does, and returns the status and the text.
func browse(t *testing.T, method, target, name string) (int, string) {
	t.Helper()
	r := testworld.Must(http.NewRequestWithContext(t.Context(), method, target, nil))(t)
	if name != "" {
		r.Host = name
	}
	response := testworld.Must(http.DefaultClient.Do(r))(t)
	defer response.Body.Close()
	text := testworld.Must(io.ReadAll(response.Body))(t)
	if h := response.Header; h.Get("Cache-Control") != "no-store" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("the headers are %v", h)
	}
	return response.StatusCode, string(text)
}

// A server that takes only the name localhost sends the browser there, and no other name counts.
func TestLoopbackByName(t *testing.T) {
	of := &loopbackConsent{}
	l := startLoopback(t, of, true)
	target := strings.Replace(of.redirectURI, "localhost", "127.0.0.1", 1) + "?code=c0de&state=st4te"
	if status, _ := browse(t, "GET", target, ""); status != 421 || target == of.redirectURI {
		t.Errorf("status = %d for another name than that of %s, want 421", status, of.redirectURI)
	}
	if status, _ := browse(t, "GET", target, l.address); status != 200 || !strings.HasPrefix(of.redirectURI, "http://localhost:") {
		t.Errorf("status = %d for %s, want 200", status, of.redirectURI)
	}
}

// threats.md 136: what other programs and pages send to the port does not count, and shows nothing of the query. The browser that
// comes back from the authorization server counts once.
func TestLoopback(t *testing.T) {
	of := &loopbackConsent{}
	l := startLoopback(t, of, false)
	if u, err := url.Parse(of.redirectURI); err != nil || u.Hostname() != "127.0.0.1" || u.Path != "/callback" || len(of.binding) < 20 {
		t.Errorf("the redirect URI is %s, the binding %s", of.redirectURI, of.binding)
	}
	good := of.redirectURI + "?code=c0de&state=st4te"
	for name, c := range map[string]struct {
		method, url, host string
		status            int
	}{
		"another state":  {"GET", of.redirectURI + "?code=evil&state=other", "", 400},
		"no state":       {"GET", of.redirectURI + "?code=evil", "", 400},
		"an empty state": {"GET", of.redirectURI + "?code=evil&state=", "", 400},
		"two states":     {"GET", good + "&state=evil", "", 400},
		"a bad query":    {"GET", good + "&evil=%zz", "", 400},
		"another name":   {"GET", good, "evil.example", 421},
		"localhost":      {"GET", good, "localhost", 421},
		"another path":   {"GET", strings.Replace(good, "/callback", "/evil", 1), "", 404},
		"HEAD":           {"HEAD", good, "", 404},
		"POST":           {"POST", good, "", 404},
	} {
		if status, text := browse(t, c.method, c.url, c.host); status != c.status || len(of.ended) > 0 || strings.Contains(text, "evil") {
			t.Errorf("%s: status = %d text = %s", name, status, text)
		}
	}
	if status, text := browse(t, "GET", good, ""); status != 200 || text != "Orders is connected. You can close this page.\n" {
		t.Errorf("the browser got %d %s", status, text)
	}
	testworld.Check(t, l.wait(t.Context(), time.Hour))
	if status, _ := browse(t, "GET", good, ""); status != 400 || len(of.ended) != 1 {
		t.Errorf("the same again got %d", status)
	}
	if back := of.ended[0]; back.RedirectURI != of.redirectURI || back.Binding != of.binding || back.Response.Get("code") != "c0de" {
		t.Errorf("back = %+v", back)
	}
}

// The cause of a consent that fails is in the terminal, and not in the browser.
func TestFailedLoopback(t *testing.T) {
	of := &loopbackConsent{err: &host.ConsentError{Reason: host.ConsentDenied, Text: "the consent was refused"}}
	l := startLoopback(t, of, false)
	if status, text := browse(t, "GET", of.redirectURI+"?error=access_denied&state=st4te", ""); status != 502 || strings.Contains(text, "refused") {
		t.Errorf("the browser got %d %s", status, text)
	}
	if err := l.wait(t.Context(), time.Hour); !errors.Is(err, of.err) {
		t.Error(err)
	}
}

// Without a browser, the command ends when the time is over, or with Ctrl-C. A callback that is under way then still counts,
// because the code works once.
func TestLoopbackWaits(t *testing.T) {
	waiting := func() *loopback { return &loopback{result: make(chan error, 1)} }
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := waiting().wait(t.Context(), time.Minute); err == nil || err.Error() != "no browser came back within 1m0s: begin again" || time.Since(began) != time.Minute {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := waiting().wait(ctx, time.Minute); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		l := waiting()
		l.claim.Store(true)
		go func() {
			time.Sleep(2 * time.Minute)
			l.result <- nil
		}()
		testworld.Check(t, l.wait(ctx, time.Minute))
	})
}
