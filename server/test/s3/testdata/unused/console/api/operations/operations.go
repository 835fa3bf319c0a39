// Package operations has no operation.
package operations

import "github.com/go-openapi/loads"

type ConsoleAPI struct{ Logger func(string, ...any) }

func NewConsoleAPI(*loads.Document) *ConsoleAPI { return &ConsoleAPI{} }
