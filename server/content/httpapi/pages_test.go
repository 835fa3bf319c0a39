package httpapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/httpapi"
)

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
