package leakscan

import (
	"bytes"
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

func (b *budget) earn(n int) { *b = min(*b+budget(earned*n), savings) }

// search is the state of searching some data.
type search struct {
	*Scanner
	data []byte
	// line is the number of bytes without white space before the data, at most minLine.
	line int
	// safe is the number of bytes at the beginning that no match includes, whatever data follows.
	safe int
	left *budget

	// cached holds escapes that have been read, by offset modulo its length.
	cached [16]cachedEscape
	// steps is the first memory for the steps of follow.
	steps [8]step
}

// cachedEscape is the escape at offset at of the data.
type cachedEscape struct {
	escape
	at int
}

// read returns the readings of the escape at offset at. They are valid until the next call.
func (s *search) read(at int) *escape {
	x := &s.cached[at%len(s.cached)]
	if x.at != at {
		x.at = at
		x.read(s.data[at:])
	}
	return &x.escape
}

// scan searches data and reports whether it found a text. safe is the number of bytes at the beginning that no match
// includes, whatever data follows. last means that no data follows. line is the number of bytes without white space
// before data, at most minLine. The steps are taken from left. If they do not suffice, scan reports found.
func (sc *Scanner) scan(data []byte, line int, last bool, left *budget) (found bool, safe int) {
	s := search{Scanner: sc, data: data, line: line, safe: len(data), left: left}
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
	*s.left -= budget(looks)
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
		return false
	case start+1 == len(data):
		s.safe = min(s.safe, start)
		return false
	default:
		return s.bigrams.has(0, data[start], data[start+1]) && s.follow(s.all(start), start)
	}
}

// escapes finds matches whose first escape is of this kind and near their beginning.
func (s *search) escapes(introducer byte, kind kinds) (found bool) {
	data := s.data
	for at := -1; ; {
		next := bytes.IndexByte(data[at+1:], introducer)
		if next < 0 {
			return false
		}
		at += 1 + next
		*s.left--
		if at+1 < len(data) && s.escapeSecondBytes[data[at+1]]&kind == 0 {
			continue
		}
		if kind&(feeds|returns) != 0 && s.hopeless(at) {
			continue
		}
		if s.behind(at) || s.from(at) || *s.left < 0 {
			return true
		}
	}
}

// behind finds matches whose first escape is at offset at, behind two bytes or more.
func (s *search) behind(at int) (found bool) {
	if at < 2 {
		return false
	}
	data := s.data
	if two, ok := s.grow(head{}, data[at-2:at]); ok && s.leads(two, at) && s.continues(at-2, at) {
		return true
	}
	if at < 3 || int(s.shifts[s.place(data[at-3], data[at-2], data[at-1])]) == s.window-2 {
		return false
	}
	for i := 3; i < s.window && i <= at; i++ {
		if _, ok := s.grow(head{}, data[at-i:at]); ok && s.continues(at-i, at) {
			return true
		}
	}
	return false
}

// continues finds matches that begin at start and have no escape before offset at.
func (s *search) continues(start, at int) (found bool) {
	here := s.all(start)
	for here.at < at && here.lo < here.hi {
		here = s.take(here, s.data[here.at:here.at+1], 1)
	}
	return here.lo < here.hi && s.follow(here, start)
}

// from finds matches that begin with the escape at offset at, or with the byte before it.
func (s *search) from(at int) (found bool) {
	if at > 0 {
		if one, ok := s.grow(head{}, s.data[at-1:at]); ok && s.leads(one, at) && s.continues(at-1, at) {
			return true
		}
	}
	return s.leads(head{}, at) && s.follow(s.all(at), at)
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
		case h.length == 1 && !sc.firstBytes[c].any(), h.length == 2 && !sc.bigrams.has(0, h.text[0], c), h.length == 3 && !sc.trigrams.has(h.text[0], h.text[1], c):
			return h, false
		}
	}
	return h, true
}

// leads reports whether a pattern may begin with h and the data at offset at. It rejects most escapes.
func (s *search) leads(h head, at int) bool {
	if h.length == len(h.text) || at == len(s.data) {
		return true
	}
	*s.left--
	data := s.data[at:]
	if grown, ok := s.grow(h, data[:1]); ok && s.leads(grown, at+1) {
		return true
	}
	if !s.isIntroducer[data[0]] {
		return false
	}
	for n := range s.read(at).count {
		r := &s.read(at).readings[n]
		if grown, ok := s.grow(h, r.bytes()); ok && s.leads(grown, at+r.taken) {
			return true
		}
	}
	x := s.read(at)
	return x.partial || h.length > 0 && x.lineBreak(data) > 0
}

// step is a state of follow: the patterns from lo up to hi, which are equal in their first i bytes, match the data up to
// offset at.
type step struct {
	lo, hi int
	i, at  int
	// broken is set if the match so far has a line break, which only Base64 may have.
	broken bool
}

// all returns the step of all patterns before their first byte.
func (sc *Scanner) all(at int) step { return step{0, len(sc.patterns), 0, at, false} }

// take returns the step behind the bytes of text, for which taken bytes of the data stand. It has no patterns if no
// pattern continues with text.
func (sc *Scanner) take(s step, text []byte, taken int) step {
	s.at += taken
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
