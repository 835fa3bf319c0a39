package tour

import (
	"context"
	_ "embed"
	"errors"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/demo"
)

//go:embed gateway.yaml
var gatewayFile string

// A Stage has all that a gateway needs to show the five auth types: running servers, and a file with a connector for each type.
type Stage struct {
	// File is the text of the file, for connectors.Read.
	File    []byte
	Secrets host.Secrets
	Servers *demo.Servers
	// Calls has one call for each connector.
	Calls []GatewayCall
}

// A GatewayCall is a request that a gateway with the file of a [Stage] answers with status 200.
type GatewayCall struct {
	Permalink string
	// User is the email address for UserHeader. It is empty if the connector does not need a user.
	User string
}

// UserHeader is the header with the user's email address, for a gateway with the file of a [Stage].
const UserHeader = "X-User-Email"

// tokenLifetime is the lifetime that the plugins assume for a token.
const tokenLifetime = time.Hour

// NewStage starts the servers. The caller must close them.
func NewStage(ctx context.Context, c Config) (*Stage, error) {
	keys, err := demo.NewKeys(c.Rand)
	if err != nil {
		return nil, err
	}
	servers, err := demo.Start(ctx, demo.Config{Keys: keys, TokenLifetime: tokenLifetime, Now: c.Now, Rand: c.Rand})
	if err != nil {
		return nil, err
	}
	secrets, err := secretsOf(keys)
	if err != nil {
		return nil, errors.Join(err, servers.Close())
	}
	return &Stage{
		File:    []byte(strings.NewReplacer("API", servers.APIURL, "TOKEN", servers.TokenURL).Replace(body(gatewayFile))),
		Secrets: secrets, Servers: servers,
		Calls: []GatewayCall{{"none", ""}, {"api-key", ""}, {"oauth-client-credentials", ""}, {"jwt", User}, {"oauth-jwt-bearer", User}},
	}, nil
}
