package conform

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// begin is the time at which a harness begins, and tokensEnd that at which tokens expire.
var (
	begin     = time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)
	tokensEnd = begin.Add(time.Hour)
)

// issued returns the Answer of an endpoint that issues all that the description wants, for an hour, with other tokens in each answer.
func (c *conformer) issued(number int) hosttest.Answer {
	return c.changed(number, http.StatusOK, func(map[string]any) {})
}

// changed is like issued, with another status, and with a change of the JSON.
func (c *conformer) changed(number, status int, change func(tree map[string]any)) hosttest.Answer {
	count := 0
	return func(r *http.Request) (*http.Response, error) {
		count++
		token := func(name string) string { return fmt.Sprintf("%s.%d.%d.%s", name, number, count, c.secrets["code"]) }
		kind := "Bearer"
		if r.Header.Get("DPoP") != "" {
			kind = "DPoP"
		}
		w := &writer{
			header: http.Header{"Content-Type": {"application/json"}, "Date": {begin.Format(http.TimeFormat)}}, token: token,
			tree: map[string]any{
				"access_token": token("access_token"), "token_type": kind, "expires_in": 3600, "refresh_token": token("refresh_token"),
			},
		}
		// The type stays if any of the answers that are made of it can be that one.
		fits := slices.ContainsFunc(c.info.Answers, func(a abi.Answer) bool {
			return strings.HasSuffix(a.From, "/token_type") && slices.ContainsFunc(a.Enum, func(one string) bool { return strings.EqualFold(one, kind) })
		})
		for _, a := range c.info.Answers {
			if !fits || !strings.HasSuffix(a.From, "/token_type") {
				w.put(&a, c.sources(&a)...)
			}
		}
		change(w.tree)
		return w.response(status), nil
	}
}

// sources returns the places of an answer: the one of the description, or those of all configurations.
func (c *conformer) sources(a *abi.Answer) []string {
	if a.FromField == "" {
		return []string{a.From}
	}
	all := []string{"json:/" + a.FromField}
	for _, f := range c.info.Fields {
		if f.Name == a.FromField && f.Default != "" {
			all = append(all, f.Default)
		}
	}
	for _, config := range slices.Concat(c.callers, c.configs) {
		if text, ok := config[a.FromField].(string); ok && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

type writer struct {
	header http.Header
	tree   map[string]any
	form   url.Values
	token  func(name string) string
}

// put adds the value of an answer at some places. It leaves out names of errors.
func (w *writer) put(a *abi.Answer, places ...string) {
	var value any = w.token(a.Name)
	switch a.Kind {
	case contract.AnswerInteger:
		value = 3600
	case contract.AnswerTime:
		value = tokensEnd.Format(time.RFC3339)
	case contract.AnswerEnum:
		if value = a.Enum[0]; strings.Contains(a.Name, "error") {
			return
		}
	default:
		if a.Pattern != "" { // the search for leaks does not know it
			value = sample(a.Pattern, w.token(a.Name))
		}
	}
	for _, place := range places {
		w.putAt(place, value, a.Kind == contract.AnswerTime)
	}
}

func (w *writer) putAt(place string, value any, isTime bool) {
	prefix, name, _ := strings.Cut(place, ":")
	text := fmt.Sprint(value)
	switch prefix + ":" {
	case contract.FromJSON:
		w.pointer(name, value)
	case contract.FromForm:
		if w.form == nil {
			w.form = url.Values{}
		}
		w.form.Set(name, text)
	case contract.FromHeader:
		if strings.EqualFold(name, "Date") {
			return
		}
		if isTime {
			text = tokensEnd.Format(http.TimeFormat)
		}
		w.header.Set(name, text)
	case contract.FromCookie:
		w.header.Add("Set-Cookie", (&http.Cookie{Name: name, Value: text}).String())
	case contract.FromAuth:
		scheme, parameter, _ := strings.Cut(name, "/")
		w.parameter("WWW-Authenticate", scheme+" ", parameter, text)
	case contract.FromInfo:
		w.parameter("Authentication-Info", "", name, text)
	}
}

// parameter adds a parameter to the value of a header that begins with a prefix.
func (w *writer) parameter(header, prefix, name, value string) {
	parameter := name + `="` + value + `"`
	values := w.header.Values(header)
	if i := slices.IndexFunc(values, func(text string) bool { return strings.HasPrefix(text, prefix) }); i >= 0 {
		values[i] += ", " + parameter
		return
	}
	w.header.Add(header, prefix+parameter)
}

// pointer puts a value at a place of the JSON. Elements of lists before it are null.
func (w *writer) pointer(pointer string, value any) {
	names := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	if pointer == "" {
		return
	}
	tree := w.tree
	for _, name := range names[:len(names)-1] {
		inner, ok := tree[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			tree[name] = inner
		}
		tree = inner
	}
	tree[names[len(names)-1]] = value
}

// lists returns a tree with a list in place of each object whose only member is 0.
func lists(tree any) any {
	object, ok := tree.(map[string]any)
	if !ok {
		return tree
	}
	for name := range object {
		object[name] = lists(object[name])
	}
	if element, ok := object["0"]; ok && len(object) == 1 {
		return []any{element}
	}
	return object
}

func (w *writer) response(status int) *http.Response {
	body, _ := json.Marshal(lists(w.tree)) // it has texts and numbers only
	if w.form != nil {
		w.header.Set("Content-Type", "application/x-www-form-urlencoded")
		body = []byte(w.form.Encode())
	}
	response := testworld.Response(status, string(body))
	response.Header = w.header
	return response
}

// reply returns an Answer with a status, a body and headers. By default, the body is JSON.
func reply(status int, body string, header ...string) hosttest.Answer {
	if !slices.Contains(header, "Content-Type") {
		header = append(header, "Content-Type", "application/json")
	}
	return hosttest.Answer(testworld.Respond(status, body, header...))
}

type item[T any] struct {
	name  string
	value T
}

type answer = item[hosttest.Answer]

const page = "<!DOCTYPE html><html><body><h1>Sorry</h1></body></html>"

func echo(r *http.Request) (*http.Response, error) {
	text := asText(r)
	members := map[string]string{"error": "invalid_request", "error_description": text, "message": text, "access_token": text}
	document, err := json.Marshal(members)
	return testworld.Response(http.StatusBadRequest, string(document), "Content-Type", "application/json"), err
}

// nonsense returns answers of an endpoint after which there is no token, the most telling first.
func nonsense() []answer {
	deep := strings.Repeat(`{"data":`, 5000) + "1" + strings.Repeat("}", 5000)
	return []answer{
		{"401 with a token", reply(401, `{"access_token":"token-of-a-refusal","token":"token-of-a-refusal","token_type":"Bearer","expires_in":60}`)},
		{"no connection", hosttest.Unreachable()},
		{"500 with a page", reply(500, page, "Content-Type", "text/html")},
		{"503 with Retry-After", reply(503, "", "Retry-After", "10")},
		{"400 with invalid_client", reply(400, `{"error":"invalid_client"}`)},
		{"400 with invalid_grant", reply(400, `{"error":"invalid_grant"}`)},
		{"400 with an error that is no text", reply(400, `{"error":{"code":[1]}}`)},
		{"400 with what the request had", echo},
		{"403 without a body", reply(403, "")},
		{"404 with a page", reply(404, page, "Content-Type", "text/html")},
		{"429", reply(429, `{"error":"slow_down"}`)},
		{"200 with a page", reply(200, page, "Content-Type", "text/html")},
		{"200 without a body", reply(200, "")},
		{"204", reply(204, "")},
		{"200 with half of an object", reply(200, `{"access_token":"half-of-a-tok`)},
		{"200 with null", reply(200, `null`)},
		{"200 with a list", reply(200, `[]`)},
		{"200 with an empty object", reply(200, `{}`)},
		{"200 with another error", reply(200, `{"error":"temporarily_unavailable"}`)},
		{"200 with a large body", reply(200, `{"message":"`+strings.Repeat("x", 200<<10)+`"}`)},
		{"200 with deep nesting", reply(200, deep)},
		{"302", reply(302, "", "Location", "https://elsewhere.test/login")},
	}
}

var oddValues = []item[any]{
	{"null", nil},
	{"a negative number", -1},
	{"a huge number", 1e300},
	{"a list", []any{"a", 1}},
	{"an object", map[string]any{"a": "b"}},
	{"true", true},
	{"empty", ""},
	{"of other alphabets", "Zugang-für-日本語-🔑"},
	{"with a line break", "first-line\nsecond-line"},
	{"long", strings.Repeat("t", 20<<10)},
}

// oddities returns answers of an endpoint after which there may be a token.
func (c *conformer) oddities(number int) []answer {
	all := []answer{{"201 with all that is wanted", c.changed(number, http.StatusCreated, func(map[string]any) {})}}
	add := func(name string, change func(value any) (changed any, keep bool)) {
		all = append(all, answer{name, c.changed(number, http.StatusOK, func(tree map[string]any) { leaves(tree, change) })})
	}
	for _, odd := range oddValues {
		add("200 in which all values are "+odd.name, func(any) (any, bool) { return odd.value, true })
	}
	next := 73514488 // each value is another one, so that none is a token and a time
	add("200 in which all values are numbers", func(any) (any, bool) {
		next += 1009
		return next, true
	})
	add("200 with times that are no times", func(value any) (any, bool) {
		text, isText := value.(string)
		if _, err := time.Parse(time.RFC3339, text); err == nil || !isText {
			return "soon", true
		}
		return value, true
	})
	add("200 with texts only", func(value any) (any, bool) {
		_, isText := value.(string)
		return value, isText
	})
	return all
}

// leaves changes each value of a tree that is no object, or removes it.
func leaves(tree map[string]any, change func(value any) (changed any, keep bool)) {
	for name, value := range tree {
		if inner, ok := value.(map[string]any); ok {
			leaves(inner, change)
		} else if changed, keep := change(value); keep {
			tree[name] = changed
		} else {
			delete(tree, name)
		}
	}
}
