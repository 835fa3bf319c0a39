package hosttest

import (
	"context"
	"errors"

	"github.com/keywright/keywright/host/internal/template"
)

// Render returns a text whose expressions are evaluated, as those of a connector are, with the secrets, the variables, the user and
// the time of the harness.
func (h *Harness) Render(text string) (string, error) {
	compiled, wrong := template.Compile(text)
	if len(wrong) > 0 {
		return "", wrong[0]
	}
	parts, err := compiled.Render(values{h})
	if err != nil {
		return "", err
	}
	return template.Join(parts), nil
}

// values are the values of expressions that a harness has.
type values struct{ harness *Harness }

var _ template.Values = values{}

func (v values) Secret(name string) (string, error) {
	return secrets(v).Secret(context.Background(), name)
}

func (v values) Variable(name string) (string, bool) {
	v.harness.mu.Lock()
	defer v.harness.mu.Unlock()
	value, ok := v.harness.variables[name]
	return value, ok
}

func (v values) User() *template.User {
	v.harness.mu.Lock()
	defer v.harness.mu.Unlock()
	u := v.harness.user
	return &template.User{ID: u.ID, Email: u.Email, Username: u.Username, FirstName: u.FirstName, LastName: u.LastName, Token: u.Token}
}

func (v values) TenantID() string {
	v.harness.mu.Lock()
	defer v.harness.mu.Unlock()
	return v.harness.user.TenantID
}

func (v values) Now() int64 { return v.harness.Now().Unix() }

func (values) Discovered(template.Discovery) (string, error) {
	return "", errors.New("an expected text cannot be discovered: write it")
}

func (values) UUID() (string, error) {
	return "", errors.New("an expected text cannot be random: use {matches: …}")
}
