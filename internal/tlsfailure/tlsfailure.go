// Package tlsfailure says why a certificate was refused, without the names in it, which its owner chose.
package tlsfailure

import (
	"crypto/x509"
	"errors"
)

// Unverified puts the error of a tls.CertificateVerificationError into words.
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
