package host_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
)

// An error has the reason as a value, so that nobody compares texts to find what to do about it.
func TestErrorsHaveTheirReason(t *testing.T) {
	s := newSecureWorld(t)
	s.issueTo("ann", "ann", start.Add(90*day))
	ended, key := s.authority.Client("ann", start.Add(-time.Hour))
	s.store("ended", ended, key)
	untrusted := of("ann")
	untrusted.CA = testworld.NewAuthority(t).PEM()
	s.credentials()
	for name, c := range map[string]struct {
		connector *host.Connector
		is        func(error) bool
	}{
		"a client certificate that has ended": {s.secure("ended", of("ended")), func(err error) bool {
			var failed *host.CertificateError
			return errors.As(err, &failed) && failed.NotAfter.Equal(start.Add(-time.Hour))
		}},
		"an API that nobody vouches for":      {s.secure("crm", untrusted), func(err error) bool { return errors.Is(err, host.ErrServerCertificate) }},
		"an endpoint that nobody vouches for": {s.secureAs("erp", untrusted, s.credentials()), func(err error) bool { return errors.Is(err, host.ErrServerCertificate) }},
	} {
		if err := s.call(context.Background(), c.connector); !c.is(err) || errors.Is(err, host.ErrAddressRefused) {
			t.Errorf("%s: err = %v", name, err)
		}
	}
	w := newWorld(t, func(c *host.Config) { c.Base = nil })
	w.canary("s")
	c := oauth("{{ get_secret('s') }}")
	c["token_url"] = "https://127.0.0.1/token"
	if err := w.refuse(w.connect("oauth_client_credentials", c), get(t.Context()), host.StageToken); !errors.Is(err, host.ErrAddressRefused) {
		t.Errorf("an address that egress does not allow: %v", err)
	}
}

// A base that wraps the host's returns the same error for the certificate of an API, without the text of net/http.
func TestCertificateErrorThroughWrappedBase(t *testing.T) {
	api := httptest.NewUnstartedServer(http.NotFoundHandler())
	api.Config.ErrorLog = log.New(io.Discard, "", 0) // the handshake fails
	api.StartTLS()
	defer api.Close()
	w := newWorld(t, func(c *host.Config) { c.Base, c.Egress = nil, host.Egress{AllowPrivate: true} })
	connector, err := w.host.NewConnector(t.Context(), host.ConnectorConfig{Name: "crm", Origins: []string{api.URL}, Auth: host.Auth{Type: "none"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	base := testworld.Answer(func(r *http.Request) (*http.Response, error) { return connector.Base().RoundTrip(r) })
	response, err := connector.Transport(base).RoundTrip(r)
	if err == nil {
		_ = response.Body.Close()
	}
	if !errors.Is(err, host.ErrServerCertificate) || strings.Contains(err.Error(), "x509") {
		t.Errorf("the error is %v", err)
	}
}

// TokenError.Offset shows the clock of the endpoint, also in the errors that come without a request to it.
func TestTheClockOfATokenEndpoint(t *testing.T) {
	for name, c := range map[string]struct {
		ahead, want time.Duration
		header      []string
	}{
		"no clock":       {},
		"the same":       {ahead: 9 * time.Second, header: []string{"Date"}},
		"ahead":          {ahead: time.Hour, want: time.Hour, header: []string{"Date"}},
		"behind":         {ahead: -7 * time.Minute, want: -7 * time.Minute, header: []string{"Date"}},
		"of a cache":     {ahead: time.Hour, header: []string{"Date", "Age"}},
		"no date at all": {header: []string{"Age"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.canary("s")
			header := map[string]string{"Date": w.Now().Add(c.ahead).UTC().Format(http.TimeFormat), "Age": "1"}
			var pairs []string
			for _, name := range c.header {
				pairs = append(pairs, name, header[name])
			}
			w.login.Answer(respond(http.StatusBadRequest, `{"error":"invalid_grant"}`, pairs...))
			connector := w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}"))
			for range 2 {
				var answer *host.TokenError
				if err := w.refuse(connector, get(t.Context()), host.StageToken); !errors.As(err, &answer) || answer.Offset != c.want {
					t.Errorf("the error is %#v", answer)
				}
			}
			if w.login.Count() != 1 {
				t.Errorf("the endpoint was asked %d times", w.login.Count())
			}
		})
	}
}

// Attempt.Expires is the end of the token that went into the request, be it new, cached or reused.
func TestAnAttemptSaysWhenItsTokenEnds(t *testing.T) {
	w := newWorld(t, func(c *host.Config) { c.Plugins = []host.Plugin{{Wasm: plugins.AWSSigV4}} })
	w.canary("s")
	c := w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}"))
	key := w.connect("api_key", config{"in": "header", "key": "X-Key", "value": "{{ get_secret('s') }}"})
	for range 3 {
		w.get(c)
	}
	w.get(key)
	signs := w.connect("aws_sigv4", config{ // keeps its signing key
		"access_key_id": "AKID", "secret_access_key": "{{ get_secret('s') }}", "region": "eu-central-1", "service": "s3",
	})
	w.get(signs)
	w.get(signs)
	if len(w.calls) != 6 {
		t.Fatalf("%d attempts", len(w.calls))
	}
	for i, call := range w.calls[:3] {
		if want := start.Add(time.Hour - time.Minute); !call.Expires.Equal(want) {
			t.Errorf("attempt %d: %v, want %v", i, call.Expires, want)
		}
	}
	for _, call := range w.calls[3:] {
		if !call.Expires.IsZero() {
			t.Errorf("an attempt of %s without a token: %v", call.AuthType, call.Expires)
		}
	}
}
