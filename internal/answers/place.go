package answers

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// WholeAnswer is the place of a text that is all of an answer.
const WholeAnswer = "text:"

// IsPlace reports whether a text is WholeAnswer, or the place of a value in an answer: json: and a JSON pointer (RFC 6901), as in
// json:/data/token. In it [NAME=TEXT] stands for the item of a list whose member NAME is TEXT.
func IsPlace(text string) bool {
	pointer, found := strings.CutPrefix(text, "json:")
	return text == WholeAnswer || found && strings.HasPrefix(pointer, "/") && jsontext.Pointer(pointer).IsValid()
}

// TextAt returns the text at a place of an answer.
func TextAt(answer []byte, place string) (text string, ok bool) {
	if place == WholeAnswer {
		text = string(bytes.TrimSpace(answer))
		return text, text != ""
	}
	return Text(ValueAt(answer, place))
}

// ValueAt returns the JSON value at a place in a document. If there is none, it is empty.
func ValueAt(document []byte, place string) jsontext.Value {
	raw := jsontext.Value(bytes.TrimSpace(document))
	for token := range jsontext.Pointer(strings.TrimPrefix(place, "json:")).Tokens() {
		switch raw.Kind() {
		case '{':
			var members map[string]jsontext.Value
			if json.Unmarshal(raw, &members) != nil {
				return nil
			}
			raw = members[token]
		case '[':
			raw = itemAt(raw, token)
		default:
			return nil
		}
	}
	return raw
}

// itemAt returns the item of a list at an index, or the first one that has the member of [NAME=TEXT]. If there is none, it is empty.
func itemAt(list jsontext.Value, token string) jsontext.Value {
	var items []jsontext.Value
	if json.Unmarshal(list, &items) != nil {
		return nil
	}
	name, text, isMember := strings.Cut(strings.Trim(token, "[]"), "=")
	index, err := strconv.Atoi(token)
	for i, item := range items {
		var members map[string]jsontext.Value
		if !isMember && err == nil && i == index {
			return item
		}
		if !isMember || item.Kind() != '{' || json.Unmarshal(item, &members) != nil {
			continue
		}
		if value, ok := Text(members[name]); ok && value == text {
			return item
		}
	}
	return nil
}

// Text returns the text that a JSON value is.
func Text(raw jsontext.Value) (value string, ok bool) {
	if raw.Kind() != '"' || json.Unmarshal(raw, &value) != nil {
		return "", false
	}
	return value, true
}
