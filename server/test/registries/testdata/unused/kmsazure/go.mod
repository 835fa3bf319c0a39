module github.com/sigstore/sigstore/pkg/signature/kms/azure

go 1.26.0
