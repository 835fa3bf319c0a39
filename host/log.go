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

// connectorLog writes what the host logs of one connector, and what its plugin logs.
//
// A warning is logged once. At most 32 warnings of the host are logged and 32 of the plugin, so that a plugin cannot keep the
// host's warnings from the log.
type connectorLog struct {
	logger              *slog.Logger
	clock               func() time.Time
	connector, authType string

	mu          sync.Mutex
	warned      map[string]bool
	guestWarned map[string]bool
	refusedAt   time.Time // of the last refusal that was logged
}

const maxWarnings = 32

// line logs a text at the level of the host function log.
func (l *connectorLog) line(ctx context.Context, level abi.Level, text string) {
	levels := [...]slog.Level{slog.LevelDebug - 4, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}
	l.logger.LogAttrs(ctx, levels[min(level, abi.LevelError)], text,
		slog.String("connector", Printable(l.connector)), slog.String("type", l.authType))
}

func (l *connectorLog) warn(ctx context.Context, text string) { l.once(ctx, &l.warned, text) }

func (l *connectorLog) warnOfGuest(ctx context.Context, text string) {
	l.once(ctx, &l.guestWarned, text)
}

func (l *connectorLog) once(ctx context.Context, seen *map[string]bool, text string) {
	l.mu.Lock()
	known := (*seen)[text] || len(*seen) >= maxWarnings
	if !known {
		if *seen == nil {
			*seen = map[string]bool{}
		}
		(*seen)[text] = true
	}
	l.mu.Unlock()
	if !known {
		l.line(ctx, abi.LevelWarn, text)
	}
}

// minRefusalGap is the least time between two refusals that are logged, since each user of a connector may have their
// own. The same inputs are never refused sooner.
const minRefusalGap = 800 * time.Millisecond

// refused logs that a token endpoint refused.
func (l *connectorLog) refused(ctx context.Context, text string) {
	now := l.clock()
	l.mu.Lock()
	since := now.Sub(l.refusedAt)
	soon := !l.refusedAt.IsZero() && since >= 0 && since < minRefusalGap
	if !soon {
		l.refusedAt = now
	}
	l.mu.Unlock()
	if !soon {
		l.line(ctx, abi.LevelWarn, text)
	}
}
