package hostfn

import (
	"context"
	"net/http"
	"net/url"

	"github.com/keywright/keywright/abi"
)

// Span is a span within a call: a request to a token endpoint, or a use of the store of keys.
type Span struct {
	// Field is the field with the URL or the key.
	Field string
	// Exchange is the request to a token endpoint, or nil. Host is its host, or "" if a secret is a part of that.
	Exchange *http.Request
	Host     string
}

// SpanEnd describes the end of a span.
type SpanEnd struct {
	// Status is the status of the endpoint's answer, or 0 if there is none. Refused is set if the answer is a refusal.
	Status  int
	Refused *TokenError
	// Err is the error in place of an answer, or of the store of keys, or nil.
	Err error
}

// span begins a span, if somebody makes them. Otherwise end is nil.
func (c *report) span(ctx context.Context, s Span) (within context.Context, end func(SpanEnd)) {
	if c.plan.Span == nil {
		return ctx, nil
	}
	return c.plan.Span(ctx, s)
}

// exchangeSpan begins the span of a request to a token endpoint, with the host that may be shown.
func (c *exchanging) exchangeSpan(r *http.Request, host string) (sent *http.Request, end func(SpanEnd)) {
	ctx, end := c.span(r.Context(), Span{Field: c.urlField, Exchange: r, Host: host})
	if end == nil {
		return r, nil
	}
	return r.WithContext(ctx), end
}

// asksAt notes which field the URL of the next exchange is from. reference is the URL as the guest has it.
func (c *exchanging) asksAt(reference string) {
	c.urlField, c.urlReference = "", reference
	for _, r := range c.rendered {
		if field := c.plan.Fields[r.name]; r.ok && r.value == reference && field != nil && field.Kind == abi.KindURL {
			c.urlField = r.name
			return
		}
	}
}

// shownHost returns the host of an exchange, or "" if a sealed value is a part of it. Any field may take its value from a secret.
func (c *exchanging) shownHost(r *http.Request) string {
	if u, err := url.Parse(c.urlReference); err != nil || u.Host != r.URL.Host {
		return ""
	}
	return r.URL.Host
}
