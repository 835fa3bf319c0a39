package connect

import (
	"net/url"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/template"
)

// listedPlace says where user.token and identity may stand, for errors.
const listedPlace = "goes to token endpoints only, so it may stand in a sealed field of auth.config of kind string with the sink token"

// Misplaced returns what a template that is not of a field may not have, and its column, or 0. problem is "" if there is nothing.
func Misplaced(t *template.Template) (column int, problem string) {
	switch names := t.Names(); {
	case t.Key() != nil:
		return 1, template.NoKey
	case names.UserToken():
		return 0, template.UserToken + " " + listedPlace
	case len(names.Identities) > 0:
		return 0, "the token of identity " + listedPlace
	case len(names.Discovered) > 0:
		return 0, "discover is for the fields of auth.config: it names endpoints of an authorization server"
	}
	return 0, ""
}

// listedToken is a token among the names of a plan that goes to listed hosts only.
type listedToken struct {
	// name is the expression: user.token, or a call of identity.
	name  string
	hosts HostList
}

// listedNames returns the expressions among the names whose tokens go to listed hosts only.
func listedNames(names *template.Names) (all []string) {
	if names.UserToken() {
		all = append(all, template.UserToken)
	}
	for _, identity := range names.Identities {
		all = append(all, identity.String())
	}
	return all
}

// listed checks a field that may name user.token or an identity. The value of one that does goes to exchanges with listed hosts only.
func (k *checker) listed(f *hostfn.Field, names template.Names) {
	all := listedNames(&names)
	if len(all) == 0 {
		return
	}
	place := all[0] + " " + listedPlace
	switch {
	case f.Kind == abi.KindObject:
		k.wrongField(f, "names %s, and no object is sealed: %s", all[0], place)
	case !f.Sealed:
		k.wrongField(f, "names %s, and is not sealed: %s", all[0], place)
	case f.Kind != abi.KindString: // such as a url: what is requested of an endpoint may not be a token
		k.wrongField(f, "names %s, and is of kind %s: %s", all[0], f.Kind, place)
	case f.Sinks&seal.Token != seal.Token:
		k.wrongField(f, "names %s, and its value goes elsewhere (%s): %s", all[0], f.Sinks, place)
	case names.UserToken() && len(k.in.UserTokenHosts) == 0:
		k.wrongField(f, "names user.token, which no host may get: the operator lists token endpoints in UserTokenHosts (gateway.user.jwt.token_hosts)")
	default:
		for _, identity := range names.Identities {
			if len(k.in.IdentityHosts(identity.Name, identity.Audience)) == 0 {
				k.wrongField(f, "names %s, and no host may get its token: the operator lists the identity, its audience, and the hosts of token endpoints (identities)", identity)
			}
		}
	}
	f.Sinks, f.Derived = seal.Listed, 0
}

// listedTokens sets the tokens of the plan that go to listed hosts only. All of them go to no other hosts than those that are listed for
// each, because what a plugin sends is one or all of them.
func (k *checker) listedTokens() {
	plan := k.plan
	if plan.Names.UserToken() {
		plan.listed = append(plan.listed, listedToken{template.UserToken, k.in.UserTokenHosts})
	}
	for _, identity := range plan.Names.Identities {
		hosts, err := ParseHostList(k.in.IdentityHosts(identity.Name, identity.Audience))
		if err != nil {
			k.Wrong(plan.member+".config", "the hosts of %s: %v", identity, err)
		}
		plan.listed = append(plan.listed, listedToken{identity.String(), hosts})
	}
	plan.Unlisted = func(u *url.URL) string {
		for _, t := range plan.listed {
			if !t.hosts.Lists(u) {
				return t.name
			}
		}
		return ""
	}
}

// unlisted warns of each URL of a configuration with such tokens whose host may not get one of them. It is no error, because a plugin may
// send the token to another of its URLs only.
func (k *checker) unlisted() {
	for _, described := range k.in.Plugin.Fields {
		f := k.plan.Fields[described.Name]
		if f.Kind != abi.KindURL || f.Text == nil {
			continue
		}
		text, literal := f.Text.Literal()
		u, err := url.Parse(text)
		if !literal || err != nil {
			continue
		}
		if name := k.plan.Unlisted(u); name != "" {
			list := "gateway.user.jwt.token_hosts"
			if name != template.UserToken {
				list = "hosts of the audience, in identities"
			}
			k.warn(k.plan.Path(f.Name), "the operator does not list its host %s for %s, so that requests fail if that token goes there: "+
				"if it may, list it in %s, with the port if it is not the usual one", printableText(u.Host), name, list)
		}
	}
}
