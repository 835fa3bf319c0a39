package host

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/hostfn"
)

// Printable escapes what would forge a line of a log or talk to a terminal, and cuts what is long.
func Printable(text string) string { return hostfn.Printable(text, 1024) }

func (h *Host) logLine(connector, authType string) func(context.Context, abi.Level, string) {
	return func(ctx context.Context, level abi.Level, text string) {
		levels := [...]slog.Level{slog.LevelDebug - 4, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}
		h.config.Logger.LogAttrs(ctx, levels[min(level, abi.LevelError)], text,
			slog.String("connector", Printable(connector)), slog.String("type", authType))
	}
}

// warnings remembers what was warned of. The same text is logged once, and at most 32 texts of the host are and 32 of the
// plugin: a plugin must not keep the host's warnings from the log.
type warnings struct {
	mu      sync.Mutex
	seen    map[string]bool
	guest   map[string]bool
	refused time.Time // when a refusal was logged last
}

const maxWarnings = 32

func (c *Connector) warn(ctx context.Context, text string) { c.warnOnce(ctx, &c.warned.seen, text) }

func (c *Connector) guestWarns(ctx context.Context, text string) {
	c.warnOnce(ctx, &c.warned.guest, text)
}

func (c *Connector) warnOnce(ctx context.Context, seen *map[string]bool, text string) {
	c.warned.mu.Lock()
	known := (*seen)[text] || len(*seen) >= maxWarnings
	if !known {
		if *seen == nil {
			*seen = map[string]bool{}
		}
		(*seen)[text] = true
	}
	c.warned.mu.Unlock()
	if !known {
		c.host.logLine(c.config.Name, c.plugin.info.Type)(ctx, abi.LevelWarn, text)
	}
}

// refusalsApart is the least time between two refusals that are logged, since each user of a connector may have their
// own. The same inputs are never refused sooner.
const refusalsApart = 800 * time.Millisecond

// refused logs that a token endpoint refused.
func (c *Connector) refused(ctx context.Context, text string) {
	now := c.host.config.Clock()
	w := &c.warned
	w.mu.Lock()
	since := now.Sub(w.refused)
	soon := !w.refused.IsZero() && since >= 0 && since < refusalsApart
	if !soon {
		w.refused = now
	}
	w.mu.Unlock()
	if !soon {
		c.host.logLine(c.config.Name, c.plugin.info.Type)(ctx, abi.LevelWarn, text)
	}
}
