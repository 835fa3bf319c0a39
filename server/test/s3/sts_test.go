package s3

import (
	"testing"

	"github.com/minio/madmin-go/v3"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
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
	w := newDeployment(t, s, assume, host.MapSecrets{"s3": secretKey})
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
