package host

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/state"
)

// otherError is the value of error.type for what has no other, as in the semantic conventions of OpenTelemetry.
const otherError = "_OTHER"

// endWith returns the end of a span with an error, or with nil.
func endWith(err error) (e SpanEnd) {
	if err == nil {
		return SpanEnd{}
	}
	e.Error = errorType(err)
	var failed *Error
	if errors.As(err, &failed) {
		e.Stage, e.Retryable = failed.Stage, failed.Retryable()
	} else {
		e.Retryable = hostfn.IsPassing(err) || errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
	}
	return e
}

// endAttempt returns the end of the span of an attempt. stats has no Err.
func (c *Connector) endAttempt(stats Attempt, err error) SpanEnd {
	e := endWith(err)
	stats.Source, stats.Connector, stats.AuthType, stats.Err = c, c.config.Name, c.config.Auth.Type, err
	e.Attempt = &stats
	return e
}

// answeredWith returns the end of the span of a request that got an answer, or else an error.
func answeredWith(response *http.Response, err error) SpanEnd {
	e := endWith(err)
	if response != nil {
		if e.Status = response.StatusCode; err == nil && e.Status >= http.StatusBadRequest {
			e.Error = strconv.Itoa(e.Status)
		}
	}
	e.Retryable = false
	return e
}

// endExchange returns the end of the span of an exchange: the status of its answer or 0, and why there is no token, or nil.
func endExchange(status int, tokenErr *hostfn.TokenError, err error) SpanEnd {
	e := endWith(err)
	if tokenErr != nil {
		e.Error, e.Retryable, e.RetryAfter = refusalType((*TokenError)(tokenErr)), tokenErr.Passing(), tokenErr.RetryAfter
	}
	e.Status = status
	return e
}

// errorTypes has the words for errors to compare with errors.Is. The first that fits counts.
var errorTypes = []struct {
	err  error
	word string
}{
	{context.Canceled, "canceled"},
	{context.DeadlineExceeded, "timeout"},
	{ErrAddressRefused, "address_refused"},
	{ErrServerCertificate, "server_certificate"},
	{ErrSecretNotFound, "secret_not_found"},
	{ErrKeyNotFound, "key_not_found"},
	{ErrKeyRefused, "key_refused"},
	{ErrCredentialInResponse, "credential_in_response"},
	{state.ErrUnavailable, "state_unavailable"},
	{ErrClosed, "closed"},
	{io.EOF, "connection_closed"},
	{io.ErrUnexpectedEOF, "connection_closed"},
}

// errorType returns the value of error.type for an error: a word of a list, so that no text of an error gets into a span.
func errorType(err error) string {
	var grant *GrantError
	var tokenErr *TokenError
	var inner *hostfn.TokenError
	var network net.Error
	switch {
	case errors.As(err, &grant):
		return "grant_" + strings.ReplaceAll(string(grant.Condition), " ", "_")
	case errors.As(err, &tokenErr):
		return refusalType(tokenErr)
	case errors.As(err, &inner):
		return refusalType((*TokenError)(inner))
	case errors.As(err, new(*http.MaxBytesError)):
		return "body_too_large"
	case errors.As(err, new(*CertificateError)):
		return "client_certificate"
	}
	for _, entry := range errorTypes {
		if errors.Is(err, entry.err) {
			return entry.word
		}
	}
	switch {
	case errors.As(err, &network) && network.Timeout():
		return "timeout"
	case errors.As(err, new(*net.DNSError)):
		return "name_not_found"
	case errors.As(err, new(*net.OpError)):
		return "connection_failed"
	case errors.As(err, new(*DiscoveryError)):
		return "metadata"
	}
	return otherError
}

// refusalType returns the value of error.type for the refusal of a token endpoint.
func refusalType(tokenErr *TokenError) string {
	switch {
	case tokenErr.Code != "" && tokenErr.Code != "other":
		return tokenErr.Code
	case tokenErr.Status >= http.StatusBadRequest:
		return strconv.Itoa(tokenErr.Status)
	}
	return "no_token"
}
