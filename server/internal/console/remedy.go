package console

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
)

// remedy says in a line what is the likely reason of a failure and what to do about it. It returns "" if it knows none. It looks at the
// types of errors, and at what token endpoints and APIs say by codes that are registered.
func remedy(err error, failed host.PluginFailure, api gateway.Refused, status int, stage string) string {
	var certificate *host.CertificateError
	var grant *host.GrantError
	var answer *host.TokenError
	switch {
	case errors.Is(err, host.ErrSecretNotFound):
		return "A secret is missing: store it under the name in the cause."
	case errors.As(err, &certificate):
		return "The client certificate expired on " + certificate.NotAfter.UTC().Format(time.DateOnly) + ": store a renewed one, with its key."
	case errors.Is(err, host.ErrServerCertificate):
		return "The server's certificate is refused: if it has expired, its operator has to renew it; if its authority is your own, name it in egress.ca_file or tls.ca."
	case errors.Is(err, host.ErrAddressRefused):
		return "The address is not allowed: if it is the right one, add its range to egress.allow."
	case errors.As(err, &grant):
		return grantRemedy(grant)
	case errors.As(err, &answer):
		return tokenRemedy(answer)
	case errors.Is(err, host.ErrKeyNotFound), errors.Is(err, host.ErrKeyRefused):
		return "The store of keys has no such key, or refuses it: compare its name, type and policy with the connector's auth."
	case failed != "":
		return pluginRemedies[failed]
	case stage == string(host.StageTemplate):
		return "A template lacks a value: does the request have a user with this field, and can the store of secrets be read?"
	case stage == string(host.StageSign):
		return "The key does not fit: compare its type with the algorithm of the connector. RS and PS need RSA, ES needs EC, EdDSA needs Ed25519, HS needs a shared secret."
	case stage == string(host.StageToken) && isDown(err):
		return "The token endpoint cannot be reached: is its URL right, and is it up?"
	case stage == stageAPI:
		return refusalRemedy(api, status)
	case isDown(err):
		return "The API cannot be reached: is its URL right, and is it up?"
	}
	return ""
}

// isDown reports whether an error is one of the network.
func isDown(err error) bool {
	var network net.Error
	return errors.As(err, &network)
}

// pluginRemedies has what to do about a plugin that failed.
var pluginRemedies = map[host.PluginFailure]string{
	host.FailureFuel:   "The plugin ran out of fuel: raise limits.fuel of the plugin if it has one, or tell its author: it loops, or its input is too large.",
	host.FailureTime:   "The plugin ran out of time: look at limits.call_time of the plugin, or tell its author.",
	host.FailureMemory: "The plugin ran out of memory: raise limits.memory_bytes of the plugin if it has one, or tell its author.",
	host.FailureTrap:   "The plugin crashed: tell its author, with a record of keywright request --record.",
	host.FailureAnswer: "The request cannot have what the plugin returned: does a secret hold a line break? If not, tell the plugin's author, with a record of keywright request --record.",
}

// grantRemedy says what to do about a grant.
func grantRemedy(g *host.GrantError) string {
	first, again := "the operator has to run keywright connect.", "run keywright connect, or configure a new refresh token, whichever the auth type has."
	if g.User != "" {
		first, again = "the user has to connect.", "the user has to connect again."
	}
	switch g.Condition {
	case host.NotConnected:
		return "Nobody has given consent yet: " + first
	case host.Refused:
		return "The grant was revoked or has ended: " + again
	case host.Lost:
		return "The grant may be lost: " + again
	}
	return ""
}

// tokenRemedy says what to do about an answer of a token endpoint.
func tokenRemedy(e *host.TokenError) string {
	if e.Status < http.StatusInternalServerError {
		return clockRemedy("token endpoint", e.Offset, codeRemedy(e))
	}
	return codeRemedy(e)
}

// codeRemedy says what to do about the code and the status of a token endpoint's answer.
func codeRemedy(e *host.TokenError) string {
	switch e.Code {
	case "invalid_client":
		return "The client id or its secret is wrong: compare both with those at the product, and look for blanks."
	case "invalid_grant":
		return "The grant or assertion is refused: compare issuer, subject, audience and key with those that the product expects; a user may have to approve the client there first."
	case "invalid_scope":
		return "A scope is unknown or not allowed for this client: compare scope with those that the product grants."
	case "invalid_target":
		return "The audience or resource is wrong: compare it with the one that the product names for the API."
	case "unauthorized_client":
		return "The client may not use this grant type: allow it for the client at the product."
	case "unsupported_grant_type":
		return "The token endpoint does not know the grant type: is token_url the right one?"
	case "invalid_request":
		return "The token endpoint misses or refuses a parameter: compare audience, scope and parameters with those that the product documents."
	case "access_denied":
		return "The product denies access: is the client approved there?"
	}
	switch {
	case e.Problem != "":
		return "The token endpoint's answer is not that of one: is token_url the right one?"
	case e.Status == http.StatusTooManyRequests:
		return "The token endpoint wants fewer requests: wait, and see whether several processes share one client."
	case e.Status >= http.StatusInternalServerError:
		return "The token endpoint is down: look at the product's status page."
	case e.Status == http.StatusUnauthorized:
		return "The client id or its secret is wrong: compare both with those at the product, and look for blanks."
	case e.Status == http.StatusNotFound:
		return "There is no token endpoint at this URL: compare token_url with the one that the product documents."
	}
	return ""
}

// leastOffset is the difference of two clocks from which on it is a likely reason of a refusal. Servers allow for less.
const leastOffset = time.Minute

// clockRemedy says that clocks differ, if they do, before what else may be the reason: the clock of a request matters only to some.
func clockRemedy(whose string, offset time.Duration, other string) string {
	if offset.Abs() < leastOffset {
		return other
	}
	word := "ahead of"
	if offset < 0 {
		word = "behind"
	}
	clock := fmt.Sprintf("The clocks differ: that of the %s is %s %s this machine's. Set the clock, with NTP.", whose, lasts(offset.Abs()), word)
	if other == "" {
		return clock
	}
	return clock + " If the clock does not matter to this auth type: " + strings.ToLower(other[:1]) + other[1:]
}

// refusalRemedy says what to do about an API that refuses a request.
func refusalRemedy(api gateway.Refused, status int) string {
	return clockRemedy("API", api.Offset, statusRemedy(api, status))
}

// statusRemedy says what to do about the code and the status of an API's answer.
func statusRemedy(api gateway.Refused, status int) string {
	switch {
	case api.Code == "insufficient_scope":
		return "The token lacks a scope: add the one that this request needs to the connector's scope."
	case api.Code == "invalid_token":
		return "The API does not take the token: is it for this API? Compare audience and scope, and the environment (test or live)."
	case status == http.StatusUnauthorized:
		return "The API does not take the credential: is the secret right, and is it for this API and environment?"
	case status == http.StatusForbidden:
		return "The API knows the credential, and it may not do this: look at its scopes, and at the rights of its user."
	case status == http.StatusTooManyRequests:
		return "The API wants fewer requests: limit the connector with limits.total."
	case status >= http.StatusInternalServerError:
		return "The API fails by itself: look at its status page."
	}
	return ""
}
