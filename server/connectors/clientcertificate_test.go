package connectors_test

import (
	"encoding/base64"
	"os"
	"os/exec"
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

const bank = `connectors:
  - name: Bank
    url: https://bank.example
    auth: {type: none}
    tls: {certificate: "{{ get_secret('NAME.crt') }}", key: "{{ get_secret('NAME.key') }}"}
`

// With ReadSecrets, a client certificate that cannot be used is a problem at its place, and the Set says when a good one ends.
func TestClientCertificates(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	ends := now.Add(time.Hour).UTC()
	a := testworld.NewAuthority(t)
	secrets := host.MapSecrets{}
	secrets["good.crt"], secrets["good.key"] = a.Client("good", ends)
	secrets["ended.crt"], secrets["ended.key"] = a.Client("ended", now.Add(-time.Hour))
	secrets["other.crt"], _ = a.Client("other", ends)
	secrets["other.key"] = secrets["good.key"]
	secrets["text.crt"], secrets["text.key"] = "hunter2hunter2", secrets["good.key"]
	secrets["lacking.crt"] = secrets["good.crt"]
	for name, want := range map[string]string{
		"good":    "",
		"ended":   "connectors.yaml:5:24: connectors.bank.tls.certificate: the certificate ended at 2023-11-14T21:13:20Z: replace the secret by a renewed one",
		"other":   "connectors.yaml:5:62: connectors.bank.tls.key: the key is not that of tls.certificate: both must be renewed together",
		"text":    "connectors.yaml:5:24: connectors.bank.tls.certificate: has no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----: take it from a secret, as in {{ get_secret('client_certificate') }}",
		"lacking": `connectors.yaml:5:79: connectors.bank.tls.key: secret "lacking.key": the secret is not found`,
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.ReplaceAll(bank, "NAME", name)
			options := connectors.Options{Host: host.Config{Secrets: secrets, Clock: func() time.Time { return now }}}
			if _, problems := load(t, text, options); problems != nil {
				t.Error("without being asked for:", problems)
			}
			options.ReadSecrets = true
			set, problems := load(t, text, options)
			if got := strings.Join(problems, "\n"); got != want {
				t.Errorf("the problems are\n%s\nwant\n%s", got, want)
			}
			if want == "" && *set.ClientCertificates["bank"] != (host.ClientCertificate{Subject: "CN=good", NotAfter: ends, Path: "tls.certificate"}) {
				t.Errorf("it has %+v", set.ClientCertificates)
			}
		})
	}
}

// A client certificate may come with its key from a file of PKCS #12.
func TestClientCertificatesOfPKCS12(t *testing.T) {
	const text = `connectors:
  - name: Bank
    url: https://bank.example
    auth: {type: none}
    tls: {pkcs12: "{{ get_secret('file') }}", passphrase: "{{ get_secret('passphrase') }}"}
`
	now := time.Unix(1_700_000_000, 0)
	const passphrase = "the passphrase"
	authority := testworld.NewAuthority(t)
	export := func(ends time.Time) string {
		certificate, key := authority.Client("good", ends)
		pem := filepath.Join(t.TempDir(), "client.pem")
		testworld.Check(t, os.WriteFile(pem, []byte(certificate+key), 0o600))
		file := testworld.Must(exec.CommandContext(t.Context(), "openssl", "pkcs12", "-export", "-in", pem, "-passout", "pass:"+passphrase).Output())(t)
		return base64.StdEncoding.EncodeToString(file)
	}
	good := export(now.Add(90 * 24 * time.Hour))
	for name, c := range map[string]struct{ file, passphrase, problem, warning string }{
		"valid":            {good, passphrase, "", ""},
		"wrong passphrase": {good, "another", "the passphrase is wrong", ""},
		"ended":            {export(now.Add(-time.Hour)), passphrase, "the certificate ended at 2023-11-14T21:13:20Z: replace the secret by a renewed one", ""},
		"ends soon":        {export(now.Add(time.Hour)), passphrase, "", "CN=good ends at 2023-11-14T23:13:20Z, within 30 days: renew it"},
	} {
		secrets := host.MapSecrets{"file": c.file, "passphrase": c.passphrase}
		set, problems := load(t, text, connectors.Options{
			ReadSecrets: true, Inspect: true, Host: host.Config{Secrets: secrets, Clock: func() time.Time { return now }},
		})
		const place = "5:19: connectors.bank.tls.pkcs12: "
		if got := strings.TrimPrefix(strings.Join(problems, "\n"), "connectors.yaml:"+place); got != c.problem {
			t.Errorf("%s: problem = %q, want %q", name, got, c.problem)
		}
		if c.problem != "" {
			continue
		}
		if got := set.ClientCertificates["bank"]; got.Subject != "CN=good" || got.Path != "tls.pkcs12" {
			t.Errorf("%s: certificate = %+v, want CN=good of tls.pkcs12", name, got)
		}
		var warnings []string
		for _, w := range set.Warnings {
			warnings = append(warnings, w.String())
		}
		if got := strings.TrimPrefix(strings.Join(warnings, "\n"), place); got != c.warning {
			t.Errorf("%s: warnings = %q, want %q", name, got, c.warning)
		}
	}
}

// The members of tls, and problems with them at their places.
func TestTLSOfAConnector(t *testing.T) {
	const before = `connectors:
  - name: Bank
    url: https://bank.example
    auth: {type: none}
    tls: `
	for text, want := range map[string][]string{
		`{certificate: "{{ get_secret('c') }}", key: "{{ get_secret('k') }}", for: token}`: nil,
		`{certificate: "{{ get_secret('c') }}", cert: x, for: [api, tokens]}`: {
			"connectors.yaml:5:5: connectors.bank.tls.key: is missing: it is the private key of certificate",
			"connectors.yaml:5:49: connectors.bank.tls.cert: is not known here; there are certificate, key, pkcs12, passphrase, ca, for",
			`connectors.yaml:5:69: connectors.bank.tls.for[1]: is neither api nor token; did you mean "token"?`,
		},
		"client.pem": {"connectors.yaml:5:10: connectors.bank.tls: is text: an object with certificates is wanted"},
		"{}":         {"connectors.yaml:5:5: connectors.bank.tls: has neither certificate nor pkcs12 nor ca: give it one of them, or leave it out"},
		`{certificate: "{{ get_secret('c') }}", key: "{{ get_sekret('k') }}"}`: {
			"connectors.yaml:5:58: connectors.bank.tls.key: unknown function \"get_sekret\": there are get_secret, get_key, get_variable, discover, now, uuid, default, base64_encode, base64_decode, json_encode, json_get",
		},
	} {
		set, got := load(t, before+text+"\n", connectors.Options{})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("text = %s:\ndiff = %s", text, diff)
		}
		if want == nil {
			d := set.Connectors[0].Definition()
			if !slices.Equal(d.TLS.For, []host.TLSPurpose{host.TLSForToken}) || !slices.Equal(set.Connectors[0].Secrets(), []string{"c", "k"}) {
				t.Errorf("it is %+v, with the secrets %q", d.TLS, set.Connectors[0].Secrets())
			}
		}
	}
}
