// Package client reads the content of a community from a server of [content/httpapi], or of another that serves the same.
//
// It proves to no server who asks: that is for the http.Client it is given, such as one with the transport of a connector.
//
// [content/httpapi]: https://pkg.go.dev/github.com/keywright/keywright/server/content/httpapi
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/keywright/keywright/server/content"
)

// MaxBody is how many bytes an answer may have.
const MaxBody = 64 << 20

// MaxPageSize is how many articles a page may have.
const MaxPageSize = 100

// Client reads content. It is safe for concurrent use.
type Client struct {
	base *url.URL
	http *http.Client
}

// New makes a client of the server whose operations are below a URL, such as https://community.example.com/community/v1.
// A nil http.Client is http.DefaultClient.
func New(baseURL string, c *http.Client) (*Client, error) {
	base, err := url.Parse(baseURL)
	if err != nil {
		return nil, errors.New("content client: the URL cannot be read") // url's error has all of it, which may hold a password
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, errors.New("content client: the URL must begin with https:// or http:// and a host")
	}
	if base.RawQuery != "" || base.ForceQuery || base.Fragment != "" || base.User != nil {
		return nil, errors.New("content client: the URL must be scheme, host and path only")
	}
	if c == nil {
		c = http.DefaultClient
	}
	return &Client{base: base, http: c}, nil
}

// Options are how a product update is read.
type Options struct {
	ModeratorID   string // shows trashed ones, when it is valid; "" is none
	ResolveEmbeds bool   // URLs in the body become the HTML of their providers
}

// ProductUpdate returns a product update. The error is [content.ErrNotFound] when there is none, or it is trashed and
// ModeratorID not valid.
func (c *Client) ProductUpdate(ctx context.Context, id string, o Options) (*content.ProductUpdate, error) {
	query := moderator(o.ModeratorID)
	if o.ResolveEmbeds {
		query.Set("resolveEmbeds", "true")
	}
	var wrapped struct {
		Result *content.ProductUpdate `json:"result"`
	}
	if err := c.get(ctx, []string{"productUpdates", id}, query, &wrapped); err != nil {
		return nil, err
	}
	if wrapped.Result == nil {
		return nil, fmt.Errorf("content client: %s: the answer has no result", c.base.Host)
	}
	return wrapped.Result, nil
}

// Articles returns a page of the articles, by last activity, the latest first. Pages count from 1; one after the last
// is empty. Where page or pageSize is 0, the server's default holds: the first page, 25 articles.
func (c *Client) Articles(ctx context.Context, page, pageSize int) ([]content.Article, error) {
	query := url.Values{}
	if page != 0 {
		query.Set("page", strconv.Itoa(page))
	}
	if pageSize != 0 {
		query.Set("pageSize", strconv.Itoa(pageSize))
	}
	var wrapped struct {
		Result []content.Article `json:"result"`
	}
	if err := c.get(ctx, []string{"articles"}, query, &wrapped); err != nil {
		return nil, err
	}
	return wrapped.Result, nil
}

// AllArticles returns all articles, a page after the other, until one is not full. An error is the last that comes.
// When articles move while they are read, one may come twice, or not at all: each page is of the moment that it is
// read.
func (c *Client) AllArticles(ctx context.Context) iter.Seq2[content.Article, error] {
	return func(yield func(content.Article, error) bool) {
		for page := 1; ; page++ {
			articles, err := c.Articles(ctx, page, MaxPageSize)
			if err != nil {
				yield(content.Article{}, err)
				return
			}
			for _, article := range articles {
				if !yield(article, nil) {
					return
				}
			}
			if len(articles) < MaxPageSize {
				return
			}
		}
	}
}

// Reply returns a reply of an article. The error is [content.ErrNotFound] when there is none, or it is not for
// everybody and moderatorID not valid; "" is none.
func (c *Client) Reply(ctx context.Context, articleID, id, moderatorID string) (*content.Reply, error) {
	reply := new(content.Reply)
	if err := c.get(ctx, []string{"articles", articleID, "replies", id}, moderator(moderatorID), reply); err != nil {
		return nil, err
	}
	return reply, nil
}

func moderator(id string) url.Values {
	query := url.Values{}
	if id != "" {
		query.Set("moderatorId", id)
	}
	return query
}

// get reads a JSON document from below the base.
func (c *Client) get(ctx context.Context, segments []string, query url.Values, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.String(), nil)
	if err != nil {
		return fmt.Errorf("content client: %w", err)
	}
	request.URL = below(c.base, segments)
	request.URL.RawQuery = query.Encode()
	request.Header.Set("Accept", "application/json, application/problem+json")
	response, err := c.http.Do(request)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok { // which has the whole URL, and in it the moderator's id
			err = failed.Err
		}
		return fmt.Errorf("content client: %s: %w", c.base.Host, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, MaxBody+1))
	switch {
	case err != nil:
		return fmt.Errorf("content client: %s: the answer broke off: %w", c.base.Host, err)
	case len(body) > MaxBody:
		return fmt.Errorf("content client: %s: the answer has more than %d bytes", c.base.Host, MaxBody)
	case response.StatusCode != http.StatusOK:
		return refusal(response.StatusCode, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("content client: %s: the answer is not what it must be: %w", c.base.Host, err)
	}
	return nil
}

// below returns the URL of segments below a base. Each stays one segment, whatever is in it.
func below(base *url.URL, segments []string) *url.URL {
	u := *base
	u.RawPath = strings.TrimSuffix(base.EscapedPath(), "/")
	u.Path = strings.TrimSuffix(base.Path, "/")
	for _, segment := range segments {
		u.Path += "/" + segment
		switch segment {
		case ".", "..": // which those between here and there would resolve
			u.RawPath += "/" + strings.ReplaceAll(segment, ".", "%2E")
		default:
			u.RawPath += "/" + url.PathEscape(segment)
		}
	}
	return &u
}
