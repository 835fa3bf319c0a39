package inputs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/internal/expr"
)

// Secrets is a store of secrets, see host.Secrets.
type Secrets interface {
	Secret(ctx context.Context, name string) (string, error)
}

// ErrSecretNotFound is the error of a store for a name without a secret.
var ErrSecretNotFound = errors.New("the secret is not found")

// ReadSecret returns the value of a secret of names, for the user of the context. A blank value is an error. An error of a store
// other than ErrSecretNotFound is marked as passing, see [hostfn.Passing].
func ReadSecret(ctx context.Context, store Secrets, names *template.Names, name string) (string, error) {
	if names.Owned && expr.Owned(name) {
		return readOwned(ctx, store, name)
	}
	return readStored(ctx, store, name, name)
}

// readOwned is like ReadSecret, for a secret of a tenant or a user. Its errors do not have the id of either.
func readOwned(ctx context.Context, store Secrets, name string) (string, error) {
	u, _ := UserFrom(ctx)
	fullName, err := expr.StoredSecret(name, u.TenantID, u.ID)
	if err != nil {
		return "", fmt.Errorf("secret %q: %w", name, err)
	}
	value, err := readStored(ctx, store, fullName, name)
	if err != nil {
		return "", &anonymousError{err, fullName[:strings.LastIndexByte(fullName, '/')], name[:strings.LastIndexByte(name, '/')]}
	}
	return value, nil
}

// anonymousError is an error with other text in place of the directory of a tenant or a user.
type anonymousError struct {
	err                    error
	directory, replacement string
}

func (e *anonymousError) Error() string {
	return strings.ReplaceAll(e.err.Error(), e.directory, e.replacement)
}

func (e *anonymousError) Unwrap() error { return e.err }

// readStored returns the value that a store has under fullName. Its errors begin with name.
func readStored(ctx context.Context, store Secrets, fullName, name string) (string, error) {
	value, err := store.Secret(ctx, fullName)
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
