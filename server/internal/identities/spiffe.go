package identities

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/jws"
)

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
