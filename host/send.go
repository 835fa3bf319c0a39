package host

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net/http"
	"time"

	"github.com/keywright/keywright/host/internal/egress"
	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/request"
	"github.com/keywright/keywright/internal/answers"
)

// Transport returns a RoundTripper that authenticates each request and sends it through base. If base is nil, it uses
// [Connector.Base]: the host's own transport, or the one with the connector's client certificate. Any other base must check
// addresses itself. If the connector has TLS for the API, such a base must send through Base, with the context of the request
// that it gets; otherwise no certificate is presented.
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
	return c.transport(base, false)
}

// GuardedTransport is like [Connector.Transport], for callers who must not see the credential, such as browsers behind
// a gateway. If the API echoes the credential, it does not reach the caller.
//
// The credential consists of the texts in the request that contain a sealed value of the plugin:
//
//   - a whole header or query parameter;
//   - the part of a header after an authentication scheme such as Bearer;
//   - of Basic, the user and password together, and the password;
//   - a secret of the connector that is part of any of these, also encoded. So put values that are not secret into
//     variables.
//
// [WithCredentials] adds others. If one of these texts as a whole is percent-encoded, Base64 or hex, the decoded text
// is part of the credential too, and so is the password of a decoded user:password. Up to three encodings are decoded.
// Texts shorter than 8 bytes are not searched for.
//
// Each text is found as it is, in UTF-16 (ASCII only), in Base64 (standard or URL alphabet, also as part of a longer
// Base64 text) and in hex. In each of these forms but UTF-16, any character may be escaped in one of these ways:
//
//   - as in URLs, in either case, with + for a space, up to four times over, where each time encodes the percent sign alone: %2F, %252f;
//   - as in JSON and JavaScript, with up to seven backslashes: \u002f, \u{2f}, \x2f, octal \57, \n and the like, and a
//     backslash before any punctuation mark;
//   - as a numeric reference of HTML, or as one of its named references for & < > " ', up to four times over and also
//     without the semicolon: &#47;, &#x2f;, &amp;.
//
// A number in an escape may have up to eight digits. Escapes of one kind inside those of another are not decoded.
//
// Base64 is also found in lines of 32 characters or more, with any line breaks (LF, CRLF or CR, escaped or not) and up
// to some fifty bytes of white space before each line.
//
// The time of the search grows with the length of the answer and not with that of the credentials. An answer that would
// take longer is treated as if it contained the credential, and the error of its body says so. Such an answer repeats
// many times nearly all of a credential that has equal parts, or it has nearly all of a long credential, escaped, in
// pieces of a few bytes.
//
// The search does not find a credential whose case the API has changed, or that it has compressed, encrypted, split (as
// a Range request can make it do) or broken into lines without Base64. Nor does it find one in another encoding:
// encoded twice, such as Base64 of Base64; in another character set; escaped as in CSS or MIME's quoted-printable; with
// other named references of HTML; or with a backslash before a letter that needs none.
//
// The guard changes an answer as follows:
//
//   - A body that contains it ends with an [Error] of [StageResponse] that wraps [ErrCredentialInResponse], before the
//     first byte of the credential. The bytes before it have been passed on as they came; only bytes that may begin the
//     credential are held back. A caller that wants to answer with a status of its own must read a first piece of the
//     body before it sends the status.
//   - A header or trailer that contains it is dropped, and a warning is logged once. In names, the credential is found
//     in any case of letters, because net/http changes it.
//   - A redirect whose Location contains it is an error.
//   - An informational answer (1xx) reaches an [httptrace.ClientTrace] without the headers that contain it.
//
// A Content-Encoding is undone (the request asks for identity): gzip, deflate and [Config].ContentCodings. Then Content-Encoding,
// Content-Length and Accept-Ranges are gone, and an ETag is weak. A body that becomes more than 200 times as long ends with an error.
//
// An answer that cannot be searched is an error: one with another coding, or with a coding and the status 206; and 101 and
// answers to CONNECT, which are followed by something other than HTTP.
//
// A request without a credential, such as one of the type none, is sent and answered as by Transport.
func (c *Connector) GuardedTransport(base http.RoundTripper) http.RoundTripper {
	return c.transport(base, true)
}

// transport returns an authTransport.
func (c *Connector) transport(base http.RoundTripper, guarded bool) http.RoundTripper {
	if base == nil {
		base = c.Base()
	}
	return &authTransport{connector: c, base: base, guarded: guarded}
}

// authTransport is the RoundTripper of Transport and GuardedTransport.
type authTransport struct {
	connector *Connector
	base      http.RoundTripper
	guarded   bool
}

// RoundTrip implements [http.RoundTripper]. Its errors are of type [Error], or errors of base from which the credential
// was removed.
func (t *authTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, span := t.connector.events.Start(r.Context(), event.Span{Name: event.Request})
	if !span.Exists() {
		return t.attempts(r)
	}
	response, err := t.attempts(r.WithContext(ctx))
	end := event.End{Err: err}
	if err == nil {
		response.Request, end.Status = r, response.StatusCode
	}
	span.End(end)
	return response, err
}

// attempts authenticates a request and sends it, and does so once more if the API's answer is a reason.
func (t *authTransport) attempts(r *http.Request) (*http.Response, error) {
	if t.connector.hasLeft(r) {
		return t.leave(r)
	}
	body := &request.Body{}
	defer body.Release()
	first, err := t.send(r, body, nil)
	if err != nil {
		return nil, err
	}
	answer, retry := t.connector.checkRetry(first, nil, func() bool { return body.CanRepeat(r) })
	if !retry {
		return first.result(t.connector)
	}
	body.Second = true
	previous := &repeated{first, answer}
	second, err := t.send(r, body, previous)
	if err != nil {
		return nil, err
	}
	if second != first {
		t.connector.checkRetry(second, first.out.call.Texts(first.out.mutation), func() bool { return false })
	}
	return second.result(t.connector)
}

// send authenticates a clone of the request and sends it. If previous is not nil, it is the second attempt. Then send discards
// the first answer, or returns the first attempt if the plugin passes that answer on.
func (t *authTransport) send(r *http.Request, body *request.Body, previous *repeated) (exchanged, error) {
	var answer *hostfn.APIAnswer
	if previous != nil {
		answer = previous.answer
	}
	if previous != nil && answer == nil { // the answer cannot be passed on, so its connection may serve the call
		previous.discard()
	}
	authenticated, out := t.connector.clone(r, body, answer)
	switch {
	case previous != nil && out.err == nil && out.mutation.Pass:
		return previous.first, nil
	case answer != nil:
		previous.discard()
	}
	if out.err != nil {
		body.Close(r)
		return exchanged{}, out.err
	}
	if err := body.Attach(authenticated); err != nil {
		return exchanged{}, t.connector.fail(StageBody, err)
	}
	if agent := t.connector.host.config.UserAgent; agent != "" {
		if _, set := authenticated.Header["User-Agent"]; !set {
			authenticated.Header["User-Agent"] = []string{agent}
		}
	}
	attempt := exchanged{out: out}
	if t.guarded {
		attempt.guard = t.connector.guard(r.Context(), out, previous.credentials())
	}
	response, err := t.roundTrip(attempt, authenticated, previous != nil) //nolint:bodyclose // exchanged.result closes what it does not return
	if err != nil {
		return exchanged{}, err
	}
	response.Request = r      // with its method, Decode knows whether there is a body
	if response.Body == nil { // not every base follows the rule that there is one
		response.Body = http.NoBody
	}
	if attempt.guard != nil {
		attempt.rejection = answers.Decode(response, t.connector.host.config.ContentCodings)
	}
	attempt.response, attempt.rejection = response, cmp.Or(attempt.rejection, dropCredential(response, out.mutation))
	if attempt.rejection == nil && t.connector.config.CrossOriginRedirects && response.Header["Location"] != nil {
		if g := t.connector.guard(r.Context(), out, previous.credentials()); g != nil {
			attempt.rejection = g.checkAnswer(response)
		}
	}
	return attempt, nil
}

// roundTrip sends an authenticated request through the base, in a span. It records the request in the trace of its context, if there
// is one.
func (t *authTransport) roundTrip(attempt exchanged, authenticated *http.Request, second bool) (*http.Response, error) {
	ctx, span := t.connector.events.Start(authenticated.Context(), event.Span{
		Name: event.Send, Second: second, Method: authenticated.Method, Scheme: authenticated.URL.Scheme, Host: authenticated.URL.Host,
	})
	if span.Exists() {
		authenticated = authenticated.WithContext(ctx)
	}
	trace, began := event.TraceOf(ctx), time.Time{}
	if trace != nil {
		began = t.connector.host.config.Clock()
	}
	response, err := t.base.RoundTrip(attempt.guard.request(authenticated))
	if len(authenticated.Header["Upgrade"]) == 0 {
		response, err = answers.Final(response, err)
	}
	if err != nil {
		// A base of somebody else keeps its errors, but for that of a certificate: its text has names from the certificate, and a base
		// that wraps the host's returns it as well.
		if _, plain := t.base.(*http.Transport); plain || errors.As(err, new(*tls.CertificateVerificationError)) {
			err = egress.Failure(err)
		}
		response, err = nil, attempt.guard.error(err, attempt.out.call)
	}
	end := event.End{Err: err}
	if response != nil {
		end.Status = response.StatusCode
	}
	span.End(end)
	if trace != nil {
		t.connector.record(trace, response, t.connector.host.config.Clock().Sub(began), err)
	}
	return response, err
}

// Authenticate returns a clone of the request with its credential, for callers that send it with a client of their own.
// The URL and headers of the clone contain the credential: do not log it, and do not send it with a client that follows
// redirects. If the connector has TLS for the API, send it through [Connector.Base].
//
// The clone shares the body of the request, unless the host keeps it, see [Connector.Transport]. In that case, the
// request's own body has been read and closed, even if there is an error, and the caller must close the clone's body if
// it does not send it.
func (c *Connector) Authenticate(r *http.Request) (*http.Request, error) {
	body := &request.Body{}
	defer body.Release()
	authenticated, out := c.clone(r, body, nil)
	if out.err != nil {
		return nil, out.err
	}
	if err := body.Attach(authenticated); err != nil {
		return nil, c.fail(StageBody, err)
	}
	if body.Kept() {
		authenticated.GetBody = nil // the host keeps the body only until it is closed
	}
	return request.Unshare(authenticated), nil
}

// clone checks the request, runs the plugin, and returns a copy of the request with the mutation. The copy shares with
// r everything that the mutation does not change, so a base must not change that.
func (c *Connector) clone(r *http.Request, body *request.Body, answer *hostfn.APIAnswer) (*http.Request, *outcome) {
	headers, err := c.check(r)
	if err != nil {
		return nil, &outcome{err: err}
	}
	out := c.authenticate(r.Context(), r, headers, body, answer)
	if out.err != nil || out.mutation.Pass {
		return nil, out
	}
	if body.Form = out.mutation.Form; body.Form != "" && !body.Kept() {
		if err := body.Keep(r.Context(), r, c.bodyBytes()); err != nil {
			return nil, &outcome{err: c.fail(StageBody, out.call.ScrubError(err))}
		}
	}
	authenticated, err := c.identified(request.Apply(r, headers, out.mutation), out)
	if err != nil {
		return nil, &outcome{err: err}
	}
	return authenticated, out
}

var errNotConnected = errors.New("the connector was not made by Host.NewConnector")

// check returns an error if a request is not for this connector, or if it could be mistaken for another one. It returns
// a copy of the request's headers, to which headers can be added.
func (c *Connector) check(r *http.Request) (h request.Headers, err error) {
	if c.host == nil {
		return h, c.fail(StageOrigin, errNotConnected)
	}
	if err = c.plan.Origins.Check(r); err == nil {
		h, err = request.HeadersOf(r)
	}
	if err != nil {
		return h, c.fail(StageOrigin, err)
	}
	return h, nil
}

// bodyBytes returns the most bytes of a body that is kept.
func (c *Connector) bodyBytes() int64 {
	return cmp.Or(c.config.BodyBytes, c.host.config.Limits.BodyBytes)
}
