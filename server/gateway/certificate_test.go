package gateway_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/trial"
)

// A test of an API whose certificate is refused says what to do, whichever way the connector connects.
func TestAPICertificateRemedy(t *testing.T) {
	authority := testworld.NewAuthority(t)
	api := httptest.NewUnstartedServer(http.NotFoundHandler())
	api.Config.ErrorLog = log.New(io.Discard, "", 0)
	api.StartTLS()
	t.Cleanup(api.Close)
	for name, change := range map[string]func(*options, *gateway.Definition){
		"the host's transport": func(*options, *gateway.Definition) {},
		"authorities of its own": func(_ *options, d *gateway.Definition) {
			d.TLS = &host.TLS{CA: authority.PEM(), For: []host.TLSPurpose{host.TLSForAPI}}
		},
		"an egress of its own":     func(_ *options, d *gateway.Definition) { d.Egress = &host.Egress{AllowPrivate: true} },
		"a transport of a program": func(o *options, _ *gateway.Definition) { o.Base = &http.Transport{} },
		"a wrapped transport":      func(o *options, _ *gateway.Definition) { o.Base = testworld.Answer(http.DefaultTransport.RoundTrip) },
	} {
		w := newWorld(t, func(o *options, d *gateway.Definition) {
			d.URL = api.URL
			change(o, d)
		})
		if got := w.result(trial.Try{}); !strings.Contains(got.Remedy, "or this machine's clock is wrong") {
			t.Errorf("%s: %q for %s", name, got.Remedy, got.Cause)
		}
	}
}

// A test of a path that the connector does not have says what to do.
func TestRemedyOfAnUnknownPath(t *testing.T) {
	w := newWorld(t, func(_ *options, d *gateway.Definition) { d.Paths = []string{"/*"} })
	if got := w.result(trial.Try{Path: "/a/b"}); got.Problem != "unknown-path" || !strings.Contains(got.Remedy, "add the path to the connector's paths") {
		t.Errorf("%s: got.Remedy = %q", got.Problem, got.Remedy)
	}
}
