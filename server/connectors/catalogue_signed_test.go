package connectors_test

import (
	"net/http"
	"testing"
	"time"

	jose "github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host"
)

// signedAccounts returns the accounts of products whose requests, or token requests, are signed.
func signedAccounts(t *testing.T) map[string]account {
	t.Helper()
	pkcs1, _, public := keys(t)
	return map[string]account{
		"github-app": {
			secrets: host.MapSecrets{"github-app": pkcs1},
			set:     map[string]string{"your-client-id": "Iv1.8a61f9b3a7aba766", "1234567890": "1234"},
			api: tokens("https://api.github.com/app/installations/1234/access_tokens",
				`{"token":"`+githubToken+`","expires_at":"`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"}`,
				request("GET https://api.github.com/installation/repositories", bearing(githubToken)),
				func(r *http.Request) error {
					_, err := verify(public, r.Header.Get("Authorization"), jose.WithIssuer("Iv1.8a61f9b3a7aba766"), jose.WithIssuedAt())
					return err
				}),
		},
		"amazon-s3": {
			secrets: host.MapSecrets{"amazon-s3": s3Secret},
			set:     map[string]string{"your-bucket": "reports", "eu-central-1": "eu-central-1", "AKIA-YOUR-KEY-ID": "AKIAIOSFODNN7EXAMPLE"},
			api:     request("GET https://reports.s3.eu-central-1.amazonaws.com/", verifyS3),
		},
	}
}
