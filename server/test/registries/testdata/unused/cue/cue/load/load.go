// Package load loads nothing.
package load

import "errors"

type (
	Config   struct{}
	Instance struct{ Err error }
)

func Instances([]string, *Config) []*Instance {
	return []*Instance{{Err: errors.New("CUE is not linked into this cosign")}}
}
