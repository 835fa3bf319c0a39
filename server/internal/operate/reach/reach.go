// Package reach lists which secret of which connector can go where, through which plugin. It reads no secret.
package reach

import (
	"maps"
	"slices"
	"strings"

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
		d := c.Definition()
		p, _ := set.Host.Plugin(d.Auth.Type)
		capabilities := lock.Of(p)
		fields := c.FieldSecrets()
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			for _, secret := range fields[field] {
				u := Use{d.Permalink, secret, field, "", "", []string{"where the file puts it"}, []string{}}
				if !strings.Contains(field, ".") { // no name of a field has a dot
					u.Type, u.Plugin, u.May, u.Grants = d.Auth.Type, p.Name, append([]string{}, capabilities["field "+field]...), append([]string{}, p.Grants...)
				}
				all = append(all, u)
			}
		}
	}
	return all
}
