package console

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/operate/reach"
)

type secretsView struct {
	// Secrets are the secrets by their names.
	Secrets map[string]*secretRow
	Missing int
	// Origins are those of the connectors, by permalink.
	Origins map[string]string
}

// secretRow is a secret, with its uses.
type secretRow struct {
	Name string
	// Of is tenant or user for a secret of which each has its own.
	Of string
	// Problem says why it cannot be read. It is empty if the store has it, or if Of is not empty.
	Problem string
	// Uses are the places of the file that name it.
	Uses []reach.Use
	// Rotation says what a new value of it does.
	Rotation []string
}

// secrets returns the view of all secrets. Their values are read, and dropped at once.
func (c *Console) secrets(s *State, r *http.Request) (any, error) {
	const lookTime = 5 * time.Second // limits the time in which the secrets of a page are looked for
	ctx, cancel := context.WithTimeout(r.Context(), lookTime)
	defer cancel()
	view := &secretsView{Secrets: map[string]*secretRow{}, Origins: map[string]string{}}
	row := func(name string) *secretRow {
		if view.Secrets[name] == nil {
			view.Secrets[name] = &secretRow{Name: name}
		}
		return view.Secrets[name]
	}
	for _, connector := range s.Set.Connectors {
		view.Origins[connector.Definition().Permalink] = strings.Join(connector.Upstream().Config().Origins, ", ")
	}
	for _, use := range reach.Of(s.Set) {
		entry := row(use.Secret)
		entry.Uses = append(entry.Uses, use)
		plugin, _ := s.Set.Host.Plugin(use.Type)
		for _, effect := range rotates(use, plugin) {
			if !slices.Contains(entry.Rotation, effect) {
				entry.Rotation = append(entry.Rotation, effect)
			}
		}
	}
	for _, name := range s.Set.StateSecrets {
		effect := "The store of state is opened with it when the process starts: restart after it has changed."
		if slices.Contains(s.Set.StateKeys, name) {
			effect = "The store of state needs it: put a new state key before the old one, and keep the old one in the list until all rows are sealed anew."
		}
		entry := row(name)
		entry.Rotation = append(entry.Rotation, effect)
	}
	for _, entry := range view.Secrets {
		if look(ctx, s, entry); entry.Problem != "" {
			view.Missing++
		}
	}
	return view, nil
}

// look looks for a secret. Of tenants and users there is no list, so that theirs are not looked for.
func look(ctx context.Context, s *State, row *secretRow) {
	for owner, prefix := range map[string]string{"tenant": "tenants/", "user": "users/"} {
		if strings.HasPrefix(row.Name, prefix) {
			row.Of = owner
			return
		}
	}
	switch err := s.Set.CheckSecret(ctx, row.Name, host.User{}); {
	case err == nil:
	case errors.Is(err, host.ErrSecretNotFound):
		row.Problem = "missing"
	default:
		row.Problem = host.Printable(err.Error())
	}
}

// rotates returns what a new value of a secret does, where a connector uses it.
func rotates(use reach.Use, p host.PluginInfo) (effects []string) {
	if use.Type == "" {
		return []string{"The next request of " + use.Connector + " has the new value."}
	}
	field := use.Field[strings.LastIndexByte(use.Field, '.')+1:] // in a list, the authentication is in front
	key := slices.IndexFunc(p.Fields, func(f abi.Field) bool { return f.Name == field && f.Kind == abi.KindKey })
	switch {
	case slices.Contains(p.Uses, contract.GroupToken):
		effects = append(effects, "The cached tokens of "+use.Connector+" are not used any more: the next request asks the token endpoint, with the new value.")
	case key < 0:
		effects = append(effects, "The next request of "+use.Connector+" has the new value: the API has to accept it before.")
	}
	switch {
	case key < 0:
	case p.Fields[key].Generate:
		effects = append(effects, "It takes the place of the key that the host makes for "+use.Connector+", and tokens that are bound to that key are refused.")
	default:
		effects = append(effects, "The next signature of "+use.Connector+" is made with the new key: give its public half to who verifies it, before.")
	}
	if len(p.State) > 0 || p.Consent {
		effects = append(effects, "The grants of "+use.Connector+" stay. The authorization server has to accept the new value for them, or users connect again.")
	}
	return effects
}

// found is the condition of a secret at a time. Nothing of its value is remembered.
type found struct {
	checkedAt time.Time
	// problem says why it cannot be read, or is "".
	problem string
}

// secretState is a secret that a connector names.
type secretState struct {
	Name string
	// Problem says why it cannot be read, or is "". Owned reports whether it is a secret of tenants or users, which is not read.
	Problem string
	Owned   bool
}

// secretsOf returns the conditions of secrets, by their names in templates.
func (c *Console) secretsOf(ctx context.Context, s *State, names []string) (all []secretState) {
	const secretTime = 2 * time.Second // limits how long a page waits for stores
	ctx, cancel := context.WithTimeout(ctx, secretTime)
	defer cancel()
	for _, name := range names {
		state := secretState{Name: name, Owned: strings.Contains(name, "*")}
		if !state.Owned {
			state.Problem = c.secretProblem(ctx, s.Set, name)
		}
		all = append(all, state)
	}
	return all
}

// secretProblem says why a secret cannot be read, or returns "".
func (c *Console) secretProblem(ctx context.Context, set *connectors.Set, name string) string {
	const memory = 15 * time.Second // so that pages that are made every few seconds do not ask a store all the time
	now := c.config.Clock()
	if entry, ok := c.conditions.Get(name); ok && now.Sub(entry.checkedAt).Abs() < memory {
		return entry.problem
	}
	text := ""
	if err := set.CheckSecret(ctx, name, host.User{}); err != nil {
		text = host.Printable(err.Error())
	}
	if ctx.Err() != nil {
		return "the store does not answer in time"
	}
	c.conditions.Add(name, found{now, text})
	return text
}
