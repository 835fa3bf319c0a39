package trial_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/keywright/keywright/server/internal/trial"
)

// The token of the user of a test is not printed.
func TestTokenOfUser(t *testing.T) {
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if text := fmt.Sprintf(verb, trial.Try{User: trial.User{ID: "ann", Token: "t0ken"}}); strings.Contains(text, "t0ken") || !strings.Contains(text, "ann") {
			t.Errorf("%s prints %s", verb, text)
		}
	}
}
