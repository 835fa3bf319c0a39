package remedy_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/server/internal/operate/remedy"
)

// Whatever a token endpoint or an API answers, there is advice by its code, or by its status alone.
func TestEveryAnswerHasARemedy(t *testing.T) {
	for status := 200; status < 600; status++ {
		token := remedy.Fault{Err: &host.Error{Stage: host.StageToken, Err: &host.TokenError{Status: status, Code: "other"}}}
		if remedy.Of(token) == "" {
			t.Errorf("there is no remedy for a token endpoint that answers %d with a code of its own", status)
		}
		if status >= 400 && remedy.Of(remedy.Fault{Status: status}) == "" {
			t.Errorf("there is no remedy for an API that answers %d", status)
		}
	}
}

func TestRemedies(t *testing.T) {
	token := func(status int, code, problem string, offset time.Duration) remedy.Fault {
		return remedy.Fault{Err: &host.TokenError{Status: status, Code: code, Problem: problem, Offset: offset}}
	}
	down := &net.OpError{Op: "dial", Err: errors.New("refused")}
	for want, fault := range map[string]remedy.Fault{
		"for a reason of its own: keywright test --error-description": token(400, "other", "", 0),
		"this machine's address on its list":                          token(403, "", "", 0),
		"There is no token endpoint at this URL":                      token(405, "", "", 0),
		"does the auth type fit the product":                          token(415, "", "", 0),
		"try another client_auth":                                     token(401, "invalid_client", "", 0),
		"and try another client_auth, if":                             token(401, "", "", 0),
		"The token endpoint redirects":                                token(302, "", "without an access_token", 0),
		"which is not followed":                                       token(308, "", "", 0),
		"is token_url the right one":                                  token(200, "", "without an access_token", 0),
		"several processes share one client":                          token(429, "other", "", 0),
		"The token endpoint is down":                                  token(503, "other", "", time.Hour),
		"is 59 min behind that of the token endpoint":                 token(400, "invalid_grant", "", 59*time.Minute),
		"is 3 h 1 min ahead of that of the token endpoint":            token(400, "invalid_grant", "", -3*time.Hour-time.Minute),
		"is 40 d behind that of the token endpoint":                   token(400, "other", "", 40*24*time.Hour),
		"client-auth both does. The clocks differ":                    token(401, "invalid_client", "", time.Hour),
		"The token endpoint is down: look":                            token(500, "other", "", time.Hour),
		"is 1 min behind that of the token endpoint":                  token(400, "invalid_grant", "", time.Minute),
		"is 1 h ahead of that of the token endpoint":                  token(400, "invalid_grant", "", -time.Hour),
		"is 2 d behind that of the token endpoint. Set the one that is wrong, with NTP. If the clock does not matter to this auth type: the grant": token(400, "invalid_grant", "", 48*time.Hour),
		"The API fails by itself":                             {Status: 500},
		"compare method, path, headers and body":              {Status: 400},
		"The API did not answer in time":                      {Err: context.DeadlineExceeded, Late: true},
		"The API cannot be reached":                           {Err: down},
		"The token endpoint cannot be reached":                {Err: &host.Error{Stage: host.StageToken, Err: down}},
		"is issuer right":                                     {Err: &host.Error{Stage: host.StageToken, Err: &host.DiscoveryError{}}},
		"keywright state status":                              {Err: &host.Error{Stage: host.StageToken, Err: fmt.Errorf("x: %w", state.ErrUnavailable)}},
		"use another path of the API":                         {Err: host.ErrCredentialInResponse},
		"look for blanks and line breaks":                     {Err: &host.Error{Stage: host.StageConfig, Err: errors.New("blank")}},
		"or in identities of the file":                        {Err: &host.Error{Stage: host.StageIdentity, Err: down}},
		"a later request tries again":                         {Err: &host.GrantError{User: "ann", Condition: host.ConditionUncertain}},
		"the user has to connect.":                            {Err: &host.GrantError{User: "ann", Condition: host.ConditionNotConnected}},
		"or this machine's clock is wrong":                    {Err: host.ErrServerCertificate},
		"or the client id, its secret or the tenant is wrong": token(400, "unauthorized_client", "", 0),
		"is the audience right, if the connector has one":     token(403, "access_denied", "", 0),
		"compare its name, type and policy":                   {Err: &host.Error{Stage: host.StageSign, Err: host.ErrKeyRefused}},
	} {
		if got := remedy.Of(fault); !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := remedy.Of(remedy.Fault{Status: 200, Offset: time.Hour}); got != "The clocks differ: this machine's is 1 h behind that of the API. Set the one that is wrong, with NTP." {
		t.Errorf("without another reason: %q", got)
	}
	if got := remedy.Of(remedy.Fault{Err: errors.New("of nobody knows what")}); got != "" {
		t.Errorf("an error that nobody knows has the remedy %q", got)
	}
}
