package connect

import (
	"fmt"
	"net"
	"net/url"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/request"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/internal/urlcheck"
)

// UserTokenPlace says where user.token may stand, for errors.
const UserTokenPlace = "user.token goes to token endpoints only, so it may stand in a sealed field of auth.config of kind string with the sink token"

// DiscoverPlace says where discover may stand, for errors.
const DiscoverPlace = "discover is for the fields of auth.config: it names endpoints of an authorization server"

// UserTokenHosts has the hosts that may get the tokens of users, as host:port. The port is empty if none is configured.
type UserTokenHosts map[string]bool

// ParseUserTokenHosts parses the names of hosts.
func ParseUserTokenHosts(list []string) (UserTokenHosts, error) {
	hosts := UserTokenHosts{}
	for _, text := range list {
		var o request.Origin
		u, err := urlcheck.ParseHost(text)
		if err == nil {
			o, err = request.OriginOf(u)
		}
		if err != nil {
			return nil, fmt.Errorf("UserTokenHosts: %q %w", printableText(text), err)
		}
		hosts[net.JoinHostPort(o.Host, u.Port())] = true
	}
	return hosts, nil
}

// Lists reports whether the host of a URL is one of h.
func (h UserTokenHosts) Lists(u *url.URL) bool {
	o, err := request.OriginOf(u)
	if err != nil {
		return false
	}
	usual := o.Scheme == "https" && o.Port == "443" || o.Scheme == "http" && o.Port == "80"
	return h[net.JoinHostPort(o.Host, o.Port)] || usual && h[net.JoinHostPort(o.Host, "")]
}

// userToken checks a field that may name user.token. The value of one that does goes to exchanges with listed hosts only.
func (k *checker) userToken(f *hostfn.Field, names template.Names) {
	switch {
	case !names.UserToken():
		return
	case f.Kind == abi.KindObject:
		k.wrongField(f, "names user.token, and no object is sealed: %s", UserTokenPlace)
	case !f.Sealed:
		k.wrongField(f, "names user.token, and is not sealed: %s", UserTokenPlace)
	case f.Kind != abi.KindString: // such as a url: what is requested of an endpoint may not be a token
		k.wrongField(f, "names user.token, and is of kind %s: %s", f.Kind, UserTokenPlace)
	case f.Sinks&seal.Token != seal.Token:
		k.wrongField(f, "names user.token, and its value goes elsewhere (%s): %s", f.Sinks, UserTokenPlace)
	case len(k.in.UserTokenHosts) == 0:
		k.wrongField(f, "names user.token, which no host may get: the operator lists token endpoints in UserTokenHosts (gateway.user.jwt.token_hosts)")
	}
	f.Sinks, f.Derived = seal.Listed, 0
}

// unlisted warns of each URL of a configuration with user.token whose host may not get it. It is no error, because a plugin
// may send the token to another of its URLs only.
func (k *checker) unlisted() {
	if !k.plan.Names.UserToken() {
		return
	}
	for _, described := range k.in.Plugin.Fields {
		f := k.plan.Fields[described.Name]
		if f.Kind != abi.KindURL || f.Text == nil {
			continue
		}
		text, literal := f.Text.Literal()
		if u, err := url.Parse(text); literal && err == nil && !k.in.UserTokenHosts.Lists(u) {
			k.warn(k.plan.Path(f.Name), "the operator does not list its host %s in UserTokenHosts (gateway.user.jwt.token_hosts), "+
				"so that requests fail if user.token goes there", printableText(u.Host))
		}
	}
}
