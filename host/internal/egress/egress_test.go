package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/keywright/keywright/internal/testworld"
)

// server starts an HTTP server on a loopback address that counts its requests.
func server(t *testing.T, start func(*httptest.Server)) (*httptest.Server, *atomic.Int32) {
	t.Helper()
	var requests atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		_, _ = io.WriteString(w, r.Proto)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // tests cause failing handshakes
	start(s)
	t.Cleanup(s.Close)
	return s, &requests
}

// get sends a GET request with a transport of the policy and returns the body of the answer.
func get(t *testing.T, p Policy, url string) (string, error) {
	t.Helper()
	transport := testworld.Must(p.Transport())(t)
	defer transport.CloseIdleConnections()
	request := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	response, err := transport.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body := testworld.Must(io.ReadAll(response.Body))(t)
	return string(body), nil
}

// The transport refuses and allows loopback addresses in real connections. threats.md 23
func TestTransportLoopback(t *testing.T) {
	s, requests := server(t, (*httptest.Server).Start)
	port := s.URL[strings.LastIndexByte(s.URL, ':'):]
	allowed := map[string]Policy{
		"private addresses allowed": {AllowPrivate: true},
		"prefix allowed":            {Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/30")}},
	}
	for name, policy := range allowed {
		t.Run(name, func(t *testing.T) {
			if _, err := get(t, policy, s.URL); err != nil {
				t.Error(err)
			}
		})
	}
	requests.Store(0)
	for _, host := range []string{"127.0.0.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "localhost"} {
		t.Run(host+" refused", func(t *testing.T) {
			_, err := get(t, Policy{}, "http://"+host+port)
			wantKind(t, err, KindLoopback)
		})
	}
	for _, host := range []string{"0.0.0.0", "[::]"} {
		t.Run(host+" refused", func(t *testing.T) {
			_, err := get(t, Policy{AllowPrivate: true}, "http://"+host+port)
			wantKind(t, err, KindUnspecified)
		})
	}
	t.Run("empty host refused", func(t *testing.T) {
		_, err := get(t, Policy{AllowPrivate: true}, "http://"+port)
		wantKind(t, err, KindInvalid)
	})
	if n := requests.Load(); n != 0 {
		t.Errorf("%d requests arrived, want none", n)
	}
}

// The address that the dialer looks up is checked, also if a name changes its address between lookups (DNS rebinding).
// threats.md 23
func TestTransportRebinding(t *testing.T) {
	s, requests := server(t, (*httptest.Server).Start)
	port := s.URL[strings.LastIndexByte(s.URL, ':'):]
	var answer atomic.Pointer[netip.Addr]
	policy := Policy{
		Allow:    []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		Resolver: resolver(func() netip.Addr { return *answer.Load() }),
	}
	transport, err := policy.Transport()
	if err != nil {
		t.Fatal(err)
	}
	transport.DisableKeepAlives = true // each request dials
	send := func(addr string) error {
		parsed := netip.MustParseAddr(addr)
		answer.Store(&parsed)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://login.rebind.test"+port, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}

	if err := send("127.0.0.1"); err != nil {
		t.Fatalf("the allowed address: %v", err)
	}
	for addr, kind := range map[string]Kind{
		"127.0.0.2": KindLoopback, "10.0.0.1": KindPrivate, "169.254.169.254": KindMetadata, "0.0.0.0": KindUnspecified,
	} {
		err := send(addr)
		wantKind(t, err, kind)
		var refused *AddressError
		if errors.As(err, &refused) && (refused.Host != "login.rebind.test" || refused.Addr.String() != addr) {
			t.Errorf("the error names %s and %s", refused.Host, refused.Addr)
		}
	}
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests arrived, want 1", n)
	}
}

// resolver returns a resolver that answers every A question with the result of answer and has no AAAA records.
func resolver(answer func() netip.Addr) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			_ = serveDNS(server, answer) // the lookup fails, too
		}()
		return client, nil
	}}
}

// serveDNS answers one question on a stream, where the length precedes each message (RFC 1035 section 4.2.2).
func serveDNS(conn net.Conn, answer func() netip.Addr) error {
	head := make([]byte, 2)
	if _, err := io.ReadFull(conn, head); err != nil {
		return err
	}
	question := make([]byte, int(head[0])<<8|int(head[1]))
	if _, err := io.ReadFull(conn, question); err != nil {
		return err
	}
	var message dnsmessage.Message
	if err := message.Unpack(question); err != nil {
		return err
	}
	message.Response, message.Additionals = true, nil
	if q := message.Questions[0]; q.Type == dnsmessage.TypeA {
		message.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
			Body:   &dnsmessage.AResource{A: answer().As4()},
		}}
	}
	reply, err := message.AppendPack(make([]byte, 2, 512))
	if err != nil {
		return err
	}
	size := len(reply) - 2
	reply[0], reply[1] = byte(size>>8), byte(size)
	_, err = conn.Write(reply)
	return err
}

// The environment's proxies are ignored. threats.md 23
func TestEnvironmentProxyIgnored(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, "http://192.0.2.1:3128")
	}
	t.Setenv("NO_PROXY", "")
	t.Setenv("no_proxy", "")
	transport := testworld.Must(Policy{}.Transport())(t)
	// A request could not show this: http.ProxyFromEnvironment reads the environment once per process and never uses a
	// proxy for loopback addresses.
	if transport.Proxy != nil {
		t.Error("the transport asks something for a proxy, and none was given")
	}
	s, _ := server(t, (*httptest.Server).Start)
	if _, err := get(t, Policy{AllowPrivate: true}, s.URL); err != nil {
		t.Error(err)
	}
}

// With a proxy, addresses and names of this machine and its network in the URL are refused, too, in whatever form they
// are written. threats.md 23, 74
func TestProxy(t *testing.T) {
	var asked atomic.Pointer[string]
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		target := r.RequestURI
		asked.Store(&target)
		_, _ = io.WriteString(w, "from the proxy")
	}))
	defer proxy.Close()
	proxyURL := testworld.Must(url.Parse(proxy.URL))(t)
	policy := Policy{Proxy: proxyURL} // its loopback address is allowed, because the operator chose it

	body, err := get(t, policy, "http://api.example.com/x")
	if err != nil || body != "from the proxy" {
		t.Fatalf("body %q, error %v", body, err)
	}
	if got := *asked.Load(); got != "http://api.example.com/x" {
		t.Errorf("the proxy was asked for %s", got)
	}
	asked.Store(nil)
	for host, kind := range map[string]Kind{
		"127.0.0.1": KindLoopback, "[::1]": KindLoopback, "10.0.0.1": KindPrivate, "169.254.169.254": KindMetadata,
		"localhost": KindLoopback, "LOCALHOST.": KindLoopback, "a.localhost": KindLoopback, "127.1": KindInvalid,
		"2130706433": KindInvalid, "0x7f000001": KindInvalid, "0x7f.0.0.0x1": KindInvalid, "0177.0.0.01": KindInvalid,
		"127.0.0.1.": KindInvalid, "127.0.0.1..": KindInvalid, "0x7f.1": KindInvalid, "017700000001": KindInvalid, "api.example.0x7f": KindInvalid,
		"[::ffff:127.0.0.1]": KindLoopback, "[::ffff:a9fe:a9fe]": KindMetadata, "[fd00:ec2::23]": KindMetadata, "[64:ff9b::10.0.0.1]": KindPrivate,
		"[fe80::1%25eth0]": KindZoned, "[::1%25lo]": KindZoned,
		"１２７.0.0.１": KindLoopback, "１２７．０．０．１": KindLoopback, "127。0。0。1": KindLoopback, "127｡0｡0｡1": KindLoopback,
		"①②⑦.0.0.①": KindLoopback, "１６９.２５４.１６９.２５４": KindMetadata, "１２７.１": KindInvalid, "０x7f.1": KindInvalid, "２１３０７０６４３３": KindInvalid,
		"ｌocalhost": KindLoopback, "LOCALHOST。": KindLoopback, "a．ｌｏｃａｌｈｏｓｔ": KindLoopback, "local\u00adhost": KindLoopback, "127.0.0.1\u200b": KindLoopback,
		"a\u2024b\u202ec": KindInvalid, "a\u0080b": KindInvalid,
	} {
		for _, scheme := range []string{"http://", "https://"} {
			t.Run(scheme+host, func(t *testing.T) {
				_, err := get(t, policy, scheme+host+"/")
				wantKind(t, err, kind)
			})
		}
	}
	if got := asked.Load(); got != nil {
		t.Errorf("the proxy was asked for %s", *got)
	}
	policy.AllowPrivate = true
	for _, host := range []string{"localhost", "127.0.0.1", "10.0.0.1", "8.8.8.8", "1.example.com", "bücher.example", "ｌocalhost", "８.8.8.8"} {
		if _, err := get(t, policy, "http://"+host+"/"); err != nil {
			t.Errorf("%s, private addresses allowed: %v", host, err)
		}
	}
}

// TokenClient does not follow redirects and keeps no cookies. threats.md 24, specification.md "redirects are never followed"
func TestTokenClientFollowsNoRedirect(t *testing.T) {
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			target, requests := server(t, (*httptest.Server).Start)
			endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Accept-Encoding") != "" || r.Header.Get("Cookie") != "" {
					t.Errorf("header of the token request: %v", r.Header)
				}
				w.Header().Set("Set-Cookie", "a=b")
				http.Redirect(w, r, target.URL, status)
			}))
			defer endpoint.Close()
			client := TokenClient(testworld.Must(Policy{AllowPrivate: true}.Transport())(t))
			for range 2 {
				response := testworld.Must(client.PostForm(endpoint.URL, url.Values{"client_secret": {"s"}}))(t)
				if response.Body.Close(); response.StatusCode != status {
					t.Errorf("status %d, want the redirect itself", response.StatusCode)
				}
			}
			if n := requests.Load(); n != 0 {
				t.Errorf("the target got %d requests", n)
			}
		})
	}
}

// TLS below 1.2, self-signed certificates and certificates for another name are refused. threats.md 28
func TestTLS(t *testing.T) {
	one, _ := server(t, (*httptest.Server).StartTLS)
	roots := x509.NewCertPool()
	roots.AddCert(one.Certificate()) // all servers of httptest have the same certificate
	for _, tt := range []struct {
		name     string
		min, max uint16 // the server's versions of TLS
		client   *tls.Config
		wantErr  string
	}{
		{"1.2", tls.VersionTLS12, tls.VersionTLS12, &tls.Config{RootCAs: roots}, ""},
		{"1.3", tls.VersionTLS13, tls.VersionTLS13, &tls.Config{RootCAs: roots}, ""},
		{"1.1", tls.VersionTLS10, tls.VersionTLS11, &tls.Config{RootCAs: roots}, "protocol version"},
		{"1.1, lower minimum configured", tls.VersionTLS10, tls.VersionTLS11, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10}, "protocol version"},
		{"1.2, 1.3 configured", tls.VersionTLS12, tls.VersionTLS12, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}, "protocol version"},
		{"self-signed", tls.VersionTLS12, 0, nil, "unknown authority"},
		{"another name", tls.VersionTLS12, 0, &tls.Config{RootCAs: roots, ServerName: "other.test"}, "other.test"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, requests := server(t, func(s *httptest.Server) {
				s.EnableHTTP2 = true
				s.TLS = &tls.Config{MinVersion: tt.min, MaxVersion: tt.max}
				s.StartTLS()
			})
			body, err := get(t, Policy{AllowPrivate: true, TLS: tt.client}, s.URL)
			if tt.wantErr == "" {
				if err != nil || body != "HTTP/2.0" {
					t.Errorf("body %q, error %v", body, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("error is %v, want one with %q", err, tt.wantErr)
			}
			if n := requests.Load(); n != 0 {
				t.Errorf("%d requests arrived", n)
			}
		})
	}
}

// Mistakes in a policy are errors that say what to do (threats.md 28).
func TestPolicyErrors(t *testing.T) {
	proxy := func(text string) *url.URL {
		return testworld.Must(url.Parse(text))(t)
	}
	for _, tt := range []struct {
		name   string
		policy Policy
		want   string
	}{
		{"verification off", Policy{TLS: &tls.Config{InsecureSkipVerify: true}}, "RootCAs"},
		{"maximum too low", Policy{TLS: &tls.Config{MaxVersion: tls.VersionTLS11}}, "at least TLS 1.2"},
		{"proxy of another scheme", Policy{Proxy: proxy("ftp://u:canary@proxy.test")}, "proxy ftp://u:xxxxx@proxy.test: the scheme"},
		{"proxy without host", Policy{Proxy: proxy("http://u:canary@:3128")}, "no host"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.policy.Transport()
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("error is %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestTransportLeavesCallersTLSConfigAlone(t *testing.T) {
	config := &tls.Config{MinVersion: tls.VersionTLS10}
	transport := testworld.Must(Policy{TLS: config}.Transport())(t)
	if config.MinVersion != tls.VersionTLS10 || transport.TLSClientConfig.MinVersion != tls.VersionTLS12 {
		t.Errorf("caller's minimum %x, transport's %x", config.MinVersion, transport.TLSClientConfig.MinVersion)
	}
}

func TestResponseHeaderLimit(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Big", strings.Repeat("a", 2<<20))
	}))
	defer s.Close()
	if _, err := get(t, Policy{AllowPrivate: true}, s.URL); err == nil {
		t.Error("an answer with 2 MiB of header was taken")
	}
}

// An https proxy belongs to the operator: it is verified with the operator's roots, and it does not see the client certificate
// of a connector, which is for the server behind it.
func TestAProxySeesNoIdentity(t *testing.T) {
	operators, connectors := testworld.NewAuthority(t), testworld.NewAuthority(t)
	certificate, key := connectors.Client("ann", time.Now().Add(time.Hour))
	pair := testworld.Must(tls.X509KeyPair([]byte(certificate), []byte(key)))(t)
	start := func(a *testworld.Authority, policy tls.ClientAuthType, handler http.HandlerFunc) *httptest.Server {
		s := httptest.NewUnstartedServer(handler)
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.TLS = &tls.Config{Certificates: []tls.Certificate{a.Server()}, ClientAuth: policy, ClientCAs: connectors.Pool()}
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	target := start(connectors, tls.RequireAndVerifyClientCert, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	})
	asked := 0
	proxy := start(operators, tls.RequestClientCert, func(w http.ResponseWriter, r *http.Request) {
		if asked++; len(r.TLS.PeerCertificates) > 0 {
			t.Error("the proxy sees the client certificate")
		}
		tunnel(t, w, target.Listener.Addr().String())
	})
	proxyURL := testworld.Must(url.Parse(proxy.URL))(t)
	transport := testworld.Must(Policy{AllowPrivate: true, Proxy: proxyURL, TLS: &tls.Config{RootCAs: operators.Pool()}}.TransportAs(Identity{&pair, connectors.Pool()}))(t)
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Get("https://localhost:443/") // the tunnel leads to the target
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, _ := io.ReadAll(response.Body); string(body) != "ann" || asked != 1 {
		t.Errorf("the server saw %q, and the proxy was asked %d times", body, asked)
	}
}

// Without a proxy, the server itself sees the client certificate of a connector.
func TestAServerSeesTheIdentity(t *testing.T) {
	authority := testworld.NewAuthority(t)
	certificate, key := authority.Client("ann", time.Now().Add(time.Hour))
	pair := testworld.Must(tls.X509KeyPair([]byte(certificate), []byte(key)))(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{authority.Server()}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool()}
	server.StartTLS()
	defer server.Close()
	transport := testworld.Must(Policy{AllowPrivate: true}.TransportAs(Identity{&pair, authority.Pool()}))(t)
	defer transport.CloseIdleConnections()
	response := testworld.Must((&http.Client{Transport: transport}).Get(server.URL))(t)
	defer response.Body.Close()
	if body, _ := io.ReadAll(response.Body); string(body) != "ann" {
		t.Errorf("the server saw %q", body)
	}
}

// tunnel connects the client of a CONNECT with an address.
func tunnel(t *testing.T, w http.ResponseWriter, address string) {
	server, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	go func() {
		_, _ = io.Copy(client, server)
		_ = client.Close()
	}()
}
