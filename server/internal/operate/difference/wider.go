package difference

import (
	"cmp"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/keywright/keywright/internal/urlcheck"
)

// A rule says of members whether a change allows more.
type rule struct {
	// pattern matches the paths of members, as [path.Match] does. A star matches dots, too.
	pattern string
	allows  judge
}

// A judge returns what the change of a member allows now, or "".
type judge func(from, to member) string

// rules are asked in order. The first whose pattern matches decides. A member that none matches allows nothing when it changes.
var rules = []rule{
	{"method", more("callers may use %s", equal)},
	{"paths", more("callers may reach %s", below)},
	{"url", address},
	{"hosts", more("a tenant's host may be %s", equal)},
	{"hosts_share_secrets", enabled("hosts of tenants may get secrets of all tenants")},
	{"auth.type", changed("another plugin makes the credential")},
	{"auth.config.*", credential},
	{"auth.?.type", changed("another plugin makes the credential")},
	{"auth.?.config.*", credential},
	{"headers.*.overridable", enabled("callers may set it")},
	{"query.*.overridable", enabled("callers may set it")},
	{"headers.*.repeated", enabled("callers may set it several times")},
	{"query.*.repeated", enabled("callers may set it several times")},
	{"resend", off("a refresh token whose answer was lost may be sent again")},
	{"request", replaced("callers' bodies are shaped in another way, or not at all")},
	{"response.filter", replaced("other records may pass")},
	{"response.body", replaced("other parts of answers may pass")},
	{"response.records", replaced("other records may pass")},
	{"response.headers", more("callers get the headers %s", equal)},
	{"limits.*", raised},
	{"plugins.*.limits.*", changed("the plugin has other limits")},
	{"plugins.*.grants", more("the plugin has the grants %s", equal)},
	{"tls.ca", changed("servers of other authorities are trusted")},
	{"egress.allow_http", enabled("plain http is allowed")},
	{"egress.allow_private", enabled("private addresses are allowed")},
	{"egress.allow", more("connections to %s are allowed", subset)},
	{"egress.plain_http", more("plain http to %s is allowed", equal)},
	{"egress.proxy", changed("another proxy sees the connections")},
	{"egress.ca_file", changed("servers of other authorities are trusted")},
	{"gateway.hosts", more("callers may use the name %s", equal)},
	{"gateway.origins", more("pages of %s may call", equal)},
	{"gateway.user.header.required", off("requests without a user are allowed")},
	{"gateway.user.header.proxies", more("headers of %s are believed", subset)},
	{"gateway.user.jwt.token_hosts", more("%s may get tokens of users", equal)},
	{"gateway.user.jwt.audiences", more("tokens for %s are accepted", equal)},
	{"gateway.user.jwt.algorithms", more("tokens signed with %s are accepted", equal)},
	{"gateway.user.*", changed("users are found in another way")},
	{"gateway.consent.plain_http", enabled("browsers may use plain http")},
	{"gateway.consent.*", changed("browsers are sent elsewhere")},
	{"gateway.tls.*", func(_, a member) string { return when(a.value == nil, "callers may use plain HTTP") }},
	{"gateway.audit.*", changed("uses of credentials are recorded in another way, or not at all")},
	{"gateway.traces", changed("traces go elsewhere")},
	{"gateway.access_log_users", enabled("the log has the IDs of users")},
}

// wider returns what the change of a member allows, or "".
func wider(memberPath string, from, to member) string {
	for _, r := range rules {
		if r.matches(memberPath) {
			return r.allows(from, to)
		}
	}
	return ""
}

func (r rule) matches(memberPath string) bool {
	ok, _ := path.Match(r.pattern, strings.ReplaceAll(memberPath, "/", ".")) // its star does not match a slash
	return ok
}

func when(met bool, text string) string {
	if !met {
		return ""
	}
	return text
}

// texts returns the value of a member that is a list of texts.
func texts(m member) []string {
	all, _ := m.value.([]string)
	return all
}

// more returns a rule for lists of what is allowed. covers reports whether an item of the list from allows an item of the list to.
func more(format string, covers func(from, to string) bool) judge {
	return func(from, to member) string {
		all := slices.DeleteFunc(slices.Clone(texts(to)), func(is string) bool {
			return slices.ContainsFunc(texts(from), func(was string) bool { return covers(was, is) })
		})
		return when(len(all) > 0, strings.ReplaceAll(format, "%s", list(all)))
	}
}

func equal(from, to string) bool { return from == to }

// below reports whether a pattern of paths allows all that another one does.
func below(from, to string) bool {
	stem, rest := strings.CutSuffix(from, "/**")
	return from == to || rest && strings.HasPrefix(to, stem+"/")
}

// subset reports whether a range of addresses has all addresses of another one.
func subset(from, to string) bool {
	was, _ := urlcheck.Range(from) // files have been checked
	is, _ := urlcheck.Range(to)
	return from == to || is.IsValid() && was.Bits() <= is.Bits() && was.Contains(is.Addr())
}

// enabled returns a rule for members that are allowed while they are true.
func enabled(text string) judge {
	return func(_, to member) string { return when(to.value == true, text) }
}

// off returns a rule for members that forbid something while they are true.
func off(text string) judge { return func(_, to member) string { return when(to.value == nil, text) } }

// changed returns a rule for members of which each change may allow more: nobody can say from two texts which of them allows less.
func changed(text string) judge { return func(_, _ member) string { return text } }

// replaced returns a rule for what forbids something while it is there: each other text may allow more.
func replaced(text string) judge {
	return func(from, _ member) string { return when(from.value != nil, text) }
}

func address(from, to member) string {
	return cmp.Or(elsewhere(from, to), "callers reach other paths of the host")
}

// credential is the rule for fields of auth types: URLs to which credentials go, keys that stay in their store, and others, such as
// a scope, of which nobody can say from two texts which one allows less.
func credential(from, to member) string {
	text, _ := to.value.(string)
	return cmp.Or(elsewhere(from, to), when(strings.Contains(text, "get_key"), "another key signs"), "the credential may allow more")
}

// elsewhere is the rule for URLs to which credentials go. Other texts do not count.
func elsewhere(from, to member) string {
	return when(to.value != nil && (from.text != to.text || to.elsewhere), "the credential goes to another host")
}

// raised is the rule for limits of connectors. Those that have a default are never absent.
func raised(from, to member) string {
	number := func(m member) float64 {
		switch v := reflect.ValueOf(m.value); {
		case !v.IsValid():
			return 0
		case v.CanInt():
			return float64(v.Int())
		default:
			return v.Float()
		}
	}
	return when(to.value == nil || from.value != nil && number(to) > number(from), "the limit is higher, or gone")
}
