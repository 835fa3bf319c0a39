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

// Stage has all that a gateway needs to show the five auth types: running servers, and a file with a connector for each.
type Stage struct {
	File    []byte // of connectors, as connectors.Read takes it
	Secrets host.Secrets
	Servers *demo.Servers
	Calls   []GatewayCall // to try, one for each connector
}

// GatewayCall is a request that a gateway with a [Stage]'s file answers 200.
type GatewayCall struct {
	Permalink string
	User      string // email, for the header UserHeader; "" where the connector needs no user
}

// UserHeader says, to a gateway with a [Stage]'s file, who the user is.
const UserHeader = "X-User-Email"

// tokenLifetime is as long as what the plugins take for granted of a token.
const tokenLifetime = time.Hour

// NewStage starts the servers. The caller closes them.
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
