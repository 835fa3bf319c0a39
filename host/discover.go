package host

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/keywright/keywright/host/internal/connect"
	"github.com/keywright/keywright/host/internal/discovery"
	"github.com/keywright/keywright/host/internal/egress"
	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/internal/hostfn"
)

// read appends the value of each secret and of each endpoint that the connector's templates name to values. It adds to stats.
func (c *Connector) read(ctx context.Context, subject *subject, values []string, stats *event.Attempt) ([]string, error) {
	values, err := c.secrets(ctx, values)
	if err != nil || len(c.plan.Names.Discovered) == 0 {
		return values, err
	}
	return c.discover(ctx, subject, values, stats)
}

// discover appends to values, which are those of the secrets, the value of each call of discover in the connector's templates. It
// takes no longer than an exchange. It adds to stats.
func (c *Connector) discover(ctx context.Context, subject *subject, values []string, stats *event.Attempt) ([]string, error) {
	var in *hostfn.Inputs
	if c.plan.ClientOf != nil {
		in = c.inputs(values, *subject, nil)
	}
	trust, failure := c.trust(ctx, in)
	if failure != nil {
		return nil, c.failure(failure)
	}
	bounded := false
	for _, d := range c.plan.Names.Discovered {
		key := discovery.Key{Issuer: d.Issuer, Trust: trust}
		endpoint, ok := c.host.cache.documents.Known(key, d.Member)
		if !ok {
			if !bounded { // most calls know all, and need no timer
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.exchangeTime())
				defer cancel()
				bounded = true
			}
			var err error
			if endpoint, err = c.findEndpoint(ctx, key, d.Member, in, stats); err != nil {
				return nil, err
			}
		}
		values = append(values, endpoint)
	}
	return values, nil
}

// trust returns a digest of what the connector trusts and presents when it reads metadata. in is nil unless the connector has TLS
// for its exchanges.
func (c *Connector) trust(ctx context.Context, in *hostfn.Inputs) (sum [32]byte, failure *hostfn.Failure) {
	if in == nil && c.config.Egress == nil {
		return sum, nil
	}
	var d connect.Digest
	if in != nil {
		texts, failure := c.tls.render(ctx, c, in)
		if failure != nil {
			return sum, failure
		}
		d.Add(texts.certificate, texts.key, texts.ca)
	}
	if own := c.config.Egress; own != nil {
		d.Add(c.config.Name, keyOfEgress(*own).String())
	}
	return d.Sum(), nil
}

// authorizationServer returns the issuer in whose metadata the connector finds its authorization endpoint, and reports whether that
// server promises iss in its answers (RFC 9207 section 3). The issuer is "" if there is none, or more than one.
func (c *Connector) authorizationServer(ctx context.Context, in *hostfn.Inputs) (issuer string, promised bool, err error) {
	for _, d := range c.plan.Names.Discovered {
		switch {
		case d.Member != "authorization_endpoint" || d.Issuer == issuer:
		case issuer != "":
			return "", false, nil
		default:
			issuer = d.Issuer
		}
	}
	if issuer == "" {
		return "", false, nil
	}
	if c.plan.ClientOf == nil {
		in = nil
	}
	trust, failure := c.trust(ctx, in)
	if failure != nil {
		return "", false, c.failure(failure)
	}
	value, err := c.findEndpoint(ctx, discovery.Key{Issuer: issuer, Trust: trust}, discovery.IssParameter, in, &event.Attempt{})
	return issuer, value == "true", err
}

// findEndpoint returns an endpoint from the metadata of an issuer, which it may have to read. It does so with the TLS of the
// connector's exchanges. It adds to stats.
func (c *Connector) findEndpoint(ctx context.Context, key discovery.Key, member string, in *hostfn.Inputs, stats *event.Attempt) (string, error) {
	client := c.dialer.tokens
	if c.plan.ClientOf != nil {
		var failure *hostfn.Failure
		if client, failure = c.plan.ClientOf(ctx, in); failure != nil {
			return "", c.failure(failure)
		}
	}
	begin := event.Span{Name: event.Discover}
	if issuer, err := url.Parse(key.Issuer); err == nil {
		begin.Scheme, begin.Host = issuer.Scheme, issuer.Host
	}
	ctx, span := c.events.Start(ctx, begin)
	didStart := false // and not stats, which would be allocated for each request then
	endpoint, err := c.host.cache.documents.Find(ctx, key, member, &discovery.Asker{
		Client: client, UserAgent: c.host.userAgent(), Mutual: in != nil && (c.tls.Certificate != nil || c.tls.PKCS12 != nil), Time: c.exchangeTime(), Bytes: c.host.config.Limits.TokenBytes, Codings: c.host.config.ContentCodings, HTTP: c.dialer.egress.AllowsHTTP,
		Failure: func(err error) error {
			if _, plain := client.Transport.(*http.Transport); plain {
				return egress.Failure(err)
			}
			return err
		},
		Place: c.place,
		Go: func(task func()) error {
			err := c.host.start(task)
			didStart = err == nil
			return err
		},
		Changed: c.log.metadata,
	})
	if didStart {
		stats.Discoveries++
	}
	var failed *discovery.Error
	if errors.As(err, &failed) {
		err = &DiscoveryError{Issuer: failed.Issuer, RetryAfter: failed.RetryAfter, text: failed.Error(), passing: failed.Passing, err: failed.Err}
	}
	if err != nil {
		endpoint, err = "", c.fail(StageToken, err)
	}
	span.End(event.End{Err: err})
	return endpoint, err
}
