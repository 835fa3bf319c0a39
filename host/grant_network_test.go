package host_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// overTCP returns a cluster's node with the transport of the host, and a connector whose token endpoint is at a URL.
func overTCP(t *testing.T, c *cluster, url string) (*world, *host.Connector) {
	t.Helper()
	w := c.world(withoutBuiltIns, withGuest(refresher(nil)), func(h *host.Config) {
		h.Base, h.Egress = nil, host.Egress{AllowHTTP: true, AllowPrivate: true}
	})
	w.setSecret("seed", firstSeed)
	return w, w.connectAs("crm", "refresher", seeded("token_url", url))
}

// reach sends a request to an API that is always there.
func reach(t *testing.T, w *world, c *host.Connector) error {
	t.Helper()
	return roundTripError(c.Transport(w.api).RoundTrip(get(t.Context())))
}

// If no connection is had, nothing was sent, so that the grant stays. threats.md 125
func TestDownServerKeepsGrant(t *testing.T) {
	c, server := grants(t)
	address, listen := reserved(t)
	w, connector := overTCP(t, c, "http://"+address+"/token")
	var lost *host.GrantError
	if err := reach(t, w, connector); err == nil || errors.As(err, &lost) {
		t.Fatalf("the error is %v", err)
	}
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serveAnswer(w, r, server.answer) }))
	_ = up.Listener.Close()
	up.Listener = listen()
	up.Start()
	defer up.Close()
	c.clock.Advance(time.Hour)
	if err := reach(t, w, connector); err != nil || bearerOf(w) != "Bearer access-token-1" {
		t.Errorf("after the server is back: %v, %q", err, bearerOf(w))
	}
}

// reserved returns an address at which connections are refused until listen is called. No other program can have its port.
func reserved(t *testing.T) (address string, listen func() net.Listener) {
	t.Helper()
	fd := must(syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0))(t)
	socket := os.NewFile(uintptr(fd), "a socket that does not listen")
	t.Cleanup(func() { _ = socket.Close() })
	check(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	bound := must(syscall.Getsockname(fd))(t)
	address = fmt.Sprintf("127.0.0.1:%d", bound.(*syscall.SockaddrInet4).Port)
	return address, func() net.Listener {
		t.Helper()
		check(t, syscall.Listen(fd, 16))
		return must(net.FileListener(socket))(t)
	}
}

// serveAnswer writes what an answer answers.
func serveAnswer(w http.ResponseWriter, r *http.Request, a answer) {
	response, err := a(r)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer response.Body.Close()
	w.WriteHeader(response.StatusCode)
	_, _ = io.Copy(w, response.Body)
}

// A request that was sent is not sent again by net/http, and each has a connection of its own: one that was idle may be
// closed while the request is on its way. threats.md 125
func TestStateSentOnceOverTCP(t *testing.T) {
	c, server := grants(t)
	var connections, cut atomic.Int64
	login := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		if !r.Close {
			t.Error("the connection is kept for another request")
		}
		if connections.Load() == 4 {
			cut.Add(1)
			connection, _, _ := w.(http.Hijacker).Hijack()
			_ = connection.Close()
			return
		}
		serveAnswer(w, r, server.answer)
	}))
	login.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	login.Start()
	defer login.Close()
	w, connector := overTCP(t, c, login.URL)
	for i := range 3 {
		if err := reach(t, w, connector); err != nil || connections.Load() != int64(i+1) {
			t.Fatalf("request %d: %v, %d connections", i, err, connections.Load())
		}
		c.clock.Advance(time.Hour)
	}
	var lost *host.GrantError
	if err := reach(t, w, connector); !errors.As(err, &lost) || lost.Condition != host.ConditionUncertain || cut.Load() != 1 {
		t.Errorf("a request that was cut is sent %d times: %v", cut.Load(), err)
	}
	if err := reach(t, w, connector); !errors.As(err, &lost) || cut.Load() != 1 || server.twice() != nil {
		t.Errorf("%d requests were cut: %v", cut.Load(), err)
	}
}

// refuseStreams speaks HTTP/2 with a client, and refuses each stream once its request has come whole. It returns when the client closes
// the connection. Frames are those of RFC 9113 sections 4.1, 6.4 and 6.5.
func refuseStreams(connection net.Conn, streams *atomic.Int64) {
	const (
		data, headers, reset, settings = 0, 1, 3, 4
		endStream, ack                 = 1, 1
		preface                        = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
		refused                        = 7 // REFUSED_STREAM, section 7
	)
	_, _ = connection.Write([]byte{0, 0, 0, settings, 0, 0, 0, 0, 0})
	_, _ = io.CopyN(io.Discard, connection, int64(len(preface)))
	for {
		var frame [9]byte
		if _, err := io.ReadFull(connection, frame[:]); err != nil {
			return
		}
		length := int64(frame[0])<<16 | int64(frame[1])<<8 | int64(frame[2])
		if _, err := io.CopyN(io.Discard, connection, length); err != nil {
			return
		}
		kind, flags, stream := frame[3], frame[4], frame[5:]
		if kind == settings && flags&ack == 0 {
			_, _ = connection.Write([]byte{0, 0, 0, settings, ack, 0, 0, 0, 0})
		}
		if kind != data && kind != headers || flags&endStream == 0 {
			continue
		}
		if streams.Add(1) > 1 {
			return // the test has failed, and need not wait for more
		}
		_, _ = connection.Write(append(append([]byte{0, 0, 4, reset, 0}, stream...), 0, 0, 0, refused))
	}
}

// A server of HTTP/2 may refuse a stream whose request it has read, which has net/http send a request again whose body it can make anew.
// A state is sent once all the same. threats.md 125
func TestStateSentOnceOverHTTP2(t *testing.T) {
	c, _ := grants(t)
	var streams atomic.Int64
	login := httptest.NewUnstartedServer(nil)
	login.EnableHTTP2 = true
	login.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
		"h2": func(_ *http.Server, connection *tls.Conn, _ http.Handler) { refuseStreams(connection, &streams) },
	}
	login.StartTLS()
	defer login.Close()
	roots := x509.NewCertPool()
	roots.AddCert(login.Certificate())
	w := c.world(withoutBuiltIns, withGuest(refresher(nil)), func(h *host.Config) {
		h.Base, h.Egress = nil, host.Egress{AllowPrivate: true, TLS: &tls.Config{RootCAs: roots}}
	})
	w.setSecret("seed", firstSeed)
	connector := w.connectAs("crm", "refresher", seeded("token_url", login.URL))
	var lost *host.GrantError
	if err := reach(t, w, connector); !errors.As(err, &lost) || lost.Condition != host.ConditionUncertain || streams.Load() != 1 {
		t.Errorf("a request whose stream is refused is sent %d times: %v", streams.Load(), err)
	}
}

// A description whose states could not be kept is refused, and the error says why.
func TestUnkeepableStates(t *testing.T) {
	for want, change := range map[string]func(d *abi.Description){
		"there are 5, and 4 are allowed": func(d *abi.Description) { d.State = make([]abi.State, 5) },
		// Four are not too many, and what is wrong with them is said.
		"state: s1: it has neither a seed nor an answer": func(d *abi.Description) {
			d.State = append(d.State, abi.State{Name: "s1"}, abi.State{Name: "s2"}, abi.State{Name: "s3"})
		},
		`"refresh_token" is there twice`:                           func(d *abi.Description) { d.State = append(d.State, d.State[0]) },
		"it has neither a seed nor an answer":                      func(d *abi.Description) { d.State = append(d.State, abi.State{Name: "other"}) },
		"seed names no field of kind string that is sealed":        func(d *abi.Description) { d.State[0].Seed = "token_url" },
		"its seed and its answer have not the same sinks":          func(d *abi.Description) { d.Answers[1].Sinks = []string{contract.SinkHeader} },
		"the answer refresh_token is a state that the description": func(d *abi.Description) { d.State[0].Name = "other" },
		"two answers are the state":                                func(d *abi.Description) { d.Answers[0].State = "refresh_token" },
		"the answer access_token is a state, and is not sealed": func(d *abi.Description) {
			d.Answers[0] = abi.Answer{Name: "access_token", From: "json:/a", Kind: contract.AnswerInteger, State: "refresh_token"}
		},
		"only an answer of an exchange is required, has a from_field or an alternative, or is a": func(d *abi.Description) { d.Challenge = &abi.Challenge{Answers: d.Answers[1:]} },
	} {
		g := refresher(nil)
		change(&g.about)
		testworld.WantError(t, "", loadError(t, g), want)
	}
}
