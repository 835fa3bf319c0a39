package casefile

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/jws"
)

// comparison compares the results of a step with what is expected, and reports each difference with its place.
type comparison struct {
	tb      hosttest.TB
	harness *hosttest.Harness
	place   string
}

func (c comparison) errorf(format string, args ...any) {
	c.tb.Helper()
	c.tb.Errorf("%s: %s", c.place, fmt.Sprintf(format, args...))
}

// failure reports whether an error is as expected, which is a part of its text, or "" for none.
func (c comparison) failure(err error, want string) bool {
	switch {
	case err != nil && want == "":
		c.errorf("%v", err)
	case err == nil && want != "":
		c.errorf("there is no error, and it should say %q", want)
	case err != nil && !strings.Contains(err.Error(), want):
		c.errorf("the error is %q, and should say %q", err, want)
	default:
		return true
	}
	return false
}

func (c comparison) target(got *url.URL, want Expect) {
	if want.URL != nil {
		c.text("the URL", []string{got.String()}, *want.URL)
	}
	c.values("the parameter", got.Query(), want.Query)
}

func (c comparison) message(header http.Header, body string, headers, form map[string]Text, text *Text) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		c.text("the header "+name, header.Values(name), headers[name])
	}
	if form != nil {
		if kind := header.Get("Content-Type"); kind != "" && !strings.HasPrefix(kind, "application/x-www-form-urlencoded") {
			c.errorf("the body is no form, but %s", kind)
			return
		}
		values, err := url.ParseQuery(body)
		if err != nil {
			c.errorf("the body is no form: %v", err)
		}
		c.values("the form's member", values, form)
	}
	if text != nil {
		c.text("the body", []string{body}, *text)
	}
}

func (c comparison) values(what string, got url.Values, want map[string]Text) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		c.text(what+" "+name, got[name], want[name])
	}
}

func (c comparison) exchanges(got []hosttest.Exchange, want []Exchange) {
	if len(got) != len(want) {
		var targets []string
		for _, x := range got {
			targets = append(targets, x.Method+" "+x.URL)
		}
		c.errorf("there are %d requests to token endpoints, and not %d: %q", len(got), len(want), targets)
		return
	}
	for i, w := range want {
		x := got[i]
		one := comparison{c.tb, c.harness, fmt.Sprintf("%s: exchange %d", c.place, i+1)}
		if w.Method != "" && w.Method != x.Method {
			one.errorf("the method is %s, and not %s", x.Method, w.Method)
		}
		if w.URL != "" && w.URL != x.URL {
			one.errorf("the URL is %q, and not %q", x.URL, w.URL)
		}
		one.message(x.Header, x.Body, w.Headers, w.Form, w.Body)
		if w.JSON == nil {
			continue
		}
		var document any
		if err := json.Unmarshal([]byte(x.Body), &document); err != nil {
			one.errorf("the body is no JSON: %v", err)
		} else if rendered := one.rendered(w.JSON); asJSON(document) != asJSON(rendered) {
			one.errorf("the body is %s, and not %s", asJSON(document), asJSON(rendered))
		}
	}
}

// text compares the values that a header or a parameter has.
func (c comparison) text(what string, got []string, want Text) {
	if want.Matches != nil || want.JWT != nil {
		switch {
		case len(got) != 1:
			c.errorf("%s is there %d times, and not once", what, len(got))
		case want.JWT != nil:
			c.jwt(what, got[0], want.JWT)
		case !want.Matches.MatchString(got[0]):
			c.errorf("%s is %q, which %s does not match", what, got[0], want.Matches)
		}
		return
	}
	var texts []string
	for _, source := range want.Texts {
		texts = append(texts, c.render(source))
	}
	if slices.Equal(got, texts) {
		return
	}
	list := func(texts []string) string { return strings.Trim(fmt.Sprintf("%q", texts), "[]") }
	actual := list(got)
	if len(got) == 0 {
		actual = "not there"
	}
	if len(texts) == 0 {
		c.errorf("%s is %s, and should not be there", what, actual)
		return
	}
	c.errorf("%s is %s, and not %s", what, actual, list(texts))
}

func (c comparison) jwt(what, got string, want *JWT) {
	header, claims, err := jws.Decode(strings.TrimPrefix(got, "Bearer "))
	if err != nil {
		c.errorf("%s is %q: %v", what, got, err)
		return
	}
	c.members("header of "+what, header, want.Header)
	c.members("claims of "+what, claims, want.Claims)
}

func (c comparison) members(place string, got, want map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		value, rendered := got[name], c.rendered(want[name])
		if number, ok := value.(json.Number); ok && rendered == number.String() && rendered != want[name] {
			continue // an expression results in a text
		}
		if asJSON(rendered) != asJSON(value) {
			c.errorf("%s in the %s is %s, and not %s", name, place, asJSON(value), asJSON(rendered))
		}
	}
}

// rendered returns a value of JSON whose texts are rendered.
func (c comparison) rendered(v any) any {
	return Mapped(v, strings.Clone, func(leaf any) any {
		if text, ok := leaf.(string); ok {
			return c.render(text)
		}
		return leaf
	})
}

// Mapped returns a copy of a value of JSON, with other names of members and with other values where there are neither members nor elements.
func Mapped(value any, memberName func(string) string, leaf func(any) any) any {
	switch v := value.(type) {
	case map[string]any:
		result := make(map[string]any, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			result[memberName(name)] = Mapped(v[name], memberName, leaf)
		}
		return result
	case []any:
		result := make([]any, len(v))
		for i := range v {
			result[i] = Mapped(v[i], memberName, leaf)
		}
		return result
	}
	return leaf(value)
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// render returns a text whose expressions are evaluated, as those of a connector are.
func (c comparison) render(source string) string {
	text, err := c.harness.Render(source)
	if err != nil {
		c.tb.Fatalf("%s: %q: %v", c.place, source, err)
	}
	return text
}
