// Package remedy says in words what to do about a request that failed.
package remedy

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
)

// Fault describes a request that failed.
type Fault struct {
	// Err is the error, which is a [host.Error] if the request was not sent. It is nil if the API refused the request.
	Err error
	// Plugin is the way in which the plugin failed, or "".
	Plugin host.PluginFailure
	// Late reports whether the API did not answer in time.
	Late bool
	// Status, Code and Offset describe the answer of an API that refused the request: the status, the registered error code of its
	// challenge, and the time that its clock is ahead of this machine's.
	Status int
	Code   string
	Offset time.Duration
}

// Of says in a sentence or two what the likely reason of a failure is, and what to do about it. It returns "" if it knows none. It looks
// at the types of errors, and at codes that are registered. Its text holds nothing that a server has sent but dates.
func Of(f Fault) string {
	var certificate *host.CertificateError
	var grant *host.GrantError
	var answer *host.TokenError
	switch err := f.Err; {
	case err == nil:
		text := ofAPI(f.Code, f.Status)
		if f.Code == "insufficient_scope" || f.Status == http.StatusTooManyRequests || f.Status >= http.StatusInternalServerError {
			return text // whatever the clocks are
		}
		return strings.TrimSpace(text + " " + clocks("API", f.Offset))
	case errors.Is(err, host.ErrSecretNotFound):
		return "A secret is missing: store it under the name in the cause."
	case errors.As(err, &certificate):
		return "The client certificate expired on " + certificate.NotAfter.UTC().Format("2006-01-02 at 15:04 UTC") + ", by this machine's clock: store a renewed one, with its key, or set the clock."
	case errors.Is(err, host.ErrServerCertificate):
		return "The server's certificate is refused: if it has expired or is not valid yet, the server's operator has to renew it, or this machine's clock is wrong; if its authority is your own, name it in egress.ca_file or tls.ca."
	case errors.Is(err, host.ErrAddressRefused):
		return "The address is not allowed: if it is the right one, add its range to egress.allow."
	case errors.As(err, &grant):
		return ofGrant(grant)
	case errors.As(err, &answer):
		return ofToken(answer)
	case errors.Is(err, host.ErrKeyNotFound), errors.Is(err, host.ErrKeyRefused):
		return "The store of keys has no such key, or refuses it: compare its name, type and policy with the connector's auth."
	case errors.Is(err, host.ErrCredentialInResponse):
		return "The API sends the credential back in its answer, and so the answer is not passed on: use another path of the API, or ask its operator."
	case errors.As(err, new(*host.DiscoveryError)):
		return "The metadata of the issuer says no endpoint that can be used: is issuer right, and is it up?"
	case errors.Is(err, state.ErrUnavailable):
		return "The store of state does not answer: look at its database; keywright state status says more."
	case f.Late:
		return "The API did not answer in time: see whether it is slow, and raise the connector's timeout if it always is."
	case f.Plugin != "":
		return ofPlugin[f.Plugin]
	}
	return ofStage(f.Err)
}

// ofStage says what to do about an error of no type of its own.
func ofStage(err error) string {
	stage, down := host.Stage(""), errors.As(err, new(net.Error))
	if failed, ok := errors.AsType[*host.Error](err); ok {
		stage = failed.Stage
	}
	switch {
	case stage == host.StageTemplate:
		return "A template lacks a value: does the request have a user with this field, and can the store of secrets be read?"
	case stage == host.StageSign:
		return "The key cannot sign: the cause says whether it is damaged, encrypted, public, or of another type than the algorithm. RS and PS need RSA, ES needs EC, EdDSA needs Ed25519, HS needs a shared secret."
	case stage == host.StageIdentity:
		return "The identity has no token that may be sent: mend what the cause names, at the source of the token or in identities of the file."
	case stage == host.StageToken && down:
		return "The token endpoint cannot be reached: is its URL right, and is it up?"
	case stage == host.StageConfig:
		return "A value of auth cannot be used as it is: the cause says why. If it comes from a secret, look for blanks and line breaks in that."
	case down:
		return "The API cannot be reached: is its URL right, and is it up?"
	}
	return ""
}

var ofPlugin = map[host.PluginFailure]string{
	host.FailureFuel:   "The plugin ran out of fuel: raise limits.fuel of the plugin if it has one, or tell its author: it loops, or its input is too large.",
	host.FailureTime:   "The plugin ran out of time: look at limits.call_time of the plugin, or tell its author.",
	host.FailureMemory: "The plugin ran out of memory: raise limits.memory_bytes of the plugin if it has one, or tell its author.",
	host.FailureTrap:   "The plugin crashed: tell its author, with a record of keywright request --record.",
	host.FailureAnswer: "The host refuses what the plugin did: does a secret hold a line break, or the word Bearer? If not, tell the plugin's author, with a record of keywright request --record.",
}

func ofGrant(g *host.GrantError) string {
	first, retry := "the operator has to run keywright connect.", "run keywright connect, or configure a new refresh token, whichever the auth type has."
	if g.User != "" {
		first, retry = "the user has to connect.", "the user has to connect again."
	}
	switch g.Condition {
	case host.ConditionNotConnected:
		return "Nobody has given consent yet: " + first
	case host.ConditionRefused:
		return "The grant was revoked or has ended: " + retry
	case host.ConditionUncertain:
		return "Nobody knows whether the authorization server still takes the grant: a later request tries again. If that does not help, " + retry
	case host.ConditionLost:
		return "The grant may be lost: " + retry
	}
	return ""
}

func ofAPI(code string, status int) string {
	switch code {
	case "insufficient_scope":
		return "The token lacks a scope: add the one that this request needs to the connector's scope. Users who are connected have to connect again after that. If only some users have this, they do not allow it any more: they connect again."
	case "invalid_token":
		return "The API does not take the token: is it for this API? Compare audience and scope, and the environment (test or live)."
	case "invalid_dpop_proof", "use_dpop_nonce":
		return "The API does not take the proof of the key: does its token belong to another key, and does its endpoint sign with the same algorithms?"
	case "insufficient_user_authentication":
		return "The API wants a user who has logged in again, or more strongly: the user connects again."
	}
	switch {
	case status == http.StatusUnauthorized:
		return "The API does not take the credential: is the secret right, and is it for this API and environment?"
	case status == http.StatusForbidden:
		return "The API knows the credential, and it may not do this: look at its scopes, and at the rights of its user."
	case status == http.StatusTooManyRequests:
		return "The API wants fewer requests: its quota is used up, or too many came at once. Wait, look at the quota at the product, and limit the connector with limits.total."
	case status >= http.StatusInternalServerError:
		return "The API fails by itself: look at its status page."
	case status >= http.StatusBadRequest:
		return "The API refuses the request itself: compare method, path, headers and body with what the product documents."
	}
	return ""
}

func ofToken(e *host.TokenError) string {
	text, ok := ofCode[e.Code]
	if !ok {
		text = ofStatus(e)
	}
	clock := clocks("token endpoint", e.Offset)
	switch {
	case e.Status >= http.StatusInternalServerError:
		return text
	case e.Code == "invalid_grant" && clock != "": // of an assertion, whose times count
		return clock + " If the clock does not matter to this auth type: " + strings.ToLower(text[:1]) + text[1:]
	}
	return strings.TrimSpace(text + " " + clock)
}

const wrongClient = "The client id or its secret is wrong, or the server wants it in another place: compare both with those at the product, look for blanks, and try another client_auth, if the auth type has it: keywright test --client-auth both does."

// ofCode has the remedies for registered error codes of token endpoints.
var ofCode = map[string]string{
	"invalid_client":         wrongClient,
	"invalid_grant":          "The grant or assertion is refused: compare issuer, subject, audience and key with those that the product expects; a user may have to approve the client there first.",
	"invalid_scope":          "A scope is unknown or not allowed for this client: compare scope with those that the product grants.",
	"invalid_target":         "The audience or resource is wrong: compare it with the one that the product names for the API.",
	"unauthorized_client":    "The client may not use this grant type: allow it for the client at the product, or the client id, its secret or the tenant is wrong.",
	"unsupported_grant_type": "The token endpoint does not know the grant type: is token_url the right one?",
	"invalid_request":        "The token endpoint misses or refuses a parameter: compare audience, scope and parameters with those that the product documents.",
	"access_denied":          "The product denies access: is the client approved there, and is the audience right, if the connector has one?",
}

// ofStatus says what to do about an answer of a token endpoint without a registered error code.
func ofStatus(e *host.TokenError) string {
	switch {
	case e.Status >= 300 && e.Status < 400:
		return "The token endpoint redirects, which is not followed, so that no secret goes elsewhere: write the URL that the product documents into token_url."
	case e.Problem != "":
		return "The token endpoint's answer is not that of one: is token_url the right one?"
	case e.Status == http.StatusTooManyRequests:
		return "The token endpoint wants fewer requests: wait, and see whether several processes share one client."
	case e.Status >= http.StatusInternalServerError:
		return "The token endpoint is down: look at the product's status page."
	case e.Status == http.StatusUnauthorized:
		return wrongClient
	case e.Status == http.StatusForbidden:
		return "The token endpoint knows the client or its address, and does not let it in: is the client approved at the product, and is this machine's address on its list?"
	case e.Status == http.StatusNotFound, e.Status == http.StatusMethodNotAllowed:
		return "There is no token endpoint at this URL: compare token_url with the one that the product documents."
	case e.Status == http.StatusUnsupportedMediaType:
		return "The token endpoint wants another kind of request: does the auth type fit the product?"
	}
	return "The token endpoint refuses the request, for a reason of its own: keywright test --error-description shows what it says. " +
		"Compare client id, secret, scope and audience with those that the product documents."
}

// ClocksDiffer begins what a text says of clocks.
const ClocksDiffer = "The clocks differ"

// clocks says that the clock of a server and that of this machine differ, if they do, or returns "".
func clocks(whose string, offset time.Duration) string {
	const leastOffset = time.Minute // the difference of two clocks from which on it is a likely reason of a refusal. Servers allow for less
	word := "behind"
	switch {
	case offset.Abs() < leastOffset:
		return ""
	case offset < 0:
		word = "ahead of"
	}
	return fmt.Sprintf("%s: this machine's is %s %s that of the %s. Set the one that is wrong, with NTP.", ClocksDiffer, Lasts(offset.Abs()), word, whose)
}

// Lasts returns a duration for people, in its two largest units, such as 3 h 20 min.
func Lasts(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(0, d.Round(time.Second)); {
	case d >= 10*day:
		return fmt.Sprintf("%d d", d/day)
	case d >= day:
		return strings.TrimSuffix(fmt.Sprintf("%d d %d h", d/day, d%day/time.Hour), " 0 h")
	case d >= 10*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d >= time.Hour:
		return strings.TrimSuffix(fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute), " 0 min")
	case d >= time.Minute:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}
