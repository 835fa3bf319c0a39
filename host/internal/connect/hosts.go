package connect

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/request"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/internal/urlcheck"
)

// HostList is a set of hosts, as host:port. The port is empty if none is configured: that of https is meant, or of http. A star may be
// the first of several labels, and stands for any one.
type HostList map[string]bool

// ParseHostList parses the names of hosts, without stars.
func ParseHostList(list []string) (HostList, error) {
	hosts := HostList{}
	for _, text := range list {
		if _, err := hosts.add(text, ""); err != nil {
			return nil, err
		}
	}
	return hosts, nil
}

// add adds a host, and returns its name in ASCII. star is put in front of it.
func (h HostList) add(text, star string) (name string, err error) {
	var o request.Origin
	u, err := urlcheck.ParseHost(text)
	if err == nil {
		o, err = request.OriginOf(u)
	}
	if err != nil {
		return "", fmt.Errorf("%q %w", printableText(star+text), err)
	}
	h[net.JoinHostPort(star+o.Host, u.Port())] = true
	return o.Host, nil
}

// Lists reports whether the host of a URL is one of h.
func (h HostList) Lists(u *url.URL) bool { return h.find(u) != "" }

// find returns the host of h that stands for that of a URL, or "".
func (h HostList) find(u *url.URL) string {
	if len(h) == 0 {
		return ""
	}
	o, err := request.OriginOf(u)
	if err != nil {
		return ""
	}
	names, ports := []string{o.Host}, []string{o.Port}
	if label, parent, _ := strings.Cut(o.Host, "."); urlcheck.Label(label) {
		names = append(names, "*."+parent)
	}
	if o.Scheme == "https" && o.Port == "443" || o.Scheme == "http" && o.Port == "80" {
		ports = append(ports, "")
	}
	for _, name := range names {
		for _, port := range ports {
			if host := net.JoinHostPort(name, port); h[host] {
				return strings.TrimSuffix(host, ":")
			}
		}
	}
	return ""
}

func (k *checker) hostList() {
	k.plan.hosts = HostList{}
	for _, text := range k.in.Hosts {
		name, star := strings.CutPrefix(text, "*.")
		domain, err := k.plan.hosts.add(name, text[:len(text)-len(name)])
		if star && err == nil {
			err = k.behindStar(text, domain)
		}
		if err != nil {
			k.Wrong("hosts", "%v", err)
		}
	}
}

// behindStar checks the domain behind a star. Below some domains everybody can get a name, by the list of
// publicsuffix.org, from a registry or from a product. Some rules of the list are for all names below a domain.
func (k *checker) behindStar(text, domain string) error {
	if !strings.Contains(domain, ".") {
		return fmt.Errorf("%q has only one label behind its star: name the domain of the API, as in *.example.com", printableText(text))
	}
	for _, name := range []string{domain, "a." + domain} {
		suffix, registry := publicsuffix.PublicSuffix(name)
		switch {
		case suffix == name && registry:
			return fmt.Errorf("%q has a star in front of %s, below which names are for sale: name the domain of the API, as in *.example.com", text, domain)
		case suffix == name:
			k.plan.public = text
		}
	}
	return nil
}

// openHost checks the pattern of a URL whose host the tenant chooses.
func (k *checker) openHost(pattern string) error {
	if len(k.in.Hosts) == 0 {
		return errors.New("has a star in its host: it needs hosts, which lists where that may lead, since whoever chooses the host gets the credential")
	}
	k.plan.tenants = true
	pattern, _, _ = strings.Cut(pattern, "{{")
	u, err := url.Parse(pattern)
	if err != nil {
		return errors.New("is not a URL")
	}
	for host := range k.plan.hosts {
		host, _, _ = strings.Cut(host, ":")
		if fits, err := path.Match(u.Hostname(), host); fits && err == nil {
			return k.in.CheckURL(pattern)
		}
	}
	return errors.New("leads to no host of hosts, whatever its expressions are")
}

// fieldHost checks the host of a field of kind url, or of one that is the URL of requests.
func (k *checker) fieldHost(f *hostfn.Field, text string) {
	names := f.Text.Names()
	personal := len(names.User) > 0 || names.Tenant
	if f.Sinks&seal.URL != 0 {
		k.plan.namesHost, k.plan.tenants = true, k.plan.tenants || personal
	}
	if f.Kind != abi.KindURL {
		return
	}
	if pattern, open := urlcheck.HostPattern(text); open && len(k.in.Hosts) > 0 {
		if err := k.openHost(pattern); err != nil {
			k.wrong(k.plan.Path(f.Name), err)
		}
		f.OpenHost = true
		return
	}
	if personal && !urlcheck.FixedHost(text) {
		k.wrongField(f, "user.*, tenant_id and secrets of tenants and users may stand only behind the host: whoever chooses the host gets the credential. "+
			"With hosts, a whole label of it may be tenant_id or get_variable('NAME', 'tenant')")
	}
}

// openHosts checks whether the list of hosts has an effect.
func (k *checker) openHosts() {
	plan := k.plan
	if len(plan.hosts) > 0 && !plan.tenants && !plan.namesHost && len(k.Problems) == 0 {
		k.Wrong("hosts", "has no effect: no URL of the connector has an expression in its host, and no answer names one. Remove it")
	}
	plan.Names.Tenant, plan.TenantHosts = plan.Names.Tenant || plan.tenants, plan.tenants
}

// CheckSecrets checks the secrets of all authentications of a connector. A host that strangers can choose gets none that is the same for
// all tenants. If one authentication has an endpoint of the tenant, and an answer names the host, that host gets what all of them add.
func CheckSecrets(in *Input, plans []*Plan) (found []problem.Problem) {
	tenants := slices.ContainsFunc(plans, func(p *Plan) bool { return p.tenants })
	namesHost := slices.ContainsFunc(plans, func(p *Plan) bool { return p.namesHost })
	for _, p := range plans {
		risk := "the tenant chooses the host"
		switch {
		case in.HostsShareSecrets, p.Plan == nil: // there is no such type
			continue
		case p.tenants, tenants && namesHost:
		case p.public != "":
			risk = "everybody can have a host that " + p.public + " stands for"
		default:
			continue
		}
		for _, path := range p.sharedSecrets() {
			found = append(found, problem.Place{}.Problem(path, "is the same for all tenants, and %s: write get_secret('NAME', 'tenant'), or set hosts_share_secrets", risk))
		}
	}
	return found
}

// sharedSecrets returns the paths of the credentials that are not of a tenant or a user. An identity of the process is one: the
// token that is issued for it has the rights of the process.
func (p *Plan) sharedSecrets() (paths []string) {
	for _, secret := range p.Names.Secrets {
		if !expr.Owned(secret) {
			paths = append(paths, p.SecretFields[secret])
		}
	}
	for name, f := range p.Fields {
		if f.Text != nil && (f.Sealed || f.Kind == abi.KindKey) && f.Kind != abi.KindCertificate &&
			(!f.Text.Secret() || len(f.Text.Names().Identities) > 0) { // it is literal, a key of a store, or an identity
			paths = append(paths, p.Path(name))
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

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
