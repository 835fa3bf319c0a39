package transform

import (
	"context"
	"mime"
	"strings"

	"github.com/keywright/keywright/internal/expr"
)

// run is one run of a Body or Filter: what it is given, and what it has made of that.
type run struct {
	expr.Run
	in      *Input
	user    *expr.User
	tenant  string
	record  any
	body    any  // response.body, once it is decoded
	decoded bool // body is

	asked any                    // body_text, once it is named
	lists map[*string]*expr.List // of families, by their first value, once they are named
}

func newRun(ctx context.Context, in *Input) *run {
	r := &run{in: in}
	r.Run = expr.NewBodyRun(ctx, r, limits)
	if u := in.User; u != nil {
		r.user, r.tenant = &expr.User{ID: u.ID, Email: u.Email, Username: u.Username, FirstName: u.FirstName, LastName: u.LastName}, u.TenantID
	}
	return r
}

// The methods of expr.Values. There are no secrets in the language of a run.

func (r *run) Secret(string) (string, error)       { return "", nil }
func (r *run) Variable(name string) (string, bool) { return r.in.Variable(name) }
func (r *run) User() *expr.User                    { return r.user }
func (r *run) TenantID() string                    { return r.tenant }
func (r *run) Now() int64                          { return r.in.Now().Unix() }
func (r *run) UUID() (string, error)               { return r.in.UUID() }

// bodyText is a copy of the request's body, one for all rounds.
func (r *run) bodyText() (any, *expr.Error) {
	if r.asked == nil {
		r.asked = string(r.in.Request.Body)
	}
	return r.asked, nil
}

// list returns texts as a list, the same one in all rounds.
func (r *run) list(texts []string) *expr.List {
	if len(texts) == 0 {
		return expr.Texts(nil)
	}
	list, known := r.lists[&texts[0]]
	if !known {
		list = expr.Texts(texts)
		if r.lists == nil {
			r.lists = map[*string]*expr.List{}
		}
		r.lists[&texts[0]] = list
	}
	return list
}

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
