package answer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/internal/contract"
)

// Token returns the members of an answer that RFC 6749 section 5 defines, and those named in extra. The error says
// what is wrong with an answer of 200 to 299. Other answers cause no error.
func (r *Reply) Token(extra []string) (*contract.TokenReply, error) {
	reply := &contract.TokenReply{Status: r.Status}
	var members map[string]any
	err := strictjson.UnmarshalOpen(r.Body, &members)
	switch {
	case !r.Success():
		if code, ok := members["error"].(string); ok {
			reply.Error = registered(code, ErrorCodes)
		}
		return reply, nil
	case r.TooLong:
		return nil, fmt.Errorf("with more than %d bytes", len(r.Body)-1)
	case err != nil:
		return nil, fmt.Errorf("with a body that %w", err)
	}
	token, ok := members["access_token"].(string)
	if code, hasError := members["error"].(string); hasError && token == "" { // GitHub and Slack refuse in this way
		reply.Error = registered(code, ErrorCodes)
		return reply, nil
	}
	if !ok || strings.TrimSpace(token) == "" {
		return nil, errors.New("without an access_token")
	}
	for _, c := range []byte(token) {
		if c < ' ' || c > '~' { // RFC 6749 appendix A.12
			return nil, errors.New("with an access_token that holds characters no token may have")
		}
	}
	reply.AccessToken = token
	switch tokenType := members["token_type"].(type) {
	case nil:
	case string:
		// Apigee calls tokens of RFC 6750 BearerToken (cloud.google.com/apigee/docs/api-platform/security/oauth/access-tokens).
		reply.TokenType = registered(strings.TrimSuffix(strings.ToLower(tokenType), "token"), TokenTypes)
	default:
		reply.TokenType = "other"
	}
	reply.ExpiresIn = seconds(members["expires_in"])
	reply.Scope, _ = members["scope"].(string)
	for _, name := range extra {
		if value, ok := members[name].(string); ok && !slices.Contains(reservedMembers, name) {
			if reply.Extra == nil {
				reply.Extra = map[string]string{}
			}
			reply.Extra[name] = value
		}
	}
	return reply, nil
}

// reservedMembers holds the members of an answer that a guest cannot get as extras.
var reservedMembers = []string{"access_token", "token_type", "expires_in", "scope", "error"}

// ErrorCodes holds the error codes that are registered for token endpoints: RFC 6749 section 5.2, RFCs 7009, 8628,
// 8693, 8707 and 9449.
var ErrorCodes = []string{
	"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
	"unsupported_token_type", "authorization_pending", "slow_down", "access_denied", "expired_token", "invalid_target",
	"invalid_dpop_proof", "use_dpop_nonce", "server_error", "temporarily_unavailable",
}

// TokenTypes holds the OAuth access token types that are registered at IANA, in lower case.
var TokenTypes = []string{"bearer", "dpop", "pop", "n_a", "mac"}

// registered returns name if it is among names, and "other" if not.
func registered(name string, names []string) string {
	if slices.Contains(names, name) {
		return name
	}
	return "other"
}

// seconds returns the value of an expires_in: a JSON number or a decimal string from 0 to 2³¹−1, with its fraction cut
// off. For anything else it returns nil, as if it were absent.
func seconds(v any) *int64 {
	text := ""
	switch v := v.(type) {
	case json.Number:
		text = v.String()
	case string:
		text = v
	}
	if text == "" || len(text) > 32 || strings.ContainsAny(text, "/_xXoObBpPiI") { // big.Rat would accept these characters
		return nil
	}
	if _, exponent, found := strings.Cut(strings.ToLower(text), "e"); found && len(strings.TrimLeft(exponent, "+-0")) > 2 {
		return nil // with an exponent of three digits, the value is too large or almost 0, and costly to compute
	}
	rat, ok := new(big.Rat).SetString(text)
	if !ok || rat.Sign() < 0 {
		return nil
	}
	n := new(big.Int).Quo(rat.Num(), rat.Denom())
	if !n.IsInt64() || n.Int64() > 1<<31-1 {
		return nil
	}
	value := n.Int64()
	return &value
}
