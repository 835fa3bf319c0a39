package hosttest

import (
	"testing"
	"time"

	"github.com/keywright/keywright/sdk"
)

// A test can send the request of a specification's example: with its scheme, its time and its random text.
func TestExamplesOfSpecifications(t *testing.T) {
	h := nativeHarness(t, scripted(func(c *sdk.Call) (sdk.Mutation, error) {
		return sdk.Mutation{Headers: []sdk.Pair{{Name: "X-Nonce", Value: c.Random(4)}, {Name: "X-Key", Value: c.Config("value")}}}, nil
	}))
	h.AllowHTTP()
	h.Canary("crm")
	h.Random("chapoH")
	h.Advance(time.Unix(137131202, 0).Sub(h.Now()))
	got := h.Authenticate(config, GET("http://photos.example.net/photos"))
	if nonce := got.Header("X-Nonce"); nonce != "chapoH" || h.Now().Unix() != 137131202 {
		t.Errorf("%s at %s", nonce, h.Now())
	}
	h.Random("")
	if nonce := h.Authenticate(config, GET("http://photos.example.net/photos")).Header("X-Nonce"); len(nonce) != 8 {
		t.Errorf("%q is no random text", nonce)
	}
}
