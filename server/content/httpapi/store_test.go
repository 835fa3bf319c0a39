package httpapi_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/httpapi"
)

// memory is a store of a few records in memory.
type memory struct {
	updates    map[string]content.ProductUpdate
	list       []content.Article
	replies    map[[2]string]content.Reply
	moderators map[string]bool
	err        error    // returned by each method
	asked      []string // the methods that were called, recorded unless it is nil
	skip       int64    // the argument of the last call of Articles
}

func (m *memory) enter(ctx context.Context, method string, ids ...string) error {
	if m.asked != nil {
		m.asked = append(m.asked, method)
	}
	for _, id := range ids {
		if content.CheckID(id) != nil {
			return errors.New("the store was asked for an id that cannot be")
		}
	}
	if m.err != nil {
		return m.err
	}
	return ctx.Err()
}

func (m *memory) ProductUpdate(ctx context.Context, id string, audience content.Audience) (*content.ProductUpdate, error) {
	if err := m.enter(ctx, "ProductUpdate", id); err != nil {
		return nil, err
	}
	update, ok := m.updates[id]
	if !ok || update.Trashed && audience != content.Moderators {
		return nil, content.ErrNotFound
	}
	return &update, nil
}

func (m *memory) Articles(ctx context.Context, skip int64, limit int) ([]content.Article, error) {
	if err := m.enter(ctx, "Articles"); err != nil {
		return nil, err
	}
	m.skip = skip
	shown := slices.DeleteFunc(slices.Clone(m.list), func(a content.Article) bool { return a.Trashed })
	slices.SortFunc(shown, func(a, b content.Article) int {
		return cmp.Or(cmp.Compare(b.LastActivityAt, a.LastActivityAt), cmp.Compare(b.ID, a.ID))
	})
	from := min(skip, int64(len(shown)))
	return shown[from:min(from+int64(limit), int64(len(shown)))], nil
}

func (m *memory) ArticlesAfter(ctx context.Context, id string, limit int) ([]content.Article, error) {
	if err := m.enter(ctx, "ArticlesAfter"); err != nil {
		return nil, err
	}
	shown := slices.DeleteFunc(slices.Clone(m.list), func(a content.Article) bool { return a.Trashed || a.ID <= id })
	slices.SortFunc(shown, func(a, b content.Article) int { return cmp.Compare(a.ID, b.ID) })
	return shown[:min(limit, len(shown))], nil
}

func (m *memory) Reply(ctx context.Context, articleID, id string, audience content.Audience) (*content.Reply, error) {
	if err := m.enter(ctx, "Reply", articleID, id); err != nil {
		return nil, err
	}
	reply, ok := m.replies[[2]string{articleID, id}]
	trashed := slices.ContainsFunc(m.list, func(a content.Article) bool { return a.ID == articleID && a.Trashed })
	if !ok || (trashed || !reply.Visible()) && audience != content.Moderators {
		return nil, content.ErrNotFound
	}
	return &reply, nil
}

func (m *memory) Moderator(ctx context.Context, id string) (bool, error) {
	if err := m.enter(ctx, "Moderator", id); err != nil {
		return false, err
	}
	return m.moderators[id], nil
}

// community returns a store with a record of each state.
func community() *memory {
	return &memory{
		updates: map[string]content.ProductUpdate{
			"u1": {ID: "u1", Title: "shown", Body: "<p>one</p>"}, "gone": {ID: "gone", Title: "secret", Trashed: true},
			"a/b": {ID: "a/b", Title: "slash"}, "..": {ID: "..", Title: "dots"}, "%2F": {ID: "%2F", Title: "percent"}, "ü": {ID: "ü", Title: "umlaut"},
		},
		list: []content.Article{
			{ID: "a1", LastActivityAt: "2026-03-01T09:30:00+00:00"},
			{ID: "a2", LastActivityAt: "2026-03-02T09:30:00+00:00"},
			{ID: "a3", LastActivityAt: "2026-03-01T09:30:00+00:00"},
			{ID: "hidden", Title: "secret", Trashed: true, LastActivityAt: "2026-03-09T09:30:00+00:00"},
		},
		replies: map[[2]string]content.Reply{
			{"a1", "r1"}: {ID: "r1", Content: "shown"}, {"a1", "trashed"}: {ID: "trashed", Content: "secret", Trashed: true},
			{"a1", "spam"}: {ID: "spam", Content: "secret", Spam: true}, {"a1", "pending"}: {ID: "pending", Content: "secret", PendingApproval: true},
			{"hidden", "r1"}: {ID: "r1", Content: "secret"}, {"a1", "reported"}: {ID: "reported", Reported: true},
		},
		moderators: map[string]bool{"m1": true},
	}
}

// keys is a Callers that authenticates by the header X-API-Key.
type keys struct{}

func (keys) Caller(r *http.Request) (httpapi.Caller, error) {
	switch r.Header.Get("X-API-Key") {
	case "reader":
		return httpapi.Caller{Name: "reader"}, nil
	case "moderator":
		return httpapi.Caller{Name: "moderator", Moderate: true}, nil
	case "person 1", "person 2": // as with tokens, all of whose callers have the same name
		return httpapi.Caller{Name: "token", ID: r.Header.Get("X-API-Key")}, nil
	case "later":
		return httpapi.Caller{}, httpapi.ErrUnavailable
	}
	return httpapi.Caller{}, &httpapi.UnauthenticatedError{Challenges: []string{`Bearer realm="content"`, "ApiKey"}}
}

func handler(t testing.TB, c httpapi.Config) http.Handler {
	t.Helper()
	if c.Random == nil {
		c.Random = sameBytes{} // answers are compared with each other
	}
	return testworld.Must(httpapi.New(c))(t)
}

// sameBytes is a source of randomness that always returns the same bytes.
type sameBytes struct{}

func (sameBytes) Read(p []byte) (int, error) { return len(p), nil }

// answer is a response of the handler.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request. header alternates names and values.
func ask(t testing.TB, h http.Handler, method, target string, header ...string) answer {
	t.Helper()
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body := testworld.Must(io.ReadAll(w.Result().Body))(t)
	return answer{w.Code, w.Result().Header, string(body)}
}

// hidden holds the paths of records that only moderators see, each with the path of a record that does not exist.
var hidden = []struct{ path, twin string }{
	{"/productUpdates/gone", "/productUpdates/none"},
	{"/articles/a1/replies/trashed", "/articles/a1/replies/none"},
	{"/articles/a1/replies/spam", "/articles/a1/replies/none"},
	{"/articles/a1/replies/pending", "/articles/a1/replies/none"},
	{"/articles/hidden/replies/r1", "/articles/none/replies/r1"},
}

// specification.md 6.7, threats.md 53, specification.md "not found", "moderatorId of a reply" and "whose moderatorId
// counts": without a valid moderatorId, the response for a hidden record equals that for one that does not exist.
func TestHiddenRecords(t *testing.T) {
	open := handler(t, httpapi.Config{Store: community()})
	closed := handler(t, httpapi.Config{Store: community(), Callers: keys{}})
	nowhere := ask(t, open, "GET", "/nowhere")
	for _, record := range hidden {
		for _, query := range []string{"", "?moderatorId=", "?moderatorId=m2", "?moderatorId=M1", "?moderatorId=m1%20", "?moderatorId=%00", "?moderatorid=m1", "?resolveEmbeds=true"} {
			for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST"} {
				for _, header := range [][]string{nil, {"If-None-Match", "*"}, {"Accept-Encoding", "gzip"}, {"Range", "bytes=0-1"}} {
					there, not := ask(t, open, method, record.path+query, header...), ask(t, open, method, record.twin+query, header...)
					if !reflect.DeepEqual(there, not) {
						t.Errorf("%s %s%s %q: %+v, but for one that is not there %+v", method, record.path, query, header, there, not)
					}
					if method == "GET" && !reflect.DeepEqual(there, nowhere) {
						t.Errorf("%s%s: %+v, but for a path that is not there %+v", record.path, query, there, nowhere)
					}
					if method == "HEAD" && (there.status != http.StatusNotFound || there.body != "" || !reflect.DeepEqual(there.header, nowhere.header)) {
						t.Errorf("HEAD %s%s: %+v, but GET is %+v", record.path, query, there, nowhere)
					}
				}
			}
		}
		// The id of a moderator does not help a caller that may not moderate.
		query := "?moderatorId=m1"
		there, not := ask(t, closed, "GET", record.path+query, "X-API-Key", "reader"), ask(t, closed, "GET", record.twin+query, "X-API-Key", "reader")
		if there.status != http.StatusNotFound || !reflect.DeepEqual(there, not) {
			t.Errorf("%s: %+v for a reader, but for one that is not there %+v", record.path, there, not)
		}
		for name, shown := range map[string]answer{
			"open": ask(t, open, "GET", record.path+query), "closed": ask(t, closed, "GET", record.path+query, "X-API-Key", "moderator"),
		} {
			if shown.status != http.StatusOK || !strings.Contains(shown.body, "secret") || shown.header.Get("Cache-Control") != "private, no-store" {
				t.Errorf("%s, %s: a moderator gets %+v", name, record.path, shown)
			}
		}
	}
}

// A moderator's ETag of a hidden record matches nothing for others.
func TestTagsOfHiddenRecordsMatchNothing(t *testing.T) {
	h := handler(t, httpapi.Config{Store: community()})
	for _, record := range hidden {
		tag := ask(t, h, "GET", record.path+"?moderatorId=m1").header.Get("ETag")
		if again := ask(t, h, "GET", record.path+"?moderatorId=m1", "If-None-Match", tag); again.status != http.StatusNotModified {
			t.Errorf("%s: a moderator gets %+v", record.path, again)
		}
		if got, want := ask(t, h, "GET", record.path, "If-None-Match", tag), ask(t, h, "GET", record.twin); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v with the tag, but for one that is not there %+v", record.path, got, want)
		}
	}
}

// A moderatorId, valid or not, changes nothing in the response for a visible record but its Cache-Control.
func TestModeratorIDGuesses(t *testing.T) {
	h := handler(t, httpapi.Config{Store: community()})
	for _, path := range []string{"/productUpdates/u1", "/articles/a1/replies/r1", "/articles/a1/replies/reported", "/articles", "/openapi.json"} {
		plain, valid := ask(t, h, "GET", path), ask(t, h, "GET", path+"?moderatorId=m1")
		if plain.status != http.StatusOK || valid.body != plain.body || valid.header.Get("ETag") != plain.header.Get("ETag") {
			t.Errorf("%s: %+v, for a moderator %+v", path, plain, valid)
		}
		for _, id := range []string{"", "m2", "%00", "%ff", strings.Repeat("m", 10_000)} {
			if invalid := ask(t, h, "GET", path+"?moderatorId="+id); !reflect.DeepEqual(invalid, valid) || invalid.header.Get("Cache-Control") != "private, no-store" {
				t.Errorf("%s: %+v with %.20q, %+v for a moderator", path, invalid, id, valid)
			}
		}
	}
}

// The store does not look up moderators for a caller that may not moderate, so that timing does not reveal valid ids.
func TestReadersDoNotReachTheModerators(t *testing.T) {
	store := community()
	store.asked = []string{}
	h := handler(t, httpapi.Config{Store: store, Callers: keys{}})
	ask(t, h, "GET", "/productUpdates/gone?moderatorId=m1", "X-API-Key", "reader")
	if !reflect.DeepEqual(store.asked, []string{"ProductUpdate"}) {
		t.Error(store.asked)
	}
}

// parts are the parts of random ids. The last four make an id invalid.
var parts = []string{
	"a", "b", "1", "0", ".", "..", "/", "%", "%2F", "ü", "日", "'", "\"", " ", "?", "&", "=", "#", ";", "\\", "+", "--", "replies", "articles", "<", "💬",
	"\x00", "\n", "\xff", "\u0085",
}

// threats.md 52, 53: random requests never get a 5xx, a record other than the requested one, or a hidden record.
func TestRandomRequests(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	pick := func() (id string) {
		for range 1 + random.IntN(2) {
			id += parts[random.IntN(len(parts))]
		}
		return id
	}
	store := community()
	for range 600 {
		id, other, trashed, spam := pick(), pick(), random.IntN(3) == 0, random.IntN(3) == 0
		text := map[bool]string{true: "secret", false: "shown"}
		store.updates[id] = content.ProductUpdate{ID: id, Title: text[trashed], Trashed: trashed}
		store.replies[[2]string{id, other}] = content.Reply{ID: other, Permalink: id, Content: text[spam], Spam: spam}
	}
	h, seen := handler(t, httpapi.Config{Store: store, Callers: keys{}}), map[int]int{}
	for range 10_000 {
		id, other := pick(), pick()
		target := "/productUpdates/" + url.PathEscape(id)
		if random.IntN(2) == 0 {
			target = "/articles/" + url.PathEscape(id) + "/replies/" + url.PathEscape(other)
		}
		query := []string{"", "?moderatorId=m1", "?moderatorId=m1&moderatorId=m1", "?page=0"}[random.IntN(4)]
		method := []string{"GET", "GET", "GET", "HEAD", "OPTIONS", "POST"}[random.IntN(6)]
		got := ask(t, h, method, target+query, "X-API-Key", []string{"reader", "none"}[random.IntN(2)])
		seen[got.status]++
		var record struct{ ID, Permalink string }
		wrapped := struct{ Result any }{&record}
		if got.status == http.StatusOK && method == "GET" {
			testworld.Check(t, errors.Join(json.Unmarshal([]byte(got.body), &record), json.Unmarshal([]byte(got.body), &wrapped)))
			if record.ID != id && (record.ID != other || record.Permalink != id) {
				t.Fatalf("seed %d, %s%s: the record is %+v", seed, target, query, record)
			}
		}
		if strings.Contains(got.body, "secret") || !slices.Contains([]int{200, 204, 401, 404, 405, 422}, got.status) {
			t.Fatalf("seed %d, %s %s%s: got = %+v", seed, method, target, query, got)
		}
	}
	for _, status := range []int{200, 204, 401, 404, 405, 422} {
		if seen[status] < 50 {
			t.Errorf("seed %d: of 10,000 requests, %d have the status %d", seed, seen[status], status)
		}
	}
}

// read parses a request as a server does.
func read(request string) (*http.Request, error) {
	return http.ReadRequest(bufio.NewReader(strings.NewReader(request)))
}

// FuzzTargets sends any target to a store with hidden records, none of which may appear in a response.
func FuzzTargets(f *testing.F) {
	for _, record := range hidden {
		f.Add(record.path, "moderatorId=m2", "gzip", "*")
		f.Add(record.twin, "page=1&pageSize=%31", "", `W/"x"`)
	}
	f.Add("/articles", "page=2&pageSize=9223372036854775807", "gzip;q=0", "")
	f.Add("/productUpdates/%2e%2e", "resolveEmbeds=true;moderatorId=m1", "*;q=", `"`)
	store := community()
	store.moderators = nil
	h := handler(f, httpapi.Config{Store: store, Embeds: shout{}})
	missing := ask(f, h, "GET", "/nowhere")
	f.Fuzz(func(t *testing.T, path, query, encoding, tags string) {
		r, err := read("GET " + path + "?" + query + " HTTP/1.1\r\nHost: x\r\n\r\n")
		if err != nil {
			return // a server refuses it too
		}
		r.Header.Set("Accept-Encoding", encoding)
		r.Header.Set("If-None-Match", tags)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch {
		case !slices.Contains([]int{200, 304, 404, 422}, w.Code):
			t.Errorf("w.Code = %d w.Body = %s", w.Code, w.Body)
		case strings.Contains(strings.ToLower(w.Body.String()), "secret"):
			t.Errorf("it is out: %s", w.Body)
		case w.Code == 404 && (w.Body.String() != missing.body || fmt.Sprint(w.Header()) != fmt.Sprint(missing.header)):
			t.Errorf("this 404 is not as others: %v %s", w.Header(), w.Body)
		}
	})
}
