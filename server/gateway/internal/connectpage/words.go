// Package connectpage has the pages at which users connect their accounts: their words in each language, their look, and the logo of who
// asks.
package connectpage

import (
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/language"

	"github.com/keywright/keywright/internal/files"
)

// Look has the words of all languages, and who asks.
type Look struct {
	// Name is the name of who asks, or "".
	Name string
	// Logo is a picture, or empty. LogoType is its media type.
	Logo     []byte
	LogoType string
	// Notices says which texts the files of the operator do not have, and Files has the paths of all files.
	Notices, Files []string

	tags    []language.Tag
	writers []*Writer
	matcher language.Matcher
}

// Writer writes pages in a language.
type Writer struct {
	// Language is that of the page, such as de.
	Language string
	look     *Look
	// texts has the texts by key, and own those of the operator.
	texts, own map[string]string
}

//go:embed words
var embedded embed.FS

var english = func() (texts map[string]string) {
	text, _ := embedded.ReadFile("words/en.json")
	_ = json.Unmarshal(text, &texts) // a test reads it
	return texts
}()

// NewLook returns a look with the logo of a file and the languages of a directory. Either may be "". wrong has an error for logo or languages
// if there is one. The look can be used without them.
func NewLook(name, logo, dir string) (l *Look, wrong map[string]error) {
	l, wrong = &Look{Name: name}, map[string]error{}
	for _, name := range []string{"en.json", "de.json"} { // English is for all who speak no other language
		text, _ := embedded.ReadFile("words/" + name)
		_ = l.add(name, text, false) // a test reads it
	}
	if logo != "" {
		l.Files = append(l.Files, logo)
		l.Logo, l.LogoType, wrong["logo"] = readLogo(logo)
	}
	if dir != "" {
		wrong["languages"] = l.addAll(dir)
	}
	l.matcher = language.NewMatcher(l.tags)
	maps.DeleteFunc(wrong, func(_ string, err error) bool { return err == nil })
	return l, wrong
}

// addAll adds the languages of a directory.
func (l *Look) addAll(dir string) error {
	const maxLanguages, maxWords = 100, 64 << 10
	found, _ := filepath.Glob(filepath.Join(dir, "*.json")) // the only error is that of the pattern
	if len(found) == 0 || len(found) > maxLanguages {
		return fmt.Errorf("is no directory with 1 to %d files such as fr.json", maxLanguages)
	}
	l.Files = append(l.Files, found...)
	for _, name := range found {
		text, err := files.ReadRegular(name, maxWords)
		if err == nil {
			err = l.add(filepath.Base(name), text, true)
		}
		if err != nil {
			return fmt.Errorf("has %s, which is no JSON object of at most %d KiB with texts alone, or not named after a language: %w", filepath.Base(name), maxWords>>10, err)
		}
	}
	return nil
}

// add adds the words of a file, whose name is that of the language.
func (l *Look) add(name string, text []byte, own bool) error {
	tag, err := language.Parse(strings.TrimSuffix(name, ".json"))
	if err != nil {
		return err
	}
	i := slices.Index(l.tags, tag)
	if i < 0 {
		i = len(l.tags)
		l.tags, l.writers = append(l.tags, tag), append(l.writers, &Writer{tag.String(), l, map[string]string{}, nil})
	}
	w, texts := l.writers[i], map[string]string{}
	if err := json.Unmarshal(text, &texts); err != nil || !own {
		w.texts = texts
		return err
	}
	w.own = texts
	maps.Copy(w.texts, texts)
	for _, key := range slices.Sorted(maps.Keys(english)) {
		if w.texts[key] == "" {
			l.Notices = append(l.Notices, fmt.Sprintf("%s has no %q: users get it in English", name, key))
		}
	}
	return nil
}

// For returns the writer for a user whose browser sends the header Accept-Language.
func (l *Look) For(accept string) *Writer {
	const longest = 500 // bytes that are read
	preferences, _, _ := language.ParseAcceptLanguage(accept[:min(len(accept), longest)])
	_, i, _ := l.matcher.Match(preferences...)
	return l.writers[i]
}

// say returns the text with a key. Names and values alternate in values; a value stands for {name} in the text. With markup, the text is HTML.
func (w *Writer) say(key string, markup bool, values ...string) string {
	text := cmp.Or(w.texts[key], english[key])
	if markup {
		text = html.EscapeString(text)
	}
	values = append([]string{"name", cmp.Or(w.look.Name, w.texts["app"], english["app"])}, values...)
	for i := 0; i < len(values); i += 2 {
		values[i] = "{" + values[i] + "}"
		if markup {
			values[i+1] = "<bdi>" + html.EscapeString(values[i+1]) + "</bdi>"
		}
	}
	return strings.NewReplacer(values...).Replace(text)
}

// Say returns the text with a key that has no values.
func (w *Writer) Say(key string) string { return w.say(key, false) }

// ScopeWords returns words for scopes: those of the operator's file for the language, of fromFile, or of all. A scope without words stands for
// itself.
func (w *Writer) ScopeWords(scopes []string, fromFile map[string]string) (all []string) {
	for _, scope := range scopes {
		key := "scope." + scope
		all = append(all, cmp.Or(w.own[key], fromFile[scope], w.texts[key], english[key], Printable(scope)))
	}
	return all
}

// Date returns the day of t, as users say it at the time now.
func (w *Writer) Date(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	day, key := t.Format(time.DateOnly), "date"
	switch {
	case day == now.Format(time.DateOnly):
		return w.Say("today")
	case day == now.AddDate(0, 0, -1).Format(time.DateOnly):
		return w.Say("yesterday")
	case t.Year() != now.Year():
		key = "date.year"
	}
	return w.say(key, false, "day", fmt.Sprint(t.Day()), "month", w.Say(fmt.Sprint("month.", int(t.Month()))), "year", fmt.Sprint(t.Year()))
}

// Printable returns a name of others for a page: at most 200 characters, without those that nobody sees, such as those that turn the direction
// of text.
func Printable(name string) string {
	const longest = 200
	all := []rune(strings.ToValidUTF8(name[:min(len(name), 4*longest)], ""))
	all = slices.DeleteFunc(all, func(r rune) bool { return !unicode.IsPrint(r) })
	return string(all[:min(len(all), longest)])
}
