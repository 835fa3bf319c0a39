package api_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/operate/acts"
	"github.com/keywright/keywright/server/internal/operate/api"
	"github.com/keywright/keywright/server/internal/operate/connections"
)

// rights are those that each operation needs, with an example of a request.
var rights = []struct{ operation, rights, example, body string }{
	{"GET /nodes", "read", "/nodes", ""},
	{"GET /connectors", "read", "/connectors", ""},
	{"GET /connectors/{permalink}", "read", "/connectors/crm", ""},
	{"GET /failures", "read", "/failures", ""},
	{"GET /requests/{id}", "read", "/requests/0123456789abcdef", ""},
	{"GET /configuration", "read", "/configuration", ""},
	{"GET /acts", "read", "/acts", ""},
	{"GET /connections", "people", "/connections", ""},
	{"POST /configuration/check", "check", "/configuration/check", "connectors: []"},
	{"POST /configuration/reload", "act", "/configuration/reload", ""},
	{"POST /connectors/{permalink}/test", "test", "/connectors/crm/test", "{}"},
	{"DELETE /connections/{id}", "act", "/connections/00", ""},
	{"POST /connections/end", "people act", "/connections/end", `{"tenant": "acme"}`},
	{"GET /tenants/{tenant}/texts", "people", "/tenants/acme/texts", ""},
	{"PUT /tenants/{tenant}/secrets/{name}", "act", "/tenants/acme/secrets/crm", `{"value": "x"}`},
	{"DELETE /tenants/{tenant}/secrets/{name}", "act", "/tenants/acme/secrets/crm", ""},
	{"PUT /tenants/{tenant}/variables/{name}", "act", "/tenants/acme/variables/site", `{"value": "eu"}`},
	{"DELETE /tenants/{tenant}/variables/{name}", "act", "/tenants/acme/variables/site", ""},
	{"POST /connect-links", "act", "/connect-links", `{"user": "ann", "tenant": "acme", "connectors": ["calendar"]}`},
}

// An operation is done with the rights that its description names, and refused without any one of them (threats.md 584).
func TestRights(t *testing.T) {
	w := newWorld(t)
	var document struct {
		Paths map[string]map[string]struct {
			Security []map[string][]string
		}
	}
	testworld.Check(t, json.Unmarshal(w.document(), &document))
	described, expected := map[string]string{}, map[string]string{}
	for path, operations := range document.Paths {
		for method, o := range operations {
			described[strings.ToUpper(method)+" "+path] = strings.Join(o.Security[0]["token"], " ")
		}
	}
	for _, o := range rights {
		expected[o.operation] = o.rights
		method, _, _ := strings.Cut(o.operation, " ")
		needed := strings.Fields(o.rights)
		for _, right := range []string{"read", "test", "check", "people", "act"} {
			status, text := w.send(right, method+" "+o.example, o.body)
			if forbidden := status == http.StatusForbidden; forbidden != (len(needed) > 1 || needed[0] != right) {
				t.Errorf("%s with the right %s: %d %s", o.operation, right, status, text)
			}
		}
		if status, text := w.send("all", method+" "+o.example, o.body); status >= 400 && status != http.StatusNotFound {
			t.Errorf("%s with all rights: %d %s", o.operation, status, text)
		}
		if status, _ := w.send("", method+" "+o.example, o.body); status != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d", o.operation, status)
		}
	}
	if d := cmp.Diff(expected, described); d != "" {
		t.Errorf("rights in the document: %s", d)
	}
}

// The document of the API changes in view of reviewers only.
func TestDocument(t *testing.T) {
	w := newWorld(t)
	var indented map[string]any
	testworld.Check(t, json.Unmarshal(w.document(), &indented))
	got := append(testworld.Must(json.MarshalIndent(indented, "", " "))(t), '\n')
	golden := filepath.Join("testdata", "openapi.json")
	if os.Getenv("UPDATE") != "" {
		testworld.Check(t, os.WriteFile(golden, got, 0o600))
	}
	if d := cmp.Diff(string(testworld.Must(os.ReadFile(golden))(t)), string(got)); d != "" {
		t.Errorf("the document has changed; with UPDATE=1 this test writes it: %s", d)
	}
	const maxSize = 60 << 10
	if len(got) > maxSize {
		t.Errorf("the document has %d bytes, want at most %d", len(got), maxSize)
	}
}

// A token that is for one tenant neither sees another tenant nor changes anything of it (threats.md 585).
func TestTenantOfAToken(t *testing.T) {
	w := newWorld(t)
	w.connect("acme", "ann", "calendar")
	w.connect("other", "otto", "calendar")
	list := w.get("acme", "GET /connections", "", http.StatusOK)
	if len(items(list)) != 1 || items(list)[0].(map[string]any)["user"] != "ann" {
		t.Errorf("connections: %v", list)
	}
	all, _, err := w.config.Connections.List(t.Context(), connections.Filter{Tenant: "other"}, "", 9)
	testworld.Check(t, err)
	absent, _ := w.send("acme", "DELETE /connections/"+strings.Repeat("0", 32), "")
	if status, _ := w.send("acme", "DELETE /connections/"+all[0].ID, ""); status != http.StatusNotFound || absent != status {
		t.Errorf("the end of a connection of another tenant: %d, of none: %d", status, absent)
	}
	for route, body := range map[string]string{
		"GET /connections?tenant=other": "", "GET /tenants/other/texts": "", "PUT /tenants/other/secrets/crm": `{"value": "x"}`, "DELETE /tenants/other/secrets/crm": "",
		"PUT /tenants/other/variables/site": `{"value": "x"}`, "POST /connections/end": `{"tenant": "other"}`, "POST /connect-links": `{"user": "otto", "tenant": "other", "connectors": ["calendar"]}`,
		"POST /configuration/reload": "", "GET /acts?who=all": "", "GET /acts?target=x": "",
	} {
		if status, text := w.send("acme", route, body); status != http.StatusForbidden {
			t.Errorf("%s is answered %d %s", route, status, text)
		}
	}
	if _, text := w.send("acme", "GET /failures", ""); strings.Contains(text, "other") || !strings.Contains(text, "acme") {
		t.Errorf("failures: %s", text)
	}
	if _, text := w.send("acme", "GET /requests/other", ""); strings.Contains(text, "globex") || !strings.Contains(text, "no host …") {
		t.Errorf("a failure of another tenant: %s", text)
	}
	if sum := w.get("acme", "POST /connections/end", `{"connector": "calendar"}`, http.StatusOK); sum["ended"] != 1.0 {
		t.Errorf("the end of all: %v", sum)
	}
	_, _ = w.send("all", "DELETE /tenants/other/secrets/crm", "")
	if _, text := w.send("acme", "GET /acts", ""); strings.Contains(text, "other") || strings.Contains(text, `"all"`) {
		t.Errorf("acts: %s", text)
	}
	if rest, _, _ := w.config.Connections.List(t.Context(), connections.Filter{}, "", 9); len(rest) != 1 || rest[0].User != "otto" {
		t.Errorf("what is left: %+v", rest)
	}
}

// Without the right people, no answer names a user or a tenant (threats.md 586).
func TestAnswersWithoutPeople(t *testing.T) {
	w := newWorld(t)
	w.connect("acme", "ann", "calendar")
	_, _ = w.send("all", "DELETE /tenants/acme/secrets/crm", "")
	w.config.Acts.Note(t.Context(), acts.Act{Who: "ann", Address: "192.0.2.1", Act: "login", Outcome: acts.Done})
	for _, o := range rights {
		if !strings.HasPrefix(o.operation, "GET ") || o.rights != "read" {
			continue
		}
		_, text := w.send("read", "GET "+o.example, "")
		for _, name := range []string{"acme", "ann", "192.0.2.1"} {
			if strings.Contains(text, name) {
				t.Errorf("%s names %s: %s", o.example, name, text)
			}
		}
	}
	if _, text := w.send("all", "GET /requests/0123456789abcdef", ""); !strings.Contains(text, `"tenant":"acme"`) || !strings.Contains(text, "users/ann/crm") {
		t.Errorf("with the right: %s", text)
	}
	if status, _ := w.send("read", "GET /acts?who=ann", ""); status != http.StatusForbidden {
		t.Errorf("a guess at who did something: %d", status)
	}
}

// The text of a secret is in no answer, log or act, also if the request is wrong (threats.md 587).
func TestWriteOnlyTexts(t *testing.T) {
	w := newWorld(t)
	const canary = "canary-7c1f9e"
	text := ""
	for _, body := range []string{`{"value": "` + canary + `"}`, `{"value": ["` + canary + `"]}`, canary, `{"value": "` + canary, `{"value": "x", "` + canary + `": 1}`, `"` + canary + `"`} {
		for _, name := range []string{"crm", "unknown"} {
			_, answer := w.send("all", "PUT /tenants/acme/secrets/"+name, body, "Idempotency-Key", name+body[:3])
			text += answer
		}
	}
	_, list := w.send("all", "GET /tenants/acme/texts", "")
	_, done := w.send("all", "GET /acts", "")
	if !strings.Contains(list, `"fingerprint"`) || !strings.Contains(done, "tenant acme/secret crm") {
		t.Errorf("nothing was set: %s %s", list, done)
	}
	if all := text + list + done + w.log.String(); strings.Contains(all, canary) {
		t.Errorf("the text is in %s", all)
	}
}

// An act is recorded before it is done. One that cannot be recorded is not done (threats.md 588).
func TestUnrecordedAct(t *testing.T) {
	w := newWorld(t)
	w.connect("acme", "ann", "calendar")
	all, _, err := w.config.Connections.List(t.Context(), connections.Filter{}, "", 9)
	testworld.Check(t, err)
	working := w.store.Records
	w.store.Records = brokenRecords{working}
	for _, route := range []string{"POST /configuration/reload", "GET /connections", "DELETE /connections/" + all[0].ID, "POST /connections/end", "DELETE /tenants/acme/secrets/crm", "POST /connectors/crm/test", "POST /configuration/check"} {
		status, text := w.send("all", route, `{"user": "ann"}`)
		if status != http.StatusServiceUnavailable || !strings.Contains(text, "nothing was done") {
			t.Errorf("%s is answered %d %s", route, status, text)
		}
	}
	w.store.Records = working
	if rest, _, _ := w.config.Connections.List(t.Context(), connections.Filter{}, "", 9); len(rest) != 1 || w.reloaded != 0 {
		t.Errorf("connections %+v, reloads %d", rest, w.reloaded)
	}
	answer := w.get("all", "DELETE /connections/"+all[0].ID, "", http.StatusOK)
	if got, want := w.actsOf(acts.Filter{Act: "end"}), "all end calendar "+all[0].ID+" done; "; got != want || answer["revoked"] == nil {
		t.Errorf("acts: %s, want %s; answer %v", got, want, answer)
	}
	w.failure = host.ErrSecretNotFound
	if status, text := w.send("all", "POST /configuration/reload", ""); status != http.StatusUnprocessableEntity || !strings.Contains(text, "stays in use") {
		t.Errorf("a file that is refused: %d %s", status, text)
	}
	if got := w.actsOf(acts.Filter{Act: "reload"}); got != "all reload  failed; " {
		t.Errorf("acts: %s", got)
	}
}

// A cookie does not authenticate a request, so that pages of other sites can have a browser do nothing here (threats.md 589).
func TestCookiesDoNotCount(t *testing.T) {
	w := newWorld(t)
	form := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/login", strings.NewReader("token="+strings.ReplaceAll(tokenOf("all"), " ", "+")))
	form.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	entered := httptest.NewRecorder()
	w.handler.ServeHTTP(entered, form)
	if len(entered.Result().Cookies()) == 0 {
		t.Fatalf("no session: %d %s", entered.Code, entered.Body)
	}
	cookie := entered.Result().Cookies()[0]
	status, text := w.send("", "POST /configuration/reload", "", "Cookie", cookie.Name+"="+cookie.Value)
	if status != http.StatusUnauthorized || !strings.Contains(text, "Authorization alone") || w.reloaded != 0 {
		t.Errorf("with a cookie: %d %s", status, text)
	}
	local := httptest.NewRecorder()
	api.New(w.config).ServeHTTP(local, httptest.NewRequestWithContext(t.Context(), http.MethodGet, api.Prefix+"/nodes", nil))
	if local.Code != http.StatusOK {
		t.Errorf("without a login: %d %s", local.Code, local.Body)
	}
}

// The same request with the same key is done once.
func TestIdempotencyKey(t *testing.T) {
	w := newWorld(t)
	reload := func(key string) (int, string) {
		return w.send("all", "POST /configuration/reload", "", "Idempotency-Key", key)
	}
	_, first := reload("a")
	if status, second := reload("a"); status != http.StatusOK || second != first || w.reloaded != 1 {
		t.Errorf("the same key: %d %s, %d reloads", status, second, w.reloaded)
	}
	if status, _ := w.send("all", "POST /configuration/check", "connectors: []", "Idempotency-Key", "a"); status != http.StatusUnprocessableEntity {
		t.Errorf("another request with the key: %d", status)
	}
	_, _ = w.send("act", "POST /configuration/reload", "", "Idempotency-Key", "a")
	_, _ = reload("b")
	if w.reloaded != 3 {
		t.Errorf("another operator and another key: %d reloads, want 3", w.reloaded)
	}
	w.now = w.now.Add(24 * time.Hour)
	if _, _ = reload("a"); w.reloaded != 4 {
		t.Errorf("the next day: %d reloads, want 4", w.reloaded)
	}
	if status, _ := reload(strings.Repeat("k", 256)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a long key: %d", status)
	}
	inFlight := 0
	w.config.Test = http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		inFlight, _ = w.send("all", "POST /connectors/crm/test", "{}", "Idempotency-Key", "c")
		out.Header().Set("Content-Type", "application/json")
		_, _ = out.Write([]byte(`{}`))
	})
	w.start()
	if status, _ := w.send("all", "POST /connectors/crm/test", "{}", "Idempotency-Key", "c"); status != http.StatusOK || inFlight != http.StatusConflict {
		t.Errorf("a request: %d, and the same one meanwhile: %d", status, inFlight)
	}
}

// An answer that the operator has already is not sent again.
func TestETag(t *testing.T) {
	w := newWorld(t)
	first := w.do("read", "GET /connectors", "")
	etag := first.Header().Get("ETag")
	if same := w.do("read", "GET /connectors", "", "If-None-Match", `"x", `+etag); etag == "" || same.Code != http.StatusNotModified || same.Body.Len() > 0 {
		t.Errorf("with the ETag %s: %d %s", etag, same.Code, same.Body)
	}
	if far := w.do("read", "GET /connectors?cursor=9223372036854775807", ""); far.Code != http.StatusOK || !strings.Contains(far.Body.String(), `"items":[]`) {
		t.Errorf("behind the end of a list: %d %s", far.Code, far.Body)
	}
	w.now = w.now.Add(20 * time.Minute)
	if changed := w.do("read", "GET /nodes", "", "If-None-Match", etag); changed.Code != http.StatusOK {
		t.Errorf("another answer: %d", changed.Code)
	}
}

// A list of connectors has those that are asked for, in pages.
func TestConnectors(t *testing.T) {
	w := newWorld(t)
	permalinks := func(answer map[string]any) (all []string) {
		for _, item := range items(answer) {
			all = append(all, item.(map[string]any)["permalink"].(string))
		}
		return all
	}
	for query, want := range map[string]string{
		"": "crm calendar open", "?show=trouble": "crm", "?show=quiet": "calendar open", "?q=CAL": "calendar", "?type=none": "open", "?sort=name&limit=1": "calendar", "?sort=requests": "crm calendar open",
	} {
		if got := strings.Join(permalinks(w.get("read", "GET /connectors"+query, "", http.StatusOK)), " "); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	var all []string
	for next := "?limit=2"; next != ""; {
		answer := w.get("read", "GET /connectors"+next, "", http.StatusOK)
		all, next = append(all, permalinks(answer)...), ""
		if cursor, ok := answer["next"].(string); ok {
			next = "?limit=2&cursor=" + cursor
		}
	}
	if !slices.Equal(all, []string{"crm", "calendar", "open"}) {
		t.Errorf("in pages: %v", all)
	}
	one := w.get("read", "GET /connectors/crm", "", http.StatusOK)
	if one["state"] != "failing" || !slices.Contains(one["secrets"].([]any), any("tenants/*/crm")) {
		t.Errorf("crm: %v", one)
	}
	cause := one["causes"].([]any)[0].(map[string]any)
	if cause["quarter_hour"] != 4.0 || cause["users"] != 2.0 || cause["requests"].([]any)[0] != failed.RequestID || cause["remedy"] == nil {
		t.Errorf("cause: %v", cause)
	}
}

// A mistake in a request is a problem document that says where it is and what to do.
func TestMistakes(t *testing.T) {
	w := newWorld(t)
	for route, want := range map[string]string{
		"GET /connectors?limit=1000": "query.limit", "GET /connectors?cursor=x": "begin without one", "GET /connections?cursor=x": "begin without one", "GET /connectors?cursor=-1": "begin without one", "GET /connectors?show=bad": "query.show",
		"GET /connectors?wrong=1": "query.wrong", "GET /connectors/none": "there are calendar, crm, open", "GET /requests/none": "in 7 days", "GET /other": "openapi.json", "POST /nodes": "openapi.json",
		"POST /connections/end": "name a connector, a tenant or a user", "PUT /tenants/acme/secrets/k": "no connector asks", "GET /docs": "no such operation", "GET /schemas/Node": "no such operation",
	} {
		body := map[string]string{"POST /connections/end": "{}", "PUT /tenants/acme/secrets/k": `{"value": "x"}`}[route]
		answer := w.do("all", route, body)
		var problem struct {
			Title, Detail string
			Status        int
		}
		if err := json.Unmarshal(answer.Body.Bytes(), &problem); err != nil || problem.Status != answer.Code || answer.Code < 400 || answer.Code >= 500 ||
			!strings.Contains(problem.Detail, want) || answer.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s, want %s", route, answer.Code, answer.Body, want)
		}
	}
	w.config.Link = nil
	w.start()
	if status, text := w.send("all", "POST /connect-links", `{"user": "ann", "connectors": ["calendar"]}`); status != http.StatusConflict || !strings.Contains(text, "links are off") {
		t.Errorf("without links: %d %s", status, text)
	}
}

// A file that may take the place of the one in use is compared with it, and nothing is opened or sent for that.
func TestCheck(t *testing.T) {
	w := newWorld(t)
	check := func(text string) map[string]any {
		t.Helper()
		return w.get("check", "POST /configuration/check", text, http.StatusOK)
	}
	same := check(file)
	if same["wider"] != false || len(same["problems"].([]any)) != 0 || len(same["difference"].(map[string]any)["changed"].([]any)) != 0 {
		t.Errorf("the file in use: %v", same)
	}
	if wider := check(file + `  - {name: Extra, url: "https://extra.example", auth: {type: none}}` + "\n"); wider["wider"] != true || wider["difference"].(map[string]any)["added"].([]any)[0] != "extra" {
		t.Errorf("with one connector more: %v", wider)
	}
	wrong := check(strings.Replace(file, "type: none", "type: nothing", 1))
	problem := wrong["problems"].([]any)[0].(map[string]any)
	if line, ok := problem["line"].(float64); !ok || line < 2 || wrong["difference"] != nil {
		t.Errorf("a wrong file: %v", wrong)
	}
	if members := slices.Sorted(maps.Keys(problem)); !slices.Contains(members, "message") {
		t.Errorf("a problem has %v", members)
	}
	if w.reloaded != 0 || !strings.Contains(w.actsOf(acts.Filter{Act: "check"}), "check check  done") {
		t.Errorf("%d reloads, acts %s", w.reloaded, w.actsOf(acts.Filter{}))
	}
	large := w.do("check", "POST /configuration/check", strings.Repeat("#", 16<<20+1))
	if large.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a file of more than 16 MiB: %d %s", large.Code, large.Body)
	}
}

// All connections of a user end with one request, each with an act of its own. Those of connectors that are gone stay.
func TestEndOfAll(t *testing.T) {
	w := newWorld(t)
	w.connect("acme", "ann", "calendar")
	w.connect("acme", "bob", "calendar")
	w.connect("acme", "ann", "gone")
	sum := w.get("all", "POST /connections/end", `{"user": "ann"}`, http.StatusOK)
	if sum["ended"] != 1.0 || sum["failed"] != 1.0 || sum["more"] != false {
		t.Errorf("sum = %v", sum)
	}
	list := w.get("all", "GET /connections?limit=1", "", http.StatusOK)
	if len(items(list)) != 1 || list["next"] == nil {
		t.Errorf("a page: %v", list)
	}
	link := w.get("all", "POST /connect-links", `{"user": "ann", "connectors": ["calendar"]}`, http.StatusCreated)
	if link["url"] != "https://gateway.example/connect/ann" || link["expires"] != "2026-11-28T12:45:00Z" {
		t.Errorf("link = %v", link)
	}
	if text := w.actsOf(acts.Filter{}); strings.Contains(text, "ann") || strings.Count(text, "all end calendar ") != 1 || !strings.Contains(text, "all link  done") {
		t.Errorf("acts: %s", text)
	}
}
