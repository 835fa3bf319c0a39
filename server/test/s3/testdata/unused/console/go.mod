module github.com/minio/console

go 1.26.0

require (
	github.com/go-openapi/loads v0.22.0
	github.com/minio/pkg/v3 v3.1.3
)
