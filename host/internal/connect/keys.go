package connect

import (
	"maps"
	"slices"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/internal/problem"
)

// OtherKeys returns the names of the keys that sign something beside JWS in one of the plans.
func OtherKeys(plans ...*Plan) map[string]bool {
	keys := map[string]bool{}
	for _, p := range plans {
		if p.Plan == nil { // there is no such type
			continue
		}
		for _, f := range p.Fields {
			for _, name := range f.KeyNames() {
				if !f.SignsJWS() {
					keys[name] = true
				}
			}
		}
	}
	return keys
}

// SharedKeys returns a problem for each key for JWS that signs something else in one of the plans, which are all of this connector, or in
// another connector of the host. Keys are compared by name here, and by thumbprint when they sign.
func (p *Plan) SharedKeys(all []*Plan) (problems []problem.Problem) {
	own := OtherKeys(all...)
	for _, field := range slices.Sorted(maps.Keys(p.Fields)) {
		f := p.Fields[field]
		for _, name := range f.KeyNames() {
			connector, shared := p.Signer.Uses.Connector(name)
			if own[name] {
				connector, shared = p.Owner, true
			}
			if f.SignsJWS() && shared {
				problems = append(problems, problem.Place{}.Problem(p.Path(field), "%s %v", name, &hostfn.SharedKeyError{Connector: connector}))
			}
		}
	}
	return problems
}
