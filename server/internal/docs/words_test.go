package docs

import (
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/keywright/keywright/internal/testworld"
)

func documents(t *testing.T) []string {
	t.Helper()
	paths := testworld.Must(filepath.Glob(filepath.Join(root, "*.md")))(t)
	names := []string{"NOTICE"}
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	for _, want := range []string{"README.md", "ABI.md", "ARCHITECTURE.md", "RATIONALE.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is missing", want)
		}
	}
	return names
}

var (
	absolutePath = regexp.MustCompile("(^|[\\s`\"'(=:])/(bin|etc|home|lib|mnt|opt|root|srv|tmp|usr|var|work|Users)\\b")
	address      = regexp.MustCompile("https?://[^\\s`\"'<>)|]+")
	link         = regexp.MustCompile(`\]\(([^)]+)\)`)
)

// Documents name no machine, proxy or directory of their authors.
func TestDocumentsNameNoPlace(t *testing.T) {
	for _, name := range documents(t) {
		text := document(t, name)
		if found := absolutePath.FindString(text); found != "" {
			t.Errorf("%s has the absolute path %q…", name, strings.TrimSpace(found))
		}
		for _, found := range address.FindAllString(text, -1) {
			u, err := url.Parse(strings.TrimRight(found, ".,;:"))
			if err != nil {
				t.Errorf("%s has %q, which is no URL", name, found)
				continue
			}
			host := u.Hostname()
			reserved := host == "example.com" || strings.HasSuffix(host, ".example.com") || strings.HasSuffix(host, ".example") ||
				strings.HasSuffix(host, ".test") || host == "127.0.0.1" || host == "localhost"
			if known := []string{"www.rfc-editor.org", "extism.org", "tinygo.org", "www.apache.org", "semver.org", "go.dev"}; !reserved && !slices.Contains(known, host) {
				t.Errorf("%s names the host %s: an example is under example.com or .test", name, host)
			}
		}
	}
}

// A link inside the repository leads to an existing file and heading.
func TestLinksBetweenDocumentsHold(t *testing.T) {
	for _, name := range texts(t) {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, match := range link.FindAllStringSubmatch(prose(t, name), -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			at := name
			if target != "" {
				at = filepath.Join(filepath.Dir(name), target)
			}
			switch found, err := filepath.Glob(filepath.Join(root, at)); {
			case err != nil || len(found) == 0:
				t.Errorf("%s links to %s, which is not there", name, match[1])
			case anchor != "" && !slices.Contains(anchors(t, at), anchor):
				t.Errorf("%s links to %s, but %s has no such heading", name, match[1], at)
			}
		}
	}
}

var notAnchor = regexp.MustCompile("[^a-z0-9 _-]")

// anchors returns the anchors of the headings of a document.
func anchors(t *testing.T, name string) (all []string) {
	t.Helper()
	for line := range strings.SplitSeq(prose(t, name), "\n") {
		if level, heading, ok := strings.Cut(line, "# "); ok && strings.Trim(level, "#") == "" {
			all = append(all, strings.ReplaceAll(notAnchor.ReplaceAllString(strings.ToLower(heading), ""), " ", "-"))
		}
	}
	return all
}

// Documents do not use words that need a second reading in place of a subject and a plain verb.
func TestDocumentWords(t *testing.T) {
	unclear := regexp.MustCompile(`(?im).*\b(gives|tells|is what|are what|whoever)\b.*`)
	for _, name := range texts(t) {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		for _, found := range unclear.FindAllString(code.ReplaceAllString(prose(t, name), "``"), -1) {
			t.Errorf("%s: %s\nsay who does what, or name what is meant", name, strings.TrimSpace(found))
		}
	}
}

// Bounds of documents, which may only fall. CHANGELOG.md, and docs/apis.md and docs/packages.md, which are generated, do not count.
const (
	mostWords       = 82_000
	mostReadmeLines = 250
	mostCell        = 200 // characters
)

// Documents can be read: they are short, and so are the cells of their tables.
func TestDocumentsStayShort(t *testing.T) {
	words := 0
	for _, name := range texts(t) {
		if !strings.HasSuffix(name, ".md") || slices.Contains([]string{"CHANGELOG.md", "docs/apis.md", "docs/packages.md"}, name) {
			continue
		}
		words += len(strings.Fields(document(t, name)))
		long := 0
		for line := range strings.SplitSeq(prose(t, name), "\n") {
			if !strings.HasPrefix(line, "|") {
				continue
			}
			for cell := range strings.SplitSeq(line, "|") {
				if utf8.RuneCountInString(strings.TrimSpace(cell)) > mostCell {
					long++
				}
			}
		}
		if long > 0 {
			t.Errorf("%s has %d cells of more than %d characters, want none", name, long, mostCell)
		}
	}
	if words > mostWords {
		t.Errorf("the documents have %d words, want at most %d", words, mostWords)
	}
	if lines := strings.Count(document(t, "README.md"), "\n"); lines > mostReadmeLines {
		t.Errorf("README.md has %d lines, want at most %d", lines, mostReadmeLines)
	}
}

// CHANGELOG.md has the form of Keep a Changelog: each entry is in an area of a kind of change, and the kinds are in their order. No
// entry is there twice, as after a merge.
func TestTheChangelogHasItsForm(t *testing.T) {
	kinds := []string{"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
	last, area, empty := -1, "", false
	lines := map[string]int{}
	for i, line := range strings.Split(document(t, "CHANGELOG.md"), "\n") {
		kind, isKind := strings.CutPrefix(line, "### ")
		name, isArea := strings.CutPrefix(line, "#### ")
		switch {
		case strings.HasPrefix(line, "## "):
			last, area = -1, ""
		case isKind:
			at := slices.Index(kinds, kind)
			if at <= last {
				t.Errorf("line %d: %s is no kind of change, or out of order", i+1, kind)
			}
			last, area = at, ""
		case isArea:
			if last < 0 || empty {
				t.Errorf("line %d: the area %s is below no kind of change, or the one before is empty", i+1, name)
			}
			area, empty = name, true
		case strings.HasPrefix(line, "- "):
			if area == "" {
				t.Errorf("line %d: the entry is in no area", i+1)
			}
			empty = false
			if before := lines[line]; before > 0 {
				t.Errorf("line %d: the entry is that of line %d", i+1, before)
			}
			lines[line] = i + 1
		}
	}
}
