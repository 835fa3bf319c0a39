package s3

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/minio/madmin-go/v3"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/identities"
)

const assume = `connectors:
  - &role
    name: role
    url: http://STORE/` + ours + `
    method: [GET, PUT]
    paths: ["/**"]
    auth:
      type: aws_assume_role
      config: &keys
        access_key_id: AKIAUSER7EXAMPLE0000
        secret_access_key: "{{ get_secret('s3') }}"
        sts_url: http://STORE/
        role_arn: arn:minio:iam:::role/any
        region: ` + region + `
        service: s3
  - name: reader
    <<: *role
    auth:
      type: aws_assume_role
      config:
        <<: *keys
        policy: '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["s3:GetObject"],"Resource":["arn:aws:s3:::*"]}]}'
  - name: stranger
    <<: *role
    auth: {type: aws_assume_role, config: {<<: *keys, access_key_id: AKIANOBODY7EXAMPLE00}}
`

// MinIO's STS answers in XML, as AWS's does. The credentials of a role have the rights of their policy.
func TestSTS(t *testing.T) {
	s := newStore(t, "minio")
	testworld.Check(t, s.MakeBucket(t.Context(), ours, minio.MakeBucketOptions{Region: region}))
	admin := testworld.Must(madmin.NewWithOptions(s.address, &madmin.Options{Creds: credentials.NewStaticV4(accessKey, secretKey, "")}))(t)
	const user = "AKIAUSER7EXAMPLE0000"
	testworld.Check(t, admin.AddUser(t.Context(), user, secretKey))
	testworld.Must(admin.AttachPolicy(t.Context(), madmin.PolicyAssociationReq{Policies: []string{"readwrite"}, User: user}))(t)
	w := newDeployment(t, s, assume, host.Config{Secrets: host.MapSecrets{"s3": secretKey}})
	for range 3 {
		for _, c := range []struct {
			connector, method string
			status            int
		}{
			{"role", "PUT", 200}, {"role", "GET", 200}, {"reader", "GET", 200}, {"reader", "PUT", 403}, {"stranger", "GET", 502},
		} {
			got, err := w.send(c.connector, request{method: c.method, target: "/object", body: "text"})
			if err != nil || got.status != c.status || c.status == 200 && c.method == "GET" && got.body != "text" {
				t.Errorf("%s by %s: %v, %v", c.method, c.connector, got, err)
			}
		}
	}
}

// keyring is a store of keys with one key.
type keyring struct{ private *rsa.PrivateKey }

func (k keyring) Describe(context.Context, host.Key) (host.KeyInfo, error) {
	return host.KeyInfo{Version: 1, Type: "rsa-2048", Public: k.private.Public()}, nil
}

func (k keyring) Sign(_ context.Context, _ host.Key, algorithm string, data []byte) ([]byte, int, error) {
	signature, err := jwt.GetSigningMethod(algorithm).Sign(string(data), k.private)
	return signature, 1, err
}

// MinIO issues credentials for tokens of the gateway's own issuer, whose documents it reads, if they are for it and the role is there. The
// gateway has no secret.
func TestWebIdentity(t *testing.T) {
	keys := keyring{testworld.Must(rsa.GenerateKey(rand.Reader, 2048))(t)}
	issuer := &identities.Issuer{Keys: keys, Key: host.Key{Name: "issuer"}, Clock: time.Now, Random: rand.Reader}
	var reads atomic.Int64
	documents := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads.Add(1)
		document := testworld.Must(issuer.Documents()[r.URL.Path](r.Context()))(t)
		_, _ = w.Write(document)
	}))
	defer documents.Close()
	issuer.URL = documents.URL
	authority := testworld.File(t, "authority.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: documents.Certificate().Raw})))
	s := newStore(t, "minio", "SSL_CERT_FILE="+authority, "MINIO_IDENTITY_OPENID_CONFIG_URL="+documents.URL+"/.well-known/openid-configuration",
		"MINIO_IDENTITY_OPENID_CLIENT_ID=orders", "MINIO_IDENTITY_OPENID_ROLE_POLICY=readwrite")
	testworld.Check(t, s.MakeBucket(t.Context(), ours, minio.MakeBucketOptions{Region: region}))
	admin := testworld.Must(madmin.NewWithOptions(s.address, &madmin.Options{Creds: credentials.NewStaticV4(accessKey, secretKey, "")}))(t)
	var role string
	for tick := time.NewTicker(20 * time.Millisecond); role == ""; <-tick.C { // MinIO reads the documents after its start
		for _, info := range testworld.Must(admin.GetIDPConfig(t.Context(), madmin.OpenidIDPCfg, ""))(t).Info {
			if info.Key == "roleARN" {
				role = info.Value
			}
		}
	}
	w := newDeployment(t, s, strings.NewReplacer("ROLE", role, "ISSUER", documents.URL).Replace(`gateway: {hosts: [127.0.0.1]}
identities:
  - name: gateway
    type: issuer
    issuer: ISSUER
    key: "{{ get_key('issuer') }}"
    subject: gateway
    for: [{audience: orders, hosts: [STORE]}, {audience: another, hosts: [STORE]}]
connectors:
  - &role
    name: role
    url: http://STORE/`+ours+`
    method: [GET, PUT]
    paths: ["/**"]
    auth:
      type: aws_assume_role
      config: &config
        web_identity_token: "{{ identity('gateway', 'orders') }}"
        role_arn: ROLE
        sts_url: http://STORE/
        region: `+region+`
        service: s3
  - {<<: *role, name: another-audience, auth: {type: aws_assume_role, config: {<<: *config, web_identity_token: "{{ identity('gateway', 'another') }}"}}}
  - {<<: *role, name: another-role, auth: {type: aws_assume_role, config: {<<: *config, role_arn: "arn:minio:iam:::role/other"}}}
`), host.Config{Keys: keys})
	for _, c := range []struct {
		connector, method string
		status            int
	}{{"role", "PUT", 200}, {"role", "GET", 200}, {"another-audience", "GET", 502}, {"another-role", "GET", 502}} {
		got, err := w.send(c.connector, request{method: c.method, target: "/object", body: "text"})
		if err != nil || got.status != c.status || c.status == 200 && c.method == "GET" && got.body != "text" {
			t.Errorf("%s by %s: %v, %v", c.method, c.connector, got, err)
		}
	}
	if n := reads.Load(); n < 2 {
		t.Errorf("MinIO has read %d documents, want the metadata and the keys", n)
	}
}
