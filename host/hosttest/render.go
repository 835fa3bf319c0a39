package hosttest

import (
	"context"
	"errors"
	"maps"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/internal/template"
)

// Render returns a text whose expressions are evaluated, as those of a connector are, with the secrets, the variables, the user and
// the time of the harness.
func (h *Harness) Render(text string) (string, error) {
	compiled, wrong := template.Compile(text)
	if len(wrong) > 0 {
		return "", wrong[0]
	}
	h.mu.Lock()
	v := values{h, maps.Clone(h.config.Variables), h.user}
	h.mu.Unlock()
	parts, err := compiled.Render(v)
	if err != nil {
		return "", err
	}
	return template.Join(parts), nil
}

// values are the values of expressions that a harness has.
type values struct {
	harness   *Harness
	variables map[string]string
	user      host.User
}

var _ template.Values = values{}

func (v values) Secret(name string) (string, error) {
	return secrets{v.harness}.Secret(context.Background(), name)
}

func (v values) Variable(name string) (string, bool) {
	value, ok := v.variables[name]
	return value, ok
}

func (v values) User() *template.User {
	u := v.user
	return &template.User{ID: u.ID, Email: u.Email, Username: u.Username, FirstName: u.FirstName, LastName: u.LastName, Token: u.Token}
}

func (v values) TenantID() string { return v.user.TenantID }

func (v values) Now() int64 { return v.harness.Now().Unix() }

func (values) Discovered(template.Discovery) (string, error) {
	return "", errors.New("an expected text cannot be discovered: write it")
}

func (values) UUID() (string, error) {
	return "", errors.New("an expected text cannot be random: use {matches: …}")
}
