package sqlstore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	fast "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/keywright/keywright/server/content"
)

// encode returns the text of a record that the database keeps.
func encode(record any) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // most of a record is HTML
	if err := encoder.Encode(record); err != nil {
		return "", err
	}
	// Only a content.Object can have brought in what is not UTF-8. PostgreSQL does not take it.
	return strings.ToValidUTF8(strings.TrimSuffix(text.String(), "\n"), "\ufffd"), nil
}

// lenient is for texts that encode has made: an object whose members are not specified may have one twice.
var lenient = jsontext.AllowDuplicateNames(true)

func decode(text []byte, record any) error {
	if err := fast.Unmarshal(text, record, lenient); err != nil {
		return fmt.Errorf("the database has a record that cannot be read: %w", err)
	}
	return nil
}

// instant is a text that sorts by its bytes as the timestamps do as instants, and "" for none, which is before them all.
func instant(t content.Timestamp) string {
	at, ok := t.Instant()
	if !ok {
		return ""
	}
	return at.UTC().Format("2006-01-02T15:04:05.000000000")
}
