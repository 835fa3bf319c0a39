package docs

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// part is a row, a rule or a case of a page. Other texts refer to it.
type part struct {
	name  string
	shown bool // reports whether a test refers to it
	text  string
}

// page is a document with parts. References have the forms "threats.md 18", "specification.md 3.8" and
// `specification.md "whose token"`.
type page struct {
	parts    map[string]*part // by number or plain name
	sections map[string]bool  // the numbers and plain names of the sections
}

var (
	headLine = regexp.MustCompile(`^##+ (?:(\d+)\. )?(.+)$`)
	rowLine  = regexp.MustCompile(`^\| ([^|]+) \|(.+)$`)
	ruleLine = regexp.MustCompile(`^\*\*(\d+\.\d+)\*\* (.*)$|^- \*\*([^*]+)\*\*: (.*)$`) // a rule, or a case below it
	notPlain = regexp.MustCompile(`[^a-z0-9]`)
)

// plain returns the letters and digits of a name, in lower case, so that it can be part of a test's name.
func plain(name string) string { return notPlain.ReplaceAllString(strings.ToLower(name), "") }

// readPage returns the parts of a page in docs. A part begins with a line that matches pattern and extends to the next one. Its name
// is a number, or that of a case, which shows the rule above it.
func readPage(t *testing.T, name string, pattern *regexp.Regexp) *page {
	t.Helper()
	p := &page{parts: map[string]*part{}, sections: map[string]bool{}}
	var last, rule *part
	for line := range strings.SplitSeq(document(t, "docs/"+name), "\n") {
		if match := headLine.FindStringSubmatch(line); match != nil {
			last, rule = nil, nil
			p.sections[plain(match[2])] = true
			if match[1] != "" {
				p.sections[match[1]] = true
			}
		}
		match := pattern.FindStringSubmatch(line)
		if match == nil || strings.HasPrefix(match[2], "---") || match[1] == "row" {
			if last != nil {
				last.text += line + "\n"
			}
			continue
		}
		last = &part{name: match[1], text: match[2] + "\n"}
		key := last.name
		switch {
		case key != "":
			rule = last
		default:
			last.name, last.text, key = match[3], match[4]+"\n", plain(match[3])
			if rule != nil {
				rule.shown = true
			}
		}
		if p.parts[key] != nil {
			t.Errorf("docs/%s has %q twice", name, last.name)
		}
		p.parts[key] = last
	}
	if len(p.parts) < 50 {
		t.Fatalf("docs/%s has %d parts; there were more", name, len(p.parts))
	}
	return p
}

// pages returns the pages whose parts need tests, by name.
func pages(t *testing.T) map[string]*page {
	t.Helper()
	return map[string]*page{
		"threats.md":       readPage(t, "threats.md", rowLine),
		"specification.md": readPage(t, "specification.md", ruleLine),
	}
}

const (
	item  = `(?:\d+(?:\.\d+)?[a-z]?\b|"[^"]+")`
	items = item + `(?:(?:, and |, | and )` + item + `)*`
)

var (
	broken       = regexp.MustCompile(`\n[ \t]*(?:// ?)?`) // line breaks in a comment
	reference    = regexp.MustCompile(`\b(threats|specification)\.md (` + items + `)`)
	oneItem      = regexp.MustCompile(item)
	bare         = regexp.MustCompile(`(docs/)?\b(?:threats|specification)\.md\b( ["\d])?`)
	threatName   = regexp.MustCompile(`threats((?:_\d+[a-z]?)+)\b`)
	decisionName = regexp.MustCompile(`func TestDecision_(\w+)\(`)
	anyDocument  = regexp.MustCompile(`[A-Za-z-]+\.md\b`)
)

// find returns the part for an item of a reference. ok reports whether the item exists. For a section there is no part.
func (p *page) find(item string) (found *part, ok bool) {
	key := item
	if strings.HasPrefix(item, `"`) {
		key = plain(item)
	}
	found = p.parts[key]
	return found, found != nil || p.sections[key]
}

// named returns the case with the longest name that is a prefix of a test's name after TestDecision_ and a topic.
func (p *page) named(test string) (found *part) {
	longest := ""
	_, test, _ = strings.Cut(test, "_")
	for name, one := range p.parts {
		if strings.HasPrefix(plain(test), name) && len(name) > len(longest) {
			longest, found = name, one
		}
	}
	return found
}

// Every reference to a threat, a rule or a case has a target, and a test refers to each of them, or to a case of the rule.
func TestReferences(t *testing.T) {
	all := pages(t)
	for _, name := range texts(t) {
		text := broken.ReplaceAllString(document(t, name), " ")
		for _, found := range refer(t, all, name, text) {
			found.shown = found.shown || strings.HasSuffix(name, "_test.go")
		}
	}
	for number, r := range all["specification.md"].parts {
		for _, match := range reference.FindAllStringSubmatch(broken.ReplaceAllString(r.text, " "), -1) {
			if match[1] == "specification" {
				t.Errorf("docs/specification.md: rule %s refers to a rule, which shows nothing", number)
			}
			r.shown = true
		}
	}
	for name, p := range all {
		for _, one := range p.parts {
			if !one.shown {
				t.Errorf("docs/%s: no test names %q", name, one.name)
			}
		}
	}
}

// refer returns the parts of pages to which a text refers. A reference without a target is an error.
func refer(t *testing.T, all map[string]*page, name, text string) (found []*part) {
	t.Helper()
	look := func(page, item string) {
		one, ok := all[page].find(item)
		if !ok {
			t.Errorf("%s refers to %s %s, which is not there", name, page, item)
		}
		if one != nil {
			found = append(found, one)
		}
	}
	for _, match := range reference.FindAllStringSubmatch(text, -1) {
		for _, item := range oneItem.FindAllString(match[2], -1) {
			look(match[1]+".md", item)
		}
	}
	if !strings.HasSuffix(name, ".go") {
		return found
	}
	for _, match := range threatName.FindAllStringSubmatch(text, -1) {
		for number := range strings.SplitSeq(match[1][1:], "_") {
			look("threats.md", number)
		}
	}
	for _, match := range decisionName.FindAllStringSubmatch(text, -1) {
		one := all["specification.md"].named(match[1])
		if one == nil {
			t.Errorf("%s: docs/specification.md has no case that TestDecision_%s names", name, match[1])
			continue
		}
		found = append(found, one)
	}
	for _, match := range bare.FindAllStringSubmatch(text, -1) {
		if match[1] == "" && match[2] == "" {
			t.Errorf("%s names %s without a number, or a name in quotes", name, match[0])
		}
	}
	return found
}

// The names and the files in the table "Where to look" of ARCHITECTURE.md are in the packages to which their row links.
func TestWhereToLook(t *testing.T) {
	file := regexp.MustCompile(`\b[a-z]+\.go\b`)
	table := rows(under(t, "ARCHITECTURE.md", "## Where to look"))
	if len(table) < 40 {
		t.Errorf("the table has %d rows, want 40 or more", len(table))
	}
	for _, row := range table {
		source, there := "", map[string]bool{}
		for _, match := range link.FindAllStringSubmatch(row[1], -1) {
			names := testworld.Must(filepath.Glob(filepath.Join(root, match[1], "*.go")))(t)
			for _, name := range names {
				source += document(t, strings.TrimPrefix(filepath.ToSlash(name), root+"/"))
				there[filepath.Base(name)] = true
			}
		}
		for _, name := range file.FindAllString(row[1], -1) {
			if !there[name] {
				t.Errorf("%s: no package of the row has the file %s", row[0], name)
			}
		}
		for _, span := range spans(row[1]) {
			name := span[strings.LastIndex(span, ".")+1:]
			if !regexp.MustCompile(`\b` + name + `\b`).MatchString(source) {
				t.Errorf("%s: no package of the row has %s", row[0], span)
			}
		}
	}
}

// Documents that comments name are in the repository.
func TestDocumentsNamedByComments(t *testing.T) {
	documents := map[string]bool{}
	for _, pattern := range []string{"*.md", "docs/*.md", "server/bench/*.md"} {
		found := testworld.Must(filepath.Glob(filepath.Join(root, pattern)))(t)
		for _, name := range found {
			documents[filepath.Base(name)] = true
		}
	}
	for _, name := range texts(t) {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		for _, found := range anyDocument.FindAllString(document(t, name), -1) {
			if !documents[found] {
				t.Errorf("%s names %s, which is not there", name, found)
			}
		}
	}
}

// texts returns the names of all files that people write. It leaves out the tests of this package, whose patterns look like
// references.
func texts(t *testing.T) (names []string) {
	t.Helper()
	kinds := []string{".go", ".md", ".yml", ".yaml", ".txt", ".txtar", ".ts", ".py", "Makefile", "Dockerfile"}
	testworld.Check(t, filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err = filepath.Rel(root, name)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || len(name) > 1 && strings.HasPrefix(name, ".") || name == "server/internal/docs"):
			return fs.SkipDir
		case !entry.IsDir() && slices.ContainsFunc(kinds, func(kind string) bool { return strings.HasSuffix(name, kind) }):
			names = append(names, name)
		}
		return nil
	}))
	return names
}
