// Package api has no console.
package api

import (
	"crypto/x509"
	"encoding/json"
	"errors"

	"github.com/minio/pkg/v3/certs"

	"github.com/minio/console/api/operations"
	"github.com/minio/console/pkg/auth/idp/oauth2"
)

type (
	Server struct {
		Host             string
		Port, TLSPort    int
		EnabledListeners []string
	}
	MinIOConfig struct{ OpenIDProviders oauth2.OpenIDPCfg }
)

var (
	Port, Hostname, TLSPort      string
	SwaggerJSON, FlatSwaggerJSON json.RawMessage
	LogInfo, LogError            func(string, ...any)
	GlobalMinIOConfig            MinIOConfig
	GlobalRootCAs                *x509.CertPool
	GlobalPublicCerts            []*x509.Certificate
	GlobalTLSCertsManager        *certs.Manager
)

func NewServer(*operations.ConsoleAPI) *Server { return &Server{} }

func (*Server) ConfigureAPI()   {}
func (*Server) Serve() error    { return errors.New("the console is not linked into this MinIO") }
func (*Server) Shutdown() error { return nil }
