// Package discover knows no cloud.
package discover

import (
	"errors"
	"log"
)

// ErrUnused is the error of all functions.
var ErrUnused = errors.New("go-discover is not linked into this Vault")

type (
	Config   map[string]string
	Provider any
	Discover struct{}
	Option   func(*Discover) error
)

var Providers map[string]Provider

func New(...Option) (*Discover, error)                        { return &Discover{}, nil }
func WithProviders(map[string]Provider) Option                { return nil }
func (*Discover) Addrs(string, *log.Logger) ([]string, error) { return nil, ErrUnused }
func Parse(string) (Config, error)                            { return nil, ErrUnused }
func (Config) String() string                                 { return "" }
