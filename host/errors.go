package host

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/keywright/keywright/host/internal/hostfn"
)

// Stage says how far a request came.
type Stage string

// The stages, in the order in which a request passes them.
const (
	StageOrigin   Stage = hostfn.StageOrigin   // the request is for an origin that is not the connector's
	StageTemplate Stage = hostfn.StageTemplate // a template could not be rendered: a secret or a user field is missing
	StageConfig   Stage = hostfn.StageConfig   // a rendered value is not what its field allows
	StagePlugin   Stage = hostfn.StagePlugin   // the plugin failed, broke its contract or a limit
	StageBody     Stage = hostfn.StageBody     // the request's body, which a plugin signs, cannot be read or not be kept
	StageSign     Stage = hostfn.StageSign     // a key or a signature
	StageToken    Stage = hostfn.StageToken    // the token endpoint; [TokenError] when it answered
	StageMutation Stage = hostfn.StageMutation // what the plugin wants changed cannot be applied
	StageResponse Stage = "response"           // the API's answer is not to be passed on; of [Connector.Shielded] only
)

// Error is why a request was not sent, or its answer not passed on. Its text names connector, auth type and stage, and never holds a secret.
type Error struct {
	Connector string
	Type      string // the auth type
	Stage     Stage
	Err       error
}

func (e *Error) Error() string {
	return fmt.Sprintf("connector %q (%s): %s: %v", e.Connector, e.Type, e.Stage, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// TokenError is the answer of a token endpoint that gave no token, RFC 6749 section 5.2: what [errors.As] finds in an
// [Error] of [StageToken].
type TokenError struct {
	Status int    // of HTTP
	Code   string // a registered error code such as invalid_client, "other" for any other, "" for none
	// Problem says what is wrong with an answer of 200 to 299, such as "without an access_token". It is "" for any other
	// status.
	Problem string
	// RetryAfter is how long requests with the same secrets, variables, user and configuration get this error without the
	// endpoint being asked; 0 when the next request asks it.
	RetryAfter time.Duration
}

func (e *TokenError) Error() string {
	return (*hostfn.TokenError)(e).Error()
}

// ConfigError lists everything that is wrong with a connector, up to a hundred problems.
type ConfigError struct {
	Connector string
	Problems  []Problem
	More      int // problems that are not listed
}

// Problem is one thing wrong with a connector's definition.
type Problem struct {
	Path    string // of the member, from the connector on: auth.config.token_url
	Column  int    // of the character in the member's text, from 1; 0 when all of it is meant
	Message string // what is wrong and what to do
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
	// ErrEchoed is that an API's answer holds the credential that its request was sent with.
	ErrEchoed = errors.New("the API's answer holds the credential that it was sent")
	// ErrClosed is returned by all methods after [Host.Close].
	ErrClosed = errors.New("the host is closed")
)
