package transform

import (
	"context"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/problem"
)

// place is a set of the places that an expression can be in. The place decides which names it can use.
type place uint8

const (
	inRequest place = 1 << iota
	inResponse
	inFilter

	everywhere = inRequest | inResponse | inFilter
	answered   = inResponse | inFilter
)

// input is a value with a fixed name.
type input struct {
	// where is the set of places in which the name is available.
	where place
	kind  expr.Kind
	get   func(*run) (any, *expr.Error)
}

// inputs maps names to inputs. The fields of the user are not among them.
var inputs = map[string]input{
	"body_text":            {everywhere, expr.Text, (*run).bodyText},
	"request.method":       {everywhere, expr.Text, func(r *run) (any, *expr.Error) { return r.in.Request.Method, nil }},
	"request.path":         {everywhere, expr.Text, func(r *run) (any, *expr.Error) { return r.in.Request.Path, nil }},
	"response.status_code": {answered, expr.Integer, func(r *run) (any, *expr.Error) { return int64(r.in.Response.StatusCode), nil }},
	"response.body":        {answered, expr.Any, (*run).responseBody},
	"record":               {inFilter, expr.Any, func(r *run) (any, *expr.Error) { return r.record, nil }},
}

// family is a group of texts whose names are not fixed: request.query.page, response.headers['ETag'].
type family struct {
	where place
	// canonical returns the key of a name in the map that get returns.
	canonical func(string) string
	get       func(*Input) map[string][]string
	// all makes the value of a name the list of all its texts. Otherwise it is the first text.
	all bool
}

var families = func() map[string]family {
	query := func(in *Input) map[string][]string { return in.Request.Query }
	headers := func(in *Input) map[string][]string { return in.Request.Header }
	answer := func(in *Input) map[string][]string { return in.Response.Header }
	same := func(name string) string { return name }
	return map[string]family{
		"request.query":          {everywhere, same, query, false},
		"request.query_values":   {everywhere, same, query, true},
		"request.headers":        {everywhere, http.CanonicalHeaderKey, headers, false},
		"request.header_values":  {everywhere, http.CanonicalHeaderKey, headers, true},
		"response.headers":       {answered, http.CanonicalHeaderKey, answer, false},
		"response.header_values": {answered, http.CanonicalHeaderKey, answer, true},
	}
}()

// value returns the value of a name. If there is no text of that name, it is null and not "", which could be equal to a text
// that means something.
func (f family) value(r *run, name string) any {
	values := f.get(r.in)[name]
	switch {
	case f.all:
		return r.list(values)
	case len(values) == 0:
		return nil
	}
	return values[0]
}

var languages = map[place]*expr.Language{inRequest: language(inRequest), inResponse: language(inResponse), inFilter: language(inFilter)}

func language(where place) *expr.Language {
	return &expr.Language{
		Bodies: true, Group: isGroup, Name: where.name,
		UnknownFunction: func(name string) string { return suggest(name, (&expr.Language{Bodies: true}).FunctionNames()) },
	}
}

// isGroup reports whether path is not a value but a group of values, such as user.
func isGroup(path string) bool {
	_, isFamily := families[path]
	return isFamily || path == "user" || path == "request" || path == "response"
}

// name finds a name for an expression in this place. If there is no such name, or not in this place, it returns a problem.
func (where place) name(group, name string) (n *expr.Name, wrong string) {
	if f, isFamily := families[group]; isFamily {
		key := f.canonical(name)
		n = &expr.Name{Kind: expr.Any, Get: func(r *expr.Run) (any, *expr.Error) { return f.value(r.Values.(*run), key), nil }}
		return n, f.where.problem(where, group)
	}
	path := name
	if group != "" {
		path = group + "." + name
	}
	if in, ok := inputs[path]; ok {
		n = &expr.Name{Kind: in.kind, Get: func(r *expr.Run) (any, *expr.Error) { return in.get(r.Values.(*run)) }}
		return n, in.where.problem(where, path)
	}
	_, isFamily := families[path]
	switch fields := where.available(group); {
	case isFamily:
		return nil, path + " is no value: name one of them, as in " + path + "['name']"
	case group == "" && isGroup(name):
		return nil, name + " is no value: name a field of it"
	case group == "":
		return nil, "unknown name " + problem.Quote(name) + ": " + suggest(name, fields)
	case len(fields) == 0:
		return nil, group + " is not available here"
	default:
		return nil, "unknown field " + problem.Quote(name) + " of " + group + ": " + suggest(name, fields)
	}
}

// problem returns a problem if context is not one of the places where. path is the name for the message.
func (where place) problem(context place, path string) string {
	if where&context == 0 {
		return path + " is not available here"
	}
	return ""
}

// available returns the names that can be used in this place, sorted: those below group, or the first parts of all names if group is "".
func (where place) available(group string) []string {
	var names []string
	add := func(name string, there place) {
		above, field, dotted := strings.Cut(name, ".")
		switch {
		case there&where == 0:
		case group != "" && dotted && above == group:
			names = append(names, field)
		case group == "":
			names = append(names, above)
		}
	}
	for name, in := range inputs {
		add(name, in.where)
	}
	for name, f := range families {
		add(name, f.where)
	}
	for _, field := range expr.UserFields {
		if field != expr.UserToken {
			add("user."+field, everywhere)
		}
	}
	add("tenant_id", everywhere)
	slices.Sort(names)
	return slices.Compact(names)
}

// suggest returns the end of a message about an unknown name: the known name that was probably meant, or a list of all.
func suggest(name string, names []string) string {
	if suggestion, ok := problem.Nearest(name, names); ok {
		return "did you mean " + suggestion + "?"
	}
	return "there are " + strings.Join(names, ", ")
}

// run is the state of one run of a Body or Filter. It implements [expr.Values].
type run struct {
	expr.Run
	in     *Input
	user   *expr.User
	tenant string
	// record is the current record of a Filter.
	record any
	// body is response.body if decoded is set. It is decoded when an expression first names it.
	body    any
	decoded bool

	// requestText is body_text, a string. It is nil until an expression names it.
	requestText any
	// lists holds the values of families that are lists, by the address of their first text.
	lists map[*string]*expr.List
}

func newRun(ctx context.Context, in *Input) *run {
	r := &run{in: in, lists: map[*string]*expr.List{}}
	r.Run = expr.NewBodyRun(ctx, r, limits)
	if u := in.User; u != nil {
		r.user, r.tenant = &expr.User{ID: u.ID, Email: u.Email, Username: u.Username, FirstName: u.FirstName, LastName: u.LastName}, u.TenantID
	}
	return r
}

// These methods implement expr.Values. The expressions can name no secrets, and can call neither discover nor identity.

func (r *run) Secret(string) (string, error)             { return "", nil }
func (r *run) Variable(name string) (string, bool)       { return r.in.Variable(name) }
func (r *run) User() *expr.User                          { return r.user }
func (r *run) TenantID() string                          { return r.tenant }
func (r *run) Now() int64                                { return r.in.Now().Unix() }
func (r *run) UUID() (string, error)                     { return r.in.UUID() }
func (r *run) Discovered(expr.Discovery) (string, error) { return "", nil }
func (r *run) Identity(expr.Identity) (string, error)    { return "", nil }

// bodyText returns a copy of the request's body. It copies once, not for each element of a list or each record.
func (r *run) bodyText() (any, *expr.Error) {
	if r.requestText == nil {
		r.requestText = string(r.in.Request.Body)
	}
	return r.requestText, nil
}

// list returns texts as a list. It makes one list for all calls with the same texts.
func (r *run) list(texts []string) *expr.List {
	if len(texts) == 0 {
		return expr.Texts(nil)
	}
	list, ok := r.lists[&texts[0]]
	if !ok {
		list = expr.Texts(texts)
		r.lists[&texts[0]] = list
	}
	return list
}

// responseBody returns the body of the answer. It decodes JSON once.
func (r *run) responseBody() (any, *expr.Error) {
	switch {
	case r.decoded:
		return r.body, nil
	case isJSON(r.in.Response.Header.Get("Content-Type")):
		body, err := r.Decode(r.in.Response.Body)
		if err != nil {
			return nil, &expr.Error{Message: "response.body: " + err.Message, Err: err.Err}
		}
		r.body = body
	default:
		r.body = string(r.in.Response.Body)
	}
	r.decoded = true
	return r.body, nil
}

// isJSON reports whether a Content-Type is application/json or one of the +json types (RFC 6839 section 3.1).
func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}
