package hostfn

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"testing"

	"github.com/keywright/keywright/abi"
)

// turnOf is the turn of a grant that keeps these states.
type turnOf struct {
	Turn
	token []byte
}

func (t turnOf) Token() []byte { return t.token }

func (t turnOf) Intent(ctx context.Context) (context.Context, context.CancelFunc, error) {
	return ctx, func() {}, nil
}

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
		begin := func(_ context.Context, seed []byte) (Turn, error) {
			got = seed
			return turnOf{token: []byte(`{"states":{}}`)}, nil
		}
		c := New(context.Background(), &Plan{Random: rand.Reader, States: states, Begin: begin}, &Inputs{}, Detached)
		if err := c.try(c.takeTurn); err != nil || string(got) != want {
			t.Errorf("%s, want %s: %v", got, want, err)
		}
	}
}

// A request with a state has a body that net/http cannot send again. It gets an empty one if it has no body: net/http repeats a
// request without a body after a broken connection.
func TestARequestWithAStateIsSentOnce(t *testing.T) {
	for name, body := range map[string]io.ReadCloser{"nil": nil, "NoBody": http.NoBody} {
		c := New(context.Background(), &Plan{Random: rand.Reader}, &Inputs{}, Detached)
		c.held.turn = turnOf{}
		r := posted(t, "https://login.test/token")
		r.Body = body
		_, sent, end := c.intend(context.Background(), &http.Client{}, r)
		end()
		if sent.Body == nil || sent.Body == http.NoBody || sent.GetBody != nil {
			t.Errorf("%s: the body is %v", name, sent.Body)
		}
	}
}
