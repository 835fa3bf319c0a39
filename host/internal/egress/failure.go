package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/keywright/keywright/internal/tlsfailure"
)

// Failure returns an error of net/http without what may not be shown. Its texts quote what the other side sent, a status
// line or a header, and who has just been sent a credential may send it back. So only errors of the connection keep their
// text; errors.Is still finds what is behind the others.
func Failure(err error) error {
	var refused *AddressError
	var lookup *net.DNSError
	var operation *net.OpError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var proxy *ProxyError
	var network net.Error
	switch {
	case err == nil || errors.As(err, &refused):
		return err
	case errors.As(err, &proxy):
		return proxy
	case errors.Is(err, context.DeadlineExceeded):
		return fail("its time is over", err)
	case errors.Is(err, context.Canceled):
		return fail("the request was cancelled", err)
	case errors.As(err, &certificate):
		return fail(tlsfailure.Unverified(certificate.Err), err)
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return fail("it does not speak TLS", err)
	case errors.As(err, &lookup), errors.As(err, &operation):
		return err
	case errors.As(err, &network) && network.Timeout(): // of a TLS handshake
		return fail("its time is over", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fail("it closed the connection", err)
	}
	return fail("it does not speak HTTP as it should", err)
}

// failure has no Unwrap, which would give the text away; Is answers for sentinels such as context.Canceled. It keeps the
// error in a function, where %#v does not find it either.
type failure struct {
	text string
	is   func(target error) bool

	timeout bool
}

func fail(text string, err error) *failure {
	var network net.Error
	timeout := errors.As(err, &network) && network.Timeout()
	return &failure{timeout: timeout, text: text, is: func(target error) bool { return errors.Is(err, target) }}
}

func (f *failure) Error() string { return f.text }

// Timeout and Temporary make it a [net.Error]: whether time was over is what callers ask one.
func (f *failure) Timeout() bool   { return f.timeout }
func (f *failure) Temporary() bool { return f.timeout }

func (f *failure) Is(target error) bool { return f.is(target) }
