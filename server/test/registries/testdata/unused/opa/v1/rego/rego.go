// Package rego allows nothing.
package rego

import (
	"context"
	"errors"
)

var errUnused = errors.New("the Open Policy Agent is not linked into this cosign")

type (
	Rego      struct{}
	Prepared  struct{}
	ResultSet []struct{ Expressions []any }
	Option    struct{}
)

func New(...Option) Rego        { return Rego{} }
func Query(string) Option       { return Option{} }
func Load([]string, any) Option { return Option{} }
func SetRegoVersion(int) Option { return Option{} }
func EvalInput(any) Option      { return Option{} }
func (ResultSet) Allowed() bool { return false }

func (Rego) PrepareForEval(context.Context) (Prepared, error) { return Prepared{}, errUnused }

func (Prepared) Eval(context.Context, ...Option) (ResultSet, error) { return nil, errUnused }
