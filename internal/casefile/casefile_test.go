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

// runCase runs the cases of a text with a built-in plugin, and returns their failures.
func runCase(t *testing.T, authType, text string) []string {
	t.Helper()
	return runCases(authType, testworld.Must(casesIn(t, text))(t))
}

func runCases(authType string, cases []Case) []string {
	failures := &testworld.Collector{}
	for i := range cases {
		failures.Run(func() {
			cases[i].Run(failures, hosttest.New(failures, cases[i].Name, hosttest.Module{Name: authType, Wasm: plugins.Of(authType)}))
		})
	}
	failures.End()
	return failures.Failures()
}

// A case says what the API and the token endpoints answer, and what they must get. A file of testdata is named after the auth type.
func TestRun(t *testing.T) {
	files := testworld.Must(filepath.Glob("testdata/*.yaml"))(t)
	for _, file := range files {
		authType := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(authType, func(t *testing.T) {
			if got := runCases(authType, testworld.Must(Read(file))(t)); len(got) > 0 {
				t.Errorf("got = %q", got)
			}
		})
	}
	if len(files) < 4 {
		t.Errorf("files = %q", files)
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
