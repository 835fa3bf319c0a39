package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/httpapi"
)

func TestPaths(t *testing.T) {
	root := handler(t, httpapi.Config{Store: community()})
	below := handler(t, httpapi.Config{Store: community(), Base: "/community/v1"})
	tests := []struct {
		path   string
		status int
		part   string // of the response's body
	}{
		{"/productUpdates/u1", 200, `"title":"shown"`},
		{"/articles", 200, `"id":"a2"`},
		{"/articles/a1/replies/r1", 200, `{"id":"r1"`},
		{"/openapi.json", 200, `"openapi": "3.1.0"`},
		{"/productUpdates/a%2Fb", 200, `"title":"slash"`},
		{"/productUpdates/a%2fb", 200, `"title":"slash"`},
		{"/productUpdates/%2e%2E", 200, `"title":"dots"`},
		{"/productUpdates/..", 200, `"title":"dots"`},
		{"/productUpdates/%252F", 200, `"title":"percent"`},
		{"/productUpdates/%C3%BC", 200, `"title":"umlaut"`},
		{"/%61rticles", 200, `"id":"a2"`},
		{"/productUpdates/a/b", 404, ""},
		{"/productUpdates/%2F", 404, ""},
		{"/productUpdates/u1/", 404, ""},
		{"/productUpdates//u1", 404, ""},
		{"//productUpdates/u1", 404, ""},
		{"/productUpdates/", 404, ""},
		{"/productUpdates", 404, ""},
		{"/productupdates/u1", 404, ""},
		{"/productUpdates%2Fu1", 404, ""},
		{"/articles/", 404, ""},
		{"/articles/a1", 404, ""},
		{"/articles/a1/replies", 404, ""},
		{"/articles/a1/replies/", 404, ""},
		{"/articles//replies/r1", 404, ""},
		{"/articles/a1/replies/r1/x", 404, ""},
		{"/articles/a2/replies/r1", 404, ""},
		{"/articles/a1%2Freplies%2Fr1", 404, ""},
		{"/x/../articles", 404, ""},
		{"/", 404, ""},
	}
	for _, test := range tests {
		if got := ask(t, root, "GET", test.path); got.status != test.status || !strings.Contains(got.body, test.part) {
			t.Errorf("%s: got = %+v", test.path, got)
		}
		if got := ask(t, below, "GET", "/community/v1"+test.path); got.status != test.status || !strings.Contains(got.body, test.part) {
			t.Errorf("/community/v1%s: %+v", test.path, got)
		}
		if got := ask(t, below, "GET", test.path); got.status != 404 {
			t.Errorf("%s, outside of the base: %+v", test.path, got)
		}
	}
}

// specification.md 6.1: GET, HEAD and OPTIONS are allowed, other methods get 405.
func TestMethods(t *testing.T) {
	h := handler(t, httpapi.Config{Store: community()})
	for _, path := range []string{"/productUpdates/u1", "/productUpdates/none", "/productUpdates/gone", "/articles", "/articles/a1/replies/none", "/openapi.json"} {
		get, head := ask(t, h, "GET", path), ask(t, h, "HEAD", path)
		if head.status != get.status || head.body != "" || !reflect.DeepEqual(head.header, get.header) || get.header.Get("Content-Length") == "" {
			t.Errorf("%s: HEAD is %+v, GET %+v", path, head, get)
		}
		if got := ask(t, h, "OPTIONS", path); got.status != 204 || got.header.Get("Allow") != "GET, HEAD, OPTIONS" || got.body != "" {
			t.Errorf("OPTIONS %s: %+v", path, got)
		}
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "TRACE", "get", "BREW"} {
			got := ask(t, h, method, path)
			if got.status != 405 || got.header.Get("Allow") != "GET, HEAD, OPTIONS" || !strings.Contains(got.body, "urn:keywright:problem:method-not-allowed") {
				t.Errorf("%s %s: got = %+v", method, path, got)
			}
		}
	}
	for _, method := range []string{"POST", "OPTIONS"} {
		if got := ask(t, h, method, "/nowhere"); got.status != 404 || got.header.Get("Allow") != "" {
			t.Errorf("%s /nowhere: %+v", method, got)
		}
	}
}

// specification.md 6.8 and 6.10: requests that do not authenticate get 401 with challenges and do not reach the store.
func TestCallersProveThemselves(t *testing.T) {
	var log bytes.Buffer
	store := community()
	store.asked = []string{}
	h := handler(t, httpapi.Config{Store: store, Callers: keys{}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, path := range []string{"/productUpdates/u1", "/productUpdates/gone", "/articles?page=0", "/articles/a1/replies/r1"} {
		got := ask(t, h, "GET", path)
		if got.status != 401 || !reflect.DeepEqual(got.header["Www-Authenticate"], []string{`Bearer realm="content"`, "ApiKey"}) || got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: got = %+v", path, got)
		}
		if got := ask(t, h, "GET", path, "X-API-Key", "later"); got.status != 503 || got.header.Get("Retry-After") == "" {
			t.Errorf("%s: got = %+v", path, got)
		}
	}
	if len(store.asked) > 0 {
		t.Error("the store was asked for somebody who proved nothing:", store.asked)
	}
	if !strings.Contains(log.String(), httpapi.ErrUnavailable.Error()) {
		t.Errorf("the log has %q", &log)
	}
	got := ask(t, h, "GET", "/productUpdates/u1", "X-API-Key", "reader")
	if got.status != 200 || got.header.Get("Cache-Control") != "private, no-cache" || got.header.Get("Vary") != "Accept-Encoding, Authorization, X-API-Key" {
		t.Errorf("a reader gets %+v", got)
	}
	if got := ask(t, h, "GET", "/openapi.json"); got.status != 200 {
		t.Errorf("the description is not for everybody: %+v", got)
	}
}

type shout struct{}

func (shout) Resolve(_ context.Context, html string) string { return strings.ToUpper(html) }

// specification.md 6.6: embeds are resolved only for resolveEmbeds=true.
func TestResolvedEmbeds(t *testing.T) {
	with, without := handler(t, httpapi.Config{Store: community(), Embeds: shout{}}), handler(t, httpapi.Config{Store: community()})
	// encoding/json escapes < and >.
	const resolved, plain = "\\u003cP\\u003eONE\\u003c/P\\u003e", "\\u003cp\\u003eone\\u003c/p\\u003e"
	for query, want := range map[string]string{"": plain, "?resolveEmbeds=false": plain, "?resolveEmbeds=true": resolved} {
		if got := ask(t, with, "GET", "/productUpdates/u1"+query); !strings.Contains(got.body, want) {
			t.Errorf("%q: got = %+v", query, got)
		}
		if got := ask(t, without, "GET", "/productUpdates/u1"+query); !strings.Contains(got.body, plain) {
			t.Errorf("%q: got = %+v", query, got)
		}
	}
	if got := ask(t, with, "GET", "/articles/a1/replies/r1?resolveEmbeds=true"); !strings.Contains(got.body, `"content":"shown"`) {
		t.Errorf("the reply's text was resolved: %+v", got)
	}
}

// keeper is a store that always returns a pointer to the same record.
type keeper struct {
	*memory
	own content.ProductUpdate
}

func (k *keeper) ProductUpdate(context.Context, string, content.Audience) (*content.ProductUpdate, error) {
	return &k.own, nil
}

func TestUnchangedRecords(t *testing.T) {
	store := &keeper{community(), content.ProductUpdate{ID: "u1", Body: "text"}}
	h := handler(t, httpapi.Config{Store: store, Embeds: shout{}})
	if got := ask(t, h, "GET", "/productUpdates/u1?resolveEmbeds=true"); !strings.Contains(got.body, "TEXT") || store.own.Body != "text" {
		t.Errorf("%+v, and the store has %q", got, store.own.Body)
	}
}

func TestFailuresOfTheStoreTellNothing(t *testing.T) {
	for _, test := range []struct {
		err    error
		status int
		kind   string
	}{
		{errors.New("dial 10.0.0.7: refused"), 500, "store-failed"},
		{context.DeadlineExceeded, 503, "timeout"},
		{fmt.Errorf("%w: dial 10.0.0.7: refused", content.ErrUnavailable), 503, "store-unavailable"},
	} {
		var log bytes.Buffer
		var told []httpapi.Event
		store := community()
		store.err = test.err
		h := handler(t, httpapi.Config{
			Store: store, Logger: slog.New(slog.NewTextHandler(&log, nil)), Observe: func(e httpapi.Event) { told = append(told, e) },
		})
		for _, path := range []string{"/productUpdates/u1", "/productUpdates/u1?moderatorId=m1", "/articles", "/articles/a1/replies/r1"} {
			log.Reset()
			got := ask(t, h, "GET", path)
			if got.status != test.status || !strings.Contains(got.body, test.kind) || strings.Contains(got.body, test.err.Error()) || got.header.Get("Cache-Control") != "no-store" || got.header.Get("ETag") != "" {
				t.Errorf("%s: got = %+v", path, got)
			}
			if (test.status == 503) != (got.header.Get("Retry-After") == "5") {
				t.Errorf("%s: Retry-After is %q", path, got.header.Get("Retry-After"))
			}
			if !strings.Contains(log.String(), test.err.Error()) {
				t.Errorf("%s: the log has %q", path, &log)
			}
			if last := told[len(told)-1]; last.Status != test.status || last.Problem != test.kind {
				t.Errorf("%s: last = %+v", path, last)
			}
		}
	}
}

// hanging is a store whose Articles blocks until its context ends.
type hanging struct{ *memory }

func (hanging) Articles(ctx context.Context, _ int64, _ int) ([]content.Article, error) {
	<-ctx.Done()
	return nil, errors.New("interrupted")
}

func TestHangingStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		got := ask(t, handler(t, httpapi.Config{Store: hanging{community()}}), "GET", "/articles")
		if got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "timeout") || got.header.Get("Retry-After") == "" || time.Since(began) != 15*time.Second {
			t.Errorf("after %v: %+v", time.Since(began), got)
		}
	})
}

func TestDisconnectedCallerLog(t *testing.T) {
	var log bytes.Buffer
	var told httpapi.Event
	h := handler(t, httpapi.Config{Store: community(), Logger: slog.New(slog.NewTextHandler(&log, nil)), Observe: func(e httpapi.Event) { told = e }})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/articles", nil))
	if log.Len() > 0 || told.Status != 499 || told.Problem != "" {
		t.Errorf("%+v, and the log has %q", told, &log)
	}
}

func TestObservedRequests(t *testing.T) {
	var told httpapi.Event
	now := time.Date(2026, 3, 1, 9, 30, 0, 0, time.UTC)
	clock := func() time.Time { now = now.Add(time.Second); return now }
	h := handler(t, httpapi.Config{Store: community(), Callers: keys{}, Clock: clock, Observe: func(e httpapi.Event) { told = e }})
	for _, test := range []struct {
		method, path string
		want         httpapi.Event
	}{
		{"GET", "/productUpdates/u1", httpapi.Event{Operation: "productUpdate", Caller: "reader", Status: 200}},
		{"HEAD", "/articles", httpapi.Event{Operation: "articles", Caller: "reader", Status: 200}},
		{"GET", "/articles?page=x", httpapi.Event{Operation: "articles", Caller: "reader", Status: 422, Problem: "invalid-parameters"}},
		{"GET", "/articles/a1/replies/spam", httpapi.Event{Operation: "reply", Caller: "reader", Status: 404, Problem: "not-found"}},
		{"OPTIONS", "/openapi.json", httpapi.Event{Operation: "openapi", Status: 204}},
		{"POST", "/articles", httpapi.Event{Operation: "articles", Status: 405, Problem: "method-not-allowed"}},
		{"GET", "/nowhere", httpapi.Event{Status: 404, Problem: "not-found"}},
	} {
		got := ask(t, h, test.method, test.path, "X-API-Key", "reader")
		if id := got.header.Get("X-Request-Id"); len(id) != 32 || id != told.ID {
			t.Errorf("%s %s: X-Request-Id is %q, and the event has %q", test.method, test.path, id, told.ID)
		}
		test.want.ID = told.ID
		if test.want.Total = time.Second; told != test.want {
			t.Errorf("%s %s: %+v, want %+v", test.method, test.path, told, test.want)
		}
	}
}

func TestNewErrors(t *testing.T) {
	for _, base := range []string{"/", "v1", "/v1/", "/a//b", "/a/../b", "/ü", "/a%2Fb", "/a?b", "http://x/y", "/."} {
		if _, err := httpapi.New(httpapi.Config{Store: community(), Base: base}); err == nil {
			t.Errorf("%q is taken as base", base)
		}
	}
	testworld.Fails(httpapi.New(httpapi.Config{}))(t, "there is no Store")
	testworld.Fails(httpapi.New(httpapi.Config{Store: community(), Requests: -1}))(t, "Requests is -1")
}

func TestConditionalRequests(t *testing.T) {
	h := handler(t, httpapi.Config{Store: community()})
	get := ask(t, h, "GET", "/articles")
	tag := get.header.Get("ETag")
	strong := strings.TrimPrefix(tag, "W/")
	for header, status := range map[string]int{
		tag: 304, strong: 304, "*": 304, ` "a,b" , W/"c",` + tag: 304, `"x",,` + strong + ` , "y"`: 304, "x, " + tag: 304,
		"": 200, `"x"`: 200, strings.Trim(strong, `"`): 200, `"` + tag + `"`: 200, `"`: 200, `W/`: 200, strings.ToUpper(tag): 200,
	} {
		for _, method := range []string{"GET", "HEAD"} {
			got := ask(t, h, method, "/articles", "If-None-Match", header)
			if got.status != status {
				t.Errorf("%s with %s: %d", method, header, got.status)
			}
			if status != 304 {
				continue
			}
			for _, name := range []string{"ETag", "Cache-Control", "Vary"} {
				if got.header.Get(name) != get.header.Get(name) {
					t.Errorf("%s with %s: %s is %q", method, header, name, got.header.Get(name))
				}
			}
			if got.body != "" || got.header.Get("Content-Type") != "" || got.header.Get("Content-Length") != "" {
				t.Errorf("%s with %s: %+v", method, header, got)
			}
		}
	}
	if got := ask(t, h, "GET", "/articles", "If-None-Match", `"x"`, "If-None-Match", tag); got.status != 304 {
		t.Errorf("in the second header: %+v", got)
	}
	if other := ask(t, h, "GET", "/articles?pageSize=1").header.Get("ETag"); other == tag {
		t.Error("another body has the same tag")
	}
}

func TestCompression(t *testing.T) {
	store := community()
	store.updates["large"] = content.ProductUpdate{ID: "large", Body: strings.Repeat("<p>much text</p>", 10_000)}
	h := handler(t, httpapi.Config{Store: store})
	plain := ask(t, h, "GET", "/productUpdates/large")
	for accept, want := range map[string]string{
		"gzip": "gzip", "deflate, GZIP;q=0.5": "gzip", "x-gzip": "gzip", "*": "gzip", "br, *;q=0.1": "gzip", "gzip;q=1.0, *;q=0": "gzip", "gzip ; q=0.001": "gzip",
		"": "", "identity": "", "br": "", "gzip;q=0": "", "gzip; q=0.000, *": "", "*;q=0": "", "gzipped": "",
	} {
		got, head := ask(t, h, "GET", "/productUpdates/large", "Accept-Encoding", accept), ask(t, h, "HEAD", "/productUpdates/large", "Accept-Encoding", accept)
		if got.header.Get("Content-Encoding") != want || got.header.Get("ETag") != plain.header.Get("ETag") || got.header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%q: got.header = %v", accept, got.header)
		}
		if !reflect.DeepEqual(head.header, got.header) || head.body != "" {
			t.Errorf("%q: HEAD has %v, GET %v", accept, head.header, got.header)
		}
		if want == "" {
			if got.body != plain.body {
				t.Errorf("%q: the body is another", accept)
			}
			continue
		}
		unzipped := testworld.Must(gzip.NewReader(strings.NewReader(got.body)))(t)
		if body, err := io.ReadAll(unzipped); err != nil || string(body) != plain.body || len(got.body)*5 > len(body) {
			t.Errorf("%q: %d bytes became %d, %v", accept, len(plain.body), len(got.body), err)
		}
		if again := ask(t, h, "GET", "/productUpdates/large", "Accept-Encoding", accept, "If-None-Match", got.header.Get("ETag")); again.status != http.StatusNotModified || again.header.Get("Content-Encoding") != "" {
			t.Errorf("%q: again = %+v", accept, again)
		}
	}
	if got := ask(t, h, "GET", "/articles/a1/replies/r1", "Accept-Encoding", "gzip"); got.header.Get("Content-Encoding") != "" || !strings.HasPrefix(got.body, "{") {
		t.Errorf("a small body: %+v", got)
	}
}

// All responses have the headers of threats.md 50, and a Cache-Control that fits them.
func TestAllAnswersHaveTheirHeaders(t *testing.T) {
	h := handler(t, httpapi.Config{Store: community()})
	for target, cache := range map[string]string{
		"/productUpdates/u1": "public, no-cache", "/articles": "public, no-cache", "/articles/a1/replies/r1": "public, no-cache", "/openapi.json": "public, no-cache",
		"/articles?moderatorId": "private, no-store", "/productUpdates/u1?resolveEmbeds=false&m%6FderatorId=x": "private, no-store",
		"/articles?page=0": "no-store", "/nowhere": "no-store", "/productUpdates/gone": "no-store",
	} {
		got := ask(t, h, "GET", target)
		want := map[string]string{
			"Cache-Control": cache, "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'",
			"Referrer-Policy": "no-referrer", "Vary": "Accept-Encoding", "Content-Type": "application/json",
		}
		if got.status != 200 {
			want["Content-Type"] = "application/problem+json"
		}
		for name, value := range want {
			if got.header.Get(name) != value {
				t.Errorf("%s: %s is %q, want %q", target, name, got.header.Get(name), value)
			}
		}
	}
}

// ids returns the ids of a list of articles.
func ids(t testing.TB, body string) []string {
	t.Helper()
	var list struct{ Result []struct{ ID string } }
	if err := json.Unmarshal([]byte(body), &list); err != nil || list.Result == nil {
		t.Fatalf("%v in %q", err, body)
	}
	all := []string{}
	for _, article := range list.Result {
		all = append(all, article.ID)
	}
	return all
}

// Pages are as in specification.md 6.3 and 6.5 and specification.md "a page past the end".
func TestPages(t *testing.T) {
	store := community()
	h := handler(t, httpapi.Config{Store: store})
	for query, want := range map[string][]string{
		"":                                         {"a2", "a3", "a1"},
		"page=1":                                   {"a2", "a3", "a1"},
		"page=1&pageSize=2":                        {"a2", "a3"},
		"pageSize=2&page=2":                        {"a1"},
		"page=0002&pageSize=002":                   {"a1"},
		"page=%32&pageSize=2":                      {"a1"},
		"page=2":                                   {},
		"page=4&pageSize=1":                        {},
		"pageSize=100":                             {"a2", "a3", "a1"},
		"pageSize=1":                               {"a2"},
		"page=9223372036854775807":                 {},
		"page=9223372036854775808":                 {},
		"page=92233720368547760&pageSize=100":      {}, // the number of articles to skip would overflow to a negative number
		"page=288230376151711745&pageSize=64":      {}, // or to zero
		"page=" + strings.Repeat("9", 400):         {},
		"page=" + strings.Repeat("0", 400) + "1":   {"a2", "a3", "a1"},
		"page=9223372036854775807&pageSize=1":      {},
		"sort=asc&Page=0&pagesize=0&a=%zz&%zz=1":   {"a2", "a3", "a1"},
		"resolveEmbeds=perhaps&page=1&moderatorId": {"a2", "a3", "a1"},
		"&&=&page=2&pageSize=2&":                   {"a1"},
	} {
		store.skip = 0
		got := ask(t, h, "GET", "/articles?"+query)
		if got.status != 200 || !slices.Equal(ids(t, got.body), want) {
			t.Errorf("%.60s: got = %+v", query, got)
		}
		if store.skip < 0 {
			t.Errorf("%.60s: the store was to skip %d", query, store.skip)
		}
	}
	ask(t, h, "GET", "/articles?page=9223372036854775807&pageSize=1")
	if store.skip != math.MaxInt64-1 {
		t.Error("the store was to skip", store.skip)
	}
}

// specification.md 6.5, specification.md "invalid parameters": the response is 422 and lists all invalid parameters.
func TestInvalidParameters(t *testing.T) {
	h := handler(t, httpapi.Config{Store: community()})
	for target, want := range map[string]string{
		"/articles?page=0":                                              "page",
		"/articles?page=00":                                             "page",
		"/articles?page=-1":                                             "page",
		"/articles?page=%2B1":                                           "page",
		"/articles?page=+1":                                             "page",
		"/articles?page=1.0":                                            "page",
		"/articles?page=1e3":                                            "page",
		"/articles?page=0x1":                                            "page",
		"/articles?page=1_000":                                          "page",
		"/articles?page=%D9%A1":                                         "page", // an Arabic digit one
		"/articles?page=":                                               "page",
		"/articles?page":                                                "page",
		"/articles?page=1&page=1":                                       "page",
		"/articles?page=1&p%61ge=2":                                     "page",
		"/articles?page=1;pageSize=2":                                   "page",
		"/articles?page=%00":                                            "page",
		"/articles?page=%zz":                                            "page",
		"/articles?page=null":                                           "page",
		"/articles?pageSize=0":                                          "pageSize",
		"/articles?pageSize=101":                                        "pageSize",
		"/articles?pageSize=9223372036854775808":                        "pageSize",
		"/articles?pageSize=18446744073709551617":                       "pageSize",
		"/articles?pageSize=x&page=0":                                   "page pageSize",
		"/articles?pageSize=&page=&page=1":                              "page pageSize",
		"/productUpdates/u1?resolveEmbeds=":                             "resolveEmbeds",
		"/productUpdates/u1?resolveEmbeds":                              "resolveEmbeds",
		"/productUpdates/u1?resolveEmbeds=TRUE":                         "resolveEmbeds",
		"/productUpdates/u1?resolveEmbeds=1":                            "resolveEmbeds",
		"/productUpdates/u1?resolveEmbeds=true%20":                      "resolveEmbeds",
		"/productUpdates/u1?resolveEmbeds=true&resolveEmbeds=true":      "resolveEmbeds",
		"/productUpdates/u1?moderatorId=m1&moderatorId=m1":              "moderatorId",
		"/productUpdates/gone?moderatorId=%zz&resolveEmbeds=":           "moderatorId resolveEmbeds",
		"/articles/a1/replies/r1?moderatorId=m1&moderatorId=":           "moderatorId",
		"/articles/none/replies/trashed?moderatorId=m1&moderatorId=&x=": "moderatorId",
	} {
		got := ask(t, h, "GET", target)
		var problem struct {
			Type   string
			Status int
			Errors []struct{ Parameter, Detail string }
		}
		if err := json.Unmarshal([]byte(got.body), &problem); err != nil {
			t.Errorf("%s: err = %v", target, err)
		}
		var names []string
		for _, e := range problem.Errors {
			names = append(names, e.Parameter)
			if e.Detail == "" {
				t.Errorf("%s: got.body = %s", target, got.body)
			}
		}
		if got.status != 422 || problem.Status != 422 || problem.Type != "urn:keywright:problem:invalid-parameters" || strings.Join(names, " ") != want {
			t.Errorf("%s: got = %+v", target, got)
		}
	}
}
