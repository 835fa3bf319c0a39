package hosttest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/abi"
)

// issued returns the Answer of an endpoint that issues all that the description wants of one, for an hour. Each answer of a case has
// other tokens.
func (c *conformer) issued(number int) Answer {
	count := 0
	return func(r *http.Request) (*http.Response, error) {
		count++
		w := &writer{header: http.Header{"Content-Type": {"application/json"}, "Date": {conformTime.Format(http.TimeFormat)}}, tree: map[string]any{}, token: func(what string) string {
			return fmt.Sprintf("%s.%d.%d.%s", what, number, count, c.secrets["code"])
		}}
		kind := "Bearer"
		if r.Header.Get("DPoP") != "" {
			kind = "DPoP"
		}
		for member, value := range map[string]any{
			"access_token": w.token("access_token"), "token_type": kind, "expires_in": 3600, "refresh_token": w.token("refresh_token"),
		} {
			w.tree[member] = value
		}
		for i := range c.info.Answers {
			if a := &c.info.Answers[i]; !strings.HasSuffix(a.From, "/token_type") || !slices.Contains(a.Enum, kind) {
				w.put(a, c.sources(a)...)
			}
		}
		return w.response(r, http.StatusOK), nil
	}
}

// conformTime is the time at which a harness begins.
var conformTime = time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)

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
	for _, config := range slices.Concat(c.given, c.configs) {
		if text, ok := config[a.FromField].(string); ok && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// writer writes an answer, part by part.
type writer struct {
	header http.Header
	tree   map[string]any
	form   url.Values
	auth   map[string][]string
	info   []string
	token  func(what string) string
}

// put adds the value of an answer at some places. It leaves out names of errors.
func (w *writer) put(a *abi.Answer, places ...string) {
	var value any = w.token(a.Name)
	switch a.Kind {
	case abi.AnswerInteger:
		value = 3600
	case abi.AnswerTime:
		value = conformTime.Add(time.Hour).Format(time.RFC3339)
	case abi.AnswerEnum:
		if value = a.Enum[0]; strings.Contains(a.Name, "error") {
			return
		}
	}
	for _, place := range places {
		w.at(a, place, value)
	}
}

// at adds the value of an answer at a place.
func (w *writer) at(a *abi.Answer, place string, value any) {
	prefix, rest, _ := strings.Cut(place, ":")
	text := fmt.Sprint(value)
	switch prefix + ":" {
	case abi.FromJSON:
		w.pointer(rest, value)
	case abi.FromForm:
		if w.form == nil {
			w.form = url.Values{}
		}
		w.form.Set(rest, text)
	case abi.FromHeader:
		if strings.EqualFold(rest, "Date") {
			return
		}
		if a.Kind == abi.AnswerTime {
			text = conformTime.Add(time.Hour).Format(http.TimeFormat)
		}
		w.header.Set(rest, text)
	case abi.FromCookie:
		w.header.Add("Set-Cookie", (&http.Cookie{Name: rest, Value: text}).String())
	case abi.FromAuth:
		scheme, parameter, _ := strings.Cut(rest, "/")
		if w.auth == nil {
			w.auth = map[string][]string{}
		}
		w.auth[scheme] = append(w.auth[scheme], parameter+`="`+text+`"`)
	case abi.FromInfo:
		w.info = append(w.info, rest+`="`+text+`"`)
	}
}

// pointer puts a value at a place of the JSON. Elements of lists before it are null.
func (w *writer) pointer(pointer string, value any) {
	names := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	if pointer == "" {
		return
	}
	at := w.tree
	for _, name := range names[:len(names)-1] {
		next, ok := at[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			at[name] = next
		}
		at = next
	}
	at[names[len(names)-1]] = value
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

func (w *writer) response(r *http.Request, status int) *http.Response {
	for scheme, parameters := range w.auth {
		w.header.Add("WWW-Authenticate", scheme+" "+strings.Join(parameters, ", "))
	}
	if len(w.info) > 0 {
		w.header.Set("Authentication-Info", strings.Join(w.info, ", "))
	}
	body, _ := json.Marshal(lists(w.tree)) // it has texts and numbers only
	if w.form != nil {
		w.header.Set("Content-Type", "application/x-www-form-urlencoded")
		body = []byte(w.form.Encode())
	}
	return respond(r, status, w.header, string(body))
}

func respond(r *http.Request, status int, header http.Header, body string) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}
}

// reply returns an Answer with a status, a body and headers.
func reply(status int, body string, header ...string) Answer {
	return func(r *http.Request) (*http.Response, error) {
		h := http.Header{"Content-Type": {"application/json"}}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return respond(r, status, h, body), nil
	}
}

// named is an Answer with a name.
type named struct {
	name   string
	answer Answer
}

const page = "<!DOCTYPE html><html><body><h1>Sorry</h1></body></html>"

// nonsense returns answers of an endpoint after which there is no token, the most telling first.
func nonsense() []named {
	deep := strings.Repeat(`{"data":`, 5000) + "1" + strings.Repeat("}", 5000)
	echo := func(r *http.Request) (*http.Response, error) {
		var b strings.Builder
		body, err := readBody(r)
		if err != nil {
			return nil, err
		}
		fmt.Fprint(&b, r.URL, r.Header, string(body))
		text, err := json.Marshal(map[string]string{"error": "invalid_request", "error_description": b.String(), "message": b.String(), "access_token": b.String()})
		return respond(r, http.StatusBadRequest, http.Header{"Content-Type": {"application/json"}}, string(text)), err
	}
	return []named{
		{"401 with a token", reply(http.StatusUnauthorized, `{"access_token":"token-of-a-refusal","token":"token-of-a-refusal","token_type":"Bearer","expires_in":60}`)},
		{"no connection", Unreachable()},
		{"500 with a page", reply(http.StatusInternalServerError, page, "Content-Type", "text/html")},
		{"503 with Retry-After", reply(http.StatusServiceUnavailable, "", "Retry-After", "10")},
		{"400 with invalid_client", reply(http.StatusBadRequest, `{"error":"invalid_client"}`)},
		{"400 with invalid_grant", reply(http.StatusBadRequest, `{"error":"invalid_grant"}`)},
		{"400 with an error that is no text", reply(http.StatusBadRequest, `{"error":{"code":[1]}}`)},
		{"400 with what the request had", echo},
		{"403 without a body", reply(http.StatusForbidden, "")},
		{"404 with a page", reply(http.StatusNotFound, page, "Content-Type", "text/html")},
		{"429", reply(http.StatusTooManyRequests, `{"error":"slow_down"}`)},
		{"200 with a page", reply(http.StatusOK, page, "Content-Type", "text/html")},
		{"200 without a body", reply(http.StatusOK, "")},
		{"204", reply(http.StatusNoContent, "")},
		{"200 with half of an object", reply(http.StatusOK, `{"access_token":"half-of-a-tok`)},
		{"200 with null", reply(http.StatusOK, `null`)},
		{"200 with a list", reply(http.StatusOK, `[]`)},
		{"200 with an empty object", reply(http.StatusOK, `{}`)},
		{"200 with another error", reply(http.StatusOK, `{"error":"temporarily_unavailable"}`)},
		{"200 with a large body", reply(http.StatusOK, `{"message":"`+strings.Repeat("x", 200<<10)+`"}`)},
		{"200 with deep nesting", reply(http.StatusOK, deep)},
		{"302", reply(http.StatusFound, "", "Location", "https://elsewhere.test/login")},
	}
}

// changed returns an Answer with all that is wanted, whose JSON is changed.
func (c *conformer) changed(number int, change func(tree map[string]any)) Answer {
	good := c.issued(number)
	return func(r *http.Request) (*http.Response, error) {
		response, err := good(r)
		if err != nil || !strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
			return response, err
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return nil, err
		}
		var tree map[string]any
		if err := json.Unmarshal(body, &tree); err != nil {
			return nil, err
		}
		change(tree)
		text, err := json.Marshal(tree)
		return respond(r, response.StatusCode, response.Header, string(text)), err
	}
}

// oddValues are values in place of those of an answer.
var oddValues = []value{
	{"null", nil},
	{"numbers", numbers(0)},
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
func (c *conformer) oddities(number int) []named {
	all := []named{{"201 with all that is wanted", func(r *http.Request) (*http.Response, error) {
		response, err := c.issued(number)(r)
		if err == nil {
			response.StatusCode, response.Status = http.StatusCreated, "201 Created"
		}
		return response, err
	}}}
	for _, odd := range oddValues {
		all = append(all, named{"200 in which all values are " + odd.name, c.changed(number, func(tree map[string]any) {
			leaves(tree, func(any) (any, bool) {
				if n, ok := odd.value.(numbers); ok {
					odd.value = n + 1
					return 73514488 + 1009*int(n), true
				}
				return odd.value, true
			})
		})})
	}
	return append(all,
		named{"200 with times that are no times", c.changed(number, func(tree map[string]any) {
			leaves(tree, func(value any) (any, bool) {
				text, isText := value.(string)
				if _, err := time.Parse(time.RFC3339, text); err == nil || !isText {
					return "soon", true
				}
				return value, true
			})
		})},
		named{"200 with texts only", c.changed(number, func(tree map[string]any) {
			leaves(tree, func(value any) (any, bool) {
				_, isText := value.(string)
				return value, isText
			})
		})},
	)
}

// numbers stands for values that are numbers, each another one, so that none is a token and a time.
type numbers int

// leaves changes each value of a tree that is neither an object nor a list, or removes it.
func leaves(tree any, change func(value any) (changed any, keep bool)) {
	object, ok := tree.(map[string]any)
	if list, isList := tree.([]any); isList {
		for _, element := range list {
			leaves(element, change)
		}
	}
	if !ok {
		return
	}
	for name, value := range object {
		switch value.(type) {
		case map[string]any, []any:
			leaves(value, change)
		default:
			if changed, keep := change(value); keep {
				object[name] = changed
			} else {
				delete(object, name)
			}
		}
	}
}
