package connectors

import (
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/keywright/keywright/internal/problem"
)

// maxFile limits a file, in bytes.
const maxFile = 4 << 20

// parse returns the value of a file, or nil if it cannot be parsed or ctx has ended.
func parse(ctx context.Context, text string, p *problems) *node {
	switch {
	case len(text) > maxFile:
		p.report(problem.Place{}, "", "has more than %d MiB: use several gateways", maxFile>>20)
		return nil
	case !utf8.ValidString(text):
		valid := strings.ToValidUTF8(text, "\x00")
		p.report(problem.Place{Line: 1 + strings.Count(valid[:strings.IndexByte(valid, 0)], "\n"), Column: 1}, "", "is not UTF-8: save it in that encoding")
		return nil
	case json.Valid([]byte(text)):
		return readJSON(ctx, text, p)
	}
	return readYAML(ctx, text, p)
}
