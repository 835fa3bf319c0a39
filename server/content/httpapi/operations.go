package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/keywright/keywright/server/content"
)

// operation is one of the read operations.
type operation struct {
	name   string
	path   []string // segments below the base; "" stands for an id
	open   bool     // to whoever asks
	answer func(h *handler, ctx context.Context, asked *question) ([]byte, error)
}

var operations = []*operation{
	{name: "productUpdate", path: []string{"productUpdates", ""}, answer: (*handler).productUpdate},
	{name: "articles", path: []string{"articles"}, answer: (*handler).articles},
	{name: "reply", path: []string{"articles", "", "replies", ""}, answer: (*handler).reply},
	{name: "openapi", path: []string{"openapi.json"}, open: true, answer: (*handler).openAPI}, // which says how callers prove who they are
}

// question is a request for an operation.
type question struct {
	ids      []string // those of the path, decoded; content.CheckID found nothing wrong
	query    *query
	moderate bool // whether a moderatorId counts
}

// route finds the operation of a path, and the ids in it. It is nil when there is none, also because of an id that no record
// can have.
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

// sentPath is a path as it was sent. EscapedPath is that only for characters that belong into paths: when there is another, it
// escapes the decoded path anew, and %2F has become a slash.
func sentPath(u *url.URL) string {
	if path, err := url.PathUnescape(u.RawPath); err == nil && path == u.Path {
		return u.RawPath
	}
	return u.EscapedPath()
}

// result wraps lists and product updates.
type result struct {
	Result any `json:"result"`
}

func (h *handler) productUpdate(ctx context.Context, asked *question) ([]byte, error) {
	moderator := asked.query.text(moderatorID)
	resolve := asked.query.boolean("resolveEmbeds")
	if err := asked.query.problem(); err != nil {
		return nil, err
	}
	audience, err := h.audience(ctx, asked, moderator)
	if err != nil {
		return nil, err
	}
	update, err := h.config.Store.ProductUpdate(ctx, asked.ids[0], audience)
	if err != nil {
		return nil, fmt.Errorf("product update: %w", err)
	}
	if resolve && h.config.Embeds != nil {
		resolved := *update // the store may keep its own
		resolved.Body = h.config.Embeds.Resolve(ctx, update.Body)
		update = &resolved
	}
	return json.Marshal(result{update})
}

func (h *handler) articles(ctx context.Context, asked *question) ([]byte, error) {
	page := asked.query.integer("page", bounds{least: 1, most: math.MaxInt64, missing: 1})
	size := asked.query.integer("pageSize", bounds{least: 1, most: 100, missing: 25})
	if err := asked.query.problem(); err != nil {
		return nil, err
	}
	found := []content.Article{} // a content.List is [] when it is nil, but json then reads the whole page twice
	if page-1 <= math.MaxInt64/size {
		articles, err := h.config.Store.Articles(ctx, (page-1)*size, int(size))
		if err != nil {
			return nil, fmt.Errorf("articles: %w", err)
		}
		found = append(found, articles...)
	}
	return json.Marshal(result{found})
}

func (h *handler) reply(ctx context.Context, asked *question) ([]byte, error) {
	moderator := asked.query.text(moderatorID)
	if err := asked.query.problem(); err != nil {
		return nil, err
	}
	audience, err := h.audience(ctx, asked, moderator)
	if err != nil {
		return nil, err
	}
	reply, err := h.config.Store.Reply(ctx, asked.ids[0], asked.ids[1], audience)
	if err != nil {
		return nil, fmt.Errorf("reply: %w", err)
	}
	return json.Marshal(reply)
}

func (h *handler) openAPI(context.Context, *question) ([]byte, error) { return h.document, nil }

// audience is who a record is read for. A moderatorId that does not count is as good as none.
func (h *handler) audience(ctx context.Context, asked *question, moderator string) (content.Audience, error) {
	known := false
	if asked.moderate && content.CheckID(moderator) == nil {
		var err error
		if known, err = h.config.Store.Moderator(ctx, moderator); err != nil {
			return content.Everybody, fmt.Errorf("moderator: %w", err)
		}
	}
	return content.Audience(known), nil
}
