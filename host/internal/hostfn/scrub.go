package hostfn

import "errors"

// ScrubError returns err if its text is printable and contains no secret. Otherwise it returns an error with a scrubbed
// text, for which errors.Is reports the same as for err. Unwrap and errors.As do not reach err.
func (c *Call) ScrubError(err error) error {
	before := err.Error()
	after := Printable(c.Scrub(before), 2048)
	if after == before {
		return err
	}
	return &scrubbed{after, func(target error) bool { return errors.Is(err, target) }}
}

// scrubbed is an error with a scrubbed text. It has no Unwrap, because that would reveal the text of the original
// error. Its Is finds sentinels such as context.Canceled. It holds the original error only in a closure, where %#v does
// not find it either.
type scrubbed struct {
	text string
	is   func(target error) bool
}

func (s *scrubbed) Error() string { return s.text }

func (s *scrubbed) Is(target error) bool { return s.is(target) }
