package testworld

import (
	"encoding/base64"
	"strings"
)

// ClaimsAsBodies returns 40 bodies of requests that are the claims of a client, as they are and in base64url.
func ClaimsAsBodies(client, audience string) (all []string) {
	for _, subject := range []string{client, "admin", "1", "ann@example.com"} {
		for _, claims := range []string{
			`{"iss":"SUBJECT","sub":"SUBJECT","aud":"AUDIENCE","exp":4000000000,"jti":"a"}`, `{"iss":"SUBJECT","sub":"SUBJECT","aud":"AUDIENCE","exp":4000000000,"iat":0,"nbf":0}`,
			` {"sub":"SUBJECT","exp":4000000000}`, "\n{\"iss\":\"SUBJECT\"}", `{"sub":"SUBJECT","scope":"all"}`,
		} {
			text := strings.NewReplacer("SUBJECT", subject, "AUDIENCE", audience).Replace(claims)
			all = append(all, text, base64.RawURLEncoding.EncodeToString([]byte(text)))
		}
	}
	return all
}

// JWTOf returns a detached JWS with a body as its payload, as it is and in base64url.
func JWTOf(detached, body string) []string {
	parts := strings.Split(detached, ".")
	return []string{parts[0] + "." + body + "." + parts[2], parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(body)) + "." + parts[2]}
}
