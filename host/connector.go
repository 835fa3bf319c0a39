package host

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/strictjson"
)

// ConnectorConfig says what a connector is: a named external API with its auth configuration.
type ConnectorConfig struct {
	// Name is in errors and logs. Tokens belong to it: no connector of another name gets them.
	Name string
	// Origins are the only ones that get the credential: scheme, host and port of the API, such as
	// https://api.example.com.
	Origins []string
	// Auth says how requests are authenticated.
	Auth Auth
	// Timeout bounds a token exchange, with what waits for it. 0 is CallTime of the host's [Limits].
	Timeout time.Duration
	// BodyBytes is how many bytes a request's body may have that the host keeps, see [Connector.Transport]. 0 is BodyBytes
	// of the host's Limits.
	BodyBytes int64
}

// Auth is the authentication object of a connector: a type, and its configuration.
type Auth struct {
	Type string `json:"type"`
	// Config has string, bool, numbers (json.Number keeps their text), nil, []any and map[string]any: at most 50,000 values,
	// 4 MiB of texts and names, and 512 KiB of texts with expressions in them.
	Config map[string]any `json:"config,omitempty"`
}

// UnmarshalJSON decodes strictly: a member that is unknown or there twice is an error, and numbers keep their text.
func (a *Auth) UnmarshalJSON(document []byte) error {
	type plain Auth
	if err := strictjson.Unmarshal(document, (*plain)(a)); err != nil {
		return fmt.Errorf("auth %w", err)
	}
	return nil
}

var _ json.Unmarshaler = (*Auth)(nil)

// Connector authenticates requests. [Host.Connect] makes one; what is not made by it fails each request.
type Connector struct {
	config ConnectorConfig

	host    *Host
	plugin  *plugin
	plan    *hostfn.Plan
	log     *connectorLog
	origins map[origin]bool
	// partitionSeed begins the text that each cache partition of the connector is the hash of.
	partitionSeed [32]byte
	// fieldOfSecret is the field that names a secret first, for errors.
	fieldOfSecret map[string]string
	// lastOrigin is the scheme and host that were last found to be of origins.
	lastOrigin atomic.Pointer[written]
	// lastMutation is set when the templates name nothing of the user.
	lastMutation atomic.Pointer[cachedMutation]
}

// Config returns what [Host.Connect] was given, with the name of the auth type in place of an alias. Its maps and lists
// are the connector's own, and must not be changed.
func (c *Connector) Config() ConnectorConfig { return c.config }

// Secrets lists the names of the secrets that the connector's templates name, sorted.
func (c *Connector) Secrets() []string {
	if c.plan == nil {
		return nil
	}
	return slices.Clone(c.plan.Names.Secrets)
}

func (c *Connector) exchangeTime() time.Duration {
	return cmp.Or(c.config.Timeout, c.host.config.Limits.CallTime)
}

// fail makes the host's error of a failure.
func (c *Connector) fail(stage Stage, err error) error {
	return &Error{Connector: c.config.Name, Type: c.config.Auth.Type, Stage: stage, Err: err}
}

func (c *Connector) failure(f *hostfn.Failure) error {
	return c.fail(Stage(f.Stage), f.Err)
}
