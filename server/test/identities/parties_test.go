package identities_test

import (
	stdcmp "cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/compute/metadata"
	"github.com/AzureAD/microsoft-authentication-library-for-go/apps/confidential"
	"github.com/AzureAD/microsoft-authentication-library-for-go/apps/managedidentity"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google/externalaccount"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
)

const (
	provider = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/provider"
	role     = "arn:aws:iam::123456789012:role/orders"
	subject  = "system:serviceaccount:shop:orders"
	storage  = "https://www.googleapis.com/auth/devstorage.read_only"
	graph    = "https://graph.microsoft.com/.default"
)

// exchange has the parts of a token request that a vendor's client and Keywright have in common.
type exchange struct {
	Target, Type, Authorization string
	Form                        url.Values
	JSON                        map[string]any
}

// parties is a server that answers as AWS STS, Google's STS, IAM Credentials and Entra do, and keeps what it gets.
type parties struct {
	t         *testing.T
	exchanges []exchange
}

func (p *parties) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	end := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	answers := map[string]string{
		"/": `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIAEXAMPLE</AccessKeyId>` +
			`<SecretAccessKey>wJalrXUtnFEMI</SecretAccessKey><SessionToken>AQoEXAMPLE</SessionToken><Expiration>` + end + `</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`,
		"/google":                   `{"access_token":"federated","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","token_type":"Bearer","expires_in":3599}`,
		"/impersonate":              `{"accessToken":"of-the-account","expireTime":"` + end + `"}`,
		"/tenant/oauth2/v2.0/token": `{"access_token":"of-entra","token_type":"Bearer","expires_in":3599}`,
	}
	answer, found := answers[r.URL.Path]
	if !found {
		fmt.Fprintf(w, `{"issuer":"https://%[1]s/tenant/v2.0","authorization_endpoint":"https://%[1]s/tenant/oauth2/v2.0/authorize","token_endpoint":"https://%[1]s/tenant/oauth2/v2.0/token"}`, r.Host)
		return // the metadata of Entra, or the API
	}
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	one := exchange{Target: r.Method + " " + r.URL.RequestURI(), Type: kind, Authorization: r.Header.Get("Authorization")}
	body := testworld.Must(io.ReadAll(r.Body))(p.t)
	if kind == "application/json" {
		testworld.Check(p.t, json.Unmarshal(body, &one.JSON))
	} else {
		one.Form = testworld.Must(url.ParseQuery(string(body)))(p.t)
	}
	p.exchanges = append(p.exchanges, one)
	if strings.HasPrefix(answer, "{") {
		w.Header().Set("Content-Type", "application/json")
	}
	_, _ = io.WriteString(w, answer)
}

// token returns a token of the process for an audience.
func token(t *testing.T, audience string) string {
	claims := jwt.MapClaims{"iss": "https://cluster.test", "sub": subject, "aud": audience, "exp": time.Now().Add(time.Hour).Unix()}
	key := testworld.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	return testworld.Must(jwt.NewWithClaims(jwt.SigningMethodES256, claims).SignedString(key))(t)
}

// ours sends a request by a connector of this auth, whose IDENTITY is that of the process for an audience.
func ours(t *testing.T, server *httptest.Server, audience, token, auth string) {
	t.Helper()
	text := strings.NewReplacer("IDENTITY", `"{{ identity('pod', 'AUDIENCE') }}"`).Replace(`egress: {allow: [127.0.0.1/32], plain_http: ["HOST"]}
identities:
  - {name: pod, type: env, variable: JUDGED_TOKEN, for: [{audience: "AUDIENCE", hosts: ["HOST"]}]}
connectors:
  - {name: Orders, url: "URL/api", auth: ` + auth + "}\n")
	t.Setenv("JUDGED_TOKEN", token)
	text = strings.NewReplacer("AUDIENCE", audience, "URL", server.URL, "HOST", server.Listener.Addr().String()).Replace(text)
	set := testworld.Must(connectors.Read(t.Context(), "connectors.yaml", []byte(text), connectors.Options{}))(t)
	t.Cleanup(func() { _ = set.Close(context.WithoutCancel(t.Context())) })
	client := http.Client{Transport: set.Connectors[0].Upstream().Transport(nil)}
	response := testworld.Must(client.Get(server.URL + "/api"))(t)
	testworld.Check(t, response.Body.Close())
}

// supplier supplies Google's client with a token.
type supplier string

func (s supplier) SubjectToken(context.Context, externalaccount.SupplierOptions) (string, error) {
	return string(s), nil
}

// retriever supplies AWS's client with a token.
type retriever string

func (r retriever) GetIdentityToken() ([]byte, error) { return []byte(r), nil }

// The clients of AWS, Google and Microsoft send the same requests for the same token of a process.
func TestPartiesByTheirClients(t *testing.T) {
	googleAuth := func(more string) string {
		return `{type: token_exchange, config: {token_url: "URL/google", client_auth: none, subject_token: IDENTITY, subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
      requested_token_type: "urn:ietf:params:oauth:token-type:access_token", audience: "` + provider + `", scope: "` + storage + `"` + more + `}}`
	}
	google := func(impersonation string) func(t *testing.T, server *httptest.Server, token string) {
		return func(t *testing.T, server *httptest.Server, token string) {
			config := externalaccount.Config{
				Audience: provider, SubjectTokenType: "urn:ietf:params:oauth:token-type:jwt", TokenURL: server.URL + "/google", Scopes: []string{storage}, SubjectTokenSupplier: supplier(token),
			}
			if impersonation != "" {
				config.ServiceAccountImpersonationURL = server.URL + impersonation
			}
			source := testworld.Must(externalaccount.NewTokenSource(context.WithValue(t.Context(), oauth2.HTTPClient, server.Client()), config))(t)
			_ = testworld.Must(source.Token())(t)
		}
	}
	for name, c := range map[string]struct {
		audience, auth string
		theirs         func(t *testing.T, server *httptest.Server, token string)
		// more are members that the client sends, and that the page of the party does not ask for.
		more []string
		want int
	}{
		"AWS": {
			"sts.amazonaws.com",
			`{type: aws_assume_role, config: {web_identity_token: IDENTITY, role_arn: "` + role + `", sts_url: "URL/", region: eu-central-1, service: s3}}`,
			func(t *testing.T, server *httptest.Server, token string) {
				client := sts.New(sts.Options{Region: "eu-central-1", BaseEndpoint: aws.String(server.URL), HTTPClient: server.Client()})
				source := stscreds.NewWebIdentityRoleProvider(client, role, retriever(token), func(o *stscreds.WebIdentityRoleOptions) {
					o.RoleSessionName, o.Duration = "keywright", time.Hour
				})
				_ = testworld.Must(source.Retrieve(t.Context()))(t)
			}, nil, 1,
		},
		"Google": {"https:" + provider, googleAuth(""), google(""), nil, 1},
		// The client writes the lifetime that is also without it.
		"Google's service account": {"https:" + provider, googleAuth(`, impersonation_url: "URL/impersonate"`), google("/impersonate"), []string{"lifetime"}, 2},
		// client_info asks for members of an answer with a user, as the further scopes do.
		"Entra": {
			"api://AzureADTokenExchange",
			`{type: oauth_client_credentials, config: {token_url: "URL/tenant/oauth2/v2.0/token", client_id: orders, client_auth: assertion, client_assertion: IDENTITY, scope: "` + graph + `"}}`,
			func(t *testing.T, server *httptest.Server, token string) {
				credential := confidential.NewCredFromAssertionCallback(func(context.Context, confidential.AssertionRequestOptions) (string, error) { return token, nil })
				secure := httptest.NewTLSServer(server.Config.Handler)
				defer secure.Close()
				client := testworld.Must(confidential.New(secure.URL+"/tenant", "orders", credential, confidential.WithHTTPClient(secure.Client()), confidential.WithInstanceDiscovery(false)))(t)
				_ = testworld.Must(client.AcquireTokenByCredential(t.Context(), []string{graph}))(t)
			},
			[]string{"client_info"},
			1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &parties{t: t}
			server := httptest.NewServer(p)
			defer server.Close()
			text := token(t, c.audience)
			c.theirs(t, server, text)
			ours(t, server, c.audience, text, c.auth)
			if len(p.exchanges) != 2*c.want {
				t.Fatalf("%d requests, want %d of each", len(p.exchanges), c.want)
			}
			for i := range c.want {
				theirs := p.exchanges[i]
				for _, member := range c.more {
					delete(theirs.Form, member)
					delete(theirs.JSON, member)
				}
				if scope, found := strings.CutSuffix(theirs.Form.Get("scope"), " openid offline_access profile"); found {
					theirs.Form.Set("scope", scope)
				}
				if diff := cmp.Diff(theirs, p.exchanges[c.want+i]); diff != "" {
					t.Errorf("(-%s's client +Keywright)\n%s", name, diff)
				}
			}
		})
	}
}

// recorder is a transport that keeps a request.
type recorder struct{ request *http.Request }

func (k *recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	k.request = r
	return testworld.Response(http.StatusOK, `{"access_token":"a","expires_in":"3599","token_type":"Bearer"}`), nil
}

// The clients of Google and Microsoft ask the same of the metadata services.
func TestMetadataByTheirClients(t *testing.T) {
	presets := map[string]struct {
		URL     string
		Headers []struct{ Name, Value string }
	}{}
	testworld.Check(t, yaml.Load(testworld.Must(os.ReadFile("../../connectors/identities.yaml"))(t), &presets))
	for name, ask := range map[string]func(client *http.Client) error{
		"gcp": func(client *http.Client) error {
			_, err := metadata.NewClient(client).GetWithContext(t.Context(), "instance/service-accounts/default/identity?audience=https%3A%2F%2Forders.test")
			return err
		},
		"azure": func(client *http.Client) error {
			c, err := managedidentity.New(managedidentity.SystemAssigned(), managedidentity.WithHTTPClient(client))
			if err == nil {
				_, err = c.AcquireToken(t.Context(), "https://orders.test")
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := &recorder{}
			testworld.Check(t, ask(&http.Client{Transport: k}))
			want := testworld.Must(url.Parse(strings.ReplaceAll(presets[name].URL, "{audience}", "https%3A%2F%2Forders.test")))(t)
			got := k.request.URL
			if got.Scheme != want.Scheme || got.Host != want.Host || got.Path != want.Path || !cmp.Equal(got.Query(), want.Query()) {
				t.Errorf("the client asks %s, and the preset %s", got, want)
			}
			for _, h := range presets[name].Headers {
				if !slices.Equal(k.request.Header.Values(h.Name), []string{h.Value}) {
					t.Errorf("%s of the client is %q, want %q", h.Name, k.request.Header.Values(h.Name), h.Value)
				}
			}
		})
	}
}

// instance answers as the metadata service of an EC2 instance with a role, and keeps the requests for its keys.
type instance struct{ requests []string }

func (i *instance) RoundTrip(r *http.Request) (*http.Response, error) {
	text := r.Method + " " + r.URL.String() + " " + r.Header.Get("X-Aws-Ec2-Metadata-Token")
	switch {
	case r.Method == http.MethodPut && r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds") != "":
		i.requests = append(i.requests, text)
		return testworld.Response(http.StatusOK, "session", "X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "60"), nil
	case strings.HasSuffix(r.URL.Path, "/"):
		return testworld.Response(http.StatusOK, "orders"), nil // of the names of roles
	}
	i.requests = append(i.requests, text)
	return testworld.Response(http.StatusOK, `{"Code":"Success","AccessKeyId":"ASIAEXAMPLE","SecretAccessKey":"s","Token":"t","Expiration":"2099-01-01T00:00:00Z"}`), nil
}

// AWS's client asks the metadata service of an instance for the same keys in the same way, once it knows the name of the role.
func TestInstanceByItsClient(t *testing.T) {
	var theirs, own instance
	client := ec2rolecreds.New(func(o *ec2rolecreds.Options) {
		o.Client = imds.New(imds.Options{HTTPClient: &http.Client{Transport: &theirs}})
	})
	got := testworld.Must(client.Retrieve(t.Context()))(t)
	set := testworld.Must(connectors.Read(t.Context(), "connectors.yaml", []byte("secrets: [{type: aws_instance}]\nconnectors: [{name: Orders, url: \"https://api.test\", auth: {type: none}}]\n"), connectors.Options{Host: host.Config{Base: &own}}))(t)
	defer set.Close(context.WithoutCancel(t.Context()))
	testworld.Check(t, set.CheckSecret(t.Context(), "orders", host.User{}))
	if diff := cmp.Diff(theirs.requests, own.requests); diff != "" || got.AccessKeyID != "ASIAEXAMPLE" {
		t.Errorf("keys = %s, (-AWS's client +Keywright)\n%s", got.AccessKeyID, diff)
	}
}

// podStore is the store of the section on EKS Pod Identity in docs/without-secrets.md, with the token in the directory DIR.
const podStore = `
secrets:
  - {type: dir, path: DIR}
  - type: connector
    url: http://169.254.170.23
    auth: {type: api_key, config: {key: Authorization, value: "{{ get_secret('eks-pod-identity-token') }}", in: header}}
    egress: {allow: [169.254.170.23/32], plain_http: [169.254.170.23]}
    read: {path: /v1/credentials, from: "json:/{name}"}
connectors:
  - {name: Orders, url: "https://api.test", auth: {type: none}}
`

// podAgent answers as the agent of EKS Pod Identity, and keeps the requests for keys.
type podAgent struct{ requests []string }

func (a *podAgent) RoundTrip(r *http.Request) (*http.Response, error) {
	a.requests = append(a.requests, stdcmp.Or(r.Method, http.MethodGet)+" "+r.URL.String()+" "+r.Header.Get("Authorization"))
	return testworld.Response(http.StatusOK, `{"AccessKeyId":"ASIAEXAMPLE","SecretAccessKey":"s","Token":"t","AccountId":"1","Expiration":"2099-01-01T00:00:00Z"}`,
		"Content-Type", "application/json"), nil
}

// AWS's client asks the agent of EKS Pod Identity in the same way for the same keys.
func TestPodIdentityByItsClient(t *testing.T) {
	var theirs, own podAgent
	dir := t.TempDir()
	testworld.Check(t, os.WriteFile(filepath.Join(dir, "eks-pod-identity-token"), []byte("a-token-of-the-pod"), 0o600))
	client := endpointcreds.New("http://169.254.170.23/v1/credentials", func(o *endpointcreds.Options) {
		o.HTTPClient, o.AuthorizationToken = &http.Client{Transport: &theirs}, "a-token-of-the-pod"
	})
	got := testworld.Must(client.Retrieve(t.Context()))(t)
	set := testworld.Must(connectors.Read(t.Context(), "connectors.yaml", []byte(strings.ReplaceAll(podStore, "DIR", dir)), connectors.Options{Host: host.Config{Base: &own}}))(t)
	defer set.Close(context.WithoutCancel(t.Context()))
	for _, name := range []string{"AccessKeyId", "SecretAccessKey", "Token"} {
		testworld.Check(t, set.CheckSecret(t.Context(), name, host.User{}))
	}
	if err := set.CheckSecret(t.Context(), "another", host.User{}); !errors.Is(err, host.ErrSecretNotFound) {
		t.Errorf("the error for another name is %v", err)
	}
	if diff := cmp.Diff(theirs.requests, own.requests[:1]); diff != "" || got.AccessKeyID != "ASIAEXAMPLE" {
		t.Errorf("keys = %s, (-AWS's client +Keywright)\n%s", got.AccessKeyID, diff)
	}
}
