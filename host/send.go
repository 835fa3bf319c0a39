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

	"golang.org/x/net/http/httpguts"

	"github.com/keywright/keywright/host/internal/egress"
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

// GuardedTransport is [Connector.Transport] for callers who must not see the credential, such as browsers behind a gateway: what
// comes back does not hold it, should the API echo what it was sent.
//
// The credential is every text that the plugin's sealed values came to in the request: whole headers and query
// parameters; what follows an authentication scheme such as Bearer; the user and password of Basic, together, and the
// password; and those of the connector's secrets that are part of any of these, also encoded, so that what is no secret
// belongs in a variable. [WithCredentials] adds others. Where one of these is text that was percent-encoded, or written
// in Base64 or hex, as a whole and up to three times over, the credential is also what it decodes to, and of
// user:password the password. Texts under 8 bytes are not looked for.
//
// These are found as they are, in UTF-16 (ASCII only), as Base64 (standard or URL alphabet, also inside the Base64 of
// more) and as hex. In each of these but UTF-16, any character may be escaped in one of these ways:
//
//   - as in URLs, in either case, + for a space, up to four times over: %2F, %252f;
//   - as in JSON and JavaScript, with up to seven backslashes: \u002f, \u{2f}, \x2f, octal \57, \n and its like, and a
//     backslash before any mark;
//   - as HTML's numeric references and those of & < > " ', up to four times over: &#47;, &#x2f;, &amp;, also without the
//     semicolon.
//
// A number in an escape is read with up to eight digits. Escapes of one kind inside those of another are not undone.
//
// Base64 is also found in lines of 32 characters or more, whatever the line breaks are (LF, CRLF or CR, escaped or not)
// and with up to some fifty bytes of white space before each line.
//
// How long the search takes grows with the answer and not with the credentials. An answer that would take longer is treated
// as one that holds the credential, and the error of its body says so. Such an answer nearly repeats, over and over, a
// credential of equal parts, or it has nearly all of a long one, escaped, in pieces of a few bytes.
//
// Not found is a credential whose case the API has changed, or that it has compressed, encrypted, cut in pieces (as a
// caller may ask for by Range) or broken into lines without Base64. Nor is one that the API has encoded in another way:
// twice, as in Base64 of Base64; in another character set; escaped as in CSS or MIME's quoted-printable, by other names
// of HTML, or with a backslash before a letter that needs none.
//
//   - A body that holds it ends with an [Error] of [StageResponse] that [errors.Is] finds to be [ErrCredentialInResponse], before any
//     byte of the credential has been read. What came before it has been passed on, as it came: nothing waits but what
//     may be the beginning of the credential. Who has to answer with a status of their own reads a first piece before
//     they send it.
//   - A header or trailer that holds it is dropped, and the log says so once. In the name of one it is found in any case of
//     letters, which net/http changes. But a redirect to such a Location is an error, as are 101 and answers to CONNECT,
//     since what follows these is no HTTP.
//   - An answer with a Content-Encoding is an error: the request asks for none (Accept-Encoding: identity).
//   - Informational answers (1xx) reach an [httptrace.ClientTrace] without the headers that hold it.
//
// A request without any credential, as of the type none, is sent and answered as by Transport.
func (c *Connector) GuardedTransport(base http.RoundTripper) http.RoundTripper {
	return c.transport(base, true)
}

func (c *Connector) transport(base http.RoundTripper, guarded bool) http.RoundTripper {
	if base == nil && c.host != nil {
		base = c.host.base
	}
	return &authTransport{connector: c, base: base, guarded: guarded}
}

type authTransport struct {
	connector *Connector
	base      http.RoundTripper
	guarded   bool
}

// RoundTrip implements [http.RoundTripper]. Its errors are of type [Error], or those of base without what they may hold
// of a credential.
func (t *authTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	body := &payload{}
	defer body.release()
	response, putIn, guard, err := t.send(r, body)
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode != http.StatusUnauthorized:
		return guard.response(response)
	}
	again := false
	for _, entry := range putIn {
		again = t.connector.host.cache.entries.Reject(entry.Key, entry.Generation) || again
	}
	if !again || !replayable(r) && body.kept == nil {
		return guard.response(response)
	}
	// What is left of the refusal is read, within reason, so that its connection can serve the second attempt.
	_, _ = io.CopyN(io.Discard, response.Body, 4<<10)
	_ = response.Body.Close()
	body.again = true
	response, _, guard, err = t.send(r, body)
	if err != nil {
		return nil, err
	}
	return guard.response(response)
}

// send authenticates a clone of the request and sends it.
func (t *authTransport) send(r *http.Request, body *payload) (*http.Response, []*tokencache.Handle, *guard, error) {
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
	var guard *guard
	if t.guarded {
		guard = t.connector.guard(r.Context(), out)
	}
	response, err := t.base.RoundTrip(guard.request(authenticated))
	if err != nil {
		if _, plain := t.base.(*http.Transport); plain {
			err = egress.Failure(err)
		}
		return nil, nil, nil, guard.error(err, out.call)
	}
	response.Request = r
	if err := dropCredential(response, out.mutation); err != nil {
		_ = response.Body.Close()
		return nil, nil, nil, t.connector.fail(StageOrigin, err)
	}
	return response, out.putIn, guard, nil
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
	return unshared(authenticated), nil
}

// clone checks the request, runs the plugin, and applies the mutation to a copy of the request, which shares with it
// what is not changed: a base must not change it either.
func (c *Connector) clone(r *http.Request, body *payload) (*http.Request, *outcome) {
	headers, err := c.check(r)
	if err != nil {
		return nil, &outcome{err: err}
	}
	out := c.authenticate(r.Context(), r, headers, body)
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
		switch special := specialHeaders[min(len(name), len(specialHeaders)-1)]; {
		case special == "":
		case name == "Connection":
			h.connection = values
		case name != special && strings.EqualFold(name, special):
			return headers{}, c.fail(StageOrigin, fmt.Errorf("the request has a header %s under a name in another case", special))
		}
		if cap(values) > len(values) {
			h.all[name] = slices.Clip(values) // so that Add makes a copy
		}
	}
	return h, nil
}

// specialHeaders are the headers that net/http reads under their canonical names only, by the lengths of these. Each has a
// length of its own.
var specialHeaders = [...]string{
	len("Host"): "Host", len("Trailer"): "Trailer", len("Connection"): "Connection", len("Content-Length"): "Content-Length",
	len("Transfer-Encoding"): "Transfer-Encoding", len("Transfer-Encoding") + 1: "",
}

// checkOrigin refuses a request that is not for one of the connector's origins. Redirects that a client follows come
// through here as well.
func (c *Connector) checkOrigin(r *http.Request) error {
	if r.URL == nil || r.URL.Opaque != "" { // what is opaque may name another host in the request line
		return errors.New("the request has no URL with a host and a path")
	}
	if err := c.checkHost(r.URL); err != nil {
		return err
	}
	if strings.IndexByte(r.URL.RawQuery, '#') >= 0 { // it would go out as it is, and what is appended behind it be a fragment
		return errors.New("the request's query holds a #: write it as %23")
	}
	if r.Host != "" && (r.Host != r.URL.Host || !ascii(r.Host)) { // else it is the one that was checked
		written, err := httpguts.PunycodeHostPort(r.Host) // as net/http writes it
		if err != nil {
			return errors.New("the request's Host is not the name of a host")
		}
		named, err := originOf(&url.URL{Scheme: r.URL.Scheme, Host: written})
		if err != nil || !c.origins[named] {
			return errors.New("the request's Host names another origin")
		}
	}
	return nil
}

// checkHost checks the scheme and the host of a request's URL. What was right once is remembered as it was written.
func (c *Connector) checkHost(u *url.URL) error {
	if last := c.lastOrigin.Load(); last != nil && last.scheme == u.Scheme && last.host == u.Host {
		return nil
	}
	o, err := originOf(u)
	if err != nil {
		return fmt.Errorf("the request's URL %w", err)
	}
	if !c.origins[o] {
		return fmt.Errorf("%s is not an origin of this connector, so it gets no credential", Printable(o.String()))
	}
	c.lastOrigin.Store(&written{u.Scheme, u.Host})
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
