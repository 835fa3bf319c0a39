package oidcprovider

import (
	"bufio"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

// clientHost is the name in the certificate of the clients.
const clientHost = "client.test"

// provider is a running provider with its API, and what hosts need to reach it.
type provider struct {
	t      *testing.T
	issuer string
	roots  *x509.CertPool
	// certificate and key are those of the clients, in PEM.
	certificate, key string
	secrets          host.MapSecrets
	log              strings.Builder
}

// object is a JSON object.
type object = map[string]any

// newProvider starts a provider with these clients. Each may use all grants and the scope read. issuers are the public keys of the assertions of the JWT bearer grant.
func newProvider(t *testing.T, clients []object, issuers ...object) *provider {
	t.Helper()
	authority, authorityKey := certificate(t, &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true}, nil, nil)
	server, serverKey := certificate(t, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, authority, authorityKey)
	client, clientKey := certificate(t, &x509.Certificate{Subject: pkix.Name{CommonName: "client"}, DNSNames: []string{clientHost}}, authority, authorityKey)
	w := &provider{
		t: t, roots: x509.NewCertPool(), secrets: host.MapSecrets{},
		certificate: pemText("CERTIFICATE", client.Raw), key: pemOf(t, clientKey),
	}
	w.roots.AddCert(authority)
	for _, c := range clients {
		c["grant_types"], c["scope"] = []string{"client_credentials", bearerGrant, "refresh_token"}, "openid offline_access read"
		c["redirect_uris"], c["response_types"] = []string{}, []string{}
	}
	config := testworld.Must(json.Marshal(object{
		"key": pemOf(t, serverKey), "cert": pemText("CERTIFICATE", server.Raw), "ca": pemText("CERTIFICATE", authority.Raw),
		"clients": clients, "issuers": object{"keys": append([]object{}, issuers...)},
	}))(t)
	w.start(string(config))
	return w
}

const bearerGrant = "urn:ietf:params:oauth:grant-type:jwt-bearer"

// start runs the provider until the test ends.
func (w *provider) start(config string) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	node := exec.CommandContext(ctx, "node", "server.mjs")
	node.Stdin = strings.NewReader(config)
	var stderr strings.Builder
	node.Stderr = &stderr
	stdout, err := node.StdoutPipe()
	if err == nil {
		err = node.Start()
	}
	if err != nil {
		cancel()
		w.t.Fatalf("node does not run (make deps installs it): %v", err)
	}
	w.t.Cleanup(func() {
		cancel()
		_ = node.Wait() // killed
	})
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() {
		cancel()
		_ = node.Wait()
		w.t.Fatalf("the provider does not run (make deps installs it): %s", stderr.String())
	}
	w.issuer = lines.Text()
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
}

// forBoth are the purposes of a client certificate that is for the API and the token endpoint.
var forBoth = []string{host.TLSForAPI, host.TLSForToken}

// connect returns a client for a connector of an auth type, which presents the clients' certificate for some purposes.
func (w *provider) connect(authType string, config object, purposes ...string) *http.Client {
	w.t.Helper()
	c := w.config()
	var secure *host.TLS
	if len(purposes) > 0 {
		w.secrets["tls.crt"], w.secrets["tls.key"] = w.certificate, w.key
		secure = &host.TLS{Certificate: "{{ get_secret('tls.crt') }}", Key: "{{ get_secret('tls.key') }}", For: purposes}
	}
	if authType == "dpop" {
		c.Plugins = []host.Plugin{module(w.t, "../../plugins/dpop/dpop.wasm")}
	}
	h := testworld.Must(host.New(w.t.Context(), c))(w.t)
	w.t.Cleanup(func() {
		testworld.Check(w.t, h.Close(context.Background()))
	})
	if config["token_url"] == nil {
		config["token_url"] = w.issuer + "/token"
	}
	connector := testworld.Must(h.NewConnector(w.t.Context(), host.ConnectorConfig{
		Name: "api", Origins: []string{w.issuer}, Auth: []host.Auth{{Type: authType, Config: config}}, TLS: secure,
	}))(w.t)
	return &http.Client{Transport: connector.Transport(nil)}
}

// config returns the configuration of a host that trusts the provider.
func (w *provider) config() host.Config {
	return host.Config{
		Secrets: w.secrets,
		Egress:  host.Egress{AllowPrivate: true, TLS: &tls.Config{RootCAs: w.roots}},
		Logger:  slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug - 4})),
	}
}

func module(t *testing.T, path string) host.Plugin {
	t.Helper()
	wasm, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("the plugin is not compiled (make plugins): %v", err)
	}
	return host.Plugin{Name: path, Wasm: wasm}
}

// get requests a path of the API for a user and decodes the answer.
func (w *provider) get(client *http.Client, path string, user host.User) (answer object, status int, err error) {
	w.t.Helper()
	r := testworld.Must(http.NewRequestWithContext(host.WithUser(w.t.Context(), user), http.MethodGet, w.issuer+path, nil))(w.t)
	response, err := client.Do(r)
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	testworld.Check(w.t, json.NewDecoder(response.Body).Decode(&answer))
	return answer, response.StatusCode, nil
}

// request is one that the provider has seen.
type request struct {
	Path   string
	Status int
	Error  string
}

// seen returns the requests that the provider has answered so far.
func (w *provider) seen() (list []request) {
	w.t.Helper()
	w.ask(http.MethodGet, "/seen", nil, &list)
	return list
}

// ask sends a request to the provider without a host, decodes the answer, and returns the status.
func (w *provider) ask(method, path string, form url.Values, answer any) (status int) {
	w.t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: w.roots}}}
	defer client.CloseIdleConnections()
	r := testworld.Must(http.NewRequestWithContext(w.t.Context(), method, w.issuer+path, strings.NewReader(form.Encode())))(w.t)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response := testworld.Must(client.Do(r))(w.t)
	defer response.Body.Close()
	testworld.Check(w.t, json.NewDecoder(response.Body).Decode(answer))
	return response.StatusCode
}

// certificate returns a new certificate and its key. It is signed by itself if there is no authority.
func certificate(t *testing.T, template, authority *x509.Certificate, authorityKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key := testworld.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if authority == nil {
		authority, authorityKey = template, key
	}
	der := testworld.Must(x509.CreateCertificate(rand.Reader, template, authority, key.Public(), authorityKey))(t)
	made := testworld.Must(x509.ParseCertificate(der))(t)
	return made, key
}

func pemText(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// pemOf returns a private key in PEM.
func pemOf(t *testing.T, key crypto.Signer) string {
	t.Helper()
	der := testworld.Must(x509.MarshalPKCS8PrivateKey(key))(t)
	return pemText("PRIVATE KEY", der)
}

// key sets a secret to a new key for ES256, and returns the public half as a JWK.
func key(t *testing.T, secrets host.MapSecrets, name string) object {
	t.Helper()
	private := testworld.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	point := testworld.Must(private.PublicKey.Bytes())(t)
	secrets[name] = pemOf(t, private)
	encode := base64.RawURLEncoding.EncodeToString
	return object{"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "k1", "x": encode(point[1:33]), "y": encode(point[33:])}
}
