package connectors_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/jws"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
)

// pairLab is a server on loopback that is each source of tokens and each relying party, with what their pages document.
type pairLab struct {
	*httptest.Server
	t                 *testing.T
	audience, subject string
	// wrong lists the requests that were not as documented, and exchanges counts what a party has accepted.
	wrong     []string
	exchanges int
	received  []http.Header
	serial    int
}

func newPairLab(t *testing.T) *pairLab {
	l := &pairLab{t: t, subject: "spiffe://prod.test/orders"}
	mux := http.NewServeMux()
	// cloud.google.com/compute/docs/instances/verifying-instance-identity
	mux.HandleFunc("GET /computeMetadata/v1/instance/service-accounts/default/identity", func(w http.ResponseWriter, r *http.Request) {
		l.want("Metadata-Flavor", r.Header.Get("Metadata-Flavor"), "Google")
		fmt.Fprint(w, l.token(r.FormValue("audience")))
	})
	// learn.microsoft.com/entra/identity/managed-identities-azure-resources/how-to-use-vm-token
	mux.HandleFunc("GET /metadata/identity/oauth2/token", func(w http.ResponseWriter, r *http.Request) {
		l.want("Metadata", r.Header.Get("Metadata"), "true")
		l.want("api-version", r.FormValue("api-version"), "2018-02-01")
		fmt.Fprintf(w, `{"access_token":%q,"expires_in":"3599","token_type":"Bearer"}`, l.token(r.FormValue("resource")))
	})
	// docs.github.com/actions/reference/security/oidc
	mux.HandleFunc("GET /actions", func(w http.ResponseWriter, r *http.Request) {
		l.want("Authorization of GitHub", r.Header.Get("Authorization"), "Bearer of-the-job")
		fmt.Fprintf(w, `{"count":1,"value":%q}`, l.token(r.FormValue("audience")))
	})
	mux.HandleFunc("POST /sts", l.aws)
	mux.HandleFunc("POST /google", l.google)
	mux.HandleFunc("POST /impersonate", l.impersonate)
	mux.HandleFunc("POST /oauth", l.oauth)
	mux.HandleFunc("POST /v1/auth/jwt/login", l.vault)
	mux.HandleFunc("GET /v1/secret/data/{name}", func(w http.ResponseWriter, r *http.Request) {
		l.want("X-Vault-Token", r.Header.Get("X-Vault-Token"), "issued-by-vault")
		fmt.Fprint(w, `{"data":{"data":{"value":"issued-by-vault"}}}`)
	})
	mux.HandleFunc("GET /v1/auth/token/lookup-self", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":{"ttl":3600}}`) })
	mux.HandleFunc("/api", func(_ http.ResponseWriter, r *http.Request) { l.received = append(l.received, r.Header) })
	l.Server = httptest.NewServer(mux)
	t.Cleanup(l.Close)
	return l
}

func (l *pairLab) want(what, got, want string) {
	if got != want {
		l.wrong = append(l.wrong, fmt.Sprintf("%s is %q, want %q", what, got, want))
	}
}

// token returns a new token for an audience.
func (l *pairLab) token(audience string) string {
	l.serial++
	return webIdentity(audience, l.subject, l.serial)
}

// accept checks the token that a party got.
func (l *pairLab) accept(text string) {
	_, claims, err := jws.Decode(text)
	if err != nil {
		l.wrong = append(l.wrong, "the party got no JWT")
		return
	}
	end, _ := claims["exp"].(json.Number).Int64()
	l.want("aud", fmt.Sprint(claims["aud"]), l.audience)
	l.want("sub", fmt.Sprint(claims["sub"]), l.subject)
	l.want("exp ahead", fmt.Sprint(end > time.Now().Unix()), "true")
	l.exchanges++
}

// form checks the members of a form, and that no other credential is there. It returns the token, which is the member of this name.
func (l *pairLab) form(r *http.Request, token string, want map[string]string) {
	testworld.Check(l.t, r.ParseForm())
	for name, value := range want {
		l.want(name, r.PostFormValue(name), value)
	}
	if len(r.PostForm) != len(want)+1 || r.Header.Get("Authorization") != "" || r.URL.RawQuery != "" {
		l.wrong = append(l.wrong, fmt.Sprintf("the form has %d members, want %d", len(r.PostForm), len(want)+1))
	}
	l.accept(r.PostFormValue(token))
}

// aws is AssumeRoleWithWebIdentity (docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html).
func (l *pairLab) aws(w http.ResponseWriter, r *http.Request) {
	testworld.Check(l.t, r.ParseForm())
	name := r.PostFormValue("RoleSessionName")
	l.form(r, "WebIdentityToken", map[string]string{
		"Action": "AssumeRoleWithWebIdentity", "Version": "2011-06-15", "RoleArn": "arn:aws:iam::123456789012:role/orders", "RoleSessionName": name, "DurationSeconds": "3600",
	})
	fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>
<AccessKeyId>ASIAEXAMPLE</AccessKeyId><SecretAccessKey>wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY</SecretAccessKey><SessionToken>AQoEXAMPLEH4aoAH0gNCAPyJxz4BlCFFxWNE1OPTgk5TthT</SessionToken><Expiration>%s</Expiration>
</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
}

const googleProvider = "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/provider"

// google is the method token of Google's STS (docs.cloud.google.com/iam/docs/reference/sts/rest/v1/TopLevel/token).
func (l *pairLab) google(w http.ResponseWriter, r *http.Request) {
	l.form(r, "subject_token", map[string]string{
		"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "audience": googleProvider, "scope": "https://www.googleapis.com/auth/cloud-platform",
		"requested_token_type": "urn:ietf:params:oauth:token-type:access_token", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
	})
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"access_token":"issued","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","token_type":"Bearer","expires_in":3599}`)
}

// impersonate is generateAccessToken (docs.cloud.google.com/iam/docs/reference/credentials/rest/v1/projects.serviceAccounts/generateAccessToken).
func (l *pairLab) impersonate(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	l.want("Authorization", r.Header.Get("Authorization"), "Bearer issued")
	l.want("the body", string(body), `{"scope":["https://www.googleapis.com/auth/devstorage.read_only"]}`)
	fmt.Fprintf(w, `{"accessToken":"issued-for-the-account","expireTime":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
}

// oauth is a token endpoint of RFC 6749 with RFC 7521, 7523 and 8693. Entra's is one (learn.microsoft.com/entra/identity-platform/
// v2-oauth2-client-creds-grant-flow, third case). For JSON it takes the same members.
func (l *pairLab) oauth(w http.ResponseWriter, r *http.Request) {
	const jwtBearer = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	if r.Header.Get("Content-Type") == "application/json" {
		var body map[string]string
		testworld.Check(l.t, json.NewDecoder(r.Body).Decode(&body))
		l.want("grant_type", body["grant_type"], jwtBearer)
		l.accept(body["assertion"])
	} else {
		testworld.Check(l.t, r.ParseForm())
		switch kind := r.PostFormValue("client_assertion_type"); {
		case kind != "":
			want := "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" // Entra's
			if l.audience == "https://as.test" {
				want = "urn:ietf:params:oauth:client-assertion-type:jwt-spiffe"
			}
			l.form(r, "client_assertion", map[string]string{"grant_type": "client_credentials", "client_id": "orders", "scope": "https://graph.microsoft.com/.default", "client_assertion_type": want})
		case r.PostFormValue("grant_type") == jwtBearer:
			l.form(r, "assertion", map[string]string{"grant_type": jwtBearer})
		default:
			l.form(r, "subject_token", map[string]string{
				"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "resource": "https://api.test",
			})
		}
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"access_token":"issued","token_type":"Bearer","expires_in":3600}`)
}

// vault is a login of the auth method jwt (developer.hashicorp.com/vault/api-docs/auth/jwt).
func (l *pairLab) vault(w http.ResponseWriter, r *http.Request) {
	var body map[string]string
	testworld.Check(l.t, json.NewDecoder(r.Body).Decode(&body))
	l.want("members of the login", fmt.Sprint(len(body)), "2")
	l.want("role", body["role"], "orders")
	l.accept(body["jwt"])
	fmt.Fprint(w, `{"auth":{"client_token":"issued-by-vault","lease_duration":3600,"renewable":false}}`)
}

// agent starts a Workload API of SPIFFE, and returns the path of its socket.
func (l *pairLab) agent() string {
	socket := filepath.Join(l.t.TempDir(), "agent.sock")
	server := &http.Server{Protocols: new(http.Protocols), Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, _ := io.ReadAll(r.Body)
		audience, _ := protowire.ConsumeBytes(request[6:]) // behind the frame and the tag of the first field
		var svid []byte
		for i, text := range []string{l.subject, l.token(string(audience))} {
			svid = protowire.AppendString(protowire.AppendTag(svid, protowire.Number(i+1), protowire.BytesType), text)
		}
		answer := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), svid)
		w.Header().Set("Trailer", "Grpc-Status")
		_, _ = w.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(answer))), answer...))
		w.Header().Set("Grpc-Status", "0")
	})}
	server.Protocols.SetUnencryptedHTTP2(true)
	listener := testworld.Must(net.Listen("unix", socket))(l.t)
	go func() { _ = server.Serve(listener) }()
	l.t.Cleanup(func() { _ = server.Close() })
	return socket
}

// pairSources are the sources of tokens: the members of an identity.
var pairSources = map[string]func(*pairLab) string{
	"file": func(l *pairLab) string {
		path := filepath.Join(l.t.TempDir(), "token")
		testworld.Check(l.t, os.WriteFile(path, []byte(l.token(l.audience)+"\n"), 0o600))
		return "type: file, path: " + path
	},
	"env": func(l *pairLab) string {
		l.t.Setenv("PAIR_TOKEN", l.token(l.audience))
		return "type: env, variable: PAIR_TOKEN"
	},
	"spiffe": func(l *pairLab) string { return "type: spiffe, socket: " + l.agent() },
	"gcp": func(*pairLab) string {
		return "type: gcp, url: 'URL/computeMetadata/v1/instance/service-accounts/default/identity?audience={audience}'"
	},
	"azure": func(*pairLab) string {
		return "type: azure, url: 'URL/metadata/identity/oauth2/token?api-version=2018-02-01&resource={audience}'"
	},
	"github": func(l *pairLab) string {
		l.t.Setenv("ACTIONS_ID_TOKEN_REQUEST_URL", l.URL+"/actions?api-version=2.0")
		l.t.Setenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "of-the-job")
		return "type: github"
	},
	"http": func(*pairLab) string {
		return "type: http, url: 'URL/actions?audience={audience}', headers: [{name: Authorization, value: Bearer of-the-job}], from: 'json:/value'"
	},
	"issuer": func(*pairLab) string {
		return `type: issuer, issuer: "https://gateway.test", key: "{{ get_key('issuer') }}", subject: "spiffe://prod.test/orders"`
	},
}

// pairParties are the relying parties: the audience, an auth with IDENTITY for the token, and the Authorization of a request then.
var pairParties = map[string]struct{ audience, auth, want string }{
	"AWS": {
		"sts.amazonaws.com",
		`{type: aws_assume_role, config: {web_identity_token: IDENTITY, role_arn: "arn:aws:iam::123456789012:role/orders", sts_url: "URL/sts", region: eu-central-1, service: s3}}`,
		"AWS4-HMAC-SHA256 Credential=ASIAEXAMPLE/",
	},
	"Google": {
		"https:" + googleProvider,
		`{type: token_exchange, config: {token_url: "URL/google", client_auth: none, subject_token: IDENTITY, subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
        requested_token_type: "urn:ietf:params:oauth:token-type:access_token", audience: "` + googleProvider + `", scope: "https://www.googleapis.com/auth/cloud-platform"}}`,
		"Bearer issued",
	},
	"Google's service account": {
		"https:" + googleProvider,
		`{type: token_exchange, config: {token_url: "URL/google", client_auth: none, subject_token: IDENTITY, subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
        requested_token_type: "urn:ietf:params:oauth:token-type:access_token", audience: "` + googleProvider + `", scope: "https://www.googleapis.com/auth/devstorage.read_only", impersonation_url: "URL/impersonate"}}`,
		"Bearer issued-for-the-account",
	},
	"Entra": {
		"api://AzureADTokenExchange",
		`{type: oauth_client_credentials, config: {token_url: "URL/oauth", client_id: orders, client_auth: assertion, client_assertion: IDENTITY, scope: "https://graph.microsoft.com/.default"}}`,
		"Bearer issued",
	},
	"SPIFFE's client assertion": {
		"https://as.test",
		`{type: oauth_client_credentials, config: {token_url: "URL/oauth", client_id: orders, client_auth: assertion, client_assertion: IDENTITY,
        client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:jwt-spiffe", scope: "https://graph.microsoft.com/.default"}}`,
		"Bearer issued",
	},
	"RFC 7523":         {"https://as.test", `{type: oauth_jwt_bearer, config: {token_url: "URL/oauth", client_auth: none, assertion: IDENTITY}}`, "Bearer issued"},
	"RFC 7523 in JSON": {"https://as.test", `{type: oauth_jwt_bearer, config: {token_url: "URL/oauth", client_auth: none, assertion: IDENTITY, token_request: json}}`, "Bearer issued"},
	"RFC 8693": {
		"https://as.test",
		`{type: token_exchange, config: {token_url: "URL/oauth", client_auth: none, subject_token: IDENTITY, subject_token_type: "urn:ietf:params:oauth:token-type:jwt", resource: "https://api.test"}}`,
		"Bearer issued",
	},
	"Vault": {"vault", `{type: bearer, config: {token: "{{ get_secret('orders') }}"}}`, "Bearer issued-by-vault"},
}

// Each source has a token for each relying party, which gets what it documents, and one for the requests of its lifetime.
func TestSourcesAndParties(t *testing.T) {
	count := 0
	for source, members := range pairSources {
		for name, party := range pairParties {
			if source == "issuer" && name == "Vault" {
				continue // no store needs the gateway's own issuer
			}
			count++
			t.Run(source+" for "+name, func(t *testing.T) {
				l := newPairLab(t)
				l.audience = party.audience
				address := l.Listener.Addr().String()
				text := "egress: {allow: [127.0.0.1/32], plain_http: [HOST]}\nidentities:\n  - {name: pod, " + members(l) + ", for: [{audience: '" + party.audience + "', hosts: ['HOST']}]}\n"
				if name == "Vault" {
					text += "secrets:\n  - {type: vault, address: URL, jwt: {role: orders, identity: pod, audience: vault}}\n"
				}
				text += "connectors:\n  - name: Orders\n    url: URL/api\n    auth: " + strings.Replace(party.auth, "IDENTITY", `"{{ identity('pod', '`+party.audience+`') }}"`, 1) + "\n"
				set := loadGood(t, strings.NewReplacer("URL", l.URL, "HOST", address).Replace(text), connectors.Options{Host: host.Config{Keys: newKeyring(t)}})
				client := http.Client{Transport: set.Connectors[0].Upstream().Transport(nil)}
				for range 3 {
					response, err := client.Get(l.URL + "/api")
					if err != nil {
						t.Fatal(err)
					}
					testworld.Check(t, response.Body.Close())
				}
				if len(l.wrong) > 0 || l.exchanges != 1 || len(l.received) != 3 || !strings.HasPrefix(l.received[2].Get("Authorization"), party.want) {
					t.Errorf("%d exchanges for %d requests; %s", l.exchanges, len(l.received), strings.Join(l.wrong, "; "))
				}
			})
		}
	}
	if count < 71 {
		t.Errorf("%d pairs, want 71", count)
	}
}
