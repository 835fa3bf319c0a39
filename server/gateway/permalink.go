package gateway

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// MaxPermalink is the length of the longest permalink, in bytes.
const MaxPermalink = 64

// Permalink returns the permalink for a connector's name: in lower case, without accents, with a hyphen in place of each run
// of other characters, and at most [MaxPermalink] bytes long. It is empty if the name has no letter a to z and no digit.
func Permalink(name string) string {
	var b strings.Builder
	hyphen := false
	const longest = 4096 // longer names are invalid anyway
	for _, r := range norm.NFKD.String(name[:min(len(name), longest)]) {
		r = unicode.ToLower(r)
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			if hyphen && b.Len() > 0 {
				b.WriteByte('-')
			}
			hyphen = false
			b.WriteRune(r)
		case !unicode.Is(unicode.Mn, r):
			hyphen = true
		}
	}
	permalink := b.String()
	return strings.TrimRight(permalink[:min(len(permalink), MaxPermalink)], "-")
}
