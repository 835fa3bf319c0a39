package answers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
)

// ErrCertificate is found in the result of [Failure] if the certificate of a server could not be verified.
var ErrCertificate = errors.New("the certificate of the server cannot be verified")

// Failure returns an error of net/http with a text that may be shown, without the URL, which may have a secret. The original texts quote
// status lines and headers of the server, which has just received a credential and may send it back. So only errors of the connection keep
// their text. errors.Is still finds what the other errors wrap.
func Failure(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	var certificate *tls.CertificateVerificationError
	var network net.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrSwitched):
		return ErrSwitched
	case errors.Is(err, context.DeadlineExceeded):
		return Hidden("its time is over", err)
	case errors.Is(err, context.Canceled):
		return Hidden("the request was cancelled", err)
	case errors.As(err, &certificate):
		return Hidden(unverified(certificate.Err), errors.Join(err, ErrCertificate))
	case errors.As(err, new(tls.RecordHeaderError)), errors.Is(err, http.ErrSchemeMismatch):
		return Hidden("it does not speak TLS", err)
	case errors.As(err, new(*net.DNSError)), errors.As(err, new(*net.OpError)):
		return err
	case errors.As(err, &network) && network.Timeout(): // a TLS handshake timed out
		return Hidden("its time is over", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Hidden("it closed the connection", err)
	}
	return Hidden("it does not speak HTTP as it should", err)
}

// unverified returns the reason for which a certificate was refused. It leaves out the names in the certificate, because its owner chose them.
func unverified(err error) string {
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, new(x509.HostnameError)):
		return "its certificate is for another name"
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "its certificate is signed by an unknown authority"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate has expired or is not yet valid"
	}
	return "its certificate is not valid"
}

// failure is an error with another text. It has no Unwrap, which would reveal the original text. Its Is method finds
// errors such as context.Canceled. It keeps the original error in a function, so that %#v does not show it either.
type failure struct {
	text string
	is   func(target error) bool

	timeout bool
}

// Hidden returns an error with another text than err, for which errors.Is reports the same. Unwrap and errors.As do not reach err.
func Hidden(text string, err error) error {
	var network net.Error
	timeout := errors.As(err, &network) && network.Timeout()
	return &failure{timeout: timeout, text: text, is: func(target error) bool { return errors.Is(err, target) }}
}

func (f *failure) Error() string { return f.text }

// Timeout implements [net.Error]. Callers use it to recognise timeouts.
func (f *failure) Timeout() bool { return f.timeout }

func (f *failure) Temporary() bool { return f.timeout }

func (f *failure) Is(target error) bool { return f.is(target) }
