package leakscan

// followCost is the number of steps that each call of follow costs at least.
const followCost = 8

// follow matches the patterns of a step against the data. The possible match begins at start. It tries all readings of
// an escape. It continues with the step that is least far in the data, so that readings that meet again are followed
// once. It also reports found if the budget is used up.
func (s *search) follow(from step, start int) (found bool) {
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
	for _, pattern := range s.patterns[here.lo:here.hi] {
		if pattern.base64 {
			return true
		}
	}
	return false
}

// add adds a step, unless it has no patterns or is among steps already.
func add(steps []step, s step) []step {
	if s.lo == s.hi {
		return steps
	}
	for _, s2 := range steps {
		if s2 == s {
			return steps
		}
	}
	return append(steps, s)
}
