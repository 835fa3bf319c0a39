package daemon_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/serve/daemon"
)

// A pair is a certificate and its key, in PEM.
type pair struct{ cert, key []byte }

// issue returns a pair for loopback that is valid for an hour.
func issue(t *testing.T, serial int64) pair { return issueUntil(t, serial, time.Now().Add(time.Hour)) }

func issueUntil(t *testing.T, serial int64, end time.Time) pair {
	t.Helper()
	key := testworld.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "gateway"}, NotBefore: end.Add(-2 * time.Hour), NotAfter: end,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	cert := testworld.Must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	der := testworld.Must(x509.MarshalPKCS8PrivateKey(key))(t)
	return pair{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})}
}

// files are the files of a gateway's pair.
type files struct {
	t   *testing.T
	dir string
}

func (f files) cert() string { return filepath.Join(f.dir, "cert.pem") }
func (f files) key() string  { return filepath.Join(f.dir, "key.pem") }

// put replaces one of the files, like programs that renew certificates.
func (f files) put(name string, content []byte, mode os.FileMode) {
	f.t.Helper()
	testworld.Check(f.t, os.WriteFile(name+".new", content, mode))
	testworld.Check(f.t, os.Chmod(name+".new", mode))
	testworld.Check(f.t, os.Rename(name+".new", name))
}

func (f files) putPair(p pair) {
	f.put(f.cert(), p.cert, 0o644)
	f.put(f.key(), p.key, 0o640)
}

// with returns a configuration that names the files.
func (f files) with(text string) string {
	return "gateway:\n  tls: {cert: " + f.cert() + ", key: " + f.key() + "}\n" + text
}

// hello connects, and returns the serial number of the server's certificate.
func hello(t *testing.T, address string, config *tls.Config) (serial int64, err error) {
	t.Helper()
	dialer := tls.Dialer{Config: config, NetDialer: &net.Dialer{Timeout: patience}}
	conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(address, "https://"))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

// presents checks the certificate of two connections, and what the log says after them.
func (w *world) presents(serial int64, said ...string) {
	w.t.Helper()
	for range 2 { // the second time, nothing more is logged
		if got, err := hello(w.t, w.callers, anyCertificate); err != nil || got != serial {
			w.t.Errorf("the certificate is %d, want %d: %v", got, serial, err)
		}
	}
	for _, want := range said {
		w.says(want)
	}
	if len(w.logged) > 0 {
		w.t.Errorf("the log says %s", w.said())
	}
}

var anyCertificate = &tls.Config{InsecureSkipVerify: true}

// threats.md 28, for callers: with gateway.tls, callers use TLS and plain HTTP is refused.
func TestTLS(t *testing.T) {
	f, issued := files{t, t.TempDir()}, issue(t, 1)
	f.putPair(issued)
	w := start(t, version, f.with(echo))
	if !strings.HasPrefix(w.callers, "https://127.0.0.1:") || !strings.HasPrefix(w.operators, "http://") {
		t.Fatalf("the servers are at %s and %s", w.callers, w.operators)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(issued.cert)
	for _, http2 := range []bool{true, false} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: http2, DisableKeepAlives: true}
		request := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, w.callers+"/connectors/echo", nil))(t)
		response := testworld.Must(transport.RoundTrip(request))(t)
		body, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if string(body) != "1 true" || response.ProtoAtLeast(2, 0) != http2 || response.Header.Get("Strict-Transport-Security") != "max-age=31536000" {
			t.Errorf("HTTP/2 %t: %s %s %q", http2, response.Proto, body, response.Header)
		}
	}
	if _, err := hello(t, w.callers, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	if status, body := w.get("http://" + strings.TrimPrefix(w.callers, "https://") + "/connectors/echo"); status != http.StatusBadRequest || strings.Contains(body, "true") {
		t.Errorf("plain HTTP is answered %d %s", status, body)
	}
}

func TestPlainHTTP(t *testing.T) {
	w := start(t, version, echo)
	response, _ := w.ask(http.MethodGet, w.callers+"/connectors/echo", nil, "")
	if got := response.Header.Get("Strict-Transport-Security"); got != "" {
		t.Errorf("browsers are told %q without TLS", got)
	}
}

// A renewed certificate is used without a reload of the file. If it is invalid, the previous one stays in use.
func TestRenewal(t *testing.T) {
	f := files{t, t.TempDir()}
	f.putPair(issue(t, 1))
	w := start(t, version, f.with(echo))
	w.presents(1)
	second := issue(t, 2)
	f.put(f.cert(), second.cert, 0o644) // does not fit the key yet
	w.presents(1, "the certificate is not used, and the one before goes on")
	f.put(f.key(), second.key, 0o600)
	w.presents(2, "the certificate is in use")
	f.put(f.key(), issue(t, 3).key, 0o644)
	w.presents(2, "is open to everybody on this machine (its mode is 0644)")
	testworld.Check(t, os.Remove(f.cert()))
	w.presents(2, "no such file")
	f.putPair(issue(t, 4))
	w.presents(4, "the certificate is in use")
	other := files{t, t.TempDir()} // named by the next configuration
	other.putPair(issue(t, 5))
	w.use(other.with(echo))
	w.presents(5)
	if strings.Contains(w.log.String(), "PRIVATE KEY") {
		t.Error("the log has a key")
	}
}

// A certificate file that is a pipe or too large does not block connections.
func TestIrregularCertificate(t *testing.T) {
	f := files{t, t.TempDir()}
	f.putPair(issue(t, 1))
	w := start(t, version, f.with(echo))
	check := func(said string) {
		t.Helper()
		if got, err := hello(t, w.callers, anyCertificate); err != nil || got != 1 {
			t.Fatalf("the certificate is %d: %v", got, err)
		}
		w.says(said)
	}
	testworld.Check(t, errors.Join(syscall.Mkfifo(f.cert()+".new", 0o600), os.Rename(f.cert()+".new", f.cert())))
	check("is no regular file")
	f.put(f.cert(), bytes.Repeat([]byte("-"), 1<<20+1), 0o600)
	check("has more than 1 MiB")
}

// An expired certificate is logged, at the start and when it expires, and metrics have its expiry before that.
func TestExpiringCertificate(t *testing.T) {
	var now atomic.Int64
	now.Store(1_900_000_000)
	clock := func(c *daemon.Config) { c.Options.Host.Clock = func() time.Time { return time.Unix(now.Load(), 0) } }
	f := files{t, t.TempDir()}
	f.putPair(issueUntil(t, 1, time.Unix(1_800_000_000, 0)))
	w := start(t, version, f.with(echo), clock)
	check := func(serial int64, expires string, said ...string) {
		t.Helper()
		w.presents(serial, said...)
		w.metrics("keywright_certificate_expiration_timestamp_seconds " + expires)
	}
	const expired = "the certificate has expired"
	check(1, "1.8e+09", expired)
	f.putPair(issueUntil(t, 2, time.Unix(1_950_000_000, 0)))
	check(2, "1.95e+09", "the certificate is in use")
	now.Store(1_950_000_000)
	check(2, "1.95e+09")
	now.Store(1_950_000_001)
	check(2, "1.95e+09", expired)
	f.putPair(issueUntil(t, 3, time.Unix(1_940_000_000, 0)))
	check(3, "1.94e+09", "the certificate is in use", expired)
}

// A configuration is refused if its certificate cannot be used.
func TestFileWithoutItsCertificate(t *testing.T) {
	f, first := files{t, t.TempDir()}, issue(t, 1)
	f.putPair(first)
	w := start(t, version, f.with(echo))
	changed := strings.Replace(echo, `"1"`, `"2"`, 1)
	f.put(f.key(), first.key, 0o604)
	w.refuses(f.with(changed), "the configuration is not used, and the one before goes on: gateway.tls: ", "0604")
	w.refuses(changed, "gateway.tls cannot be added or taken away while this runs: restart it")
	if _, err := hello(t, w.callers, anyCertificate); err != nil {
		t.Error(err)
	}
	w.said() // the mode of the key again
	invalid(t, "", testworld.File(t, "connectors.yaml", strings.ReplaceAll(f.with(echo), "API", "https://api.example.com")), "0604")
}

// rotating is a store whose secrets change.
type rotating struct {
	mu  sync.Mutex
	all host.MapSecrets
}

func (r *rotating) Secret(ctx context.Context, name string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all.Secret(ctx, name)
}

func (r *rotating) put(certificate, key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = host.MapSecrets{"crt": certificate, "key": key}
}

// The gateway presents a client certificate that is replaced while it runs. The metrics show when the one in use ends, and the
// log warns before.
func TestClientCertificateOfAConnector(t *testing.T) {
	authority, clock := testworld.NewAuthority(t), testworld.NewClock(time.Unix(1_700_000_000, 0))
	bank := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	bank.TLS = &tls.Config{Certificates: []tls.Certificate{authority.Server()}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool(), Time: clock.Now}
	bank.StartTLS()
	defer bank.Close()
	secrets := &rotating{}
	text := `connectors:
  - name: Bank
    url: ` + bank.URL + `
    auth: {type: none}
    tls:
      certificate: "{{ get_secret('crt') }}"
      key: "{{ get_secret('key') }}"
      ca: "{{ get_variable('ca') }}"
      for: api
`
	w := start(t, nil, text, func(c *daemon.Config) {
		h := &c.Options.Host
		h.Secrets, h.Clock, h.Logger, h.Variables = secrets, clock.Now, c.Logger, map[string]string{"ca": authority.PEM()}
	})
	const metric = `keywright_client_certificate_expiration_timestamp_seconds{connector="bank"}`
	if strings.Contains(w.metrics(), metric) {
		t.Error("there is a metric before the first request")
	}
	const day = 24 * time.Hour
	rotate := func(name string, ends time.Time, status int, body string) {
		t.Helper()
		certificate, key := authority.Client(name, ends)
		w.Hide("the certificate", strings.Split(certificate, "\n")[1])
		w.Hide("the key", strings.Split(key, "\n")[1])
		secrets.put(certificate, key)
		w.gets(w.callers+"/connectors/bank", status, body)
		w.metrics(metric + " " + gauge(ends))
	}
	for name, lasts := range map[string]time.Duration{"ann": 90 * day, "bob": 10 * day} {
		ends := clock.Now().Add(lasts)
		rotate(name, ends, http.StatusOK, name)
		soon := "tls.certificate: the client certificate ends at " + ends.UTC().Format(time.RFC3339) + ": renew it"
		if got := strings.Contains(w.log.String(), soon); got != (name == "bob") {
			t.Errorf("%s: the log warns: %v", name, got)
		}
	}
	// A reload that leaves tls alone keeps the metric; a rotation that brings an expired certificate shows it.
	_, line, _ := strings.Cut(w.metrics(), metric)
	line, _, _ = strings.Cut(line, "\n")
	w.write(text + "    timeout: 5s\n")
	w.eventually("the reload", func() bool { return strings.Contains(w.log.String(), "the configuration is in use") })
	w.metrics(metric + line)
	rotate("eve", clock.Now().Add(-day), http.StatusBadGateway, "")
	clock.Advance(100 * day)
	if status, body := w.get(w.callers + "/connectors/bank"); status != http.StatusBadGateway || !strings.Contains(body, `"stage":"config"`) {
		t.Errorf("after its end, the caller got %d %s", status, body)
	}
}

// gauge returns a time as Prometheus writes it.
func gauge(t time.Time) string { return strconv.FormatFloat(float64(t.Unix()), 'g', -1, 64) }
