package problem

import (
	"fmt"
	"strings"
)

// DidYouMean returns the end of an error for a name that is not known: the name that was probably meant, or else all that
// there are.
func DidYouMean(name string, known []string) string {
	if meant, ok := Nearest(name, known); ok {
		return fmt.Sprintf("; did you mean %q?", meant)
	}
	return "; there are " + strings.Join(known, ", ")
}

// Nearest returns the name that was probably meant: one that is as near as a slip of the hand, differs in case, or is the
// plural or the singular of it; or none.
func Nearest(name string, known []string) (string, bool) {
	best, distance := "", 1+min(2, max(1, len(name)/3))
	for _, k := range known {
		if strings.EqualFold(name, k) || singular(name) == singular(k) {
			return k, true
		}
		if max(len(name)-len(k), len(k)-len(name)) >= distance {
			continue // each letter too many or missing is a slip
		}
		if d := slips(name, k); d < distance {
			best, distance = k, d
		}
	}
	return best, best != ""
}

// singular returns the same for proxy and proxies.
func singular(name string) string {
	if stem, ok := strings.CutSuffix(name, "ies"); ok {
		return stem + "y"
	}
	return strings.TrimSuffix(name, "s")
}

// slips counts the letters that are too many, missing, wrong, or in the wrong order between two names.
func slips(a, b string) int {
	const longest = 64
	if len(a) > longest || len(b) > longest {
		return longest
	}
	var before, last []int // the rows of a table: how far the beginnings of the names are from each other
	for i := range len(a) + 1 {
		row := make([]int, len(b)+1)
		for j := range row {
			if i == 0 || j == 0 {
				row[j] = i + j
				continue
			}
			wrong := 1
			if a[i-1] == b[j-1] {
				wrong = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+wrong)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
