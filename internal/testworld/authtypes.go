package testworld

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// AuthTypes returns a configuration of each auth type of this repository, by type. Its secrets have the names s, seed, rsa, ed and
// jws; the last three are private keys in PEM. The types that ask an endpoint ask the one at tokenURL, or one below its origin.
func AuthTypes(tokenURL string) map[string]map[string]any {
	type config = map[string]any
	const secret = "{{ get_secret('s') }}"
	origin, _ := url.Parse(tokenURL)
	api := origin.Scheme + "://" + origin.Host
	return map[string]map[string]any{
		"none":                     nil,
		"api_key":                  {"key": "X-Key", "value": secret, "in": "header"},
		"basic":                    {"username": "ann", "password": secret},
		"bearer":                   {"token": secret},
		"jwt":                      {"private_key": secret, "algorithm": "HS256", "claims": config{"sub": "ann"}},
		"oauth_client_credentials": {"client_id": "me", "client_secret": secret, "token_url": tokenURL},
		"oauth_jwt_bearer":         {"client_id": "me", "private_key": secret, "algorithm": "HS256", "token_url": tokenURL, "subject": "ann", "audience": "https://login.test"},
		"oauth_password":           {"client_id": "me", "client_secret": secret, "token_url": tokenURL, "username": "ann", "password": secret},
		"oauth_refresh_token":      {"client_id": "me", "client_secret": secret, "token_url": tokenURL, "refresh_token": "{{ get_secret('seed') }}"},
		"oauth_authorization_code": {"client_id": "me", "client_secret": secret, "token_url": tokenURL, "authorization_url": api + "/authorize"},
		"token_exchange":           {"client_id": "me", "client_secret": secret, "token_url": tokenURL, "subject_token": secret},
		"dpop":                     {"client_id": "me", "client_secret": secret, "token_url": tokenURL},
		"login":                    {"login_url": tokenURL, "login_body": config{"user": "ann", "password": secret}, "token_from": "json:/token", "key": "X-Session"},
		"github_app":               {"client_id": "Iv1", "private_key": "{{ get_secret('rsa') }}", "installation_id": 4711, "api_url": api},
		"google_service_account":   {"client_email": "robot@p.iam.gserviceaccount.com", "private_key": "{{ get_secret('rsa') }}", "token_url": tokenURL, "scope": "a"},
		"aws_sigv4":                {"access_key_id": "AKIABASE", "secret_access_key": secret, "region": "eu-central-1", "service": "execute-api"},
		"aws_assume_role": {
			"access_key_id": "AKIABASE", "secret_access_key": secret, "region": "eu-central-1", "service": "execute-api",
			"role_arn": "arn:aws:iam::123456789012:role/reports", "sts_url": tokenURL,
		},
		"http_signature": {"private_key": "{{ get_secret('ed') }}", "algorithm": "ed25519"},
		"jws":            {"private_key": "{{ get_secret('jws') }}", "algorithm": "EdDSA", "payload": "{method} {path}", "key": "X-JWS-Signature"},
		"signature":      {"secret": secret, "message": "{method} {path}", "key": "X-Signature"},
		"oauth1":         {"consumer_key": "reports", "consumer_secret": secret, "token": "t-4711", "token_secret": secret},
		"digest":         {"username": "ann", "password": secret},
	}
}

// Key returns a new private key in PEM, of RSA or else Ed25519, and hides it with each line. No other code has it, so each leak is found.
func (c *Canaries) Key(t testing.TB, kind string) string {
	t.Helper()
	var key crypto.Signer
	var err error
	if kind == "rsa" {
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	} else {
		_, key, err = ed25519.GenerateKey(rand.Reader)
	}
	Check(t, err)
	text := encode("PRIVATE KEY", Must(x509.MarshalPKCS8PrivateKey(key))(t))
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "-----") {
			c.Hide("a line of the key "+kind, strings.TrimSpace(line))
		}
	}
	return c.Hide("the key "+kind, text)
}

// Issued returns the Answer of an endpoint that issues whatever one of [AuthTypes] asks for, for an hour, and hides it.
func (c *Canaries) Issued(now func() time.Time) Answer {
	return func(r *http.Request) (*http.Response, error) {
		kind := "Bearer"
		if r.Header.Get("DPoP") != "" {
			kind = "DPoP"
		}
		until := now().Add(time.Hour).UTC().Format(time.RFC3339)
		role := map[string]any{
			"AccessKeyId": c.Word("an access key"), "SecretAccessKey": c.Secret("a secret access key"), "SessionToken": c.Word("a session token"), "Expiration": until,
		}
		document, _ := json.Marshal(map[string]any{ // texts and numbers only
			"access_token": c.Word("an access token"), "token_type": kind, "expires_in": 3600, "refresh_token": c.Word("a refresh token"), "scope": c.Word("a scope"),
			"token": c.Word("a token"), "expires_at": until,
			"AssumeRoleResponse": map[string]any{"AssumeRoleResult": map[string]any{"Credentials": role}},
		})
		return Response(http.StatusOK, string(document), "Content-Type", "application/json", "DPoP-Nonce", c.Word("a nonce")), nil
	}
}

// Challenged returns the Answer of an API that refuses with 401. It repeats the request, and hides the nonces that it sends.
func (c *Canaries) Challenged() Answer {
	return func(r *http.Request) (*http.Response, error) {
		return Response(http.StatusUnauthorized, echo(r),
			"WWW-Authenticate", `Digest realm="`+c.Word("a realm")+`", nonce="`+c.Word("a nonce")+`", opaque="`+c.Word("an opaque")+`", qop="auth", algorithm=SHA-256`,
			"WWW-Authenticate", `DPoP error="use_dpop_nonce", error_description="`+strings.ReplaceAll(r.Header.Get("Authorization"), `"`, `'`)+`"`,
			"DPoP-Nonce", c.Word("a nonce")), nil
	}
}

// Refused is the Answer of an endpoint that refuses, and repeats the request in all of its answer.
func Refused(r *http.Request) (*http.Response, error) {
	text, _ := json.Marshal(echo(r))
	return Response(http.StatusBadRequest, `{"error":"invalid_client","error_description":`+string(text)+`,"message":`+string(text)+`}`, "Content-Type", "application/json"), nil
}

func echo(r *http.Request) string {
	var b strings.Builder
	_ = r.Write(&b) // what cannot be written is not repeated
	return b.String()
}

// HideSent hides the long words of a request that are not in a text: signatures, MACs and tokens. The text is an explanation of
// the request, in which they are masked.
func (c *Canaries) HideSent(r Request, explained string) {
	texts := append(slices.Collect(maps.Values(r.Header)), []string{r.URL})
	if form := r.Form(); len(form["not a form"]) == 0 {
		texts = slices.AppendSeq(texts, maps.Values(form))
	}
	for _, text := range slices.Concat(texts...) {
		for _, word := range longWord.FindAllString(text, -1) {
			if !strings.Contains(explained, word) {
				c.Hide("a part of what was sent", word)
			}
		}
	}
}

var longWord = regexp.MustCompile(`[A-Za-z0-9+/=_.~%-]{20,}`)

// Wide returns the text of a memory, and then every second byte of it from the first and from the second on. So a text is found
// in UTF-16 as well, in which some languages keep texts.
func Wide(memory []byte) string {
	all := make([]byte, 0, 2*len(memory)+2)
	all = append(all, memory...)
	for from := range 2 {
		all = append(all, 0)
		for i := from; i < len(memory); i += 2 {
			all = append(all, memory[i])
		}
	}
	return string(all)
}

// Authority is a certificate authority.
type Authority struct {
	t           testing.TB
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority returns a new authority, whose certificate is valid at all times that tests use.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, key: newKey(t)}
	a.certificate = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotAfter: distantFuture,
	}, nil, &a.key.PublicKey)
	return a
}

var (
	distantPast   = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	distantFuture = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
)

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	return Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
}

// sign returns a certificate that the issuer signs, or that is self-signed if the issuer is nil.
func (a *Authority) sign(c, issuer *x509.Certificate, public *ecdsa.PublicKey) *x509.Certificate {
	a.t.Helper()
	c.SerialNumber, c.NotBefore = big.NewInt(time.Now().UnixNano()), distantPast
	issuer = cmp.Or(issuer, c)
	der := Must(x509.CreateCertificate(rand.Reader, c, issuer, public, a.key))(a.t)
	return Must(x509.ParseCertificate(der))(a.t)
}

// PEM returns the certificate of the authority.
func (a *Authority) PEM() string { return encode("CERTIFICATE", a.certificate.Raw) }

// Pool returns a pool with the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// Client returns a client certificate with a common name, which ends at a time, and its key.
func (a *Authority) Client(name string, ends time.Time) (certificate, key string) {
	a.t.Helper()
	private := newKey(a.t)
	c := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotAfter: ends,
	}, a.certificate, &private.PublicKey)
	der := Must(x509.MarshalPKCS8PrivateKey(private))(a.t)
	return encode("CERTIFICATE", c.Raw), encode("PRIVATE KEY", der)
}

// Server returns the certificate of a server on the loopback.
func (a *Authority) Server() tls.Certificate {
	a.t.Helper()
	private := newKey(a.t)
	c := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "server"}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}, NotAfter: distantFuture,
	}, a.certificate, &private.PublicKey)
	return tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: private, Leaf: c}
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// rsaKey returns the RSA key of the process. Making a key takes longer than a test.
var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// NewKey returns a signing key for a JWS algorithm as a text, and the key that verifies its signatures: a private key in PEM and its
// public half, or for HS256, HS384 and HS512 a random text and its bytes. All RSA keys of a process are the same.
func NewKey(algorithm string) (private string, public any, err error) {
	var key crypto.Signer
	switch algorithm {
	case "HS256", "HS384", "HS512":
		private = RandomSecret() + RandomSecret() // the host warns of one that is shorter than the longest hash
		return private, []byte(private), nil
	case "RS256", "RS384", "RS512", "PS256", "PS384", "PS512":
		key, err = rsaKey()
	case "ES256":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ES512":
		key, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "EdDSA":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		err = fmt.Errorf("there is no key for the algorithm %q", algorithm)
	}
	if err != nil {
		return "", nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return encode("PRIVATE KEY", der), key.Public(), err
}
