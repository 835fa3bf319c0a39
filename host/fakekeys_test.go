package host_test

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"sync"

	"github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

// fakeKeys is a store of keys in memory. The zero value is an empty store.
type fakeKeys struct {
	mu sync.Mutex
	// versions holds the versions of each key, from 1: crypto.Signer, or []byte for HMACs only.
	versions map[string][]any
	// signed counts the calls of Sign, and described those of Describe.
	signed, described int
	// fails, if not nil, is the error of all calls. wait, if not nil, is called first.
	fails error
	wait  func(context.Context) error
	// change, if not nil, changes each signature.
	change func(signature []byte, version int) ([]byte, int)
}

var _ host.Keys = (*fakeKeys)(nil)

// keysWith returns a store with a key api for an algorithm.
func keysWith(algorithm string) *fakeKeys {
	keys := &fakeKeys{}
	keys.add("api", algorithm)
	return keys
}

// add adds a version of a key for an algorithm, and returns the key that verifies.
func (f *fakeKeys) add(name, algorithm string) any {
	text, public, err := testworld.NewKey(algorithm)
	private := public // the bytes of a shared secret
	if block, _ := pem.Decode([]byte(text)); block != nil {
		private, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		panic(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.versions == nil {
		f.versions = map[string][]any{}
	}
	f.versions[name] = append(f.versions[name], private)
	return public
}

// key returns a version of a key, and its number.
func (f *fakeKeys) key(ctx context.Context, key host.Key) (any, int, error) {
	if f.wait != nil {
		if err := f.wait(ctx); err != nil {
			return nil, 0, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	versions := f.versions[key.Name]
	switch {
	case f.fails != nil:
		return nil, 0, f.fails
	case len(versions) == 0:
		return nil, 0, fmt.Errorf("%w: there is none", host.ErrKeyNotFound)
	case key.Version == 0:
		key.Version = len(versions)
	}
	return versions[key.Version-1], key.Version, nil
}

// Describe implements host.Keys.
func (f *fakeKeys) Describe(ctx context.Context, key host.Key) (host.KeyInfo, error) {
	f.mu.Lock()
	f.described++
	f.mu.Unlock()
	private, version, err := f.key(ctx, key)
	if err != nil {
		return host.KeyInfo{}, err
	}
	info := host.KeyInfo{Type: fmt.Sprintf("%T", private), Version: version}
	if signer, ok := private.(crypto.Signer); ok {
		info.Public = signer.Public()
	}
	return info, nil
}

// Sign implements host.Keys.
func (f *fakeKeys) Sign(ctx context.Context, key host.Key, algorithm string, data []byte) ([]byte, int, error) {
	f.mu.Lock()
	f.signed++
	f.mu.Unlock()
	private, version, err := f.key(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	signature, err := jwt.GetSigningMethod(algorithm).Sign(string(data), private)
	if f.change != nil {
		signature, version = f.change(signature, version)
	}
	return signature, version, err
}

// counts returns the numbers of calls so far.
func (f *fakeKeys) counts() (signed, described int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.signed, f.described
}
