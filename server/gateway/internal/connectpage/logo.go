package connectpage

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"slices"
	"strings"

	"github.com/keywright/keywright/internal/files"
)

const maxLogo = 64 << 10

// ReadLogo returns the picture of a file, and its media type.
func ReadLogo(name string) (picture []byte, mediaType string, err error) {
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
	if err := checkSVG(picture); err != nil {
		return nil, "", err
	}
	return picture, "image/svg+xml", nil
}

var errNoPicture = errors.New("is neither a PNG nor an SVG")

// active are elements of SVG that run scripts, load documents, or may change a link.
var active = []string{"script", "foreignobject", "iframe", "embed", "object", "a", "animate", "set", "animatemotion", "animatetransform", "handler", "listener"}

// checkSVG returns an error unless a picture is an SVG that runs nothing and loads nothing. Its answer forbids that too; this is for those who
// look at the file elsewhere.
func checkSVG(picture []byte) error {
	d := xml.NewDecoder(bytes.NewReader(picture))
	for root := true; ; {
		token, err := d.Token()
		switch {
		case errors.Is(err, io.EOF) && !root:
			return nil
		case err != nil:
			return errNoPicture
		}
		switch t := token.(type) {
		case xml.Directive:
			return errors.New("is an SVG with a document type: leave it out")
		case xml.ProcInst:
			if t.Target != "xml" {
				return errors.New("is an SVG with a style sheet of its own: leave it out")
			}
		case xml.CharData:
			if loads(string(t)) {
				return errors.New("is an SVG that loads something: put all of it into the file")
			}
		case xml.StartElement:
			if root && t.Name.Local != "svg" {
				return errNoPicture
			}
			root = false
			if err := checkElement(t); err != nil {
				return err
			}
		}
	}
}

func checkElement(t xml.StartElement) error {
	if slices.Contains(active, strings.ToLower(t.Name.Local)) {
		return fmt.Errorf("is an SVG with %s: leave it out", t.Name.Local)
	}
	for _, a := range t.Attr {
		name := strings.ToLower(a.Name.Local)
		switch {
		case strings.HasPrefix(name, "on"):
			return errors.New("is an SVG with a script: leave it out")
		case name == "href" && !strings.HasPrefix(a.Value, "#") && !strings.HasPrefix(a.Value, "data:image/png;"), name != "href" && a.Name.Space != "xmlns" && name != "xmlns" && loads(a.Value):
			return errors.New("is an SVG that loads something: put all of it into the file")
		}
	}
	return nil
}

// loads reports whether a style names something outside of the file.
func loads(style string) bool {
	style = strings.ToLower(strings.Join(strings.Fields(style), ""))
	return strings.Contains(strings.NewReplacer("url(#", "", `url("#`, "", "url('#", "").Replace(style), "url(") || strings.Contains(style, "@import") || strings.Contains(style, "javascript:") || strings.Contains(style, `\`)
}
