package view

import (
	"fmt"
	"slices"
	"time"

	"github.com/keywright/keywright/internal/wellknown"
)

// TokenError is the answer of a token endpoint that issued no token, RFC 6749 section 5.2. A host.Error of host.StageToken
// wraps it; find it with [errors.As].
type TokenError struct {
	// Status is the HTTP status.
	Status int
	// Code is a registered error code such as invalid_client. It is "other" for any other code, and "" if there is no code.
	Code string
	// Problem says what is wrong with an answer that is no error, such as "without an access_token". It is "" if Status is 400 or more.
	Problem string
	// RetryAfter is the time in which requests with the same secrets, variables, user and configuration get this error
	// without a request to the endpoint. It is the endpoint's Retry-After, RFC 9110 section 10.2.3, from one second to
	// one hour. If the endpoint sent none, it is about one second at first, and twice as long after each further
	// refusal, up to five minutes. 0 means that the next request asks the endpoint.
	RetryAfter time.Duration
	// Offset is the time that the endpoint's clock is ahead of the host's, in whole seconds, by its header Date. It is 0 if that
	// is less than ten seconds, or not known.
	Offset time.Duration
	// Remembered reports whether the endpoint was not asked, because it has refused the same request before: Age ago,
	// or longer ago if another node has asked it.
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
	return text + askedAgain(e.RetryAfter)
}

// askedAgain returns the end of an error that says when somebody is asked again, if wait is not 0.
func askedAgain(wait time.Duration) string {
	if wait <= 0 {
		return ""
	}
	return fmt.Sprintf("; it is asked again in %v", (wait + time.Second - 1).Truncate(time.Second))
}

// Retryable reports whether the answer is a failure of the endpoint, or asks for another try. Then the same request may succeed later.
func (e *TokenError) Retryable() bool {
	return wellknown.Again(e.Status) || slices.Contains(retryCodes, e.Code)
}

// retryCodes holds the error codes that ask for another try: RFC 8628 section 3.5, RFC 9449 section 8, RFC 6749 section 4.1.2.1.
var retryCodes = []string{"authorization_pending", "slow_down", "use_dpop_nonce", "server_error", "temporarily_unavailable"}

// DiscoveryError says why discover has no value: the metadata of an issuer (RFC 8414) cannot be read, is not that of the issuer,
// or does not have the endpoint. A host.Error of host.StageToken wraps it; find it with [errors.As].
type DiscoveryError struct {
	// Issuer is the issuer identifier.
	Issuer string
	// Problem says what is wrong.
	Problem string
	// Retryable is set if the same may succeed later without a change.
	Retryable bool
	// RetryAfter is the time in which requests get this error without asking the issuer. It is about one second at first, and
	// twice as long after each further failure, up to five minutes. 0 means that the next request asks the issuer, or that the
	// metadata counts for some more minutes.
	RetryAfter time.Duration
	// Err is the cause, or nil.
	Err error
}

func (e *DiscoveryError) Error() string {
	text := "the metadata of " + e.Issuer + ": " + e.Problem
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text + askedAgain(e.RetryAfter)
}

func (e *DiscoveryError) Unwrap() error { return e.Err }

// FieldError is an error about one field of a configuration, or about a member of tls such as tls.key. A host.Error that wraps it has the
// same Field.
type FieldError struct {
	Field string
	Err   error
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Err.Error() }
func (e *FieldError) Unwrap() error { return e.Err }

// CertificateError is the error for a client certificate that has ended. A host.Error of host.StageConfig wraps it; find it with [errors.As].
type CertificateError struct{ NotAfter time.Time }

func (e *CertificateError) Error() string {
	return "the certificate ended at " + e.NotAfter.UTC().Format(time.RFC3339) + ": replace the secret by a renewed one"
}
