package casefile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
)

// casesIn writes a file of cases and reads it.
func casesIn(t *testing.T, text string) ([]Case, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cases.yaml")
	testworld.Check(t, os.WriteFile(file, []byte(text), 0o600))
	return Read(file)
}

// runCase runs a case with a built-in plugin, and returns its failures.
func runCase(t *testing.T, authType, text string) []string {
	t.Helper()
	cases := testworld.Must(casesIn(t, text))(t)
	failures := &hosttest.Collector{}
	for i := range cases {
		failures.Run(func() {
			cases[i].Run(failures, hosttest.New(failures, cases[i].Name, hosttest.Module{Name: authType, Wasm: plugins.Of(authType)}))
		})
	}
	failures.End()
	return failures.Failures()
}

// A case says what the API and the token endpoints answer, and what they must get.
func TestRun(t *testing.T) {
	for authType, text := range map[string]string{
		"api_key": `
- name: a header
  config: {in: header, key: X-Key, value: "{{ get_secret('crm') }}"}
  secrets: {crm: a-secret-of-the-test}
  request: {url: 'https://api.test/v1?page=2', headers: {Accept: text/csv}}
  answers: [{status: 202, body: accepted}]
  expect:
    url: https://api.test/v1?page=2
    headers: {X-Key: "{{ get_secret('crm') }}", Accept: [text/csv], Cookie: null}
    query: {page: {matches: '^[0-9]$'}, other: null}
    body: ''
    attempts: 1
    status: 202
    exchanges: []
    fuel: 100000
- name: a member of a form, whose value is that of a user and a variable
  config: {key: who, value: "{{ user.id }} of {{ tenant_id }} in {{ get_variable('region') }} at {{ now() }}", in: form}
  user: {id: u1, tenant: t1}
  variables: {region: eu}
  time: 2026-05-06T07:08:09Z
  request: {method: POST, url: https://api.test/, headers: {Content-Type: application/x-www-form-urlencoded}, body: a=b}
  expect: {form: {a: b, who: "u1 of t1 in eu at 1778051289"}}
- name: a secret that is not there
  config: {in: header, key: X-Key, value: "{{ get_secret('crm') }}"}
  request: {url: https://api.test/}
  expect: {error: 'secret "crm"'}
- name: a member that is missing
  config: {in: header, key: X-Key}
  problems: [auth.config.value]
`,
		"oauth_client_credentials": `
- name: a token is cached until a minute before its end, and renewed when it is refused
  config: {client_id: me, client_secret: "{{ get_secret('crm') }}", token_url: https://login.test/token}
  secrets: {crm: a-secret-of-the-test}
  endpoints:
    https://login.test/token:
    - json: {access_token: the-first-token, token_type: Bearer, expires_in: 300}
    - json: {access_token: the-second-token, token_type: Bearer, expires_in: 300}
    - json: {access_token: the-third-token, token_type: Bearer, expires_in: 300}
    - {status: 503, body: down}
    - {unreachable: true}
  steps:
  - request: {url: https://api.test/}
    expect:
      headers: {Authorization: Bearer the-first-token}
      exchanges:
      - method: POST
        url: https://login.test/token
        headers: {Content-Type: application/x-www-form-urlencoded}
        form: {client_id: me, client_secret: "{{ get_secret('crm') }}", grant_type: client_credentials, scope: null}
  - advance: 239s
    request: {url: https://api.test/}
    expect: {headers: {Authorization: Bearer the-first-token}, exchanges: []}
  - advance: 2s
    request: {url: https://api.test/}
    expect: {headers: {Authorization: Bearer the-second-token}}
  - request: {url: https://api.test/}
    answers: [{status: 401}, {status: 200}]
    expect: {headers: {Authorization: Bearer the-third-token}, attempts: 2, status: 200}
  - advance: 1h
    request: {url: https://api.test/}
    expect: {error: '503'}
  - restart: true
    request: {url: https://api.test/}
    expect: {error: connection refused}
`,
		"jwt": `
- name: claims
  config: {algorithm: RS256, private_key: "{{ get_secret('key') }}", claims: {iss: me, exp: "{{ now(300) }}"}}
  keys: {key: RS256}
  request: {url: https://api.test/}
  expect: {headers: {Authorization: {jwt: {header: {alg: RS256}, claims: {iss: me, exp: "{{ now(300) }}"}}}}}
`,
		"oauth_authorization_code": `
- name: consent
  config:
    client_id: me
    client_secret: "{{ get_secret('crm') }}"
    authorization_url: https://login.test/authorize
    token_url: https://login.test/token
  secrets: {crm: a-secret-of-the-test}
  user: {id: u1, tenant: t1}
  endpoints:
    https://login.test/token:
    - json: {access_token: the-first-token, token_type: Bearer, expires_in: 300, refresh_token: the-refresh-token}
  steps:
  - request: {url: https://api.test/}
    expect: {error: 'connect'}
  - consent: {code: the-code-of-the-server}
    expect:
      query: {client_id: me, response_type: code, code_challenge_method: S256, state: {matches: .}}
      exchanges: [{form: {grant_type: authorization_code, code: the-code-of-the-server}}]
  - restart: true
    request: {url: https://api.test/}
    expect: {headers: {Authorization: Bearer the-first-token}}
  - disconnect: true
  - request: {url: https://api.test/}
    expect: {error: 'connect'}
`,
	} {
		t.Run(authType, func(t *testing.T) {
			if got := runCase(t, authType, text); len(got) > 0 {
				t.Errorf("got = %q", got)
			}
		})
	}
}

// Try sends the request of a case and leaves the comparison to its caller. The endpoint * is each that has no answers of its own.
func TestTry(t *testing.T) {
	cases := testworld.Must(casesIn(t, `
- name: any endpoint
  config: {client_id: me, client_secret: "{{ get_secret('crm') }}", token_url: https://login.test/token}
  secrets: {crm: a-secret-of-the-test}
  endpoints:
    '*': [{status: 400, json: {error: invalid_scope}}]
    https://other.test/token: [{json: {access_token: the-first-token}}]
  request: {url: https://api.test/}
  expect: {error: another}
`))(t)
	h := hosttest.New(t, "try", hosttest.Module{Name: "plugin", Wasm: plugins.Of("oauth_client_credentials")})
	_, err := cases[0].Try(h)
	if err == nil || !strings.Contains(err.Error(), "invalid_scope") || len(h.Exchanges()) != 1 || h.Exchanges()[0].URL != "https://login.test/token" {
		t.Errorf("%v after %+v", err, h.Exchanges())
	}
}

// Requests that are sent at once are each as expected, and share a token.
func TestParallelRequests(t *testing.T) {
	const text = `
- name: a token for many
  config: {client_id: me, client_secret: "{{ get_secret('crm') }}", token_url: https://login.test/token}
  secrets: {crm: a-secret-of-the-test}
  endpoints: {https://login.test/token: [{json: {access_token: the-first-token, expires_in: 300}}, {json: {access_token: the-second-token, expires_in: 300}}]}
  request: {url: https://api.test/, parallel: 20}
  expect: {headers: {Authorization: Bearer the-%s-token}, exchanges: [{method: POST}]}`
	if got := runCase(t, "oauth_client_credentials", fmt.Sprintf(text, "first")); len(got) > 0 {
		t.Errorf("got = %q", got)
	}
	if got := runCase(t, "oauth_client_credentials", fmt.Sprintf(text, "second")); len(got) != 20 {
		t.Errorf("%d complaints: %q", len(got), got)
	}
	if _, err := casesIn(t, "- {name: a, request: {url: https://api.test/, parallel: 1001}}"); err == nil || !strings.Contains(err.Error(), "up to 1000") {
		t.Errorf("too many: %v", err)
	}
}
