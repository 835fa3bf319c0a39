// Package reach lists which secret of which connector can go where, through which plugin. It reads no secret.
package reach

import (
	"fmt"
	"maps"
	"slices"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/registry/lock"
)

// A Use is a secret in a field of a connector, and what the plugin may do with it. It is an item of the list that
// `keywright plugin audit --json` writes.
type Use struct {
	Connector string `json:"connector"`
	Secret    string `json:"secret"`
	// Field is the field of auth.config, or the member of the connector that no plugin gets, as tls.key or headers.NAME.
	Field string `json:"field"`
	// Type is the auth type, and Plugin the plugin that has it. Both are empty where no plugin gets the secret.
	Type   string `json:"type"`
	Plugin string `json:"plugin"`
	// May has the rights, as keywright.lock has them.
	May []string `json:"may"`
	// Grants are the plugin's grants by the operator. With reveal it reads the secret.
	Grants []string `json:"grants"`
}

// Of returns what can become of each secret of a set, in the order of its connectors.
func Of(set *connectors.Set) (all []Use) {
	for _, c := range set.Connectors {
		d, uses := c.Definition(), map[string]Use{}
		for i, auth := range d.Auth {
			p, _ := set.Host.Plugin(auth.Type)
			capabilities := lock.Of(p)
			for _, f := range p.Fields {
				uses[Field(d.Auth, i, f.Name)] = Use{Type: auth.Type, Plugin: p.Name, May: append([]string{}, capabilities["field "+f.Name]...), Grants: append([]string{}, p.Grants...)}
			}
		}
		fields := c.FieldSecrets()
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			for _, secret := range fields[field] {
				u, ok := uses[field]
				if !ok {
					u = Use{May: []string{"where the file puts it"}, Grants: []string{}}
				}
				u.Connector, u.Secret, u.Field = d.Permalink, secret, field
				all = append(all, u)
			}
		}
	}
	return all
}

// Field returns the key of a field of an authentication in [host.Connector.FieldSecrets].
func Field(auths host.Auths, i int, name string) string {
	if len(auths) == 1 {
		return name
	}
	return fmt.Sprintf("auth[%d].%s", i, name)
}
