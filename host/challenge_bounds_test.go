package host_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
)

// A plugin gets answers of a body of at most 64 KiB. The caller gets the whole body in any case.
func TestHowLongABodyOfAChallengeIs(t *testing.T) {
	for name, tt := range map[string]struct {
		length int
		want   string
	}{
		"64 KiB":            {64 << 10, "expired"},
		"64 KiB and a byte": {64<<10 + 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var code string
			w, connector := challengeWorld(t, func(env abi.Env) (string, error) {
				if c := challengeOf(env); c.Status != 0 {
					code = c.Answers["code"]
					return `{"pass":true}`, nil
				}
				return "{}", nil
			})
			body := `{"error":{"code":"expired"}}`
			body += strings.Repeat(" ", tt.length-len(body))
			w.api.Answer(respond(http.StatusForbidden, body))
			response, err := connector.Transport(nil).RoundTrip(get(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(response.Body)
			if err = errors.Join(err, response.Body.Close()); err != nil || len(got) != tt.length || code != tt.want {
				t.Errorf("%d bytes, code %q, want %d bytes, code %q (%v)", len(got), code, tt.length, tt.want, err)
			}
		})
	}
}
