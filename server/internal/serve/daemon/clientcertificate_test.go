package daemon_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/serve/daemon"
)

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
	if _, page := w.get(w.operators + "/metrics"); strings.Contains(page, metric) {
		t.Error("there is a metric before the first request")
	}
	const day = 24 * time.Hour
	for name, lasts := range map[string]time.Duration{"ann": 90 * day, "bob": 10 * day} {
		ends := clock.Now().Add(lasts)
		certificate, key := authority.Client(name, ends)
		w.Hide("the certificate", strings.Split(certificate, "\n")[1])
		w.Hide("the key", strings.Split(key, "\n")[1])
		secrets.put(certificate, key)
		w.gets(w.callers+"/connectors/bank", http.StatusOK, name)
		if _, page := w.get(w.operators + "/metrics"); !strings.Contains(page, fmt.Sprintf("%s %s\n", metric, gauge(ends))) {
			t.Errorf("%s: the metrics do not say that it ends at %d", name, ends.Unix())
		}
		soon := "tls.certificate: the client certificate ends at " + ends.UTC().Format(time.RFC3339) + ": renew it"
		if got := strings.Contains(w.log.String(), soon); got != (name == "bob") {
			t.Errorf("%s: the log warns: %v", name, got)
		}
	}
	// A reload that leaves tls alone keeps the metric; a rotation that brings an expired certificate shows it.
	_, page := w.get(w.operators + "/metrics")
	w.write(text + "    timeout: 5s\n")
	w.eventually("the reload", func() bool { return strings.Contains(w.log.String(), "the configuration is in use") })
	if _, after := w.get(w.operators + "/metrics"); !strings.Contains(page, metric) || !strings.Contains(after, line(page, metric)) {
		t.Error("a reload loses the metric")
	}
	ended := clock.Now().Add(-day)
	certificate, key := authority.Client("eve", ended)
	w.Hide("the certificate", strings.Split(certificate, "\n")[1])
	w.Hide("the key", strings.Split(key, "\n")[1])
	secrets.put(certificate, key)
	w.gets(w.callers+"/connectors/bank", http.StatusBadGateway, "")
	if _, page := w.get(w.operators + "/metrics"); !strings.Contains(page, fmt.Sprintf("%s %s\n", metric, gauge(ended))) {
		t.Error("the metrics do not show the certificate that has expired")
	}
	clock.Advance(100 * day)
	if status, body := w.get(w.callers + "/connectors/bank"); status != http.StatusBadGateway || !strings.Contains(body, `"stage":"config"`) {
		t.Errorf("after its end, the caller got %d %s", status, body)
	}
}

// gauge returns a time as Prometheus writes it.
func gauge(t time.Time) string { return strconv.FormatFloat(float64(t.Unix()), 'g', -1, 64) }

// line returns the line of page that begins with start.
func line(page, start string) string {
	_, rest, _ := strings.Cut(page, start)
	rest, _, _ = strings.Cut(rest, "\n")
	return start + rest + "\n"
}
