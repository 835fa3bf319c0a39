package docs

import (
	"slices"
	"strings"
	"testing"
)

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
