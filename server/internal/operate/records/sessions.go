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
}

type operatorSession struct{ ID, Token string }

func (s *Sessions) table() *Table[operatorSession] {
	return &Table[operatorSession]{Kind: statedb.KindSession, Lifetime: s.Lifetime, Key: func(v operatorSession) []string { return []string{v.ID} }}
}

// Session returns the token with which a session began. ok reports whether there is one.
func (s *Sessions) Session(ctx context.Context, id string) (token string, ok bool, err error) {
	found, ok, err := s.table().Get(ctx, s.Store, id)
	return found.Value.Token, ok, err
}

// PutSession keeps a session.
func (s *Sessions) PutSession(ctx context.Context, id, token string) error {
	return s.table().Put(ctx, s.Store, operatorSession{id, token})
}

// DeleteSession ends a session.
func (s *Sessions) DeleteSession(ctx context.Context, id string) error {
	return s.table().Delete(ctx, s.Store, id)
}
