package identity

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"

	"github.com/keywright/keywright/host"
)

// header finds the user in headers that a proxy sets.
type header struct {
	proxies  []netip.Prefix
	required bool
	fields   []namedField
	// names maps the folded name of a header to its canonical name.
	names map[string]string
}

// namedField is a field of the user, with the name of its header or claim.
type namedField struct {
	// field is the name of the member in configurations.
	field string
	// name points to the name of the header or claim.
	name *string
	set  func(*host.User, string)
}

func fieldsOf(id, email, username, firstName, lastName, tenantID *string) []namedField {
	return []namedField{
		{"id", id, func(u *host.User, v string) { u.ID = v }},
		{"email", email, func(u *host.User, v string) { u.Email = v }},
		{"username", username, func(u *host.User, v string) { u.Username = v }},
		{"first_name", firstName, func(u *host.User, v string) { u.FirstName = v }},
		{"last_name", lastName, func(u *host.User, v string) { u.LastName = v }},
		{"tenant_id", tenantID, func(u *host.User, v string) { u.TenantID = v }},
	}
}

func (c *Header) fields() []namedField {
	return fieldsOf(&c.ID, &c.Email, &c.Username, &c.FirstName, &c.LastName, &c.TenantID)
}

// newHeader returns a header for a configuration without problems.
func newHeader(configured *Header) *header {
	c := *configured
	h := &header{required: c.Required, names: map[string]string{}}
	for _, text := range c.Proxies {
		if prefix, err := parseProxy(text); err == nil {
			h.proxies = append(h.proxies, prefix)
		}
	}
	for _, f := range c.fields() {
		if *f.name == "" {
			continue
		}
		*f.name = textproto.CanonicalMIMEHeaderKey(*f.name)
		h.names[fold(*f.name)] = *f.name
		h.fields = append(h.fields, f)
	}
	return h
}

func (h *header) user(r *http.Request) (host.User, error) {
	var u host.User
	if h.believes(r.RemoteAddr) {
		if err := h.unambiguous(r.Header); err != nil {
			return host.User{}, err
		}
		for _, f := range h.fields {
			value, err := f.value(r.Header)
			if err != nil {
				return host.User{}, err
			}
			f.set(&u, value)
		}
	}
	if h.required && u.ID == "" && u.Email == "" {
		return host.User{}, unauthenticated("no header of a proxy that is believed names the user")
	}
	return u, nil
}

// believes reports whether the peer of a connection is one of the proxies. It ignores X-Forwarded-For and similar headers.
func (h *header) believes(remote string) bool {
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false // such as the peer of a Unix socket
	}
	address := peer.Addr().Unmap().WithZone("")
	for _, prefix := range h.proxies {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}

// unambiguous returns an error if a header's name differs from a configured one, but is the same for programs that turn
// headers into variables, as CGI does. A proxy that removes X-Forwarded-Email may pass the browser's X_Forwarded_Email.
func (h *header) unambiguous(all http.Header) error {
	for key := range all {
		if name, ok := h.names[fold(key)]; ok && key != name {
			return ambiguous(fmt.Sprintf("a header is written almost like %s, and some programs take it for that", name))
		}
	}
	return nil
}

// value returns the value of the field's header, or "" if the request does not have it. It returns an error if there are
// several. Only the names of a person may have commas.
func (f *namedField) value(all http.Header) (string, error) {
	name := *f.name
	values := all[name]
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 {
		return "", ambiguous(name + " is there more than once: the proxy has to replace what browsers send, not to add to it")
	}
	value := strings.TrimSpace(values[0])
	if strings.Contains(value, ",") && f.field != "first_name" && f.field != "last_name" {
		return "", ambiguous(name + " has a comma, as when two headers were joined: the proxy has to replace what browsers send")
	}
	if wrong := fit(value); wrong != "" {
		return "", unauthenticated(name + " " + wrong)
	}
	return value, nil
}

// fold returns name in lower case, with a hyphen in place of each character that is not a letter or digit. Names that some
// program may confuse are the same after it.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		}
		return '-'
	}, name)
}
