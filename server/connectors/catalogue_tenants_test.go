//go:build !race

// Under the race detector these tests take long, and they do one thing after another. make test runs them without it.

package connectors_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/onboard/catalogue"
	"github.com/keywright/keywright/server/internal/trial"
)

// tenantHosts has products whose hosts are those of their customers, with the text that stands for the customer's label in the host. What
// stands for it elsewhere is behind it.
var tenantHosts = map[string][]string{
	"azure-blob-storage": {"your-account"}, "netsuite": {"your-account-id", "YOUR_ACCOUNT_ID"}, "netsuite-client-credentials": {"your-account-id"},
	"okta": {"your-org"}, "okta-client-credentials": {"your-org"}, "shopify": {"your-shop"}, "shopify-client-credentials": {"your-shop"}, "zendesk": {"your-subdomain"},
}

var urlLine = regexp.MustCompile(`(?m)^( *)url: https://[^.]+(\..*?)(/.*)?$`)

// One connector serves many tenants of such a product: each gets its own host, with its own secrets (threats.md 480).
func TestTenantsOfTheCatalogue(t *testing.T) {
	cache, accounts := t.TempDir(), accounts(t)
	for name, labels := range tenantHosts {
		t.Run(name, func(t *testing.T) {
			a := testworld.Must(catalogue.Find(name))(t)
			account, secrets, variables := accounts[name], host.MapSecrets{}, map[string]string{}
			fixed := map[string]string{}
			for text, value := range account.set {
				fixed[text] = value
			}
			replace := []string{"')", "', 'tenant')"}
			for i, label := range labels {
				delete(fixed, label)
				variable := fmt.Sprintf("label-%d", i)
				replace = append(replace, label, "{{ get_variable('"+variable+"', 'tenant') }}")
				variables["tenants/one/"+variable], variables["tenants/two/"+variable] = account.set[label], account.set[label]
			}
			for secret, value := range account.secrets {
				secrets["tenants/one/"+secret], secrets["tenants/two/"+secret] = value, otherSecret(t, value)
			}
			item := urlLine.ReplaceAllString(fillIn(t, a, fixed).Item(), "$0\n${1}hosts: [\"*$2\"]")
			file := testworld.Must(connectors.AddConnector(t.Context(), []byte("connectors:\n"), replaced(item, replace)))(t)
			base := served(t, keeping(a.Rules, account.api))
			set := testworld.Must(connectors.Read(t.Context(), "connectors.yaml", file, connectors.Options{WithoutStore: true, Host: host.Config{
				Secrets: secrets, Variables: variables, Base: base, CodeCache: cache, UserAgent: "keywright/1",
			}}))(t)
			defer set.Close(context.WithoutCancel(t.Context()))
			for tenant, want := range map[string]bool{"one": true, "two": false, "three": false} {
				answer, err := sendAs(t, set, a, tenant, base)
				if got := strings.Contains(answer, `"ok":true`); got != want {
					t.Errorf("%s gets %s, %v", tenant, answer, err)
				}
			}
		})
	}
}

// replaced returns YAML with texts replaced, in pairs. In texts in single quotes, those are doubled.
func replaced(text string, pairs []string) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if lines[i] = strings.NewReplacer(pairs...).Replace(line); strings.Contains(line, ": '") {
			doubled := strings.Split(strings.ReplaceAll(strings.Join(pairs, "\n"), "'", "''"), "\n")
			lines[i] = strings.NewReplacer(doubled...).Replace(line)
		}
	}
	return strings.Join(lines, "")
}

// sendAs sends the first request of a product for a tenant, and returns the answer of the API.
func sendAs(t *testing.T, set *connectors.Set, a *catalogue.API, tenant string, base http.RoundTripper) (string, error) {
	t.Helper()
	ctx := host.WithUser(t.Context(), host.User{TenantID: tenant})
	method, path := a.Request()
	path, query, _ := strings.Cut(path, "?")
	out, err := trial.NewOutgoing(ctx, set.Connectors[0], trial.Incoming{Method: method, Path: path, Query: query, Header: http.Header{}, Trusted: true})
	if err != nil {
		return "", err
	}
	r := testworld.Must(out.Request(ctx, strings.NewReader(a.Body)))(t)
	response, err := set.Connectors[0].Upstream().Transport(base).RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	answer := testworld.Must(io.ReadAll(response.Body))(t)
	return string(answer), nil
}
