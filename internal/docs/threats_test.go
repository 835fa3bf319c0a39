package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestThreats holds docs/threats.md and the tests to each other: each row is named by a test, and tests name rows that
// are there.
func TestThreats(t *testing.T) {
	rows := map[string]bool{} // whether a test names it
	page, err := os.ReadFile("../../docs/threats.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile(`(?m)^\| (\d+[a-z]?) \|`).FindAllStringSubmatch(string(page), -1) {
		if _, twice := rows[match[1]]; twice {
			t.Errorf("docs/threats.md: there are two rows %s", match[1])
		}
		rows[match[1]] = false
	}
	if len(rows) < 57 {
		t.Fatalf("docs/threats.md has %d rows; they were 57 once", len(rows))
	}
	err = filepath.WalkDir("../..", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".."):
			return fs.SkipDir
		case !strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "internal/docs/threats_test.go"):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, row := range namedRows(string(text)) {
			if _, known := rows[row]; !known {
				t.Errorf("%s names row %s of the threats, which docs/threats.md does not have", name, row)
			}
			rows[row] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for row, named := range rows {
		if !named {
			t.Errorf("docs/threats.md: no test names row %s", row)
		}
	}
}

// In comments rows are named as in "threats.md 29, 31 and 33", in names of tests as in "threats_29_31".
var (
	namedInComment = regexp.MustCompile(`threats\.md (\d+[a-z]?(?:(?:, | and |, and )\d+[a-z]?\b)*)`)
	namedInName    = regexp.MustCompile(`threats((?:_\d+[a-z]?)+)\b`)
	rowNumber      = regexp.MustCompile(`\d+[a-z]?`)
)

// namedRows returns the rows of the threats that a test's source names.
func namedRows(source string) []string {
	var rows []string
	for _, pattern := range []*regexp.Regexp{namedInComment, namedInName} {
		for _, match := range pattern.FindAllStringSubmatch(source, -1) {
			rows = append(rows, rowNumber.FindAllString(match[1], -1)...)
		}
	}
	return rows
}
