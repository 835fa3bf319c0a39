package host

import (
	"context"
	"errors"
	"net/http"

	"github.com/keywright/keywright/host/internal/leakscan"
	"github.com/keywright/keywright/host/internal/send"
)

// Transport returns a RoundTripper that authenticates each request and sends it through base, or through [Connector.Base] if base is
// nil. Any other base must check addresses itself. If the connector has TLS for the API, such a base must send through Base, with the
// context of the request that it gets; otherwise no certificate is presented.
//
// The caller's request is never changed: the credential goes into a clone. Response.Request is the caller's request, so
// that redirects, Referer and errors use a URL without credentials. A request for an origin that is not the connector's
// fails, also if a client sends it to follow a redirect, unless [ConnectorConfig].CrossOriginRedirects allows that.
//
// If the API answers a request with a cached token with 401, the token is dropped, and the request is sent once more if
// its body can be replayed: if there is no body, if the request has GetBody, or if the body is kept. Other cache
// entries that the plugin read remain, unless it also read the request.
//
// A body streams, unless the plugin reads the request, and with it the body's digest, to sign it. Then the host reads a
// body from GetBody. If GetBody is nil, the host reads the body itself and keeps it until the request has ended: up to
// 64 KiB in memory, and a longer one in a file in [os.TempDir] that only this process can open. A kept body is sent
// with a Content-Length, unless the request has trailers. If the body is longer than BodyBytes of the
// [ConnectorConfig], nothing is sent and the error wraps [http.MaxBytesError]. If its length differs from
// ContentLength, nothing is sent either.
func (c *Connector) Transport(base http.RoundTripper) http.RoundTripper {
	return c.roundTripper(base, false)
}

// GuardedTransport is like [Connector.Transport], for callers who must not see the credential, such as browsers behind a gateway: if the
// API echoes it, it does not reach the caller. The credential consists of the texts in the request that contain a sealed value:
//
//   - a whole header or query parameter, and the part of a header after an authentication scheme such as Bearer;
//   - of Basic, the user and password together, and the password;
//   - a secret of the connector in any of these, also encoded. So put values that are not secret into variables.
//
// [WithCredentials] adds others. If one of these texts as a whole is percent-encoded, Base64 or hex, in up to three layers, the decoded
// text counts too, and so does the password of a decoded user:password. Texts shorter than 8 bytes are not searched for.
//
// Each text is found as it is, in UTF-16 (ASCII only), in hex, and in Base64: in both alphabets, as part of a longer Base64 text, and in
// lines of 32 characters or more, with any line breaks and up to some fifty bytes of white space before each. In all of these but
// UTF-16, any character may be escaped in one of these ways, with numbers of up to eight digits:
//
//   - as in URLs, with + for a space, up to four times over, where each time encodes the percent sign alone: %2F, %252f;
//   - as in JSON and JavaScript, with up to seven backslashes: \u002f, \u{2f}, \x2f, octal \57, \n and the like, and a backslash before any
//     punctuation mark;
//   - as a numeric reference of HTML, or a named one for & < > " ', up to four times over and also without the semicolon: &#47;, &#x2f;,
//     &amp;.
//
// It is not found with escapes of one kind inside those of another, if the API has changed its case, compressed, encrypted or split it
// (as a Range request can make it do), in lines without Base64, in another character set, or in another encoding: Base64 of Base64, escapes of CSS, MIME's
// quoted-printable, other named references, or a backslash before a letter that needs none.
//
// The time of the search grows with the length of the answer alone. An answer that would take longer, because it repeats many times
// nearly all of a credential, counts as one that contains it, and the error of its body says so.
//
// The guard changes an answer as follows:
//
//   - A body that contains the credential ends with an [Error] of [StageResponse] that wraps [ErrCredentialInResponse], before the
//     first byte of it. What is before has been passed on as it came; only bytes that may begin it are held back. A caller that wants to
//     answer with a status of its own must read a first piece of the body before it sends the status.
//   - A header or trailer that contains it is dropped, and a warning is logged once. In names, it is found in any case of letters,
//     because net/http changes that.
//   - A redirect whose Location contains it is an error.
//   - An informational answer (1xx) reaches an [httptrace.ClientTrace] without the headers that contain it.
//   - A Content-Encoding is undone, although the request asks for identity: gzip, deflate and [Config].ContentCodings. Then
//     Content-Encoding, Content-Length and Accept-Ranges are gone, and an ETag is weak. A body that becomes more than 200 times as long
//     ends with an error.
//
// An answer that cannot be searched is an error: one with another coding, one with a coding and the status 206, a 101, and answers to
// CONNECT. A request without a credential, such as one of the type none, is sent and answered as by Transport.
func (c *Connector) GuardedTransport(base http.RoundTripper) http.RoundTripper {
	return c.roundTripper(base, true)
}

func (c *Connector) roundTripper(base http.RoundTripper, guarded bool) http.RoundTripper {
	if c.transport == nil {
		return unconnected{c}
	}
	return c.transport.RoundTripper(base, guarded)
}

var errNotConnected = errors.New("the connector was not made by Host.NewConnector")

// unconnected is the RoundTripper of a connector that was not made by Host.NewConnector. It sends nothing.
type unconnected struct{ connector *Connector }

func (u unconnected) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return nil, u.connector.fail(StageOrigin, errNotConnected)
}

// Authenticate returns a clone of the request with its credential, for callers that send it with a client of their own.
// The URL and headers of the clone contain the credential: do not log it, and do not send it with a client that follows
// redirects. If the connector has TLS for the API, send it through [Connector.Base].
//
// The clone shares the body of the request, unless the host keeps it, see [Connector.Transport]. In that case, the
// request's own body has been read and closed, even if there is an error, and the caller must close the clone's body if
// it does not send it.
func (c *Connector) Authenticate(r *http.Request) (*http.Request, error) {
	if c.transport == nil {
		return nil, c.fail(StageOrigin, errNotConnected)
	}
	return c.transport.AddCredential(r)
}

// Base returns the transport that [Connector.Transport] uses if its base is nil. It adds no credential, but if the TLS of the
// connector is for the API, it presents the client certificate. Then it sends only requests that this connector has
// authenticated: those that a base receives, and those of [Connector.Authenticate].
func (c *Connector) Base() http.RoundTripper {
	if c.transport == nil {
		return unconnected{c}
	}
	return c.transport.Base()
}

// WithCredentials returns a context whose requests carry further credentials, from templates that the embedder renders.
// [Connector.GuardedTransport] searches answers for them as for those of the connector. Texts without a secret are
// ignored.
func WithCredentials(ctx context.Context, texts ...Text) context.Context {
	var all []string
	for _, text := range texts {
		if text.Secret {
			all = append(append(all, text.secrets...), leakscan.Parts(text.Value)...)
		}
	}
	return send.WithCredentials(ctx, all)
}
