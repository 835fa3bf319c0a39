package secretstore

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/go-json-experiment/json"

	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/tlsfailure"
)

// maxAnswer limits a response, in bytes. Vault's storage holds at most 1 MiB for all fields of a path.
const maxAnswer = 2 << 20

// A reply is a response of Vault. Its body is never part of an error, because it may contain secrets or repeat the request.
type reply struct {
	status int
	body   []byte
}

// send sends a request to an escaped path below /v1/, with body as JSON unless it is nil.
func (v *vault) send(ctx context.Context, method, path, token string, body any) (*reply, error) {
	var content io.Reader
	if body != nil {
		document, err := json.Marshal(body)
		if err != nil {
			return nil, errors.New("what is to be sent to vault is not UTF-8")
		}
		content = bytes.NewReader(document)
	}
	r, err := http.NewRequestWithContext(ctx, method, v.base+path, content)
	if err != nil {
		return nil, errors.New("vault cannot be asked: its address does not make a request")
	}
	r.Header.Set("X-Vault-Request", "true") // agents and proxies may require it
	if v.namespace != "" {
		r.Header.Set("X-Vault-Namespace", v.namespace)
	}
	if token != "" {
		r.Header.Set("X-Vault-Token", token)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := answers.Final(v.client.Do(r))
	if err != nil {
		return nil, v.unreachable(ctx, err)
	}
	defer response.Body.Close()
	answer, err := answers.Read(response, nil, maxAnswer)
	if err != nil {
		return nil, v.unreachable(ctx, err)
	}
	if len(answer) > maxAnswer {
		return nil, fmt.Errorf("vault answered with more than %d bytes", maxAnswer)
	}
	return &reply{response.StatusCode, answer}, nil
}

// unexpected returns an error that explains a status for which the caller has no better message.
func (r *reply) unexpected() error {
	meaning := ""
	switch status := r.status; {
	case status >= 300 && status < 400:
		meaning = ", a redirect, which is not followed: give the address of the active server, or one that forwards"
	case status == http.StatusBadRequest, status == http.StatusForbidden:
		meaning = ": check role, credential and policy"
	case status == http.StatusNotFound:
		meaning = ": check address, namespace and mount"
	case status == http.StatusTooManyRequests:
		meaning = ": it is a standby, or has had too many requests"
	case status == http.StatusServiceUnavailable:
		meaning = ": it is sealed, or down for maintenance"
	}
	return fmt.Errorf("it answered %d%s", r.status, meaning)
}

// decode decodes a response. It refuses duplicate names. Its error does not quote the response.
func decode(document []byte, into any) error {
	if err := json.Unmarshal(document, into); err != nil {
		return errors.New("the answer is not as its API has it: does the address lead to Vault or OpenBao?")
	}
	return nil
}

// unreachable returns the error for a request without a response. Errors of net/http may quote the server, which may repeat the
// request, so only errors of the connection keep their text.
func (v *vault) unreachable(ctx context.Context, err error) error {
	var certificate *tls.CertificateVerificationError
	var lookup *net.DNSError
	var operation *net.OpError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("vault cannot be reached: %w", context.Cause(ctx))
	case errors.As(err, &certificate):
		reason := tlsfailure.Unverified(certificate.Err)
		if errors.As(certificate.Err, new(x509.UnknownAuthorityError)) {
			reason += ", give ca_file"
		}
		return fmt.Errorf("vault cannot be trusted: %s", reason)
	case errors.As(err, new(tls.RecordHeaderError)), errors.Is(err, http.ErrSchemeMismatch):
		return errors.New("vault cannot be reached: what answers does not speak TLS")
	case errors.As(err, &lookup):
		return fmt.Errorf("vault cannot be reached: %w", lookup)
	case errors.As(err, &operation):
		return fmt.Errorf("vault cannot be reached: %w", operation)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("vault cannot be reached: the connection was closed")
	}
	return errors.New("vault cannot be reached: what answers does not speak HTTP as it should")
}
