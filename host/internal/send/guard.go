package send

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
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/leakscan"
	"github.com/keywright/keywright/host/internal/run"
	"github.com/keywright/keywright/internal/printable"
)

// dropCredential removes the appended query and form from the Location of a redirect. Servers that redirect to another path
// or port often keep the query. A client would then have the credential in the URL of its next request, and so in Referer
// and in errors. dropCredential returns an error if Location still contains the credential.
func dropCredential(response *http.Response, m *hostfn.Mutation) error {
	if m.Query == "" && len(m.Path) == 0 && m.Form == "" {
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
		return fmt.Errorf("a redirect, which is not followed: %w", echoed(response.StatusCode))
	}
	return nil
}

// echoed returns the error for an answer with this status that contains the credential. The status shows whether the API
// refused the request: many APIs quote a wrong signature in the refusal.
func echoed(status int) error {
	return fmt.Errorf("the API answered %d, and %w", status, ErrCredential)
}

type credentialsKey struct{}

// WithCredentials returns a context whose requests carry further credentials.
func WithCredentials(ctx context.Context, texts []string) context.Context {
	all, _ := ctx.Value(credentialsKey{}).([]string)
	all = leakscan.Decoded(append(slices.Clone(all), texts...))
	for i, text := range all {
		all[i] = strings.TrimSpace(text) // headers are sent without surrounding space
	}
	return context.WithValue(ctx, credentialsKey{}, all)
}

// A guard keeps the credential of a request out of what its caller receives. A nil guard passes everything.
type guard struct {
	*Transport
	out     *run.Outcome
	scanner *leakscan.Scanner
	// setsEncoding reports whether the mutation sets Accept-Encoding.
	setsEncoding bool
}

const acceptEncoding = "Accept-Encoding"

// guard returns a guard for the credentials of an outcome, of an earlier attempt, and of the context, or nil without any.
func (t *Transport) guard(ctx context.Context, out *run.Outcome, earlier []string) *guard {
	credentials, _ := ctx.Value(credentialsKey{}).([]string)
	scanner := out.Scanner(append(slices.Clip(credentials), earlier...))
	if scanner == nil {
		return nil
	}
	sets := slices.ContainsFunc(out.Mutation.Headers, func(h abi.Pair) bool { return h.Name == acceptEncoding })
	return &guard{t, out, scanner, sets}
}

// request makes a request whose answers can be searched: without content encoding, and with filtered informational answers.
func (g *guard) request(r *http.Request) *http.Request {
	if g == nil {
		return r
	}
	if !g.setsEncoding {
		maps.DeleteFunc(r.Header, func(name string, _ []string) bool { return strings.EqualFold(name, acceptEncoding) })
		r.Header[acceptEncoding] = []string{"identity"}
	}
	trace := httptrace.ContextClientTrace(r.Context())
	if trace == nil || trace.Got1xxResponse == nil {
		return r
	}
	guarded := *trace
	guarded.Got1xxResponse = func(code int, header textproto.MIMEHeader) error {
		return trace.Got1xxResponse(code, textproto.MIMEHeader(g.strip(http.Header(header))))
	}
	var own keyOf // httptrace.WithClientTrace would call both traces
	httptrace.ContextClientTrace(&own)
	return r.WithContext(context.WithValue(r.Context(), own.key, &guarded))
}

// keyOf is a context that records the key of a Value call, because httptrace does not export its own.
type keyOf struct {
	context.Context
	key any
}

func (k *keyOf) Value(key any) any {
	k.key = key
	return nil
}

// response returns an answer without the headers and trailers that contain the credential. Its body, which must be there, ends with
// an error where the credential begins. It returns an error if the answer cannot be searched or must not be passed on at all.
func (g *guard) response(r *http.Response) (*http.Response, error) {
	if g == nil {
		return r, nil
	}
	if err := g.checkAnswer(r); err != nil {
		_ = r.Body.Close()
		return nil, g.Fail(stageResponse, err)
	}
	if g.scanner.Holds(r.Status) {
		r.Status = fmt.Sprintf("%d %s", r.StatusCode, http.StatusText(r.StatusCode))
	}
	r.Header, r.Trailer = g.strip(r.Header), g.strip(r.Trailer)
	if r.Body != http.NoBody {
		r.Body = g.scanner.Body(r.Body, func(err error) error {
			r.Trailer = g.strip(r.Trailer) // at the end of the body, net/http has set its values
			switch {
			case err == io.EOF: //nolint:errorlint // that very value is the end
				return err
			case errors.Is(err, leakscan.ErrFound):
				return g.Fail(stageResponse, echoed(r.StatusCode))
			case errors.Is(err, leakscan.ErrEffort):
				return g.Fail(stageResponse, errUnsearched)
			}
			return g.error(err, g.out)
		})
	}
	return r, nil
}

// ErrCredential is host.ErrCredentialInResponse.
var ErrCredential = errors.New("the API's answer holds the credential that it was sent")

var errUnsearched = errors.New("the API's answer cannot be searched for the credential in the time that its length allows: it nearly repeats it over and over")

// checkAnswer returns an error if an answer cannot be searched or is a redirect to a URL with the credential.
func (g *guard) checkAnswer(r *http.Response) error {
	switch {
	case r.StatusCode == http.StatusSwitchingProtocols:
		return errors.New("the API switches to another protocol, which could not be searched for the credential")
	case r.Request.Method == http.MethodConnect:
		return errors.New("a tunnel could not be searched for the credential")
	}
	if slices.ContainsFunc(r.Header["Location"], g.scanner.Holds) {
		return fmt.Errorf("a redirect, in Location: %w", echoed(r.StatusCode))
	}
	return nil
}

// strip returns headers without those that contain the credential. It logs a warning for each one that it drops.
func (g *guard) strip(headers http.Header) http.Header {
	if len(headers) == 0 { // as most trailers
		return headers
	}
	var buffer [2 << 10]byte
	all, inName := buffer[:0], false
	for name, values := range headers {
		inName = inName || g.scanner.HoldsFolded(name)
		all = append(append(all, name...), '\n')
		for _, value := range values {
			all = append(append(all, value...), '\n')
		}
	}
	if !inName && !g.scanner.Found(all) {
		return headers
	}
	result := http.Header{}
	for name, values := range headers {
		switch {
		case g.scanner.Holds(name) || g.scanner.HoldsFolded(name):
			name = "with the credential in its name"
		case slices.ContainsFunc(values, g.scanner.Holds):
		default:
			result[name] = values
			continue
		}
		g.Warn(context.Background(), "", fmt.Sprintf("the API's answer holds the credential in the header %q, which is dropped", printable.Text(name, 1024)))
	}
	return result
}

// error returns err without the credential.
func (g *guard) error(err error, out *run.Outcome) error {
	if g != nil && g.scanner.Holds(out.Scrub(err.Error())) { // the whole text, before ScrubError cuts it
		return g.Fail(stageResponse, ErrCredential)
	}
	return out.ScrubError(err)
}
