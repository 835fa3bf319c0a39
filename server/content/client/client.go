// Package client reads the content of a community from a server that runs [content/httpapi] or has the same interface.
//
// It does not authenticate its requests. The http.Client does, for example with the transport of a connector.
//
// [content/httpapi]: https://pkg.go.dev/github.com/keywright/keywright/server/content/httpapi
package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/server/content"
)

// MaxBody is the maximum size of a response body in bytes.
const MaxBody = 64 << 20

// Client reads content. The error for a status other than 200 is an [*Error]. It is safe for concurrent use.
type Client struct {
	base *url.URL
	http *http.Client
}

// New returns a client of the server whose operations are below baseURL, such as https://community.example.com/community/v1. If c is nil,
// it uses http.DefaultClient. It returns an error if baseURL is not an http or https URL of scheme, host and path only.
func New(baseURL string, c *http.Client) (*Client, error) {
	base, err := url.Parse(baseURL)
	switch {
	case err != nil: // it quotes the URL, which may contain a password
		return nil, errors.New("content client: the URL cannot be read")
	case base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		return nil, errors.New("content client: the URL must begin with https:// or http:// and a host")
	case base.RawQuery != "" || base.ForceQuery || base.Fragment != "" || base.User != nil:
		return nil, errors.New("content client: the URL must be scheme, host and path only")
	}
	return &Client{base: base, http: cmp.Or(c, http.DefaultClient)}, nil
}

// Options configures [Client.ProductUpdate].
type Options struct {
	// If ModeratorID is the id of a moderator, trashed product updates are found too. "" means no moderator.
	ModeratorID string
	// ResolveEmbeds replaces URLs in the body by the HTML of their providers.
	ResolveEmbeds bool
}

// ProductUpdate returns a product update. errors.Is finds [content.ErrNotFound] in the error if there is none, or if it
// is trashed and ModeratorID is not valid.
func (c *Client) ProductUpdate(ctx context.Context, id string, o Options) (*content.ProductUpdate, error) {
	query := moderator(o.ModeratorID)
	if o.ResolveEmbeds {
		query.Set("resolveEmbeds", "true")
	}
	answer, _, err := get[result[*content.ProductUpdate]](ctx, c, query, "productUpdates", id)
	if err == nil && answer.Result == nil {
		err = fmt.Errorf("content client: %s: the answer has no result", c.base.Host)
	}
	return answer.Result, err
}

type result[T any] struct {
	Result T `json:"result"`
}

// Articles returns a page of the articles, sorted by last activity, the latest first. Pages are counted from 1. Those
// after the last are empty. A zero page or pageSize leaves the choice to the server: the first page, 25 articles.
func (c *Client) Articles(ctx context.Context, page, pageSize int) ([]content.Article, error) {
	query := url.Values{}
	if page != 0 {
		query.Set("page", strconv.Itoa(page))
	}
	if pageSize != 0 {
		query.Set("pageSize", strconv.Itoa(pageSize))
	}
	answer, _, err := get[result[[]content.Article]](ctx, c, query, "articles")
	return answer.Result, err
}

// AllArticles returns an iterator over all articles. It reads page after page until one is not full. An error ends the
// iteration. Each page shows the list at the time of its request, so an article that moves between two requests may
// come twice or not at all; with [Client.Crawl] it does not.
func (c *Client) AllArticles(ctx context.Context) iter.Seq2[content.Article, error] {
	return func(yield func(content.Article, error) bool) {
		page := 0
		eachOf(yield, func() ([]content.Article, bool, error) {
			page++
			articles, err := c.Articles(ctx, page, content.MaxPageSize)
			return articles, len(articles) >= content.MaxPageSize, err
		})
	}
}

// eachOf yields the articles of pages. next returns the next page, and whether there is another one behind it.
func eachOf(yield func(content.Article, error) bool, next func() (articles []content.Article, more bool, err error)) {
	for more := true; more; {
		var articles []content.Article
		var err error
		if articles, more, err = next(); err != nil {
			yield(content.Article{}, err)
			return
		}
		for _, article := range articles {
			if !yield(article, nil) {
				return
			}
		}
	}
}

// Crawl returns an iterator over all articles in the order of their ids. It follows the links of pages, so that each article that exists all
// the time comes exactly once, whatever is written meanwhile. An error ends the iteration. The server must know cursors.
func (c *Client) Crawl(ctx context.Context) iter.Seq2[content.Article, error] {
	return func(yield func(content.Article, error) bool) {
		query := url.Values{"cursor": {""}, "pageSize": {strconv.Itoa(content.MaxPageSize)}}
		eachOf(yield, func() ([]content.Article, bool, error) {
			page, header, err := get[result[[]content.Article]](ctx, c, query, "articles")
			if err != nil {
				return nil, false, err
			}
			target, more := strings.CutSuffix(strings.TrimPrefix(header.Get("Link"), "<"), `>; rel="next"`)
			if more {
				u, err := url.Parse(target)
				if err != nil || !u.Query().Has("cursor") || u.Query().Get("cursor") == query.Get("cursor") {
					return nil, false, fmt.Errorf("content client: %s: the link to the next page cannot be followed", c.base.Host)
				}
				query = u.Query()
			}
			return page.Result, more, nil
		})
	}
}

// Reply returns a reply of an article. If moderatorID is the id of a moderator, it finds replies that are hidden from
// others too; "" means no moderator. errors.Is finds [content.ErrNotFound] in the error if there is no such reply, or if
// it is hidden and moderatorID is not valid.
func (c *Client) Reply(ctx context.Context, articleID, id, moderatorID string) (*content.Reply, error) {
	reply, _, err := get[content.Reply](ctx, c, moderator(moderatorID), "articles", articleID, "replies", id)
	if err != nil {
		return nil, err
	}
	return &reply, nil
}

func moderator(id string) url.Values {
	query := url.Values{}
	if id != "" {
		query.Set("moderatorId", id)
	}
	return query
}

// get sends a GET request for the path segments below the base URL, and returns the JSON and the headers of the response.
func get[T any](ctx context.Context, c *Client, query url.Values, segments ...string) (answer T, header http.Header, err error) {
	target := below(c.base, segments)
	target.RawQuery = query.Encode()
	request := &http.Request{Method: http.MethodGet, URL: target, Header: http.Header{"Accept": {"application/json, application/problem+json"}}}
	response, err := answers.Final(c.http.Do(request.WithContext(ctx)))
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok { // it quotes the URL, which contains the moderator's id
			err = failed.Err
		}
		return answer, nil, fmt.Errorf("content client: %s: %w", c.base.Host, err)
	}
	defer response.Body.Close()
	body, err := files.ReadAll(response.Body, MaxBody)
	switch {
	case err != nil:
		return answer, nil, fmt.Errorf("content client: %s: the answer broke off: %w", c.base.Host, err)
	case len(body) > MaxBody:
		return answer, nil, fmt.Errorf("content client: %s: the answer has more than %d bytes", c.base.Host, MaxBody)
	case response.StatusCode != http.StatusOK:
		return answer, nil, refusal(response.StatusCode, body)
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return *new(T), nil, fmt.Errorf("content client: %s: the answer is not what it must be: %w", c.base.Host, err)
	}
	return answer, response.Header, nil
}

// below returns the URL of the path segments below base. It escapes each segment so that it stays one segment.
func below(base *url.URL, segments []string) *url.URL {
	u := *base
	u.RawPath = strings.TrimSuffix(base.EscapedPath(), "/")
	u.Path = strings.TrimSuffix(base.Path, "/")
	for _, segment := range segments {
		u.Path += "/" + segment
		switch segment {
		case ".", "..": // proxies would resolve these
			u.RawPath += "/" + strings.ReplaceAll(segment, ".", "%2E")
		default:
			u.RawPath += "/" + url.PathEscape(segment)
		}
	}
	return &u
}

// Error is a response with a status other than 200. If the status is 404, errors.Is finds [content.ErrNotFound] in it.
type Error struct {
	Status int `json:"-"`
	// Type is the URI of the kind of problem (RFC 9457), or "" if the response was not a problem document.
	Type string `json:"type"`
	// Detail is the server's explanation for people.
	Detail string `json:"detail"`
	// Fields lists the invalid parameters.
	Fields []FieldError `json:"errors"`
}

// FieldError describes an invalid parameter, as reported by the server.
type FieldError struct {
	Parameter string `json:"parameter"`
	Detail    string `json:"detail"`
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "content client: the answer is %d %s", e.Status, http.StatusText(e.Status))
	if e.Detail != "" {
		fmt.Fprintf(&b, ": %q", e.Detail)
	}
	for _, field := range e.Fields {
		fmt.Fprintf(&b, "; %q: %q", field.Parameter, field.Detail)
	}
	return b.String()
}

// Is reports whether target is [content.ErrNotFound] and the status is 404.
func (e *Error) Is(target error) bool {
	return target == content.ErrNotFound && e.Status == http.StatusNotFound
}

// refusal returns the error for another response than 200. Without a problem document, as of a proxy, it has only a status.
func refusal(status int, body []byte) *Error {
	e := &Error{Status: status}
	if json.Unmarshal(body, e) != nil {
		return &Error{Status: status}
	}
	return e
}
