package leakscan

import (
	"bytes"
	"slices"
	"sort"
)

// budget is the number of steps that a search may still take: offsets to examine and bytes to follow. Each byte of an
// answer earns some. An answer that needs more nearly repeats a pattern over and over. It counts as a match, because an
// author of both the pattern and the answer could make each byte cost thousands of steps.
type budget int

const (
	earned  = 8       // steps that each byte earns
	savings = 1 << 20 // budget at the beginning, and its maximum
)

type search struct {
	*Scanner
	data []byte
	// line is the number of bytes without white space before the data, at most minLine.
	line int
	// safe is the number of bytes at the beginning that no match includes, whatever data follows.
	safe   int
	effort *budget

	// cached holds escapes that have been read, by offset modulo its length.
	cached [16]cachedEscape
	// steps is the first memory for the steps of follow.
	steps [8]step
}

type cachedEscape struct {
	escape
	pos int
}

// read returns the readings of the escape at offset pos. They are valid until the next call.
func (s *search) read(pos int) *escape {
	x := &s.cached[pos%len(s.cached)]
	if x.pos != pos {
		x.pos = pos
		x.read(s.data[pos:])
	}
	return &x.escape
}

// scan searches data and reports whether it found a text. safe is the number of bytes at the beginning that no match
// includes, whatever data follows. last means that no data follows. line is the number of bytes without white space
// before data, at most minLine. The steps are taken from effort. If they do not suffice, scan reports found.
func (sc *Scanner) scan(data []byte, line int, last bool, effort *budget) (found bool, safe int) {
	s := search{Scanner: sc, data: data, line: line, safe: len(data), effort: effort}
	for i := range s.cached {
		s.cached[i] = cachedEscape{escape{last: last}, -1}
	}
	found = s.plain()
	for i := 0; i < len(sc.introducers) && !found; i++ {
		found = s.escapes(sc.introducers[i], 1<<i)
	}
	return found, s.safe
}

// plain finds matches that have no escape in their first window bytes, or in all their bytes before the end of the data.
func (s *search) plain() (found bool) {
	data, last, looks := s.data, s.window-1, 0
	for ; last < len(data); looks++ {
		if shift := s.shifts[s.place(data[last-2], data[last-1], data[last])]; shift > 0 {
			last += int(shift)
			continue
		}
		if s.matchAt(last - s.window + 1) {
			return true
		}
		last++
	}
	*s.effort -= budget(looks)
	for start := max(0, last-s.window+1); start < s.safe; start++ {
		if s.matchAt(start) {
			return true
		}
	}
	return false
}

// matchAt finds matches that begin at start with two bytes without escapes.
func (s *search) matchAt(start int) (found bool) {
	switch data := s.data; {
	case !s.firstBytes[data[start]].any():
	case start+1 == len(data):
		s.safe = min(s.safe, start)
	default:
		return s.bigrams.contains(0, data[start], data[start+1]) && s.follow(s.all(start), start)
	}
	return false
}

// escapes finds matches whose first escape is of this kind and near their beginning.
func (s *search) escapes(introducer byte, kind kinds) (found bool) {
	data := s.data
	for pos := -1; ; {
		next := bytes.IndexByte(data[pos+1:], introducer)
		if next < 0 {
			return false
		}
		pos += 1 + next
		*s.effort--
		if pos+1 < len(data) && s.escapeSecondBytes[data[pos+1]]&kind == 0 {
			continue
		}
		// Most line breaks cannot be part of Base64.
		if kind&(feeds|returns) != 0 && (pos == 0 || !base64Characters[data[pos-1]] || line(data[:pos], s.line) < minLine) {
			continue
		}
		if s.behind(pos) || s.from(pos) || *s.effort < 0 {
			return true
		}
	}
}

// behind finds matches whose first escape is at offset pos, behind two bytes or more.
func (s *search) behind(pos int) (found bool) {
	if pos < 2 {
		return false
	}
	data := s.data
	if two, ok := s.grow(head{}, data[pos-2:pos]); ok && s.leads(two, pos) && s.continues(pos-2, pos) {
		return true
	}
	if pos < 3 || int(s.shifts[s.place(data[pos-3], data[pos-2], data[pos-1])]) == s.window-2 {
		return false
	}
	for i := 3; i < s.window && i <= pos; i++ {
		if _, ok := s.grow(head{}, data[pos-i:pos]); ok && s.continues(pos-i, pos) {
			return true
		}
	}
	return false
}

// continues finds matches that begin at start and have no escape before offset pos.
func (s *search) continues(start, pos int) (found bool) {
	here := s.all(start)
	for here.pos < pos && here.lo < here.hi {
		here = s.take(here, s.data[here.pos:here.pos+1], 1)
	}
	return here.lo < here.hi && s.follow(here, start)
}

// from finds matches that begin with the escape at offset pos, or with the byte before it.
func (s *search) from(pos int) (found bool) {
	if pos > 0 {
		if one, ok := s.grow(head{}, s.data[pos-1:pos]); ok && s.leads(one, pos) && s.continues(pos-1, pos) {
			return true
		}
	}
	return s.leads(head{}, pos) && s.follow(s.all(pos), pos)
}

// head is the beginning of patterns, at most three bytes.
type head struct {
	text   [3]byte
	length int
}

// grow returns h with the bytes of text added, up to three bytes. ok is false if no pattern begins with them.
func (sc *Scanner) grow(h head, text []byte) (grown head, ok bool) {
	for _, c := range text[:min(len(text), len(h.text)-h.length)] {
		h.text[h.length] = c
		h.length++
		switch {
		case h.length == 1 && !sc.firstBytes[c].any(), h.length == 2 && !sc.bigrams.contains(0, h.text[0], c), h.length == 3 && !sc.trigrams.contains(h.text[0], h.text[1], c):
			return h, false
		}
	}
	return h, true
}

// leads reports whether a pattern may begin with h and the data at offset pos. It rejects most escapes.
func (s *search) leads(h head, pos int) bool {
	if h.length == len(h.text) || pos == len(s.data) {
		return true
	}
	*s.effort--
	data := s.data[pos:]
	if grown, ok := s.grow(h, data[:1]); ok && s.leads(grown, pos+1) {
		return true
	}
	if !s.isIntroducer[data[0]] {
		return false
	}
	for n := range s.read(pos).count {
		r := &s.read(pos).readings[n]
		if grown, ok := s.grow(h, r.bytes()); ok && s.leads(grown, pos+r.span) {
			return true
		}
	}
	x := s.read(pos)
	return x.partial || h.length > 0 && x.lineBreak(data) > 0
}

// step is a state of follow: the patterns from lo up to hi, which are equal in their first i bytes, match the data up to offset at.
type step struct {
	lo, hi int
	i, pos int
	// broken is set if the match so far has a line break, which only Base64 may have.
	broken bool
}

// all returns the step of all patterns before their first byte.
func (sc *Scanner) all(pos int) step { return step{0, len(sc.patterns), 0, pos, false} }

// take returns the step behind the bytes of text, for which taken bytes of the data stand. It has no patterns if no
// pattern continues with text.
func (sc *Scanner) take(s step, text []byte, taken int) step {
	s.pos += taken
	for _, c := range text {
		if s.i == 0 {
			s.lo, s.hi = int(sc.firstBytes[c].lo), int(sc.firstBytes[c].hi)
		} else {
			s.lo, s.hi = sc.narrow(s.lo, s.hi, s.i, int(c))
		}
		s.i++
	}
	return s
}

// narrow returns the patterns from lo up to hi whose byte i is c. They must be equal in their first i bytes.
func (sc *Scanner) narrow(lo, hi, i, c int) (from, to int) {
	if lo == hi || sc.patterns[lo].byte(i) == c && sc.patterns[hi-1].byte(i) == c {
		return lo, hi
	}
	if lo+1 == hi {
		return lo, lo
	}
	from = lo + sort.Search(hi-lo, func(n int) bool { return sc.patterns[lo+n].byte(i) >= c })
	to = from + sort.Search(hi-from, func(n int) bool { return sc.patterns[from+n].byte(i) > c })
	return from, to
}

// byte returns byte i of the text, or -1 if the text is shorter.
func (n *pattern) byte(i int) int {
	if i >= len(n.text) {
		return -1
	}
	return int(n.text[i])
}

// follow matches the patterns of a step against the data. The possible match begins at start. It tries all readings of
// an escape. It continues with the step that is least far in the data, so that readings that meet again are followed
// once. It also reports found if the budget is used up.
func (s *search) follow(from step, start int) (found bool) {
	const followCost = 8 // the number of steps that each call of follow costs at least
	*s.effort -= followCost
	for steps := append(s.steps[:0], from); len(steps) > 0 && *s.effort >= 0; {
		*s.effort -= budget(len(steps))
		minimum := 0
		for n := range steps {
			if steps[n].pos < steps[minimum].pos {
				minimum = n
			}
		}
		here := steps[minimum]
		steps[minimum] = steps[len(steps)-1]
		steps = steps[:len(steps)-1]
		if len(steps) == 0 {
			here = s.skipEqual(here)
		}
		if s.matches(here) {
			return true
		}
		if here.pos == len(s.data) {
			s.holdBack(here, start)
			continue
		}
		c := s.data[here.pos : here.pos+1]
		steps = add(steps, s.take(here, c, 1))
		if !s.isIntroducer[c[0]] {
			continue
		}
		x := s.read(here.pos)
		for m := range x.count {
			r := &x.readings[m]
			steps = add(steps, s.take(here, r.bytes(), r.span))
		}
		if width := x.lineBreak(s.data[here.pos:]); width > 0 && s.anyBase64(here) && line(s.data[:here.pos], s.line) == minLine {
			steps = add(steps, step{here.lo, here.hi, here.i, here.pos + width, true})
		}
		if x.partial {
			s.holdBack(here, start)
		}
	}
	return *s.effort < 0
}

// skipEqual returns the step behind the bytes that the data and the pattern have in common, up to an escape. A step of
// several patterns stays as it is.
func (s *search) skipEqual(here step) step {
	if here.lo+1 != here.hi {
		return here
	}
	pattern, data := s.patterns[here.lo].text[here.i:], s.data[here.pos:]
	n := 0
	for n < len(pattern) && n < len(data) && pattern[n] == data[n] && !s.isIntroducer[data[n]] {
		n++
	}
	*s.effort -= budget(n / 8)
	here.i += n
	here.pos += n
	return here
}

// matches reports whether one of the patterns of a step ends at it.
func (s *search) matches(here step) bool {
	for n := here.lo; n < here.hi && len(s.patterns[n].text) == here.i; n++ {
		if !here.broken || s.patterns[n].base64 {
			return true
		}
	}
	return false
}

// holdBack records that a match may begin at start and go on in data that is yet to come.
func (s *search) holdBack(here step, start int) {
	if !here.broken || s.anyBase64(here) {
		s.safe = min(s.safe, start)
	}
}

// anyBase64 reports whether one of the patterns of a step is Base64.
func (s *search) anyBase64(here step) bool {
	return slices.ContainsFunc(s.patterns[here.lo:here.hi], func(p pattern) bool { return p.base64 })
}

// add adds a step, unless it has no patterns or is among steps already.
func add(steps []step, s step) []step {
	if s.lo == s.hi || slices.Contains(steps, s) {
		return steps
	}
	return append(steps, s)
}
