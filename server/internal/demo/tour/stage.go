package tour

import (
	"context"
	_ "embed"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/demo"
)

//go:embed gateway.yaml
var gatewayFile string

// A Stage has running servers, and a file of connectors for them.
type Stage struct {
	// File is the text of the file, for connectors.Read.
	File    []byte
	Secrets host.Secrets
	Servers *demo.Servers
}

// A GatewayCall is a request that a gateway with the file of [NewStage] answers with status 200.
type GatewayCall struct {
	Permalink string
	// User is the email address for UserHeader. It is empty if the connector does not need a user.
	User string
}

// UserHeader is the header with the user's email address, for a gateway with the file of [NewStage].
const UserHeader = "X-User-Email"

// GatewayCalls has one call for each connector of the file of [NewStage].
var GatewayCalls = []GatewayCall{{"none", ""}, {"api-key", ""}, {"oauth-client-credentials", ""}, {"jwt", User}, {"oauth-jwt-bearer", User}}

// tokenLifetime is the lifetime that the plugins assume for a token.
const tokenLifetime = time.Hour

// NewStage starts the servers, with a file for a gateway that shows the five auth types. The caller must close the servers.
func NewStage(ctx context.Context) (*Stage, error) { return newStage(ctx, gatewayFile) }

// newStage starts the servers. The first line of file is a comment. In the rest, API and TOKEN stand for the servers.
func newStage(ctx context.Context, file string) (*Stage, error) {
	keys, err := demo.NewKeys()
	if err != nil {
		return nil, err
	}
	rsa, err := keys.RSAPEM()
	if err != nil {
		return nil, err
	}
	ec, err := keys.ECPEM()
	if err != nil {
		return nil, err
	}
	servers, err := demo.Start(ctx, demo.Config{Keys: keys, TokenLifetime: tokenLifetime, Now: time.Now})
	if err != nil {
		return nil, err
	}
	_, file, _ = strings.Cut(file, "\n")
	return &Stage{
		File:    []byte(strings.NewReplacer("API", servers.APIURL, "TOKEN", servers.TokenURL).Replace(file)),
		Secrets: host.MapSecrets{"api-key": keys.APIKey, "client-secret": keys.ClientSecret, "rsa-key": rsa, "ec-key": ec},
		Servers: servers,
	}, nil
}
