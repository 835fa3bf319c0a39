package host_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
)

// The code verifier is a secret: somebody who sees the authorization URL, as in the history of a browser, cannot redeem the code with it. State,
// verifier and nonce differ, in each consent and from those of others (threats.md 129).
func TestVerifierSecrecy(t *testing.T) {
	c := consenting(t, "the-first-code", "the-second-code")
	w, connector := consents(c)
	seen := map[string]string{}
	for _, code := range []string{"the-first-code", "the-second-code"} {
		request := begin(t, connector, alice)
		if err := finish(t, w, connector, alice, back(request, code)); err != nil {
			t.Fatal(err)
		}
		verifier := c.login.Last().Form().Get("code_verifier")
		if strings.Contains(request.Encode(), verifier) {
			t.Errorf("the verifier is in the authorization URL: %v", request)
		}
		challenge := sha256.Sum256([]byte(verifier))
		if got := request.Get("code_challenge"); got != base64.RawURLEncoding.EncodeToString(challenge[:]) {
			t.Errorf("the challenge %q is not that of the verifier", got)
		}
		for name, value := range map[string]string{"state": request.Get("state"), "nonce": request.Get("nonce"), "verifier": verifier} {
			if of, there := seen[value]; there || len(value) < 43 {
				t.Errorf("the %s after %s is %q, which is that of %q or too short", name, code, value, of)
			}
			seen[value] = name + " after " + code
		}
	}
}

// Connectors of one type have a grant of a user each: the token of one authorization server is not sent to that of another, and who
// disconnects one stays connected to the other (threats.md 130, 131).
func TestConsentOfOneConnector(t *testing.T) {
	c := consenting(t, "the-code-of-crm", "the-code-of-erp")
	w, crm := consents(c)
	erp := w.connectAs("erp", "oauth_authorization_code", authCode("token_url", "https://login.test/of-erp"))
	if err := finish(t, w, crm, alice, back(begin(t, crm, alice), "the-code-of-crm")); err != nil {
		t.Fatal(err)
	}
	condition(t, crm, alice, host.ConditionConnected)
	condition(t, erp, alice, host.ConditionNotConnected)
	w.refuse(erp, get(forUser(t, alice)), host.StageToken, "is not there")
	if n := c.login.Count(); n != 1 {
		t.Errorf("there were %d token requests, want 1", n)
	}
	if err := finish(t, w, erp, alice, back(begin(t, erp, alice), "the-code-of-erp")); err != nil {
		t.Fatal(err)
	}
	c.clock.Advance(2 * time.Hour)
	for code, of := range map[string]*host.Connector{"the-code-of-crm": crm, "the-code-of-erp": erp} {
		w.send(of, get(forUser(t, alice)))
		if sent := c.login.Last().Form().Get("refresh_token"); !strings.HasSuffix(sent, code) || !strings.Contains(bearerOf(w), code) {
			t.Errorf("with the grant of %s, the authorization server gets %q, and the API %q", code, sent, bearerOf(w))
		}
	}
	if err := erp.Disconnect(forUser(t, alice)); err != nil {
		t.Error(err)
	}
	condition(t, erp, alice, host.ConditionNotConnected)
	condition(t, crm, alice, host.ConditionConnected)
}

// A grant that no request can use any more is not shown as connected.
func TestConditionsOfFailedGrants(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer answer
		never  bool
		want   host.Condition
	}{
		{"a token that cannot be kept", unkept["a token that is too long to keep"], false, host.ConditionLost},
		{"no answer, and none is sent again", failed["cut"], true, host.ConditionLost},
		{"no answer", failed["cut"], false, host.ConditionUncertain},
		{"refused", respond(http.StatusBadRequest, `{"error":"invalid_grant"}`), false, host.ConditionRefused},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := consenting(t, "the-code")
			w, _ := consents(c)
			connect := func(never bool) *host.Connector {
				connector, err := w.host.NewConnector(t.Context(), host.ConnectorConfig{
					Name: "crm", Origins: []string{apiOrigin}, Auth: host.Auth{Type: "oauth_authorization_code", Config: authCode()}, NeverResend: never,
				})
				if err != nil {
					t.Fatal(err)
				}
				return connector
			}
			connector := connect(test.never)
			if err := finish(t, w, connector, alice, back(begin(t, connector, alice), "the-code")); err != nil {
				t.Fatal(err)
			}
			condition(t, connector, alice, host.ConditionConnected)
			c.clock.Advance(2 * time.Hour)
			c.login.Answer(test.answer)
			_, err := w.try(connector, get(forUser(t, alice)))
			var failure *host.GrantError
			if !errors.As(err, &failure) || failure.Condition != test.want {
				t.Errorf("the error is %v, want a grant that is %s", err, test.want)
			}
			condition(t, connector, alice, test.want)
			if test.want == host.ConditionUncertain { // an operator who wants none to be sent again from now on
				condition(t, connect(true), alice, host.ConditionLost)
			}
		})
	}
}

// A browser that goes away while the code is exchanged loses nothing: the code is spent, so the grant is kept.
func TestCallbackAfterDisconnect(t *testing.T) {
	c := consenting(t)
	w, connector := consents(c)
	b := back(begin(t, connector, alice), "the-code")
	ctx, leave := context.WithCancel(forUser(t, alice))
	c.login.Answer(func(r *http.Request) (*http.Response, error) {
		leave()
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		return respond(http.StatusOK, `{"access_token":"an-access-token","expires_in":3600,"refresh_token":"a-refresh-token"}`)(r)
	})
	if _, err := w.host.Callback(ctx, b, func(string) *host.Connector { return connector }); err != nil || ctx.Err() == nil {
		t.Errorf("Callback returns %v", err)
	}
	condition(t, connector, alice, host.ConditionConnected)
	if w.send(connector, get(forUser(t, alice))); bearerOf(w) == "" {
		t.Error("the API gets no token")
	}
}
