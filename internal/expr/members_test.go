package expr

import (
	"errors"
	"fmt"
	"testing"

	"github.com/keywright/keywright/internal/problem"
)

// let declares a name for the expression behind it, and not outside of it.
func TestLet(t *testing.T) {
	for _, taken := range []string{
		"user", "response", "body", "tenant_id", "$x", "upper", "sortBy",
		"elsewhere",  // a name of another place
		"url_encode", // a function that expr does not have
		"reduce",     // a function that only expr has
		"x",          // the name of an outer let
	} {
		table{{"let x = 0; let " + taken + " = 1; x", "column 16: " + problem.Quote(taken) + " has a meaning already: give the value another name"}}.refused(t, new(lookups).language())
	}
}

func TestNames(t *testing.T) {
	w := &lookups{body: []byte(`{"a":1}`)}
	table{
		{"body.a", "1"},
		{"response.body.a", "1"},
		{"response['body'].a", "1"},
		{"response.headers.etag", "'the header etag'"},
		{"response.headers['X-A']", "'the header X-A'"},
		{"user.email", "'ada@example.com'"},
		{"user['id']", "'u1'"},
		{"user?.username", "'ada'"},
		{"user.first_name", "'{{ now() }}'"},
		{"tenant_id", "'t1'"},
		{"let headers = 1; response.headers.etag", "'the header etag'"},
	}.inBodies(t, string(w.body))

	// An error of a name has the column of the name.
	if got, want := inBody(t, "1 + response.body", "{"), "column 5: not well-formed JSON at byte 1"; got != want {
		t.Errorf("a body that is no JSON: %s, want %s", got, want)
	}
}

// A value with the user's token is a secret, and one with other fields is not.
func TestUserTokenSecrecy(t *testing.T) {
	for source, want := range map[string]bool{"'Bearer ' + user.token": true, "default(user.token, 'x')": true, "user.id + user.email + tenant_id": false} {
		if e := mustCompile(t, source, ofTemplates); e.Secret != want {
			t.Errorf("%s is a secret: %t", source, e.Secret)
		}
	}
}

// A missing user, tenant or field is an error, unless default replaces it.
func TestMissingSubject(t *testing.T) {
	nobody := &lookups{nobody: true}
	for _, name := range UserFields {
		missing := "user." + name + " is missing: the request has no user, or the user's field is empty"
		if name == UserToken {
			missing = "user.token is missing: the request has no user with a token, or the token has expired"
		}
		if got, want := nobody.inTemplate(t, "'a' + user."+name), "column 7: "+missing; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if got := nobody.inTemplate(t, "default(user."+name+", 'x')"); got != "'x'" {
			t.Errorf("default of user.%s: %s", name, got)
		}
	}
	if got, want := nobody.inTemplate(t, "tenant_id"), "column 1: tenant_id is missing: the request has no tenant"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := nobody.inTemplate(t, "default(tenant_id, 'x')"); got != "'x'" {
		t.Errorf("default of tenant_id: %s", got)
	}

	u := &User{Email: "e", ID: "i", Username: "n", FirstName: "f", LastName: "l"}
	all := ""
	for _, name := range UserFields {
		all += u.Field(name)
	}
	if all != "einfl" {
		t.Errorf("the fields are %s", all)
	}
}

// The names that an expression uses are known before it is evaluated.
func TestUsedNames(t *testing.T) {
	e := mustCompile(t, "get_secret('b') + get_secret('a') + get_secret('b') + get_variable('v') + default(get_variable('w'), '') + user.id + tenant_id + user.email", ofTemplates)
	for _, c := range []struct{ what, got, want string }{
		{"secrets", literal(Texts(e.Secrets)), "['b', 'a', 'b']"},
		{"variables", literal(Texts(e.Variables)), "['v', 'w']"},
		{"fields of the user", literal(Texts(e.User)), "['id', 'email']"},
		{"tenant", fmt.Sprint(e.Tenant), "true"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.what, c.got, c.want)
		}
	}
	if got := new(lookups).inTemplate(t, "get_secret('none')"); got != "column 1: get_secret('none'): "+errNoSecret.Error() {
		t.Error(got)
	}
	r := NewRun(new(lookups), templateLimits)
	if _, err := r.Evaluate(mustCompile(t, "get_secret('none')", ofTemplates)); !errors.Is(err, errNoSecret) {
		t.Errorf("%v is not the error of Values", err)
	}
}
