// Package alicloudkms has no key.
package alicloudkms

import wrapping "github.com/hashicorp/go-kms-wrapping/v2"

// A Wrapper has no method that can be called.
type Wrapper struct{ wrapping.Wrapper }

func NewWrapper() *Wrapper { return &Wrapper{} }

const (
	EnvAliCloudKmsWrapperKeyId   = "ALICLOUDKMS_WRAPPER_KEY_ID"
	EnvVaultAliCloudKmsSealKeyId = "VAULT_ALICLOUDKMS_SEAL_KEY_ID"
)
