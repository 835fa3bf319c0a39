package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/echo"
	"github.com/keywright/keywright/host/internal/hostfn"
)

// Shielded is [Connector.Transport] for callers who must not see the credential, such as browsers behind a gateway: what
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
//   - A body that holds it ends with an [Error] of [StageResponse] that [errors.Is] finds to be [ErrEchoed], before any
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
func (c *Connector) Shielded(base http.RoundTripper) http.RoundTripper {
	return c.transport(base, true)
}

type credentialsKey struct{}

// WithCredentials returns a context whose requests have credentials for [Connector.Shielded] to look for, beside those of
// their connector: in what an embedder made with templates. Texts without a secret are left out.
func WithCredentials(ctx context.Context, texts ...Text) context.Context {
	all, _ := ctx.Value(credentialsKey{}).([]string)
	all = slices.Clone(all)
	for _, text := range texts {
		if text.Secret {
			all = append(append(all, text.secrets...), hostfn.Parts(text.Value)...)
		}
	}
	all = hostfn.Decoded(all)
	for i, text := range all {
		all[i] = strings.TrimSpace(text) // as headers are sent
	}
	return context.WithValue(ctx, credentialsKey{}, all)
}

// echoes holds the finder of a request's credentials.
type echoes struct {
	others []string // that the context had
	finder *echo.Finder
}

// finder finds the credentials of the mutation, and others. It is nil when there is none that can be looked for.
func (o *outcome) finder(others []string) *echo.Finder {
	if e := o.echoes.Load(); e != nil && slices.Equal(e.others, others) {
		return e.finder
	}
	f := echo.New(append(o.call.Credentials(o.mutation), others...))
	if f != nil && f.Size() <= maxKept { // the outcome may be kept, too
		o.echoes.Store(&echoes{others, f})
	}
	return f
}

// shield keeps the credential of one request from whoever gets its answer. A nil shield lets everything through.
type shield struct {
	connector *Connector
	call      *hostfn.Call
	finder    *echo.Finder
	sets      bool // whether the mutation has an Accept-Encoding of its own
}

const acceptEncoding = "Accept-Encoding"

func (c *Connector) shield(ctx context.Context, out *outcome) *shield {
	others, _ := ctx.Value(credentialsKey{}).([]string)
	finder := out.finder(others)
	if finder == nil {
		return nil
	}
	sets := slices.ContainsFunc(out.mutation.Headers, func(h abi.Pair) bool { return h.Name == acceptEncoding })
	return &shield{c, out.call, finder, sets}
}

// request changes a request, before it is sent, so that its answers can be looked at.
func (s *shield) request(r *http.Request) *http.Request {
	if s == nil {
		return r
	}
	if !s.sets {
		maps.DeleteFunc(r.Header, func(name string, _ []string) bool { return strings.EqualFold(name, acceptEncoding) })
		r.Header[acceptEncoding] = []string{"identity"}
	}
	trace := httptrace.ContextClientTrace(r.Context())
	if trace == nil || trace.Got1xxResponse == nil {
		return r
	}
	shielded := *trace
	shielded.Got1xxResponse = func(code int, header textproto.MIMEHeader) error {
		return trace.Got1xxResponse(code, textproto.MIMEHeader(s.without(http.Header(header))))
	}
	return r.WithContext(withTrace(r.Context(), &shielded))
}

// withTrace replaces the trace of a context. httptrace can only add another one, and that is called besides.
func withTrace(ctx context.Context, trace *httptrace.ClientTrace) context.Context {
	var key keyOf
	httptrace.ContextClientTrace(&key)
	return context.WithValue(ctx, key.key, trace)
}

// keyOf is a context that learns what it is asked for.
type keyOf struct {
	context.Context
	key any
}

// Value implements context.Context.
func (k *keyOf) Value(key any) any {
	k.key = key
	return nil
}

// response returns the part of an answer that may be passed on.
func (s *shield) response(r *http.Response) (*http.Response, error) {
	if s == nil {
		return r, nil
	}
	if err := s.unseen(r); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, s.connector.fail(StageResponse, err)
	}
	if s.finder.Holds(r.Status) {
		r.Status = fmt.Sprintf("%d %s", r.StatusCode, http.StatusText(r.StatusCode))
	}
	r.Header, r.Trailer = s.without(r.Header), s.without(r.Trailer)
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = s.finder.Body(r.Body, func(err error) error {
			r.Trailer = s.without(r.Trailer) // which have come by now, if this is the end
			switch {
			case err == io.EOF: //nolint:errorlint // that very value is the end
				return err
			case errors.Is(err, echo.ErrFound):
				return s.connector.fail(StageResponse, ErrEchoed)
			case errors.Is(err, echo.ErrEffort):
				return s.connector.fail(StageResponse, errUnsearched)
			}
			return s.error(err, s.call)
		})
	}
	return r, nil
}

var errUnsearched = errors.New("the API's answer cannot be searched for the credential in the time that its length allows: it nearly repeats it over and over")

// unseen says why what an answer holds cannot be looked at, or must not be.
func (s *shield) unseen(r *http.Response) error {
	switch {
	case r.StatusCode == http.StatusSwitchingProtocols:
		return errors.New("the API switches to another protocol, which could not be searched for the credential")
	case r.Request.Method == http.MethodConnect:
		return errors.New("a tunnel could not be searched for the credential")
	}
	for _, location := range r.Header["Location"] {
		if s.finder.Holds(location) {
			return fmt.Errorf("a redirect, in Location: %w", ErrEchoed)
		}
	}
	if r.Body == nil || r.Body == http.NoBody || r.Request.Method == http.MethodHead {
		return nil
	}
	for _, encodings := range r.Header["Content-Encoding"] {
		for encoding := range strings.SplitSeq(encodings, ",") {
			if encoding = strings.TrimSpace(encoding); encoding != "" && !strings.EqualFold(encoding, "identity") {
				return errors.New("the API's answer has a Content-Encoding, though identity was asked for, and cannot be searched for the credential")
			}
		}
	}
	return nil
}

// without returns headers without those that hold the credential.
func (s *shield) without(headers http.Header) http.Header {
	var buffer [2 << 10]byte
	all, named := buffer[:0], false
	for name, values := range headers {
		named = named || s.finder.HoldsFolded(name)
		all = append(append(all, name...), '\n')
		for _, value := range values {
			all = append(append(all, value...), '\n')
		}
	}
	if !named && !s.finder.Found(all) { // and so none of them
		return headers
	}
	kept := http.Header{}
	for name, values := range headers {
		switch {
		case s.finder.Holds(name) || s.finder.HoldsFolded(name):
			name = "with the credential in its name"
		case slices.ContainsFunc(values, s.finder.Holds):
		default:
			kept[name] = values
			continue
		}
		s.connector.warn(context.Background(), fmt.Sprintf("the API's answer holds the credential in the header %q, which is dropped", Printable(name)))
	}
	return kept
}

// error is an error that does not quote the credential.
func (s *shield) error(err error, call *hostfn.Call) error {
	if s != nil && s.finder.Holds(call.Scrub(err.Error())) { // all of it, before it is cut
		return s.connector.fail(StageResponse, ErrEchoed)
	}
	return call.ScrubError(err)
}
