package host

import (
	"context"
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

// userTokenPlace says where user.token may stand, for errors.
const userTokenPlace = "user.token goes to token endpoints only, so it may stand in a sealed field of auth.config of kind string with the sink token"

// parseUserTokenHosts returns the hosts of Config.UserTokenHosts, as host:port. The port is empty if none is given.
func parseUserTokenHosts(list []string) (map[string]bool, error) {
	hosts := map[string]bool{}
	for _, text := range list {
		u, err := urlcheck.ParseHost(text)
		if err != nil {
			return nil, fmt.Errorf("UserTokenHosts: %q %w", Printable(text), err)
		}
		o, err := request.OriginOf(u)
		if err != nil {
			return nil, fmt.Errorf("UserTokenHosts: %q %w", Printable(text), err)
		}
		hosts[net.JoinHostPort(o.Host, u.Port())] = true
	}
	return hosts, nil
}

// listsHost reports whether the host of a URL is one of Config.UserTokenHosts.
func (h *Host) listsHost(u *url.URL) bool {
	o, err := request.OriginOf(u)
	if err != nil {
		return false
	}
	usual := o.Scheme == "https" && o.Port == "443" || o.Scheme == "http" && o.Port == "80"
	return h.userTokenHosts[net.JoinHostPort(o.Host, o.Port)] || usual && h.userTokenHosts[net.JoinHostPort(o.Host, "")]
}

// userToken checks a field whose template may name user.token. If it does, it takes all sinks from the field's value but the
// exchanges with listed hosts.
func (k *checker) userToken(f *hostfn.Field, names template.Names) {
	switch {
	case !names.UserToken():
		return
	case f.Kind == abi.KindObject:
		k.Wrong(k.connector.path(f.Name), "names user.token, and no object is sealed: %s", userTokenPlace)
	case !f.Sealed:
		k.Wrong(k.connector.path(f.Name), "names user.token, and is not sealed: %s", userTokenPlace)
	case f.Kind != abi.KindString: // such as a url: what is requested of an endpoint may not be a token
		k.Wrong(k.connector.path(f.Name), "names user.token, and is of kind %s: %s", f.Kind, userTokenPlace)
	case f.Sinks&seal.Token != seal.Token:
		k.Wrong(k.connector.path(f.Name), "names user.token, and its value goes elsewhere (%s): %s", f.Sinks, userTokenPlace)
	case len(k.host.userTokenHosts) == 0:
		k.Wrong(k.connector.path(f.Name), "names user.token, which no host may get: the operator lists token endpoints in UserTokenHosts (gateway.user.jwt.token_hosts)")
	}
	f.Sinks, f.Derived = seal.Listed, 0
}

// warnOfUnlisted warns of each URL of a configuration with user.token whose host may not get it. It is no error, because a plugin
// may send the token to another of its URLs only.
func (c *Connector) warnOfUnlisted(ctx context.Context) {
	if !c.plan.Names.UserToken() {
		return
	}
	for _, described := range c.plugin.info.Fields {
		f := c.plan.Fields[described.Name]
		if f.Kind != abi.KindURL || f.Text == nil {
			continue
		}
		text, literal := f.Text.Literal()
		if u, err := url.Parse(text); literal && err == nil && !c.host.listsHost(u) {
			c.log.warn(ctx, c.path(f.Name), "the operator does not list its host "+Printable(u.Host)+
				" in UserTokenHosts (gateway.user.jwt.token_hosts), so that requests fail if user.token goes there")
		}
	}
}
