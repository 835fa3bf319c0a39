package difference_test

import (
	"context"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/difference"
)

// read returns the connectors of a file. Each line with + in front is in the file after the change only, each with - before it only.
func read(t *testing.T, text string, mark byte) *connectors.Set {
	t.Helper()
	var file strings.Builder
	for line := range strings.Lines(text) {
		if line[0] == mark || line[0] == ' ' || line[0] == '\n' {
			file.WriteString(line[1:])
		}
	}
	secrets := host.MapSecrets{"key": "a-secret", "tls": "x"}
	set := testworld.Must(connectors.Read(t.Context(), "connectors.yaml", []byte(file.String()), connectors.Options{WithoutStore: true, Host: host.Config{Secrets: secrets}}))(t)
	t.Cleanup(func() { _ = set.Close(context.Background()) }) // there are no calls
	return set
}

// lines returns a difference as a line for each member.
func lines(d *difference.Document) (all []string) {
	for _, permalink := range d.Added {
		all = append(all, "added "+permalink)
	}
	for _, permalink := range d.Removed {
		all = append(all, "removed "+permalink)
	}
	line := func(m difference.Member) {
		text := strings.Join([]string{m.Path, m.Before, m.After, m.Wider}, "|")
		all = append(all, text)
	}
	for _, c := range d.Changed {
		for _, m := range c.Members {
			line(m)
		}
	}
	for _, m := range d.Others {
		line(m)
	}
	return all
}

const unchanged = ` connectors:
   - name: Orders
     url: https://api.example.com/v1
     auth: {type: bearer, config: {token: "{{ get_secret('key') }}"}}
`

const oauth = ` connectors:
   - name: CRM
     url: https://api.example.com
     auth:
       type: oauth_client_credentials
       config:
         client_id: me
         client_secret: "{{ get_secret('key') }}"
         token_url: https://login.example.com/token
`

// Members that are equal have equal fingerprints, and others have others.
func TestFingerprints(t *testing.T) {
	text := unchanged + "+  - {name: Shop, url: 'https://shop.example.com', auth: {type: none}} # new\n"
	was, is := difference.Fingerprints(read(t, text, '-')), difference.Fingerprints(read(t, text, '+'))
	if !maps.Equal(was[""], is[""]) || was["orders"]["url"] == "" || !maps.Equal(was["orders"], is["orders"]) || is["shop"] == nil || was["shop"] != nil {
		t.Errorf("with another connector, %q becomes %q", was, is)
	}
	is = difference.Fingerprints(read(t, unchanged+" egress: {allow: 192.0.2.0/24}\n", '+'))
	if !maps.Equal(was["orders"], is["orders"]) || maps.Equal(was[""], is[""]) {
		t.Errorf("with another egress of the set, %q becomes %q", was, is)
	}
	is = difference.Fingerprints(read(t, strings.Replace(unchanged, "/v1", "/v2", 1)+" gateway: {origins: 'https://app.example.com'}\n", '+'))
	if was[""]["gateway.origins"] == is[""]["gateway.origins"] || was["orders"]["url"] == is["orders"]["url"] || was["orders"]["auth.type"] != is["orders"]["auth.type"] {
		t.Errorf("with another URL and origin, %q becomes %q", was, is)
	}
}

func TestWider(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"methods":     {unchanged + "-    method: [GET]\n+    method: [GET, DELETE]\n", []string{"method|GET|GET, DELETE|callers may use DELETE"}},
		"paths":       {unchanged + "-    paths: [/orders/*]\n+    paths: [/**]\n", []string{"paths|/orders/*|/**|callers may reach /**"}},
		"fewer paths": {unchanged + "-    paths: [/**]\n+    paths: [/orders/*]\n", []string{"paths|/**|/orders/*|"}},
		"no filter":   {unchanged + "-    response: {filter: record.owner == user.id}\n", []string{"response.filter|||other records may pass"}},
		"a limit raised": {
			unchanged + "-    limits: {per_user: 2, total: 9}\n+    limits: {per_user: 3, total: 8}\n",
			[]string{"limits.per_user|2|3|the limit is higher, or gone", "limits.total|9|8|"},
		},
		"a limit gone":      {unchanged + "-    limits: {per_user: 2}\n", []string{"limits.per_user|2||the limit is higher, or gone"}},
		"a limit more":      {unchanged + "+    limits: {per_user: 2}\n", []string{"limits.per_user||2|"}},
		"overridable":       {unchanged + "     headers:\n-      - {name: X-A, value: a}\n+      - {name: X-A, value: a, overridable: true}\n", []string{"headers.X-A.overridable||true|callers may set it"}},
		"a connector's own": {unchanged + "+    egress: {allow: [10.0.0.0/8]}\n", []string{"egress.allow||10.0.0.0/8|connections to 10.0.0.0/8 are allowed"}},
		"egress": {
			unchanged + "+egress: {allow: [10.0.0.0/8]}\n",
			[]string{"egress.allow||10.0.0.0/8|connections to 10.0.0.0/8 are allowed", "egress.allow||10.0.0.0/8|connections to 10.0.0.0/8 are allowed"},
		},
		"proxies": {
			unchanged + " gateway:\n   hosts: [gw.example.com]\n-  user: {type: header, header: {id: X-User, proxies: [10.1.2.3]}}\n+  user: {type: header, header: {id: X-User, proxies: [10.0.0.0/8]}}\n",
			[]string{"gateway.user.header.proxies|10.1.2.3|10.0.0.0/8|headers of 10.0.0.0/8 are believed"},
		},
		"fewer proxies": {
			unchanged + " gateway:\n   hosts: [gw.example.com]\n-  user: {type: header, header: {id: X-User, proxies: [10.0.0.0/8]}}\n+  user: {type: header, header: {id: X-User, proxies: [10.1.2.3]}}\n",
			[]string{"gateway.user.header.proxies|10.0.0.0/8|10.1.2.3|"},
		},
		"a filter more":      {unchanged + "+    response: {filter: record.owner == user.id}\n", []string{"response.filter|||"}},
		"another filter":     {unchanged + "-    response: {filter: record.owner == user.id}\n+    response: {filter: record.open}\n", []string{"response.filter|||other records may pass"}},
		"hosts":              {unchanged + " gateway:\n-  hosts: [gw.example.com]\n+  hosts: [gw.example.com, other.example.com]\n", []string{"gateway.hosts|gw.example.com|gw.example.com, other.example.com|callers may use the name other.example.com"}},
		"stores":             {unchanged + "-secrets: [{type: env}]\n+secrets: [{type: dir, path: /run/secrets}]\n", []string{"secrets|||secrets come from other stores"}},
		"the host of an API": {strings.Replace(unchanged, "     url: https://api.example.com/v1\n", "-    url: https://api.example.com/v1\n+    url: https://api.example.org/v1\n", 1), []string{"url|https://api.example.com|https://api.example.org|the credential goes to another host"}},
		"the path of an API": {strings.Replace(unchanged, "     url: https://api.example.com/v1\n", "-    url: https://api.example.com/v1\n+    url: https://api.example.com/v2\n", 1), []string{"url|||callers reach other paths of the host"}},
		"another scope": {
			oauth + "-        scope: read\n+        scope: read write\n",
			[]string{"auth.config.scope|||the credential may allow more"},
		},
		"no audience": {oauth + "-        audience: https://api.example.com\n", []string{"auth.config.audience|||the credential may allow more"}},
		"another secret": {
			strings.Replace(unchanged, "     auth: {type: bearer, config: {token: \"{{ get_secret('key') }}\"}}\n", "-    auth: {type: bearer, config: {token: \"{{ get_secret('key') }}\"}}\n+    auth: {type: bearer, config: {token: \"{{ get_secret('tls', 'tenant') }}\"}}\n", 1),
			[]string{"auth.config.token|||the credential may allow more; the secret tenants/*/tls is read"},
		},
		"a secret fewer":       {unchanged + "     headers:\n-      - {name: X-A, value: \"{{ get_secret('key') }}\"}\n+      - {name: X-A, value: a}\n", []string{"headers.X-A.value|||"}},
		"a secret in a header": {unchanged + "     headers:\n-      - {name: X-A, value: \"{{ get_secret('key') }}\"}\n+      - {name: X-A, value: \"{{ get_secret('tls') }}{{ get_secret('key') }}\"}\n", []string{"headers.X-A.value|||the secret tls is read"}},
		"a secret for a certificate": {
			unchanged + "-    tls: {certificate: \"{{ get_secret('tls') }}\", key: \"{{ get_secret('key') }}\"}\n+    tls: {certificate: \"{{ get_secret('tls') }}\", key: \"{{ get_secret('tls') }}\"}\n",
			[]string{"tls.key|||the secret tls is read"},
		},
		"limits of the host": {unchanged + "+limits: {concurrent_exchanges: 65}\n", []string{"limits.concurrent_exchanges|64|65|the limit is higher, or gone"}},
		"a connector more":   {unchanged + "+  - {name: Open, url: https://open.example.com, auth: {type: none}}\n", []string{"added open"}},
		"a connector fewer":  {unchanged + "-  - {name: Open, url: https://open.example.com, auth: {type: none}}\n", []string{"removed open"}},
		"a header of answers": {
			unchanged + "-    response: {headers: [X-A]}\n+    response: {headers: [X-A, X-B]}\n",
			[]string{"response.headers|X-A|X-A, X-B|callers get the headers X-B"},
		},
		"nothing": {unchanged, nil},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := read(t, c.text, '-'), read(t, c.text, '+')
			d := difference.Of(before, after)
			if got := lines(d); !slices.Equal(got, c.want) {
				t.Errorf("the difference is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			wider := slices.ContainsFunc(c.want, func(line string) bool {
				return strings.Count(line, "|") == 3 && !strings.HasSuffix(line, "|") || strings.HasPrefix(line, "added")
			})
			if d.Wider() != wider || d.Empty() != (len(c.want) == 0) {
				t.Errorf("wider is %v, empty is %v", d.Wider(), d.Empty())
			}
		})
	}
}

func TestTokenEndpointElsewhere(t *testing.T) {
	file := strings.Replace(oauth, "         token_url: https://login.example.com/token\n", "-        token_url: BEFORE\n+        token_url: AFTER\n", 1)
	for name, c := range map[string]struct{ before, after, want string }{
		"literal":    {"https://login.example.com/token", "https://login.example.org/token", "https://login.example.com|https://login.example.org|"},
		"discovered": {`"{{ discover('https://login.example.com', 'token_endpoint') }}"`, `"{{ discover('https://login.example.org', 'token_endpoint') }}"`, "||"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.NewReplacer("BEFORE", c.before, "AFTER", c.after).Replace(file)
			want := []string{"auth.config.token_url|" + c.want + "the credential goes to another host"}
			if got := lines(difference.Of(read(t, text, '-'), read(t, text, '+'))); !slices.Equal(got, want) {
				t.Errorf("the difference is %q, want %q", got, want)
			}
		})
	}
}

// neutral has the members of which no change allows more, as patterns of their paths.
var neutral = []string{
	"name", "headers.*.name", "headers.*.value", "query.*.name", "query.*.value", "response.content_type", "tls.certificate", "tls.key", "tls.pkcs12", "tls.passphrase", "tls.for",
	"timeout", "streams.silence", "refresh_ahead", "gateway.access_log", "consent.*", "consent.account.*",
}

// Each field of a definition and of the settings is a member of the difference, and it is known what its changes allow. A field that is
// new in a later version cannot be forgotten.
func TestEachMemberHasARule(t *testing.T) {
	for prefix, v := range map[string]any{"": gateway.Definition{}, "gateway": connectors.Settings{}} {
		for _, at := range leaves(prefix, reflect.TypeOf(v)) {
			if difference.HasRule(at) == slices.ContainsFunc(neutral, func(p string) bool { ok, _ := path.Match(p, at); return ok }) {
				t.Errorf("%s has a rule in wider.go and is neutral here, or neither", at)
			}
		}
	}
}

// leaves returns the paths of what a type holds.
func leaves(at string, t reflect.Type) (all []string) {
	switch {
	case t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct && strings.Contains(t.Elem().PkgPath(), "keywright"):
		return leaves(at, t.Elem())
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct && strings.Contains(t.Elem().PkgPath(), "keywright"):
		return leaves(at+".x", t.Elem())
	case t.Kind() == reflect.Map:
		return []string{at + ".x"}
	case t.Kind() != reflect.Struct || !strings.Contains(t.PkgPath(), "keywright"):
		return []string{at}
	}
	for _, f := range reflect.VisibleFields(t) {
		name := connectors.MemberName(f)
		if f.IsExported() && name != "permalink" && name != "patterns" && !f.Anonymous {
			all = append(all, leaves(strings.Replace(strings.TrimPrefix(at+"."+name, "."), "egress.tls", "egress.ca_file", 1), f.Type)...)
		}
	}
	return all
}
