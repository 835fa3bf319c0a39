package connectors_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
)

// inspect returns what check finds in a text: the problems, and the warnings.
func inspect(t *testing.T, text string, o connectors.Options) (problems, warnings []connectors.Problem) {
	t.Helper()
	o.Inspect, o.WithoutStore = true, true
	set, err := connectors.Read(t.Context(), filepath.Join(t.TempDir(), "connectors.yaml"), []byte(text), o)
	var wrong *connectors.Error
	switch {
	case errors.As(err, &wrong):
		return wrong.Problems, wrong.Warnings
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = set.Close(t.Context()) })
	return nil, set.Warnings
}

// lines returns problems as lines.
func lines(all []connectors.Problem) (texts []string) {
	for _, p := range all {
		texts = append(texts, p.String())
	}
	return texts
}

// What authors often confuse has a warning or a problem that says what to write. None shows a secret.
func TestFrequentMistakes(t *testing.T) {
	const canary = "c4n4ry0x9c4n4ry0x9"
	secrets := host.MapSecrets{"plain": canary, "scheme": "Bearer " + canary, "quoted": `"` + canary + `"`, "exported": "export TOKEN=" + canary, "assigned": "API_TOKEN=" + canary, "base64": canary + "=="}
	token := func(text string) string { return `{type: bearer, config: {token: "` + text + `"}}` }
	client := "{type: oauth_client_credentials, config: {client_id: a, client_secret: \"{{ get_secret('plain') }}\", token_url: "
	for _, c := range []struct{ auth, more, want string }{
		{token("{{ env.TOKEN }}"), "", "a secret, also one of the environment, is get_secret('NAME')"},
		{token("{{ TOKEN }}"), "", "a secret, also one of the environment, is get_secret('NAME')"},
		{token("Bearer {{ get_secret('plain') }}"), "", `warning: connectors.a.auth.config.token: begins with "Bearer", which the field prefix adds: leave it out here`},
		{"{type: api_key, config: {key: X-Key, in: header, value: \"Bearer bearer {{ get_secret('plain') }}\"}}", "", "warning: connectors.a.auth.config.value: begins with the same word twice"},
		{"{type: none}", "    headers: [{name: X-Key, value: \"Token Token {{ get_secret('plain') }}\"}]\n", "warning: connectors.a.headers[0].value: begins with the same word twice"},
		{token("{{ get_secret('scheme') }}"), "", `the value of "Authorization" begins with its scheme twice: leave it out of the secret`},
		{token("{{ get_secret('quoted') }}"), "", `secret "quoted" stands in quotes`},
		{token("{{ get_secret('exported') }}"), "", `secret "exported" is a line NAME=VALUE`},
		{token("{{ get_secret('assigned') }}"), "", `secret "assigned" is a line NAME=VALUE`},
		{token("{{ get_secret('base64') }}"), "", ""},
		{token("{{ get_secret('plain') }}"), "    paths: [/orders, /v1/**, /v12]\n", "warning: connectors.a.paths[1]: stands below url, whose path /v1 it repeats: write the rest of it, unless the API has the path /v1/v1/**"},
		{client + "https://login.example.com/oauth/authorize}}", "", "warning: connectors.a.auth.config.token_url: ends in /authorize"},
		{client + "https://login.example.com/oauth/token}}", "", ""},
		{"{type: aws_sigv4, config: {access_key_id: a, secret_access_key: \"{{ get_secret('plain') }}\", service: s3, region: eu_Central_1}}", "", `warning: connectors.a.auth.config.region: is "eu_Central_1": did you mean "eu-central-1"?`},
		{"{type: aws_sigv4, config: {access_key_id: a, secret_access_key: \"{{ get_secret('plain') }}\", service: S3, region: RegionOne}}", "", `warning: connectors.a.auth.config.service: is "S3": did you mean "s3"?`},
		{"{type: oauth_authorization_code, config: {client_id: a, client_auth: none, authorization_url: https://l.example.com/token, token_url: https://l.example.com/token}}", "", "warning: connectors.a.auth.config.authorization_url: ends in /token"},
	} {
		problems, warnings := inspect(t, "connectors:\n  - name: a\n    url: https://api.example.com/v1/\n"+c.more+"    auth: "+c.auth+"\n",
			connectors.Options{ReadSecrets: true, User: host.User{ID: "1", TenantID: "1"}, Host: host.Config{Secrets: secrets}})
		all := lines(problems)
		for _, p := range warnings {
			if !strings.Contains(p.Message, "nobody can connect an account") {
				all = append(all, "warning: "+p.Path+": "+p.Message)
			}
		}
		got := strings.Join(all, "\n")
		if strings.Contains(got, canary) || !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s%s: got = %s", c.auth, c.more, got)
		}
	}
}

// A warning of a credential in the file has its place and the number of its lines, so that a program that shows one can hide it. Neither a
// warning nor a problem has the credential (threats.md 250, specification.md "a credential in the file").
func TestCredentialsInTheFile(t *testing.T) {
	const canary = "c4n4ry0x9c4n4ry0x9"
	connector := func(auth, more string) string {
		return "connectors:\n  - name: a\n    url: https://api.example.com\n" + more + "    auth: " + auth + "\n"
	}
	bearer := `{type: bearer, config: {token: "{{ get_secret('a') }}"}}`
	tests := map[string]struct {
		text string
		// path is that of the warning, and hidden the text at its place, of one line. For "|", it hides all lines of the value.
		path, hidden string
	}{
		"in a sealed field":             {connector("{type: bearer, config: {token: "+canary+"}}", ""), "auth.config.token", canary},
		"in quotes":                     {connector("{type: bearer, config: {token: '"+canary+"'}}", ""), "auth.config.token", canary},
		"of a few letters":              {connector("{type: basic, config: {username: me, password: xyz}}", ""), "auth.config.password", "xyz"},
		"by an alias":                   {connector("{type: apikey, config: {key: X-Key, in: header, value: "+canary+"}}", ""), "auth.config.value", canary},
		"as a key":                      {connector("{type: jwt, config: {algorithm: HS256, private_key: "+canary+", claims: {sub: a}}}", ""), "auth.config.private_key", canary},
		"as a key of several lines":     {connector("\n      type: jwt\n      config:\n        claims: {sub: a}\n        private_key: |\n          -----BEGIN PRIVATE KEY-----\n          "+canary, ""), "auth.config.private_key", "|"},
		"beside an expression":          {connector(`{type: bearer, config: {token: "`+canary+`{{ user.id }}"}}`, ""), "auth.config.token", canary},
		"in an expression":              {connector(`{type: bearer, config: {token: "{{ '`+"sk_"+"live_"+canary+`' }}"}}`, ""), "auth.config.token", "sk_" + "live_" + canary},
		"in a header Authorization":     {connector("{type: none}", "    headers: [{name: Authorization, value: Bearer "+canary+"}]\n"), "headers[0].value", "Bearer " + canary},
		"in another header":             {connector("{type: none}", "    headers: [{name: X-Shop-Token, value: "+canary+"}]\n"), "headers[0].value", canary},
		"in the query":                  {connector("{type: none}", "    query: [{name: api_key, value: "+canary+"}]\n"), "query[0].value", canary},
		"in a header of any name":       {connector(bearer, "    headers: [{name: X-Any, value: ghp"+"_"+canary+canary+"}]\n"), "headers[0].value", "ghp" + "_" + canary + canary},
		"in the path of the URL":        {strings.ReplaceAll(connector("{type: none}", ""), "https://api.example.com", "https://api.example.com/bot"+"123456789:AA"+canary+canary[:15]), "url", "bot123456789:AA" + canary + canary[:15]},
		"in a member of another object": {connector("{type: login, config: {url: https://api.example.com/login, body: {user: me, password: "+canary+"}, token_from: json:/token, header: X-Token}}", ""), "auth.config.body.password", canary},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			problems, warnings := inspect(t, tt.text, connectors.Options{Host: host.Config{Secrets: host.MapSecrets{}}})
			all := strings.Join(append(lines(problems), lines(warnings)...), "\n")
			if strings.Contains(all, canary) {
				t.Errorf("the credential is shown:\n%s", all)
			}
			found := slices.IndexFunc(warnings, func(p connectors.Problem) bool { return strings.Contains(p.Message, "a credential stands in the file") })
			if found < 0 || warnings[found].Path != "connectors.a."+tt.path {
				t.Fatalf("there is no warning of %s:\n%s", tt.path, all)
			}
			p := warnings[found]
			all = strings.Join(strings.Split(tt.text, "\n")[p.Line-1:], "\n")
			last := max(0, strings.LastIndex(all, canary))
			if text := all[p.Column-1:]; !strings.HasPrefix(text, tt.hidden) || strings.Count(all[:last], "\n") >= p.Hidden || (p.Hidden == 1) != (tt.hidden != "|") {
				t.Errorf("%d lines are hidden from %q", p.Hidden, text)
			}
		})
	}
}

// A credential that stands in the place of a name is in no problem, and neither is one of a known form: in braces, YAML takes a name
// and a value for a name if there is no blank after the colon, and a password that begins with *, ! or & for an alias, a tag or an anchor
// (threats.md 281).
func TestNoProblemShowsACredentialAsAName(t *testing.T) {
	const canary = "c4n4ry0x9c4n4ry0x9"
	for name, tt := range map[string]struct{ config, want string }{
		"no blank after the colon": {"{username: me, password:" + canary + "}", "2:88: connectors.a.auth.config: has a member without a value: there is a blank after the colon behind its name"},
		"an equals sign":           {"{username: me, password=" + canary + "}", "2:88: connectors.a.auth.config: has a member without a value: there is a blank after the colon behind its name"},
		"in quotes":                {"{username: me, 'password: " + canary + "'}", "2:88: connectors.a.auth.config: has a member without a value: there is a blank after the colon behind its name"},
		"an alias":                 {"{username: me, password: *" + canary + "}", "there is no anchor of this name: put text that begins with * in quotes"},
		"a tag":                    {"{username: me, password: !" + canary + "}", "has a tag, which begins with !"},
		"two anchors":              {"{username: &" + canary + " me, password: &" + canary + " x}", "an anchor of this name is there before"},
		"a name of a known form":   {"{username: me, password: '', sk" + "_live_" + canary + ": ''}", "connectors.a.auth.config.…: is not a field of auth type basic"},
	} {
		t.Run(name, func(t *testing.T) {
			problems, warnings := inspect(t, "connectors:\n  - {name: a, url: https://api.example.com, auth: {type: basic, config: "+tt.config+"}}\n", connectors.Options{})
			all := strings.Join(append(lines(problems), lines(warnings)...), "\n")
			if strings.Contains(all, canary) || !strings.Contains(all, tt.want) {
				t.Error(all)
			}
		})
	}
}

// YAML ends a line at characters that editors do not. What is shown for a problem would be another line (threats.md 280).
func TestLineEnds(t *testing.T) {
	for _, end := range []string{"\r", "\u0085", "\u2028", "\u2029"} {
		problems, _ := inspect(t, "# one\r\n# two"+end+"# three\nconnectors: []\n", connectors.Options{})
		if len(problems) != 1 || problems[0].Line != 2 || !strings.Contains(problems[0].Message, "ends a line in YAML") {
			t.Errorf("%q: lines(problems) = %q", end, lines(problems))
		}
	}
}

// A placeholder in the place of a credential may be a password, so that it is hidden, too (threats.md 250).
func TestHiddenPlaceholder(t *testing.T) {
	const text = "connectors:\n  - {name: a, url: https://api.example.com, auth: {type: basic, config: {username: your-name, password: your-c4n4ry}}}\n"
	_, warnings := inspect(t, text, connectors.Options{})
	if len(warnings) != 2 || warnings[0].Hidden != 0 || warnings[1].Hidden != 1 || !strings.HasPrefix(warnings[1].Message, "has a placeholder: ") {
		t.Errorf("warnings = %+v", warnings)
	}
	if all := strings.Join(lines(warnings), ""); strings.Contains(all, "c4n4ry") {
		t.Error(all)
	}
}

// What the host warns of in a connector is a warning with its place, and not a line of the log.
func TestWarningsOfTheHostHavePlaces(t *testing.T) {
	const text = `connectors:
  - name: Alias
    url: https://one.example
    auth: {type: apikey, config: {key: X-Key, value: "{{ get_secret('blank') }}", in: header}}
  - name: Weak
    url: https://two.example
    auth: {type: jwt, config: {algorithm: HS256, private_key: "{{ get_secret('weak') }}", claims: {sub: a}}}
  - name: Consent
    url: https://three.example
    auth: {type: oauth_authorization_code, config: {authorization_url: https://a.example/a, token_url: https://a.example/t, client_id: a, client_secret: "{{ get_secret('weak') }}"}}
state: {type: sqlite, path: state.db, keys: ["{{ get_secret('state') }}"]}
`
	var log testworld.Log
	secrets := host.MapSecrets{"blank": "hunter2 ", "weak": "hunter2", "state": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}
	problems, warnings := inspect(t, text, connectors.Options{ReadSecrets: true, Host: host.Config{Logger: log.Logger(), Secrets: secrets}})
	want := []string{
		`4:18: connectors.alias.auth.type: auth type "apikey" is a deprecated alias, use "api_key"`,
		`4:69: connectors.alias.auth.config.value: secret "blank" begins or ends with white space, which is used with it: store it without, unless it is a part of the secret`,
		`7:63: connectors.weak.auth.config.private_key: HS256 key is shorter than 32 bytes`,
		`10:18: connectors.consent: requests have no user, so that nobody can connect an account, and the gateway sends nothing: let gateway.user say who the user is`,
	}
	if diff := cmp.Diff(want, lines(warnings)); diff != "" || problems != nil || log.String() != "" {
		t.Errorf("problems %v, log %q, warnings (-want +got):\n%s", problems, log.String(), diff)
	}
}

// A file with a certificate, a key, authorities or keys of sessions that cannot be used is a problem, as it is for serve. A file that is
// not there is one only where secrets are read (specification.md "files of another machine"). So is one with a certificate that has ended
// (specification.md "a certificate that has ended").
func TestGatewayFiles(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		testworld.Check(t, os.WriteFile(file, []byte(text), 0o600))
		return file
	}
	authority := testworld.NewAuthority(t)
	pair := func(name string, days int) (cert, key string) {
		certificate, private := authority.Client(name, now.AddDate(0, 0, days))
		return write(name+".crt", certificate), write(name+".key", private)
	}
	good, goodKey := pair("good", 90)
	soon, soonKey := pair("soon", 20)
	ended, endedKey := pair("ended", -1)
	text := write("text", "not PEM")
	broken := write("broken.crt", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
	open := write("open.key", "")
	testworld.Check(t, os.Chmod(open, 0o644))
	missing := filepath.Join(dir, "missing")
	noJWKS, jwks := write("no.json", `{}`), write("keys.json", `{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`)
	odd := write("odd.json", `{"keys": [{"kty": "none", "kid": "b"}, {"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`)
	tls := func(cert, key string) string { return fmt.Sprintf("tls: {cert: %s, key: %s}", cert, key) }
	user := func(file string) string {
		return fmt.Sprintf("user: {type: jwt, jwt: {issuer: i, audiences: [a], jwks_file: %s}}", file)
	}
	tests := map[string]struct {
		gateway, more     string
		secrets           bool
		problem, warnings string
	}{
		"a good pair":                        {gateway: tls(good, goodKey)},
		"a pair that ends soon":              {gateway: tls(soon, soonKey), warnings: "gateway.tls.cert: the certificate of CN=soon ends at 2030-01-21T00:00:00Z, within 30 days: renew it"},
		"a pair that has ended":              {gateway: tls(ended, endedKey), problem: "gateway.tls.cert: the certificate ended at 2029-12-31T00:00:00Z, and callers refuse it: renew it"},
		"a key of another certificate":       {gateway: tls(good, soonKey), problem: "gateway.tls.key: " + good + " and " + soonKey + " cannot be used: tls: private key does not match public key"},
		"a certificate that is none":         {gateway: tls(text, goodKey), problem: "gateway.tls.cert: has no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----"},
		"a broken certificate":               {gateway: tls(broken, goodKey), problem: "gateway.tls.cert: has a certificate that cannot be read, number 1 of the file"},
		"a key that everybody may read":      {gateway: tls(good, open), problem: "gateway.tls.key: the key " + open + " is open to everybody on this machine (its mode is 0644): chmod o= it, and have a new one made"},
		"a missing key":                      {gateway: tls(good, missing), warnings: "gateway.tls.key: names a file that is not on this machine, and `serve` does not start without it"},
		"a missing key, with secrets":        {gateway: tls(good, missing), secrets: true, problem: "gateway.tls.key: names a file that is not on this machine, and `serve` does not start without it"},
		"a directory":                        {gateway: tls(dir, goodKey), problem: "gateway.tls.cert: is no regular file, and `serve` does not start without it"},
		"keys of sessions":                   {gateway: user(jwks)},
		"keys of sessions that are none":     {gateway: user(noJWKS), problem: "gateway.user.jwt.jwks_file: sessions cannot be verified now: the keys cannot be had: it is not a JWK Set: it has no member keys"},
		"keys of sessions that are not used": {gateway: user(odd), warnings: "gateway.user.jwt.jwks_file: a key of the file is not used: keys[0] "},
		"missing keys of sessions":           {gateway: user(missing), warnings: "gateway.user.jwt.jwks_file: names a file that is not on this machine, and `serve` does not start without it"},
		"an authority that ends soon":        {more: "egress: {ca_file: " + soon + "}", warnings: "egress.ca_file: the certificate of CN=soon ends at 2030-01-21T00:00:00Z, within 30 days: renew it"},
		"an authority that has ended":        {more: "egress: {ca_file: " + ended + "}", warnings: "egress.ca_file: the certificate of CN=ended ended at 2029-12-31T00:00:00Z: replace it"},
		"an authority that is no PEM":        {more: "egress: {ca_file: " + text + "}", problem: "egress.ca_file: has no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			file := tt.more + "\nconnectors:\n  - name: a\n    url: https://api.example.com\n    auth: {type: none}\n"
			if tt.gateway != "" {
				file += "gateway: {" + tt.gateway + "}\n"
			}
			problems, warnings := inspect(t, file, connectors.Options{ReadSecrets: tt.secrets, Host: host.Config{Clock: func() time.Time { return now }}})
			for _, got := range []struct {
				kind, want string
				all        []connectors.Problem
			}{{"problem", tt.problem, problems}, {"warning", tt.warnings, warnings}} {
				text := ""
				if len(got.all) > 0 {
					text = got.all[0].Path + ": " + got.all[0].Message
				}
				if len(got.all) > 1 || got.want == "" && text != "" || !strings.HasPrefix(text, got.want) {
					t.Errorf("%s: %q, want %q", got.kind, lines(got.all), got.want)
				}
				if len(got.all) == 1 && (got.all[0].Line == 0 || got.all[0].Column == 0) {
					t.Errorf("%s without a place", got.kind)
				}
			}
		})
	}
}
