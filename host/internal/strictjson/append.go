package strictjson

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// AppendMembers appends the members and the closing brace to a JSON object that dst ends with. Errors are as in
// AppendValue.
func AppendMembers(dst []byte, members map[string]any) ([]byte, error) {
	var few [16]string
	names := slices.AppendSeq(few[:0], maps.Keys(members))
	slices.Sort(names)
	var err error
	for _, name := range names {
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		if dst, err = AppendString(dst, name); err != nil {
			return nil, err
		}
		dst = append(dst, ':')
		if dst, err = AppendValue(dst, members[name]); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

// AppendValue appends the JSON of a value, which consists of string, bool, nil, [stdjson.Number], []any and
// map[string]any. Members are sorted by name, so equal values have equal texts. Characters of HTML are not escaped.
// AppendValue returns an error for a string that is not UTF-8, a number that is not one of JSON, or any other type.
func AppendValue(dst []byte, value any) ([]byte, error) {
	switch value := value.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, value), nil
	case string:
		return AppendString(dst, value)
	case stdjson.Number:
		if !isInteger(string(value)) { // most are
			if number := jsontext.Value(value); number.Kind() != '0' || !number.IsValid() {
				return nil, errors.New("a number is not JSON")
			}
		}
		return append(dst, value...), nil
	case []any:
		return appendArray(dst, value)
	case map[string]any:
		return AppendMembers(append(dst, '{'), value)
	}
	return nil, fmt.Errorf("a value has the type %T, which JSON does not have", value)
}

func appendArray(dst []byte, array []any) ([]byte, error) {
	var err error
	dst = append(dst, '[')
	for i, value := range array {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = AppendValue(dst, value); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

// isInteger reports whether text is an integer of JSON without a sign.
func isInteger(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != "" && (text[0] != '0' || len(text) == 1)
}

// AppendString appends a JSON string. A text that is not UTF-8 is an error, which does not quote it.
func AppendString(dst []byte, text string) ([]byte, error) {
	if standsForItself(text) {
		return append(append(append(dst, '"'), text...), '"'), nil
	}
	dst, err := jsontext.AppendQuote(dst, text)
	if err != nil {
		return nil, errors.New("a string is not UTF-8") // jsontext's error may quote the string
	}
	return dst, nil
}

// standsForItself reports whether a text is ASCII that needs no escape in JSON.
func standsForItself(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
