package tour

import (
	"encoding/json"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/keywright/keywright/internal/testworld"
)

func TestRun(t *testing.T) {
	defer goleak.VerifyNone(t)
	report := testworld.Must(Run(t.Context()))(t)
	if !report.OK || len(report.Problems) > 0 {
		t.Fatalf("not as it has to be: %q", report.Problems)
	}
	var types []string
	for _, result := range report.Results {
		types = append(types, result.Type)
		if len(result.Requests) != 2 || result.Requests[0].Sandbox <= 0 {
			t.Errorf("%s: result.Requests = %+v", result.Connector, result.Requests)
		}
	}
	want := "none api_key api_key oauth_client_credentials jwt oauth_jwt_bearer"
	if got := strings.Join(types, " "); got != want {
		t.Errorf("types %s, want %s", got, want)
	}
	claims := struct {
		Sub string
	}{}
	if err := json.Unmarshal(report.Results[4].Requests[0].Received.JWT.Claims, &claims); err != nil || claims.Sub != User {
		t.Errorf("the JWT stands for %q, %v", claims.Sub, err)
	}
}

// A report with wrong results is not OK.
func TestJudge(t *testing.T) {
	report := testworld.Must(Run(t.Context()))(t)
	spoil := map[string]func(*Report){
		"none: request 1 was answered 401, not 200":                         func(r *Report) { r.Results[0].Requests[0].Status = 401 },
		"jwt, ES256: request 2 did not reach the API exactly once":          func(r *Report) { r.Results[4].Requests[1].Received = nil },
		"oauth_client_credentials: 2 token exchanges, not 1":                func(r *Report) { r.Results[3].Exchanges = 2 },
		"oauth_jwt_bearer, RS256: request 2: a token from the cache: false": func(r *Report) { r.Results[5].Requests[1].Cached = false },
		"5 connectors were tried, not 6":                                    func(r *Report) { r.Results = r.Results[:5] },
	}
	for want, change := range spoil {
		copied := *report
		copied.Problems, copied.Results = nil, nil
		for _, result := range report.Results {
			result.Requests = append([]Request(nil), result.Requests...)
			copied.Results = append(copied.Results, result)
		}
		change(&copied)
		copied.judge(2)
		if copied.OK || copied.Problems[0] != want {
			t.Errorf("got %q, want %q", copied.Problems, want)
		}
	}
	report.Problems = nil
	if report.judge(3); report.OK || report.Problems[0] != "the token endpoint issued 3 tokens, not 2" {
		t.Errorf("a token too many: %q", report.Problems)
	}
}
