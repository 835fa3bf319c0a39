package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/trial"
)

func TestInvalidDefinitions(t *testing.T) {
	w := newWorld(t)
	_, got := w.problems(gateway.Definition{
		URL: "https://a.test/{{ get_secret('s') }}", Methods: []string{"get", "TRACE", "GET", "GET"}, Paths: []string{"users", "/a*", "/**/b", "/../x"},
		Headers: []gateway.Parameter{{Name: "Host", Value: "x"}, {Name: "X-A", Value: "{{ nope }}"}, {Name: "x-a", Value: "1"}, {Name: "X-Key", Value: "{{ get_secret('s') }}", Overridable: true}},
		Query:   []gateway.Parameter{{Value: "x"}}, Timeout: -1, RefreshAhead: -1, Resend: "always", Streams: gateway.Streams{Silence: -1}, Limits: gateway.Limits{Total: -1}, Response: gateway.Response{ContentType: "text"},
	})
	complaints := strings.Fields(got)
	slices.Sort(complaints)
	if want := strings.Fields("headers[0].name headers[1].value headers[2].name headers[3].overridable limits.total method[0] method[1] method[3] paths[0] paths[1] paths[2] paths[3] " +
		"query[0].name refresh_ahead resend response.content_type streams.silence timeout url"); !slices.Equal(slices.Compact(complaints), want) {
		t.Errorf("complained of are\n%q, want\n%q", complaints, want)
	}
}

func TestShapedBodies(t *testing.T) {
	w := newWorld(t, func(c *options, d *gateway.Definition) {
		c.Users = users(func(*http.Request) (host.User, error) { return host.User{Email: "ann@example.com"}, nil })
		d.Methods = []string{"POST"}
		d.Request = `{"who":{{ json_encode(user.email) }},"q":{{ json_encode(from_json(body_text).query) }}}`
		d.Response = gateway.Response{
			Filter: "record.owner == user.email", Body: "{count: len(response.body), first: response.body[0].id}",
		}
	})
	w.answer = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json; charset=utf-8")
		rw.Header().Set("Etag", `"of all"`)
		_, _ = io.WriteString(rw, `[{"id":1,"owner":"bob@example.com"},{"id":2,"owner":"ann@example.com"}]`)
	}
	got := w.do(w.request("POST", "/connectors/weather", `{"query":"a\"b"}`, "Content-Type", "application/json"))
	if got.status != http.StatusOK || got.body != `{"count":1,"first":2}` || got.header.Get("Content-Type") != "application/json" || got.header.Get("Etag") != "" {
		t.Errorf("the caller got %+v", got)
	}
	if w.bodies[0] != `{"who":"ann@example.com","q":"a\"b"}` || w.last().ContentLength != int64(len(w.bodies[0])) {
		t.Errorf("the API received %s", w.bodies[0])
	}
	if bad := w.do(w.request("POST", "/connectors/weather", `no JSON`)); bad.status != http.StatusBadRequest || bad.kind != "request-not-shaped" {
		t.Errorf("a body that cannot be shaped: %+v", bad)
	}
}

// specification.md "a filter without records": an answer that could not be filtered does not pass.
func TestFilterLetsNothingPass(t *testing.T) {
	for name, c := range map[string]struct {
		status      int
		kind, body  string
		wantStatus  int
		wantProblem string
		wantBody    string
	}{
		"records":             {200, "application/json", `[{"mine":true},{"mine":false}]`, 200, "", `[{"mine":true}]`},
		"no records":          {200, "application/json", `{"error":"secret things"}`, 502, "answer-not-shaped", ""},
		"no JSON":             {200, "text/plain", `secret things`, 502, "answer-not-shaped", ""},
		"records without it":  {200, "application/json", `[{"mine":true},{"other":1}]`, 502, "answer-not-shaped", ""},
		"a failure":           {403, "application/json", `[{"secret":"things"}]`, 403, "", ""},
		"nothing":             {204, "", ``, 204, "", ""},
		"more than is looked": {200, "application/json", `[` + strings.Repeat(`{"mine":true},`, 100) + `{"mine":true}]`, 502, "answer-not-shaped", ""},
	} {
		w := newWorld(t, func(_ *options, d *gateway.Definition) {
			d.Response.Filter, d.Limits.ResponseBytes = "record.mine", 1000
		})
		w.answer = func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", c.kind)
			rw.WriteHeader(c.status)
			_, _ = io.WriteString(rw, c.body)
		}
		got := w.get("/connectors/weather")
		if got.status != c.wantStatus || got.kind != c.wantProblem || c.wantProblem == "" && got.body != c.wantBody || strings.Contains(got.body, "things") {
			t.Errorf("%s: the caller got %d %s %s", name, got.status, got.kind, got.body)
		}
	}
}

// APIs leave an empty list out, or write null. Nothing else passes for it, and the operator's test says so, since a misspelt name of
// the list looks the same.
func TestMissingList(t *testing.T) {
	for body, c := range map[string]struct {
		records, want string
		named         bool
	}{
		`{"estimate":0}`:                     {"messages", `{"messages":[]}`, true},
		`{"messages":null,"secret":"s"}`:     {"messages", `{"messages":[]}`, true},
		`null`:                               {"", `[]`, true},
		`{"messages":[]}`:                    {"messages", `{"messages":[]}`, false},
		`{"messages":[{"a":1},{"a":2}]}`:     {"messages", `{"messages":[{"a":1}]}`, false},
		"\xef\xbb\xbf" + `[{"a":1},{"a":2}]`: {"", `[{"a":1}]`, false},
		`{"messages":{"a":1}}`:               {"messages", "", false},
		`{"messages":"x"}`:                   {"messages", "", false},
		`[{"a":1}]`:                          {"messages", "", false},
		`{"estimate":0,"a":1}`:               {"", "", false},
		`null{`:                              {"", "", false},
	} {
		w := newWorld(t, func(_ *options, d *gateway.Definition) {
			d.Response = gateway.Response{Records: c.records, Filter: "record.a == 1"}
		})
		w.answer = func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, body)
		}
		if got := w.get("/connectors/weather"); (got.status == http.StatusOK) != (c.want != "") || c.want != "" && got.body != c.want {
			t.Errorf("%s: the caller got %+v", body, got)
		}
		result := testworld.Must(trial.Run(t.Context(), w.gateway, "weather", trial.Try{}))(t)
		if named := strings.Contains(result.NoRecords, "no list "+c.records); named != c.named {
			t.Errorf("%s: the test says %q", body, result.NoRecords)
		}
	}
}

func TestInvalidExpressions(t *testing.T) {
	w := newWorld(t)
	problems, paths := w.problems(gateway.Definition{URL: w.api.URL, Request: "{{ get_secret('s') }}", Response: gateway.Response{Filter: "record.(", Body: "nope"}})
	if paths != "request response.filter response.body" {
		t.Errorf("the problems are %+v", problems)
	}
}

// A response that has an invalid content type, or records without a filter, is refused.
func TestInvalidResponses(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		gateway.Response
		problem string
	}{
		{gateway.Response{Filter: "true", Records: "records", ContentType: "text/html; charset=utf-8"}, "[]"},
		{gateway.Response{ContentType: "text/html; charset"}, "[{response.content_type 0 is no media type, such as text/html; charset=utf-8 }]"},
		{gateway.Response{ContentType: "html"}, "[{response.content_type 0 is no media type, such as text/html; charset=utf-8 }]"},
		{gateway.Response{Records: "records"}, "[{response.records 0 is without a filter: leave it out }]"},
	} {
		problems, _ := w.problems(gateway.Definition{URL: w.api.URL, Response: c.Response})
		if got := fmt.Sprint(problems); got != c.problem {
			t.Errorf("%+v: the problems are %s, want %s", c.Response, got, c.problem)
		}
	}
}

// All expressions see the caller's request. The request to the API has secrets in its query.
func TestExpressionsKnowTheCallersRequest(t *testing.T) {
	const known = "request.method + ' ' + request.path + ' ' + (request.query.page ?? '-') + ' ' + (request.query.token ?? '-') + ' ' + (request.query.key ?? '-')"
	w := newWorld(t, func(_ *options, d *gateway.Definition) {
		d.Paths = []string{"/today"}
		d.Auth[0].Config["in"], d.Auth[0].Config["key"] = "query", "key"
		d.Query = []gateway.Parameter{{Name: "token", Value: "{{ get_secret('key') }}"}, {Name: "page", Value: "1", Overridable: true}}
		d.Request, d.Response.Body = "{{ "+known+" }}", known
	})
	const want = "GET /connectors/weather/today 7 - -"
	if got := w.get("/connectors/weather/today?page=7"); got.body != want || w.bodies[0] != want {
		t.Errorf("of the answer: %s, of the request: %s, want %s", got.body, w.bodies[0], want)
	}
	if sent := w.got[0].URL.Query(); sent.Get("token") != secret || sent.Get("key") != secret {
		t.Errorf("the API was asked with %v", sent)
	}
}

// Definitions cannot be decoded: encoding/json would silently ignore the member per_user, and there would be no limit.
func TestUndecodedDefinitions(t *testing.T) {
	for name, target := range map[string]any{
		"a definition":            &gateway.Definition{},
		"limits":                  &gateway.Limits{},
		"a response":              &gateway.Response{},
		"one in another document": &struct{ Weather gateway.Definition }{},
		"a list":                  &[]gateway.Definition{},
	} {
		document := `{"weather":{"limits":{"per_user":5}}}`
		if name == "a list" {
			document = `[` + document + `]`
		}
		testworld.WantError(t, name, json.Unmarshal([]byte(document), target), "package connectors")
		testworld.WantError(t, name, yaml.Unmarshal([]byte(document), target), "package connectors")
	}
	if text, err := yaml.Marshal(gateway.Limits{PerUser: 5}); err != nil || !strings.HasPrefix(string(text), "peruser: 5\n") {
		t.Errorf("encoded, limits are %s: %v", text, err)
	}
}

// The defaults that the schema names are those that a connector has.
func TestDefaultsOfDefinitions(t *testing.T) {
	w := newWorld(t)
	d := w.connector(gateway.Definition{Permalink: "x", URL: w.api.URL, Auth: []host.Auth{{Type: "none"}}}).Definition()
	found := 0
	for _, part := range []any{d, d.Streams, d.Limits} {
		v := reflect.ValueOf(part)
		for field := range v.Type().Fields() {
			want, ok := field.Tag.Lookup("default")
			got := fmt.Sprint(v.FieldByIndex(field.Index))
			if length, err := time.ParseDuration(want); err == nil && field.Type == reflect.TypeFor[time.Duration]() {
				want = length.String()
			}
			if ok && strings.Trim(got, "[]") != want {
				t.Errorf("%s = %s, want %s as its tag has", field.Name, got, want)
			}
			if ok {
				found++
			}
		}
	}
	if found < 5 {
		t.Errorf("found = %d, want the tags of at least 5 fields", found)
	}
}

// The error has the host's problems and the gateway's. The paths of the host's problems have the names of the definition.
func TestDefinitionsInvalidForHost(t *testing.T) {
	w := newWorld(t)
	d := gateway.Definition{URL: "ftp://{{ user.id }}/", Auth: []host.Auth{{Type: "api_key"}}, Paths: []string{"users"}}
	_, err := gateway.NewConnector(t.Context(), w.host, d)
	var wrong *host.ConfigError
	if !errors.As(err, &wrong) {
		t.Fatalf("the error is %v, want a host.ConfigError", err)
	}
	if got := pathsOf(wrong.Problems); got != "permalink auth.config.key auth.config.value auth.config.in url paths[0]" {
		t.Errorf("complained of is %s", got)
	}
	c := w.connector(gateway.Definition{Name: "Crème & Co.", URL: w.api.URL, Auth: []host.Auth{{Type: "none"}}})
	if got := c.Definition().Permalink; got != "creme-co" || c.Upstream().Config().Name != got {
		t.Errorf("without a permalink, it is %q", got)
	}
	if _, err := gateway.NewConnector(t.Context(), w.host, gateway.Definition{URL: w.api.URL, Auth: []host.Auth{{Type: "none"}}}); err == nil || !strings.Contains(err.Error(), "permalink: is empty, and so is what the name would make: set Name or Permalink") {
		t.Errorf("the error without a name is %v", err)
	}
	testworld.Check(t, w.host.Close(t.Context()))
	d = gateway.Definition{Permalink: "x", URL: w.api.URL, Auth: []host.Auth{{Type: "none"}}}
	if _, err := gateway.NewConnector(t.Context(), w.host, d); !errors.Is(err, host.ErrClosed) {
		t.Errorf("the error of a host that is closed is %v", err)
	}
}

// A method that is a misspelt one is a problem, and an API's own is not.
func TestMisspeltMethods(t *testing.T) {
	w := newWorld(t)
	problems, _ := w.problems(gateway.Definition{URL: w.api.URL, Methods: []string{"POTS", "GTE", "PROPFIND", "PURGE", "SUBSCRIBE", "DELET"}})
	if got, want := fmt.Sprint(problems), `[{method[0] 0 there is no method POTS; did you mean "POST"? } {method[1] 0 there is no method GTE; did you mean "GET"? } {method[5] 0 there is no method DELET; did you mean "DELETE"? }]`; got != want {
		t.Error(got)
	}
}

// threats.md 57: an expression that would run for hours ends with an error.
func TestExpressionsEnd(t *testing.T) {
	list := strings.Repeat(",1", 20_000)
	for name, change := range map[string]change{
		"response.body": func(_ *options, d *gateway.Definition) {
			d.Response.Body = "all(response.body, not (2 in response.body))"
		},
		"response.filter": func(_ *options, d *gateway.Definition) { d.Response.Filter = "not (2 in response.body)" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, change, func(_ *options, d *gateway.Definition) { d.Timeout = time.Hour })
			w.answer = func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(rw, "["+list[1:]+"]")
			}
			if got := w.get("/connectors/weather"); got.kind != "answer-not-shaped" || !strings.Contains(w.log.String(), "steps") {
				t.Errorf("the caller got %d %.100s, and the log is %s", got.status, got.body, w.log.String())
			}
		})
	}
}

// threats.md 58: many bodies of one connector do not block the bodies of another.
func TestOneConnectorHasNotAllPlaces(t *testing.T) {
	w := newWorld(t, func(_ *options, d *gateway.Definition) { d.Response.Body = "'shaped'" })
	var leave []func()
	for range w.gateway.Share() {
		leave = append(leave, w.gateway.Shape(t.Context(), "flooded"))
	}
	waiting, stop := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	for range 20 {
		flood.Go(func() { w.gateway.Shape(waiting, "flooded") })
	}
	if got := w.get("/connectors/weather"); got.body != "shaped" {
		t.Errorf("the caller of another connector got %+v", got)
	}
	stop()
	flood.Wait()
	for _, leave := range leave {
		leave()
	}
}

// With a filter, the header Link does not pass: it may name records that the user may not see.
func TestFilteredLinks(t *testing.T) {
	const next = `<https://api.example.com/orders?after=bob-7>; rel="next"`
	for filter, want := range map[string]string{"": next, "record.owner == 'ann'": "", "true": ""} {
		w := newWorld(t, func(_ *options, d *gateway.Definition) { d.Response.Filter = filter })
		w.answer = func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Link", next)
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, `[{"owner":"ann"},{"owner":"bob"}]`)
		}
		if got := w.get("/connectors/weather"); got.status != http.StatusOK || got.header.Get("Link") != want {
			t.Errorf("with the filter %q, the caller got %d and Link %q", filter, got.status, got.header.Get("Link"))
		}
	}
}
