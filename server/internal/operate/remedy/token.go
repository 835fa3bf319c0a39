package remedy

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
)

// ofToken says what to do about an answer of a token endpoint.
func ofToken(e *host.TokenError) string {
	text, ok := ofCode[e.Code]
	if !ok {
		text = ofStatus(e)
	}
	if e.Status >= http.StatusInternalServerError {
		return text
	}
	return withClock("token endpoint", e.Offset, text)
}

const wrongClient = "The client id or its secret is wrong, or the server wants it in another place: compare both with those at the product, look for blanks, and try another client_auth, if the auth type has it."

// ofCode has what to do about a registered error code of a token endpoint.
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

// leastOffset is the difference of two clocks from which on it is a likely reason of a refusal. Servers allow for less.
const leastOffset = time.Minute

// withClock says that clocks differ, if they do, before what else may be the reason: the clock of a request matters only to some.
func withClock(whose string, offset time.Duration, text string) string {
	if offset.Abs() < leastOffset {
		return text
	}
	word := "ahead of"
	if offset < 0 {
		word = "behind"
	}
	clock := fmt.Sprintf("The clocks differ: that of the %s is %s %s this machine's. Set the clock, with NTP.", whose, about(offset.Abs()), word)
	if text == "" {
		return clock
	}
	return clock + " If the clock does not matter to this auth type: " + strings.ToLower(text[:1]) + text[1:]
}

// about returns a duration of at least a minute for people, in whole days, hours or minutes.
func about(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day:
		return fmt.Sprintf("%d days", d/day)
	case d >= time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d min", d/time.Minute)
}
