package identities

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/internal/tlsfailure"
	"golang.org/x/net/http/httpguts"
)

// File returns a function that reads a token from a file.
func File(path string) func(context.Context, string) (string, error) {
	return func(context.Context, string) (string, error) {
		text, err := files.ReadRegular(path, MaxToken)
		if err != nil {
			return "", fmt.Errorf("the file of the token cannot be read: %w", err)
		}
		return string(text), nil
	}
}

// Env returns a function that reads a token from an environment variable.
func Env(variable string) func(context.Context, string) (string, error) {
	return func(context.Context, string) (string, error) {
		text, ok := os.LookupEnv(variable)
		if !ok {
			return "", fmt.Errorf("the environment variable %s is not set", variable)
		}
		return text, nil
	}
}

// Request is the GET request by which a token is got.
//
// Its texts have {audience} for the audience, percent-encoded, and {env:NAME} for environment variables.
type Request struct {
	// URL is the URL, with {audience} for the audience and {env:NAME} for an environment variable. One of plain http has an address as its
	// host, such as http://169.254.169.254/.
	URL string
	// Headers are the headers of the request. Their values may have {env:NAME}.
	Headers []Header
	// From is the place of the token in the answer: json:/NAME for a member, or text: for all of it.
	From string `default:"text:"`
}

// With returns r with the members of item that are not empty.
func (r Request) With(item Request) Request {
	if item.Headers != nil {
		r.Headers = item.Headers
	}
	r.URL, r.From = cmp.Or(item.URL, r.URL), cmp.Or(item.From, r.From, answers.WholeAnswer)
	return r
}

// Header is a header of a request.
type Header struct {
	// Name is the name of the header.
	Name string `file:",required"`
	// Value is its value. {env:NAME} stands for an environment variable.
	Value string `file:",required"`
}

var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

// fill returns text with its placeholders replaced. An environment variable is put in as it is: it may be a URL.
func fill(text, audience string) (filled string, err error) {
	filled = placeholder.ReplaceAllStringFunc(text, func(p string) string {
		variable, isVariable := strings.CutPrefix(p[1:len(p)-1], "env:")
		switch value, ok := os.LookupEnv(variable); {
		case p == "{audience}":
			return audience
		case !isVariable:
			err = fmt.Errorf("has %s: there are {audience} and {env:NAME}", host.Printable(p))
		case !ok || value == "":
			err = fmt.Errorf("%w: %s", errNotSet, host.Printable(variable))
		default:
			return value
		}
		return ""
	})
	return filled, err
}

var errNotSet = errors.New("the environment variable is not set")

// Check returns what is wrong with a request, by the member of the file: url, headers or from. It does not need the environment.
func (r *Request) Check() (member string, err error) {
	if _, err := r.target("audience"); err != nil && !errors.Is(err, errNotSet) {
		return "url", err
	}
	for _, h := range r.Headers {
		if err := h.check(); err != nil {
			return "headers", err
		}
	}
	if !answers.IsPlace(r.From) {
		return "from", errors.New("is neither text: nor json:/NAME")
	}
	return "", nil
}

// target returns the URL for an audience. One of plain http has a literal address: a name could lead anywhere.
func (r *Request) target(audience string) (*url.URL, error) {
	text, err := fill(r.URL, url.QueryEscape(audience))
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("is no URL of http or https without user and fragment")
	case u.Scheme == "http":
		if address, err := netip.ParseAddr(u.Hostname()); err != nil || address.Zone() != "" {
			return nil, errors.New("is of plain http, and its host is no address: a name could lead to any server; write the address, or use https")
		}
	}
	return u, nil
}

func (h Header) check() error {
	name := textproto.CanonicalMIMEHeaderKey(h.Name)
	_, err := fill(h.Value, "")
	// By some headers, a service of a platform sees that a proxy has sent a request, and refuses it.
	forwarding := slices.Contains([]string{"Forwarded", "Host", "Via", "Connection"}, name)
	switch {
	case !httpguts.ValidHeaderFieldName(h.Name):
		return fmt.Errorf("%q is no name of a header", host.Printable(h.Name))
	case forwarding || strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "Proxy-"):
		return fmt.Errorf("%s is for proxies, and these have no identity of this process", name)
	case err != nil && !errors.Is(err, errNotSet):
		return fmt.Errorf("%s %w", name, err)
	case strings.Contains(h.Value, "{audience}"):
		return fmt.Errorf("%s has {audience}, which stands in url alone", name)
	}
	return nil
}

// Get returns a function that gets a token by a request. It follows no redirect. A request of plain http reaches the address of its URL
// and no other, also that of a metadata service; one of https reaches what egress allows.
func (r *Request) Get(egress host.Egress) func(context.Context, string) (string, error) {
	return func(ctx context.Context, audience string) (string, error) {
		target, err := r.target(audience)
		if err != nil {
			return "", fmt.Errorf("the URL of the source %w", err)
		}
		body, err := r.ask(ctx, target, egress)
		if err != nil {
			return "", err
		}
		text, _ := answers.TextAt(body, r.From)
		if text == "" {
			return "", fmt.Errorf("the answer of the source has no text at %s", r.From)
		}
		return text, nil
	}
}

func (r *Request) ask(ctx context.Context, target *url.URL, egress host.Egress) ([]byte, error) {
	if target.Scheme == "http" {
		address := netip.MustParseAddr(target.Hostname()).Unmap()
		egress = host.Egress{Allow: []netip.Prefix{netip.PrefixFrom(address, address.BitLen())}}
	}
	transport, err := egress.Transport()
	if err != nil {
		return nil, err
	}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return nil, errors.New("the request of the source is not valid")
	}
	request.Header.Set("User-Agent", "keywright")
	for _, h := range r.Headers {
		value, err := fill(h.Value, "")
		if err != nil {
			return nil, fmt.Errorf("the header %s: %w", h.Name, err)
		}
		request.Header.Set(h.Name, value)
	}
	response, err := answers.Final(transport.RoundTrip(request)) // which follows no redirect
	if err != nil {
		return nil, fmt.Errorf("the source cannot be reached: %w", connectionError(err))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the source answered %d", response.StatusCode)
	}
	return readAnswer(response.Body)
}

// connectionError returns an error of net/http, which keeps its text if it is one of the connection. Others quote what the source has sent.
func connectionError(err error) error {
	certificate, unverified := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case unverified:
		return errors.New(tlsfailure.Unverified(certificate.Err))
	case errors.As(err, new(*net.OpError)), errors.Is(err, host.ErrAddressRefused), errors.Is(err, context.DeadlineExceeded), errors.Is(err, answers.ErrSwitched):
		return err
	}
	return errors.New("it breaks off, or does not speak HTTP as it should")
}

func readAnswer(r io.Reader) ([]byte, error) {
	body, err := files.ReadAll(r, MaxToken)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the answer of the source cannot be read: %w", connectionError(err))
	case len(body) > MaxToken:
		return nil, errors.New("the answer of the source has more than 16 KiB")
	}
	return body, nil
}
