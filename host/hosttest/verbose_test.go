package hosttest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/sdk"
)

// challenged is a plugin that gets the status of a refusal.
type challenged struct{ scripted }

func (p challenged) Describe() sdk.Description {
	d := p.scripted.Describe()
	d.Challenge = &sdk.Challenge{Statuses: []int{http.StatusForbidden}}
	return d
}

// A verbose test shows that the plugin passes the API's answer on.
func TestVerboseLogsPass(t *testing.T) {
	run := &testworld.Collector{}
	h := nativeHarness(run, challenged{func(c *sdk.Call) (sdk.Mutation, error) {
		if c.Challenge().Status != 0 {
			return sdk.Mutation{Pass: true}, nil
		}
		return sdk.Bearer(c.Config("value")), nil
	}})
	h.verbose = true
	h.Canary("crm")
	h.API(JSON(http.StatusForbidden, "{}"))
	h.Authenticate(config, GET("https://api.test"))
	const want = "auth type scripted\nthe caller gets the API's answer\n"
	if log := strings.Join(run.Logs(), "\n"); !strings.HasSuffix(log, want) {
		t.Errorf("the log is\n%s\nwant the end %s", log, want)
	}
}
