package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/internal/expr"
)

// Secrets is where secrets come from. It is asked on every use, so that a rotated secret counts at once; an
// implementation may keep an answer for a second. A name that it does not have is [ErrSecretNotFound].
type Secrets interface {
	// Secret returns the value of a secret. An error that wraps [ErrSecretNotFound] says that there is none of that name;
	// any other says that the store cannot tell now.
	Secret(ctx context.Context, name string) (string, error)
}

// maxSecret is the most bytes of a secret in a file.
const maxSecret = 1 << 20

// MapSecrets are secrets in memory.
type MapSecrets map[string]string

// Secret implements [Secrets].
func (m MapSecrets) Secret(_ context.Context, name string) (string, error) {
	if value, ok := m[name]; ok {
		return value, nil
	}
	return "", fmt.Errorf("%w: %q", ErrSecretNotFound, name)
}

// EnvSecrets takes secrets from the environment, under the names that [EnvName] gives.
func EnvSecrets() Secrets { return envSecrets{} }

type envSecrets struct{}

func (envSecrets) Secret(_ context.Context, name string) (string, error) {
	if !expr.ValidName(name) {
		return "", fmt.Errorf("%w: %q is not a secret's name", ErrSecretNotFound, name)
	}
	if value, ok := os.LookupEnv(EnvName(name)); ok {
		return value, nil
	}
	return "", fmt.Errorf("%w: set %s", ErrSecretNotFound, EnvName(name))
}

// EnvName is the environment variable of a secret: KEYWRIGHT_SECRET_ and the name in capitals, with - and . as _.
func EnvName(name string) string {
	return "KEYWRIGHT_SECRET_" + strings.NewReplacer("-", "_", ".", "_").Replace(strings.ToUpper(name))
}

// DirSecrets takes secrets from the files of a directory, each named as its secret, one newline at its end dropped. It
// reads the file on every use.
func DirSecrets(dir string) Secrets { return dirSecrets(dir) }

type dirSecrets string

func (d dirSecrets) Secret(_ context.Context, name string) (string, error) {
	if !expr.ValidName(name) {
		return "", fmt.Errorf("%w: %q is not a secret's name", ErrSecretNotFound, name)
	}
	root, err := os.OpenRoot(string(d)) // a link that leads out of the directory is not followed
	if err != nil {
		return "", fmt.Errorf("the secrets directory cannot be opened: %w", err)
	}
	defer root.Close()
	info, err := root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: there is no file %q in the secrets directory", ErrSecretNotFound, name)
	}
	if err != nil {
		return "", fmt.Errorf("secret %q cannot be read: %w", name, err)
	}
	if !info.Mode().IsRegular() { // to open a pipe would wait for who writes to it
		return "", fmt.Errorf("secret %q cannot be read: it is not a regular file", name)
	}
	file, err := root.Open(name)
	if err != nil {
		return "", fmt.Errorf("secret %q cannot be read: %w", name, err)
	}
	defer file.Close()
	value, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("secret %q cannot be read: %w", name, err)
	}
	if len(value) > maxSecret {
		return "", fmt.Errorf("secret %q has more than %d bytes", name, maxSecret)
	}
	text, ended := strings.CutSuffix(string(value), "\n")
	if ended {
		text = strings.TrimSuffix(text, "\r")
	}
	return text, nil
}

// FirstOf asks several stores in order: the first that has a secret gives it.
func FirstOf(stores ...Secrets) Secrets { return firstOf(stores) }

type firstOf []Secrets

func (f firstOf) Secret(ctx context.Context, name string) (string, error) {
	var missing []error
	for _, store := range f {
		value, err := store.Secret(ctx, name)
		if err == nil {
			return value, nil
		}
		if !errors.Is(err, ErrSecretNotFound) {
			return "", err // a store that is down must not make another's older value count
		}
		missing = append(missing, err)
	}
	if len(missing) == 1 {
		return "", missing[0]
	}
	hints := make([]string, 0, len(missing))
	for _, err := range missing {
		hints = append(hints, strings.TrimPrefix(err.Error(), ErrSecretNotFound.Error()+": "))
	}
	return "", fmt.Errorf("%w: %s", ErrSecretNotFound, strings.Join(hints, ", or "))
}

// readSecret returns the value of a secret of a store. A blank value is an error. An error may pass, see [hostfn.Passing], unless
// the store has no such secret.
func readSecret(ctx context.Context, store Secrets, name string) (string, error) {
	value, err := store.Secret(ctx, name)
	switch {
	case err == nil && value != "" && '!' <= value[0] && value[0] <= '~': // most are like that
		return value, nil
	case err == nil && strings.TrimSpace(value) == "":
		err = errors.New("it is empty")
	case err == nil:
		return value, nil
	case !errors.Is(err, ErrSecretNotFound):
		err = hostfn.Passing(err)
	}
	return "", fmt.Errorf("secret %q: %w", name, err)
}
