package identities

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
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
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/internal/jws"
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
	request := (&http.Request{Method: http.MethodGet, URL: target, Header: http.Header{"User-Agent": {"keywright"}}}).WithContext(ctx)
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

// connectionError is [answers.Failure]. A refused address keeps its text, too.
func connectionError(err error) error {
	if errors.Is(err, host.ErrAddressRefused) {
		return err
	}
	return answers.Failure(err)
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

// Workload is the Workload API of SPIFFE at a Unix socket (github.com/spiffe/spiffe, standards: Workload API section 6 and
// Workload Endpoint), which has JWT-SVIDs for the process.
type Workload struct {
	// Socket is the path of the socket. Without it, that of the environment variable SPIFFE_ENDPOINT_SOCKET.
	Socket string `file:",path"`
	// Hint is that of the SVID that counts, if the process has several. If expect has sub, that one is asked for alone.
	Hint string
}

// Get returns a function that gets a JWT-SVID: of the subject, if that is not empty.
func (w Workload) Get(subject string) func(context.Context, string) (string, error) {
	return func(ctx context.Context, audience string) (string, error) {
		socket, err := w.socket()
		if err != nil {
			return "", err
		}
		request := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), audience)
		if subject != "" {
			request = protowire.AppendString(protowire.AppendTag(request, 2, protowire.BytesType), subject)
		}
		answer, err := call(ctx, socket, "/SpiffeWorkloadAPI/FetchJWTSVID", request)
		if err != nil {
			return "", err
		}
		return w.token(answer)
	}
}

func (w Workload) socket() (string, error) {
	if w.Socket != "" {
		return w.Socket, nil
	}
	u, err := url.Parse(os.Getenv("SPIFFE_ENDPOINT_SOCKET"))
	if err != nil || u.Scheme != "unix" || u.Host != "" || u.Path == "" {
		return "", errors.New("SPIFFE_ENDPOINT_SOCKET names no Unix socket, such as unix:///run/spire/agent.sock, and neither does socket")
	}
	return u.Path, nil
}

// call sends a message to a method of gRPC and returns the one that is the answer. The library's HTTP/2 without TLS is enough for that.
func call(ctx context.Context, socket, method string, message []byte) ([]byte, error) {
	transport := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	framed := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))) // 0: it is not compressed
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+method, bytes.NewReader(append(framed, message...)))
	if err != nil {
		return nil, err
	}
	request.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "Workload.spiffe.io": {"true"}}
	response, err := answers.Final(transport.RoundTrip(request))
	if err != nil {
		return nil, fmt.Errorf("the Workload API cannot be reached: %w", connectionError(err))
	}
	defer response.Body.Close()
	body, err := readAnswer(response.Body)
	if err != nil {
		return nil, err
	}
	status, err := strconv.Atoi(cmp.Or(response.Trailer.Get("Grpc-Status"), response.Header.Get("Grpc-Status")))
	switch {
	case response.StatusCode != http.StatusOK || err != nil:
		return nil, fmt.Errorf("what is at the socket answered %d, without a status of gRPC", response.StatusCode)
	case status == 7: // PermissionDenied
		return nil, errors.New("the Workload API has no such identity for this process")
	case status != 0:
		return nil, fmt.Errorf("the Workload API answered with the status %d of gRPC", status)
	case len(body) < len(framed) || body[0] != 0 || uint64(binary.BigEndian.Uint32(body[1:])) != uint64(len(body)-len(framed)):
		return nil, errors.New("the answer of the Workload API is no single message")
	}
	return body[len(framed):], nil
}

// token returns the SVID of a JWTSVIDResponse that counts. Its subject is that of the message, so it is no token of another kind.
func (w Workload) token(answer []byte) (string, error) {
	var all []map[protowire.Number]string // 1 is spiffe_id, 2 is svid, 3 is hint
	err := eachField(answer, func(n protowire.Number, value []byte) error {
		if n != 1 {
			return nil
		}
		one := map[protowire.Number]string{}
		all = append(all, one)
		return eachField(value, func(n protowire.Number, value []byte) error {
			one[n] = string(value)
			return nil
		})
	})
	if err != nil {
		return "", errors.New("the answer of the Workload API is damaged")
	}
	if w.Hint != "" {
		all = slices.DeleteFunc(all, func(svid map[protowire.Number]string) bool { return svid[3] != w.Hint })
	}
	switch {
	case len(all) == 0:
		return "", errors.New("the Workload API has no SVID, or none with this hint")
	case len(all) > 1 && w.Hint == "":
		return "", fmt.Errorf("%w: the process has %d identities: name one by hint, or by sub of expect", host.ErrIdentityRefused, len(all))
	}
	header, claims, err := jws.Decode(all[0][2])
	kind, ok := header["typ"].(string)
	switch id := all[0][1]; {
	case err != nil:
		return "", fmt.Errorf("%w: it is no JWT of three parts", host.ErrIdentityRefused)
	case !strings.HasPrefix(id, "spiffe://") || claims["sub"] != id:
		return "", fmt.Errorf("%w: its subject (sub) is no SPIFFE ID, or not that of the answer", host.ErrIdentityRefused)
	case header["typ"] != nil && (!ok || kind != "JWT" && kind != "JOSE"): // section 2.3 of the standard JWT-SVID
		return "", fmt.Errorf("%w: its type (typ) is not that of a JWT-SVID", host.ErrIdentityRefused)
	}
	return all[0][2], nil
}

// eachField calls a function with each text of a message, and the number of its field.
func eachField(message []byte, do func(protowire.Number, []byte) error) error {
	for len(message) > 0 {
		number, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return protowire.ParseError(size)
		}
		message = message[size:]
		if size = protowire.ConsumeFieldValue(number, kind, message); size < 0 {
			return protowire.ParseError(size)
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message)
			if err := do(number, value); err != nil {
				return err
			}
		}
		message = message[size:]
	}
	return nil
}
