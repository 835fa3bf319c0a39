package secretstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/expr"
)

const maxAgeFile = 4 << 20 // bytes

// Age returns a store that reads secrets from a file encrypted with age (age-encryption.org/v1), binary or armored. The
// identity of its recipient is in another file. The plaintext is a JSON object of names and texts:
//
//	{"crm-key": "…", "crm-certificate": "-----BEGIN…\n…", "tenants/acme/crm-key": "…", "users/ann/crm-key": "…"}
//
// If the plaintext is not such an object, has a name twice, or has a value that is not text, the whole file is invalid.
// These commands create both files:
//
//	(umask 077 && age-keygen -o identity.txt)
//	jq -n --rawfile key key.pem '{"crm-key": $key}' | age -r age1… -o secrets.age
//
// The identity file has one or more identities as age-keygen writes them, and is not encrypted. Only its owner and its
// group may read it, and only its owner may write it (mode 0640 or less).
//
// A changed file is read again within a second. While it is invalid, each of its secrets returns an error with the reason, because a secret
// that was to be replaced must not stay in use unnoticed. Replace the file by renaming a new one, so that it is never read half-written.
func Age(file, identityFile string, clock func() time.Time) host.Secrets {
	return &ageFile{file: file, identityFile: identityFile, clock: clock}
}

type ageFile struct {
	file, identityFile string
	clock              func() time.Time

	mu       sync.Mutex
	readTime time.Time
	// digest is the hash of the encrypted file that was last opened.
	digest [sha256.Size]byte
	// secrets is nil if err is not nil.
	secrets map[string]string
	err     error
}

func (a *ageFile) Secret(_ context.Context, name string) (string, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	secrets, err := a.current()
	if err != nil {
		return "", err
	}
	value, ok := secrets[name]
	if !ok {
		return "", fmt.Errorf("%w: the encrypted secrets file does not have it", host.ErrSecretNotFound)
	}
	return value, nil
}

// current returns the secrets, and reads the file again after ageInterval. It compares contents, not times and sizes:
// two files may be written within one tick of the file system's clock, and reading is cheap.
func (a *ageFile) current() (map[string]string, error) {
	const ageInterval = time.Second // the least time between two reads
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock()
	if since := now.Sub(a.readTime); !a.readTime.IsZero() && since >= 0 && since < ageInterval {
		return a.secrets, a.err
	}
	a.readTime = now
	encrypted, err := readFile(a.file, "the encrypted secrets file", maxAgeFile, false)
	if err != nil {
		a.secrets, a.err = nil, err
		return nil, err
	}
	digest := sha256.Sum256(encrypted)
	if a.secrets == nil || digest != a.digest { // after an error, the identity file may have been corrected
		a.secrets, a.err = a.open(encrypted)
		a.digest = digest
	}
	return a.secrets, a.err
}

func (a *ageFile) open(encrypted []byte) (map[string]string, error) {
	text, err := readFile(a.identityFile, "the identity file", 64<<10, true)
	if err != nil {
		return nil, err
	}
	identities, err := age.ParseIdentities(bytes.NewReader(text))
	clear(text)
	if err != nil { // not wrapped: it could quote the file
		return nil, fmt.Errorf("the identity file %q is not one of age-keygen: it must have lines that begin with AGE-SECRET-KEY-, and comments", a.identityFile)
	}
	document, err := decrypt(encrypted, identities)
	if err != nil {
		return nil, fmt.Errorf("the encrypted secrets file %q %w", a.file, err)
	}
	secrets, err := parseSecrets(document)
	clear(document)
	if err != nil {
		return nil, fmt.Errorf("what is encrypted in %q %w", a.file, err)
	}
	return secrets, nil
}

// decrypt decrypts a file. It wraps no error of package age: these quote the file, which somebody may have forgotten to encrypt.
func decrypt(encrypted []byte, identities []age.Identity) ([]byte, error) {
	var from io.Reader = bytes.NewReader(encrypted)
	if bytes.HasPrefix(bytes.TrimSpace(encrypted), []byte(armor.Header)) {
		from = armor.NewReader(from)
	} else if !bytes.HasPrefix(encrypted, []byte("age-encryption.org/")) {
		return nil, errors.New("is not encrypted with age: make it with age -r RECIPIENT -o FILE")
	}
	plain, err := age.Decrypt(from, identities...)
	if errors.As(err, new(*age.NoIdentityMatchError)) {
		return nil, errors.New("is not for any identity of the identity file: encrypt it to the recipient that age-keygen -y gives for that")
	}
	var document []byte
	if err == nil {
		document, err = io.ReadAll(io.LimitReader(plain, maxAgeFile)) // the plaintext is smaller than the file
	}
	if err != nil {
		return nil, errors.New("is damaged or not whole: put one that is in its place, by renaming it")
	}
	return document, nil
}

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
	secrets := map[string]string{}
	_, err := d.ReadToken()
	for err == nil && d.PeekKind() == '"' {
		var token jsontext.Token
		if token, err = d.ReadToken(); err != nil { // which could quote the document
			break
		}
		name := token.String()
		if !expr.ValidSecret(name) {
			return nil, wrong("a name is not one of a secret: letters, digits, . _ and -, at most 128, beginning with a letter or digit; before it may be tenants/ID/ or users/ID/, with an ID of lower-case letters, digits, _ and -")
		}
		if _, twice := secrets[name]; twice {
			return nil, wrong("%q is there twice", name)
		}
		switch d.PeekKind() {
		case '{', '[', '0', 't', 'f', 'n':
			return nil, wrong("the value of %q is not text: put it in quotes", name)
		}
		token, err = d.ReadToken()
		secrets[name] = token.String()
	}
	if err == nil {
		_, err = d.ReadToken()
	}
	switch {
	case err != nil:
		return nil, wrong("it is not JSON")
	case len(bytes.TrimSpace(document[d.InputOffset():])) > 0:
		return nil, wrong("something follows the object")
	}
	return secrets, nil
}
