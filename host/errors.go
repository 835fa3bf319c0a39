package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/keywright/keywright/host/internal/egress"
	"github.com/keywright/keywright/host/internal/hostfn"
)

// Stage says how far a request came.
type Stage string

// The stages, in the order in which a request passes them.
const (
	// StageOrigin is that the request is for an origin that is not the connector's.
	StageOrigin Stage = "origin"
	// StageTemplate is that a template cannot be rendered: a secret or a field of the user is missing.
	StageTemplate Stage = "template"
	// StageConfig is that a rendered value is not what its field allows.
	StageConfig Stage = "config"
	// StagePlugin is that the plugin failed, or broke its contract or a limit.
	StagePlugin Stage = "plugin"
	// StageBody is that the request's body, which a plugin signs, cannot be read or cannot be kept.
	StageBody Stage = "body"
	// StageSign is that a key or a signature is of no use.
	StageSign Stage = "sign"
	// StageToken is that there is no token. When the token endpoint answered, the error wraps a [TokenError].
	StageToken Stage = "token"
	// StageMutation is that what the plugin wants changed cannot be applied.
	StageMutation Stage = "mutation"
	// StageResponse is that the API's answer is not passed on. Only [Connector.GuardedTransport] has it: the request was sent.
	StageResponse Stage = "response"
)

// Error is why a request was not sent, or its answer not passed on. Its text names connector, auth type and stage, and
// never holds a secret.
type Error struct {
	// Connector is the name of the connector, and Type its auth type.
	Connector, Type string
	// Stage says how far the request came.
	Stage Stage
	// Err is the cause. It may wrap a [TokenError], [ErrSecretNotFound], [ErrCredentialInResponse], [ErrClosed],
	// [http.MaxBytesError], or the error of a context.
	Err error
}

func (e *Error) Error() string {
	return fmt.Sprintf("connector %q (%s): %s: %v", e.Connector, e.Type, e.Stage, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether the same request may succeed later, with nothing changed. It is true when a token endpoint or
// a store of secrets could not be reached, failed, or asked for another try (408, 425, 429, 5xx), and when time ran out.
// It is false for what a person has to change, for a request that was cancelled, and once the request was sent.
//
// How long to wait, RetryAfter of the [TokenError] says, which [errors.As] finds. It has the Retry-After of the token
// endpoint.
func (e *Error) Retryable() bool {
	var answer *TokenError
	switch {
	case e.Stage == StageResponse, errors.Is(e.Err, context.Canceled), errors.As(e.Err, new(*egress.AddressError)):
		return false
	case errors.As(e.Err, &answer):
		return (*hostfn.TokenError)(answer).Passing()
	}
	return hostfn.IsPassing(e.Err) || errors.Is(e.Err, context.DeadlineExceeded)
}

// TokenError is the answer of a token endpoint that gave no token, RFC 6749 section 5.2: what [errors.As] finds in an
// [Error] of [StageToken].
type TokenError struct {
	// Status is that of HTTP.
	Status int
	// Code is a registered error code such as invalid_client, "other" for any other, and "" for none.
	Code string
	// Problem says what is wrong with an answer of 200 to 299, such as "without an access_token". It is "" for any other
	// status.
	Problem string
	// RetryAfter is how long requests with the same secrets, variables, user and configuration get this error without the
	// endpoint being asked. It is the endpoint's Retry-After, RFC 9110 section 10.2.3, from a second to an hour. Where there
	// was none, the host waits for longer each time, up to five minutes. 0 means that the next request asks the endpoint.
	RetryAfter time.Duration
}

func (e *TokenError) Error() string {
	return (*hostfn.TokenError)(e).Error()
}

// ConfigError lists everything that is wrong with a connector, up to a hundred problems.
type ConfigError struct {
	// Connector is its name.
	Connector string
	// Problems are at most a hundred.
	Problems []Problem
	// More counts the problems that are not listed.
	More int
}

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	// Path is that of the member, from the connector on: auth.config.token_url.
	Path string
	// Column is that of the character in the member's text, from 1. 0 means all of the text.
	Column int
	// Message says what is wrong and what to do.
	Message string
}

func (e *ConfigError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		at := ""
		if p.Column > 0 {
			at = fmt.Sprintf(", column %d", p.Column)
		}
		lines[i] = fmt.Sprintf("connectors.%s.%s%s: %s", Printable(e.Connector), Printable(p.Path), at, Printable(p.Message))
	}
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("connectors.%s: and %d more problems", Printable(e.Connector), e.More))
	}
	return strings.Join(lines, "\n")
}

// Errors that [errors.Is] finds.
var (
	// ErrSecretNotFound is returned by a [Secrets] for a name that it does not have.
	ErrSecretNotFound = errors.New("the secret is not found")
	// ErrCredentialInResponse is that an API's answer holds the credential that its request was sent with.
	ErrCredentialInResponse = errors.New("the API's answer holds the credential that it was sent")
	// ErrClosed is returned by all methods after [Host.Close].
	ErrClosed = errors.New("the host is closed")
)
