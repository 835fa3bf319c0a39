package expr

import (
	"errors"
	"testing"

	"github.com/keywright/keywright/internal/problem"
)

// nested is a body of objects and lists.
const nested = `{"a":{"b":{"c":1}},"list":[10,20,30],"text":"größer","none":null,"seven":7,"half":0.5,"price":1.10,"prices":[2.50,1e400]}`

func TestMembers(t *testing.T) {
	table{
		{"body.a.b.c", "1"},
		{"body['a']['b'].c", "1"},
		{"body.a['b'].c", "1"},
		{"body['no' + 'ne']", "nil"},
		{"body.nothing", "nil"},
		{"{x: 1, y: 2}.y", "2"},
		{"{x: 1}.y", "nil"},
		{"body.list[0]", "10"},
		{"body.list[2]", "30"},
		{"body.list[-1]", "30"},
		{"body.list[-3]", "10"},
		{"[1, 2][1]", "2"},
		{"body.list[body.seven - 6]", "20"},

		{"body.list[3]", "column 11: the list has no such element"},
		{"body.list[-4]", "column 11: the list has no such element"},
		{"[][0]", "column 4: the list has no such element"},
		{"body.list['0']", "column 11: the elements of a list are numbered"},
		{"body.list.length", "column 11: the elements of a list are numbered"},
		{"body.list[body.half]", "column 11: the elements of a list are numbered"},
		{"body.a[0]", "column 8: the members of an object are named by texts"},
		{"body.a[nil]", "column 8: the members of an object are named by texts"},
		{"body.text.x", "column 11: only objects and lists have members"},
		{"body.seven[0]", "column 12: only objects and lists have members"},
		{"body.none.x", "column 11: null has no members: where it may be null, write ?. for the dot"},
		{"body.nothing.x", "column 14: null has no members"},
	}.inBodies(t, nested)
}

// A member of null is null behind ?., and so is the rest of the chain.
func TestOptionalChaining(t *testing.T) {
	table{
		{"body?.a?.b?.c", "1"},
		{"body.none?.x", "nil"},
		{"body.none?.x.y.z", "nil"},
		{"body.none?.['x']", "nil"},
		{"body?.list[0]", "10"},
		{"body?.list?.[1]", "20"},
		{"body.none?.x ?? 'other'", "'other'"},
		{"body.nothing?.x == nil", "true"},
		{"body.a?.none", "nil"},
		{"body.a?.none.x", "column 14: null has no members"},    // a is not null
		{"body.none?.x['z']", "column 14: null has no members"}, // [ begins anew, as in expr
		{"body.text?.x", "column 12: only objects and lists have members"},
	}.inBodies(t, nested)
}

func TestSlices(t *testing.T) {
	table{
		{"body.list[1:2]", "[20]"},
		{"body.list[1:]", "[20, 30]"},
		{"body.list[:2]", "[10, 20]"},
		{"body.list[:]", "[10, 20, 30]"},
		{"body.list[0:3]", "[10, 20, 30]"},
		{"body.list[-2:]", "[20, 30]"},
		{"body.list[:-1]", "[10, 20]"},
		{"body.list[-2:-1]", "[20]"},
		{"body.list[3:]", "[]"},
		{"body.list[2:1]", "[]"},
		{"body.list[:0]", "[]"},
		{"body.list[-9:9]", "[10, 20, 30]"}, // bounds beyond the ends are the ends
		{"body.list[9:]", "[]"},
		{"body.list[:-9]", "[]"},
		{"body.list[nil:1]", "[10]"},
		{"body.text[2:4]", "'öß'"}, // counts characters, not bytes
		{"body.text[-1:]", "'r'"},
		{"body.text[:3]", "'grö'"},
		{"body.text[4:2]", "''"},
		{"''[0:1]", "''"},
		{"body.list[1:][0]", "20"},

		{"body.list['a':]", "column 10: the bounds of a part are whole numbers"},
		{"body.list[:body.half]", "column 10: the bounds of a part are whole numbers"},
		{"body.seven[1:]", "column 11: only lists and texts have parts"},
		{"body.none[1:]", "column 10: only lists and texts have parts"},
		{"body.a[:1]", "column 7: only lists and texts have parts"},
	}.inBodies(t, nested)
}

// A number that is passed on keeps its text, also through choices and at all depths. A calculation, and let, use its value.
func TestNumberText(t *testing.T) {
	table{
		{"body.price", "Number 1.10"},
		{"body['price']", "Number 1.10"},
		{"body.prices[0]", "Number 2.50"},
		{"body.prices[-1]", "Number 1e400"},
		{"body?.price", "Number 1.10"},
		{"{a: [body.price]}", "{a: [Number 1.10]}"},
		{"true ? body.price : 0", "Number 1.10"},
		{"false ? 0 : body.price", "Number 1.10"},
		{"body.none ?? body.price", "Number 1.10"},
		{"body.price ?? 0", "Number 1.10"},
		{"default(body.price, 0)", "Number 1.10"},
		{"default(body.none, body.price)", "Number 1.10"},
		{"map(body.prices, #)", "[2.5, Number 1e400]"},
		{"map([body], .price)", "[Number 1.10]"},
		{"sum(map([body, body], .price))", "2.2"},
		{"sortBy(from_json('[{\"p\":1.20},{\"p\":1.10}]'), .p)", "[{p: 1.1}, {p: 1.2}]"},
		{"string(body.price)", "'1.10'"},
		{"json_encode([body.price])", "'[1.10]'"},
		{"let a = 1; body.price", "Number 1.10"},

		{"body.seven", "7"},
		{"body.half", "0.5"},
		{"let p = body.price; p", "1.1"},
		{"body.price * 2", "2.2"},
		{"-body.price", "-1.1"},
		{"body.price == 1.1", "true"},
		{"[body.price == 1.1, body.price > 1]", "[true, true]"},
		{"body.prices[0:1]", "[2.5]"},
		{"first(body.prices)", "2.5"},
		{"filter(body.prices[:1], true)", "[2.5]"},
		{"max(body.price)", "1.1"},
		{"sortBy([body], .price)[0].price", "Number 1.10"},
		{"json_encode(map([body], .price))", "'[1.10]'"},
	}.inBodies(t, nested)
}

// let declares a name for the expression behind it, and not outside of it.
func TestLet(t *testing.T) {
	table{
		{"let x = 1; x + x", "2"},
		{"let x = 1; let y = x + 1; x * 10 + y", "12"},
		{"(let x = 1; x) + (let x = 2; x)", "3"},
		{"map([1, 2], {let double = # * 2; double + 1})", "[3, 5]"},
		{"let x = 5; map([1, 2], # + x)", "[6, 7]"},
		{"let x = map([1, 2], {let y = #; y}); let z = 3; [x, z]", "[[1, 2], 3]"},
		{"let x = {a: 1}; x.a + x['a']", "2"},
		{"let x = nil; x?.a", "nil"},
	}.inBodies(t, "null")

	table{
		{"(let x = 1; x) + x", "column 18: unknown name x"},
		{"[map([1], {let x = #; x}), x]", "column 28: unknown name x"},
		{"let x = x; x", "column 9: unknown name x"},
		{"let x = y; x + 1", "column 9: unknown name y"},
		{"let x = 1; x + 'a'", "column 14: + takes two texts or two numbers"},
	}.refused(t, new(lookups).language())
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

	table{
		{"nope", "column 1: unknown name nope"},
		{"response.nope", "column 1: unknown name response.nope"},
		{"1 + user.mail", "column 5: unknown name user.mail"},
		{"elsewhere", "column 1: elsewhere is not available here"},
		{"response", "column 1: unknown name response"},
		{"response[body.a]", "column 1: response takes a literal name"},
		{"response.headers[body.a]", "column 1: response.headers takes a literal name"},
		{"response[body.a].b", "column 1: response takes a literal name"},
		{"response.headers", "column 1: unknown name response.headers"},
		{"nope.a.b", "column 1: unknown name nope"},
		{"$env", "column 1: unknown name $env"},
		{"upper", "column 1: upper is a function: write upper(…)"},
		{"now", "column 1: now is a function: write now(…)"},
		{"response.now", "column 1: unknown name response.now"},
		{"map", "column 1: unknown name map"},
		{"user.email()", "column 6: values have no methods"},
		{"body.a.b()", "column 8: values have no methods"},
		{"'a' + user.token", "column 7: user.token is not available here: the user's token goes to token endpoints only"},
	}.refused(t, w.language())
	table{
		{"nope", "column 1: unknown name nope"},
		{"now", "column 1: now is a function: write now(…)"},
		{"upper", "column 1: unknown name upper"}, // bodies have it
		{"user.now", "column 1: unknown name user.now"},
		{"tenant_id.x", "column 1: only user has fields, and they are literal names"},
		{"user[tenant_id]", "column 1: only user has fields, and they are literal names"},
		{"'abc'[0]", "column 1: only user has fields"},
	}.refused(t, ofTemplates)

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
	table{{"user.last_name", "column 1: user.last_name is missing"}, {"default(user.last_name, 'x')", "'x'"}}.inBodies(t, "null")

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
func TestNamesThatAnExpressionUses(t *testing.T) {
	e := mustCompile(t, "get_secret('b') + get_secret('a') + get_secret('b') + get_variable('v') + default(get_variable('w'), '') + user.id + tenant_id + user.email", ofTemplates)
	for _, c := range []struct{ what, got, want string }{
		{"secrets", literal(Texts(e.Secrets)), "['b', 'a', 'b']"},
		{"variables", literal(Texts(e.Variables)), "['v', 'w']"},
		{"subject", literal(Texts(e.Subject)), "['user.id', 'tenant_id', 'user.email']"},
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
