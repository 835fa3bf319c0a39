//go:build !race

// Under the race detector these tests take long, and they do one thing after another. make test runs them without it.

package connectors_test

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	jose "github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/internal/testworld"
)

// signedAccounts returns the accounts of products whose requests, or token requests, are signed.
func signedAccounts(t *testing.T) map[string]account {
	t.Helper()
	pkcs1, keyFile, public := keys(t)
	const accessKey = "AKIAIOSFODNN7EXAMPLE"
	aws := map[string]string{"eu-central-1": "eu-west-3", "AKIA-YOUR-KEY-ID": accessKey}
	fingerprint := sha256.Sum256(testworld.Must(x509.MarshalPKIXPublicKey(public))(t))
	all := map[string]account{
		"alibaba-cloud": {
			secrets: one("alibaba-cloud", "8nQZ2vXy"), set: map[string]string{"your-region": "eu-central-1", "your-access-key-id": "LTAI5tBp"},
			api: request("GET https://ecs.eu-central-1.aliyuncs.com/", func(r *http.Request) error { return alibabaCloud("LTAI5tBp", "8nQZ2vXy", r) }),
		},
		"amazon-s3": {
			secrets: one("amazon-s3", s3Secret), set: map[string]string{"your-bucket": "reports", "eu-central-1": "eu-central-1", "AKIA-YOUR-KEY-ID": accessKey},
			api: request("GET https://reports.s3.eu-central-1.amazonaws.com/", verifyS3),
		},
		"aws-lambda": {
			secrets: one("aws-lambda", s3Secret), set: aws,
			api: request("GET https://lambda.eu-west-3.amazonaws.com/2015-03-31/functions/", func(r *http.Request) error { return verifyAWS(r, "eu-west-3", "lambda") }),
		},
		"coinbase-exchange": {
			secrets: map[string]string{"coinbase-exchange-key": "k1", "coinbase-exchange-secret": base64.StdEncoding.EncodeToString([]byte("secret of Coinbase")), "coinbase-exchange-passphrase": "horse"},
			api:     request("GET https://api.exchange.coinbase.com/accounts", sends("CB-ACCESS-KEY", "k1"), sends("CB-ACCESS-PASSPHRASE", "horse"), coinbase),
		},
		"docusign": {
			secrets: one("docusign", pkcs1), set: map[string]string{"your-server": "na4", "your-account-id": "624e3e00", "your-integration-key": "7c2b8d7e", "your-user-id": "464f7988"},
			api: tokens("https://account.docusign.com/oauth/token", answer, request("GET https://na4.docusign.net/restapi/v2.1/accounts/624e3e00/users", bearing(apiToken)),
				assertion(public, time.Hour, "signature impersonation", "7c2b8d7e", "464f7988", "account.docusign.com")),
		},
		"github-app": {
			secrets: one("github-app", pkcs1), set: map[string]string{"your-client-id": "Iv1.8a61f9b3a7aba766", "1234567890": "1234"},
			api: gitHubApp(public),
		},
		"google-drive": {
			secrets: one("google-drive", keyFile), optional: "private_key_id", // Google finds the key without it
			api: tokens("https://oauth2.googleapis.com/token", answer, request("GET https://www.googleapis.com/drive/v3/about", asks("fields", "user"), bearing(apiToken)),
				assertion(public, time.Hour, "https://www.googleapis.com/auth/drive.readonly", googleEmail, "", "https://oauth2.googleapis.com/token")),
		},
		"google-pub-sub": {
			secrets: one("google-pub-sub", keyFile), set: one("your-project-id", "acme-prod"),
			api: request("GET https://pubsub.googleapis.com/v1/projects/acme-prod/topics", func(r *http.Request) error {
				_, err := verify(public, r.Header.Get("Authorization"), jose.WithIssuer(googleEmail), jose.WithSubject(googleEmail), jose.WithAudience("https://pubsub.googleapis.com/"))
				return err
			}),
		},
		"salesforce": {
			secrets: one("salesforce", pkcs1), set: map[string]string{"your-domain": "acme", "your-consumer-key": "3MVG9", "user@your-company.example": "integration@acme.example"},
			api: salesforceAPI(
				public, "https://acme.my.salesforce.com/services/oauth2/token", "GET https://acme.my.salesforce.com/services/data/v64.0/limits", "3MVG9",
			),
			optional: "token_ttl",
		},
		"snowflake": {
			secrets: one("snowflake", pkcs1), set: map[string]string{
				"your-account": "myorg-account123", "YOUR-ACCOUNT-ID": "MYORG-ACCOUNT123", "YOUR-USER": "INTEGRATION", "your-fingerprint": base64.StdEncoding.EncodeToString(fingerprint[:]),
			},
			api: request("GET https://myorg-account123.snowflakecomputing.com/api/v2/databases", sends("X-Snowflake-Authorization-Token-Type", "KEYPAIR_JWT"),
				snowflake(public, "MYORG-ACCOUNT123.INTEGRATION", base64.StdEncoding.EncodeToString(fingerprint[:]))),
		},
		"mongodb-atlas": {
			secrets: one("mongodb-atlas", "6a5b4c3d-2e1f"), set: one("your-public-key", "ytzqmvdr"),
			api: digestOf("ytzqmvdr", "6a5b4c3d-2e1f", request("GET https://cloud.mongodb.com/api/atlas/v2/groups", sends("Accept", "application/vnd.atlas.2024-08-05+json"))),
		},
		"netsuite": {
			secrets: map[string]string{"netsuite-consumer-key": "ef40afdd", "netsuite-consumer-secret": "d26ad321", "netsuite-token": "2b278a1c", "netsuite-token-secret": "c29a677d"},
			set:     map[string]string{"your-account-id": "1234567-sb1", "YOUR_ACCOUNT_ID": "1234567_SB1"},
			api:     request("GET https://1234567-sb1.suitetalk.api.netsuite.com/services/rest/record/v1/metadata-catalog", netSuite),
		},
	}
	maps.Copy(all, appleAccount(t))
	return all
}

// salesforceAPI is Salesforce's token endpoint and its REST API. An assertion ends within 5 minutes. The answer has no expires_in.
func salesforceAPI(public *rsa.PublicKey, tokenURL, target, app string) http.HandlerFunc {
	return tokens(tokenURL, `{"access_token":"`+apiToken+`","instance_url":"https://acme.my.salesforce.com","token_type":"Bearer"}`,
		request(target, bearing(apiToken)),
		assertion(public, 5*time.Minute, "", app, "integration@acme.example", "https://login.salesforce.com"))
}

// gitHubApp is the part of GitHub's REST API that issues installation access tokens, and a resource that needs one. An app's JWT lasts
// for 10 minutes at most, is not from the future, and has the app's client ID as iss. Each request has a User-Agent.
func gitHubApp(public *rsa.PublicKey, checks ...check) http.HandlerFunc {
	document := `{"token":"` + githubToken + `","expires_at":"` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"}`
	ofApp := func(r *http.Request) error {
		claims, err := verify(public, r.Header.Get("Authorization"), jose.WithIssuer("Iv1.8a61f9b3a7aba766"), jose.WithIssuedAt())
		if err == nil && (time.Until(claims.ExpiresAt.Time) > 10*time.Minute || r.UserAgent() == "") {
			err = fmt.Errorf("claims: %+v, User-Agent: %s", claims, r.UserAgent())
		}
		return err
	}
	return tokens("https://api.github.com/app/installations/1234/access_tokens", document,
		request("GET https://api.github.com/installation/repositories", bearing(githubToken)), append(checks, ofApp)...)
}

// assertion checks a grant of RFC 7523: an assertion for a subject, unless that is "", which ends within a time.
func assertion(public *rsa.PublicKey, life time.Duration, scope, issuer, subject, audience string) check {
	return func(r *http.Request) error {
		claims, err := verify(public, r.PostFormValue("assertion"), jose.WithIssuer(issuer), jose.WithAudience(audience))
		switch {
		case err != nil:
			return err
		case r.PostFormValue("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer":
			return fmt.Errorf("form: %v", r.PostForm)
		case claims.Scope != scope || claims.Target != "" || claims.Subject != subject || time.Until(claims.ExpiresAt.Time) > life:
			return fmt.Errorf("claims: %+v", claims)
		}
		return nil
	}
}

// snowflake checks a JWT of a user's key, whose issuer has the fingerprint of the key, and which lasts for an hour at most.
func snowflake(public *rsa.PublicKey, user, fingerprint string) check {
	return func(r *http.Request) error {
		claims, err := verify(public, r.Header.Get("Authorization"), jose.WithIssuer(user+".SHA256:"+fingerprint), jose.WithSubject(user), jose.WithIssuedAt())
		if err == nil && (claims.IssuedAt == nil || claims.ExpiresAt.Sub(claims.IssuedAt.Time) > time.Hour) {
			err = errors.New("it has no iat, or lasts for more than an hour")
		}
		return err
	}
}

// appleAccount returns an account of App Store Connect. Its JWTs last for 20 minutes at most.
func appleAccount(t *testing.T) map[string]account {
	t.Helper()
	const issuer, id = "57246542-96fe-1a63-e053-0824d011072a", "2X9R4HXF34"
	key := testworld.Must(p256Key())(t)
	return map[string]account{"app-store-connect": {
		secrets: one("app-store-connect", ecText(t, p256Key)), set: map[string]string{"your-issuer-id": issuer, "YOUR-KEY-ID": id},
		api: request("GET https://api.appstoreconnect.apple.com/v1/apps", func(r *http.Request) error {
			claims := jose.RegisteredClaims{}
			parsed, err := jose.ParseWithClaims(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), &claims, func(*jose.Token) (any, error) { return &key.PublicKey, nil },
				jose.WithValidMethods([]string{"ES256"}), jose.WithIssuer(issuer), jose.WithAudience("appstoreconnect-v1"), jose.WithExpirationRequired())
			if err == nil && (parsed.Header["kid"] != id || parsed.Header["typ"] != "JWT" || claims.IssuedAt == nil || claims.ExpiresAt.Sub(claims.IssuedAt.Time) > 20*time.Minute) {
				err = fmt.Errorf("%v %v", parsed.Header, claims)
			}
			return err
		}),
	}}
}

// coinbase checks the signature over time, method, path and body.
func coinbase(r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	want := base64.StdEncoding.EncodeToString(mac([]byte("secret of Coinbase"), r.Header.Get("CB-ACCESS-TIMESTAMP")+r.Method+r.RequestURI+string(body)))
	if got := r.Header.Get("CB-ACCESS-SIGN"); got != want {
		return fmt.Errorf("CB-ACCESS-SIGN: %s, and not %s", got, want)
	}
	return nil
}

// alibabaCloud checks a signature over the canonical request, which is not old and has a nonce. All of the headers x-acs-* are signed, and Host.
func alibabaCloud(id, secret string, r *http.Request) error {
	date, err := time.Parse("2006-01-02T15:04:05Z", r.Header.Get("X-Acs-Date"))
	if err != nil || time.Since(date).Abs() > 15*time.Minute || r.Header.Get("X-Acs-Signature-Nonce") == "" || r.Header.Get("X-Acs-Action") != "DescribeRegions" {
		return fmt.Errorf("header = %v, %w", r.Header, err)
	}
	body, err := io.ReadAll(r.Body)
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	lines := "host:" + r.Host + "\n"
	names := []string{"host"}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-acs-") {
			lines, names = lines+lower+":"+r.Header.Get(name)+"\n", append(names, lower)
		}
	}
	signed := strings.Join(names, ";")
	sum = sha256.Sum256([]byte(r.Method + "\n" + r.URL.Path + "\n\n" + lines + "\n" + signed + "\n" + hash))
	signature := hex.EncodeToString(mac([]byte(secret), "ACS3-HMAC-SHA256\n"+hex.EncodeToString(sum[:])))
	want := "ACS3-HMAC-SHA256 Credential=" + id + ",SignedHeaders=" + signed + ",Signature=" + signature
	if got := r.Header.Get("Authorization"); err != nil || r.Header.Get("X-Acs-Content-Sha256") != hash || got != want {
		return fmt.Errorf("Authorization = %q, want %q, %w", got, want, err)
	}
	return nil
}

// parameter matches a parameter of an Authorization.
var parameter = regexp.MustCompile(`(\w+)="?([^",]*)"?`)

// parameters returns the parameters of the Authorization of a request, if it has the scheme.
func parameters(r *http.Request, scheme string) map[string]string {
	rest, _ := strings.CutPrefix(r.Header.Get("Authorization"), scheme+" ")
	all := map[string]string{}
	for _, match := range parameter.FindAllStringSubmatch(rest, -1) {
		all[match[1]] = match[2]
	}
	return all
}

// digestOf returns a product that challenges requests with HTTP Digest (RFC 7616), with MD5 as Atlas has it.
func digestOf(username, password string, api http.HandlerFunc) http.HandlerFunc {
	const realm, nonce = "MMS Public API", "Ta0qvk2b"
	hash := func(text string) string { sum := md5.Sum([]byte(text)); return hex.EncodeToString(sum[:]) }
	return func(w http.ResponseWriter, r *http.Request) {
		p := parameters(r, "Digest")
		want := hash(hash(username+":"+realm+":"+password) + ":" + nonce + ":" + p["nc"] + ":" + p["cnonce"] + ":auth:" + hash(r.Method+":"+r.RequestURI))
		if p["username"] != username || p["response"] != want || p["cnonce"] == "" {
			w.Header().Set("WWW-Authenticate", `Digest realm="`+realm+`", domain="", nonce="`+nonce+`", algorithm=MD5, qop="auth", stale=false`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		api(w, r)
	}
}

// netSuite checks a signature of OAuth 1.0 (RFC 5849) with HMAC-SHA256 for an account.
func netSuite(r *http.Request) error {
	p := parameters(r, "OAuth")
	if p["realm"] != "1234567_SB1" || p["oauth_consumer_key"] != "ef40afdd" || p["oauth_token"] != "2b278a1c" || p["oauth_signature_method"] != "HMAC-SHA256" || p["oauth_nonce"] == "" {
		return fmt.Errorf("Authorization: %v", p)
	}
	signature, err := url.PathUnescape(p["oauth_signature"])
	if err != nil {
		return err
	}
	delete(p, "realm")
	delete(p, "oauth_signature")
	var sorted []string
	for _, name := range slices.Sorted(maps.Keys(p)) {
		sorted = append(sorted, name+"="+p[name])
	}
	base := r.Method + "&" + percentEncoded("https://"+r.Host+r.URL.Path) + "&" + percentEncoded(strings.Join(sorted, "&"))
	m := hmac.New(sha256.New, []byte("d26ad321&c29a677d"))
	m.Write([]byte(base))
	if want := base64.StdEncoding.EncodeToString(m.Sum(nil)); signature != want {
		return fmt.Errorf("the signature is %s, and that of %s is %s", signature, base, want)
	}
	return nil
}
