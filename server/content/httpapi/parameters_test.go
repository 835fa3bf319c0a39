package httpapi_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/server/content/httpapi"
)

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
