package host

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/plugins"
)

// Connect checks a configuration and returns a connector for it. It makes no request to the API or a token endpoint,
// and reads no secret. If the configuration is invalid, the error is a [ConfigError] that lists all problems. After
// [Host.Close], it is [ErrClosed].
func (h *Host) Connect(ctx context.Context, c ConnectorConfig) (*Connector, error) {
	if err := h.enter(); err != nil {
		return nil, err
	}
	defer h.calls.Done()
	connected := &Connector{config: c, host: h, fieldOfSecret: map[string]string{}}
	if err := h.check(ctx, connected); err != nil {
		return nil, err
	}
	if c.Auth.Type != connected.plugin.info.Type {
		connected.log.warn(ctx, "auth.type", fmt.Sprintf("auth type %q is a deprecated alias, use %q", c.Auth.Type, connected.plugin.info.Type))
	}
	connected.places()
	connected.warnOfAliases(ctx)
	connected.warnOfUnlisted(ctx)
	connected.config.Auth.Type = connected.plugin.info.Type
	return connected, nil
}

// bareOAuth matches the names of OAuth 2.0 as a whole.
var bareOAuth = regexp.MustCompile(`^(?i:oauth)[-_]?(?:2|2\.0|20)?$`)

// noType reports an auth type that the host does not have. A built-in one can be added.
func (k *checker) noType(name string) {
	types := plugins.Types()
	if slices.Contains(types, name) {
		k.Wrong("auth.type", "this host does not have the auth type %q: add its module, from package plugins, to Config.Plugins", name)
		return
	}
	if bareOAuth.MatchString(name) {
		k.Wrong("auth.type", "there is no auth type %q, since OAuth 2.0 has one for each way to a token: oauth_client_credentials with the client's own "+
			"secret, oauth_authorization_code with the consent of each user, oauth_refresh_token with a token that somebody has got, "+
			"oauth_jwt_bearer with a signed assertion, oauth_password with a password, token_exchange with the caller's token", name)
		return
	}
	types = slices.AppendSeq(types, maps.Keys(k.host.types))
	slices.Sort(types)
	k.Wrong("auth.type", "there is no auth type %q%s", Printable(name), problem.DidYouMean(name, slices.Compact(types)))
}
