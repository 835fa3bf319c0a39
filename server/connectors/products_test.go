//go:build !race

// Under the race detector these tests take long, and they do one thing after another. make test runs them without it.

package connectors_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	jose "github.com/golang-jwt/jwt/v5"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
)

// A product is an API that a few lines of YAML are enough for.
type product struct {
	account
	// request is the method and path of the request, and body its form.
	request, body string
}

// products returns the products, by the names that their connectors have in docs/auth-types.md.
func products(t *testing.T) map[string]product {
	t.Helper()
	github, google, public := keys(t)
	const (
		telegram   = "123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11"
		salesforce = "3MVG99OxTyEMCQ3gNp2PjkqeZKxnmAiG1xV4oHh9AKL_rSK.BoSVPGZHQukXnVjzRgSuQqGn75NL7yfkQcyy7"
		googleURL  = "https://oauth2.googleapis.com/token"
		cloudRun   = "https://hello-abc-uc.a.run.app"
	)
	plain := func(r *http.Request) error {
		if strings.Contains(r.RequestURI, "%") {
			return errors.New(r.RequestURI)
		}
		return nil
	}
	forCloudRun := func(r *http.Request) error {
		claims, err := verify(public, r.PostFormValue("assertion"), jose.WithIssuer(googleEmail), jose.WithAudience(googleURL))
		if err == nil && (claims.Target != cloudRun || claims.Scope != "" || time.Until(claims.ExpiresAt.Time) > time.Hour) {
			err = fmt.Errorf("claims: %+v", claims)
		}
		return err
	}
	return map[string]product{
		"Zendesk": {
			withPassword("zendesk", "jdoe@example.com/token", "6wiIBWbGkBMo1mRDMuVw", "GET https://acme.zendesk.com/api/v2/tickets.json"),
			"GET /api/v2/tickets.json", "",
		},
		"PagerDuty": {
			withHeader("pagerduty", "y_NbAkKc66ryYTWUXYEu", "GET https://api.pagerduty.com/users", "Authorization", "Token token="),
			"GET /users", "",
		},
		"Opsgenie": {
			withHeader("opsgenie", "eb243592-faa2-4ba2", "GET https://api.opsgenie.com/v2/alerts", "Authorization", "GenieKey "),
			"GET /v2/alerts", "",
		},
		"Telegram": {
			account{secrets: one("telegram", telegram), api: request("GET https://api.telegram.org/bot"+telegram+"/getMe", plain)},
			"GET /bot{token}/getMe", "",
		},
		"Rocket.Chat": {rocketChat("chat", `pass"word\`, "chat.example.com"), "GET /api/v1/me", ""},
		"Salesforce": {account{secrets: one("salesforce.pem", github), api: salesforceAPI(
			public, "https://login.salesforce.com/services/oauth2/token", "GET https://acme.my.salesforce.com/services/data/v60.0/sobjects", salesforce,
		)}, "GET /services/data/v60.0/sobjects", ""},
		"S3": {
			account{secrets: one("aws-secret-access-key", s3Secret), api: answers(verifyS3)},
			"PUT /2026/J%C3%A4nner%20report+%281%29.txt?x-id=PutObject&partNumber=1", "the report",
		},
		"GitHub": {account{secrets: one("github.pem", github), api: gitHubApp(
			public, sends("Accept", "application/vnd.github+json"), contains(`{"permissions":{"contents":"read"},"repositories":["hello-world"]}`),
		)}, "GET /installation/repositories", ""},
		"Drive": {account{secrets: one("sa.json", google), api: tokens(
			googleURL, answer, request("GET https://www.googleapis.com/v1/things", bearing(apiToken)),
			assertion(public, time.Hour, "https://www.googleapis.com/auth/drive.readonly", googleEmail, "", googleURL),
		)}, "GET /v1/things", ""},
		"Cloud Run": {account{secrets: one("sa.json", google), api: tokens(
			googleURL, `{"id_token":"`+apiToken+`"}`, request("GET "+cloudRun+"/v1/things", bearing(apiToken)), forCloudRun,
		)}, "GET /v1/things", ""},
	}
}

// Each product gets the credential that it documents, from the YAML in docs/auth-types.md alone, and a second request asks for
// no second token.
func TestProducts(t *testing.T) {
	for name, p := range products(t) {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			seen := map[string]int{}
			base := served(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				seen[r.Host+r.URL.Path]++
				mu.Unlock()
				p.api(w, r)
			})
			options := connectors.Options{Host: host.Config{Secrets: host.MapSecrets(p.secrets), Base: base}}
			set := loadGood(t, "connectors:\n"+documented(t, name), options)
			client := &http.Client{Transport: set.Connectors[0].Upstream().Transport(base)}
			for range 2 {
				method, path, _ := strings.Cut(p.request, " ")
				r := testworld.Must(http.NewRequestWithContext(t.Context(), method, set.Connectors[0].BaseURL().String()+path, strings.NewReader(p.body)))(t)
				if p.body != "" {
					r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				}
				response := testworld.Must(client.Do(r))(t)
				body, err := io.ReadAll(response.Body)
				response.Body.Close()
				if response.StatusCode != http.StatusOK || err != nil || !strings.Contains(string(body), `"ok":true`) {
					t.Fatalf("%d: body = %s err = %v", response.StatusCode, body, err)
				}
			}
			for where, times := range seen {
				if want := map[bool]int{true: 1, false: 2}[strings.Contains(where, "token") || strings.Contains(where, "login")]; times != want {
					t.Errorf("%d requests to %s", times, where)
				}
			}
		})
	}
}

// documented returns the connector of a name in docs/auth-types.md.
func documented(t *testing.T, name string) string {
	t.Helper()
	page := testworld.Must(os.ReadFile(filepath.Join("..", "..", "docs", "auth-types.md")))(t)
	_, text, found := strings.Cut(string(page), "\n- name: "+name+"\n")
	if !found {
		t.Fatalf("docs/auth-types.md has no connector %s", name)
	}
	text = strings.SplitN(text, "\n```", 2)[0] // the end of the example
	return "- name: " + strings.SplitN(name+"\n"+text, "\n- name: ", 2)[0] + "\n"
}
