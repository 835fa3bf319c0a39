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

// encode returns the JSON of a record for the database.
func encode(record any) (string, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // most of a record is HTML
	if err := encoder.Encode(record); err != nil {
		return "", err
	}
	// PostgreSQL refuses invalid UTF-8. Only a content.Object can contain it.
	return strings.ToValidUTF8(strings.TrimSuffix(text.String(), "\n"), "\ufffd"), nil
}

// lenient accepts duplicate names, which a content.Object may contain.
var lenient = jsontext.AllowDuplicateNames(true)

func decode(text []byte, record any) error {
	if err := fast.Unmarshal(text, record, lenient); err != nil {
		return fmt.Errorf("the database has a record that cannot be read: %w", err)
	}
	return nil
}

// instant returns the timestamp in UTC, to the nanosecond and always of the same length, so that the order of the bytes
// is the order of time. It returns "" for no timestamp, which sorts before all others.
func instant(t content.Timestamp) string {
	moment, ok := t.Instant()
	if !ok {
		return ""
	}
	return moment.UTC().Format("2006-01-02T15:04:05.000000000")
}

// timestamp returns the timestamp of an instant.
func timestamp(instant string) content.Timestamp {
	if instant == "" {
		return ""
	}
	return content.Timestamp(strings.TrimRight(strings.TrimRight(instant, "0"), ".") + "+00:00")
}
