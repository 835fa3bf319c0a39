package vendors

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/host/hosttest/conform"
	"github.com/keywright/keywright/internal/pluginbuild"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/server/internal/onboard/catalogue"
)

// longest is the number of lines that a plugin for one product may have.
const longest = 75

// invented lists how auth types that others have invented are written: by an entry of the catalogue, which configures a type that is
// there, or by the source of a plugin.
var invented = map[string]struct{ entry, plugin string }{
	"Tencent TC3-HMAC-SHA256":  {plugin: "testdata/tc3/main.go"},
	"Alibaba ACS3-HMAC-SHA256": {entry: "alibaba-cloud"},
	"IBM IAM":                  {entry: "ibm-cloud"},
	"Akamai EdgeGrid":          {plugin: "testdata/edgegrid/main.go"},
	"Snowflake key pair":       {entry: "snowflake"},
	"Azure SharedKey":          {entry: "azure-blob-storage"},
	"Kraken":                   {entry: "kraken"},
	"OVH":                      {plugin: "testdata/ovh/main.go"},
	"Coinbase with Ed25519":    {entry: "coinbase"},
	"Wise":                     {plugin: "../../../test/languages/c/wise.c"},
	"TrueLayer":                {entry: "truelayer"},
}

// authType matches the auth types of a connector.
var authType = regexp.MustCompile(`(?m)^ +(?:- )?type: (\w+)`)

// Each invented auth type is a configuration of a type that is there, or a short plugin, and none needs a grant.
func TestInventedTypes(t *testing.T) {
	for name, how := range invented {
		t.Run(name, func(t *testing.T) {
			if how.plugin == "" {
				api := testworld.Must(catalogue.Find(how.entry))(t)
				kinds := authType.FindAllStringSubmatch(api.Item(), -1)
				for _, kind := range kinds {
					if plugins.Of(kind[1]) == nil {
						t.Errorf("%s has the auth type %s, which is none of Keywright's", how.entry, kind[1])
					}
				}
				if len(kinds) == 0 {
					t.Errorf("%s has no auth type", how.entry)
				}
				return
			}
			source := testworld.Must(os.ReadFile(how.plugin))(t)
			if lines := bytes.Count(source, []byte("\n")); lines > longest {
				t.Errorf("%s has %d lines, want %d at most", how.plugin, lines, longest)
			}
			for _, needsGrant := range []string{".Reveal(", ".Sign(", "kw_reveal(", "kw_sign("} {
				if bytes.Contains(source, []byte(needsGrant)) {
					t.Errorf("%s calls %s…), which needs a grant", how.plugin, needsGrant)
				}
			}
		})
	}
}

// compiled returns the path of the module of a plugin in testdata.
func compiled(t *testing.T, name string) string {
	t.Helper()
	compiler := testworld.Must(pluginbuild.FindCompiler(t.Context(), "../../../.build"))(t)
	module := filepath.Join(t.TempDir(), name+".wasm")
	testworld.Check(t, os.WriteFile(module, testworld.Must(compiler.Compile(t.Context(), "testdata/"+name))(t), 0o600))
	return module
}

// The plugins conform, without a grant, and the products' own clients sign the same requests alike.
func TestInventedPlugins(t *testing.T) {
	var requests []signed
	for name, test := range map[string]struct {
		url    string
		header map[string]string
		// plain and secret have fields of the configuration.
		plain, secret []string
		requests      []string
	}{
		"tc3": {
			"https://cvm.tencentcloudapi.com",
			map[string]string{"X-TC-Action": "DescribeInstances", "X-TC-Version": "2017-03-12"},
			[]string{"secret_id", "service=cvm"},
			[]string{"secret_key"},
			[]string{"POST /", "POST / {\"Limit\":1,\"Name\":\"é\"}", "GET /?Limit=10&Filters.0.Name=a%20b"},
		},
		"edgegrid": {
			"https://akaa-1.luna.akamaiapis.net", nil,
			[]string{"client_token", "access_token"},
			[]string{"client_secret"},
			[]string{"GET /papi/v1/contracts", "GET /papi/v1/groups?a=b%20c&d=e", "POST /ccu/v3/invalidate/url {\"objects\":[\"é\"]}", "POST /ccu/v3/x?y=z", "PUT /papi/v1/rules {}"},
		},
		"ovh": {
			"https://eu.api.ovh.com", nil,
			[]string{"application_key"},
			[]string{"application_secret", "consumer_key"},
			[]string{"GET /1.0/me", "GET /1.0/domain/zone?a=b%20c", "POST /1.0/domain/zone/x/record {\"target\":\"\\u00e9\"}", "DELETE /1.0/me/api/credential/1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			module := compiled(t, name)
			conform.Test(t, module)
			hosttest.Run(t, nil, module, func(_ *testing.T, h *hosttest.Harness) {
				config, values := hosttest.Config{}, map[string]string{}
				for _, field := range test.plain {
					field, value, found := strings.Cut(field, "=")
					if !found {
						value = field + "-1"
					}
					config[field], values[field] = value, value
				}
				for _, field := range test.secret {
					config[field], values[field] = "{{ get_secret('"+field+"') }}", "the-"+field+"-of-an-account"
					h.Secret(field, values[field])
				}
				for _, text := range test.requests {
					r := outgoing(test.url, text)
					for header, value := range test.header {
						r.Header.Set(header, value)
					}
					_, _, body := words(text)
					got := h.Authenticate(config, r)
					header := got.Request.Header.Clone()
					header.Set("Host", r.URL.Host)
					requests = append(requests, signed{Judge: name, Method: r.Method, Target: r.URL.RequestURI(), Header: header, Body: body, Placeholders: values})
				}
			})
		})
	}
	judged(t, requests)
}

// words returns the method, the target and the body of a request in a test.
func words(text string) (method, target, body string) {
	method, rest, _ := strings.Cut(text, " ")
	target, body, _ = strings.Cut(rest, " ")
	return method, target, body
}

// outgoing returns such a request.
func outgoing(origin, text string) *http.Request {
	method, target, body := words(text)
	r := hosttest.POST(origin+target, body)
	if r.Method = method; body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}
