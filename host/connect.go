package host

import (
	"context"
	"fmt"
	"maps"
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
		connected.plan.Warn(ctx, fmt.Sprintf("auth type %q is a deprecated alias, use %q", c.Auth.Type, connected.plugin.info.Type))
	}
	connected.places()
	connected.warnOfAliases(ctx)
	connected.warnOfUnlisted(ctx)
	connected.config.Auth.Type = connected.plugin.info.Type
	return connected, nil
}

// noType reports an auth type that the host does not have. A built-in one can be added.
func (k *checker) noType(name string) {
	types := plugins.Types()
	if slices.Contains(types, name) {
		k.Wrong("auth.type", "this host does not have the auth type %q: add its module, from package plugins, to Config.Plugins", name)
		return
	}
	types = slices.AppendSeq(types, maps.Keys(k.host.types))
	slices.Sort(types)
	k.Wrong("auth.type", "there is no auth type %q%s", Printable(name), problem.DidYouMean(name, slices.Compact(types)))
}
