package embed_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Whatever a body is, there is an answer, which has each word and each URL of it as often as it has.
func TestRandomBodies(t *testing.T) {
	pieces := rapid.SliceOfN(rapid.SampledFrom([]string{
		one, two, link(pic), link(two), " ", "\n", "\n  ", "\t", "&nbsp;", "<br>", "word", "<b>bold</b>", "<p>", "</p>", `<p dir="ltr">`, "<div>", "</div>",
		"<ul><li>", "</li></ul>", "<figure>", "</figure>", "<h2>", "</h2>", "<i>", "</i>", "<pre>", "</pre>", "<blockquote>", "</blockquote>", "<hr>", "<table><tr><td>", "</table>",
	}), 0, 60)
	r := newWorld().resolver(t)
	rapid.Check(t, func(t *rapid.T) {
		body := strings.Join(pieces.Draw(t, "pieces"), "")
		got := r.Resolve(t.Context(), body)
		for _, text := range []string{"word", "bold", one, two, pic} { // that of a link is in its embed once
			want := strings.Count(strings.NewReplacer(link(two), two, link(pic), pic).Replace(body), text)
			if n := strings.Count(strings.NewReplacer(relLink(two), two, relLink(pic), pic).Replace(got), text); n != want {
				t.Errorf("%q became %q, in which %q is %d times", body, got, text, n)
			}
		}
	})
}

// relLink is a link as the sanitiser writes it.
func relLink(url string) string {
	return `<a href="` + url + `" rel="nofollow noopener">` + url + `</a>`
}
