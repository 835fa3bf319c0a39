package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
)

// loopback is the policy for the servers of these tests.
var loopback = Policy{AllowPrivate: true}

// speaking returns the address of a server that sends text on each connection and closes it.
func speaking(t *testing.T, text string) string {
	t.Helper()
	listener := testworld.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096)) // unread data would reset the connection
			_, _ = io.WriteString(conn, text)
			_ = conn.Close()
		}
	}()
	return listener.Addr().String()
}

// silent returns the address of a server that accepts connections and never answers.
func silent(t *testing.T) string {
	t.Helper()
	listener := testworld.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// Errors do not quote what the server sent, but say what the operator needs to know. The errors come from real
// connections with this package's transport. threats.md 19, 20
func TestFailureOfAConnection(t *testing.T) {
	https, _ := server(t, (*httptest.Server).StartTLS)
	roots := x509.NewCertPool()
	roots.AddCert(https.Certificate())
	trusting := func(config *tls.Config) Policy {
		config.RootCAs = roots
		return Policy{AllowPrivate: true, TLS: config}
	}
	proxy := func(answer string) Policy {
		return Policy{Proxy: &url.URL{Scheme: "http", Host: speaking(t, answer)}}
	}
	slow := loopback
	slow.HandshakeTimeout = time.Nanosecond
	later := func() time.Time { return https.Certificate().NotAfter.Add(time.Second) }
	for _, tt := range []struct {
		name   string
		policy Policy
		url    string
		want   string
		is     error // an error that errors.Is finds
	}{
		{"an address that is refused", Policy{}, https.URL, "loopback", nil},
		{"a name that is not found", Policy{Resolver: deaf}, "https://login.test/", "lookup login.test", nil},
		{"a connection that is refused", loopback, "http://127.0.0.1:1", "connection refused", syscall.ECONNREFUSED},
		{"a certificate of an unknown authority", loopback, https.URL, "its certificate is signed by an unknown authority", nil},
		{"a certificate of another name", trusting(&tls.Config{ServerName: "other.test"}), https.URL, "its certificate is for another name", nil},
		{"a certificate that has expired", trusting(&tls.Config{Time: later}), https.URL, "its certificate has expired or is not yet valid", nil},
		{"HTTP instead of TLS", loopback, "https://" + speaking(t, "HTTP/1.1 400 canary\r\n\r\n"), "it does not speak TLS", nil},
		{"neither TLS nor HTTP", loopback, "https://" + speaking(t, "canary canary canary"), "it does not speak TLS", nil},
		{"a proxy that refuses", proxy("HTTP/1.1 407 canary\r\nContent-Length: 6\r\n\r\ncanary"), "https://login.test/", "the proxy answered 407", nil},
		{"a proxy that speaks no HTTP", proxy("canary\r\n\r\n"), "https://login.test/", "it does not speak HTTP", nil},
		{"TLS that takes too long", slow, "https://" + silent(t), "its time is over", nil},
		{"an end without an answer", loopback, "http://" + speaking(t, ""), "it closed the connection", io.EOF},
		{"an end within the header", loopback, "http://" + speaking(t, "HTTP/1.1 200 OK\r\nX-Canary: canary"), "it closed the connection", io.ErrUnexpectedEOF},
		{"garbage", loopback, "http://" + speaking(t, "canary\r\n\r\n"), "it does not speak HTTP as it should", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := get(t, tt.policy, tt.url)
			if err == nil {
				t.Fatal("no error")
			}
			got := Failure(err)
			if !strings.Contains(got.Error(), tt.want) || strings.Contains(strings.ToLower(fmt.Sprintf("%v %+v", got, got)), "canary") {
				t.Errorf("%q became %q, want %q", err, got, tt.want)
			}
			if isTimeout(got) != isTimeout(err) {
				t.Errorf("whether it timed out is no longer %t", isTimeout(err))
			}
			if !errors.Is(got, err) && !errors.As(err, new(*ProxyError)) || tt.is != nil && !errors.Is(got, tt.is) {
				t.Errorf("errors.Is does not find %v in %v", tt.is, got)
			}
		})
	}
}

func isTimeout(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}

// deaf is a resolver that cannot reach its servers.
var deaf = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("no network")
}}

// Failure replaces the text of an error by that of its class. Errors of the connection keep their text.
func TestFailureClassifies(t *testing.T) {
	canary := errors.New("canary")
	verification := func(err error) error {
		return fmt.Errorf("canary: %w", &tls.CertificateVerificationError{Err: err})
	}
	over, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"deadline", fmt.Errorf("canary: %w", over.Err()), "its time is over"},
		{"deadline of a dial", &net.OpError{Op: "dial", Net: "tcp", Err: context.DeadlineExceeded}, "its time is over"},
		{"cancelled", fmt.Errorf("canary: %w", context.Canceled), "the request was cancelled"},
		{"unknown authority", verification(x509.UnknownAuthorityError{}), "its certificate is signed by an unknown authority"},
		{"another name", verification(x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"canary"}}, Host: "canary"}), "its certificate is for another name"},
		{"expired", verification(x509.CertificateInvalidError{Reason: x509.Expired, Detail: "canary"}), "its certificate has expired or is not yet valid"},
		{"invalid", verification(x509.CertificateInvalidError{Reason: x509.CANotAuthorizedForThisName, Detail: "canary"}), "its certificate is not valid"},
		{"a certificate that is worse", verification(canary), "its certificate is not valid"},
		{"no TLS", tls.RecordHeaderError{Msg: "canary", RecordHeader: [5]byte{'c', 'a', 'n', 'a', 'r'}}, "it does not speak TLS"},
		{"no TLS, as http.Client says it", http.ErrSchemeMismatch, "it does not speak TLS"},
		{"end", fmt.Errorf("canary: %w", io.EOF), "it closed the connection"},
		{"end in the middle", fmt.Errorf("canary: %w", io.ErrUnexpectedEOF), "it closed the connection"},
		{"anything else", canary, "it does not speak HTTP as it should"},
		{"lookup", &net.DNSError{Err: "no such host", Name: "login.test", IsNotFound: true}, "lookup login.test: no such host"},
		{"connection", &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}, "dial tcp: connection refused"},
		{"address", &AddressError{Host: "login.test", Kind: KindPrivate}, (&AddressError{Host: "login.test", Kind: KindPrivate}).Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Failure(tt.err)
			if got.Error() != tt.want {
				t.Errorf("%q became %q, want %q", tt.err, got, tt.want)
			}
			for _, sentinel := range []error{tt.err, over.Err(), context.Canceled, io.EOF, io.ErrUnexpectedEOF, syscall.ECONNREFUSED, canary} {
				if errors.Is(got, sentinel) != errors.Is(tt.err, sentinel) {
					t.Errorf("errors.Is(%v) is no longer %t", sentinel, errors.Is(tt.err, sentinel))
				}
			}
			for inner := errors.Unwrap(got); inner != nil; inner = errors.Unwrap(inner) {
				if strings.Contains(inner.Error(), "canary") {
					t.Errorf("errors.Unwrap results in %v", inner)
				}
			}
		})
	}
	if err := Failure(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}
