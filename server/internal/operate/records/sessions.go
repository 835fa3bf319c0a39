package records

import (
	"context"
	"time"

	"github.com/keywright/keywright/server/statedb"
)

// Sessions keeps the sessions of operators' browsers in a store.
type Sessions struct {
	Store    *Store
	Lifetime time.Duration
	Clock    func() time.Time
}

// An operatorSession has its end under the seal, too: who can write to the store makes none longer.
type operatorSession struct {
	ID, Token string
	End       time.Time
}

func (s *Sessions) table() *Table[operatorSession] {
	return &Table[operatorSession]{Kind: statedb.KindSession, Lifetime: s.Lifetime, Key: func(v operatorSession) []string { return []string{v.ID} }}
}

// Session returns the token with which a session began. ok reports whether there is one.
func (s *Sessions) Session(ctx context.Context, id string) (token string, ok bool, err error) {
	found, ok, err := s.table().Get(ctx, s.Store, id)
	return found.Value.Token, ok && s.Clock().Before(found.Value.End), err
}

// PutSession keeps a session.
func (s *Sessions) PutSession(ctx context.Context, id, token string) error {
	return s.table().Put(ctx, s.Store, operatorSession{id, token, s.Clock().Add(s.Lifetime)})
}

// DeleteSession ends a session.
func (s *Sessions) DeleteSession(ctx context.Context, id string) error {
	return s.table().Delete(ctx, s.Store, id)
}
