package host

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/keywright/keywright/host/internal/egress"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/tokencache"
)

// Transport authenticates each request and sends it through base. A nil base is the host's own transport, which keeps to
// [Config].Egress; another one has to guard itself.
//
// The request that it is given is never changed: the credential goes into a clone, and Response.Request is the caller's
// own, so that redirects, Referer and errors are made from a URL without credentials. A request for an origin that is
// not the connector's fails, redirects that a client follows included.
//
// When the answer to a request with a cached token is 401, the token is dropped and the request sent once more, if its
// body can be replayed: if it has none, has [http.Request].GetBody, or is kept. Other entries of the cache that the
// plugin read stay, unless it has read the request as well.
//
// A body streams, unless the plugin reads the request, and with it the body's digest, to sign it. Then the host reads
// the body of GetBody. When there is no GetBody, it reads the body itself and keeps it until the request has ended: up
// to 64 KiB in memory, and a longer one in a file of [os.TempDir] that only this process can reach. A kept body is sent
// with a Content-Length, unless the request has trailers. If it has more than BodyBytes of the [ConnectorConfig], the error wraps
// [http.MaxBytesError]. It is also an error when the body is not as long as its ContentLength. Nothing is sent then.
func (c *Connector) Transport(base http.RoundTripper) http.RoundTripper {
	return c.transport(base, false)
}

func (c *Connector) transport(base http.RoundTripper, shielded bool) http.RoundTripper {
	if base == nil && c.host != nil {
		base = c.host.base
	}
	return &transport{connector: c, base: base, shielded: shielded}
}

type transport struct {
	connector *Connector
	base      http.RoundTripper
	shielded  bool
}

// RoundTrip implements [http.RoundTripper]. Its errors are of type [Error], or those of base without what they may hold
// of a credential.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	body := &payload{}
	defer body.release()
	response, putIn, shield, err := t.send(r, body)
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode != http.StatusUnauthorized:
		return shield.response(response)
	}
	again := false
	for _, entry := range putIn {
		again = t.connector.host.cache.entries.Reject(entry.Key, entry.Generation) || again
	}
	if !again || !replayable(r) && body.kept == nil {
		return shield.response(response)
	}
	// What is left of the refusal is read, within reason, so that its connection can serve the second attempt.
	_, _ = io.CopyN(io.Discard, response.Body, 4<<10)
	_ = response.Body.Close()
	body.again = true
	response, _, shield, err = t.send(r, body)
	if err != nil {
		return nil, err
	}
	return shield.response(response)
}

// send authenticates a clone of the request and sends it.
func (t *transport) send(r *http.Request, body *payload) (*http.Response, []*tokencache.Handle, *shield, error) {
	authenticated, out := t.connector.clone(r, body)
	if out.err != nil {
		if !body.again && !body.taken { // else it is closed
			closeBody(r)
		}
		return nil, nil, nil, out.err
	}
	if err := body.attach(authenticated); err != nil {
		return nil, nil, nil, t.connector.fail(StageBody, err)
	}
	if _, set := authenticated.Header["User-Agent"]; !set {
		authenticated.Header["User-Agent"] = nil // none, rather than net/http's: a request goes out as it was made
	}
	var shield *shield
	if t.shielded {
		shield = t.connector.shield(r.Context(), out)
	}
	response, err := t.base.RoundTrip(shield.request(authenticated))
	if err != nil {
		if _, plain := t.base.(*http.Transport); plain {
			err = egress.Failure(err)
		}
		return nil, nil, nil, shield.error(err, out.call)
	}
	response.Request = r
	if err := withoutEcho(response, out.mutation); err != nil {
		_ = response.Body.Close()
		return nil, nil, nil, t.connector.fail(StageOrigin, err)
	}
	return response, out.putIn, shield, nil
}

// withoutEcho takes the query that was appended out of a redirect. Servers that redirect to another path or port often
// keep the query, and a client would then have the credential in the URL of its next request: in Referer, in errors.
func withoutEcho(response *http.Response, m *hostfn.Mutation) error {
	if m.Query == "" {
		return nil
	}
	location := response.Header.Get("Location")
	if location == "" {
		return nil
	}
	address, fragment, hasFragment := strings.Cut(location, "#")
	path, query, _ := strings.Cut(address, "?")
	if rest := m.Without(query); rest != query {
		if location = path; rest != "" {
			location += "?" + rest
		}
		if hasFragment {
			location += "#" + fragment
		}
		response.Header.Set("Location", location)
	}
	if m.Echoed(location) {
		return errors.New("the API answered with a redirect that holds the credential, which is not followed")
	}
	return nil
}

// Authenticate returns a clone of the request with its credential, for those who send it with a client of their own.
// The clone's URL and headers hold the credential: it is not to be logged, nor to be sent by a client that follows
// redirects.
//
// The body is shared with the request, unless it is kept, as [Connector.Transport] says: then the request's own has been
// read and closed, also when there is an error, and the clone's is to be closed by whoever does not send it.
func (c *Connector) Authenticate(r *http.Request) (*http.Request, error) {
	body := &payload{}
	defer body.release()
	authenticated, out := c.clone(r, body)
	if out.err != nil {
		return nil, out.err
	}
	if err := body.attach(authenticated); err != nil {
		return nil, c.fail(StageBody, err)
	}
	if body.kept != nil {
		authenticated.GetBody = nil // once the body is closed, nothing is kept
	}
	return authenticated.Clone(r.Context()), nil // what is shared so far is to be the caller's to change
}

// clone checks the request, runs the plugin, and applies the mutation to a copy of the request, which shares with it
// what is not changed: a base must not change it either.
func (c *Connector) clone(r *http.Request, body *payload) (*http.Request, *outcome) {
	headers, err := c.check(r)
	if err != nil {
		return nil, &outcome{err: err}
	}
	out := c.authenticate(r.Context(), r, body)
	if out.err != nil {
		return nil, out
	}
	return changed(r, headers, out.mutation), out
}

var errNotConnected = errors.New("the connector was not made by Host.Connect")

// check refuses a request that is not for this connector, or that others would take for another one. It returns a copy of
// its headers with room for more.
func (c *Connector) check(r *http.Request) (headers, error) {
	if c.host == nil {
		return headers{}, c.fail(StageOrigin, errNotConnected)
	}
	if err := c.checkOrigin(r); err != nil {
		return headers{}, c.fail(StageOrigin, err)
	}
	h := headers{all: maps.Clone(r.Header)}
	if h.all == nil {
		h.all = http.Header{}
	}
	for name, values := range r.Header {
		h.lengths |= 1 << min(len(name), 63)
		switch len(name) {
		case len("Host"), len("Trailer"), len("Connection"), len("Content-Length"), len("Transfer-Encoding"):
			for _, special := range [...]string{"Host", "Trailer", "Connection", "Content-Length", "Transfer-Encoding"} {
				if len(name) == len(special) && name != special && strings.EqualFold(name, special) {
					return headers{}, c.fail(StageOrigin, fmt.Errorf("the request has a header %s under a name in another case", special))
				}
			}
		}
		if cap(values) > len(values) {
			h.all[name] = slices.Clip(values) // so that Add makes a copy
		}
	}
	return h, nil
}

// headers are a copy of a request's.
type headers struct {
	all     http.Header
	lengths uint64 // of their names, a bit each: to look at each name once more takes as long as all the rest
}

// set replaces a header, also one that was put there under a name in another case. The name is in the canonical form.
func (h headers) set(name string, values []string) {
	if h.lengths&(1<<min(len(name), 63)) != 0 {
		maps.DeleteFunc(h.all, func(other string, _ []string) bool { return http.CanonicalHeaderKey(other) == name })
	}
	h.all[name] = values
}

// changed makes a copy of a request that has the mutation.
func changed(r *http.Request, h headers, m *hostfn.Mutation) *http.Request {
	copied := &struct { // allocated at once, since that is what authenticating takes longest for
		request http.Request
		target  url.URL // of its own, because some bases send a request elsewhere by changing it
		value   [1]string
	}{request: *r, target: *r.URL}
	authenticated, target := &copied.request, &copied.target
	authenticated.Header, authenticated.URL = h.all, target
	for i, header := range m.Headers {
		values := copied.value[:]
		if i > 0 {
			values = make([]string, 1)
		}
		values[0] = header.Value
		h.set(header.Name, values)
	}
	if m.Query != "" {
		if target.RawQuery != "" { // what the URL has stays byte for byte
			target.RawQuery += "&"
		}
		target.RawQuery += m.Query
	}
	return authenticated
}

// stripped refuses a request whose Connection header names a header of the mutation, RFC 9110 section 7.6.1. When that
// name is sealed, every name is refused: otherwise a caller could try names and see which one it is.
func (c *Connector) stripped(r *http.Request, m *hostfn.Mutation) error {
	for _, value := range r.Header["Connection"] {
		for option := range strings.SplitSeq(value, ",") {
			option = strings.TrimSpace(option)
			harmless := option == "" || strings.EqualFold(option, "close") || strings.EqualFold(option, "keep-alive")
			for _, header := range m.Headers {
				if strings.EqualFold(option, header.Name) || m.SealedName && !harmless {
					return c.fail(StageMutation, errors.New("the request's Connection header would have a proxy drop the credential"))
				}
			}
		}
	}
	return nil
}

func replayable(r *http.Request) bool {
	return r.Body == nil || r.Body == http.NoBody || r.GetBody != nil
}

// closeBody closes the body of a request, which a RoundTripper has to do also when it fails.
func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}
