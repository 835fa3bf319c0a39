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

// operation is one of the operations.
type operation struct {
	name string
	// path holds the segments of the path below the base. "" stands for an id.
	path []string
	// open reports whether callers need not authenticate.
	open bool
	// answer returns the JSON document of the response.
	answer func(h *handler, ctx context.Context, args *arguments) ([]byte, error)
}

var operations = []*operation{
	{name: "productUpdate", path: []string{"productUpdates", ""}, answer: (*handler).productUpdate},
	{name: "articles", path: []string{"articles"}, answer: (*handler).articles},
	{name: "reply", path: []string{"articles", "", "replies", ""}, answer: (*handler).reply},
	{name: "openapi", path: []string{"openapi.json"}, open: true, answer: (*handler).openAPI}, // it describes how callers authenticate
}

// arguments holds the arguments of an operation.
type arguments struct {
	// ids are the ids in the path, decoded. They have passed content.CheckID.
	ids   []string
	query *query
	// moderate reports whether a moderatorId has an effect.
	moderate bool
}

// route returns the operation of a path and the ids in the path. found is nil if there is none, or if an id fails
// content.CheckID.
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

// result is the JSON object around lists and product updates.
type result struct {
	Result any `json:"result"`
}

func (h *handler) productUpdate(ctx context.Context, args *arguments) ([]byte, error) {
	moderator := args.query.text(moderatorID)
	resolve := args.query.boolean("resolveEmbeds")
	if err := args.query.problem(); err != nil {
		return nil, err
	}
	audience, err := h.audience(ctx, args, moderator)
	if err != nil {
		return nil, err
	}
	update, err := h.config.Store.ProductUpdate(ctx, args.ids[0], audience)
	if err != nil {
		return nil, fmt.Errorf("product update: %w", err)
	}
	if resolve && h.config.Embeds != nil {
		resolved := *update // a copy, because the record may belong to the store
		resolved.Body = h.config.Embeds.Resolve(ctx, update.Body)
		update = &resolved
	}
	return json.Marshal(result{update})
}

func (h *handler) articles(ctx context.Context, args *arguments) ([]byte, error) {
	page := args.query.integer("page", bounds{least: 1, most: math.MaxInt64, missing: 1})
	size := args.query.integer("pageSize", bounds{least: 1, most: 100, missing: 25})
	if err := args.query.problem(); err != nil {
		return nil, err
	}
	found := []content.Article{} // not a content.List: with its MarshalJSON, json would scan the whole page twice
	if page-1 <= math.MaxInt64/size {
		articles, err := h.config.Store.Articles(ctx, (page-1)*size, int(size))
		if err != nil {
			return nil, fmt.Errorf("articles: %w", err)
		}
		found = append(found, articles...)
	}
	return json.Marshal(result{found})
}

func (h *handler) reply(ctx context.Context, args *arguments) ([]byte, error) {
	moderator := args.query.text(moderatorID)
	if err := args.query.problem(); err != nil {
		return nil, err
	}
	audience, err := h.audience(ctx, args, moderator)
	if err != nil {
		return nil, err
	}
	reply, err := h.config.Store.Reply(ctx, args.ids[0], args.ids[1], audience)
	if err != nil {
		return nil, fmt.Errorf("reply: %w", err)
	}
	return json.Marshal(reply)
}

func (h *handler) openAPI(context.Context, *arguments) ([]byte, error) { return h.document, nil }

// audience returns the audience of a request. It ignores the moderatorId of a caller that may not moderate.
func (h *handler) audience(ctx context.Context, args *arguments, moderator string) (content.Audience, error) {
	known := false
	if args.moderate && content.CheckID(moderator) == nil {
		var err error
		if known, err = h.config.Store.Moderator(ctx, moderator); err != nil {
			return content.Everybody, fmt.Errorf("moderator: %w", err)
		}
	}
	return content.Audience(known), nil
}
