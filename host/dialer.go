package host

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/keywright/keywright/internal/urlcheck"
)

// dialer has the transports of one Egress.
type dialer struct {
	egress Egress
	// api is for requests to APIs.
	api http.RoundTripper
	// tokens is for exchanges with token endpoints.
	tokens *http.Client
}

// newDialer returns the dialer of an Egress. If base is not nil, it takes the place of both transports.
func newDialer(e Egress, base http.RoundTripper) (*dialer, error) {
	d := &dialer{egress: e, api: base}
	for _, host := range e.PlainHTTP {
		if _, err := urlcheck.ParseHost(host); err != nil {
			return nil, fmt.Errorf("an item of PlainHTTP %w", err)
		}
	}
	if base == nil {
		transport, err := e.Transport()
		if err != nil {
			return nil, err
		}
		d.api = transport
	}
	var err error
	if d.tokens, err = e.policy().TokenClient(); err != nil {
		return nil, err
	}
	if base != nil {
		d.tokens.Transport = base
	}
	return d, nil
}

// closeIdle closes the connections that no request uses.
func (d *dialer) closeIdle() {
	for _, transport := range []http.RoundTripper{d.api, d.tokens.Transport} {
		if t, ok := transport.(*http.Transport); ok {
			t.CloseIdleConnections()
		}
	}
}

// checkTokenURL returns an error if text is not a valid value for a field of kind url.
func (d *dialer) checkTokenURL(text string) error {
	_, err := urlcheck.Rule{
		HTTP: d.egress.AllowsHTTP, PlainHTTP: "which would send the credential in the open: use https", Credentials: "use the fields for credentials",
	}.Parse(text)
	return err
}

// dialerKey identifies an Egress within a host.
type dialerKey struct {
	allowHTTP, allowPrivate bool
	plain, allow, proxy     string
	tls                     *tls.Config
}

// String returns a text that is the same for all hosts with the same Egress but for its TLS.
func (k dialerKey) String() string {
	return fmt.Sprintf("%t %q %t %s %s %t", k.allowHTTP, k.plain, k.allowPrivate, k.allow, k.proxy, k.tls != nil)
}

func keyOfEgress(e Egress) dialerKey {
	key := dialerKey{allowHTTP: e.AllowHTTP, plain: strings.Join(e.PlainHTTP, " "), allowPrivate: e.AllowPrivate, tls: e.TLS}
	for _, prefix := range e.Allow {
		key.allow += prefix.String() + " "
	}
	if e.Proxy != nil {
		key.proxy = e.Proxy.String()
	}
	return key
}

// dialerFor returns the dialer of a connector whose own Egress is e, or nil. Connectors with the same Egress share one. With an error,
// the dialer is that of the host.
func (h *Host) dialerFor(e *Egress) (*dialer, error) {
	switch {
	case e == nil:
		return h.dialer, nil
	case h.config.Base != nil:
		return h.dialer, errors.New("needs the transport of the host, and Config.Base takes its place: leave one of them out")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	key := keyOfEgress(*e)
	if d := h.dialers[key]; d != nil {
		return d, nil
	}
	d, err := newDialer(*e, nil)
	if err != nil {
		return h.dialer, err
	}
	h.dialers[key] = d
	return d, nil
}
