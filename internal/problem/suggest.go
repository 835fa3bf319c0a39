package problem

import (
	"fmt"
	"strings"
)

// DidYouMean returns the end of an error message for an unknown name. It suggests the nearest known name, or lists all of
// them if none is near.
func DidYouMean(name string, names []string) string {
	if suggestion, ok := Nearest(name, names); ok {
		return fmt.Sprintf("; did you mean %q?", suggestion)
	}
	return "; there are " + strings.Join(names, ", ")
}

// Nearest returns the known name that was probably meant, if there is one. Such a name differs only in case, is the plural or
// the singular of name, or is at most two typing errors away (one, if name has less than six letters).
func Nearest(name string, names []string) (string, bool) {
	best, distance := "", 1+min(2, max(1, len(name)/3))
	for _, k := range names {
		if strings.EqualFold(name, k) || singular(name) == singular(k) {
			return k, true
		}
		if max(len(name)-len(k), len(k)-len(name)) >= distance {
			continue // each extra or missing letter is a typing error
		}
		if d := slips(name, k); d < distance {
			best, distance = k, d
		}
	}
	return best, best != ""
}

// singular returns the singular of an English noun: proxy for proxies.
func singular(name string) string {
	if stem, ok := strings.CutSuffix(name, "ies"); ok {
		return stem + "y"
	}
	return strings.TrimSuffix(name, "s")
}

// slips returns the number of typing errors between two names: extra, missing and wrong letters, and swapped neighbours. It
// is the restricted Damerau–Levenshtein distance.
func slips(a, b string) int {
	const longest = 64
	if len(a) > longest || len(b) > longest {
		return longest
	}
	var previous, last []int // the last two rows of the table of distances between prefixes of a and b
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
				row[j] = min(row[j], previous[j-2]+1)
			}
		}
		previous, last = last, row
	}
	return last[len(b)]
}
