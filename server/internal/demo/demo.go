// Package demo implements a token endpoint and an API that check the requests they receive, like those of other
// companies, for `keywright demo` and for tests. It shares no code with the host, so that it checks independently.
package demo

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// tokenLifetime is the lifetime of access tokens, which plugins assume, too.
const tokenLifetime = time.Hour

// Keys holds the credentials of one run, which connectors use and servers check.
type Keys struct {
	// ClientID is also the iss of assertions.
	ClientID, ClientSecret, APIKey string
	// RSA signs assertions with RS256.
	RSA *rsa.PrivateKey
	// EC is a P-256 key that signs JWTs for the API with ES256.
	EC *ecdsa.PrivateKey
}

// NewKeys generates Keys.
func NewKeys() (Keys, error) {
	rsaKey, errRSA := rsa.GenerateKey(rand.Reader, 2048)
	ecKey, errEC := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	k := Keys{ClientID: "demo-client", ClientSecret: randomText(24), APIKey: randomText(24), RSA: rsaKey, EC: ecKey}
	return k, errors.Join(errRSA, errEC)
}

func randomText(bytes int) string {
	random := make([]byte, bytes)
	_, _ = rand.Read(random) // which never fails
	return base64.RawURLEncoding.EncodeToString(random)
}

// PEM returns the RSA and the EC private key as PEM, PKCS#8.
func (k Keys) PEM() (rsa, ec string) {
	encode := func(key crypto.PrivateKey) string {
		der, _ := x509.MarshalPKCS8PrivateKey(key) // the keys are of known types
		return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	}
	return encode(k.RSA), encode(k.EC)
}

// Servers holds a running token endpoint and API. Each listens on its own port of 127.0.0.1, with plain HTTP.
type Servers struct {
	// TokenURL is the URL of the token endpoint. It is also the audience of assertions.
	TokenURL string
	// APIURL is the root of the API, without a slash at the end. It is also the audience of its JWTs.
	APIURL   string
	Endpoint *TokenEndpoint
	API      *API

	servers []*http.Server
	done    sync.WaitGroup
}

// Start starts both servers, with the clock now. The caller must close them.
func Start(ctx context.Context, k Keys, now func() time.Time) (*Servers, error) {
	tokens, err := listen(ctx)
	if err != nil {
		return nil, err
	}
	api, err := listen(ctx)
	if err != nil {
		return nil, errors.Join(err, tokens.Close())
	}
	s := &Servers{TokenURL: "http://" + tokens.Addr().String() + "/token", APIURL: "http://" + api.Addr().String()}
	s.Endpoint = newTokenEndpoint(k, s.TokenURL, now)
	s.API = newAPI(k, s.Endpoint, s.APIURL, now)
	endpoint := http.NewServeMux()
	endpoint.Handle("/token", s.Endpoint)
	s.serve(tokens, endpoint)
	s.serve(api, s.API)
	return s, nil
}

func listen(ctx context.Context) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
}

func (s *Servers) serve(listener net.Listener, handler http.Handler) {
	silence := log.New(io.Discard, "", 0) // of errors about clients that went away
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ErrorLog: silence}
	s.servers = append(s.servers, server)
	s.done.Go(func() { _ = server.Serve(listener) }) // returns http.ErrServerClosed; other errors show in the clients
}

// Close stops both servers. Requests that have not ended after a second are cut off.
func (s *Servers) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var errs []error
	for _, server := range s.servers {
		if server.Shutdown(ctx) != nil {
			errs = append(errs, server.Close())
		}
	}
	s.done.Wait()
	return errors.Join(errs...)
}
