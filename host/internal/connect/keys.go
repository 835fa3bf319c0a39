package connect

import (
	"maps"
	"slices"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/internal/problem"
)

// OtherKeys returns the names of the keys that sign something beside JWS, with the fields that have them.
func (p *Plan) OtherKeys() map[string]*hostfn.Field {
	keys := map[string]*hostfn.Field{}
	for _, f := range p.Fields {
		for _, name := range f.KeyNames() {
			if !f.SignsJWS() {
				keys[name] = f
			}
		}
	}
	return keys
}

// SharedKeys returns a problem for each key for JWS that signs something else in this connector or in another one of the host. Keys are
// compared by name here, and by thumbprint when they sign.
func (p *Plan) SharedKeys() (problems []problem.Problem) {
	own := p.OtherKeys()
	for _, field := range slices.Sorted(maps.Keys(p.Fields)) {
		f := p.Fields[field]
		for _, name := range f.KeyNames() {
			connector, shared := p.Signer.Uses.Connector(name)
			if own[name] != nil {
				connector, shared = p.Owner, true
			}
			if f.SignsJWS() && shared {
				problems = append(problems, problem.Place{}.Problem(p.Path(field), "%s %v", name, &hostfn.SharedKeyError{Connector: connector}))
			}
		}
	}
	return problems
}
