package identities

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

// message returns a message of protocol buffers with these texts as its fields.
func message(fields ...string) (m []byte) {
	for i, text := range fields {
		m = protowire.AppendString(protowire.AppendTag(m, protowire.Number(i+1), protowire.BytesType), text)
	}
	return m
}

// framed returns a message as gRPC sends it.
func framed(m []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m))), m...)
}

// svids returns the answer with these messages of SVIDs.
func svids(all ...[]byte) (m []byte) {
	for _, svid := range all {
		m = append(m, message(string(svid))...)
	}
	return framed(m)
}

// agent is an agent of SPIFFE at a Unix socket, whose answer a test sets.
type agent struct {
	socket  string
	answer  func(http.ResponseWriter)
	header  http.Header
	request []byte
}

func newAgent(t *testing.T) *agent {
	a := &agent{socket: filepath.Join(t.TempDir(), "agent.sock")}
	listener := testworld.Must(net.Listen("unix", a.socket))(t)
	server := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.header = r.Header
		a.request, _ = io.ReadAll(r.Body)
		w.Header().Set("Trailer", "Grpc-Status")
		a.answer(w)
	})}
	server.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return a
}

// answers sets the answer: a body, and a status of gRPC.
func (a *agent) answers(body []byte, status string) {
	a.answer = func(w http.ResponseWriter) {
		_, _ = w.Write(body)
		w.Header().Set("Grpc-Status", status)
	}
}

// threats.md 510: the SVID that the Workload API has for the process is its identity, and no other token is.
func TestWorkloadAPI_threats_510(t *testing.T) {
	const id = "spiffe://prod.test/orders"
	a, now := newAgent(t), time.Unix(1_700_000_000, 0)
	good := newJWT(now, claims{"sub": id, "iss": nil})
	svid := func(id, token, hint string) []byte { return message(id, token, hint) }
	one := svid(id, good, "internal")
	second := svid("spiffe://prod.test/other", newJWT(now, claims{"sub": "spiffe://prod.test/other"}), "external")
	user := newJWT(now, claims{"sub": "248289761001", "nonce": "n", "azp": "app"})
	for name, c := range map[string]struct {
		body    []byte
		status  string
		hint    string
		subject string
		want    string
		final   bool
	}{
		"one":                        {body: svids(one), status: "0"},
		"one, asked for":             {body: svids(one), status: "0", subject: id},
		"a hint":                     {body: svids(second, one), status: "0", hint: "internal"},
		"a member that is not known": {body: svids(append(protowire.AppendTag(nil, 9, protowire.VarintType), append([]byte{1}, one...)...)), status: "0"},
		"two without a hint":         {body: svids(one, second), status: "0", want: "has 2 identities: name one by hint", final: true},
		"no such hint":               {body: svids(one, second), status: "0", hint: "x", want: "no SVID, or none with this hint"},
		"none":                       {body: svids(), status: "0", want: "no SVID"},
		"a user's ID token":          {body: svids(svid("248289761001", user, "")), status: "0", want: "no SPIFFE ID", final: true},
		"an ID token under an ID":    {body: svids(svid(id, user, "")), status: "0", want: "not that of the answer", final: true},
		"another's token":            {body: svids(svid("spiffe://prod.test/other", good, "")), status: "0", want: "not that of the answer", final: true},
		"another trust domain":       {body: svids(svid("spiffe://dev.test/orders", newJWT(now, claims{"sub": "spiffe://dev.test/orders"}), "")), status: "0", subject: id, want: "another subject (sub)", final: true},
		"a type of others":           {body: svids(svid(id, strings.Replace(good, good[:strings.IndexByte(good, '.')], "eyJhbGciOiJSUzI1NiIsInR5cCI6ImF0K2p3dCJ9", 1), "")), status: "0", want: "(typ) is not that of a JWT-SVID", final: true},
		"no JWT":                     {body: svids(svid(id, "opaque", "")), status: "0", want: "no JWT of three parts", final: true},
		"another audience":           {body: svids(svid(id, newJWT(now, claims{"sub": id, "aud": "vault"}), "")), status: "0", want: "another audience (aud)", final: true},
		"one that has ended":         {body: svids(svid(id, newJWT(now, claims{"sub": id, "exp": 1}), "")), status: "0", want: "it has ended", final: true},
		"not allowed":                {status: "7", want: "no such identity for this process"},
		"no header":                  {status: "3", want: "the status 3 of gRPC"},
		"no status":                  {body: svids(one), want: "without a status of gRPC"},
		"a status that is a text":    {status: good, want: "without a status of gRPC"},
		"compressed":                 {body: append([]byte{1}, svids(one)[1:]...), status: "0", want: "no single message"},
		"two messages":               {body: append(svids(one), svids(one)...), status: "0", want: "no single message"},
		"cut":                        {body: svids(one)[:20], status: "0", want: "no single message"},
		"no message":                 {status: "0", want: "no single message"},
		"damaged":                    {body: framed([]byte{0x0a, 0x7f, 1}), status: "0", want: "is damaged"},
		"damaged inside":             {body: svids([]byte{0x0a, 0x7f, 1}), status: "0", want: "is damaged"},
		"too long":                   {body: make([]byte, MaxToken+1), status: "0", want: "more than 16 KiB"},
	} {
		t.Run(name, func(t *testing.T) {
			a.answers(c.body, c.status)
			s := New(func() time.Time { return now }, Identity{
				Name: "pod", For: []Audience{{audience, []string{"sts.test"}}}, Expect: Expectation{Subject: c.subject}, Fetch: Workload{a.socket, c.hint}.Get(c.subject),
			})
			got, err := tokenFor(s, audience, true)
			if c.want == "" {
				if got != good || err != nil {
					t.Errorf("the token is %q, with the error %v", got, err)
				}
			} else {
				testworld.WantError(t, name, err, c.want)
				if errors.Is(err, host.ErrIdentityRefused) != c.final || strings.Contains(err.Error(), good) || strings.Contains(err.Error(), user) {
					t.Errorf("the error is %v", err)
				}
			}
			want := message(audience)
			if c.subject != "" {
				want = message(audience, c.subject)
			}
			if string(a.request) != string(framed(want)) || a.header.Get("workload.spiffe.io") != "true" || a.header.Get("Te") != "trailers" {
				t.Errorf("the request is %q, %v", a.request, a.header)
			}
		})
	}
}

// The socket is that of the file, or of SPIFFE_ENDPOINT_SOCKET.
func TestSocketOfWorkloadAPI(t *testing.T) {
	a := newAgent(t)
	a.answers(nil, "7")
	for variable, want := range map[string]string{
		"unix://" + a.socket: "no such identity", "": "names no Unix socket", "tcp://127.0.0.1:8000": "names no Unix socket", "unix://host/x": "names no Unix socket",
		a.socket: "names no Unix socket", "unix:///not/there.sock": "cannot be reached",
	} {
		t.Setenv("SPIFFE_ENDPOINT_SOCKET", variable)
		_, err := Workload{}.Get("")(t.Context(), audience)
		testworld.WantError(t, variable, err, want)
	}
	_, err := Workload{Socket: a.socket}.Get("")(t.Context(), audience)
	testworld.WantError(t, "a socket of the file", err, "no such identity")
}
