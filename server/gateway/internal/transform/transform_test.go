package transform

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/expr"
)

// testInput returns an input with a user of a tenant, a request and a JSON answer.
func testInput() *Input {
	variables := map[string]string{"region": "eu", "nothing": ""}
	return &Input{
		User:     &host.User{ID: "u1", Email: "ada@example.com", Username: "ada", FirstName: "{{ now() }}", TenantID: "t1"},
		Variable: func(name string) (string, bool) { v, ok := variables[name]; return v, ok },
		Now:      func() time.Time { return time.Unix(1700000000, 0) },
		UUID:     func() (string, error) { return "0190a5b2-0000-7000-8000-000000000000", nil },
		Request: Request{
			Method: "POST", Path: "/notes/7",
			Query:  url.Values{"page": {"2", "3"}},
			Header: http.Header{"Accept": {"text/plain", "text/html"}},
			Body:   []byte(`{"title":"größer","ids":[1,2],"price":1.10}`),
		},
		Response: Response{
			StatusCode: 201,
			Header:     http.Header{"Content-Type": {"application/json; charset=utf-8"}, "Etag": {`"abc"`}, "Link": {"a", "b"}},
			Body: []byte(`{"z":1,"a":{ "y":1.10, "x":[9007199254740993, 1e400] },"id":12345678901234567890,"rate":1.10,"none":null,` +
				`"items":[{"n":"b","v":2.50},{"n":"a","v":1}],"name":"Ada"}`),
		},
	}
}

func runBody(t *testing.T, compile func(string) (*Body, []*expr.Error), source string, in *Input) (body string, isJSON bool, err error) {
	t.Helper()
	b, problems := compile(source)
	if len(problems) > 0 {
		t.Fatalf("%s: problems = %v", source, problems)
	}
	out, isJSON, err := b.Run(t.Context(), in)
	return string(out), isJSON, err
}

func TestRequestTemplate(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"no expression", `{"a":1}`, `{"a":1}`},
		{"text around", `<{{ user.email }}>`, "<ada@example.com>"},
		{"rendered once", "{{ user.first_name }}", "{{ now() }}"},
		{"the caller's body", "{{ body_text }}", `{"title":"größer","ids":[1,2],"price":1.10}`},
		{"a member of the caller's body", "{{ from_json(body_text).title }}", "größer"},
		{"a list in a template is JSON", "{{ from_json(body_text).ids }}", "[1,2]"},
		{"a number keeps its text", "{{ from_json(body_text).price }}", "1.10"},
		{"quoted", `{"t":{{ json_encode(from_json(body_text).title + '"') }}}`, `{"t":"größer\""}`},
		{"a new object", `{{ json_encode({z: user.id, a: from_json(body_text)}) }}`, `{"z":"u1","a":{"title":"größer","ids":[1,2],"price":1.10}}`},
		{"request", "{{ request.method }} {{ request.path }} {{ request.query.page }} {{ request.headers.accept }}", "POST /notes/7 2 text/plain"},
		{"all values", "{{ request.query_values['page'] }} {{ request.header_values['ACCEPT'] | join('+') }}", `["2","3"] text/plain+text/html`},
		{"tenant", "{{ tenant_id }}", "t1"},
		{"get_variable", "{{ get_variable('region') | upper() }}", "EU"},
		{"uuid", "{{ uuid() }}", "0190a5b2-0000-7000-8000-000000000000"},
		{"default of an empty field", "{{ user.last_name | default(user.username) }}", "ada"},
		{"default of a query parameter that is not there", "{{ request.query.size | default(10) }}", "10"},
		{"default does not look at what it does not need", "{{ user.email | default(user.last_name) }}", "ada@example.com"},
		{"url_encode", "{{ url_encode('a b&c') }}", "a+b%26c"},
	} {
		if got, _, err := runBody(t, new(Patterns).CompileRequest, c.source, testInput()); err != nil || got != c.want {
			t.Errorf("%s: %s\n got %s, %v\nwant %s", c.name, c.source, got, err, c.want)
		}
	}
}

func TestResponseExpression(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"text is itself", "response.body.name", "Ada"},
		{"untouched", "response.body", string(testInput().Response.Body)},
		{"order, white space and numbers of what passes through", "{b: response.body.a, a: 1}", `{"b":{ "y":1.10, "x":[9007199254740993, 1e400] },"a":1}`},
		{"a large integer", "response.body.a.x[0]", "9007199254740993"},
		{"an integer that fits nowhere", "[response.body.id]", "[12345678901234567890]"},
		{"a number that fits nowhere", "response.body.a.x[-1]", "1e400"},
		{"a number as a member", "{r: response.body.rate}", `{"r":1.10}`},
		{"a number from each record", "map(response.body.items, .v)", "[2.50,1]"},
		{"records that stay are untouched", "filter(response.body.items, .v > 1)", `[{"n":"b","v":2.50}]`},
		{"status and headers", "{s: response.status_code, e: response.headers.etag, l: response.header_values.link}", `{"s":201,"e":"\"abc\"","l":["a","b"]}`},
		{"a header that is not there", "response.headers['X-None'] == nil", "true"},
		{"a template", "n={{ response.body.name }}", "n=Ada"},
	} {
		if got, _, err := runBody(t, new(Patterns).CompileResponse, c.source, testInput()); err != nil || got != c.want {
			t.Errorf("%s: %s\n got %s, %v\nwant %s", c.name, c.source, got, err, c.want)
		}
	}
}

func TestJSONMediaTypes(t *testing.T) {
	for source, want := range map[string]bool{
		"response.body": true, "response.body.name": false, "response.body.id": true, "nil": true, "{a: 1}": true, "json_encode(1)": false, "{{ response.body.a }}": false,
	} {
		if _, isJSON, err := runBody(t, new(Patterns).CompileResponse, source, testInput()); err != nil || isJSON != want {
			t.Errorf("%s: isJSON = %v, err = %v", source, isJSON, err)
		}
	}
}

func TestTextResponse(t *testing.T) {
	in := testInput()
	in.Response.Header.Set("Content-Type", "text/html")
	in.Response.Body = []byte("<b>{{ x }}</b>")
	if got, isJSON, err := runBody(t, new(Patterns).CompileResponse, "response.body", in); got != "<b>{{ x }}</b>" || isJSON || err != nil {
		t.Errorf("got %s, %v, %v", got, isJSON, err)
	}
	in.Response.Header.Set("Content-Type", "application/problem+json")
	in.Response.Body = []byte(`{"a":"b"}`)
	if got, _, err := runBody(t, new(Patterns).CompileResponse, "response.body.a", in); got != "b" || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestProblems(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"a secret", "{{ get_secret('crm') }}", "column 4: get_secret is not available here: a secret in request or response would reach the caller; put it into auth, headers or query"},
		{"the user's token", "{{ user.token }}", "column 4: user.token is not available here: the user's token goes to token endpoints only"}, // threats.md 97
		{"the user's token in brackets", "{{ user['token'] }}", "column 4: user.token is not available here"},
		{"a name that is nearly right", "{{ usr.email }}", `column 4: unknown name "usr": did you mean user?`},
		{"a field that is nearly right", "{{ user.mail }}", `column 4: unknown field "mail" of user: did you mean email?`},
		{"a field that is not", "{{ request.cookies }}", `unknown field "cookies" of request: there are header_values, headers, method, path, query, query_values`},
		{"a function that is nearly right", "{{ fromjson('') }}", `unknown function "fromjson": did you mean from_json?`},
		{"a group", "{{ user }}", "user is no value"},
		{"a family", "{{ request.headers }}", "request.headers is no value: name one of them"},
		{"a name in a family that is not literal", "{{ request.query[tenant_id] }}", "request.query takes a literal name"},
		{"a function without its call", "{{ now }}", "now is a function: write now(…)"},
		{"response in a request", "{{ response.body }}", "column 4: response.body is not available here"},
		{"record in a request", "{{ record.id }}", "column 4: record is not available here"},
		{"a header of the response in a request", "{{ response.headers.etag }}", "column 4: response.headers is not available here"},
		{"an unknown field of response in a request", "{{ response.x }}", "column 4: response is not available here"},
		{"bytes", "{{ b'hunter2' }}", "this is not available here"},
		{"a pattern", "{{ 'x' matches '(hunter2' }}", "the pattern is no regular expression of RE2: missing closing )"},
		{"the machine's own names", "{{ $env }}", `unknown name "$env"`},
		{"let with a name that is taken", "{{ let user = 1; user }}", `"user" has a meaning already`},
	} {
		_, problems := new(Patterns).CompileRequest(c.source)
		if len(problems) == 0 || !strings.Contains(problems[0].Error(), c.want) {
			t.Errorf("%s: %s\n got %v\nwant %s", c.name, c.source, problems, c.want)
		}
		for _, p := range problems {
			if strings.Contains(p.Message, "hunter2") {
				t.Errorf("%s: %s: the problem quotes the source: %v", c.name, c.source, p)
			}
		}
	}

	t.Run("every problem at once", func(t *testing.T) {
		_, problems := new(Patterns).CompileRequest("{{ a + b }} {{ c( }} {{ now()")
		var columns []int
		for _, p := range problems {
			columns = append(columns, p.Column)
		}
		if !slices.Equal(columns, []int{4, 8, 18, 22}) {
			t.Errorf("problems = %v", problems)
		}
	})

	t.Run("limits of a source", func(t *testing.T) {
		for source, want := range map[string]string{
			strings.Repeat("x", MaxSource+1):                    "longer than 64 KiB",
			strings.Repeat("{{1}}", MaxExpressions+1):           "more than 256 expressions",
			"{{ " + strings.Repeat("1,", MaxTokens/2+1) + " }}": "more than 4096 tokens",
		} {
			if _, problems := new(Patterns).CompileRequest(source); len(problems) != 1 || !strings.Contains(problems[0].Message, want) {
				t.Errorf("want %s, got %v", want, problems)
			}
		}
		if _, problems := new(Patterns).CompileRequest(strings.Repeat("x", MaxSource)); len(problems) > 0 {
			t.Errorf("a source of 64 KiB: %v", problems)
		}
		deep := strings.Repeat("(", MaxTokens/2-1) + "1" + strings.Repeat(")", MaxTokens/2-1)
		if _, problems := new(Patterns).CompileResponse(deep); len(problems) > 0 {
			t.Errorf("problems = %v", problems)
		}
	})
}

// An error has a column, and quotes no value of the input.
func TestErrorsSayWhereAndQuoteNothing(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"a missing user field", "'a' + user.last_name", "column 7: user.last_name is missing"},
		{"a missing variable", "get_variable('none')", "get_variable('none'): there is no such variable"},
		{"a template's null", "a{{ response.body.none }}", "column 5: the value is missing or null: give default(value, other)"},
		{"a comparison", "response.body.s > 1", "column 17: > does not take a text and a number"},
		{"a comparison with a number that fits nowhere", "response.body.big > 1", "> does not take a number that is too long and a number"},
		{"JSON in a text", "from_json(response.body.s)", "not well-formed JSON at byte 0"},
		{"base64", "base64_decode(response.body.s)", "not base64"},
		{"an infinite number", "1 / 0", "infinite or none"},
		{"text that is not UTF-8", `{a: base64_decode('/w==')}`, "not UTF-8"},
		{"UUID", "uuid()", "uuid(): no random bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := testInput()
			in.UUID = func() (string, error) { return "", errors.New("no random bytes") }
			in.Response.Body = []byte(`{"s":"hunter2","l":[1],"none":null,"big":12345678901234567890}`)
			_, _, err := runBody(t, new(Patterns).CompileResponse, c.source, in)
			var e *expr.Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) || e.Column == 0 {
				t.Fatalf("%s\n got %v\nwant %s", c.source, err, c.want)
			}
			if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "123456789") {
				t.Errorf("the error quotes a value: %v", err)
			}
		})
	}
}

func TestStrictJSON(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"two members of one name", `{"a":1,"a":2}`, "column 7: response.body: JSON with two members of one name at byte 7"},
		{"text that is not UTF-8", "\"\xff\"", "not well-formed"},
		{"half a surrogate", `"\ud800"`, "not well-formed"},
		{"nothing", "", "not well-formed"},
		{"more behind its end", `{} hunter2`, "more behind its end"},
		{"too deep", strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1), "nested more than 100 deep"},
		{"far too deep", strings.Repeat("[", 1<<20), "nested more than 100 deep"},
		{"too many values", "[" + strings.Repeat("[],", MaxValues/4) + "1]", "more than 524288 values"},
	} {
		in := testInput()
		in.Response.Body = []byte(c.body)
		if _, _, err := runBody(t, new(Patterns).CompileResponse, "upper(response.body)", in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
	in := testInput()
	in.Response.Body = []byte(strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth))
	if got, _, err := runBody(t, new(Patterns).CompileResponse, "response.body", in); err != nil || got != string(in.Response.Body) {
		t.Error(err)
	}
}
