// Package tlsfailure explains why a certificate was refused. It leaves out the names in the certificate, because its owner chose them.
package tlsfailure

import (
	"crypto/x509"
	"errors"
)

// Unverified returns the reason for the error of a tls.CertificateVerificationError, as the end of a sentence.
func Unverified(err error) string {
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
