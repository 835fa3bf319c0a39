package gateway_test

import (
	"crypto/tls"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
)

// A name in Hosts is valid with any port, unless it has a port itself. Without Hosts, only names of this machine are valid, because a
// page's own name may resolve to any address (specification.md "hosts that are not configured", threats.md 46).
func TestHosts(t *testing.T) {
	for hosts, names := range map[string]map[string]int{
		"gw.example.com Other.example.com:8080 [::1] [::2]:80": {
			"gw.example.com": 200, "GW.example.com": 200, "gw.example.com:9000": 200, "gw.example.com.": 421, "gw.example.com.evil.example": 421,
			"other.example.com:8080": 200, "other.example.com": 421, "other.example.com:80": 421,
			"[::1]": 200, "[::1]:9000": 200, "[::2]:80": 200, "[::2]": 421, "[::2]:90": 421, "127.0.0.1": 421, "localhost": 421,
		},
		"": {
			"localhost": 200, "localhost:8080": 200, "127.0.0.1": 200, "127.9.9.9:80": 200, "[::1]:8080": 200,
			"10.1.2.3": 421, "192.168.0.1:8080": 421, "[2001:db8::1]": 421, "0.0.0.0": 421, "attacker.example": 421,
		},
	} {
		w := newWorld(t, func(o *options, _ *gateway.Definition) { o.Hosts = strings.Fields(hosts) })
		for host, want := range names {
			r := w.request("GET", "/connectors/weather", "")
			if r.Host = host; w.do(r).status != want {
				t.Errorf("with the hosts %q, %s: not %d", hosts, host, want)
			}
		}
	}
}

// specification.md "pages of other origins", threats.md 46: Sec-Fetch-Site decides. Without it, the origin must be the gateway's. A request
// with two origins is refused, and a page that was loaded over http is foreign to a gateway with TLS.
func TestForeignOrigins(t *testing.T) {
	w := newWorld(t, func(c *options, _ *gateway.Definition) {
		c.Hosts, c.Origins = []string{"gw.example.com"}, []string{"https://app.example.com"}
	})
	for name, c := range map[string]struct {
		tls     bool
		headers http.Header
		status  int
	}{
		"its own, with TLS":             {true, http.Header{"Origin": {"https://gw.example.com"}}, 200},
		"its own, with TLS before it":   {false, http.Header{"Origin": {"https://gw.example.com"}}, 200},
		"its own, without TLS":          {false, http.Header{"Origin": {"http://gw.example.com"}}, 200},
		"http, with TLS":                {true, http.Header{"Origin": {"http://gw.example.com"}}, 403},
		"one that is configured, twice": {true, http.Header{"Origin": {"https://app.example.com", "https://app.example.com"}}, 400},
		"one, and another":              {true, http.Header{"Origin": {"https://app.example.com", "https://evil.example"}}, 400},
		"another, and its own":          {true, http.Header{"Origin": {"https://gw.example.com", "https://evil.example"}}, 400},
		"two sites":                     {true, http.Header{"Sec-Fetch-Site": {"same-origin", "cross-site"}}, 400},
		"said to be the same":           {false, http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {"https://gw.example.com"}}, 200},
		"said to be another":            {false, http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"http://gw.example.com"}}, 403},
		"said to be a neighbour":        {false, http.Header{"Sec-Fetch-Site": {"same-site"}}, 403},
		"the same name, another port":   {false, http.Header{"Origin": {"http://gw.example.com:1"}}, 403},
		"the same with more behind it":  {false, http.Header{"Origin": {"http://gw.example.com.evil.example"}}, 403},
	} {
		r := httptest.NewRequest(http.MethodGet, "/connectors/weather", nil)
		if r.Host, r.Header = "gw.example.com", c.headers; c.tls {
			r.TLS = &tls.ConnectionState{}
		}
		if got := w.serve(r); got.Code != c.status || (c.status != 200) != strings.Contains(got.Body.String(), ":cross-origin") {
			t.Errorf("%s: the caller got %d %s", name, got.Code, got.Body)
		}
	}
}

// Limits identify a user by tenant and ID, so that a change of the name does not help. Without an ID, they take the email.
func TestWhoCountsForLimits(t *testing.T) {
	w := newWorld(t, func(o *options, d *gateway.Definition) {
		o.Users = users(func(r *http.Request) (host.User, error) {
			tenant, email, _ := strings.Cut(r.Header.Get("Authorization"), " ")
			if email != "" {
				return host.User{TenantID: tenant, Email: email}, nil
			}
			return host.User{TenantID: tenant, ID: "ann", Username: r.Header.Get("Cookie"), Email: r.Header.Get("Cookie")}, nil
		})
		o.Clock = func() time.Time { return time.Unix(1_800_000_000, 0) }
		d.Limits.PerUser = 1
	})
	for _, user := range []string{"one", "two", "one ann@example.com", "two ann@example.com"} {
		if got := w.get("/connectors/weather", "Authorization", user); got.status != http.StatusOK {
			t.Errorf("%s got %d at first", user, got.status)
		}
		if got := w.get("/connectors/weather", "Authorization", user, "Cookie", "another name"); got.status != http.StatusTooManyRequests {
			t.Errorf("%s got %d then", user, got.status)
		}
	}
}

func TestAllowedPaths(t *testing.T) {
	for path, want := range map[string]string{
		"/users/7":       "/v1/users/7",
		"/users/a%20b":   "/v1/users/a%20b",
		"/open/a/b%2Fc/": "/v1/open/a/b%2Fc/",
		"":               "/v1",
		"/":              "/v1",
	} {
		w := newWorld(t, func(_ *options, d *gateway.Definition) { d.Paths = []string{"/users/*", "/open/**"} })
		if got := w.get("/connectors/weather" + path); got.status != http.StatusOK || w.last().URL.RequestURI() != want {
			t.Errorf("%s: %d, and the API received %s", path, got.status, w.last().URL.RequestURI())
		}
	}
}

func TestPagesOfConfiguredOrigins(t *testing.T) {
	const page = "https://app.example.com"
	w := newWorld(t, func(c *options, d *gateway.Definition) {
		c.Origins = []string{page}
		d.Methods = []string{"POST"}
	})
	pre := w.do(w.request("OPTIONS", "/connectors/weather", "", "Origin", page, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type"))
	if pre.header.Get("Server-Timing") == "" || pre.header.Get("X-Request-Id") == "" {
		t.Errorf("the preflight got %v: every answer has X-Request-Id and Server-Timing", pre.header)
	}
	if pre.status != http.StatusNoContent || pre.header.Get("Access-Control-Allow-Origin") != page || pre.header.Get("Access-Control-Allow-Headers") != "content-type" {
		t.Errorf("the preflight got %+v", pre)
	}
	got := w.do(w.request("POST", "/connectors/weather", "x", "Origin", page))
	if got.status != http.StatusOK || got.header.Get("Access-Control-Allow-Origin") != page || got.header.Get("Access-Control-Allow-Credentials") != "true" {
		t.Errorf("the page got %+v", got)
	}
	if own := w.do(w.request("POST", "/connectors/weather", "x", "Origin", w.server.URL)); own.status != http.StatusOK || own.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a page of the gateway itself got %+v", own)
	}
}

// threats.md 47: shared caches do not store answers.
func TestPrivateAnswers(t *testing.T) {
	w := newWorld(t)
	w.answer = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Cache-Control", "public, max-age=60, s-maxage=600, Stale-While-Revalidate=30")
		rw.Header().Set("Set-Cookie", "session=of-the-api")
	}
	got := w.get("/connectors/weather")
	if cache := got.header.Get("Cache-Control"); cache != "private, max-age=60" {
		t.Errorf("Cache-Control is %q", cache)
	}
	if vary := strings.Join(got.header["Vary"], ", "); !strings.Contains(vary, "Authorization, Cookie") || got.header.Get("Set-Cookie") != "" {
		t.Errorf("Vary is %q, Set-Cookie %q", vary, got.header.Get("Set-Cookie"))
	}
	w.answer = func(http.ResponseWriter, *http.Request) {}
	if cache := w.get("/connectors/weather").header.Get("Cache-Control"); cache != "private" {
		t.Errorf("Cache-Control is %q of an answer that had none", cache)
	}
}

// A preflight is an OPTIONS request with Access-Control-Request-Method. A request that lacks either goes to the API.
func TestPreflight(t *testing.T) {
	const page = "https://app.example.com"
	w := newWorld(t, func(o *options, d *gateway.Definition) {
		o.Origins, d.Methods = []string{page}, []string{"GET", "OPTIONS"}
	})
	for i, c := range []struct {
		method    string
		headers   []string
		preflight bool
	}{
		{"OPTIONS", []string{"Origin", page, "Access-Control-Request-Method", "GET"}, true},
		{"OPTIONS", []string{"Origin", page}, false},
		{"GET", []string{"Origin", page, "Access-Control-Request-Method", "GET"}, false},
	} {
		before := w.received()
		got := w.do(w.request(c.method, "/connectors/weather", "", c.headers...))
		if asked := w.received() > before; asked == c.preflight || (got.status == http.StatusNoContent) != c.preflight || got.header.Get("Access-Control-Allow-Origin") != page {
			t.Errorf("request %d: the page got %+v; the API was asked: %t", i+1, got, asked)
		}
	}
}

// The log has the reason why a host is unknown.
func TestUnknownHostLog(t *testing.T) {
	for want, hosts := range map[string][]string{
		`the Host is \"gw.example.org\", which is none of gateway.hosts`:                                         {"gw.example.com"},
		`the Host is \"gw.example.org\": without gateway.hosts, only localhost and loopback addresses are known`: nil,
	} {
		w := newWorld(t, func(o *options, _ *gateway.Definition) { o.Hosts = hosts })
		r := w.request("GET", "/connectors/weather", "")
		r.Host = "gw.example.org"
		if got := w.do(r); got.kind != "unknown-host" || !strings.Contains(w.log.String(), want) {
			t.Errorf("with the hosts %v: %d, and the log is %s", hosts, got.status, w.log.String())
		}
	}
}

// The id of a request is the trace ID of its traceparent, if that is valid.
func TestRequestIDs(t *testing.T) {
	const trace = "0af7651916cd43dd8448eb211c80319c"
	w := newWorld(t)
	for traceparent, own := range map[string]bool{
		"00-" + trace + "-b7ad6b7169203331-01":                   true,
		"00-" + strings.ToUpper(trace) + "-b7ad6b7169203331-01":  true,
		"00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01": false,
		"00-" + strings.Repeat("x", 32) + "-b7ad6b7169203331-01": false,
		"00-" + trace[1:] + "-b7ad6b7169203331-01":               false,
		"00-" + trace + "-b7ad6b7169203331":                      false,
		"":                                                       false,
	} {
		id := w.get("/connectors/weather", "Traceparent", traceparent).header.Get("X-Request-Id")
		if bytes, err := hex.DecodeString(id); err != nil || len(bytes) != 16 || (id == trace) != own || strings.Trim(id, "0") == "" {
			t.Errorf("%s: the request has the id %s", traceparent, id)
		}
	}
}
