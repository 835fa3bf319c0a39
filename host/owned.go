package host

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/keywright/keywright/host/internal/inputs"
	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/internal/expr"
)

// Owned keeps texts that tenants and users have given: their secrets, or their variables. [State.Secrets] and [State.Variables] return
// one each. Names are tenants/ID/NAME and users/ID/NAME, as in [Secrets]. It is a store of [Secrets], and safe for concurrent use.
type Owned struct {
	node *lease.Node
	what string
}

// Secrets returns the secrets that tenants and users have given.
func (s *State) Secrets() *Owned { return &Owned{s.node, "secret"} }

// Variables returns the variables that tenants and users have given. They are no secrets, and are sealed all the same.
func (s *State) Variables() *Owned { return &Owned{s.node, "variable"} }

// OwnedInfo describes a text that an [Owned] keeps. It has nothing of the text itself.
type OwnedInfo struct {
	// Fingerprint has six hexadecimal digits of a keyed hash, by which two texts of one name can be compared. It is "" if there is no text.
	Fingerprint string
	// Author is who has set or removed it last, and Age is the time since. Both are zero if nobody has.
	Author string
	Age    time.Duration `json:"-"`
}

type ownedText struct {
	Text    string `json:"text"`
	Removed bool   `json:"removed,omitempty"`
	OwnedInfo
}

// ErrOwnedRemoved is the error for a text that was removed. It is no [ErrSecretNotFound]: no other store is asked for it.
var ErrOwnedRemoved error = inputs.ErrOwnedRemoved

// Secret returns a text. The error wraps [ErrSecretNotFound] if nobody has ever set it, and [ErrOwnedRemoved] if it was removed since.
func (o *Owned) Secret(ctx context.Context, name string) (string, error) {
	if !expr.ValidSecret(name) || !strings.Contains(name, "/") {
		return "", fmt.Errorf("%w: the store of state has those of tenants and users alone", ErrSecretNotFound)
	}
	found, err := o.read(ctx, name)
	switch {
	case err != nil:
		return "", err
	case found.Removed:
		return "", ErrOwnedRemoved
	case found.Text == "":
		return "", fmt.Errorf("%w: nobody has given it to the store of state", ErrSecretNotFound)
	}
	return found.Text, nil
}

// Info describes a text.
func (o *Owned) Info(ctx context.Context, name string) (OwnedInfo, error) {
	found, err := o.read(ctx, name)
	return found.OwnedInfo, err
}

// Set keeps a text under a name, in place of the one before. author says who does, for [OwnedInfo].
func (o *Owned) Set(ctx context.Context, name, text, author string) error {
	if strings.TrimSpace(text) == "" {
		return fmt.Errorf("the %s is blank", o.what)
	}
	sum := o.node.Partition("fingerprint", o.what, name, text)
	return o.write(ctx, name, ownedText{Text: text, OwnedInfo: OwnedInfo{Fingerprint: hex.EncodeToString(sum[:3]), Author: author}})
}

// Remove removes a text. A store that is asked after this one does not answer for it from then on.
func (o *Owned) Remove(ctx context.Context, name, author string) error {
	return o.write(ctx, name, ownedText{Removed: true, OwnedInfo: OwnedInfo{Author: author}})
}

func (o *Owned) key(name string) lease.Key {
	return lease.Key{Partition: o.node.Partition("owned", o.what), Name: name}
}

func (o *Owned) read(ctx context.Context, name string) (found ownedText, err error) {
	text, age, err := o.node.Saved(ctx, o.key(name))
	if err != nil || text == nil {
		return found, err
	}
	err = json.Unmarshal(text, &found)
	found.Age = age
	return found, err
}

func (o *Owned) write(ctx context.Context, name string, t ownedText) error {
	if !expr.ValidSecret(name) || !strings.Contains(name, "/") {
		return fmt.Errorf("%q is no name of a %s of a tenant or a user: it is tenants/ID/NAME or users/ID/NAME, and an ID has a to z, 0 to 9, _ and -", Printable(name), o.what)
	}
	if len(t.Text) > maxSecret {
		return fmt.Errorf("the %s has more than %d bytes", o.what, maxSecret)
	}
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return o.node.Save(ctx, o.key(name), text)
}

// Name returns the name of a record that a program keeps beside the rows of a State. All processes with the same store return the same
// name for the same list of parts, and nobody without a state key can find out which list a name is for.
func (s *State) Name(parts ...string) (name [16]byte) {
	partition := s.node.Partition(parts...)
	copy(name[:], partition[:])
	return name
}

// Seal seals the value of a record under the first state key.
func (s *State) Seal(name [16]byte, value []byte) []byte { return s.node.SealRecord(name, value) }

// Open opens what [State.Seal] has sealed for a name, and reports whether it is sealed under the first state key.
func (s *State) Open(name [16]byte, sealed []byte) (value []byte, current bool, err error) {
	return s.node.OpenRecord(name, sealed)
}
