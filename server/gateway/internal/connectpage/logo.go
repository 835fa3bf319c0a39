package connectpage

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"regexp"

	"github.com/keywright/keywright/internal/files"
)

// active matches what runs, or loads something, in an SVG: elements, handlers, URLs that do not begin with #, and escapes of styles. The header
// of the logo's answer forbids that too; this is for those who open the file elsewhere.
var active = regexp.MustCompile(`(?i)<([\w.-]+:)?(script|foreignobject|iframe|embed|object|animate|set|handler|listener)|[\s"'/]on\w+\s*=|<!doctype|<!entity|<\?xml-|` +
	`javascript:|@import|\\|(href\s*=\s*["']|url\()\s*[^#"'\s]|url\(\s*["']\s*[^#]`)

// readLogo returns the picture of a file, and its media type.
func readLogo(name string) (picture []byte, mediaType string, err error) {
	const maxLogo = 64 << 10
	picture, err = files.ReadRegular(name, maxLogo)
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("cannot be read: %w", err)
	case len(picture) > maxLogo:
		return nil, "", fmt.Errorf("is larger than %d KiB", maxLogo>>10)
	}
	if _, err := png.DecodeConfig(bytes.NewReader(picture)); err == nil {
		return picture, "image/png", nil
	}
	var root struct{ XMLName xml.Name }
	switch err := xml.Unmarshal(picture, &root); { // it refuses all that is not UTF-8
	case err != nil || root.XMLName.Local != "svg":
		return nil, "", errors.New("is neither a PNG nor an SVG")
	case active.Match(picture):
		return nil, "", errors.New("is an SVG with a script, a style sheet, a document type, or something that it loads: put shapes alone into it")
	}
	return picture, "image/svg+xml", nil
}
