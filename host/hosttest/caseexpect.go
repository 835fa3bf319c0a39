package hosttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/keywright/keywright/host/internal/template"
)

// expecting compares the results of a step with what is expected, and reports each difference with its place.
type expecting struct {
	harness *Harness
	where   string
}

func (e expecting) errorf(format string, args ...any) {
	e.harness.tb.Helper()
	e.harness.tb.Errorf("%s: %s", e.where, fmt.Sprintf(format, args...))
}

func (e expecting) fatalf(format string, args ...any) {
	e.harness.tb.Helper()
	e.harness.tb.Fatalf("%s: %s", e.where, fmt.Sprintf(format, args...))
}

// failure reports whether an error is as expected, which is a part of its text, or "" for none.
func (e expecting) failure(err error, want string) bool {
	e.harness.tb.Helper()
	switch {
	case err != nil && want == "":
		e.errorf("%v", err)
	case err == nil && want != "":
		e.errorf("there is no error, and it should say %q", want)
	case err != nil && !strings.Contains(err.Error(), want):
		e.errorf("the error is %q, and should say %q", err, want)
	default:
		return true
	}
	return false
}

// target compares a URL and its query.
func (e expecting) target(got *url.URL, want Expect) {
	e.harness.tb.Helper()
	if want.URL != nil {
		e.text("the URL", []string{got.String()}, *want.URL)
	}
	e.values("the parameter", got.Query(), want.Query)
}

// message compares headers and a body.
func (e expecting) message(header http.Header, body string, headers, form map[string]Text, text *Text) {
	e.harness.tb.Helper()
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		e.text("the header "+name, header.Values(name), headers[name])
	}
	if form != nil {
		if kind := header.Get("Content-Type"); kind != "" && !strings.HasPrefix(kind, "application/x-www-form-urlencoded") {
			e.errorf("the body is no form, but %s", kind)
			return
		}
		values, err := url.ParseQuery(body)
		if err != nil {
			e.errorf("the body is no form: %v", err)
		}
		e.values("the form's member", values, form)
	}
	if text != nil {
		e.text("the body", []string{body}, *text)
	}
}

func (e expecting) values(what string, got url.Values, want map[string]Text) {
	e.harness.tb.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		e.text(what+" "+name, got[name], want[name])
	}
}

// exchanges compares the requests to token endpoints.
func (e expecting) exchanges(got []Exchange, want []ExpectedExchange) {
	e.harness.tb.Helper()
	if len(got) != len(want) {
		var to []string
		for _, x := range got {
			to = append(to, x.Method+" "+x.URL)
		}
		e.errorf("there are %d requests to token endpoints, and not %d: %q", len(got), len(want), to)
		return
	}
	for i, w := range want {
		x := got[i]
		at := expecting{e.harness, fmt.Sprintf("%s: exchange %d", e.where, i+1)}
		if w.Method != "" && w.Method != x.Method {
			at.errorf("the method is %s, and not %s", x.Method, w.Method)
		}
		if w.URL != "" && w.URL != x.URL {
			at.errorf("the URL is %q, and not %q", x.URL, w.URL)
		}
		at.message(x.Header, x.Body, w.Headers, w.Form, w.Body)
		if w.JSON == nil {
			continue
		}
		var document any
		if err := json.Unmarshal([]byte(x.Body), &document); err != nil {
			at.errorf("the body is no JSON: %v", err)
		} else if wanted := at.value(w.JSON); asJSON(document) != asJSON(wanted) {
			at.errorf("the body is %s, and not %s", asJSON(document), asJSON(wanted))
		}
	}
}

// text compares the values that a header or a parameter has.
func (e expecting) text(what string, got []string, want Text) {
	e.harness.tb.Helper()
	if want.Matches != nil || want.JWT != nil {
		switch {
		case len(got) != 1:
			e.errorf("%s is there %d times, and not once", what, len(got))
		case want.JWT != nil:
			e.jwt(what, got[0], want.JWT)
		case !want.Matches.MatchString(got[0]):
			e.errorf("%s is %q, which %s does not match", what, got[0], want.Matches)
		}
		return
	}
	var texts []string
	for _, source := range want.Texts {
		texts = append(texts, e.render(source))
	}
	if slices.Equal(got, texts) {
		return
	}
	shown := map[bool]string{true: "not there", false: strings.Trim(fmt.Sprintf("%q", got), "[]")}[len(got) == 0]
	if len(texts) == 0 {
		e.errorf("%s is %s, and should not be there", what, shown)
		return
	}
	e.errorf("%s is %s, and not %s", what, shown, strings.Trim(fmt.Sprintf("%q", texts), "[]"))
}

// jwt compares the members of a JWT.
func (e expecting) jwt(what, got string, want *JWT) {
	e.harness.tb.Helper()
	header, claims, err := decodeJWT(got)
	if err != nil {
		e.errorf("%s is %q: %v", what, got, err)
		return
	}
	e.members("header of "+what, header, want.Header)
	e.members("claims of "+what, claims, want.Claims)
}

// members compares members of a JWT's header or claims.
func (e expecting) members(place string, got, want map[string]any) {
	e.harness.tb.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		wanted, there := e.value(want[name]), got[name]
		if number, ok := there.(json.Number); ok && wanted == number.String() && wanted != want[name] {
			continue // an expression results in a text
		}
		if asJSON(wanted) != asJSON(there) {
			e.errorf("%s in the %s is %s, and not %s", name, place, asJSON(there), asJSON(wanted))
		}
	}
}

// value returns a value of JSON whose texts are rendered.
func (e expecting) value(v any) any {
	switch v := v.(type) {
	case string:
		return e.render(v)
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = e.value(v[i])
		}
		return all
	case map[string]any:
		all := map[string]any{}
		for name := range v {
			all[name] = e.value(v[name])
		}
		return all
	}
	return v
}

// asJSON returns a value as JSON.
func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// render returns a text whose expressions are evaluated, as those of a connector are.
func (e expecting) render(source string) string {
	e.harness.tb.Helper()
	compiled, wrong := template.Compile(source)
	if len(wrong) > 0 {
		e.fatalf("%q: %v", source, wrong[0])
	}
	parts, err := compiled.Render(known{e.harness})
	if err != nil {
		e.fatalf("%q: %v", source, err)
	}
	return template.Join(parts)
}

// known is the view that expected texts have of a harness.
type known struct{ harness *Harness }

var _ template.Values = known{}

// Secret implements template.Values.
func (k known) Secret(name string) (string, error) {
	return secrets(k).Secret(context.Background(), name)
}

// Variable implements template.Values.
func (k known) Variable(name string) (string, bool) {
	k.harness.mu.Lock()
	defer k.harness.mu.Unlock()
	value, ok := k.harness.variables[name]
	return value, ok
}

// User implements template.Values.
func (k known) User() *template.User {
	k.harness.mu.Lock()
	defer k.harness.mu.Unlock()
	u := k.harness.user
	return &template.User{ID: u.ID, Email: u.Email, Username: u.Username, FirstName: u.FirstName, LastName: u.LastName, Token: u.Token}
}

// TenantID implements template.Values.
func (k known) TenantID() string {
	k.harness.mu.Lock()
	defer k.harness.mu.Unlock()
	return k.harness.user.TenantID
}

// Now implements template.Values.
func (k known) Now() int64 { return k.harness.Now().Unix() }

// Discovered implements template.Values.
func (known) Discovered(template.Discovery) (string, error) {
	return "", errors.New("an expected text cannot be discovered: write it")
}

// UUID implements template.Values.
func (known) UUID() (string, error) {
	return "", errors.New("an expected text cannot be random: use {matches: …}")
}
