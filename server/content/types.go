package content

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"time"
)

// List is a slice whose JSON is [] if it is nil.
type List[T any] []T

// MarshalJSON implements [json.Marshaler].
func (l List[T]) MarshalJSON() ([]byte, error) {
	if len(l) == 0 {
		return []byte("[]"), nil
	}
	return json.Marshal([]T(l))
}

// Object is the JSON text of an object whose members are not specified. "" stands for {}.
type Object string

// MarshalJSON implements [json.Marshaler].
func (o Object) MarshalJSON() ([]byte, error) {
	if o == "" {
		return []byte("{}"), nil
	}
	return []byte(o), nil
}

// UnmarshalJSON implements [json.Unmarshaler]. It drops white space and accepts null as {}.
func (o *Object) UnmarshalJSON(text []byte) error {
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return err
	}
	switch text := compact.String(); {
	case text == "null", text == "{}":
		*o = ""
	case !strings.HasPrefix(text, "{"):
		return errors.New("this is no object")
	default:
		*o = Object(text)
	}
	return nil
}

// Timestamp is a point in time in the format of RFC 3339, with the offset that its source has. UTC has the offset
// +00:00. "" means no time.
type Timestamp string

// timestamp is stricter than time.Parse, which accepts a comma in the seconds and an offset of a day.
var timestamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// ParseTimestamp parses a timestamp of RFC 3339, or "". The offset Z becomes +00:00. It returns an error if text is
// malformed, or if its year in UTC does not have four digits.
func ParseTimestamp(text string) (Timestamp, error) {
	if text == "" {
		return "", nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || !timestamp.MatchString(text) {
		return "", errors.New("this is no timestamp of RFC 3339, such as 2026-03-01T09:30:00+01:00")
	}
	if year := t.UTC().Year(); year < 0 || year > 9999 {
		return "", errors.New("in UTC, this timestamp has no year of four digits")
	}
	if local, ok := strings.CutSuffix(text, "Z"); ok {
		text = local + "+00:00"
	}
	return Timestamp(text), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler] with [ParseTimestamp].
func (t *Timestamp) UnmarshalText(text []byte) error {
	parsed, err := ParseTimestamp(string(text))
	if err == nil {
		*t = parsed
	}
	return err
}

// Instant returns the point in time as a [time.Time]. ok is false if t is empty or malformed.
func (t Timestamp) Instant() (instant time.Time, ok bool) {
	instant, err := time.Parse(time.RFC3339, string(t))
	return instant, err == nil
}
