// Package rest has no configuration.
package rest

import "errors"

var ErrUnused = errors.New("the client of Kubernetes is not linked into this cosign")

type Config struct{}

func InClusterConfig() (*Config, error) { return nil, ErrUnused }
