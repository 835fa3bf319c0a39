package connectors_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
)

// With ReadSecrets, failures that would show at the first request are problems with their places, and no problem shows a
// secret.
func TestReadSecrets(t *testing.T) {
	const canary = "c4n4ry0x9"
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	ec := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	text := `connectors:
  - name: There
    url: https://one.example
    auth: {type: api_key, config: {key: X-Key, value: "{{ get_secret('there') }}", in: header}}
  - name: Missing
    url: https://two.example
    auth: {type: api_key, config: {key: X-Key, value: "Bearer {{ get_secret('missing') }}", in: header}}
  - name: Empty
    url: https://three.example
    auth: {type: api_key, config: {key: X-Key, value: "{{ get_secret('empty') }}", in: header}}
  - name: Mismatch
    url: https://four.example
    auth:
      type: jwt
      config: {algorithm: RS256, private_key: "{{ get_secret('ec') }}", claims: {sub: "{{ user.email }}"}}
  - name: Key
    url: https://five.example
    auth:
      type: jwt
      config: {algorithm: ES256, private_key: "{{ get_secret('ec') }}", claims: {sub: "{{ user.email }}"}}
  - name: Exchange
    url: https://six.example
    auth:
      type: oauth_jwt_bearer
      config: {client_id: x, private_key: "{{ get_secret('there') }}", token_url: https://six.example/token, subject: x, audience: x}
  - name: Variable
    url: https://seven.example
    auth: {type: api_key, config: {key: X-Key, value: "{{ get_variable('region') }}{{ get_secret('there') }}", in: header}}
  - name: Line break
    url: https://eight.example
    auth: {type: api_key, config: {key: X-Key, value: "{{ get_secret('lines') }}", in: header}}
`
	config := host.Config{Secrets: host.MapSecrets{"there": canary, "empty": " \n", "ec": ec, "lines": canary + "\n" + canary}}
	if _, problems := load(t, text, connectors.Options{Host: config}); problems != nil {
		t.Error("without being asked for:", problems)
	}
	_, got := load(t, text, connectors.Options{Host: config, ReadSecrets: true})
	want := []string{
		`connectors.yaml:7:77: connectors.missing.auth.config.value: secret "missing": the secret is not found`,
		`connectors.yaml:10:70: connectors.empty.auth.config.value: secret "empty": it is empty`,
		`connectors.yaml:15:47: connectors.mismatch.auth.config: private_key: the key for RS256 is an EC key on P-256: an RSA key is needed`,
		`connectors.yaml:25:43: connectors.exchange.auth.config: private_key: the key for RS256 is not PEM: it must have its line -----BEGIN … PRIVATE KEY-----`,
		`connectors.yaml:28:27: connectors.variable.auth.config: value: column 4: get_variable('region'): there is no such variable`,
		`connectors.yaml:31:27: connectors.line-break.auth.config: the mutation's headers: the value of "X-Key" holds a line break or another control character`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if all := strings.Join(got, "\n"); strings.Contains(all, canary) {
		t.Errorf("a problem shows a secret:\n%s", all)
	}
}
