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

// tokenCase is a case up to what is expected.
const tokenCase = `
- name: token
  config: {client_id: me, client_secret: "{{ get_secret('crm') }}", token_url: https://login.test/token, scope: read}
  secrets: {crm: a-secret-of-the-test}
  endpoints: {https://login.test/token: [{json: {access_token: the-first-token, token_type: Bearer, expires_in: 300}}]}
  request: {url: 'https://api.test/v1?page=2', body: 'a=b'}
  answers: [{status: 202}]
`

// Each expectation that does not hold is a failure with the file, the line and both values.
func TestRunFailures(t *testing.T) {
	for expect, want := range map[string]string{
		"{headers: {Authorization: Bearer another}}":          `the header Authorization is "Bearer the-first-token", and not "Bearer another"`,
		"{headers: {Authorization: null}}":                    `the header Authorization is "Bearer the-first-token", and should not be there`,
		"{headers: {Authorization: {matches: '^Basic '}}}":    `the header Authorization is "Bearer the-first-token", which ^Basic  does not match`,
		"{headers: {Cookie: a=b}}":                            `the header Cookie is not there, and not "a=b"`,
		"{headers: {Cookie: {matches: a}}}":                   `the header Cookie is there 0 times, and not once`,
		"{headers: {Authorization: {jwt: {claims: {a: b}}}}}": `the header Authorization is "Bearer the-first-token": not a compact JWT`,
		"{query: {page: '3'}}":                                `the parameter page is "2", and not "3"`,
		"{query: {page: ['2', '3']}}":                         `the parameter page is "2", and not "2" "3"`,
		"{url: 'https://api.test/v1'}":                        `the URL is "https://api.test/v1?page=2", and not "https://api.test/v1"`,
		"{body: 'a=c'}":                                       `the body is "a=b", and not "a=c"`,
		"{form: {a: c}}":                                      `the form's member a is "b", and not "c"`,
		"{attempts: 2}":                                       `the API got 1 requests, and not 2`,
		"{status: 200}":                                       `the caller gets the status 202, and not 200`,
		"{error: refused}":                                    `there is no error, and it should say "refused"`,
		"{exchanges: []}":                                     `there are 1 requests to token endpoints, and not 0: ["POST https://login.test/token"]`,
		"{exchanges: [{method: GET}]}":                        `exchange 1: the method is POST, and not GET`,
		"{exchanges: [{url: 'https://login.test/'}]}":         `exchange 1: the URL is "https://login.test/token", and not "https://login.test/"`,
		"{exchanges: [{form: {scope: write}}]}":               `exchange 1: the form's member scope is "read", and not "write"`,
		"{exchanges: [{json: {scope: write}}]}":               `exchange 1: the body is no JSON`,
		"{fuel: 1}":                                           `units of fuel, and not at most 1`,
		`{body: "{{ uuid() }}"}`:                              `an expected text cannot be random`,
		`{body: "{{ get_secret('none') }}"}`:                  `set one with Harness.Canary`,
		`{body: "{{ get_secrt('none') }}"}`:                   `unknown function "get_secrt"`,
	} {
		got := runCase(t, "oauth_client_credentials", tokenCase+"  expect: "+expect+"\n")
		if len(got) != 1 || !strings.Contains(got[0], want) || !strings.Contains(got[0], "cases.yaml:2: ") {
			t.Errorf("%s: the failures are %q, and should be one with %q", expect, got, want)
		}
	}
}

// A case fails if the configuration has other problems, or the request is sent although an error is expected.
func TestRefusalFailures(t *testing.T) {
	const begin = "- name: x\n  config: {in: header, key: X-Key, value: \"{{ get_secret('crm') }}\"}\n"
	for rest, want := range map[string][]string{
		"  problems: [auth.config.key]\n": {"the configuration has 0 problems, and not 1: []", `no problem contains "auth.config.key"`},
		"  secrets: {crm: a-secret-of-the-test}\n  request: {url: 'https://api.test'}\n  answers: [{unreachable: true}]\n  expect: {error: connection}\n": {
			"the API got the request, but an error is expected",
		},
		"  secrets: {crm: a-secret-of-the-test}\n  request: {url: 'https://api.test'}\n  answers: [{unreachable: true}]\n  expect: {error: connection, attempts: 1, status: 200}\n": {
			"the caller gets no answer, and not one with the status 200",
		},
		"  request: {url: 'https://api.test'}\n  expect: {error: crm, headers: {Accept: text/csv}}\n": {"the API got no request"},
		"  request: {url: 'https://api.test'}\n  expect: {error: crm, status: 200}\n":                 {"the caller gets no answer"},
		"  request: {url: 'https://api.test'}\n":                                                      {`secret "crm"`},
		"  request: {url: 'https://[api.test'}\n":                                                     {"the request: parse"},
		"  request: {url: 'https://api.test'}\n  expect: {error: tokens}\n":                           {`, and should say "tokens"`},
	} {
		got := runCase(t, "api_key", begin+rest)
		if len(got) != len(want) {
			t.Errorf("%s: the failures are %q", rest, got)
			continue
		}
		for i := range want {
			if !strings.Contains(got[i], want[i]) {
				t.Errorf("%s: %q does not say %q", rest, got[i], want[i])
			}
		}
	}
}

// A text of problems may not stand for two problems, so that another one goes unseen.
func TestUnexpectedProblem(t *testing.T) {
	got := runCase(t, "api_key", "- name: x\n  config: {in: header}\n  problems: [auth.config.value, auth.config.value]\n")
	if len(got) != 1 || !strings.Contains(got[0], `the problem "auth.config.key: `) {
		t.Errorf("the failures are %q", got)
	}
}

// A claim that is a number is not the text with its digits, unless an expression makes the text.
func TestNumbersInJWT(t *testing.T) {
	const begin = "- name: x\n  config: {algorithm: RS256, private_key: \"{{ get_secret('key') }}\", claims: {exp: \"{{ now(300) }}\"}}\n" +
		"  keys: {key: RS256}\n  request: {url: 'https://api.test'}\n  expect: {headers: {Authorization: {jwt: {claims: {exp: %s}}}}}\n"
	for exp, holds := range map[string]bool{"1767323345": true, `"{{ now(300) }}"`: true, `"1767323345"`: false, `"{{ now(299) }}"`: false} {
		if got := runCase(t, "jwt", fmt.Sprintf(begin, exp)); (len(got) == 0) != holds {
			t.Errorf("exp: %s: the failures are %q", exp, got)
		}
	}
}

// No member of a form is in JSON, and a case that expects so has missed the body.
func TestBodyWithoutForm(t *testing.T) {
	got := runCase(t, "login", `
- name: x
  config:
    login_url: https://login.test/
    login_request: json
    login_body: {password: "{{ get_secret('crm') }}"}
    token_from: json:/token
    in: header
    key: X-Token
  secrets: {crm: a-secret-of-the-test}
  endpoints: {https://login.test/: [{json: {token: the-first-token}}]}
  request: {url: https://api.test/}
  expect: {exchanges: [{form: {password: null}}]}
`)
	if len(got) != 1 || !strings.Contains(got[0], "exchange 1: the body is no form, but application/json") {
		t.Errorf("the failures are %q", got)
	}
}

// A consent that fails before the browser goes to the server has no page to compare.
func TestConsentWithoutPage(t *testing.T) {
	got := runCase(t, "api_key", "- name: x\n  config: {in: header, key: K, value: v}\n  user: {id: u1, tenant: t1}\n  consent: {code: c}\n  expect: {error: no consent, query: {a: b}}\n")
	if len(got) != 1 || !strings.Contains(got[0], "the browser went to no page") {
		t.Errorf("the failures are %q", got)
	}
}

// A case may begin at any time, and a step that is used twice has the line of its case.
func TestFarFuture(t *testing.T) {
	got := runCase(t, "api_key", "- name: x\n  config: {in: header, key: K, value: '{{ now() }}'}\n  time: 9999-01-01T00:00:00Z\n"+
		"  steps: &steps [{request: {url: 'https://api.test'}, expect: {headers: {K: '253370764800'}}}]\n"+
		"- name: y\n  config: {in: header, key: K, value: '{{ now() }}'}\n  steps: *steps\n")
	if len(got) != 1 || !strings.Contains(got[0], "cases.yaml:5: the header K is ") {
		t.Errorf("the failures are %q", got)
	}
}

// A file of cases that is wrong is refused, with the line and what was meant.
func TestReadErrors(t *testing.T) {
	const request = "  request: {url: 'https://api.test'}\n"
	for text, want := range map[string]string{
		"":                                  "has no case: begin one with `- name: …`",
		"[]":                                "has no case",
		"{}":                                ":1: stands where a list is wanted",
		"- 1\n":                             ":1: `1` stands where an object is wanted",
		"- name: [\n":                       ":2: ",
		"- name: x\n  heders: {}\n":         `:2: "heders" is no member of a case`,
		"- name: x\n  requst: {}\n":         `:2: "requst" is no member of a case; did you mean "request"?`,
		"- name: x\n  request: {urls: a}\n": `:2: "urls" is no member of a request; did you mean "url"?`,
		"- name: x\n  steps:\n  - {expects: {}}\n":                         `:3: "expects" is no member of a step; did you mean "expect"?`,
		"- name: x\n  user: {mail: a}\n":                                   `"mail" is no member of a user`,
		"- name: x\n  auth: [{tipe: a}]\n":                                 `"tipe" is no member of an authentication`,
		"- name: x\n  answers: [{stats: 1}]\n":                             `"stats" is no member of an answer; did you mean "status"?`,
		"- name: x\n  expect: {exchanges: [{uri: a}]}\n":                   `"uri" is no member of an exchange; did you mean "url"?`,
		"- name: x\n  advance: soon\n":                                     ":2: `soon` stands where a time such as 4m30s is wanted",
		"- name: x\n  time: now\n":                                         `:2: parsing time "now"`,
		"- name: x\n  restart: maybe\n":                                    ":2: `maybe` stands where true or false is wanted",
		"- name: x\n  answers: [{status: ok}]\n":                           ":2: `ok` stands where a whole number is wanted",
		"- name: x\n  name: y\n":                                           ":2: ",
		"- name: x\n  expect: {body: {matches: '['}}\n" + request:          "matches: error parsing regexp",
		"- name: x\n  expect: {body: {}}\n" + request:                      "{matches: …} or {jwt: …} is wanted",
		"- name: x\n  expect: {body: {matches: a, jwt: {}}}\n" + request:   "{matches: …} or {jwt: …} is wanted",
		"- name: x\n  request: {body: x}\n":                                ":1: a request has no url",
		"- name: x\n" + request + "---\n- name: y\n" + request:             "has several documents of YAML",
		"- ~\n- name: x\n" + request:                                       ":1: a case stands here without a member",
		"- name: x\n  steps: [null, {disconnect: true}]\n":                 `:2: "steps" has no value`,
		"- name: x\n  answers: [null]\n" + request:                         `:2: "answers" has no value`,
		"- name: x\n  secrets: {a: }\n" + request:                          `:2: "a" has no value`,
		"- name: x\n  variables: {a: &none null, b: *none}\n" + request:    `:2: "b" has no value`,
		"- name: x\n  request: {url: ''}\n":                                `:2: "url" has no value`,
		"- name: x\n  expect: {exchanges: }\n" + request:                   `:2: "exchanges" has no value: write [] for none`,
		"- name: x\n  expect: {exchanges: [null]}\n" + request:             `:2: "exchanges" has no value`,
		"- name: x\n  expect: {exchanges: [{method: ''}]}\n" + request:     `:2: "method" has no value`,
		"- name: x\n  expect: {exchanges: [{json: null}]}\n" + request:     `:2: "json" has no value`,
		"- name: x\n  expect: {body: null}\n" + request:                    `:2: "body" has no value`,
		"- name: x\n  expect: {headers: }\n" + request:                     `:2: "headers" has no value`,
		"- name: x\n  expect: {attempts: null}\n" + request:                `:2: "attempts" has no value`,
		"- name: x\n  expect: {fuel: -1}\n" + request:                      ":1: fuel is the most",
		"- name: x\n  expect: {body: {jwt: {claim: {}}}}\n" + request:      `"claim" is no member of a JWT; did you mean "claims"?`,
		"- name: x\n  expect: {body: {match: a}}\n" + request:              `"match" is no member of a text`,
		"- name: x\n  expect: {error: {a: b}}\n" + request:                 ":2: stands where a text is wanted",
		"- name: x\n  \"sta\\ntus\": 1\n" + request:                        `:2: "sta\ntus" is no member of a case`,
		"- name: x\n  restart: \"a\\nb\"\n" + request:                      ":2: `a\\nb` stands where true or false is wanted",
		"- name: x\n  disconnect: true\n" + request:                        ":1: a step is a request, a consent or disconnect",
		"- name: x\n  consent: {}\n" + request:                             ":1: a step is a request, a consent or disconnect",
		"- name: x\n  consent: {}\n  expect: {headers: {A: b}}\n":          ":1: headers, form, body, attempts and status are expected of a request",
		"- name: x\n  consent: {}\n  expect: {attempts: 1}\n":              ":1: headers, form, body, attempts and status are expected of a request",
		"- name: x\n  disconnect: true\n  expect: {status: 200}\n":         ":1: headers, form, body, attempts and status are expected of a request",
		"- name: x\n  disconnect: true\n  expect: {query: {a: b}}\n":       ":1: url and query are expected of a request or a consent",
		"- name: x\n  steps: [{restart: true, expect: {error: a}}]\n":      ":1: expect needs a request",
		"- name: x\n  problems: [a]\n  expect: {error: a}\n":               ":1: a case with problems has no expect",
		"- name: x\n  problems: ['']\n":                                    ":1: a text of problems is empty",
		"- name: x\n  secrets: {crm: short}\n" + request:                   `:1: the secret "crm" is too short to be searched for: make it 8 bytes or more`,
		"- name: x\n  user: {token: short}\n" + request:                    ":1: the user's token is too short to be searched for",
		"- name: x\n  answers: []\n" + request:                             ":1: answers is empty",
		"- name: x\n  endpoints: {'https://a.test': []}\n" + request:       `:1: the endpoint "https://a.test" has no answer`,
		"- name: x\n  answers: [{json: 1, body: a}]\n" + request:           ":1: an answer has json or body, but not both",
		"- name: x\n  config: {a: b}\n  auth: [{type: a}]\n" + request:     ":1: a case has config, or auth with a list of authentications, but not both",
		"- name: x\n  answers: [{json: {1: a}}]\n" + request:               ":1: an answer cannot be JSON",
		"- name: x\n  answers: [{status: 20}]\n" + request:                 ":1: an answer has the status 20",
		"- name: x\n  answers: [{unreachable: true, body: a}]\n" + request: ":1: an answer that is unreachable has no other member",
		"- name: x\n  advance: 1s\n  steps: [{disconnect: true}]\n":        ":1: restart and advance are members of a step here",
		"- name: ' '\n" + request:                                          ":1: the case has no name",
		"- name: x\n":                                                      ":1: the case has no request: write",
		"- name: x\n  steps: [{secrets: {}}]\n":                            ":1: step 1 has no request",
		"- name: x\n  steps: [{disconnect: true}]\n" + request:             ":1: a case has a request, or steps with requests, but not both",
		"- name: x\n  problems: [a]\n" + request:                           ":1: a case with problems has no request",
		"- name: x\n" + request + "- name: x\n" + request:                  `:3: a case before has the name "x" too`,
		strings.Repeat("#", maxCases+1):                                    "has more than 4 MiB: split it",
	} {
		_, err := casesIn(t, text)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "cases.yaml:") {
			t.Errorf("%.60q: the error is %v, and should say %q", text, err, want)
		}
	}
}

// A file without an end is not read to its end, and one that repeats itself is refused (threats.md 205).
func TestReadBound_threats_205(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cases.yaml")
	testworld.Check(t, os.Symlink("/dev/zero", file))
	testworld.WantError(t, "", testworld.ErrorOf(Read(file)), "has more than 4 MiB")
	repeated := "- name: x\n  config:\n    a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c <= 'i'; c++ {
		repeated += fmt.Sprintf("    %c: &%c [%s]\n", c, c, strings.Repeat(fmt.Sprintf("*%c, ", c-1), 10))
	}
	if _, err := casesIn(t, repeated+"  request: {url: 'https://api.test'}\n"); err == nil || !strings.Contains(err.Error(), "excessive aliasing") {
		t.Errorf("the error is %v", err)
	}
}
