// Package connectpage has the pages at which users connect their accounts: their words in each language, their look, and the logo of who
// asks.
package connectpage

import (
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"html/template"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/language"

	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/internal/problem"
)

// Text is a text of the pages by its key. Values alternates names and values, which stand for {name} in the text.
type Text struct {
	Key    string
	Values []string
}

// Say returns a Text.
func Say(key string, values ...string) Text { return Text{key, values} }

// Look has the words of all languages, and who asks.
type Look struct {
	// Name is the name of who asks, or "".
	Name string
	// Logo is a picture, or empty. LogoType is its media type.
	Logo     []byte
	LogoType string

	tags    []language.Tag
	words   []words
	matcher language.Matcher
}

// words has the texts of a language by key. own are those of the operator.
type words struct{ texts, own map[string]string }

//go:embed words
var embedded embed.FS

const (
	maxLanguages = 100
	maxWords     = 64 << 10 // bytes of a file of words
	maxHeader    = 500      // bytes of an Accept-Language that are read
)

var english = func() (texts map[string]string) {
	text, _ := embedded.ReadFile("words/en.json")
	_ = json.Unmarshal(text, &texts) // a test reads it
	return texts
}()

// NewLook returns the look of the pages, with the languages of a directory, if it is not "". The error is that of the first file that
// cannot be used. notices says which texts are missing or unknown.
func NewLook(dir string) (l *Look, notices []string, err error) {
	l = &Look{}
	for _, name := range []string{"en.json", "de.json"} { // English is for all who speak no other language
		text, _ := embedded.ReadFile("words/" + name)
		_, _ = l.add(name, text, false) // a test reads it
	}
	if dir != "" {
		found, err := fs.Glob(os.DirFS(dir), "*.json")
		switch {
		case err != nil:
			return nil, nil, err
		case len(found) == 0 || len(found) > maxLanguages:
			return nil, nil, fmt.Errorf("is no directory with 1 to %d files such as fr.json", maxLanguages)
		}
		for _, name := range found {
			text, err := files.ReadRegular(path.Join(dir, name), maxWords)
			if err == nil && len(text) > maxWords {
				err = fmt.Errorf("it is longer than %d KiB", maxWords>>10)
			}
			more := []string(nil)
			if err == nil {
				more, err = l.add(name, text, true)
			}
			if err != nil {
				return nil, nil, fmt.Errorf("has %s, which cannot be used: %w", name, err)
			}
			notices = append(notices, more...)
		}
	}
	l.matcher = language.NewMatcher(l.tags)
	return l, notices, nil
}

// add adds the words of a file, whose name is that of the language.
func (l *Look) add(name string, text []byte, own bool) (notices []string, err error) {
	tag, err := language.Parse(strings.TrimSuffix(path.Base(name), ".json"))
	if err != nil {
		return nil, errors.New("its name is no language, such as fr.json or pt-BR.json")
	}
	w := words{texts: map[string]string{}}
	var texts map[string]string
	if err := json.Unmarshal(text, &texts); err != nil {
		return nil, errors.New("it is no JSON object with texts alone")
	}
	i := slices.Index(l.tags, tag)
	if i < 0 {
		i = len(l.tags)
		l.tags, l.words = append(l.tags, tag), append(l.words, w)
	}
	maps.Copy(l.words[i].texts, texts)
	if !own {
		return nil, nil
	}
	l.words[i].own = texts
	for _, key := range slices.Sorted(maps.Keys(english)) {
		if l.words[i].texts[key] == "" {
			notices = append(notices, fmt.Sprintf("%s has no %q: users get it in English", name, key))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		if english[key] == "" && !strings.HasPrefix(key, "scope.") {
			notices = append(notices, fmt.Sprintf("%s has %q, which is no text of the pages%s", name, key, problem.DidYouMean(key, slices.Collect(maps.Keys(english)))))
		}
	}
	return notices, nil
}

// Writer writes pages in a language.
type Writer struct {
	// Language is that of the page, such as de.
	Language string
	look     *Look
	words    words
}

// For returns the writer for a user whose browser sends the header Accept-Language.
func (l *Look) For(accept string) *Writer {
	wanted, _, _ := language.ParseAcceptLanguage(accept[:min(len(accept), maxHeader)])
	_, i, _ := l.matcher.Match(wanted...)
	return &Writer{l.tags[i].String(), l, l.words[i]}
}

// write returns a text with its values as put writes them.
func (w *Writer) write(t Text, escape, put func(string) string) string {
	text := escape(cmp.Or(w.words.texts[t.Key], english[t.Key]))
	pairs := []string{"{name}", put(cmp.Or(w.look.Name, w.words.texts["app"], english["app"]))}
	for i := 0; i+1 < len(t.Values); i += 2 {
		pairs = append(pairs, "{"+t.Values[i]+"}", put(t.Values[i+1]))
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// Text returns a text as HTML. Each value has its own direction.
func (w *Writer) Text(t Text) template.HTML {
	return template.HTML(w.write(t, html.EscapeString, func(value string) string { //nolint:gosec // all is escaped
		return "<bdi>" + html.EscapeString(value) + "</bdi>"
	}))
}

// Plain returns a text without markup.
func (w *Writer) Plain(t Text) string {
	plain := func(text string) string { return text }
	return w.write(t, plain, plain)
}

// Has reports whether there is a text with this key.
func Has(key string) bool { return english[key] != "" }

// ScopeWords returns the words for scopes: those of the language's file, of the maps, in order, or those that everybody has. A scope without words
// stands for itself.
func (w *Writer) ScopeWords(scopes []string, maps ...map[string]string) (all []string) {
	for _, scope := range scopes {
		text := w.words.own["scope."+scope]
		for _, m := range maps {
			text = cmp.Or(text, m[scope])
		}
		all = append(all, cmp.Or(text, w.words.texts["scope."+scope], english["scope."+scope], Printable(scope)))
	}
	return all
}

// Date returns the day of t, as users say it at the time now.
func (w *Writer) Date(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	key := "date"
	switch day := t.Format(time.DateOnly); {
	case day == now.Format(time.DateOnly):
		return w.Plain(Say("today"))
	case day == now.AddDate(0, 0, -1).Format(time.DateOnly):
		return w.Plain(Say("yesterday"))
	case t.Year() != now.Year():
		key = "date.year"
	}
	return w.Plain(Say(key, "day", fmt.Sprint(t.Day()), "month", w.Plain(Say(fmt.Sprint("month.", int(t.Month())))), "year", fmt.Sprint(t.Year())))
}

// Printable returns a name of others for a page: at most 200 characters, without those that nobody sees, such as those that turn the direction
// of text.
func Printable(name string) string {
	const longest = 200
	all := []rune(strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(name[:min(len(name), 8*longest)], ""))), " "))
	if len(all) > longest {
		return string(all[:longest-1]) + "…"
	}
	return string(all)
}
