package mask

import (
	"maps"
	"net/url"
	"slices"

	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/internal/printable"
)

// maxDescription is the maximum length of a description in bytes.
const maxDescription = 500

// Description returns the error_description of a refusal (RFC 6749 section 5.2), printable and cut. It returns "" if there is none, and
// for an answer with something that may be a credential. A text for which secret is true is not shown. Others wrote it, so it may hold
// anything else.
func Description(a *answer.Reply, secret func(text string) bool) string {
	text := ""
	if value, ok := a.JSON([]string{"error_description"}); ok {
		text, _ = value.(string)
		document, _ := a.JSON(nil)
		tree, _ := document.(map[string]any)
		if slices.ContainsFunc(slices.Collect(maps.Keys(tree)), credentialName.MatchString) {
			return ""
		}
	} else if form, err := url.ParseQuery(string(a.Body)); err == nil && form.Has("error") {
		text = form.Get("error_description")
		if slices.ContainsFunc(slices.Collect(maps.Keys(form)), credentialName.MatchString) {
			return ""
		}
	}
	if secret(text) {
		return "(not shown, because it holds a credential)"
	}
	return printable.Text(text, maxDescription)
}
