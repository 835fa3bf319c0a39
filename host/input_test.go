package host_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/contract"
)

// The length of the body in a guest's input is the one that the API gets, so that a signature over Content-Length is valid. A
// body that the host keeps has a length, also if its caller did not know it.
func TestInputBodyLength(t *testing.T) {
	for name, c := range map[string]struct {
		body    string
		length  int64
		signs   bool
		trailer http.Header
		want    string
	}{
		"known and streamed":        {"abc", 3, false, nil, "3"},
		"known and kept":            {"abc", 3, true, nil, "3"},
		"unknown and streamed":      {"abc", -1, false, nil, "-1"},
		"unknown and kept":          {"abc", -1, true, nil, "3"},
		"unknown, long and kept":    {strings.Repeat("x", 100_000), -1, true, nil, "100000"},
		"unknown, empty and kept":   {"", -1, true, nil, "0"},
		"unknown, kept, in chunks":  {"abc", -1, true, http.Header{"X-Sum": {"1"}}, "-1"},
		"not declared and kept":     {"abc", 0, true, nil, "3"},
		"not declared and streamed": {"abc", 0, false, nil, "-1"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			w := misusedWorld(t, func(env contract.Env) (string, error) {
				if c.signs {
					env.Body()
				}
				input := contract.Request{}
				if err := json.Unmarshal(env.Input(), &input); err != nil {
					return "", err
				}
				if got = "-1"; input.ContentLength != nil {
					got = fmt.Sprint(*input.ContentLength)
				}
				return header("X-Key", value(env, "to_header")), nil
			})
			sent := ""
			w.api.Answer(func(r *http.Request) (*http.Response, error) {
				sent = fmt.Sprint(r.ContentLength)
				if r.ContentLength == 0 && c.body != "" { // of a body that is not nil, it means an unknown length
					sent = "-1"
				}
				return status(http.StatusOK)(r)
			})
			r := get(t.Context())
			r.Method, r.Body, r.ContentLength, r.Trailer = http.MethodPost, io.NopCloser(strings.NewReader(c.body)), c.length, c.trailer
			if w.send(w.connect("custom", misused), r); got != c.want || sent != c.want {
				t.Errorf("the guest gets %s, and the API %s, want %s", got, sent, c.want)
			}
		})
	}
}
