package host_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/keywright/keywright/host"
)

// An iss that comes back is compared whether or not the server promises it, byte by byte with the issuer, or by its origin where no
// issuer is known. It must come where the metadata promises it (RFC 9207 sections 2.4 and 3), and only there (threats.md 129). test/mcp
// has the judge.
func TestIssOfAConsent(t *testing.T) {
	const code, promise = "the-code-of-alice", `"authorization_response_iss_parameter_supported":`
	discovered := []any{"authorization_url", "{{ discover('https://login.test', 'authorization_endpoint') }}"}
	written := []any{"authorization_url", "https://LOGIN.test:443/authorize"}
	const right, wrong = "https://login.test", "https://evil.test"
	for name, c := range map[string]struct {
		change   []any
		metadata string
		iss      []string
		counts   bool
	}{
		"promised and there":             {discovered, promise + "true,", []string{right}, true},
		"neither":                        {discovered, "", nil, true},
		"promised and missing":           {discovered, promise + "true,", nil, false},
		"promised and wrong":             {discovered, promise + "true,", []string{wrong}, false},
		"wrong without a promise":        {discovered, "", []string{wrong}, false},
		"right without a promise":        {discovered, promise + "false,", []string{right}, true},
		"a promise that is a text":       {discovered, promise + `"true",`, nil, true},
		"another spelling":               {discovered, promise + "true,", []string{right + "/"}, false},
		"empty":                          {discovered, "", []string{""}, false},
		"another one written out":        {append(discovered, "issuer", wrong), "", []string{right}, false},
		"promised, and written out":      {append(discovered, "issuer", right), promise + "true,", nil, false},
		"written out":                    {append(written, "issuer", right+"/a"), "", []string{right + "/a"}, true},
		"written out, another path":      {append(written, "issuer", right+"/a"), "", []string{right + "/b"}, false},
		"written out, none sent":         {append(written, "issuer", right), "", nil, true},
		"unknown, none sent":             {written, "", nil, true},
		"unknown, of the origin":         {written, "", []string{right + "/realms/a"}, true},
		"unknown, of another host":       {written, "", []string{wrong}, false},
		"unknown, of another port":       {written, "", []string{right + ":444"}, false},
		"unknown, of plain http":         {written, "", []string{"http://login.test"}, false},
		"unknown, of the host as a user": {written, "", []string{"https://login.test@evil.test"}, false},
		"unknown, no URL":                {written, "", []string{"login.test"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := &issuer{codes: map[string]bool{code: true}, spent: map[string]bool{}}
			cluster := newCluster(t, func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPost {
					return s.answer(r)
				}
				return respond(http.StatusOK, `{"issuer":"https://login.test",`+c.metadata+`"authorization_endpoint":"https://login.test/authorize"}`)(r)
			})
			w, connector := consents(cluster, c.change...)
			b := back(begin(t, connector, alice), code)
			if c.iss != nil {
				b.Response["iss"] = c.iss
			}
			err := finish(t, w, connector, alice, b)
			var refused *host.ConsentError
			if forged := errors.As(err, &refused) && refused.Reason == host.ConsentForged; forged == c.counts || !forged && err != nil {
				t.Errorf("the error is %v", err)
			}
			if redeemed := s.spent[code]; redeemed != c.counts {
				t.Errorf("the code was redeemed: %t", redeemed)
			}
		})
	}
}
