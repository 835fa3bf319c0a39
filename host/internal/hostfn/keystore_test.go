package hostfn

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/host/view"
)

// storeOfHMACs is a store of keys that returns the same HMAC for all data, and counts the signatures.
type storeOfHMACs struct{ signed int }

func (s *storeOfHMACs) Describe(context.Context, view.Key) (view.KeyInfo, error) {
	return view.KeyInfo{}, nil
}

func (s *storeOfHMACs) Sign(context.Context, view.Key, string, []byte) ([]byte, int, error) {
	s.signed++
	return []byte("thirty-two bytes of a signature."), 1, nil
}

func withStore(store Keys, mode Mode) *Call {
	plan := &Plan{Random: rand.Reader, Keys: store, AsksKeys: true, Clock: time.Now, ExchangeTime: time.Minute, Limits: Limits{KeyRequests: 3}}
	return New(context.Background(), plan, &Inputs{}, mode)
}

// The store of keys signs data up to its limit. Longer data is not sent to it, and explain says the same.
func TestLimitOfDataForTheStore(t *testing.T) {
	for n, fits := range map[int]bool{maxStoreData - 1: true, maxStoreData: true, maxStoreData + 1: false} {
		for _, mode := range []Mode{Detached, Explaining} {
			store := &storeOfHMACs{}
			c := withStore(store, mode)
			err := c.try(func() { c.storeSigns("key", view.Key{Name: "k"}, "HS256", make([]byte, n)) })
			if fits != (err == nil) || err != nil && !errors.Is(err, errTooMuch) || (store.signed > 0) != (fits && mode == Detached) {
				t.Errorf("%d bytes in mode %d: %v after %d signatures", n, mode, err, store.signed)
			}
		}
	}
}

// The store of keys makes HMACs for mac and nothing else: an algorithm that signs, or that is not known, does not get to it
// (threats.md 105).
func TestStoreMAC_threats_105(t *testing.T) {
	for algorithm, fits := range map[string]bool{"HS256": true, "HS999": false, "EdDSA": false, "ES256": false, "RS256": false, "none": false, "": false} {
		store := &storeOfHMACs{}
		c := withStore(store, Detached)
		err := c.try(func() { c.storeMAC(algorithm, view.Key{Name: "k"}, "data") })
		if fits != (err == nil) || err != nil && !errors.Is(err, signing.ErrMACAlgorithm) || (store.signed > 0) != fits {
			t.Errorf("%q: %v after %d signatures", algorithm, err, store.signed)
		}
	}
}

// A call waits for the store of keys only where it may wait, and only if a template asks for a key.
func TestStoreWait(t *testing.T) {
	for _, mode := range []Mode{Describing, Validating, Inline, Detached, Explaining} {
		for _, asks := range []bool{false, true} {
			c := New(context.Background(), &Plan{AsksKeys: asks, Random: strings.NewReader("")}, &Inputs{}, mode)
			if got, want := c.Waits(), asks && mode == Detached; got != want {
				t.Errorf("mode %d, asks keys %t: waits %t", mode, asks, got)
			}
		}
	}
}
