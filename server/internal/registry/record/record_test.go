package record_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/casefile"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/server/internal/registry/record"
)

// codeCache is the code cache of all worlds.
var codeCache string

func TestMain(m *testing.M) { os.Exit(testworld.InSharedDir(&codeCache, m.Run)) }

const tokenURL = "https://login.contoso.test/t-4711/token"

// world is a host of one auth type, with canaries for everything that an operator has.
type world struct {
	*testworld.Canaries
	t          *testing.T
	authType   string
	host       *host.Host
	login, api *testworld.Server
	secrets    host.MapSecrets
	user       host.User
	now        time.Time
	// literals is set if the configuration has texts that are no secrets by its description. Explanations and traces show them.
	literals bool
}

func newWorld(t *testing.T, authType string) *world {
	t.Helper()
	w := &world{
		Canaries: testworld.NewCanaries(t), t: t, authType: authType, now: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC),
		login: testworld.NewServer(nil), api: testworld.NewServer(testworld.Respond(http.StatusOK, "")),
	}
	clock := func() time.Time { return w.now }
	w.login.Answer(w.Issued(clock))
	w.secrets = host.MapSecrets{"s": w.Secret("the secret s"), "seed": w.Secret("the secret seed"), "rsa": w.Key(t, "rsa"), "ed": w.Key(t, "ed"), "jws": w.Key(t, "jws")}
	w.user = host.User{
		ID: "u" + strings.ToLower(w.Word("the user's id")), Email: w.Word("an address") + "@contoso.test", Username: w.Word("a username"), FirstName: w.Word("a first name"),
		LastName: w.Word("a last name"), TenantID: "t" + strings.ToLower(w.Word("the tenant")), Token: w.Secret("the user's token"),
		TokenExpires: w.now.Add(time.Hour),
	}
	for _, id := range []string{w.user.ID, w.user.TenantID} {
		w.Hide("an id", id)
	}
	shared := testworld.Must(host.NewState(t.Context(), host.StateConfig{Store: state.NewMemory(clock), Keys: [][]byte{[]byte(strings.Repeat("k", 32))}, Clock: clock}))(t)
	w.host = testworld.Must(host.New(t.Context(), host.Config{
		BuiltIns: []host.Plugin{{Name: authType, Wasm: plugins.Of(authType)}}, Secrets: w.secrets, Clock: clock, State: shared, Base: w.login,
		CodeCache: codeCache, Identities: identities{w.Secret("the token of an identity")}, UserTokenHosts: []string{"login.contoso.test"}, Variables: map[string]string{"region": "eu-" + w.Word("a variable")},
	}))(t)
	t.Cleanup(func() { _ = w.host.Close(context.Background()) })
	return w
}

// identities has a token for each identity.
type identities struct{ token string }

func (identities) Hosts(_, _ string) []string { return []string{"login.contoso.test"} }

func (i identities) Identity(context.Context, host.IdentityRequest) (string, error) {
	return i.token, nil
}

// record sends a request that is full of canaries, and records it in a file. It fails the test unless the case does the same as the
// request.
func (w *world) record(config map[string]any) (file string) {
	w.t.Helper()
	connector := testworld.Must(w.host.NewConnector(w.t.Context(), host.ConnectorConfig{
		Name: "crm", Origins: []string{"https://api.contoso.test"}, Auth: []host.Auth{{Type: w.authType, Config: config}},
	}))(w.t)
	trace := &host.Trace{}
	query := url.Values{"q": {w.Secret("a value of the query")}, w.Word("a name in the query"): {"x"}}
	target := "https://api.contoso.test/v1/bot%7Btoken%7D/" + w.Word("a part of the path") + "/" + url.PathEscape(w.Secret("another part of the path")) + "?" + query.Encode()
	body := `{"note":"` + w.Word("a part of the body") + `"}`
	r := testworld.Must(http.NewRequestWithContext(host.WithUser(w.t.Context(), w.user), http.MethodPost, target, strings.NewReader(body)))(w.t)
	r.Header = http.Header{
		"Content-Type": {"application/json; charset=" + w.Word("a parameter of a header")}, "Cookie": {"session=" + w.Word("a cookie")},
		"X-Note": {w.Secret("a header")}, "Date": {w.Word("a date that is none")},
	}
	response, err := connector.Transport(w.api).RoundTrip(r.WithContext(host.WithTrace(r.Context(), trace)))
	sent := record.Sent{
		Host: w.host, Connector: connector, Module: plugins.Of(w.authType), Request: r, Began: w.now, Trace: trace, Err: err,
	}
	if err == nil {
		sent.Status = response.StatusCode
		_ = response.Body.Close()
	}
	recording := testworld.Must(record.Of(sent))(w.t)
	text := testworld.Must(recording.YAML(w.authType))(w.t)
	w.Out("the recorded file", string(text))
	w.Out("what the operator is told", strings.Join(slices.Concat(recording.Replaced, recording.Check, recording.Differs), "\n"))
	if !w.literals {
		w.Out("the trace", trace.String())
	}
	file = filepath.Join(w.t.TempDir(), "cases.yaml")
	testworld.Check(w.t, os.WriteFile(file, text, 0o600))
	for _, theirs := range []string{"contoso", "no network"} {
		if strings.Contains(string(text), theirs) {
			w.t.Errorf("%q is in\n%s", theirs, text)
		}
	}
	if len(recording.Differs) > 0 {
		w.t.Errorf("recording.Differs = %q\ntext = %s\ntrace = %s", recording.Differs, text, trace)
	}
	return file
}

// replay runs the case of a file, and returns the text of the file.
func (w *world) replay(file string) string {
	w.t.Helper()
	cases := testworld.Must(casefile.Read(file))(w.t)
	cases[0].Run(w.t, hosttest.New(w.t, cases[0].Name, hosttest.Module{Name: w.authType, Wasm: plugins.Of(w.authType)}))
	text := testworld.Must(os.ReadFile(file))(w.t)
	return string(text)
}

// threats.md 190: a record and a trace hold no secret, token, name of a user, or text of an answer, whatever became of the request,
// for any auth type. The record does what the request did.
func TestRecordCanaries(t *testing.T) {
	unreachable := func(*http.Request) (*http.Response, error) { return nil, errors.New("no network") }
	for authType, config := range testworld.AuthTypes(tokenURL) {
		if authType == "oauth_authorization_code" {
			continue // which is not recorded
		}
		for name, do := range map[string]func(*world){
			"success":              func(*world) {},
			"the endpoint refuses": func(w *world) { w.login.Answer(testworld.Refused) },
			"the endpoint is down": func(w *world) { w.login.Answer(unreachable) },
			"the API challenges": func(w *world) {
				once, challenge := false, w.Challenged()
				w.api.Answer(func(r *http.Request) (*http.Response, error) {
					if once = !once; once {
						return challenge(r)
					}
					return testworld.Response(http.StatusOK, ""), nil
				})
			},
			"the API refuses":     func(w *world) { w.api.Answer(testworld.Refused) },
			"the API is down":     func(w *world) { w.api.Answer(unreachable) },
			"a secret is missing": func(w *world) { clear(w.secrets) },
		} {
			if document, _ := json.Marshal(config); strings.HasPrefix(name, "the endpoint") && !strings.Contains(string(document), "contoso") {
				continue // which asks none
			}
			t.Run(authType+", "+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, authType)
				do(w)
				w.record(config)
			})
		}
	}
}

// threats.md 190: literal values of secret fields and in objects, secrets of a tenant, keys in documents, variables and fields of the
// user are replaced, and the others of their kind serve the plugin as well.
func TestReplacedParts(t *testing.T) {
	for name, c := range map[string]struct {
		authType string
		config   func(w *world) map[string]any
		want     []string // parts of the file
	}{
		"a literal in a sealed field": {"api_key", func(w *world) map[string]any {
			return map[string]any{"key": "X-Key", "value": w.Secret("a literal"), "in": "header"}
		}, []string{"recorded-value: made-up", "get_secret(''recorded-value'')"}},
		"a literal beside a secret": {"api_key", func(w *world) map[string]any {
			return map[string]any{"key": "X-Key", "value": "Key {{ get_secret('s') }}" + w.Word("a literal"), "in": "header"}
		}, []string{"recorded-value: made-up"}},
		"a scheme beside a secret": {"api_key", func(*world) map[string]any {
			return map[string]any{"key": "X-Key", "value": "Bearer {{ get_secret('s') }}", "in": "header"}
		}, []string{"Bearer {{ get_secret('s') }}"}},
		"a literal in an expression": {"api_key", func(w *world) map[string]any {
			return map[string]any{"key": "X-Key", "value": "{{ default(get_secret('s'), '" + w.Word("a literal") + "') }}", "in": "header"}
		}, []string{"recorded-value: made-up"}},
		// threats.md 253
		"a short literal beside an expression": {"api_key", func(w *world) map[string]any {
			return map[string]any{"key": "X-Key", "value": w.Hide("a short literal", "qz7x") + "{{ user.id }}", "in": "header"}
		}, []string{"recorded-value: made-up"}},
		"a short literal in an expression": {"api_key", func(w *world) map[string]any {
			return map[string]any{"key": "X-Key", "value": "{{ base64_encode(user.id + '" + w.Hide("a short literal", "qz7x") + "') }}", "in": "header"}
		}, []string{"recorded-value: made-up"}},
		"punctuation in an expression": {"api_key", func(*world) map[string]any {
			return map[string]any{"key": "X-Key", "value": "Basic {{ base64_encode(get_secret('s') + ':') }}", "in": "header"}
		}, []string{"Basic {{ base64_encode(get_secret('s') + ':') }}"}},
		"a passphrase as the name of a member": {"login", func(w *world) map[string]any {
			w.literals = true
			return map[string]any{
				"login_url": tokenURL, "login_body": map[string]any{
					w.Hide("a passphrase", "qorrect-horse-battery-staple"): "x", "user_name": "x", w.Hide("another", "tr0ub4dor"): map[string]any{"grantType": "x"},
				},
				"login_headers": map[string]any{"X-Api-Version": "1"}, "token_from": "json:/token", "key": "X-Session",
			}
		}, []string{"user_name:", "grantType:", "X-Api-Version:"}},
		"a passphrase as the name of a member of a document": {"jwt", func(w *world) map[string]any {
			w.secrets["google"] = `{"` + w.Hide("a passphrase", "qorrect-horse-battery-staple") + `":1,"client_email":"a@p.test"}`
			return map[string]any{"algorithm": "RS256", "private_key": "{{ get_secret('rsa') }}", "claims": map[string]any{"iss": "{{ json_get(get_secret('google'), 'client_email') }}"}}
		}, []string{"client_email"}},
		"a placeholder in the path": {"api_key", func(*world) map[string]any {
			return map[string]any{"key": "{token}", "value": "{{ get_secret('s') }}", "in": "path"}
		}, []string{"https://api.test/x0/xxx%7Btoken%7D/x"}},
		"a number in an expression": {"api_key", func(w *world) map[string]any {
			return map[string]any{"key": "X-Key", "value": "{{ default(get_secret('s'), " + w.Hide("a number", "831550199") + ") }}", "in": "header"}
		}, []string{"recorded-value: made-up"}},
		"a literal in an object": {"login", func(w *world) map[string]any {
			w.literals = true
			return map[string]any{
				"login_url": tokenURL, "login_body": map[string]any{"user": w.Word("a name"), "list": []any{w.Secret("a password"), 1, true, json.Number(w.Hide("a number", "8315550199"))}},
				"token_from": "json:/token", "key": "X-Session",
			}
		}, []string{"token_from: json:/token"}},
		"the secret of a tenant, a variable and fields of the user": {"api_key", func(w *world) map[string]any {
			w.secrets["tenants/"+w.user.TenantID+"/crm"] = w.Secret("the tenant's secret")
			return map[string]any{
				"key": "X-Key", "in": "header",
				"value": "{{ get_secret('crm', 'tenant') + get_variable('region') + user.id + user.email + user.username + user.first_name + user.last_name }}",
			}
		}, []string{"tenants/x", "region: xx-"}},
		"a private key in a document": {"jwt", func(w *world) map[string]any {
			key := strings.ReplaceAll(w.secrets["rsa"], "\n", `\n`)
			w.secrets["google"] = `{"type":"service_account","client_email":"` + w.Word("an account") + `@p.test","private_key":"` + key + `","token_uri":"` + tokenURL + `","x":1}`
			return map[string]any{"algorithm": "RS256", "private_key": "{{ json_get(get_secret('google'), 'private_key') }}", "claims": map[string]any{"iss": "{{ json_get(get_secret('google'), 'client_email') }}"}}
		}, []string{"service_account"}},
		"a secret in hex with a line break": {"hmac", func(w *world) map[string]any {
			w.secrets["hex"] = w.Hide("a secret in hex", fmt.Sprintf("%x", w.Word("a secret"))) + "\n"
			return map[string]any{"secret": "{{ base64_decode(get_secret('hex')) }}", "message": "{method} {path} {header:x-note}", "key": "X-Signature"}
		}, []string{"X-Note: x"}},
		"a user's token that is exchanged": {"token_exchange", func(*world) map[string]any {
			return map[string]any{"client_id": "me", "client_secret": "{{ get_secret('s') }}", "token_url": tokenURL, "subject_token": "{{ user.token }}"}
		}, []string{"user_token_hosts:", "login1.test", "/t-4711/token"}},
		"an identity": {"oauth_client_credentials", func(*world) map[string]any {
			return map[string]any{
				"client_id": "me", "client_auth": "assertion", "client_assertion": "{{ identity('job', 'https://login.contoso.test/a') }}", "token_url": tokenURL,
			}
		}, []string{"user_token_hosts:", "identity(''job'', ''https://login1.test/a'')", "job: made-up"}},
		"an issuer": {"oauth_client_credentials", func(*world) map[string]any {
			return map[string]any{"client_id": "me", "client_secret": "{{ get_secret('s') }}", "token_url": "{{ discover('https://login.contoso.test/a', 'token_endpoint') }}"}
		}, []string{"/.well-known/oauth-authorization-server/a", "discover(''https://login1.test/a"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.authType)
			issued := w.Issued(func() time.Time { return w.now })
			w.login.Answer(func(r *http.Request) (*http.Response, error) {
				if strings.HasPrefix(r.URL.Path, "/.well-known/") {
					return testworld.Response(http.StatusOK, `{"issuer":"https://login.contoso.test/a","token_endpoint":"`+tokenURL+`"}`, "Content-Type", "application/json"), nil
				}
				return issued(r)
			})
			text := w.replay(w.record(c.config(w)))
			for _, part := range c.want {
				if !strings.Contains(text, part) {
					t.Errorf("no %q in\n%s", part, text)
				}
			}
		})
	}
}

// What needs a consent or a store of keys is not recorded.
func TestUnrecordedParts(t *testing.T) {
	w := newWorld(t, "oauth_authorization_code")
	connector := testworld.Must(w.host.NewConnector(t.Context(), host.ConnectorConfig{
		Name: "crm", Origins: []string{"https://api.contoso.test"}, Auth: []host.Auth{{Type: w.authType, Config: testworld.AuthTypes(tokenURL)[w.authType]}},
	}))(t)
	testworld.Fails(record.Of(record.Sent{Host: w.host, Connector: connector}))(t, "consented")
}
