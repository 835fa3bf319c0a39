package host

import (
	"context"
	"fmt"
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
	connected.config.Auth.Type = connected.plugin.info.Type
	return connected, nil
}
