package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/keywright/keywright/host/internal/egress"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/inputs"
	"github.com/keywright/keywright/host/internal/run"
	"github.com/keywright/keywright/host/internal/send"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/printable"
)

// Stage is the stage at which a request failed.
type Stage string

// The stages, in the order in which a request passes them.
const (
	// StageOrigin means that the request is for an origin that is not the connector's, or that another program could take it for one.
	StageOrigin Stage = "origin"
	// StageTemplate means that a template cannot be rendered, because a secret or a field of the user is missing.
	StageTemplate Stage = "template"
	// StageConfig means that a rendered value is not valid for its field.
	StageConfig Stage = "config"
	// StageClosed means that the host is closed, so that nothing was sent. The error wraps [ErrClosed]. A host that takes its
	// place may send the same request.
	StageClosed Stage = "closed"
	// StagePlugin means that the plugin failed, broke its contract, or exceeded a limit.
	StagePlugin Stage = "plugin"
	// StageBody means that the request's body, which a plugin signs, cannot be read or cannot be kept.
	StageBody Stage = "body"
	// StageSign means that a key is invalid, or that a signature cannot be made or has not had its turn.
	StageSign Stage = "sign"
	// StageIdentity means that there is no token of an identity of the process, see [Identities].
	StageIdentity Stage = "identity"
	// StageToken means that there is no token. If the token endpoint answered, the error wraps a [TokenError]. If the metadata of
	// an issuer does not say which endpoint that is, the error wraps a [DiscoveryError].
	StageToken Stage = "token"
	// StageMutation means that the plugin's mutation cannot be applied.
	StageMutation Stage = "mutation"
	// StageResponse means that the request was sent, but the API's answer is not passed on. [Connector.Transport] has this
	// stage only for a redirect to a URL with the credential of the query, the path or a form.
	StageResponse Stage = "response"
)

// Error is the reason why a request was not sent, or why its answer was not passed on. Its text has the connector, the
// auth type and the stage. It never contains a secret.
type Error struct {
	// Connector is the name of the connector, and AuthType is its auth type. Of several, it is that of the authentication that failed, at
	// Path, such as auth[1]. If Path is "", it has all of them.
	Connector, AuthType, Path string
	// Stage is the stage at which the request failed.
	Stage Stage
	// Field is the field of the auth type that Err is about, or the member of tls such as tls.key. It is "" if that is not known.
	Field string
	// Err is the cause. It may wrap a [TokenError], a [DiscoveryError], a [GrantError], [ErrSecretNotFound], [ErrKeyNotFound],
	// [ErrKeyRefused], [ErrIdentityRefused], [ErrAddressRefused], [ErrServerCertificate], a [CertificateError], [state.ErrUnavailable],
	// [ErrCredentialInResponse], [ErrBusy], [ErrClosed], [http.MaxBytesError], or the error of a context.
	Err error
}

func (e *Error) Error() string {
	return fmt.Sprintf("connector %q (%s): %s: %v", e.Connector, strings.TrimSpace(e.Path+" "+e.AuthType), e.Stage, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether the same request may succeed later without a change. It is true if a token endpoint or a store of secrets,
// keys or state could not be reached, failed, or asked for another attempt (408, 425, 429, 5xx), if a grant is [ConditionUncertain], if a
// time limit passed, and if the host is closed. It is false for errors that a person must fix, for a request that was cancelled, and
// after the request was sent.
//
// RetryAfter of a wrapped [GrantError] or [TokenError] is the time to wait.
func (e *Error) Retryable() bool {
	var answer *TokenError
	var metadata *DiscoveryError
	var grant *GrantError
	switch {
	case e.Stage == StageResponse, errors.Is(e.Err, context.Canceled), errors.As(e.Err, new(*egress.AddressError)):
		return false
	case errors.As(e.Err, &grant):
		return grant.Condition == ConditionUncertain
	case errors.As(e.Err, &answer):
		return answer.Retryable()
	case errors.As(e.Err, &metadata):
		return metadata.Retryable
	}
	return e.Stage == StageClosed || hostfn.IsPassing(e.Err) || errors.Is(e.Err, context.DeadlineExceeded)
}

// TokenError is the answer of a token endpoint that issued no token, RFC 6749 section 5.2. An [Error] of [StageToken] wraps it; find it
// with [errors.As]. It has the status and the error code of the answer: go doc github.com/keywright/keywright/host/view.TokenError shows
// its fields.
type TokenError = view.TokenError

// Condition is the condition of a grant: of what a connector has from a user or an operator to get tokens with, such as a refresh token.
type Condition string

// The conditions.
const (
	// ConditionNotConnected means that nobody has given consent yet, or that it was taken back.
	ConditionNotConnected Condition = "not connected"
	// ConditionConnected means that requests can be authenticated, as far as the host knows.
	ConditionConnected Condition = "connected"
	// ConditionUncertain means that the grant may have been redeemed without an answer. Until a later request has redeemed it, nobody knows.
	ConditionUncertain Condition = "uncertain"
	// ConditionLost means that the grant may have been redeemed, and what was issued is not there. It is not used again.
	ConditionLost Condition = "lost"
	// ConditionRefused means that the authorization server refuses the grant.
	ConditionRefused Condition = "refused"
)

// GrantError is the error for a grant that cannot be used until a person renews it, or for some time if it is [ConditionUncertain]. An
// [Error] of [StageToken] wraps it; find it with [errors.As].
type GrantError struct {
	// Connector is the name of the connector.
	Connector string
	// Tenant and User are the IDs of the tenant and the user whose grant it is. They are empty if it is the operator's.
	Tenant, User string
	// Condition is [ConditionNotConnected], [ConditionUncertain], [ConditionLost] or [ConditionRefused].
	Condition Condition
	// RetryAfter is the time in which requests with an [ConditionUncertain] grant get this error, without a request to the token endpoint. It
	// is the endpoint's Retry-After, or about one second at first, and twice as long after each further attempt, up to five minutes.
	RetryAfter time.Duration
	// Err is the cause, such as a [TokenError], or nil if an earlier request has met it.
	Err error

	// renewal says how to renew the grant.
	renewal string
}

func (e *GrantError) Error() string {
	whose := "the grant"
	if e.User != "" {
		whose += fmt.Sprintf(" of user %q", Printable(e.User))
	}
	if e.Tenant != "" {
		whose += fmt.Sprintf(" of tenant %q", Printable(e.Tenant))
	}
	text := whose + " may be lost, because its token was sent and no answer says what became of it, so that it is not sent again"
	renew := ": " + e.renewal
	switch e.Condition {
	case ConditionUncertain:
		text, renew = whose+" is uncertain, because its token was sent and no answer says what became of it: a later request sends it again", ""
	case ConditionRefused:
		text = whose + " is lost, because the authorization server refused its token"
	case ConditionNotConnected:
		text, renew = "there is no grant", ": connect first"
		if whose != "the grant" {
			text = whose + " is not there"
		}
	}
	text += renew
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *GrantError) Unwrap() error { return e.Err }

// DiscoveryError says why discover has no value: the metadata of an issuer (RFC 8414) cannot be read, is not that of the issuer,
// or does not have the endpoint. An [Error] of [StageToken] wraps it; find it with [errors.As]. go doc
// github.com/keywright/keywright/host/view.DiscoveryError shows its fields.
type DiscoveryError = view.DiscoveryError

// PluginFailure is the way in which a plugin failed. It is empty if it has not, or if something else has failed: a token
// endpoint, a store of secrets, a template, or a configuration that the plugin itself reports as wrong.
type PluginFailure string

// The ways in which plugins fail.
const (
	// FailureFuel means that the plugin had no fuel left.
	FailureFuel PluginFailure = "fuel"
	// FailureTime means that the time of the call was over while the plugin ran. The time of a token request that is not answered
	// counts as a failure of its endpoint.
	FailureTime PluginFailure = "time"
	// FailureMemory means that the plugin wanted more memory, or more memory blocks, than its limit.
	FailureMemory PluginFailure = "memory"
	// FailureTrap means that the plugin trapped, as after a panic.
	FailureTrap PluginFailure = "trap"
	// FailureAnswer means that the plugin returned what cannot be applied to the request, misused a host function, or was over
	// another limit.
	FailureAnswer PluginFailure = "answer"
)

// ConfigError lists the problems of a connector's configuration, or those of a template.
type ConfigError struct {
	// Connector is the name of the connector. It is empty for a template of [Host.Template].
	Connector string
	// Problems has at most 100 problems.
	Problems []Problem
	// More is the number of further problems.
	More int
	// Failure says in which way the plugin failed while it checked the configuration. It is empty if it did not fail.
	Failure PluginFailure

	// template reports whether the problems are those of a template.
	template bool
}

// Problem is one problem of a configuration.
type Problem struct {
	// Path is the path of the member in the connector, such as auth.config.token_url. It is empty for a template.
	Path string
	// Column is the column of the character in the member's text, from 1. 0 means the whole text.
	Column int
	// Message says what is wrong and how to fix it.
	Message string
	// Code is that of a problem for which a program may have advice of its own: [CodePlainHTTP], [CodeNoKeyStore],
	// [CodeNoState]. It is "" for others.
	Code string
}

// Values of [Problem].Code.
const (
	CodePlainHTTP  = "plain-http"   // a URL is of plain http, which the Egress does not allow
	CodeNoKeyStore = "no-key-store" // get_key needs [Config].Keys
	CodeNoState    = "no-state"     // the auth type needs [Config].State
)

func (e *ConfigError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		if e.template {
			if lines[i] = p.Message; p.Column > 0 {
				lines[i] = fmt.Sprintf("column %d: %s", p.Column, p.Message)
			}
			continue
		}
		column := ""
		if p.Column > 0 {
			column = fmt.Sprintf(", column %d", p.Column)
		}
		lines[i] = fmt.Sprintf("connectors.%s.%s%s: %s", cmp.Or(Printable(e.Connector), "(unnamed)"), Printable(p.Path), column, Printable(p.Message))
	}
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("connectors.%s: and %d more problems", Printable(e.Connector), e.More))
	}
	return strings.Join(lines, "\n")
}

// Errors to compare with [errors.Is].
var (
	// ErrSecretNotFound is returned by [Secrets] for a name without a secret.
	ErrSecretNotFound error = inputs.ErrSecretNotFound
	// ErrKeyNotFound is returned by [Keys] for a name without a key.
	ErrKeyNotFound error = hostfn.ErrKeyNotFound
	// ErrKeyRefused is returned by [Keys] for a key that may not be used, or not in this way.
	ErrKeyRefused error = hostfn.ErrKeyRefused
	// ErrCredentialInResponse means that the API's answer contains the credential of its request.
	ErrCredentialInResponse error = send.ErrCredential
	// ErrAddressRefused means that the egress of the host or the connector does not allow the address.
	ErrAddressRefused error = egress.ErrRefused
	// ErrServerCertificate means that the certificate of a server cannot be verified: it has expired, is for another name, or is
	// signed by an unknown authority.
	ErrServerCertificate error = answers.ErrCertificate
	// ErrBusy means that a call was not made, because so many others wait for token endpoints, for the store of keys or for their turn, or another
	// node had the turn of its grant for as long as the call may take.
	ErrBusy error = run.ErrBusy
	// ErrClosed means that [Host.Close] was called.
	ErrClosed error = run.ErrClosed
)

// Printable returns text with control and other unprintable characters escaped, so that it can neither forge a log line
// nor control a terminal. It cuts the text after 1,024 bytes.
func Printable(text string) string { return printable.Text(text, 1024) }
