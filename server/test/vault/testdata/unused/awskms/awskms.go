// Package awskms has no key.
package awskms

import wrapping "github.com/hashicorp/go-kms-wrapping/v2"

// A Wrapper has no method that can be called.
type Wrapper struct{ wrapping.Wrapper }

func NewWrapper() *Wrapper { return &Wrapper{} }

func WithDisallowEnvVars(bool) wrapping.Option { return func() any { return nil } }
func WithLogger(any) wrapping.Option           { return func() any { return nil } }

const (
	EnvAwsKmsWrapperKeyId   = "AWSKMS_WRAPPER_KEY_ID"
	EnvVaultAwsKmsSealKeyId = "VAULT_AWSKMS_SEAL_KEY_ID"
)
