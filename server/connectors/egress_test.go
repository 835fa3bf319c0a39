package connectors_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
)

// Everything that is wrong with the member egress is a problem with its place. No password of a proxy stands
// in the file.
func TestEgressProblems(t *testing.T) {
	const authorities = "is no file"
	dir := t.TempDir()
	testworld.Check(t, os.WriteFile(filepath.Join(dir, "text.pem"), []byte(authorities), 0o600))
	for name, c := range map[string]struct {
		egress string
		want   []string
	}{
		"no object":      {"10.0.0.0/8", []string{`connectors.yaml:7:9: egress: is text: an object with allow, ca_file, proxy or plain_http is wanted`}},
		"misspelt":       {"{allows: 10.0.0.0/8}", []string{`connectors.yaml:7:10: egress.allows: is not known here; did you mean "allow"?`}},
		"a name":         {"{allow: [10.0.0.1, api.internal]}", []string{`connectors.yaml:7:28: egress.allow[1]: is neither an address nor a range of addresses, such as 10.20.0.0/16: the address that is dialled is checked, not a name`}},
		"bits":           {"{allow: 10.20.0.1/16}", []string{`connectors.yaml:7:17: egress.allow[0]: has bits after its length: write 10.20.0.0/16 for the range, or 10.20.0.1 for the address`}},
		"everything":     {"{allow: 0.0.0.0/0}", []string{`connectors.yaml:7:17: egress.allow[0]: is every address there is: name the ranges of the APIs`}},
		"a zone":         {`{allow: "fe80::1%eth0"}`, []string{`connectors.yaml:7:17: egress.allow[0]: is neither an address nor a range of addresses, such as 10.20.0.0/16: the address that is dialled is checked, not a name`}},
		"no file":        {"{ca_file: none.pem}", []string{`connectors.yaml:7:19: egress.ca_file: cannot be read: no such file or directory`}},
		"a directory":    {"{ca_file: .}", []string{`connectors.yaml:7:19: egress.ca_file: cannot be read: it is no regular file`}},
		"no certificate": {"{ca_file: " + filepath.Join(dir, "text.pem") + "}", []string{`connectors.yaml:7:19: egress.ca_file: has no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----`}},
		"no proxy":       {"{proxy: proxy.example:3128}", []string{`connectors.yaml:7:17: egress.proxy: is no URL of a proxy, such as http://proxy.example:3128, or none`}},
		"a password":     {`{proxy: "http://a:hunter2@proxy.example"}`, []string{`connectors.yaml:7:17: egress.proxy: has a credential, which would stand in the file: name a proxy that asks for none`}},
		"another scheme": {"{proxy: ftp://proxy.example}", []string{`connectors.yaml:7:17: egress.proxy: has another scheme than http, https, socks5 or socks5h`}},
		"no host":        {"{plain_http: [keycloak, http://a.example]}", []string{`connectors.yaml:7:33: egress.plain_http[1]: is not the name of a host, such as login.example.com or localhost:8443`}},
		"a path":         {"{proxy: http://proxy.example/a}", []string{`connectors.yaml:7:17: egress.proxy: has more than scheme, host and port`}},
		"good":           {"{allow: [169.254.169.254, 10.0.0.0/8, 192.0.2.7, fd00::/16], proxy: none}", nil},
	} {
		wantProblems(t, weather+"egress: "+c.egress, connectors.Options{}, c.want...)
		own := strings.TrimSuffix(weather, "\n") + "\n    egress: " + c.egress
		if _, got := load(t, own, connectors.Options{}); (len(got) > 0) != (len(c.want) > 0) || len(got) > 0 && !strings.Contains(got[0], " connectors.weather-api.egress") {
			t.Errorf("%s, in a connector: %q", name, got)
		}
	}
}

// plain_http of the file is for all connectors, and that of a connector takes its place.
func TestPlainHTTPInside(t *testing.T) {
	text := `egress: {plain_http: keycloak}
connectors:
  - name: All
    url: http://keycloak:8080/x
    auth: {type: none}
  - name: Own
    url: http://sidecar/x
    auth: {type: oauth_client_credentials, config: {client_id: a, client_secret: "{{ get_secret('s') }}", token_url: http://sidecar/token}}
    egress: {plain_http: [sidecar]}
  - name: Replaced
    url: http://keycloak/x
    auth: {type: none}
    egress: {plain_http: [sidecar]}
`
	wantProblems(t, text, connectors.Options{}, "connectors.yaml:11:10: connectors.replaced.url: is plain http, …")
}

// threats.md 312: plain_http of the file is for the keys and the issuer of sessions and for Vault as well.
func TestPlainHTTPOfSessionsAndVault(t *testing.T) {
	const rest = `
secrets: [{type: vault, address: 'http://vault:8200', token_file: t, path: secret/data/x}]
connectors: [{name: A, url: 'https://api.example.com', auth: {type: none}}]
gateway: {user: {type: jwt, jwt: {issuer: 'http://login', audiences: [a]KEYS}}}
`
	for keys, member := range map[string]string{"": "issuer", ", jwks_url: 'http://login/jwks'": "jwks_url"} {
		text := strings.Replace(rest, "KEYS", keys, 1)
		loadGood(t, "egress: {plain_http: [vault, login]}"+text, connectors.Options{})
		_, got := load(t, "egress: {plain_http: [elsewhere]}"+text, connectors.Options{})
		if all := strings.Join(got, "\n"); len(got) != 2 || !strings.Contains(all, "secrets[0].address: is plain http") || !strings.Contains(all, "gateway.user.jwt."+member+": is plain http") {
			t.Errorf("%s without it: the problems are %q", member, got)
		}
	}
}

// specification.md 2.9: connectors reach an API inside the network, with the authorities of a file, without --dev. A connector's
// egress takes the place of the file's, member by member. threats.md 186, specification.md "egress of a connector"
func TestEgressOfAFileAndOfAConnector(t *testing.T) {
	authority := testworld.NewAuthority(t)
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	api.TLS = &tls.Config{Certificates: []tls.Certificate{authority.Server()}}
	api.StartTLS()
	t.Cleanup(api.Close)
	ca := filepath.Join(t.TempDir(), "company.pem")
	testworld.Check(t, os.WriteFile(ca, []byte(authority.PEM()), 0o600))
	const refused, unknown = "127.0.0.1 is a loopback address; it is dialled only if the operator allows it (egress.allow)", "its certificate is signed by an unknown authority"
	for name, c := range map[string]struct{ file, own, want string }{
		"none":                 {"", "", refused},
		"of the file":          {"{allow: 127.0.0.1, ca_file: CA}", "", ""},
		"of the connector":     {"", "{allow: 127.0.0.1, ca_file: CA}", ""},
		"without authority":    {"{allow: 127.0.0.1}", "", unknown},
		"of both":              {"{ca_file: CA}", "{allow: [127.0.0.0/8]}", ""},
		"another range":        {"{allow: 127.0.0.1, ca_file: CA}", "{allow: 10.0.0.0/8}", refused},
		"no range":             {"{allow: 127.0.0.1, ca_file: CA}", "{allow: []}", refused},
		"a proxy":              {"{allow: 127.0.0.1, ca_file: CA, proxy: 'http://127.0.0.1:1'}", "", "connection refused"},
		"a proxy, without one": {"{allow: 127.0.0.1, ca_file: CA, proxy: 'http://127.0.0.1:1'}", "{proxy: none}", ""},
	} {
		text := "connectors:\n  - {name: Inside, url: '" + api.URL + "', auth: {type: none}"
		if c.own != "" {
			text += ", egress: " + c.own
		}
		text += "}\n"
		if c.file != "" {
			text += "egress: " + c.file
		}
		set := loadGood(t, strings.ReplaceAll(text, "CA", ca), connectors.Options{})
		if used := strings.Contains(text, "CA"); used != (len(set.Files) == 1 && set.Files[0] == ca) {
			t.Errorf("%s: a change of %q is noticed", name, set.Files)
		}
		r := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, api.URL, nil))(t)
		response, err := set.Connectors[0].Upstream().Transport(nil).RoundTrip(r)
		switch {
		case err == nil && c.want == "":
			_ = response.Body.Close()
		case err == nil || c.want == "" || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// What an embedder's options have stays, whatever the file has.
func TestEgressOfTheOptions(t *testing.T) {
	options := connectors.Options{Host: host.Config{Egress: host.Egress{AllowPrivate: true}}}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	t.Cleanup(api.Close)
	options.Host.Egress.AllowHTTP = true
	set := loadGood(t, "connectors:\n  - {name: Inside, url: '"+api.URL+"', auth: {type: none}, egress: {allow: 10.0.0.0/8}}\n", options)
	r := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, api.URL, nil))(t)
	response := testworld.Must(set.Connectors[0].Upstream().Transport(nil).RoundTrip(r))(t)
	_ = response.Body.Close()
}
