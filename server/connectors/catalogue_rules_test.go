//go:build !race

// Under the race detector these tests take long, and they do one thing after another. make test runs them without it.

package connectors_test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/onboard/catalogue"
)

// keeping returns an API that refuses, with a status of 400, the requests that break a rule that the product documents.
func keeping(rules []catalogue.Rule, api http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil { // leaves bodies in JSON alone
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := broken(rules, r); err != nil {
			http.Error(w, "a documented rule is broken: "+err.Error(), http.StatusBadRequest)
			return
		}
		api(w, r)
	}
}

// broken returns an error if a request breaks a rule. A request with a grant is one to a token endpoint.
func broken(rules []catalogue.Rule, r *http.Request) error {
	var hosts []string
	for _, rule := range rules {
		hosts = append(hosts, rule.Hosts...)
		if err := brokenHeader(rule, r); err != nil {
			return fmt.Errorf("%s%s: %w", rule.Page, rule.Source, err)
		}
		if err := brokenGrant(rule, r); err != nil {
			return fmt.Errorf("%s%s: %w", rule.Page, rule.Source, err)
		}
	}
	ofHost := func(pattern string) bool { ok, _ := path.Match(pattern, strings.ToLower(r.Host)); return ok }
	if len(hosts) > 0 && !slices.ContainsFunc(hosts, ofHost) {
		return fmt.Errorf("the host %s is none of %q", r.Host, hosts)
	}
	return nil
}

func brokenHeader(rule catalogue.Rule, r *http.Request) error {
	agent, granting := r.Header.Get("User-Agent"), granting(r)
	switch {
	case rule.UserAgent == "required" && agent == "":
		return errors.New("there is no User-Agent")
	case rule.UserAgent != "required" && !strings.HasPrefix(agent, rule.UserAgent):
		return fmt.Errorf("User-Agent is %q", agent)
	case granting:
		return nil // what follows is about the API
	case len(rule.Accept) > 0 && !slices.ContainsFunc(rule.Accept, func(kind string) bool { return accepts(r, kind) }):
		return fmt.Errorf("Accept is %q", r.Header.Values("Accept"))
	}
	for name, versions := range rule.Version {
		inPath := func(version string) bool { return strings.Contains(r.URL.Path, version) }
		got := r.Header.Values(name)
		if name == "path" && !slices.ContainsFunc(versions, inPath) || name != "path" && (len(got) != 1 || !slices.Contains(versions, got[0])) {
			return fmt.Errorf("the version is %q at %s, and not one of %q", got, r.URL.Path, versions)
		}
	}
	return nil
}

// accepts reports whether a request accepts a media type, in which an asterisk stands for any text.
func accepts(r *http.Request, kind string) bool {
	want, parameters, _ := mime.ParseMediaType(kind)
	for item := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		got, has, err := mime.ParseMediaType(strings.TrimSpace(item))
		if same, _ := path.Match(want, got); err == nil && same && has["version"] == parameters["version"] {
			return true
		}
	}
	return false
}

func granting(r *http.Request) bool {
	return r.PostForm.Has("grant_type") || strings.HasSuffix(r.URL.Path, "/access_tokens") || strings.HasSuffix(r.URL.Path, "/login")
}

// brokenGrant checks what concerns token requests, and JWTs anywhere.
func brokenGrant(rule catalogue.Rule, r *http.Request) error {
	if how := clientAuth(r); len(rule.ClientAuth) > 0 && granting(r) && !slices.Contains(rule.ClientAuth, how) {
		return fmt.Errorf("the client authenticates by %s", how)
	}
	if scope := r.PostFormValue("scope"); rule.Scope != "" && strings.ContainsAny(strings.ReplaceAll(scope, rule.Scope, ""), " ,;") {
		return fmt.Errorf("the scopes are %q", scope)
	}
	for _, token := range []string{r.PostFormValue("assertion"), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")} {
		if lasts := lifetime(token); rule.Lifetime > 0 && lasts > rule.Lifetime {
			return fmt.Errorf("a JWT lasts for %d seconds", lasts)
		}
	}
	return nil
}

func clientAuth(r *http.Request) string {
	if _, _, basic := r.BasicAuth(); basic {
		return "client_secret_basic"
	}
	if r.PostForm.Has("client_secret") {
		return "client_secret_post"
	}
	return "nothing"
}

// lifetime returns how long a JWT lasts, in seconds, and 0 for another text.
func lifetime(token string) int {
	var claims struct{ Iat, Nbf, Exp int }
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return 0
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &claims) != nil {
		return 0
	}
	return claims.Exp - cmp.Or(claims.Iat, claims.Nbf)
}

// Each entry says of everything that a request can break what the product documents, on which page, or that no page was found.
func TestRulesHaveTheirPages(t *testing.T) {
	apis := testworld.Must(catalogue.All())(t)
	unknown := 0
	for _, a := range apis {
		said := map[string]bool{}
		for i, rule := range a.Rules {
			page, err := url.Parse(rule.Page)
			if (rule.Page == "") == (rule.Source == "") || err != nil || rule.Page != "" && page.Scheme != "https" {
				t.Errorf("%s: rules[%d] has to have an https page, or a source in its place", a.Name, i)
			}
			for _, member := range membersOf(t, rule) {
				said[member] = true
			}
			if rule.Source != "" && slices.Contains(rule.None, "user_agent") {
				unknown++
			}
		}
		for _, member := range breakable(a) {
			if !said[member] {
				t.Errorf("%s: no rule says what the product documents about %s; list it in none if that is nothing", a.Name, member)
			}
		}
	}
	t.Logf("%d of %d entries have no page about User-Agent", unknown, len(apis))
}

// membersOf returns the members that a rule has, and those of none.
func membersOf(t *testing.T, rule catalogue.Rule) []string {
	t.Helper()
	var members map[string]any
	testworld.Check(t, yaml.Load(testworld.Must(yaml.Dump(rule))(t), &members))
	known := slices.Clone(rule.None)
	for name := range members {
		known = append(known, name)
	}
	return known
}

// breakable returns the members of a rule that concern the requests of a product.
func breakable(a *catalogue.API) []string {
	members := []string{"hosts", "user_agent", "accept", "version"}
	for text, member := range map[string]string{"token_url:": "client_auth", "login_url:": "client_auth", "api_url:": "client_auth", "  scope:": "scope", " scope:": "scope", "{scope:": "scope", "private_key:": "lifetime_seconds"} {
		if strings.Contains(a.Connector, text) && !strings.Contains(a.Connector, "token_type: self_signed_jwt\n"+text) {
			members = append(members, member)
		}
	}
	return members
}

// The hosts of a place of the catalogue are hosts that the product documents.
func TestDocumentedPlaces(t *testing.T) {
	apis := testworld.Must(catalogue.All())(t)
	for _, a := range apis {
		var hosts []string
		for _, rule := range a.Rules {
			hosts = append(hosts, rule.Hosts...)
		}
		for place, texts := range a.Places {
			for _, text := range texts {
				name := strings.TrimPrefix(text, "https://")
				if !slices.ContainsFunc(hosts, func(pattern string) bool { ok, _ := path.Match(pattern, name); return ok }) {
					t.Errorf("%s: no rule has %s, a host in %s", a.Name, name, place)
				}
			}
		}
	}
}

// A request that breaks a documented rule is refused, whichever it is.
func TestBrokenRules(t *testing.T) {
	token := func(seconds int) string {
		return "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"iat":1000,"exp":%d}`, 1000+seconds)) + ".c2ln"
	}
	rule := catalogue.Rule{
		Page: "https://acme.example/docs", Hosts: []string{"*.acme.example"}, UserAgent: "AcmeBot (", Accept: []string{"application/vnd.acme+json;version=2"},
		Version: map[string][]string{"Acme-Version": {"1", "2"}, "path": {"/v1/"}}, ClientAuth: []string{"client_secret_post"}, Scope: " ", Lifetime: 600,
	}
	api := func(change func(*http.Request)) *http.Request {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.acme.example/v1/me", nil)
		r.Header = http.Header{"User-Agent": {"AcmeBot (1)"}, "Accept": {"text/html, application/vnd.acme+json; version=2"}, "Acme-Version": {"2"}, "Authorization": {"Bearer " + token(600)}}
		change(r)
		return r
	}
	grant := func(change func(*http.Request)) *http.Request {
		r := api(func(r *http.Request) { r.Header = http.Header{"User-Agent": {"AcmeBot (1)"}} })
		r.PostForm = url.Values{"grant_type": {"client_credentials"}, "client_secret": {"s"}, "scope": {"a b"}}
		r.Form = r.PostForm
		change(r)
		return r
	}
	for name, c := range map[string]struct {
		request *http.Request
		want    string
	}{
		"a request":           {api(func(*http.Request) {}), ""},
		"a token request":     {grant(func(*http.Request) {}), ""},
		"another host":        {api(func(r *http.Request) { r.Host = "acme.test" }), "the host acme.test"},
		"no User-Agent":       {api(func(r *http.Request) { r.Header.Del("User-Agent") }), "User-Agent"},
		"another media type":  {api(func(r *http.Request) { r.Header.Set("Accept", "application/vnd.acme+json") }), "Accept"},
		"another version":     {api(func(r *http.Request) { r.Header.Set("Acme-Version", "3") }), "the version"},
		"no version":          {api(func(r *http.Request) { r.Header.Del("Acme-Version") }), "the version"},
		"another path":        {api(func(r *http.Request) { r.URL.Path = "/v2/me" }), "the version"},
		"a long JWT":          {api(func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token(601)) }), "601 seconds"},
		"a long assertion":    {grant(func(r *http.Request) { r.Form.Set("assertion", token(601)) }), "601 seconds"},
		"Basic":               {grant(func(r *http.Request) { r.SetBasicAuth("id", "s") }), "client_secret_basic"},
		"no secret":           {grant(func(r *http.Request) { r.Form.Del("client_secret") }), "nothing"},
		"scopes with a comma": {grant(func(r *http.Request) { r.Form.Set("scope", "a,b") }), "the scopes"},
	} {
		testworld.WantError(t, name, broken([]catalogue.Rule{rule}, c.request), c.want)
	}
}
