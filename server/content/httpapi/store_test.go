package httpapi_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
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
