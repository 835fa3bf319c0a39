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
