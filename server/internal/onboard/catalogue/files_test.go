package catalogue

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/keywright/keywright/internal/testworld"
)

// checked returns the product of a file and what is missing or wrong in the file.
func checked(name, text string) (*API, []string) {
	apis, err := read(fstest.MapFS{"apis/" + name: {Data: []byte(text)}})
	if err != nil {
		return nil, []string{err.Error()}
	}
	return apis[0], apis[0].problems(strings.TrimSuffix(name, ".yaml"))
}

// Each file of the catalogue has everything that a newcomer needs.
func TestFiles(t *testing.T) {
	names := testworld.Must(files.ReadDir("apis"))(t)
	for _, name := range names {
		text := testworld.Must(files.ReadFile(path.Join("apis", name.Name())))(t)
		if _, wrong := checked(name.Name(), string(text)); len(wrong) > 0 {
			t.Errorf("%s: Join = %s", name.Name(), strings.Join(wrong, "; "))
		}
	}
}

// problems returns what is missing or wrong in the file of a product.
func (a *API) problems(file string) (wrong []string) {
	report := func(when bool, format string, args ...any) {
		if when {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	for _, m := range [][2]string{{"title", a.Title}, {"summary", a.Summary}, {"docs", a.Docs}, {"try", a.Try}, {"connector", a.Connector}} {
		report(m[1] == "", "%s is missing", m[0])
	}
	report(a.Name != file, "name is %q, and the file is %s.yaml", a.Name, file)
	docs, err := url.Parse(a.Docs)
	report(err != nil || docs.Scheme != "https" || docs.Host == "", "docs is no https URL")
	method, request := a.Request()
	report(method == "" || !strings.HasPrefix(request, "/"), "try is no method and path")
	report(len(a.Fill) == 0 && a.AuthType() != "none", "fill is missing")
	report(len(a.Mistakes) == 0, "mistakes is missing")
	for i, m := range a.Mistakes {
		report(m.Do == "" || m.See == "", "mistakes[%d] lacks do or see", i)
	}
	report(a.parsed.Name == "" || a.parsed.URL == "" || a.AuthType() == "", "connector lacks name, url or auth.type")
	report(!strings.HasSuffix(a.Connector, "\n"), "connector lacks the last line break")
	report(a.unlisted() != "", "fill lacks the secret %s", a.unlisted())
	for i, f := range a.Fill {
		for _, w := range f.problems(a) {
			report(true, "fill[%d] %s", i, w)
		}
	}
	return wrong
}

// problems returns what is missing or wrong in an item of Fill.
func (f *Fill) problems(a *API) (wrong []string) {
	if f.What == "" || f.Where == "" || f.Example == "" {
		wrong = append(wrong, "lacks what, where or example")
	}
	switch {
	case (f.Secret == "") == (f.Replace == ""):
		wrong = append(wrong, "has to have either secret or replace")
	case f.Replace != "" && !strings.Contains(a.Connector, f.Replace):
		wrong = append(wrong, "replaces "+f.Replace+", which the connector does not have")
	case f.Secret != "" && !strings.Contains(a.Connector, "get_secret('"+f.Secret+"')"):
		wrong = append(wrong, "has the secret "+f.Secret+", which the connector does not name")
	case f.Secret != "" && f.Secret != a.Name && !strings.HasPrefix(f.Secret, a.Name+"-"):
		wrong = append(wrong, "has the secret "+f.Secret+", which has to begin with the name of the product")
	}
	return wrong
}

// unlisted returns a secret that the connector names and Fill does not, or "".
func (a *API) unlisted() string {
	for _, match := range secretName.FindAllStringSubmatch(a.Connector, -1) {
		if !slices.ContainsFunc(a.Fill, func(f Fill) bool { return f.Secret == match[1] }) {
			return match[1]
		}
	}
	return ""
}
