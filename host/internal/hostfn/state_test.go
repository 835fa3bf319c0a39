package hostfn

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/internal/testworld"
)

// A grant begins with the states whose fields are configured or have a default. A field without a value is no state.
func TestSeedOfAGrant(t *testing.T) {
	field := func(name, text string) *Field { return fieldOfKind(t, name, abi.KindString, text) }
	byDefault := &Field{Field: abi.Field{Name: "b", Default: "2"}}
	absent := &Field{Field: abi.Field{Name: "c"}}
	for want, states := range map[string][]State{
		`{"states":{"a":"1"}}`:         {{Name: "a", Seed: field("a", "1")}, {Name: "c", Seed: absent}, {Name: "d"}},
		`{"states":{"b":"2"}}`:         {{Name: "b", Seed: byDefault}, {Name: "c", Seed: absent}},
		`{"states":{"a":"1","b":"2"}}`: {{Name: "a", Seed: field("a", "1")}, {Name: "b", Seed: byDefault}},
		``:                             {{Name: "c", Seed: absent}, {Name: "d"}},
	} {
		var got []byte
		begin := func(_ context.Context, seed []byte, _ bool) (*lease.Turn, error) {
			got = seed
			return lease.NewTurn([]byte(`{"states":{}}`)), nil
		}
		c := New(context.Background(), &Plan{Random: rand.Reader, States: states, Turns: Turns{Begin: begin}}, &Inputs{}, Detached)
		if err := c.try(c.takeTurn); err != nil || string(got) != want {
			t.Errorf("%s, want %s: %v", got, want, err)
		}
	}
}

// A request with a state has a body that net/http cannot send again. It gets an empty one if it has no body: net/http repeats a
// request without a body after a broken connection.
func TestStateRequestSentOnce(t *testing.T) {
	for name, body := range map[string]io.ReadCloser{"nil": nil, "NoBody": http.NoBody} {
		c := New(context.Background(), &Plan{Random: rand.Reader}, &Inputs{}, Detached)
		c.turn = lease.NewTurn(nil)
		r := posted(t, "https://login.test/token")
		r.Body = body
		_, sent, end := c.intend(context.Background(), &http.Client{}, r)
		end()
		if sent.Body == nil || sent.Body == http.NoBody || sent.GetBody != nil {
			t.Errorf("%s: the body is %v", name, sent.Body)
		}
	}
}

// A process that was stopped after it wrote its intent sends nothing after the deadline, although the connection is there: another node
// may have the turn. threats.md 300
func TestNoSendAfterDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		c := New(context.Background(), &Plan{Random: rand.Reader}, &Inputs{}, Detached)
		c.turn = lease.NewTurn(nil)
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		client, sent, end := c.intend(ctx, &http.Client{Transport: &http.Transport{
			DialContext: func(context.Context, string, string) (net.Conn, error) { return ours, nil },
		}}, posted(t, "https://login.test/token"))
		defer end()
		conn := testworld.Must(client.Transport.(*http.Transport).DialContext(sent.Context(), "tcp", "login.test:443"))(t)
		defer conn.Close()
		got := make(chan string, 2)
		go func() {
			for b := make([]byte, 16); ; {
				n, err := theirs.Read(b)
				if err != nil {
					return
				}
				got <- string(b[:n])
			}
		}()
		time.Sleep(20*time.Second - 1)
		if _, err := conn.Write([]byte("in time")); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Nanosecond)
		if _, err := conn.Write([]byte("too late")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after the deadline the error is %v", err)
		}
		synctest.Wait()
		if text := <-got; text != "in time" || len(got) != 0 {
			t.Errorf("the server got %q and %d texts more", text, len(got))
		}
	})
}
