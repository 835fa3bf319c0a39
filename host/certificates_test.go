package host_test

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// No plugin gets a secret that only tls names, by name or through its request.
func TestNoPluginGetsTheKeyOfTLS(t *testing.T) {
	for name, authenticate := range map[string]func(contract.Env) (string, error){
		"by name": func(env contract.Env) (string, error) { return header("X", env.SecretGet("ann.key")), nil },
		"nothing": func(contract.Env) (string, error) { return "{}", nil },
	} {
		t.Run(name, func(t *testing.T) {
			g := &guest{about: abi.Description{Uses: []string{contract.GroupSecret}, Anonymous: true}, authenticate: authenticate}
			s := newSecureWorld(t, withGuest(g))
			s.issueTo("ann", "ann", start.Add(90*day))
			err := s.call(context.Background(), s.secureAs("crm", of("ann"), host.Auth{Type: "custom"}))
			if fails := err != nil && strings.Contains(err.Error(), "secret_get was called for a secret that the connector's configuration does not name"); fails != (name == "by name") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// A certificate and its key may come from a file of PKCS #12, which Config.PKCS12 reads. An error has nothing of the file
// (threats.md 411).
func TestAClientCertificateOfPKCS12(t *testing.T) {
	const passphrase = "the passphrase"
	var s *secureWorld
	var certificate, key string
	s = newSecureWorld(t, func(c *host.Config) {
		c.PKCS12 = func(file []byte, password string) (*tls.Certificate, error) {
			if string(file) != "the file" || password != passphrase {
				return nil, errors.New("the passphrase is wrong")
			}
			both, err := tls.X509KeyPair([]byte(certificate), []byte(key))
			return &both, err
		}
	})
	certificate, key = s.authority.Client("ann", start.Add(90*day))
	s.setSecret("file", "dGhlIGZp\nbGU=\n")
	s.setSecret("passphrase", passphrase)
	from := func(file, passphrase string) *host.TLS { return &host.TLS{PKCS12: file, Passphrase: passphrase} }
	s.must(s.secure("crm", from("{{ get_secret('file') }}", "{{ get_secret('passphrase') }}")))
	if got := s.api.seen(); !slices.Equal(got, []string{"ann"}) {
		t.Errorf("the API saw the certificates %q", got)
	}
	s.setSecret("large", strings.Repeat("AAAA", 22<<10))
	for name, c := range map[string]struct {
		tls  *host.TLS
		want string
	}{
		"another passphrase": {from("{{ get_secret('file') }}", "x"), "tls.pkcs12: the passphrase is wrong"},
		"no Base64":          {from("{{ get_secret('passphrase') }}", "x"), "tls.pkcs12: is no Base64"},
		"a large file":       {from("{{ get_secret('large') }}", "x"), "of up to 64 KiB"},
	} {
		testworld.WantError(t, name, s.call(t.Context(), s.secure(name, c.tls)), c.want)
	}
	certificate, key = s.authority.Client("ann", start.Add(10*day))
	c := s.secure("soon", from("{{ get_secret('file') }}", "{{ get_secret('passphrase') }}"))
	s.must(c)
	if got := s.logged("tls.pkcs12: the client certificate ends at 2023-11-24T22:13:20Z: renew it"); got != 1 {
		t.Errorf("there are %d warnings, want 1", got)
	}
	s.Advance(11 * day)
	const problem = "tls.pkcs12: the certificate ended at 2023-11-24T22:13:20Z"
	testworld.WantError(t, "", s.call(t.Context(), c), problem)
}

// A certificate is valid up to NotAfter itself (RFC 5280 section 4.1.2.5), and ends soon in the last 30 days before.
func TestTheLastDaysOfACertificate(t *testing.T) {
	c := &host.ClientCertificate{NotAfter: start}
	for _, tt := range []struct {
		margin     time.Duration
		soon, over bool
	}{
		{30*day + time.Second, false, false},
		{30 * day, false, false},
		{30*day - time.Second, true, false},
		{0, true, false},
		{-time.Second, true, true},
	} {
		now := start.Add(-tt.margin)
		if soon, err := c.EndsSoon(now), c.Ended(now); soon != tt.soon || (err != nil) != tt.over {
			t.Errorf("%v before its end: soon %t, %v", tt.margin, soon, err)
		}
	}
}
