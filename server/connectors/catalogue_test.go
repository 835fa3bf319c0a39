//go:build !race

// Under the race detector these tests take long, and they do one thing after another. make test runs them without it.

package connectors_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/onboard/catalogue"
	"github.com/keywright/keywright/server/internal/trial"
)

// An account has the credentials of a user at a product, and the product itself, as it documents its authentication.
type account struct {
	// secrets has the secrets by their names, and set what replaces the texts of the connector.
	secrets, set map[string]string
	// api is the product, at all its hosts. It answers with {"ok":true} if host, method, path and credential are right, and
	// otherwise with an error.
	api http.HandlerFunc
	// consent is the page of the authorization server to which the user's browser goes, for types that need one.
	consent http.HandlerFunc
	// optional lists the members of auth.config without which the product answers too, separated by spaces.
	optional string
}

// Each connector of the catalogue gets an answer from a server that checks what the product documents, when a user has filled in
// what the catalogue lists. With a wrong secret, another value, or without a member of its configuration, it gets none.
func TestCatalogue(t *testing.T) {
	apis := testworld.Must(catalogue.All())(t)
	accounts := accounts(t)
	cache := t.TempDir()
	for _, a := range apis {
		t.Run(a.Name, func(t *testing.T) {
			account, found := accounts[a.Name]
			if !found {
				t.Fatal("has no account: write what its API checks into catalogue_*_test.go")
			}
			filled := fillIn(t, a, account.set)
			if len(filled.Fill) != len(account.secrets) {
				t.Errorf("left to fill in: %v", filled.Fill)
			}
			send := func(text string, secrets map[string]string) error {
				return send(t, cache, a, text, secrets, account)
			}
			testworld.Check(t, send(filled.Item(), account.secrets))
			for name, value := range account.secrets {
				others := maps.Clone(account.secrets)
				others[name] = otherSecret(t, value)
				if send(filled.Item(), others) == nil {
					t.Errorf("the API takes another secret %s", name)
				}
			}
			for name, value := range account.set {
				others := maps.Clone(account.set)
				others[name] = "9" + value
				if send(fillIn(t, a, others).Item(), account.secrets) == nil {
					t.Errorf("the API takes %s in place of %s", others[name], value)
				}
			}
			for member, text := range without(t, filled) {
				if !slices.Contains(strings.Fields(account.optional), member) && send(text, account.secrets) == nil {
					t.Errorf("the API needs no %s: leave it out, or let the check demand it", member)
				}
			}
		})
	}
	for name := range accounts {
		if !slices.ContainsFunc(apis, func(a *catalogue.API) bool { return a.Name == name }) {
			t.Errorf("the catalogue has no %s", name)
		}
	}
}

// fillIn returns a product whose connector has the values of an account.
func fillIn(t *testing.T, a *catalogue.API, set map[string]string) *catalogue.API {
	t.Helper()
	return testworld.Must(a.With(catalogue.Options{Set: set}))(t)
}

// send sends the catalogue's first request with the connector of a text, as keywright request does. It returns an error unless the
// API answers {"ok":true}.
func send(t *testing.T, cache string, a *catalogue.API, text string, secrets map[string]string, account account) error {
	t.Helper()
	base := served(t, keeping(a.Rules, account.api))
	before := "connectors:\n"
	if a.NeedsState() {
		before = "state: {type: sqlite, path: state.db, keys: [\"{{ get_secret('state-key') }}\"]}\n" + before
	}
	file, err := connectors.AddConnector(t.Context(), []byte(before), text)
	if err != nil {
		return err
	}
	options := connectors.Options{WithoutStore: true, Host: host.Config{
		Secrets: host.MapSecrets(secrets), Base: base, CodeCache: cache, UserAgent: "keywright/1", // as the command has it
	}}
	set, err := connectors.Read(t.Context(), "connectors.yaml", file, options)
	if err != nil {
		return err
	}
	defer set.Close(context.WithoutCancel(t.Context()))
	connector := set.Connectors[0]
	if got := connector.Definition().Permalink; got != a.Name {
		t.Errorf("the permalink is %s", got)
	}
	if connector.Upstream().NeedsConsent() {
		if err := agree(t, set, account.consent); err != nil {
			return err
		}
	}
	method, path := a.Request()
	path, query, _ := strings.Cut(path, "?")
	// Callers of the gateway may send the request too, unless it has a query, or a credential in its path.
	trusted := query != "" || strings.Contains(path, "{")
	header := http.Header{}
	if a.Body != "" {
		header.Set("Content-Type", "application/json")
	}
	out, err := trial.NewOutgoing(t.Context(), connector, trial.Incoming{Method: method, Path: path, Query: query, Header: header, Trusted: trusted})
	if err != nil {
		return err
	}
	r, err := out.Request(t.Context(), strings.NewReader(a.Body))
	if err != nil {
		return err
	}
	response, err := connector.Upstream().Transport(base).RoundTrip(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK || !strings.Contains(string(body), `"ok":true`) {
		return errors.Join(fmt.Errorf("%d: %s", response.StatusCode, body), err)
	}
	return nil
}

const (
	consentURI  = "http://127.0.0.1:8765/callback"
	consentCode = "AB11569code"
)

// agree lets the operator consent, as in a browser: page gets the authorization request, and its answer has the code.
func agree(t *testing.T, set *connectors.Set, page http.HandlerFunc) error {
	t.Helper()
	connector, binding := set.Connectors[0].Upstream(), strings.Repeat("b", 32)
	target, err := connector.BeginConsent(t.Context(), host.ConsentRequest{RedirectURI: consentURI, Binding: binding})
	if err != nil {
		return err
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	w := httptest.NewRecorder()
	if page(w, r); w.Code != http.StatusOK {
		return errors.New(w.Body.String())
	}
	back := host.AuthorizationResponse{RedirectURI: consentURI, Response: url.Values{"code": {consentCode}, "state": {r.URL.Query().Get("state")}}, Binding: binding}
	_, err = set.Host.Callback(t.Context(), back, func(string) *host.Connector { return connector })
	return err
}

// without returns the connector of a product without each member of its auth.config in turn, by the name of the member. Of several, the name
// has the number of the element in front.
func without(t *testing.T, a *catalogue.API) map[string]string {
	t.Helper()
	read := func() (connector map[string]any, configs []map[string]any) {
		testworld.Check(t, yaml.Load([]byte(a.Connector), &connector))
		elements, several := connector["auth"].([]any)
		if !several {
			elements = []any{connector["auth"]}
		}
		for _, element := range elements {
			auth, _ := element.(map[string]any)
			config, _ := auth["config"].(map[string]any)
			configs = append(configs, config)
		}
		return connector, configs
	}
	_, all := read()
	texts := map[string]string{}
	for i, members := range all {
		for name := range members {
			connector, configs := read()
			delete(configs[i], name)
			if len(all) > 1 {
				name = fmt.Sprint(i, ".", name)
			}
			texts[name] = "- " + string(testworld.Must(json.Marshal(connector))(t)) + "\n"
		}
	}
	return texts
}

// otherSecret returns a secret of the same shape: another key in place of a key, and otherwise a text with another end.
func otherSecret(t *testing.T, value string) string {
	t.Helper()
	if value == ecText(t, p256Key) {
		return ecText(t, otherP256Key)
	}
	if value == ecText(t, p521Key) {
		return ecText(t, otherP521Key)
	}
	if value == pkcs8(t, ed25519Key("k")) {
		return pkcs8(t, ed25519Key("o"))
	}
	if mine, theirs := keyTexts(t, rsaKey), keyTexts(t, otherRSAKey); strings.Contains(value, "PRIVATE KEY") {
		for i, text := range mine {
			value = strings.ReplaceAll(value, text, theirs[i])
		}
		return value
	}
	end := map[bool]string{true: "b", false: "a"}[strings.HasSuffix(value, "a")]
	return value[:len(value)-1] + end
}

// The connectors of the catalogue have no credential in them. What is to be filled in is a placeholder of which there is a warning,
// but for regions, which are those of many. Once it is filled in there is none.
func TestWarningsOfTheCatalogue(t *testing.T) {
	cache := t.TempDir()
	apis := testworld.Must(catalogue.All())(t)
	all := accounts(t)
	warnings := func(a *catalogue.API) []connectors.Problem {
		file := testworld.Must(connectors.AddConnector(t.Context(), []byte("gateway: {user: {type: header, header: {proxies: [10.0.0.1], id: X-User}}}\n"), a.Item()))(t)
		_, warnings := inspect(t, string(file), connectors.Options{Host: host.Config{CodeCache: cache}})
		// That numbers rise on one node alone is about the file's store of state.
		return slices.DeleteFunc(warnings, func(p connectors.Problem) bool { return strings.Contains(p.Message, "has {counter}") })
	}
	for _, a := range apis {
		before := warnings(a)
		for _, f := range a.Fill {
			placed := slices.ContainsFunc(before, func(p connectors.Problem) bool { return strings.Contains(p.Message, "has a placeholder") })
			if f.Replace != "" && f.Replace != "eu-central-1" && !placed {
				t.Errorf("%s: there is no warning of %s", a.Name, f.Replace)
			}
		}
		for _, p := range before {
			if !strings.Contains(p.Message, "has a placeholder") {
				t.Errorf("%s: p = %s", a.Name, p)
			}
		}
		for _, p := range warnings(fillIn(t, a, all[a.Name].set)) {
			t.Errorf("%s, filled in: %s", a.Name, p)
		}
	}
}
