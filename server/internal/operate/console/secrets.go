package console

import (
	"cmp"
	"context"
	"maps"
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
	// Secrets are those that are shown, and Missing counts all that are missing.
	Secrets []*secretRow
	paging
	Missing int
}

// secretRow is a secret, with its uses.
type secretRow struct {
	Name string
	// Of is tenant or user for a secret of which each has its own.
	Of string
	// Problem says why it cannot be read. It is empty if the store has it, or if Of is not empty.
	Problem string
	// Uses are the first places of the file that name it. Connectors counts the connectors that do.
	Uses       []reach.Use
	Connectors int
	// Rotation says what a new value of it does.
	Rotation []string
}

// secrets returns the view of all secrets. Their values are read, and dropped at once.
func (c *Console) secrets(s *State, r *http.Request) (any, error) {
	const lookTime = 5 * time.Second // limits the time in which the secrets of a page are looked for
	ctx, cancel := context.WithTimeout(r.Context(), lookTime)
	defer cancel()
	view := &secretsView{}
	rows := secretRows(s)
	for name, row := range rows {
		if owner, _, owned := strings.Cut(name, "s/*/"); owned { // there is no list of tenants and users
			row.Of = owner
		} else if row.Problem = c.secretProblem(ctx, s.Set, name); row.Problem != "" {
			view.Missing++
		}
	}
	view.Secrets, view.paging = paged(r, slices.SortedFunc(maps.Values(rows), func(a, b *secretRow) int {
		return cmp.Or(strings.Compare(b.Problem, a.Problem), strings.Compare(a.Name, b.Name))
	}))
	return view, nil
}

// secretRows returns all secrets of a set, with their uses.
func secretRows(s *State) map[string]*secretRow {
	const maxUses = 20 // the maximum number of uses of a secret that a page has
	rows, last := map[string]*secretRow{}, map[string]string{}
	row := func(name string) *secretRow {
		if rows[name] == nil {
			rows[name] = &secretRow{Name: name}
		}
		return rows[name]
	}
	for _, use := range reach.Of(s.Set) {
		entry := row(use.Secret)
		if last[use.Secret] != use.Connector {
			entry.Connectors++
			last[use.Secret] = use.Connector
		}
		if len(entry.Uses) < maxUses {
			entry.Uses = append(entry.Uses, use)
		}
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
	return rows
}

// rotates returns what a new value of a secret does, where a connector uses it.
func rotates(use reach.Use, p host.PluginInfo) (effects []string) {
	if use.Type == "" {
		return []string{"The next request has the new value."}
	}
	field := use.Field[strings.LastIndexByte(use.Field, '.')+1:] // in a list, the authentication is in front
	key := slices.IndexFunc(p.Fields, func(f abi.Field) bool { return f.Name == field && f.Kind == abi.KindKey })
	switch {
	case slices.Contains(p.Uses, contract.GroupToken):
		effects = append(effects, "Cached tokens are not used any more: the next request asks the token endpoint, with the new value.")
	case key < 0:
		effects = append(effects, "The next request has the new value: the API has to accept it before.")
	}
	switch {
	case key < 0:
	case p.Fields[key].Generate:
		effects = append(effects, "It takes the place of the key that the host makes, and tokens that are bound to that key are refused.")
	default:
		effects = append(effects, "The next signature is made with the new key: give its public half to who verifies it, before.")
	}
	if len(p.State) > 0 || p.Consent {
		effects = append(effects, "Grants stay. The authorization server has to accept the new value for them, or users connect again.")
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

// memory is the time for which the condition of a secret is used, so that pages that are made every few seconds do not ask a store all the
// time.
const memory = 15 * time.Second

// secretProblem says why a secret cannot be read, or returns "".
func (c *Console) secretProblem(ctx context.Context, set *connectors.Set, name string) string {
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

// missing reports whether a secret could not be read when it was looked for last. It asks no store.
func (c *Console) missing(name string) bool {
	entry, ok := c.conditions.Peek(name)
	return ok && entry.problem != ""
}

// refresh looks for secrets that were not looked for lately, but for some only: a page does not wait for thousands. The others are looked for
// with the next pages.
func (c *Console) refresh(ctx context.Context, s *State) {
	const maxNames, pageTime = 100, time.Second
	ctx, cancel := context.WithTimeout(ctx, pageTime)
	defer cancel()
	now, stale := c.config.Clock(), map[string]bool{}
	for _, connector := range s.Set.Connectors {
		for _, name := range connector.Secrets() {
			if entry, ok := c.conditions.Peek(name); !strings.Contains(name, "*") && (!ok || now.Sub(entry.checkedAt).Abs() >= memory) {
				stale[name] = true
			}
		}
	}
	names := slices.Collect(maps.Keys(stale)) // in no order, so that each has its turn
	for _, name := range names[:min(len(names), maxNames)] {
		if ctx.Err() == nil {
			c.secretProblem(ctx, s.Set, name)
		}
	}
}
