package host

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/keywright/keywright/internal/contract"
)

// connectorLog writes the log of one connector and its plugin.
//
// It logs each warning once, and at most 32 warnings of the host and 32 of the plugin. The separate limits keep a
// plugin from suppressing the host's warnings.
type connectorLog struct {
	logger              *slog.Logger
	clock               func() time.Time
	connector, authType string
	// report is Config.Warn.
	report func(connector string, p Problem)

	mu                  sync.Mutex
	warned, guestWarned map[Problem]bool
	// refusals is the pace of the refusals that are logged.
	refusals pace
}

// maxWarnings limits the warnings of the host, and separately those of the plugin.
const maxWarnings = 32

// line logs a text at a level of the host function log.
func (l *connectorLog) line(ctx context.Context, level contract.Level, text string) {
	l.write(ctx, level, text)
}

// write is line with further attributes.
func (l *connectorLog) write(ctx context.Context, level contract.Level, text string, more ...slog.Attr) {
	levels := [...]slog.Level{slog.LevelDebug - 4, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}
	attrs := append([]slog.Attr{slog.String("connector", Printable(l.connector)), slog.String("type", l.authType)}, more...)
	l.logger.LogAttrs(ctx, levels[min(level, contract.LevelError)], text, attrs...)
}

// warn logs a warning of the host about a member of the connector, or with path "" about something else.
func (l *connectorLog) warn(ctx context.Context, path, text string) {
	l.once(ctx, &l.warned, Problem{Path: path, Message: text})
}

// warnOfGuest logs a warning of the plugin.
func (l *connectorLog) warnOfGuest(ctx context.Context, text string) {
	l.once(ctx, &l.guestWarned, Problem{Message: text})
}

// once logs or reports a warning, unless problems contains it or is full.
func (l *connectorLog) once(ctx context.Context, problems *map[Problem]bool, p Problem) {
	l.mu.Lock()
	skip := (*problems)[p] || len(*problems) >= maxWarnings
	if !skip {
		if *problems == nil {
			*problems = map[Problem]bool{}
		}
		(*problems)[p] = true
	}
	l.mu.Unlock()
	switch {
	case skip:
	case l.report != nil:
		l.report(l.connector, p)
	case p.Path != "":
		l.line(ctx, contract.LevelWarn, p.Path+": "+p.Message)
	default:
		l.line(ctx, contract.LevelWarn, p.Message)
	}
}

// minRefusalGap is the minimum time between two logged refusals of a connector. Each user of a connector may have
// refusals of their own. The same inputs are never refused again sooner than this.
const minRefusalGap = 800 * time.Millisecond

// logRefusal logs that a token endpoint refused a token, unless another refusal was logged just before.
func (l *connectorLog) logRefusal(ctx context.Context, endpoint, text string) {
	l.seldom(ctx, text, slog.String("endpoint", endpoint))
}

// seldom logs a refusal, unless another one was logged just before.
func (l *connectorLog) seldom(ctx context.Context, text string, attrs ...slog.Attr) {
	if l.refusals.due(l.clock(), minRefusalGap) {
		l.write(ctx, contract.LevelWarn, text, attrs...)
	}
}

// metadata logs that the metadata of an issuer has changed, or that it cannot be read.
func (l *connectorLog) metadata(ctx context.Context, issuer, text string, err error) {
	attributes := []slog.Attr{slog.String("issuer", Printable(issuer))}
	level := contract.LevelInfo
	if err != nil {
		level = contract.LevelWarn
		attributes = append(attributes, slog.String("error", Printable(err.Error())))
	}
	l.write(ctx, level, text, attributes...)
}

// pace keeps something from happening too often. It is safe for concurrent use.
type pace struct {
	mu   sync.Mutex
	last time.Time
}

// due reports whether it is time for the next one: now is a gap after the last one, or before it, as after a clock was set back. If so,
// due records now.
func (p *pace) due(now time.Time, gap time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if since := now.Sub(p.last); !p.last.IsZero() && since >= 0 && since < gap {
		return false
	}
	p.last = now
	return true
}
