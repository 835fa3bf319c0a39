package host_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// leaks holds the texts that must not leak from a host, and all texts that came out of it.
type leaks struct {
	guard  sync.Mutex
	hidden map[string]string // the description of each text
	outs   map[string]bool   // the texts that came out, as "where: text"
}

// randomSecret returns a secret with characters that have a meaning in URLs, and with none that a header could not
// carry.
func randomSecret() string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=&%~"
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails
	for i, b := range random {
		random[i] = alphabet[int(b)%len(alphabet)]
	}
	return string(random)
}

// hide records a text that must not leak, unless it is so short that it could be found by chance.
func (l *leaks) hide(what, text string) {
	l.guard.Lock()
	defer l.guard.Unlock()
	if l.hidden == nil {
		l.hidden = map[string]string{}
	}
	if len(text) >= 8 {
		l.hidden[text] = what
	}
}

// out records a text that came out.
func (l *leaks) out(where, text string) {
	l.guard.Lock()
	defer l.guard.Unlock()
	if l.outs == nil {
		l.outs = map[string]bool{}
	}
	l.outs[where+": "+text] = true
}

// outError records an error, and all errors that it wraps.
func (l *leaks) outError(where string, err error) {
	if err == nil {
		return
	}
	l.out(where, fmt.Sprintf("%v\n%+v\n%#v", err, err, err))
	l.outError(where, errors.Unwrap(err))
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, inner := range several.Unwrap() {
			l.outError(where, inner)
		}
	}
}

// found searches what came out for the hidden texts in every form, and returns a sentence for each leak.
func (l *leaks) found() []string {
	l.guard.Lock()
	defer l.guard.Unlock()
	var all []string
	for text, what := range l.hidden {
		for form, needle := range encodings(text) {
			for out := range l.outs {
				if strings.Contains(out, needle) {
					where, _, _ := strings.Cut(out, ":")
					all = append(all, fmt.Sprintf("%s holds %s, %s", where, what, form))
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func encodings(text string) map[string]string {
	all := map[string]string{
		"plain":                    text,
		"in hex":                   hex.EncodeToString([]byte(text)),
		"URL-encoded":              url.QueryEscape(text),
		"URL-encoded as in a path": url.PathEscape(text),
		"quoted":                   strings.Trim(fmt.Sprintf("%q", text), `"`),
	}
	for before := range 3 { // the part of the encoding that does not depend on the texts before and after
		padded := append(make([]byte, before), text...)
		from, to := (before*8+5)/6, len(padded)*8/6
		all[fmt.Sprintf("in base64 at %d", before)] = base64.RawStdEncoding.EncodeToString(padded)[from:to]
		all[fmt.Sprintf("in base64url at %d", before)] = base64.RawURLEncoding.EncodeToString(padded)[from:to]
	}
	return all
}

// bothHandlers returns a handler that logs every level, as text and as JSON.
func bothHandlers(w io.Writer, mu *sync.Mutex) slog.Handler {
	options := &slog.HandlerOptions{Level: slog.Level(-100)}
	return both{mu, slog.NewTextHandler(w, options), slog.NewJSONHandler(w, options)}
}

type both struct {
	mu         *sync.Mutex // also held by the reader of the log
	text, json slog.Handler
}

func (b both) Enabled(context.Context, slog.Level) bool { return true }

func (b both) Handle(ctx context.Context, r slog.Record) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return errors.Join(b.text.Handle(ctx, r), b.json.Handle(ctx, r.Clone()))
}

func (b both) WithAttrs(attrs []slog.Attr) slog.Handler {
	return both{b.mu, b.text.WithAttrs(attrs), b.json.WithAttrs(attrs)}
}

func (b both) WithGroup(name string) slog.Handler {
	return both{b.mu, b.text.WithGroup(name), b.json.WithGroup(name)}
}
