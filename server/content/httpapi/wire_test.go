package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/httpapi"
)

// wire sends bytes to a server and reads the response.
func wire(t *testing.T, server *httptest.Server, request string) answer {
	t.Helper()
	connection := testworld.Must((&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String()))(t)
	defer connection.Close()
	testworld.Must(io.WriteString(connection, request))(t)
	method, _, _ := strings.Cut(request, " ")
	response, err := http.ReadResponse(bufio.NewReader(connection), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%.80q: err = %v", request, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%.80q: err = %v", request, err)
	}
	response.Header.Del("Date")
	return answer{response.StatusCode, response.Header, string(body)}
}

// threats.md 52: for any bytes in place of an id, the response is 404, or net/http's own 400.
func TestOddBytesInIDs(t *testing.T) {
	store := community()
	quote := "'; DROP TABLE articles; --"
	store.updates[quote] = content.ProductUpdate{ID: quote, Title: "quoted"}
	server := httptest.NewServer(handler(t, httpapi.Config{Store: store}))
	defer server.Close()
	plain := wire(t, server, "GET /productUpdates/none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	tests := []struct {
		id     string
		status int
		part   string
	}{
		{"%00", 404, ""},
		{"u1%00", 404, ""},
		{"%0d%0aX:y", 404, ""},
		{"%7f", 404, ""},
		{"%C2%85", 404, ""}, // U+0085, a control character
		{"%ff", 404, ""},
		{"\xff", 404, ""},
		{"u1\xff", 404, ""},
		{"%ED%A0%80", 404, ""}, // a surrogate in UTF-8
		{"%C0%AE%C0%AE", 404, ""},
		{"%2e%2e%2fu1", 404, ""},
		{"%2e%2e%2f%2e%2e%2fetc%2fpasswd", 404, ""},
		{"../productUpdates/u1", 404, ""},
		{"u1%2f..%2fgone", 404, ""},
		{"..%5cu1", 404, ""},
		{strings.Repeat("a", 10_000), 404, ""},
		{strings.Repeat("%2F", 10_000), 404, ""},
		{"'%20OR%201=1%20--", 404, ""},
		{"%25", 404, ""},
		{"%2525", 404, ""},
		{"u1%20", 404, ""},
		{"u1;a=b", 404, ""},
		{"U1", 404, ""},
		{"%EF%BB%BFu1", 404, ""},
		{"u%CC%88", 404, ""}, // u and a combining diaeresis, which is not ü
		{"*", 404, ""},
		{"%", 400, ""},
		{"%zz", 400, ""},
		{"u1%2", 400, ""},
		{"\x00", 400, ""},
		{"u1\x01", 400, ""},
		{"a b", 400, ""},
		{"%27;%20DROP%20TABLE%20articles;%20--", 200, `"title":"quoted"`},
		{"..", 200, `"title":"dots"`},
		{"%2e%2e", 200, `"title":"dots"`},
		{"a%2Fb", 200, `"title":"slash"`},
		{"%252f", 404, ""},
		{"%252F", 200, `"title":"percent"`},
		{"ü", 200, `"title":"umlaut"`},
		{"%c3%bc", 200, `"title":"umlaut"`},
		{"#", 404, ""},
		{"u1#", 404, ""},
		{"u1?", 200, `"title":"shown"`},
	}
	for _, test := range tests {
		got := wire(t, server, fmt.Sprintf("GET /productUpdates/%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", test.id))
		if got.status != test.status || !strings.Contains(got.body, test.part) {
			t.Errorf("%.40q: got = %+v", test.id, got)
		}
		if test.status == 404 && fmt.Sprint(got) != fmt.Sprint(plain) {
			t.Errorf("%.40q: %+v, but for an id that is not there %+v", test.id, got, plain)
		}
		if test.status == 200 {
			continue
		}
		for _, path := range []string{"/articles/%s/replies/r1", "/articles/a1/replies/%s"} {
			if got := wire(t, server, fmt.Sprintf("GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", test.id)); got.status != test.status {
				t.Errorf(path+": %+v", test.id, got)
			}
		}
	}
}

// An unescaped byte that is invalid in a path does not turn %2F into a slash.
func TestOddBytesDoNotChangeTheRoute(t *testing.T) {
	store := community()
	store.replies[[2]string{"a", `b"`}] = content.Reply{ID: `b"`}
	id := `a/replies/b"`
	store.updates[id] = content.ProductUpdate{ID: id, Title: "whole"}
	server := httptest.NewServer(handler(t, httpapi.Config{Store: store}))
	defer server.Close()
	for target, status := range map[string]int{
		`/articles/a/replies/b"`: 200, `/articles/a%2Freplies%2Fb"`: 404, `/articles/a%2Freplies/b"`: 404, `/productUpdates/a%2Freplies%2Fb"`: 200, `/productUpdates/a/replies/b"`: 404,
	} {
		if got := wire(t, server, "GET "+target+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); got.status != status {
			t.Errorf("%s: got = %+v", target, got)
		}
	}
}

// The response to HEAD is that to GET without the body, compressed or not. 304 and OPTIONS have no body.
func TestAnswersOverTheWire(t *testing.T) {
	store := community()
	store.updates["large"] = content.ProductUpdate{ID: "large", Body: strings.Repeat("<p>text</p>", 100_000)}
	server := httptest.NewServer(handler(t, httpapi.Config{Store: store}))
	defer server.Close()
	for _, path := range []string{"/productUpdates/large", "/productUpdates/u1", "/productUpdates/gone", "/articles?page=0"} {
		for _, encoding := range []string{"gzip", "identity"} {
			rest := path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAccept-Encoding: " + encoding + "\r\n\r\n"
			get, head := wire(t, server, "GET "+rest), wire(t, server, "HEAD "+rest)
			if head.body != "" || head.status != get.status || fmt.Sprint(head.header) != fmt.Sprint(get.header) {
				t.Errorf("%s: HEAD is %d %v, GET %d %v", path, head.status, head.header, get.status, get.header)
			}
			if length := get.header.Get("Content-Length"); length != fmt.Sprint(len(get.body)) {
				t.Errorf("%s: Content-Length is %s of %d bytes", path, length, len(get.body))
			}
		}
	}
	got := wire(t, server, "GET /productUpdates/large HTTP/1.1\r\nHost: x\r\nConnection: close\r\nIf-None-Match: *\r\n\r\n")
	if got.status != 304 || got.body != "" || got.header.Get("ETag") == "" {
		t.Errorf("got = %+v", got)
	}
}

// following returns the path in the Link of an answer, or "" without one.
func following(t *testing.T, a answer) string {
	t.Helper()
	link := a.header.Get("Link")
	if link == "" {
		return ""
	}
	path, ok := strings.CutSuffix(strings.TrimPrefix(link, "<"), `>; rel="next"`)
	if !ok {
		t.Fatalf("Link is %q", link)
	}
	return path
}

// walk follows links from a path, and returns the ids of the articles and the paths.
func walk(t *testing.T, h http.Handler, path string) (ids, paths []string) {
	t.Helper()
	for ; path != ""; path = following(t, ask(t, h, http.MethodGet, path)) {
		paths = append(paths, path)
		var page struct{ Result []content.Article }
		a := ask(t, h, http.MethodGet, path)
		if err := json.Unmarshal([]byte(a.body), &page); err != nil || a.status != http.StatusOK {
			t.Fatalf("%s is %d %s, %v", path, a.status, a.body, err)
		}
		for _, article := range page.Result {
			ids = append(ids, article.ID)
		}
	}
	return ids, paths
}

// The Link of a page leads to the next one, in the order that was asked for, and that of the last page is missing.
func TestPagesLinkToTheNextOne(t *testing.T) {
	h := handler(t, httpapi.Config{Store: community(), Base: "/v1"})
	for path, want := range map[string][2][]string{
		"/v1/articles":                   {{"a2", "a3", "a1"}, {"/v1/articles"}},
		"/v1/articles?pageSize=2":        {{"a2", "a3", "a1"}, {"/v1/articles?pageSize=2", "/v1/articles?page=2&pageSize=2"}},
		"/v1/articles?cursor=":           {{"a1", "a2", "a3"}, {"/v1/articles?cursor="}},
		"/v1/articles?cursor&pageSize=2": {{"a1", "a2", "a3"}, {"/v1/articles?cursor&pageSize=2", "/v1/articles?cursor=YTI&pageSize=2"}},
	} {
		if ids, paths := walk(t, h, path); !slices.Equal(ids, want[0]) || !slices.Equal(paths, want[1]) {
			t.Errorf("from %s there are %q at %q, want %q", path, ids, paths, want)
		}
	}
	if link := ask(t, h, http.MethodHead, "/v1/articles?pageSize=1").header.Get("Link"); link != `</v1/articles?page=2&pageSize=1>; rel="next"` {
		t.Errorf("the Link of HEAD is %q", link)
	}
	for path, want := range map[string]string{
		"/v1/articles?cursor=%00": "cursor", "/v1/articles?cursor=YTI=": "cursor", "/v1/articles?cursor=AA": "cursor", "/v1/articles?cursor=YTJ": "cursor",
		"/v1/articles?cursor=YTI&page=2": "page", "/v1/articles?cursor=&cursor=": "cursor",
	} {
		if a := ask(t, h, http.MethodGet, path); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.body, `"parameter":"`+want+`"`) {
			t.Errorf("%s is %d %s", path, a.status, a.body)
		}
	}
}

var update = flag.Bool("update", false, "write the golden files")

// fill sets each field of v to a different value.
func fill(v reflect.Value, next *int) {
	*next++
	switch v.Kind() {
	case reflect.String:
		switch v.Type() {
		case reflect.TypeFor[content.Timestamp]():
			v.SetString("2026-03-01T09:30:" + strconv.Itoa(10+*next%50) + "+05:30")
		case reflect.TypeFor[content.Object]():
			v.SetString(`{"href":"/articles/` + strconv.Itoa(*next) + `"}`)
		default:
			v.SetString("text " + strconv.Itoa(*next) + " <ü>")
		}
	case reflect.Int64:
		v.SetInt(int64(*next))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), next)
		fill(v.Index(1), next)
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field, next)
		}
	default:
		panic("fields of records have other kinds: " + v.Kind().String())
	}
}

func filled[T any]() (record T) {
	next := 0
	fill(reflect.ValueOf(&record).Elem(), &next)
	return record
}

// full returns a store with two records of each type: one has all fields, the other none. The full product update and
// the full reply are hidden from everybody but moderators.
func full() *memory {
	article := filled[content.Article]()
	article.Trashed = false // trashed articles are not listed
	return &memory{
		updates:    map[string]content.ProductUpdate{"full": filled[content.ProductUpdate](), "empty": {}},
		list:       []content.Article{article, {}},
		replies:    map[[2]string]content.Reply{{"a1", "full"}: filled[content.Reply](), {"a1", "empty"}: {}},
		moderators: map[string]bool{"m1": true},
	}
}

// specification.md 6.2, 6.3, 6.4 and 6.11, specification.md "error body": responses have all fields in their wrappers.
func TestAnswers(t *testing.T) {
	h := handler(t, httpapi.Config{Store: full()})
	none := handler(t, httpapi.Config{Store: &memory{}})
	for name, got := range map[string]answer{
		"productupdate-full":  ask(t, h, "GET", "/productUpdates/full?moderatorId=m1"),
		"productupdate-empty": ask(t, h, "GET", "/productUpdates/empty"),
		"articles":            ask(t, h, "GET", "/articles"),
		"articles-none":       ask(t, none, "GET", "/articles"),
		"reply-full":          ask(t, h, "GET", "/articles/a1/replies/full?moderatorId=m1"),
		"reply-empty":         ask(t, h, "GET", "/articles/a1/replies/empty"),
		"not-found":           ask(t, h, "GET", "/productUpdates/none"),
		"invalid-parameters":  ask(t, h, "GET", "/articles?page=0&pageSize=101"),
	} {
		var indented bytes.Buffer
		if err := json.Indent(&indented, []byte(got.body), "", "  "); err != nil {
			t.Errorf("%s: %v in %q", name, err, got.body)
			continue
		}
		indented.WriteByte('\n')
		file := filepath.Join("testdata", name+".json")
		if *update {
			testworld.Check(t, os.WriteFile(file, indented.Bytes(), 0o644))
		}
		want := testworld.Must(os.ReadFile(file))(t)
		if indented.String() != string(want) {
			t.Errorf("%s is\n%s\nnot what %s has", name, indented.String(), file)
		}
	}
}

// waiting is a store whose Articles blocks until the test sends to release or closes it.
type waiting struct {
	content.Store
	release chan struct{}
}

func (s waiting) Articles(ctx context.Context, _ int64, _ int) ([]content.Article, error) {
	select {
	case <-s.release:
		return []content.Article{{ID: "a1"}}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ready returns a store that does not block.
func ready() waiting {
	s := waiting{community(), make(chan struct{})}
	close(s.release)
	return s
}

// slow is a client that reads nothing of a response until release is closed.
type slow struct {
	*httptest.ResponseRecorder
	release chan struct{}
}

func (s slow) Write(p []byte) (int, error) {
	<-s.release
	return s.ResponseRecorder.Write(p)
}

// page sends a request for articles from an address, with an API key if it is not "".
func page(h http.Handler, w http.ResponseWriter, address, key string) {
	r := httptest.NewRequest(http.MethodGet, "/articles", nil)
	r.RemoteAddr = address + ":1234"
	r.Header.Set("X-API-Key", key)
	h.ServeHTTP(w, r)
}

// pages sends n requests for articles at once, and returns a channel of their status codes.
func pages(h http.Handler, n int, address, key string) <-chan int {
	codes := make(chan int, n)
	for range n {
		go func() {
			w := httptest.NewRecorder()
			page(h, w, address, key)
			codes <- w.Code
		}()
	}
	return codes
}

// threats.md 77: a page may be large, so the number of concurrent requests is bounded, a caller has at most half of them, and
// the last quarter serves callers without a request in progress. Further requests wait for a bounded time.
func TestConcurrentRequestBound_threats_77_80(t *testing.T) {
	for name, c := range map[string]struct {
		config                    httpapi.Config
		one, other, third, fourth [2]string // address and key
	}{
		"callers who prove themselves": {
			httpapi.Config{Callers: keys{}},
			[2]string{"192.0.2.1", "reader"},
			[2]string{"192.0.2.1", "moderator"},
			[2]string{"192.0.2.1", "person 1"},
			[2]string{"192.0.2.1", "person 2"},
		},
		"addresses": {httpapi.Config{}, [2]string{"192.0.2.1"}, [2]string{"192.0.2.2"}, [2]string{"192.0.2.3"}, [2]string{"192.0.2.4"}},
		"networks of IPv6": {
			httpapi.Config{},
			[2]string{"[2001:db8::1]"},
			[2]string{"[2001:db8:0:1::1]"},
			[2]string{"[2001:db8:0:2::1]"},
			[2]string{"[2001:db8:0:3::1]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := waiting{community(), make(chan struct{})}
				c.config.Store, c.config.Requests = store, 8
				h := handler(t, c.config)
				inside := pages(h, 20, c.one[0], c.one[1])
				synctest.Wait()
				others := pages(h, 4, c.other[0], c.other[1])
				synctest.Wait()
				third, fourth := pages(h, 1, c.third[0], c.third[1]), pages(h, 1, c.fourth[0], c.fourth[1])
				synctest.Wait()
				for range 8 { // the requests that have a place
					store.release <- struct{}{}
				}
				synctest.Wait()
				if len(inside) != 4 || len(others) != 2 || len(third) != 1 || len(fourth) != 1 {
					t.Errorf("the first 8 places had %d requests of one caller, %d of another, and %d and %d of two more", len(inside), len(others), len(third), len(fourth))
				}
				<-time.After(5 * time.Second) // in the bubble's time
				w := httptest.NewRecorder()
				page(h, w, c.one[0], c.one[1])
				if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), "urn:keywright:problem:busy") {
					t.Errorf("one more gets %d %v %s", w.Code, w.Header(), w.Body)
				}
				<-time.After(time.Minute) // until the remaining requests have ended
				after := pages(h, 1, c.one[0], c.one[1])
				store.release <- struct{}{}
				if got := <-after; got != http.StatusOK {
					t.Errorf("afterwards one gets %d", got)
				}
			})
		})
	}
}

// All addresses of an IPv6 network belong to one caller, and all forms of an address too.
func TestAddressesOfOneCaller(t *testing.T) {
	for _, c := range [][2]string{{"[2001:db8::1]", "[2001:db8::ffff:2]"}, {"192.0.2.1", "[::ffff:192.0.2.1]"}, {"[fe80::1%a]", "[fe80::1%b]"}} {
		synctest.Test(t, func(t *testing.T) {
			store := waiting{community(), make(chan struct{})}
			h := handler(t, httpapi.Config{Store: store, Requests: 2})
			first := pages(h, 1, c[0], "")
			synctest.Wait()
			began := time.Now()
			got, after := <-pages(h, 1, c[1], ""), time.Since(began)
			// A request that had a place would wait for the store, for 15 seconds.
			if got != http.StatusServiceUnavailable || after > 10*time.Second {
				t.Errorf("%s gets %d beside %s, after %v", c[1], got, c[0], after)
			}
			close(store.release)
			<-first
		})
	}
}

// threats.md 80: clients that do not read their responses do not block others.
func TestSlowClients_threats_80(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 8
		h := handler(t, httpapi.Config{Store: ready(), Callers: keys{}, Requests: most})
		release := make(chan struct{})
		for range 10 * most {
			go page(h, slow{httptest.NewRecorder(), release}, "192.0.2.1", "reader")
		}
		synctest.Wait()
		for _, key := range []string{"reader", "moderator"} {
			if got := <-pages(h, 1, "192.0.2.1", key); got != http.StatusOK {
				t.Errorf("%s gets %d", key, got)
			}
		}
		close(release)
	})
}

// threats.md 80: the memory of responses that slow clients have not read is bounded, as is a caller's share.
func TestSharedAnswers_threats_80(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handler(t, httpapi.Config{Store: ready(), Callers: keys{}})
		w := httptest.NewRecorder()
		page(h, w, "192.0.2.1", "reader")
		length, _ := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64)
		httpapi.Limit(h, httpapi.DefaultRequests, 4*length)
		release := make(chan struct{})
		for _, key := range []string{"reader", "reader", "moderator"} {
			go page(h, slow{httptest.NewRecorder(), release}, "192.0.2.1", key)
			synctest.Wait()
		}
		if got := <-pages(h, 1, "192.0.2.1", "reader"); got != http.StatusServiceUnavailable {
			t.Errorf("a third answer of one caller: %d", got)
		}
		close(release)
		synctest.Wait()
		if got := <-pages(h, 1, "192.0.2.1", "reader"); got != http.StatusOK {
			t.Errorf("afterwards: %d", got)
		}
	})
}

// A caller that goes away while it waits is observed with status 499, and not as a failure.
func TestWaitingCallerGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := waiting{community(), make(chan struct{})}
		var told httpapi.Event
		h := handler(t, httpapi.Config{Store: store, Requests: 1, Observe: func(e httpapi.Event) { told = e }})
		first := pages(h, 1, "192.0.2.1", "")
		synctest.Wait()
		gone, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(gone, http.MethodGet, "/articles", nil))
		if told.Status != 499 {
			t.Errorf("it is observed as %+v", told)
		}
		close(store.release)
		<-first
	})
}
