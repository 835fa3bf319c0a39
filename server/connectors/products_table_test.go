package connectors_test

import (
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	jose "github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host"
)

const (
	slackToken   = "xoxb-17653672481-19874698323-pdFZKVeTuE8sk7oOcBrzbqgy"
	githubToken  = "ghs_16C7e42F292c6912E7710c838347Ae178B4a"
	googleToken  = "ya29.c.ElqBBw4PUh7K7rnVGyBv"
	googleIDKind = "an.id.token-of-google"
	googleEmail  = "robot@my-project.iam.gserviceaccount.com"
	googleKeyID  = "370ab79b4513eb9bad7c9bd16a95cb76b5b2a56a"
	chatToken    = "9HqLlyZOugoStsXCUfD_0YdwnNnunAJF8V47U3QHXSq"
	salesToken   = "00Dx0000000BV7z!AR8AQAxo9UfVkh8AlV0Gomt9Czx9LjHnSSpwBMmbRcgKFmxOtvxjTrKW1"
)

// products returns the products, by the names that their connectors have in docs/auth-types.md.
func products(t *testing.T) map[string]product {
	t.Helper()
	github, google, public := keys(t)
	return map[string]product{
		"Zendesk": {
			request: "GET /api/v2/tickets.json",
			secrets: host.MapSecrets{"zendesk": "6wiIBWbGkBMo1mRDMuVwkw1EPsNkeUj95PIz2akv"},
			api:     user("jdoe@example.com/token", "6wiIBWbGkBMo1mRDMuVwkw1EPsNkeUj95PIz2akv"),
		},
		"PagerDuty": {
			request: "GET /users",
			secrets: host.MapSecrets{"pagerduty": "y_NbAkKc66ryYTWUXYEu"},
			api:     header("Authorization", "Token token=y_NbAkKc66ryYTWUXYEu"),
		},
		"Opsgenie": {
			request: "GET /v2/alerts",
			secrets: host.MapSecrets{"opsgenie": "eb243592-faa2-4ba2-a551q-1afdf565c889"},
			api:     header("Authorization", "GenieKey eb243592-faa2-4ba2-a551q-1afdf565c889"),
		},
		"Telegram": {
			request: "GET /bot{token}/getMe",
			secrets: host.MapSecrets{"telegram": "123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11"},
			api: answers(func(r *http.Request) error {
				if r.RequestURI != "/bot123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11/getMe" {
					return errors.New(r.RequestURI)
				}
				return nil
			}),
		},
		"Rocket.Chat": {request: "GET /api/v1/me", secrets: host.MapSecrets{"chat": `pass"word\`}, api: rocketChat},
		"Salesforce": {
			request: "GET /services/data/v60.0/sobjects", secrets: host.MapSecrets{"salesforce.pem": github}, api: salesforce(public),
		},
		"S3": {
			request: "PUT /2026/J%C3%A4nner%20report+%281%29.txt?x-id=PutObject&partNumber=1", body: "the report",
			secrets: host.MapSecrets{"aws-secret-access-key": s3Secret}, api: s3,
		},
		"GitHub":    {request: "GET /installation/repositories", secrets: host.MapSecrets{"github.pem": github}, api: gitHub(public)},
		"Drive":     googleProduct(google, public, googleToken),
		"Cloud Run": googleProduct(google, public, googleIDKind),
	}
}

// rocketChat is the login of Rocket.Chat's REST API, and a method that needs it.
func rocketChat(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/api/v1/login" {
		if r.Header.Get("X-User-Id") == "aobEdbYhXfu5hkeqG" {
			header("X-Auth-Token", chatToken)(w, r)
		}
		return
	}
	var login struct{ User, Password string }
	if err := json.NewDecoder(r.Body).Decode(&login); err != nil || login.User != "bot" || login.Password != `pass"word\` || r.Header.Get("Content-Type") != "application/json" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	_, _ = io.WriteString(w, `{"status":"success","data":{"userId":"aobEdbYhXfu5hkeqG","authToken":"`+chatToken+`","me":{}}}`)
}

// salesforce is Salesforce's token endpoint and its REST API. The assertion is of the app, for a user, and ends within 5 minutes.
// The answer has no expires_in.
func salesforce(public *rsa.PublicKey) http.HandlerFunc {
	const app = "3MVG99OxTyEMCQ3gNp2PjkqeZKxnmAiG1xV4oHh9AKL_rSK.BoSVPGZHQukXnVjzRgSuQqGn75NL7yfkQcyy7"
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "acme.my.salesforce.com" {
			header("Authorization", "Bearer "+salesToken)(w, r)
			return
		}
		claims, err := verify(public, r.PostFormValue("assertion"), jose.WithIssuer(app), jose.WithSubject("integration@acme.example"), jose.WithAudience("https://login.salesforce.com"))
		if err != nil || time.Until(claims.ExpiresAt.Time) > 5*time.Minute || r.PostFormValue("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" ||
			r.Method != http.MethodPost || r.Host+r.URL.Path != "login.salesforce.com/services/oauth2/token" {
			http.Error(w, `{"error":"invalid_grant","error_description":"user hasn't approved this consumer"}`, http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, `{"access_token":"`+salesToken+`","scope":"api","instance_url":"https://acme.my.salesforce.com",`+
			`"id":"https://login.salesforce.com/id/00Dx0000000BV7z/005x00000012Q9P","token_type":"Bearer"}`)
	}
}

// gitHub is the part of GitHub's REST API that issues installation access tokens, and a resource that needs one. An app's
// JWT lasts for 10 minutes at most, is not from the future, and has the app's client ID as iss. Each request has a User-Agent.
func gitHub(public *rsa.PublicKey) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/app/installations/1234/access_tokens" {
			header("Authorization", "Bearer "+githubToken)(w, r)
			return
		}
		claims, err := verify(public, r.Header.Get("Authorization"), jose.WithIssuer("Iv1.8a61f9b3a7aba766"), jose.WithIssuedAt())
		body, _ := io.ReadAll(r.Body)
		switch {
		case err == nil && time.Until(claims.ExpiresAt.Time) > 10*time.Minute:
			err = errors.New("the expiration time is too far in the future")
		case r.Header.Get("User-Agent") == "" || r.Header.Get("Accept") != "application/vnd.github+json" || r.Method != http.MethodPost:
			err = fmt.Errorf("%s with %v", r.Method, r.Header)
		case string(body) != `{"permissions":{"contents":"read"},"repositories":["hello-world"]}`:
			err = errors.New(string(body))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusCreated)
		expiry := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		_, _ = io.WriteString(w, `{"token":"`+githubToken+`","expires_at":"`+expiry+`","permissions":{"contents":"read"},"repository_selection":"selected"}`)
	}
}

// googleProduct returns a service of Google, which wants a token as a bearer token.
func googleProduct(keyFile string, public *rsa.PublicKey, token string) product {
	return product{
		request: "GET /v1/things",
		secrets: host.MapSecrets{"sa.json": keyFile},
		api: func(w http.ResponseWriter, r *http.Request) {
			if r.Host == "oauth2.googleapis.com" && r.URL.Path == "/token" {
				googleTokens(public, w, r)
				return
			}
			header("Authorization", "Bearer "+token)(w, r)
		},
	}
}

// googleTokens is Google's token endpoint for service accounts.
func googleTokens(public *rsa.PublicKey, w http.ResponseWriter, r *http.Request) {
	claims, err := verify(public, r.PostFormValue("assertion"), jose.WithIssuer(googleEmail), jose.WithAudience("https://oauth2.googleapis.com/token"), jose.WithIssuedAt())
	if err != nil || r.PostFormValue("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" || claims.ExpiresAt.Sub(claims.IssuedAt.Time) > time.Hour {
		http.Error(w, `{"error":"invalid_grant","error_description":"Invalid JWT"}`, http.StatusBadRequest)
		return
	}
	switch {
	case claims.Scope == "https://www.googleapis.com/auth/drive.readonly" && claims.Target == "":
		_, _ = io.WriteString(w, `{"access_token":"`+googleToken+`","expires_in":3599,"token_type":"Bearer"}`)
	case claims.Target == "https://hello-abc-uc.a.run.app" && claims.Scope == "":
		_, _ = io.WriteString(w, `{"id_token":"`+googleIDKind+`"}`)
	default:
		http.Error(w, `{"error":"invalid_scope"}`, http.StatusBadRequest)
	}
}

// claimsOf are the claims of the JWTs that GitHub and Google get.
type claimsOf struct {
	jose.RegisteredClaims
	Scope  string `json:"scope"`
	Target string `json:"target_audience"`
}

// verify returns the claims of a JWT that the key has signed with RS256.
func verify(public *rsa.PublicKey, signed string, options ...jose.ParserOption) (*claimsOf, error) {
	claims := &claimsOf{}
	options = append(options, jose.WithValidMethods([]string{"RS256"}), jose.WithExpirationRequired())
	parsed, err := jose.ParseWithClaims(strings.TrimPrefix(signed, "Bearer "), claims, func(*jose.Token) (any, error) { return public, nil }, options...)
	if err != nil {
		return nil, err
	}
	if id, named := parsed.Header["kid"]; named && id != googleKeyID {
		return nil, fmt.Errorf("kid: %v", id)
	}
	return claims, nil
}
