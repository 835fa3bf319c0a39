package connectors

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
	"github.com/keywright/keywright/server/internal/secretstore"
)

// Each field of a struct is the member of the file that users know: renaming a field must not rename the member.
func TestMemberFields(t *testing.T) {
	for want, v := range map[string]any{
		"name, permalink, url, method, paths, headers, query, auth, tls, request, response, timeout, refresh_ahead, resend, limits, streams": gateway.Definition{},
		"name, value, overridable, repeated": gateway.Parameter{},
		"silence":                            gateway.Streams{},
		"filter, records, body, content_type, headers":                                    gateway.Response{},
		"per_user, total, request_bytes, response_bytes, concurrent":                      gateway.Limits{},
		"hosts, origins, consent, user, tls, traces, access_log, audit, access_log_users": Settings{},

		"file, stdout, on_error": Audit{},
		"cert, key":              TLS{},
		"certificate, key, pkcs12, passphrase, ca, for": host.TLS{},
		"type, jwt, header":                             identity.Config{},

		"bearer, cookie, jwks_file, jwks_url, issuer, audiences, algorithms, claims, token_hosts":                    identity.JWT{},
		"id, email, username, first_name, last_name, tenant_id":                                                      identity.Claims{},
		"proxies, required, id, email, username, first_name, last_name, tenant_id":                                   identity.Header{},
		"address, namespace, ca_file, mount, prefix, field, path, transit, token_file, approle, kubernetes, timeout": secretstore.VaultConfig{},
		"mount, role_id, secret_id_file":                                                                             secretstore.VaultAppRole{},
		"mount, role, token_file":                                                                                    secretstore.VaultKubernetes{},
		"mount":                                                                                                      secretstore.VaultTransit{},
		"path, name, ref, sha256, grants, limits":                                                                    pluginFile{},
	} {
		var names []string
		for _, f := range fieldsOf(reflect.TypeOf(v)) {
			names = append(names, f.name)
		}
		if got := strings.Join(names, ", "); got != want {
			t.Errorf("%T: %s, want %s", v, got, want)
		}
	}
}

// A missing member leaves the zero value, and paths are relative to the directory of the file.
func TestDecodedMembers(t *testing.T) {
	type part struct{ Name string }
	type all struct {
		part
		File   string `file:",path"`
		Rooted string `file:",path"`
		Text   string
		Blank  string `file:",blank"`
		One    []string
		Two    []string
		Yes    bool
		Rate   float64
		Count  int
		Size   int64
		Time   time.Duration
		Any    map[string]any
		Null   map[string]any
		Inner  part
		Pos    *part
		No     *part
		Parts  []part
		hidden string
		Other  string `file:"-"`
	}
	var p problems
	root := parse(t.Context(), `
name: a
file: b
rooted: /b
blank: ""
one: x
two: [x, y]
yes: true
rate: 0.5
count: 3
size: 4
time: 1m30s
any: {a: [1]}
"null": null
inner: {name: b}
pos: {name: c}
parts: [{name: d}, {name: e}]
`, &p)
	d := definer{problems: p, dir: "dir", suggestions: map[*node][]string{}}
	got := all{hidden: "is left alone"}
	d.decode(root, "", &got)
	if got.Any["a"] == nil {
		t.Error("an object of anything is lost")
	}
	got.Any = nil
	want := all{
		hidden: "is left alone", part: part{"a"}, File: "dir/b", Rooted: "/b", One: []string{"x"}, Two: []string{"x", "y"}, Yes: true, Rate: 0.5, Count: 3, Size: 4,
		Time: 90 * time.Second, Inner: part{"b"}, Pos: &part{"c"}, Parts: []part{{"d"}, {"e"}},
	}
	if diff := cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" || len(d.all) > 0 {
		t.Errorf("diff = %sd.all = %v", diff, d.all)
	}
}
