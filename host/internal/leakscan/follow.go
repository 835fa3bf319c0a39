package leakscan

// setup is the least cost of following, in steps.
const setup = 8

// follow goes on with the patterns of a step, which begin at start, and the data. Where an escape may be taken in several
// ways, it takes all of them; the one that is the least far in the data goes first, so that ways that meet are followed
// once. It reports found, too, when there is no budget left.
func (s *search) follow(from step, start int) (found bool) {
	*s.left -= setup
	for steps := append(s.steps[:0], from); len(steps) > 0 && *s.left >= 0; {
		*s.left -= budget(len(steps))
		least := 0
		for n := range steps {
			if steps[n].at < steps[least].at {
				least = n
			}
		}
		here := steps[least]
		steps[least] = steps[len(steps)-1]
		steps = steps[:len(steps)-1]
		if len(steps) == 0 {
			here = s.along(here)
		}
		if s.matches(here) {
			return true
		}
		if here.at == len(s.data) {
			s.begun(here, start)
			continue
		}
		c := s.data[here.at : here.at+1]
		steps = add(steps, s.take(here, c, 1))
		if !s.isIntroducer[c[0]] {
			continue
		}
		x := s.read(here.at)
		for m := range x.count {
			r := &x.readings[m]
			steps = add(steps, s.take(here, r.bytes(), r.taken))
		}
		if taken := x.lineBreak(s.data[here.at:]); taken > 0 && here.i > 0 && s.anyBase64(here) && line(s.data[:here.at], s.line) == minLine {
			steps = add(steps, step{here.lo, here.hi, here.i, here.at + taken, true})
		}
		if x.partial {
			s.begun(here, start)
		}
	}
	return *s.left < 0
}

// along returns the step behind what data and the only pattern have in common, without an escape.
func (s *search) along(here step) step {
	if here.hi-here.lo > 1 {
		return here
	}
	pattern, data := s.patterns[here.lo].text[here.i:], s.data[here.at:]
	n := 0
	for n < len(pattern) && n < len(data) && pattern[n] == data[n] && !s.isIntroducer[data[n]] {
		n++
	}
	*s.left -= budget(n / 8)
	here.i += n
	here.at += n
	return here
}

// matches reports whether one of the patterns of a step ends there.
func (s *search) matches(here step) bool {
	for n := here.lo; n < here.hi && len(s.patterns[n].text) == here.i; n++ {
		if !here.broken || s.patterns[n].base64 {
			return true
		}
	}
	return false
}

// begun notes that the data may end with the beginning of a pattern.
func (s *search) begun(here step, start int) {
	if !here.broken || s.anyBase64(here) {
		s.safe = min(s.safe, start)
	}
}

func (s *search) anyBase64(here step) bool {
	for _, pattern := range s.patterns[here.lo:here.hi] {
		if pattern.base64 {
			return true
		}
	}
	return false
}

// add adds a step that has patterns.
func add(steps []step, s step) []step {
	if s.lo == s.hi {
		return steps
	}
	for _, other := range steps {
		if other == s {
			return steps
		}
	}
	return append(steps, s)
}
