package httpapi_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/keywright/keywright/server/content/httpapi"
)

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
