package httpapi

import (
	"context"
	_ "embed" // for openapi.json
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/keywright/keywright/server/content"
)

type operation struct {
	name string
	// path holds the segments of the path below the base. "" stands for an id.
	path []string
	// open reports whether callers need not authenticate.
	open bool
	// answer returns the JSON document of the response, and the query of the next page, or "" if there is none.
	answer func(h *handler, ctx context.Context, args *arguments) (body []byte, next string, err error)
}

var operations = []*operation{
	{name: "productUpdate", path: []string{"productUpdates", ""}, answer: (*handler).productUpdate},
	{name: "articles", path: []string{"articles"}, answer: (*handler).articles},
	{name: "reply", path: []string{"articles", "", "replies", ""}, answer: (*handler).reply},
	{name: "openapi", path: []string{"openapi.json"}, open: true, answer: (*handler).openAPI}, // it describes how callers authenticate
}

type arguments struct {
	// ids are the ids in the path, decoded. They have passed content.CheckID.
	ids   []string
	query *query
	// moderate reports whether a moderatorId has an effect.
	moderate bool
}

// route returns the operation of a path, or nil, and the ids in the path, which have passed content.CheckID.
func (h *handler) route(u *url.URL) (found *operation, ids []string) {
	below, ok := strings.CutPrefix(sentPath(u), h.config.Base+"/")
	if !ok {
		return nil, nil
	}
	segments := strings.Split(below, "/")
	for i, segment := range segments {
		decoded, err := url.PathUnescape(segment)
		if err != nil {
			return nil, nil
		}
		segments[i] = decoded
	}
	for _, o := range operations {
		if ids, ok := o.match(segments); ok {
			return o, ids
		}
	}
	return nil, nil
}

func (o *operation) match(segments []string) (ids []string, ok bool) {
	fits := slices.EqualFunc(o.path, segments, func(want, segment string) bool {
		if want != "" {
			return segment == want
		}
		ids = append(ids, segment)
		return content.CheckID(segment) == nil
	})
	return ids, fits
}

// sentPath returns the escaped path as the client sent it. EscapedPath does so only if all characters are valid in a
// path. Otherwise it escapes the decoded path again, where %2F has become a slash.
func sentPath(u *url.URL) string {
	if path, err := url.PathUnescape(u.RawPath); err == nil && path == u.Path {
		return u.RawPath
	}
	return u.EscapedPath()
}

type result struct {
	Result any `json:"result"`
}

func (h *handler) productUpdate(ctx context.Context, args *arguments) (body []byte, next string, err error) {
	moderator := args.query.text(moderatorID)
	resolve := args.query.boolean("resolveEmbeds")
	audience, err := h.audience(ctx, args, moderator)
	if err != nil {
		return nil, "", err
	}
	update, err := h.config.Store.ProductUpdate(ctx, args.ids[0], audience)
	if err != nil {
		return nil, "", fmt.Errorf("product update: %w", err)
	}
	if resolve && h.config.Embeds != nil {
		resolved := *update // a copy, because the record may belong to the store
		resolved.Body = h.config.Embeds.Resolve(ctx, update.Body)
		update = &resolved
	}
	body, err = json.Marshal(result{update})
	return body, "", err
}

func (h *handler) articles(ctx context.Context, args *arguments) (body []byte, next string, err error) {
	read := h.numbered
	if args.query.contains(cursor) {
		read = h.following
	}
	articles, next, err := read(ctx, args.query)
	if err != nil {
		return nil, "", err
	}
	// Not a content.List: with its MarshalJSON, json would scan the whole page twice.
	body, err = json.Marshal(result{append([]content.Article{}, articles...)})
	return body, next, err
}

// The parameters of pages. With a cursor, articles come in the order of their ids. Its value is "" for the first page, and then the id of
// the last article in Base64 (RFC 4648 section 5), so that clients take it as it is.
const cursor, pageSize = "cursor", "pageSize"

func (q *query) size() int { return int(q.integer(pageSize, content.MaxPageSize, 25)) }

// next returns the query of the page after one with articles, or "" if that is the last. parameter names the page.
func (q *query) next(articles []content.Article, size int, parameter string) string {
	switch {
	case len(articles) < size:
		return ""
	case q.contains(pageSize):
		return parameter + "&" + pageSize + "=" + strconv.Itoa(size)
	}
	return parameter
}

func (h *handler) numbered(ctx context.Context, q *query) (articles []content.Article, next string, err error) {
	page := q.integer("page", math.MaxInt64, 1)
	size := q.size()
	if err := q.problem(); err != nil || page-1 > math.MaxInt64/int64(size) {
		return nil, "", err
	}
	articles, err = h.config.Store.Articles(ctx, (page-1)*int64(size), size)
	if err != nil {
		return nil, "", fmt.Errorf("articles: %w", err)
	}
	return articles, q.next(articles, size, "page="+strconv.FormatInt(page+1, 10)), nil
}

func (h *handler) following(ctx context.Context, q *query) (articles []content.Article, next string, err error) {
	position, err := base64.RawURLEncoding.Strict().DecodeString(q.text(cursor))
	if err != nil || len(position) > 0 && content.CheckID(string(position)) != nil {
		q.note(cursor, "this is no cursor: take the one in the Link of the page before, or leave its value empty for the first page")
	}
	if q.contains("page") {
		q.note("page", "this does not go with cursor")
	}
	size := q.size()
	if err := q.problem(); err != nil {
		return nil, "", err
	}
	articles, err = h.config.Store.ArticlesAfter(ctx, string(position), size)
	if err != nil {
		return nil, "", fmt.Errorf("articles: %w", err)
	}
	if len(articles) > 0 {
		last := articles[len(articles)-1].ID
		next = q.next(articles, size, cursor+"="+base64.RawURLEncoding.EncodeToString([]byte(last)))
	}
	return articles, next, nil
}

func (h *handler) reply(ctx context.Context, args *arguments) (body []byte, next string, err error) {
	moderator := args.query.text(moderatorID)
	audience, err := h.audience(ctx, args, moderator)
	if err != nil {
		return nil, "", err
	}
	reply, err := h.config.Store.Reply(ctx, args.ids[0], args.ids[1], audience)
	if err != nil {
		return nil, "", fmt.Errorf("reply: %w", err)
	}
	body, err = json.Marshal(reply)
	return body, "", err
}

func (h *handler) openAPI(context.Context, *arguments) (body []byte, next string, err error) {
	return h.document, "", nil
}

// audience returns the audience of a request, or what is wrong with its parameters. Without the right to moderate, moderatorId is ignored.
func (h *handler) audience(ctx context.Context, args *arguments, moderator string) (content.Audience, error) {
	if err := args.query.problem(); err != nil {
		return content.Everybody, err
	}
	ok := false
	if args.moderate && content.CheckID(moderator) == nil {
		var err error
		if ok, err = h.config.Store.Moderator(ctx, moderator); err != nil {
			return content.Everybody, fmt.Errorf("moderator: %w", err)
		}
	}
	return content.Audience(ok), nil
}

const moderatorID = "moderatorId"

// query is the query of a request. Methods that read a parameter record what is wrong with it.
type query struct {
	values map[string][]value
	wrong  []fieldProblem
}

// value is a value of a parameter. broken reports whether its percent-encoding is invalid.
type value struct {
	text   string
	broken bool
}

// parseQuery parses a query. It keeps values that cannot be decoded, so that the problem can name their parameter.
func parseQuery(raw string) *query {
	q := &query{values: map[string][]value{}}
	for pair := range strings.SplitSeq(raw, "&") {
		name, text, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err != nil {
			continue // no operation has a parameter of this name
		}
		text, err = url.QueryUnescape(text)
		q.values[name] = append(q.values[name], value{text, err != nil})
	}
	return q
}

func (q *query) contains(name string) bool { return len(q.values[name]) > 0 }

func (q *query) note(name, detail string) { q.wrong = append(q.wrong, fieldProblem{name, detail}) }

// problem returns an error that lists the invalid parameters, or nil.
func (q *query) problem() error {
	if len(q.wrong) == 0 {
		return nil
	}
	return &httpProblem{status: http.StatusUnprocessableEntity, kind: "invalid-parameters", detail: "some parameters are not what they must be", fields: q.wrong}
}

// one returns the value of a parameter. ok is false if the parameter is absent, repeated or malformed.
func (q *query) one(name string) (text string, ok bool) {
	switch values := q.values[name]; {
	case len(values) == 0:
		return "", false
	case len(values) > 1:
		q.note(name, "this is given more than once")
	case values[0].broken:
		q.note(name, "the percent-encoding is broken: write %25 for a %")
	default:
		return values[0].text, true
	}
	return "", false
}

func (q *query) text(name string) string {
	text, _ := q.one(name)
	return text
}

func (q *query) boolean(name string) bool {
	text, ok := q.one(name)
	if ok && text != "true" && text != "false" {
		q.note(name, "this must be true or false")
	}
	return text == "true"
}

// integer returns the value of a parameter from 1 to maximum. missing is its default.
func (q *query) integer(name string, maximum, missing int64) int64 {
	text, ok := q.one(name)
	if !ok {
		return missing
	}
	if text == "" || strings.Trim(text, "0123456789") != "" {
		q.note(name, "this must be an integer, in decimal digits only")
		return missing
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil { // the text has digits only, so the number is too large
		number = math.MaxInt64
	}
	switch {
	case number >= 1 && number <= maximum:
	case maximum == math.MaxInt64:
		q.note(name, "this must be at least 1")
	default:
		q.note(name, fmt.Sprintf("this must be from 1 to %d", maximum))
	}
	return number
}

//go:embed openapi.json
var openAPI []byte
