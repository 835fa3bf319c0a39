package embed_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// For any body, the result contains each word and each URL as often as the body does.
func TestRandomBodies(t *testing.T) {
	pieces := rapid.SliceOfN(rapid.SampledFrom([]string{
		one, two, link(pic), link(two), " ", "\n", "\n  ", "\t", "&nbsp;", "<br>", "word", "<b>bold</b>", "<p>", "</p>", `<p dir="ltr">`, "<div>", "</div>",
		"<ul><li>", "</li></ul>", "<figure>", "</figure>", "<h2>", "</h2>", "<i>", "</i>", "<pre>", "</pre>", "<blockquote>", "</blockquote>", "<hr>", "<table><tr><td>", "</table>",
	}), 0, 60)
	r := newWorld().resolver(t)
	rapid.Check(t, func(t *rapid.T) {
		body := strings.Join(pieces.Draw(t, "pieces"), "")
		got := r.Resolve(t.Context(), body)
		for _, text := range []string{"word", "bold", one, two, pic} { // a link with its URL as text counts once
			want := strings.Count(strings.NewReplacer(link(two), two, link(pic), pic).Replace(body), text)
			if n := strings.Count(strings.NewReplacer(relLink(two), two, relLink(pic), pic).Replace(got), text); n != want {
				t.Errorf("%q became %q, in which %q is %d times", body, got, text, n)
			}
		}
	})
}

// relLink returns a link as the sanitiser writes it.
func relLink(url string) string {
	return `<a href="` + url + `" rel="nofollow noopener">` + url + `</a>`
}
