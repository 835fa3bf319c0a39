package connectors_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gojwt "github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
)

// A vendor answers in place of the servers of products. Requests that none of its answers is for are errors.
type vendor struct {
	// answers are answers by what is sent: method, URL, and body if there is one.
	answers map[string]string
	// header is the beginning of the Authorization header that the product demands.
	header   string
	requests []string
}

func (v *vendor) RoundTrip(r *http.Request) (*http.Response, error) {
	text := r.Method + " " + r.URL.String()
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		text = strings.TrimSpace(text + " " + string(body))
	}
	v.requests = append(v.requests, text)
	w := httptest.NewRecorder()
	answer, found := v.answers[text]
	switch status := 0; {
	case !found:
		return nil, fmt.Errorf("no such request: %s", text)
	case !strings.HasPrefix(r.Header.Get("Authorization"), v.header):
		w.WriteHeader(http.StatusUnauthorized)
	default:
		if _, err := fmt.Sscanf(answer, "%d ", &status); err == nil {
			w.WriteHeader(status)
			answer = answer[len("404 "):]
		}
		_, _ = w.WriteString(answer)
	}
	return w.Result(), nil
}

const (
	awsAuth    = `{type: aws_sigv4, config: {access_key_id: AKIDEXAMPLE, secret_access_key: "{{ get_secret('store-token') }}", region: eu-central-1, service: SERVICE}}`
	bearerAuth = `{type: bearer, config: {token: "{{ get_secret('store-token') }}"}}`
)

// Each store sends what its product documents, with the credential of a store above it, and distinguishes a missing secret from a failure.
func TestStoresBehindAPIs(t *testing.T) {
	for _, c := range []struct {
		name, members, auth, header string
		answers                     map[string]string
	}{
		{
			"aws_secrets_manager", "region: eu-central-1, prefix: kw/", strings.Replace(awsAuth, "SERVICE", "secretsmanager", 1), "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/",
			map[string]string{
				`POST https://secretsmanager.eu-central-1.amazonaws.com/ {"SecretId":"kw/orders"}`: `{"SecretString":"the-value"}`,
				`POST https://secretsmanager.eu-central-1.amazonaws.com/ {"SecretId":"kw/none"}`:   `400 {"__type":"ResourceNotFoundException"}`,
				`POST https://secretsmanager.eu-central-1.amazonaws.com/ {"SecretId":"kw/down"}`:   `400 {"__type":"InternalServiceError"}`,
			},
		},
		{
			"aws_ssm", "region: eu-central-1, prefix: /kw/", strings.Replace(awsAuth, "SERVICE", "ssm", 1), "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/",
			map[string]string{
				`POST https://ssm.eu-central-1.amazonaws.com/ {"Name":"/kw/orders","WithDecryption":true}`: `{"Parameter":{"Value":"the-value"}}`,
				`POST https://ssm.eu-central-1.amazonaws.com/ {"Name":"/kw/none","WithDecryption":true}`:   `400 {"__type":"ParameterNotFound"}`,
				`POST https://ssm.eu-central-1.amazonaws.com/ {"Name":"/kw/down","WithDecryption":true}`:   `500 {}`,
			},
		},
		{
			"gcp_secret_manager", "project: p-1", bearerAuth, "Bearer the-store-token",
			map[string]string{
				"GET https://secretmanager.googleapis.com/v1/projects/p-1/secrets/orders/versions/latest:access": `{"payload":{"data":"dGhlLXZhbHVl"}}`,
				"GET https://secretmanager.googleapis.com/v1/projects/p-1/secrets/none/versions/latest:access":   `404 {}`,
				"GET https://secretmanager.googleapis.com/v1/projects/p-1/secrets/down/versions/latest:access":   `403 {}`,
			},
		},
		{
			"azure_key_vault", "url: https://acme.vault.azure.net", bearerAuth, "Bearer the-store-token",
			map[string]string{
				"GET https://acme.vault.azure.net/secrets/orders?api-version=7.4": `{"value":"the-value","id":"1"}`,
				"GET https://acme.vault.azure.net/secrets/none?api-version=7.4":   `404 {"error":{"code":"SecretNotFound"}}`,
				"GET https://acme.vault.azure.net/secrets/down?api-version=7.4":   `429 {}`,
			},
		},
		{
			"onepassword_connect", "url: https://connect.example.com, vault: v1", bearerAuth, "Bearer the-store-token",
			map[string]string{
				"GET https://connect.example.com/v1/vaults/v1/items?filter=title+eq+%22orders%22": `[{"id":"i1"}]`,
				"GET https://connect.example.com/v1/vaults/v1/items/i1":                           `{"fields":[{"label":"username","value":"u"},{"label":"password","value":"the-value"}]}`,
				"GET https://connect.example.com/v1/vaults/v1/items?filter=title+eq+%22none%22":   `[]`,
				"GET https://connect.example.com/v1/vaults/v1/items?filter=title+eq+%22down%22":   `500 `,
			},
		},
		{
			"doppler", "project: p, config: prd", bearerAuth, "Bearer the-store-token",
			map[string]string{
				"GET https://api.doppler.com/v3/configs/config/secret?project=p&config=prd&name=orders": `{"name":"orders","value":{"raw":"${X}","computed":"the-value"}}`,
				"GET https://api.doppler.com/v3/configs/config/secret?project=p&config=prd&name=none":   `{"name":"none","value":{"raw":null,"computed":null}}`,
				"GET https://api.doppler.com/v3/configs/config/secret?project=p&config=prd&name=down":   `503 `,
			},
		},
		{
			"infisical", "project: p, environment: prod", bearerAuth, "Bearer the-store-token",
			map[string]string{
				"GET https://us.infisical.com/api/v4/secrets/orders?projectId=p&environment=prod&secretPath=%2F": `{"secret":{"secretKey":"orders","secretValue":"the-value"}}`,
				"GET https://us.infisical.com/api/v4/secrets/none?projectId=p&environment=prod&secretPath=%2F":   `404 {}`,
				"GET https://us.infisical.com/api/v4/secrets/down?projectId=p&environment=prod&secretPath=%2F":   `500 {}`,
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &vendor{answers: c.answers, header: c.header}
			text := "secrets:\n  - {type: dir, path: " + storeToken(t) + "}\n" +
				"  - {type: " + c.name + ", " + c.members + ", auth: " + c.auth + "}\n" + weather
			set := loadGood(t, text, connectors.Options{Host: host.Config{Base: v}})
			testworld.Check(t, set.CheckSecret(t.Context(), "orders", host.User{}))
			testworld.Check(t, set.CheckSecret(t.Context(), "orders", host.User{})) // which is remembered
			if err := set.CheckSecret(t.Context(), "none", host.User{}); !errors.Is(err, host.ErrSecretNotFound) {
				t.Errorf("the error of a missing secret is %v", err)
			}
			err := set.CheckSecret(t.Context(), "down", host.User{})
			if err == nil || errors.Is(err, host.ErrSecretNotFound) || strings.Contains(err.Error(), "the-store-token") {
				t.Errorf("the error of a store that fails is %v", err)
			}
			if len(v.requests) != len(c.answers) {
				t.Errorf("%d requests were sent, want %d:\n%s", len(v.requests), len(c.answers), strings.Join(v.requests, "\n"))
			}
		})
	}
}

// storeToken returns a directory with the secret store-token.
func storeToken(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	testworld.Check(t, os.WriteFile(filepath.Join(dir, "store-token"), []byte("the-store-token-of-the-tests-0123456789"), 0o600))
	return dir
}

// A store of the file's own words sends them. A 401 drops its token, and the store asks once more.
func TestStoreOfRequests(t *testing.T) {
	token, good := 0, "Bearer token-1"
	v := host.Config{Base: roundTrip(func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		switch {
		case r.URL.Host == "login.example.com":
			token++
			fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"Bearer","expires_in":3600}`, token)
		case r.Header.Get("Authorization") != good:
			w.WriteHeader(http.StatusUnauthorized)
		default:
			fmt.Fprintf(w, `{"data":{"text":"%s"}}`, r.Header.Get("X-Name"))
		}
		return w.Result(), nil
	})}
	set := loadGood(t, "secrets:\n  - {type: dir, path: "+storeToken(t)+"}\n"+`  - type: connector
    url: https://store.example.com/api
    auth: {type: oauth_client_credentials, config: {client_id: gw, client_secret: "{{ get_secret('store-token') }}", token_url: https://login.example.com/token}}
    names: [{name: orders, value: prod-orders}]
    read: {path: "/{name}", headers: [{name: X-Name, value: "{name}"}], from: json:/data/text}
`+weather, connectors.Options{Host: v})
	testworld.Check(t, set.CheckSecret(t.Context(), "orders", host.User{}))
	good = "Bearer token-2"
	if err := set.CheckSecret(t.Context(), "invoices", host.User{}); err != nil || token != 2 {
		t.Errorf("the error is %v after %d tokens, want none after 2", err, token)
	}
}

// Stores of secrets take their authentication from an identity: neither the file, nor the environment, nor another store has a secret. Each
// token of the identity costs one exchange at most, and goes to the party alone. A party that the operator did not list gets none.
func TestStoresWithoutSecrets(t *testing.T) {
	const role, google = "arn:aws:iam::123456789012:role/orders", "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/provider"
	for _, c := range []struct{ name, members, audience, party, auth, issued, header, value string }{
		{
			"aws_secrets_manager", "region: eu-central-1", "sts.amazonaws.com", "sts.eu-central-1.amazonaws.com",
			`{type: aws_assume_role, config: {web_identity_token: IDENTITY, role_arn: "` + role + `", sts_url: "https://sts.eu-central-1.amazonaws.com/", region: eu-central-1, service: secretsmanager}}`,
			`<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIAEXAMPLE</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>` +
				`<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`,
			"AWS4-HMAC-SHA256 Credential=ASIAEXAMPLE/", `{"SecretString":"the-value"}`,
		},
		{
			"gcp_secret_manager", "project: p-1", "https:" + google, "sts.googleapis.com",
			`{type: token_exchange, config: {token_url: "https://sts.googleapis.com/v1/token", client_auth: none, subject_token: IDENTITY, subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
      requested_token_type: "urn:ietf:params:oauth:token-type:access_token", audience: "` + google + `", scope: "https://www.googleapis.com/auth/cloud-platform"}}`,
			`{"access_token":"issued","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","token_type":"Bearer","expires_in":3599}`, "Bearer issued", `{"payload":{"data":"dGhlLXZhbHVl"}}`,
		},
		{
			"azure_key_vault", "url: https://acme.vault.azure.net", "api://AzureADTokenExchange", "login.microsoftonline.com",
			`{type: oauth_client_credentials, config: {token_url: "https://login.microsoftonline.com/acme/oauth2/v2.0/token", client_id: orders, client_auth: assertion, client_assertion: IDENTITY,
      scope: "https://vault.azure.net/.default"}}`,
			`{"access_token":"issued","token_type":"Bearer","expires_in":3599}`, "Bearer issued", `{"value":"the-value"}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			token, requests := filepath.Join(t.TempDir(), "token"), map[string][]string{}
			write := func(serial int) {
				testworld.Check(t, os.WriteFile(token, []byte(webIdentity(c.audience, "orders", serial)), 0o600))
			}
			base := roundTrip(func(r *http.Request) (*http.Response, error) {
				body := ""
				if r.Body != nil {
					body = string(testworld.Must(io.ReadAll(r.Body))(t))
				}
				requests[r.URL.Host] = append(requests[r.URL.Host], r.Header.Get("Authorization")+" "+body)
				switch {
				case r.URL.Host == c.party:
					return testworld.Response(http.StatusOK, c.issued, "Content-Type", "application/json"), nil
				case r.URL.Host == "api.example.com" || strings.HasPrefix(r.Header.Get("Authorization"), c.header):
					return testworld.Response(http.StatusOK, c.value), nil
				}
				return testworld.Response(http.StatusUnauthorized, "{}"), nil
			})
			write(1)
			file := func(party string) string {
				return "identities:\n  - {name: pod, type: file, path: " + token + ", for: [{audience: '" + c.audience + "', hosts: [" + party + "]}]}\n" +
					"secrets:\n  - {type: " + c.name + ", " + c.members + ", auth: " + strings.Replace(c.auth, "IDENTITY", `"{{ identity('pod', '`+c.audience+`') }}"`, 1) + "}\n" +
					"connectors:\n  - {name: Orders, url: https://api.example.com, auth: {type: bearer, config: {token: \"{{ get_secret('orders') }}\"}}}\n"
			}
			clock := testworld.NewClock(time.Now())
			set := loadGood(t, file(c.party), connectors.Options{Host: host.Config{Base: base, Clock: clock.Now}})
			for serial := range 3 {
				write(serial + 2)
				clock.Advance(time.Minute) // the secret is asked for again
				response, err := set.Connectors[0].Upstream().Transport(nil).RoundTrip(testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example.com/", http.NoBody))(t))
				testworld.Check(t, err)
				testworld.Check(t, response.Body.Close())
			}
			if len(requests[c.party]) != 1 || len(requests) != 3 || !slices.Equal(requests["api.example.com"], slices.Repeat([]string{"Bearer the-value "}, 3)) {
				t.Errorf("requests = %q, want one for a token, three at the store and three at the API", requests)
			}
			for name, texts := range requests {
				if all := strings.Join(texts, ""); strings.Contains(all, "eyJ") != (name == c.party) {
					t.Errorf("the token of the process at %s: %s", name, all)
				}
			}
			elsewhere := loadGood(t, file("login.example.com"), connectors.Options{Host: host.Config{Base: base, Clock: clock.Now}})
			testworld.WantError(t, "a party that is not listed", elsewhere.CheckSecret(t.Context(), "orders", host.User{}), "hosts")
			if len(requests[c.party]) != 1 {
				t.Errorf("%d requests to a party that is not listed, want none", len(requests[c.party])-1)
			}
		})
	}
}

// The keys of the role of an EC2 instance come from its metadata service, in two steps, and sign the requests of a connector. There
// are no keys under another name, and a redirect leads nowhere (threats.md 550).
func TestKeysOfInstance(t *testing.T) {
	var requests []string
	base := roundTrip(func(r *http.Request) (*http.Response, error) {
		requests = append(requests, r.Method+" "+r.URL.String())
		switch r.Method + " " + r.URL.String() {
		case "PUT http://169.254.169.254/latest/api/token":
			return testworld.Response(http.StatusOK, "session-of-"+r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds")+"-seconds\n"), nil
		case "GET http://169.254.169.254/latest/meta-data/iam/security-credentials/orders":
			if r.Header.Get("X-Aws-Ec2-Metadata-Token") != "session-of-60-seconds" {
				return testworld.Response(http.StatusUnauthorized, ""), nil
			}
			return testworld.Response(http.StatusOK, "{\n  \"Code\" : \"Success\",\n  \"AccessKeyId\" : \"ASIAEXAMPLE\",\n  \"SecretAccessKey\" : \"wJalrXUtnFEMI\",\n  \"Token\" : \"the-session\"\n}"), nil
		case "GET https://reports.s3.eu-central-1.amazonaws.com/":
			if !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=ASIAEXAMPLE/") || r.Header.Get("X-Amz-Security-Token") != "the-session" {
				return testworld.Response(http.StatusForbidden, ""), nil
			}
			return testworld.Response(http.StatusOK, ""), nil
		case "GET http://169.254.169.254/latest/meta-data/iam/security-credentials/moved":
			return testworld.Response(http.StatusFound, "", "Location", "http://169.254.169.254/latest/meta-data/iam/security-credentials/orders"), nil
		}
		return testworld.Response(http.StatusNotFound, ""), nil
	})
	set := loadGood(t, `secrets: [{type: aws_instance}]
connectors:
  - name: Reports
    url: https://reports.s3.eu-central-1.amazonaws.com
    auth:
      type: aws_sigv4
      config:
        access_key_id: "{{ json_get(get_secret('orders'), 'AccessKeyId') }}"
        secret_access_key: "{{ json_get(get_secret('orders'), 'SecretAccessKey') }}"
        session_token: "{{ json_get(get_secret('orders'), 'Token') }}"
        region: eu-central-1
        service: s3
`, connectors.Options{Host: host.Config{Base: base}})
	for range 2 {
		response, err := set.Connectors[0].Upstream().Transport(nil).RoundTrip(testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://reports.s3.eu-central-1.amazonaws.com/", http.NoBody))(t))
		testworld.Check(t, err)
		testworld.Check(t, response.Body.Close())
		if response.StatusCode != http.StatusOK {
			t.Errorf("status = %d, want 200", response.StatusCode)
		}
	}
	if len(requests) != 4 {
		t.Errorf("requests = %q, want two at the metadata service", requests)
	}
	if err := set.CheckSecret(t.Context(), "another", host.User{}); !errors.Is(err, host.ErrSecretNotFound) {
		t.Errorf("the error for another role is %v", err)
	}
	requests = nil
	testworld.WantError(t, "a redirect", set.CheckSecret(t.Context(), "moved", host.User{}), " answered with status 302")
	if len(requests) != 2 {
		t.Errorf("requests = %q, want the redirect to end them", requests)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// What is wrong with a store is a problem with its place. Only stores above it have its secrets, so that none can need itself
// (threats.md 412).
func TestProblemsOfStoresBehindAPIs(t *testing.T) {
	wantProblems(t, `secrets:
  - type: connector
    url: http://store.example.com
    auth: {type: bearer, config: {token: "{{ get_secret('store-token') }}"}}
    read: {path: items, from: json:/v}
  - {type: doppler, project: p, auth: {type: none}}
  - {type: connector, url: "https://u:p@store.example.com", auth: {type: none}, read: {from: v}}
`+weather, connectors.Options{},
		"connectors.yaml:3:10: secrets[0].url: is plain http, which shows secrets to the network: use https, or name the host in plain_http of egress",
		"connectors.yaml:5:18: secrets[0].read.path: must begin with a slash",
		"connectors.yaml:6:5: secrets[1].config: is missing",
		"connectors.yaml:7:28: secrets[2].url: is no URL of an API, such as https://vault.example.com",
		"connectors.yaml:7:94: secrets[2].read.from: is no place in an answer, such as json:/payload/data",
	)
	wantProblems(t, "secrets:\n  - {type: azure_key_vault, url: 'https://acme.vault.azure.net', auth: {type: bearer, config: {tokn: x}}}\n"+weather, connectors.Options{},
		"connectors.yaml:2:87: secrets[0].auth.config.token: is missing: The token, without a prefix",
		`connectors.yaml:2:96: secrets[0].auth.config.tokn: is not a field of auth type bearer; did you mean "token"?`,
	)
	wantProblems(t, "secrets:\n  - {type: azure_key_vault, url: 'https://acme.vault.azure.net', auth: {type: oauth_authorization_code, config: {client_auth: none, client_id: a, authorization_url: 'https://a.example/a', token_url: 'https://a.example/t'}}}\n"+weather, connectors.Options{},
		"connectors.yaml:2:73: secrets[0].auth.type: is a type with a state, such as the consent of a user, which a store cannot have",
	)
	above := loadGood(t, "secrets:\n  - {type: azure_key_vault, url: 'https://acme.vault.azure.net', auth: "+bearerAuth+"}\n  - {type: dir, path: "+storeToken(t)+"}\n"+weather,
		connectors.Options{Host: host.Config{Base: &vendor{}}})
	if err := above.CheckSecret(t.Context(), "store-token", host.User{}); err == nil || errors.Is(err, host.ErrSecretNotFound) {
		t.Errorf("the error of a store whose secret is below it is %v", err)
	}
}

// Stores of keys send what their products document, and a request is signed with such a key. The host verifies the signature.
func TestKeysBehindAPIs(t *testing.T) {
	key := testworld.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	der := testworld.Must(x509.MarshalPKIXPublicKey(key.Public()))(t)
	point := testworld.Must(key.PublicKey.Bytes())(t)
	jwk := `{"kty":"EC","crv":"P-256","x":"` + base64.RawURLEncoding.EncodeToString(point[1:33]) + `","y":"` + base64.RawURLEncoding.EncodeToString(point[33:]) + `"`
	const version = "https://cloudkms.googleapis.com/v1/projects/p/locations/europe-west3/keyRings/r/cryptoKeys/api/cryptoKeyVersions/3"
	for _, c := range []struct {
		name, members, auth, key, public, half, body string
		raw                                          bool
	}{
		{
			"aws_kms", "region: eu-central-1", strings.Replace(awsAuth, "SERVICE", "kms", 1), "get_key('api')",
			`POST https://kms.eu-central-1.amazonaws.com/ {"KeyId":"alias/api"}`, `{"PublicKey":"` + base64.StdEncoding.EncodeToString(der) + `"}`,
			`POST https://kms.eu-central-1.amazonaws.com/ {"KeyId":"alias/api","Message":"DIGEST","MessageType":"DIGEST","SigningAlgorithm":"ECDSA_SHA_256"}`, false,
		},
		{
			"gcp_kms", "project: p, location: europe-west3, key_ring: r", bearerAuth, "get_key('api', 3)",
			"GET " + version + "/publicKey", `{"pem":` + strconv.Quote(string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))) + `}`,
			`POST ` + version + `:asymmetricSign {"digest":{"sha256":"DIGEST"}}`, false,
		},
		{
			"azure_key_vault", "url: https://acme.vault.azure.net, keys: true", bearerAuth, "get_key('api')",
			"GET https://acme.vault.azure.net/keys/api?api-version=7.4", `{"key":` + jwk + `,"kid":"https://acme.vault.azure.net/keys/api/v7"}}`,
			`POST https://acme.vault.azure.net/keys/api/v7/sign?api-version=7.4 {"alg":"ES256","value":"DIGEST"}`, true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			pattern := regexp.MustCompile("^" + strings.Replace(regexp.QuoteMeta(c.body), "DIGEST", `([\w+/=-]{43,44})`, 1) + "$")
			base := roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.URL.Host == "api.example.com" {
					return httptest.NewRecorder().Result(), nil
				}
				body := ""
				if r.Body != nil {
					body = " " + string(testworld.Must(io.ReadAll(r.Body))(t))
				}
				text := r.Method + " " + r.URL.String() + body
				w := httptest.NewRecorder()
				if text == c.public {
					_, _ = w.WriteString(c.half)
					return w.Result(), nil
				}
				match := pattern.FindStringSubmatch(text)
				if match == nil {
					return nil, fmt.Errorf("no such request: %s", text)
				}
				digest, err := base64.StdEncoding.DecodeString(match[1])
				if c.raw {
					digest, err = base64.RawURLEncoding.DecodeString(match[1])
				}
				testworld.Check(t, err)
				signature := testworld.Must(key.Sign(rand.Reader, digest, crypto.SHA256))(t)
				if c.raw {
					var s struct{ R, S *big.Int }
					_ = testworld.Must(asn1.Unmarshal(signature, &s))(t)
					_, _ = w.WriteString(`{"value":"` + base64.RawURLEncoding.EncodeToString(append(s.R.FillBytes(make([]byte, 32)), s.S.FillBytes(make([]byte, 32))...)) + `"}`)
					return w.Result(), nil
				}
				text = base64.StdEncoding.EncodeToString(signature)
				_, _ = w.WriteString(`{"Signature":"` + text + `","signature":"` + text + `"}`)
				return w.Result(), nil
			})
			set := loadGood(t, "secrets:\n  - {type: dir, path: "+storeToken(t)+"}\n  - {type: "+c.name+", "+c.members+", auth: "+c.auth+`}
connectors:
  - name: Signed
    url: https://api.example.com
    auth: {type: jwt, config: {algorithm: ES256, private_key: "{{ `+c.key+` }}", claims: {sub: a}}}
`, connectors.Options{Host: host.Config{Base: base}})
			request := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example.com/", http.NoBody))(t)
			signed := testworld.Must(set.Connectors[0].Upstream().Authenticate(request))(t)
			_, err := gojwt.Parse(strings.TrimPrefix(signed.Header.Get("Authorization"), "Bearer "), func(*gojwt.Token) (any, error) { return key.Public(), nil })
			testworld.Check(t, err)
		})
	}
}
