package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/client"
	"github.com/keywright/keywright/server/content/httpapi"
)

// store is a content.Store of a few records by id. The key of a reply is "article id/reply id".
type store struct {
	updates  map[string]content.ProductUpdate
	articles []content.Article
	replies  map[string]content.Reply
}

func sample() *store {
	return &store{
		updates:  map[string]content.ProductUpdate{"u1": {ID: "u1", Title: "Search is faster", Body: "text"}, "gone": {ID: "gone", Trashed: true}},
		articles: []content.Article{{ID: "a1", Title: "How do I export?"}},
		replies:  map[string]content.Reply{"a1/spam": {ID: "spam", Content: "Buy now", Spam: true}},
	}
}

func (s *store) ProductUpdate(_ context.Context, id string, audience content.Audience) (*content.ProductUpdate, error) {
	update, ok := s.updates[id]
	if !ok || update.Trashed && audience != content.Moderators {
		return nil, content.ErrNotFound
	}
	return &update, nil
}

func (s *store) Articles(_ context.Context, skip int64, limit int) ([]content.Article, error) {
	from := min(int(skip), len(s.articles))
	return s.articles[from:min(from+limit, len(s.articles))], nil
}

func (s *store) ArticlesAfter(_ context.Context, id string, limit int) ([]content.Article, error) {
	after := slices.DeleteFunc(slices.Clone(s.articles), func(a content.Article) bool { return a.ID <= id })
	slices.SortFunc(after, func(a, b content.Article) int { return strings.Compare(a.ID, b.ID) })
	return after[:min(limit, len(after))], nil
}

func (s *store) Reply(_ context.Context, articleID, id string, audience content.Audience) (*content.Reply, error) {
	reply, ok := s.replies[articleID+"/"+id]
	if !ok || !reply.Visible() && audience != content.Moderators {
		return nil, content.ErrNotFound
	}
	return &reply, nil
}

func (s *store) Moderator(_ context.Context, id string) (bool, error) {
	return id == "m1" || id == "m&1=#", nil
}

type upper struct{}

func (upper) Resolve(_ context.Context, html string) string { return strings.ToUpper(html) }

// connect returns a client of a server that runs h, through a connector if through is set.
func connect(t *testing.T, h http.Handler, path string, through bool) *client.Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	plain := server.Client()
	if through {
		from := testworld.Must(host.New(t.Context(), host.Config{Egress: host.Egress{AllowHTTP: true, AllowPrivate: true}}))(t)
		t.Cleanup(func() { _ = from.Close(context.WithoutCancel(t.Context())) })
		connector := testworld.Must(from.NewConnector(t.Context(), host.ConnectorConfig{Name: "c", Origins: []string{server.URL}, Auth: []host.Auth{{Type: "none"}}}))(t)
		plain = &http.Client{Transport: connector.Transport(nil)}
	}
	return testworld.Must(client.New(server.URL+path, plain))(t)
}

func api(t *testing.T, s *store, base string) http.Handler {
	t.Helper()
	return testworld.Must(httpapi.New(httpapi.Config{Store: s, Base: base, Embeds: upper{}}))(t)
}

// Each id reaches the server unchanged, also through a connector.
func TestAnyIDSurvives(t *testing.T) {
	s := sample()
	all := []string{"1", "a/b", "/", "//", ".", "..", "...", "../u1", "./", "%2F", "%", "%zz", "a b", "ü", "日本", "💬", "?x=1", "#x", ";", "&=+", "\\", "'; DROP TABLE x", "a:b", "@", "*", strings.Repeat("/", 255)}
	for _, id := range all {
		s.updates[id] = content.ProductUpdate{ID: id}
		for _, other := range all {
			s.replies[id+"/"+other] = content.Reply{ID: other, Permalink: id}
		}
	}
	for _, through := range []bool{false, true} {
		for _, base := range []string{"", "/community/v1"} {
			c := connect(t, api(t, s, base), base, through)
			for i, id := range all {
				if update, err := c.ProductUpdate(t.Context(), id, client.Options{}); err != nil || update.ID != id {
					t.Errorf("%q: update = %+v, err = %v", id, update, err)
				}
				other := all[len(all)-1-i]
				if reply, err := c.Reply(t.Context(), id, other, ""); err != nil || reply.ID != other {
					t.Errorf("%q, %q: reply = %+v, err = %v", id, other, reply, err)
				}
			}
			for _, id := range []string{"", "\x00", "\xff", "none", strings.Repeat("a", 256)} {
				if _, err := c.ProductUpdate(t.Context(), id, client.Options{}); !errors.Is(err, content.ErrNotFound) {
					t.Errorf("%q: err = %v", id, err)
				}
			}
		}
	}
}

func TestOptionsReachTheServer(t *testing.T) {
	c := connect(t, api(t, sample(), ""), "/", false)
	if _, err := c.ProductUpdate(t.Context(), "gone", client.Options{ModeratorID: "m2"}); !errors.Is(err, content.ErrNotFound) {
		t.Error(err)
	}
	for _, id := range []string{"m1", "m&1=#"} {
		if update, err := c.ProductUpdate(t.Context(), "gone", client.Options{ModeratorID: id}); err != nil || !update.Trashed {
			t.Errorf("update = %+v, err = %v", update, err)
		}
		if reply, err := c.Reply(t.Context(), "a1", "spam", id); err != nil || !reply.Spam {
			t.Errorf("reply = %+v, err = %v", reply, err)
		}
	}
	for resolve, want := range map[bool]string{true: "TEXT", false: "text"} {
		if update, err := c.ProductUpdate(t.Context(), "u1", client.Options{ResolveEmbeds: resolve}); err != nil || update.Body != want {
			t.Errorf("update = %+v, err = %v", update, err)
		}
	}
}

// A page with more articles than were asked for is not the last.
func TestLongPages(t *testing.T) {
	pages, articles := 0, 0
	server := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		pages++
		_, _ = fmt.Fprintf(w, `{"result":[%s{}]}`, strings.Repeat("{},", 150*(2-pages)))
	})
	for _, err := range connect(t, server, "", false).AllArticles(t.Context()) {
		testworld.Check(t, err)
		articles++
	}
	if articles != 152 {
		t.Errorf("%d articles came, want 152", articles)
	}
}

func TestArticlesPageByPage(t *testing.T) {
	for _, many := range []int{0, 1, 99, 100, 101, 250, 300} {
		s := &store{}
		for i := range many {
			s.articles = append(s.articles, content.Article{ID: strconv.Itoa(i)})
		}
		requests := 0
		server := api(t, s, "")
		c := connect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { requests++; server.ServeHTTP(w, r) }), "", false)
		next := 0
		for article, err := range c.AllArticles(t.Context()) {
			if err != nil || article.ID != strconv.Itoa(next) {
				t.Fatalf("after %d of %d: %+v, %v", next, many, article, err)
			}
			next++
		}
		if next != many || requests != many/100+1 {
			t.Errorf("%d of %d came, in %d requests", next, many, requests)
		}
		requests = 0
		for range c.AllArticles(t.Context()) {
			break
		}
		if requests != 1 {
			t.Errorf("%d requests for the first", requests)
		}
		first, err := c.Articles(t.Context(), 0, 0)
		if err != nil || len(first) != min(many, 25) {
			t.Errorf("a page of the default has %d of %d, %v", len(first), many, err)
		}
		second, err := c.Articles(t.Context(), 2, 60)
		if err != nil || len(second) != min(max(many-60, 0), 60) {
			t.Errorf("the second page has %d of %d, %v", len(second), many, err)
		}
	}
}

func TestServerErrors(t *testing.T) {
	c := connect(t, api(t, sample(), ""), "", false)
	_, err := c.Articles(t.Context(), -1, 101)
	refused, ok := errors.AsType[*client.Error](err)
	if !ok || refused.Status != 422 || refused.Type != "urn:keywright:problem:invalid-parameters" || errors.Is(err, content.ErrNotFound) {
		t.Fatalf("err = %+v", err)
	}
	want := []client.FieldError{{Parameter: "page", Detail: "this must be an integer, in decimal digits only"}, {Parameter: "pageSize", Detail: "this must be from 1 to 100"}}
	if !reflect.DeepEqual(refused.Fields, want) {
		t.Errorf("refused.Fields = %+v", refused.Fields)
	}
	for _, part := range []string{"422", "page", "from 1 to 100"} {
		testworld.WantError(t, part, err, part)
	}
	count := 0
	for _, err := range connect(t, http.NotFoundHandler(), "", false).AllArticles(t.Context()) {
		if count++; !errors.Is(err, content.ErrNotFound) {
			t.Error(err)
		}
	}
	if count != 1 {
		t.Error("the iterator gave", count)
	}
}

// answering returns a handler that always sends the same response.
func answering(status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func TestOtherServers(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.Handler
		status  int    // of the Error; 0 means an error of another type
		part    string // of the error's text; "" means no error
	}{
		"a later version":   {answering(200, `{"result":{"id":"u1","new":{"a":1}},"next":"x"}`), 0, ""},
		"a proxy":           {answering(502, "<html>bad gateway</html>"), 502, "502 Bad Gateway"},
		"odd problem":       {answering(500, `{"type":7}`), 500, "500"},
		"no content":        {answering(204, ""), 204, "204"},
		"no JSON":           {answering(200, "<html>"), 0, "not what it must be"},
		"nothing":           {answering(200, ""), 0, "not what it must be"},
		"no result":         {answering(200, "{}"), 0, "no result"},
		"another type":      {answering(200, `{"result":{"id":1}}`), 0, "not what it must be"},
		"control character": {answering(400, `{"detail":"\u001b[31m"}`), 400, `\x1b`},
		"a broken answer": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"result":`)
		}), 0, "broke off"},
		"too much": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			block := []byte(strings.Repeat(" ", 1<<20))
			for range client.MaxBody>>20 + 1 {
				_, _ = w.Write(block)
			}
		}), 0, "more than"},
	} {
		update, err := connect(t, test.handler, "", false).ProductUpdate(t.Context(), "u1", client.Options{})
		if test.part == "" {
			if err != nil || update.ID != "u1" {
				t.Errorf("%s: update = %+v, err = %v", name, update, err)
			}
			continue
		}
		refused, _ := errors.AsType[*client.Error](err)
		if err == nil || !strings.Contains(err.Error(), test.part) || (refused != nil) != (test.status != 0) || refused != nil && refused.Status != test.status {
			t.Errorf("%s: err = %+v", name, err)
		}
	}
}

// The error of a request that cannot be sent contains the reason, and not the moderator's id.
func TestFailuresDoNotNameTheModerator(t *testing.T) {
	const nobody = "127.0.0.1:1"
	c := testworld.Must(client.New("http://"+nobody, nil))(t)
	_, err := c.ProductUpdate(t.Context(), "u1", client.Options{ModeratorID: "canary"})
	if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), nobody) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Reply(ctx, "a1", "r1", "canary"); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "canary") {
		t.Error(err)
	}
}

func TestNewErrors(t *testing.T) {
	for _, base := range []string{"", "example.com", "/community", "ftp://example.com", "https://", "https://u:canary@example.com", "https://example.com/?a=b", "https://example.com/?", "https://example.com/#a", "https://u:canary@exa mple.com/", ":"} {
		if _, err := client.New(base, nil); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: err = %v", base, err)
		}
	}
}

// Segments of dots are escaped, so that no proxy between client and server resolves them.
func TestEscapedDots(t *testing.T) {
	var got string
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { got = r.RequestURI; answering(200, "{}").ServeHTTP(w, r) })
	c := connect(t, h, "/v1", true)
	if _, err := c.Reply(t.Context(), "..", ".", ""); err != nil || got != "/v1/articles/%2E%2E/replies/%2E" {
		t.Error(got, err)
	}
}

// The base URL may have any path.
func TestBasesWithOddPaths(t *testing.T) {
	var got *url.URL
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.URL
		answering(200, `{"result":[]}`).ServeHTTP(w, r)
	})
	for base, want := range map[string]string{"": "/articles", "/": "/articles", "/v1/": "/v1/articles", "/a%2Fb": "/a%2Fb/articles", "/ü": "/%C3%BC/articles"} {
		if _, err := connect(t, h, base, false).Articles(t.Context(), 0, 0); err != nil || got.EscapedPath() != want || got.RawQuery != "" {
			t.Errorf("%q: got = %v, err = %v", base, got, err)
		}
	}
}

// A crawl sees each article once, in the order of the ids, and ends with the last page.
func TestCrawl(t *testing.T) {
	s := &store{}
	for i := range 250 {
		s.articles = append(s.articles, content.Article{ID: fmt.Sprintf("%03d", (i*7)%250)})
	}
	n := 0
	for article, err := range connect(t, api(t, s, "/community/v1"), "/community/v1", false).Crawl(t.Context()) {
		if err != nil || article.ID != fmt.Sprintf("%03d", n) {
			t.Fatalf("article %d is %q, %v", n, article.ID, err)
		}
		n++
	}
	if n != 250 {
		t.Errorf("there were %d articles", n)
	}
}
