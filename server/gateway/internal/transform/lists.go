package transform

import (
	"slices"
	"sort"
	"unicode/utf8"

	"github.com/expr-lang/expr/vm/runtime"
)

// length returns the number of elements, members or runes.
func length(r *run, a []any) (any, error) {
	switch value := a[0].(type) {
	case string:
		return utf8.RuneCountInString(value), r.pass(len(value))
	case []any:
		return len(value), nil
	case map[string]any:
		return len(value), nil
	}
	return nil, fail("len takes a list, an object or a text")
}

// extreme makes max and min: of numbers, and of those in lists. Their result is null when there are none.
func extreme(name string, worse func(a, b any) bool) func(*run, []any) (any, error) {
	var best func(r *run, found any, all []any) (any, error)
	best = func(r *run, found any, all []any) (_ any, err error) {
		for _, value := range all {
			if err := r.take(1); err != nil {
				return nil, err
			}
			inner, isList := value.([]any)
			_, isNumber := float(value)
			switch {
			case isList:
				if found, err = best(r, found, inner); err != nil {
					return nil, err
				}
			case !isNumber:
				return nil, fail("%s takes numbers, or lists of them", name)
			case found == nil || worse(found, value):
				found = value
			}
		}
		return found, nil
	}
	return func(r *run, a []any) (any, error) { return best(r, nil, a) }
}

// sorting sorts a list by its keys. Less panics with an error, which the virtual machine returns: sort has no other way
// to end.
type sorting struct {
	run        *run
	list, keys []any
	descending bool
}

func (s *sorting) Len() int { return len(s.list) }

func (s *sorting) Swap(i, j int) {
	s.list[i], s.list[j] = s.list[j], s.list[i]
	s.keys[i], s.keys[j] = s.keys[j], s.keys[i]
}

func (s *sorting) Less(i, j int) bool {
	if s.descending {
		i, j = j, i
	}
	if err := s.run.take(1); err != nil {
		panic(err)
	}
	less, err := lessThan(s.run, s.keys[i], s.keys[j])
	if err != nil {
		panic(err)
	}
	return less.(bool)
}

// lessThan is the < of the language.
var lessThan = order("<", runtime.Less).apply

// sortBy sorts a list by keys that were made for it, one for each element.
func sortBy(r *run, a []any) (any, error) {
	const element = 16
	list, keys := a[0].([]any), a[1].([]any)
	if err := r.spend(len(list) * element); err != nil {
		return nil, err
	}
	sorted := slices.Clone(list)
	sort.Sort(&sorting{r, sorted, keys, a[2].(bool)})
	return sorted, nil
}
