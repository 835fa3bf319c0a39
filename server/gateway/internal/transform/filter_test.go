package transform

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func runFilter(t *testing.T, source, records, body string) (string, error) {
	t.Helper()
	f, problems := new(Patterns).CompileFilter(source, records)
	if len(problems) > 0 {
		t.Fatalf("%s: problems = %v", source, problems)
	}
	in := testInput()
	in.Response.Body = []byte(body)
	out, err := f.Run(t.Context(), in)
	return string(out), err
}

// recordsOf returns the name of the member that has the records of a body, or "" if the body itself is the list.
func recordsOf(body string) string {
	if strings.Contains(body, `"records"`) {
		return "records"
	}
	return ""
}

func TestFilter(t *testing.T) {
	const mine = "record.owner == user.email"
	for _, c := range []struct{ name, source, body, want string }{
		{"an array", mine, `[{"owner":"ada@example.com","n":1},{"owner":"bob"}]`, `[{"owner":"ada@example.com","n":1}]`},
		{"byte for byte", mine, "[{\"owner\":\"bob\"} ,\n { \"x\":1.10, \"owner\" : \"ada\\u0040example.com\" }\t]", `[{ "x":1.10, "owner" : "ada\u0040example.com" }]`},
		{"none stays", mine, `[{"owner":"bob"},{"owner":null},{}]`, `[]`},
		{"all stay", mine, `[ {"owner":"ada@example.com"} ]`, `[ {"owner":"ada@example.com"} ]`},
		{"no records", mine, `[ ]`, `[ ]`},
		{"a member with records", mine, `{ "total":2, "records": [{"owner":"bob"},{"owner":"ada@example.com"}], "next":[{"owner":"bob"}]}`, `{"records":[{"owner":"ada@example.com"}]}`},
		{"records that are texts", "record startsWith 'a'", `["ab", "ba" ,"a"]`, `["ab","a"]`},
		{"records that are numbers", "record > 1", `[1, 2.50,3]`, `[2.50,3]`},
		{"large integers are exact", "record.id == 9007199254740993", `[{"id":9007199254740992},{"id":9007199254740993},{"id":1}]`, `[{"id":9007199254740993}]`},
		{"integers that fit nowhere are equal by their text", "record.a == record.b", `[{"a":12345678901234567890,"b":12345678901234567891},{"a":12345678901234567890,"b":12345678901234567890}]`, `[{"a":12345678901234567890,"b":12345678901234567890}]`},
		{"the response beside the record", "record.v >= response.body.least and response.status_code == 201", `{"least":2,"records":[{"v":1},{"v":2}]}`, `{"records":[{"v":2}]}`},
		{"lists in a record", "user.id in (record.members ?? [])", `[{"members":["u1","u2"]},{"members":["u3"]},{}]`, `[{"members":["u1","u2"]}]`},
		{"objects in a list in a record", "any(record.members ?? [], .id == user.id)", `[{"members":[{"id":"u1"}]},{"members":[]},{"members":null}]`, `[{"members":[{"id":"u1"}]}]`},
		{"an id that is a number", "string(default(record.id, '')) == '7'", `[{"id":7},{"id":70},{}]`, `[{"id":7}]`},
		{"the same for all", "true", `[1,2]`, `[1,2]`},
	} {
		if got, err := runFilter(t, c.source, recordsOf(c.body), c.body); err != nil || got != c.want {
			t.Errorf("%s: %s over %s\n got %s, %v\nwant %s", c.name, c.source, c.body, got, err, c.want)
		}
	}
}

// specification.md 3.9, specification.md "a filter without records": an answer that could not be filtered never passes.
func TestFailingFilter(t *testing.T) {
	const mine = "record.owner == user.email"
	for _, c := range []struct{ name, source, body, want string }{
		{"nothing", mine, ``, "not well-formed JSON"},
		{"no JSON", mine, `hunter2`, "not well-formed JSON"},
		{"a text", mine, `"hunter2"`, "it must be a JSON array, or response.records name the member that is one"},
		{"an object without an array", mine, `{"error":"x"}`, "has no records"},
		{"an object with an array", mine, `{"owner":"bob","tags":[]}`, "has no records"},
		{"records that are no array", mine, `{"records":{"a":[]}}`, "the member that response.records names is not an array there"},
		{"an array further down", mine, `{"data":{"items":[]}}`, "has no records"},
		{"cut off", mine, `[{"owner":"ada@example.com"}`, "not well-formed JSON"},
		{"two documents", mine, `[] []`, "more behind its end"},
		{"two members of one name", mine, `[{"owner":"bob","owner":"ada@example.com"}]`, "two members of one name"},
		{"two arrays of one name", mine, `{"records":[],"records":[]}`, "two members of one name"},
		{"a record that is nested too deep", "true", "[" + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "]", "nested more than"},
		{"one record does not have what is compared", "record.n > 1", `[{"n":2},{}]`, "column 10: > does not take null and a number"},
		{"one record is of another kind", mine, `[{"owner":"ada@example.com"},1]`, "only objects and lists have members"},
		{"not a boolean", "record.ok", `[{"ok":true},{"ok":"hunter2"}]`, "a filter is true or false"},
		{"null is not a boolean", "record.ok", `[{}]`, "a filter is true or false"},
		{"no user", "record.owner == user.last_name", `[{"owner":""}]`, "user.last_name is missing"},
		{"a list that is an empty text", "none(record.blocked, # == user.id)", `[{"blocked":""}]`, "a list is wanted"},
		{"a list that is an object", "none(record.blocked, # == user.id)", `[{"blocked":{}}]`, "a list is wanted"},
	} {
		got, err := runFilter(t, c.source, recordsOf(c.body), c.body)
		if err == nil || got != "" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %q, %v, want %s", c.name, got, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error quotes a value: %v", c.name, err)
		}
	}

	t.Run("the context ends it between records", func(t *testing.T) {
		f, _ := new(Patterns).CompileFilter("uuid() != ''", "")
		ctx, cancel := context.WithCancel(t.Context())
		calls, in := 0, testInput()
		in.Response.Body = []byte(`[1,2,3]`)
		in.UUID = func() (string, error) { calls++; cancel(); return "x", nil }
		if out, err := f.Run(ctx, in); !errors.Is(err, context.Canceled) || out != nil || calls != 1 {
			t.Errorf("got %s, %v after %d calls", out, err, calls)
		}
	})
}

func TestFilterProblems(t *testing.T) {
	for source, want := range map[string]string{
		"":                   "column 1: empty expression",
		"user.email":         "column 1: a filter is true or false",
		"1 + 1":              "a filter is true or false",
		"rekord.owner":       `column 1: unknown name "rekord": did you mean record?`,
		"get_secret('a')":    "column 1: get_secret is not available here",
		"{{ record.owner }}": "column 2: syntax error near",
	} {
		if _, problems := new(Patterns).CompileFilter(source, ""); len(problems) != 1 || !strings.Contains(problems[0].Error(), want) {
			t.Errorf("%s: got %v, want %s", source, problems, want)
		}
	}
}
