package host_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// namedWorld is a world with a connector whose API has the URL of instance, and returns the requests: the URL, the name of the host,
// and the credential. later are the plugins of further elements of its auth.
func namedWorld(t *testing.T, instance func() string, later ...*guest) (w *world, c *host.Connector, requests func() []string) {
	t.Helper()
	var all []string
	w = newWorld(t, func(c *host.Config) {
		for _, g := range later {
			withGuest(g)(c)
		}
		c.Base = answer(func(r *http.Request) (*http.Response, error) {
			all = append(all, r.URL.String()+" "+r.Host+" "+r.Header.Get("Authorization"))
			if r.URL.Path != "/token" {
				return status(http.StatusOK)(r)
			}
			name := testworld.Must(json.Marshal(instance()))(t)
			return respond(http.StatusOK, `{"access_token":"the-token","token_type":"bearer","expires_in":3600,"instance_url":`+string(name)+`}`)(r)
		})
	})
	config := oauth("{{ get_secret('s') }}")
	config["url_from"] = "json:/instance_url"
	auth := host.Auths{{Type: "oauth_client_credentials", Config: config}}
	for range later {
		auth = append(auth, host.Auth{Type: "custom", Config: misused})
	}
	c = w.open(host.ConnectorConfig{Hosts: []string{"*.crm.test", "eu.test:8443"}, Auth: auth})
	return w, c, func() []string {
		last := all
		all = nil
		return last
	}
}

func namedRequest(t *testing.T, c *host.Connector, target string) error {
	t.Helper()
	r := testworld.Must(http.NewRequestWithContext(context.Background(), http.MethodGet, target, http.NoBody))(t)
	response, err := c.Transport(nil).RoundTrip(r)
	if err == nil {
		check(t, response.Body.Close())
	}
	return err
}

// The request goes where the answer says, with the path that it says in front, also from the cache.
func TestNamedHost(t *testing.T) {
	for instance, want := range map[string]string{
		"https://acme.crm.test":        "https://acme.crm.test/a%2Fb?q  Bearer the-token",
		"https://acme.crm.test/":       "https://acme.crm.test/a%2Fb?q  Bearer the-token",
		"https://acme.crm.test:443/v1": "https://acme.crm.test:443/v1/a%2Fb?q  Bearer the-token",
		"https://eu.test:8443/x%2Fy/":  "https://eu.test:8443/x%2Fy/a%2Fb?q  Bearer the-token",
	} {
		w, c, requests := namedWorld(t, func() string { return instance })
		for _, count := range []int{2, 1} { // the second one has the cached token
			check(t, namedRequest(t, c, apiOrigin+"/a%2Fb?q"))
			if got := requests(); len(got) != count || got[count-1] != want {
				t.Errorf("%s: the requests are %q, want %s", instance, got, want)
			}
		}
		for _, direct := range []string{"https://acme.crm.test/a", "https://eu.test:8443/a"} { // it would be another request
			testworld.WantError(t, direct, namedRequest(t, c, direct), "is not an origin of this connector")
		}
		r := testworld.Must(http.NewRequestWithContext(context.Background(), http.MethodGet, apiOrigin+"/a", http.NoBody))(t)
		explained := testworld.Must(c.Explain(r))(t)
		if len(requests()) != 0 || explained.URL != "<url>/a" || !strings.Contains(explained.Added.String(), "url: <url>") {
			t.Errorf("the explanation is %+v", explained)
		}
		if got := w.calls[0].Endpoint; got != "https://login.test" {
			t.Errorf("the endpoint is %s", got)
		}
	}
}

// threats.md 490: a later element of auth sees the host, which hosts lists, so that it can sign it. The path is a reference, as each text
// of an answer is.
func TestNamedHostInAList_threats_490(t *testing.T) {
	var got string
	_, c, requests := namedWorld(t, func() string { return "https://acme.crm.test/hooks/secret" }, misusing(func(env contract.Env) (string, error) {
		got = env.Compose("{header:host} {path}", nil)
		return marshal(contract.Mutation{Headers: []abi.Pair{{Name: "X-Last", Value: value(env, "to_header")}}}), nil
	}))
	check(t, namedRequest(t, c, apiOrigin+"/a?q"))
	if all := requests(); len(all) != 2 || all[1] != "https://acme.crm.test/hooks/secret/a?q  Bearer the-token" {
		t.Errorf("the requests are %q", all)
	}
	if got = anySealed.ReplaceAllString(got, "sealed"); got != "acme.crm.test /sealed" {
		t.Errorf("the later element sees %q, want the host and a reference", got)
	}
}

// What an answer names is a listed host, or nothing is sent there and nothing is cached, so that the next request asks again.
func TestNamedHostSpellings_threats_483(t *testing.T) {
	urls := []string{
		"https://evil.test", "https://crm.test", "https://a.acme.crm.test", "https://acme.crm.test.evil.test", "https://acme.crm.test:8443", "https://eu.test",
		"http://acme.crm.test", "acme.crm.test", "//acme.crm.test", "https:acme.crm.test", "ftp://acme.crm.test", "https://u:p@acme.crm.test", "https://u@acme.crm.test",
		"https://acme.crm.test/?a=b", "https://acme.crm.test?", "https://acme.crm.test#a", "https://acme.crm.test/../x", "https://acme.crm.test/%2e%2e/x",
		"https://acme.crm.test/a\\b", "https://evil.test\\@acme.crm.test", "https://evil.test#@acme.crm.test", "https://acme.crm.test%2f.evil.test", " ", "https://",
	}
	for _, spelling := range testworld.HostSpellings() {
		urls = append(urls, "https://"+spelling, "https://"+spelling+"/v1")
		if u, err := url.Parse("https://" + spelling + ".crm.test/"); err != nil || strings.Trim(u.Hostname(), "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" {
			urls = append(urls, "https://"+spelling+".crm.test/")
		}
	}
	for _, instance := range urls {
		_, c, requests := namedWorld(t, func() string { return instance })
		for range 2 {
			err := namedRequest(t, c, apiOrigin+"/a")
			for _, one := range requests() {
				if !strings.HasPrefix(one, tokenURL) && (err != nil || !strings.Contains(one, ".crm.test/")) {
					t.Errorf("%q: %s was sent; the error is %v", instance, one, err)
				}
			}
		}
	}
}

// A plugin chooses no host, also none of the list: the URL is one whole sealed value.
func TestNamedHostOfAPlugin_threats_483(t *testing.T) {
	var put func(env contract.Env, v string) string
	g := &guest{about: abi.Description{Fields: []abi.Field{sealedField("key", contract.SinkHeader), sealedField("where", contract.SinkURL), sealedField("part", contract.SinkURL)}}}
	g.authenticate = func(env contract.Env) (string, error) {
		return marshal(contract.Mutation{URL: put(env, value(env, "where")), Headers: []abi.Pair{{Name: "X-Key", Value: value(env, "key")}}}), nil
	}
	w := customWorld(t, g)
	w.setSecret("where", "https://acme.crm.test")
	own := host.ConnectorConfig{Origins: []string{"https://*.crm.test"}, HostsShareSecrets: true, Hosts: []string{"*.crm.test"}, Auth: host.Auths{{Type: "custom", Config: config{
		"key": "{{ get_secret('s') }}", "where": "{{ get_secret('where') }}", "part": "x",
	}}}}
	for name, test := range map[string]struct {
		put   func(env contract.Env, v string) string
		wrong string
	}{
		"whole":    {func(_ contract.Env, v string) string { return v }, ""},
		"plain":    {func(contract.Env, string) string { return "https://evil.crm.test" }, "is not one sealed value"},
		"behind":   {func(_ contract.Env, v string) string { return v + "/x" }, "is not one sealed value"},
		"in front": {func(_ contract.Env, v string) string { return "https://evil.crm.test/" + v }, "is not one sealed value"},
		"two":      {func(env contract.Env, v string) string { return v + value(env, "part") }, "is not one sealed value"},
		"made of it": {func(env contract.Env, v string) string {
			return env.Encode(contract.FormatLower, "https://evil.crm.test/"+v)
		}, "is not one sealed value"},
		"no URL":      {func(env contract.Env, _ string) string { return value(env, "part") }, "is no https URL"},
		"another one": {func(env contract.Env, _ string) string { return value(env, "key") }, "do not reach"},
	} {
		put, own.Name = test.put, name // another connector does not use an earlier mutation again
		testworld.WantError(t, name, namedRequest(t, w.open(own), "https://fallback.crm.test/a"), test.wrong)
	}
}

// A URL of its own entry is dropped with the token if the API answers 401, so that the next request asks where to go.
func TestNamedHostAfterUnauthorized(t *testing.T) {
	misses := 0
	g := &guest{about: abi.Description{Uses: []string{contract.GroupCache}, Fields: []abi.Field{sealedField("key", contract.SinkHeader), sealedField("where", contract.SinkURL)}}}
	g.authenticate = func(env contract.Env) (string, error) {
		where, ok := env.CacheGet("where")
		if !ok {
			where, misses = value(env, "where"), misses+1
			env.CacheSet("where", where, 3600)
		}
		return marshal(contract.Mutation{URL: where, Headers: []abi.Pair{{Name: "X-Key", Value: value(env, "key")}}}), nil
	}
	w := customWorld(t, g)
	w.setSecret("where", "https://acme.crm.test")
	c := w.open(host.ConnectorConfig{Hosts: []string{"*.crm.test"}, Auth: host.Auths{{Type: "custom", Config: config{
		"key": "{{ get_secret('s') }}", "where": "{{ get_secret('where') }}",
	}}}})
	for _, code := range []int{http.StatusOK, http.StatusUnauthorized, http.StatusOK} {
		w.api.Answer(status(code))
		check(t, namedRequest(t, c, apiOrigin+"/a"))
	}
	if misses < 2 {
		t.Error("after a 401, the request goes to the same URL from the cache")
	}
}

func TestNamedHostProblems(t *testing.T) {
	w := newWorld(t)
	with := func(hosts []string, secret, sender string) host.ConnectorConfig {
		config := oauth(secret)
		config["url_from"], config["sender"] = "json:/instance_url", sender
		return host.ConnectorConfig{Hosts: hosts, Auth: host.Auths{{Type: "oauth_client_credentials", Config: config}}}
	}
	const shared = "{{ get_secret('s') }}"
	w.refuseConnector(with(nil, shared, "bearer"), "auth.config.url_from", "it needs hosts")
	w.refuseConnector(with([]string{"*.myshopify.com"}, shared, "bearer"), "auth.config.client_secret", "everybody can have a host that *.myshopify.com stands for")
	w.refuseConnector(with([]string{"*.crm.test"}, shared, "dpop"), "auth.config.url_from", "has no effect unless sender is bearer")
	w.open(with([]string{"*.myshopify.com"}, "{{ get_secret('s', 'tenant') }}", "bearer"))
	c := with([]string{"*.myshopify.com"}, shared, "bearer")
	c.HostsShareSecrets = true
	w.open(c)
	w = customWorld(t, &guest{about: abi.Description{Fields: []abi.Field{sealedField("key", contract.SinkHeader), sealedField("where", contract.SinkURL)}}})
	c = host.ConnectorConfig{Hosts: []string{"*.crm.test"}, Auth: host.Auths{{Type: "custom", Config: config{"key": shared, "where": "{{ get_secret('where', 'tenant') }}"}}}}
	w.refuseConnector(c, "auth.config.key", "the tenant chooses the host")
}
