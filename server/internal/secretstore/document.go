package secretstore

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/keywright/keywright/internal/expr"
)

// parseSecrets parses a JSON object of names and texts. Its errors have the line, and quote at most the name of a secret that
// is there twice or has a value that is not text.
func parseSecrets(document []byte) (map[string]string, error) {
	// Duplicate names are found below, with a better message than the decoder's.
	d := jsontext.NewDecoder(bytes.NewReader(document), jsontext.AllowDuplicateNames(true))
	wrong := func(format string, args ...any) error {
		line := 1 + bytes.Count(document[:min(d.InputOffset(), int64(len(document)))], []byte("\n"))
		return fmt.Errorf("is wrong near line %d: "+format, append([]any{line}, args...)...)
	}
	if d.PeekKind() != '{' {
		return nil, errors.New(`is not a JSON object of names and texts, such as {"crm-key": "…"}`)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, wrong("it is not JSON")
	}
	secrets := map[string]string{}
	for d.PeekKind() == '"' {
		name, err := text(d)
		if err != nil {
			return nil, wrong("it is not JSON")
		}
		if !expr.ValidSecret(name) {
			return nil, wrong("a name is not one of a secret: letters, digits, . _ and -, at most 128, beginning with a letter or digit; before it may be tenants/ID/ or users/ID/, with an ID of lower-case letters, digits, _ and -")
		}
		if _, twice := secrets[name]; twice {
			return nil, wrong("%q is there twice", name)
		}
		switch d.PeekKind() {
		case '"':
		case '{', '[', '0', 't', 'f', 'n':
			return nil, wrong("the value of %q is not text: put it in quotes", name)
		default:
			return nil, wrong("it is not JSON")
		}
		if secrets[name], err = text(d); err != nil {
			return nil, wrong("it is not JSON")
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, wrong("it is not JSON")
	}
	if len(bytes.TrimSpace(document[d.InputOffset():])) > 0 {
		return nil, wrong("something follows the object")
	}
	return secrets, nil
}

// text reads a string. Its error must not be shown, because it could quote the document.
func text(d *jsontext.Decoder) (string, error) {
	token, err := d.ReadToken()
	if err != nil {
		return "", err
	}
	return token.String(), nil
}
