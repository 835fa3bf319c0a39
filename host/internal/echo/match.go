package echo

import "strings"

// escaped is scan for what has its first escape here: so that what stands before it in the data is what stands in a
// needle before the character.
func (s *search) escaped(at int) (found bool, safe int) {
	data, x := s.data, &s.x
	safe = len(data)
	x.read(data[at:])
	for n := range x.count {
		r := &x.readings[n]
		c := r.text[0]
		first := s.first[c]
		second := at > 0 && s.second.has(0, data[at-1], c)
		later := at > 1 && (alphanumeric[c] || s.later.has(data[at-2], data[at-1], c))
		if !first && !second && !later {
			continue
		}
		for m := range s.needles {
			needle := s.needles[m].text
			from := 2
			switch {
			case first:
				from = 0
			case second:
				from = 1
			}
			for i := next(needle, from, c); i >= 0 && i <= at; i = next(needle, i+1, c) {
				*s.effort--
				if i > 0 && needle[i-1] != data[at-1] || needle[:i] != string(data[at-i:at]) || !strings.HasPrefix(needle[i:], string(r.bytes())) {
					continue
				}
				switch s.follow(&s.needles[m], i+r.length, at+r.taken) {
				case matched:
					return true, 0
				case begun:
					safe = min(safe, at-i)
				}
			}
		}
	}
	if x.partial {
		safe = min(safe, s.longest(data[:at]))
	}
	found, start := s.broken(at)
	return found, min(safe, start)
}

func next(text string, from int, c byte) int {
	i := strings.IndexByte(text[from:], c)
	if i < 0 {
		return -1
	}
	return from + i
}

// longest returns where the longest end of the data begins that a needle begins with, and may go on from with an
// escape.
func (f *Finder) longest(data []byte) int {
	longest := 0
	for n := range f.needles {
		needle := f.needles[n].text
		for i := min(len(needle)-1, len(data)); i > longest; i-- {
			if needle[i-1] == data[len(data)-1] && needle[:i] == string(data[len(data)-i:]) {
				longest = i
			}
		}
	}
	return len(data) - longest
}

// outcome is what following a needle comes to.
type outcome int

const (
	different outcome = iota
	begun             // the data ends before the needle does
	matched
)

// step is how far a needle and the data have been followed.
type step struct{ i, at int }

// follow goes on with a needle and the data. Where an escape may be taken in several ways, it takes all of them; the one
// that is the least far in the data goes first, so that ways that meet are followed once.
func (s *search) follow(n *needle, i, at int) outcome {
	needle, data, result := n.text, s.data, different
	var few [8]step
	x := escape{last: s.x.last}
	steps := append(few[:0], step{i, at})
	for len(steps) > 0 && *s.effort >= 0 {
		*s.effort -= len(steps)
		least := 0
		for n := range steps {
			if steps[n].at < steps[least].at {
				least = n
			}
		}
		here := steps[least]
		steps[least] = steps[len(steps)-1]
		steps = steps[:len(steps)-1]
		switch {
		case here.i == len(needle):
			return matched
		case here.at == len(data):
			result = begun
			continue
		}
		c := data[here.at]
		if c == needle[here.i] {
			steps = add(steps, step{here.i + 1, here.at + 1})
		}
		if strings.IndexByte(s.intros, c) < 0 {
			continue
		}
		x.read(data[here.at:])
		for m := range x.count {
			if r := &x.readings[m]; strings.HasPrefix(needle[here.i:], string(r.bytes())) {
				steps = add(steps, step{here.i + r.length, here.at + r.taken})
			}
		}
		if n.base64 {
			if taken := x.lineBreak(data[here.at:]); taken > 0 && line(data[:here.at], s.line) == minLine {
				steps = add(steps, step{here.i, here.at + taken})
			}
		}
		if x.partial {
			result = begun
		}
	}
	return result
}

func add(steps []step, s step) []step {
	for _, other := range steps {
		if other == s {
			return steps
		}
	}
	return append(steps, s)
}
