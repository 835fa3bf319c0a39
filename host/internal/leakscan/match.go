package leakscan

import (
	"bytes"
	"sort"
)

// budget is how much work may still be done for an answer: places that are looked at, and bytes that are followed. Each
// byte of the answer earns some. An answer that needs more is full of what is nearly a pattern, over and over, and is
// taken for one that has it: whoever makes up both the pattern and the answer could have each byte cost thousands of steps.
type budget int

const (
	earned  = 8       // by each byte
	savings = 1 << 20 // what there is at first, and at most
)

func (b *budget) earn(n int) { *b = min(*b+budget(earned*n), savings) }

// search is the search of some data.
type search struct {
	*Scanner
	data []byte
	line int // bytes without white space that stand before the data, up to minLine
	safe int // how many bytes at the beginning are part of nothing that can still be found when more data comes
	left *budget

	known [16]known // escapes that were read
	steps [8]step   // of follow, to begin with
}

// known is an escape, and where it is in the data.
type known struct {
	escape
	at int
}

// read returns what the escape here may stand for. It is good until another one is read.
func (s *search) read(at int) *escape {
	x := &s.known[at%len(s.known)]
	if x.at != at {
		x.at = at
		x.read(s.data[at:])
	}
	return &x.escape
}

// scan searches the data, and returns how many bytes at its beginning are part of nothing that can still be found when
// more data comes. last reports that none comes. line is how many bytes without white space stand before the data, up to
// minLine. Work is taken from left; where that is not enough, scan reports found.
func (sc *Scanner) scan(data []byte, line int, last bool, left *budget) (found bool, safe int) {
	s := search{Scanner: sc, data: data, line: line, safe: len(data), left: left}
	for i := range s.known {
		s.known[i] = known{escape{last: last}, -1}
	}
	found = s.plain()
	for i := 0; i < len(sc.introducers) && !found; i++ {
		found = s.escapes(sc.introducers[i], 1<<i)
	}
	return found, s.safe
}

// plain finds what begins with a window of bytes without escapes, or with fewer at the end of the data.
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

// matchAt follows the patterns that begin here, with two bytes without escapes.
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

// escapes finds what has, near its beginning, an escape of one kind before any other.
func (s *search) escapes(introducer byte, kind kinds) (found bool) {
	data := s.data
	for at := -1; ; {
		next := bytes.IndexByte(data[at+1:], introducer)
		if next < 0 {
			return false
		}
		at += 1 + next
		*s.left--
		if at+1 < len(data) && s.escapeSecondBytes[data[at+1]]&kind == 0 || kind&(feeds|returns) != 0 && s.hopeless(at) {
			continue
		}
		if s.behind(at) || s.from(at) || *s.left < 0 {
			return true
		}
	}
}

// behind finds what has its first escape here, behind two bytes or more.
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

// continues follows the patterns that begin at start, without escapes up to here.
func (s *search) continues(start, at int) (found bool) {
	here := s.all(start)
	for here.at < at && here.lo < here.hi {
		here = s.take(here, s.data[here.at:here.at+1], 1)
	}
	return here.lo < here.hi && s.follow(here, start)
}

// from finds what begins with the escape here, or a byte before it.
func (s *search) from(at int) (found bool) {
	if at > 0 {
		if one, ok := s.grow(head{}, s.data[at-1:at]); ok && s.leads(one, at) && s.continues(at-1, at) {
			return true
		}
	}
	return s.leads(head{}, at) && s.follow(s.all(at), at)
}

// head is the beginning of patterns: three bytes, or as many as are known.
type head struct {
	text   [3]byte
	length int
}

// grow returns a head with some bytes added. The result is not ok when no pattern begins so.
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

// leads reports whether patterns may begin with a head and what is here. It rejects most escapes.
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

// step is how far the patterns that begin alike and the data have been followed.
type step struct {
	lo, hi int // the patterns
	i, at  int // bytes of them, and of the data
	broken bool
}

// all is the step before the first byte.
func (sc *Scanner) all(at int) step { return step{0, len(sc.patterns), 0, at, false} }

// take returns the step behind some bytes of the patterns, which so many bytes of the data stand for. It has no patterns
// when none goes on so.
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

// narrow returns which of some patterns that begin alike have a byte at a place.
func (sc *Scanner) narrow(lo, hi, i, c int) (from, to int) {
	if lo == hi || sc.patterns[lo].byte(i) == c && sc.patterns[hi-1].byte(i) == c {
		return lo, hi
	}
	if hi-lo == 1 {
		return lo, lo
	}
	from = lo + sort.Search(hi-lo, func(n int) bool { return sc.patterns[lo+n].byte(i) >= c })
	to = from + sort.Search(hi-from, func(n int) bool { return sc.patterns[from+n].byte(i) > c })
	return from, to
}

// byte returns the byte at a place, or -1 behind the last one.
func (n *pattern) byte(i int) int {
	if i >= len(n.text) {
		return -1
	}
	return int(n.text[i])
}
