package transform

import (
	"context"
	"mime"
	"strings"

	"github.com/keywright/keywright/internal/expr"
)

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
	r := &run{in: in}
	r.Run = expr.NewBodyRun(ctx, r, limits)
	if u := in.User; u != nil {
		r.user, r.tenant = &expr.User{ID: u.ID, Email: u.Email, Username: u.Username, FirstName: u.FirstName, LastName: u.LastName}, u.TenantID
	}
	return r
}

// These methods implement expr.Values. The expressions cannot name secrets.

func (r *run) Secret(string) (string, error)       { return "", nil }
func (r *run) Variable(name string) (string, bool) { return r.in.Variable(name) }
func (r *run) User() *expr.User                    { return r.user }
func (r *run) TenantID() string                    { return r.tenant }
func (r *run) Now() int64                          { return r.in.Now().Unix() }
func (r *run) UUID() (string, error)               { return r.in.UUID() }

// Discovered implements expr.Values. The expressions cannot call discover.
func (r *run) Discovered(expr.Discovery) (string, error) { return "", nil }

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
		if r.lists == nil {
			r.lists = map[*string]*expr.List{}
		}
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
