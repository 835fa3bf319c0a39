package hostfn

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Stages of a request at which a call can fail. The host's errors name them.
const (
	StageConfig   = "config"   // the configuration, or a rendered value of it, is wrong
	StageTemplate = "template" // a template could not be rendered: a secret, variable or user field is missing
	StagePlugin   = "plugin"   // the guest failed, or broke the contract or a limit
	StageToken    = "token"    // the token endpoint failed
	StageSign     = "sign"     // a key is wrong, or signing failed
	StageMutation = "mutation" // the changes that the guest wants cannot be applied
	StageOrigin   = "origin"   // the request is for an origin that is not the connector's
	StageBody     = "body"     // the request's body cannot be read or kept
)

// Failure is the reason why a call ended.
type Failure struct {
	Stage string
	Err   error
	// Guest is set if the guest itself has returned Err.
	Guest bool
	// TokenRequests is set if the call has made more token requests than it may.
	TokenRequests bool
}

func (f *Failure) Error() string { return f.Err.Error() }

func (f *Failure) Unwrap() error { return f.Err }

// FieldError is an error about one field of a configuration, or about a member of tls such as tls.key.
type FieldError struct {
	Field string
	Err   error
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }

func (e *FieldError) Unwrap() error { return e.Err }

// FieldErrorf returns an error about a field.
func FieldErrorf(field, format string, args ...any) error {
	return &FieldError{Field: field, Err: fmt.Errorf(format, args...)}
}

// TokenError is an answer of a token endpoint without a token (RFC 6749 section 5.2). Its fields are those of host.TokenError.
type TokenError struct {
	Status     int
	Code       string
	Problem    string
	RetryAfter time.Duration
	Offset     time.Duration
	Remembered bool
	Age        time.Duration
}

func (e *TokenError) Error() string {
	text := fmt.Sprintf("the token endpoint answered %d", e.Status)
	if e.Problem != "" {
		text += " " + e.Problem
	}
	switch e.Code {
	case "":
	case "other":
		text += " (an error code that is not registered)"
	default:
		text += fmt.Sprintf(" (%s)", e.Code)
	}
	if e.RetryAfter > 0 {
		text += fmt.Sprintf("; it is asked again in %v", (e.RetryAfter + time.Second - 1).Truncate(time.Second))
	}
	return text
}

// Passing reports whether the answer is a failure of the endpoint, or asks for another try. Then the same request may
// succeed later.
func (e *TokenError) Passing() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return e.Status >= http.StatusInternalServerError || slices.Contains(retryCodes, e.Code)
}

// retryCodes holds the error codes that ask for another try: RFC 8628 section 3.5, RFC 9449 section 8, RFC 6749 section
// 4.1.2.1.
var retryCodes = []string{"authorization_pending", "slow_down", "use_dpop_nonce", "server_error", "temporarily_unavailable"}

// passing is a temporary error: the same call may succeed later, with nothing changed.
type passing struct{ error }

func (p passing) Unwrap() error { return p.error }

// Passing returns err, marked as temporary. The text stays the same.
func Passing(err error) error { return passing{err} }

// IsPassing reports whether err, or an error that it wraps, is marked as temporary.
func IsPassing(err error) bool { return errors.As(err, new(passing)) }
