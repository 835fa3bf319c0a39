package languages

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/testworld"
)

// acme has the modules of one auth type in four languages, that in Go first.
var acme = []struct{ language, module string }{
	{"Go", "../../examples/acme_hmac/acme_hmac.wasm"},
	{"C", "../../examples/acme_hmac_c/acme_hmac_c.wasm"},
	{"AssemblyScript", "../../examples/acme_hmac_as/acme_hmac_as.wasm"},
	{"Rust", "../../examples/acme_hmac_rust/acme_hmac_rust.wasm"},
}

// acmeConfig is the configuration of a connector to Acme's API.
var acmeConfig = hosttest.Config{"key_id": "north-1", "secret": "{{ get_secret('acme') }}"}

// sameInAllLanguages runs a test with each module, and checks that it returns the same for all. The secrets of the tests are searched for
// in what the plugins had in their memory, in logs and in errors: threats.md 15.
func sameInAllLanguages(t *testing.T, test func(*testing.T, *hosttest.Harness) any) {
	t.Helper()
	var want any
	for _, plugin := range acme {
		t.Run(plugin.language, func(t *testing.T) {
			var got any
			hosttest.Run(t, nil, plugin.module, func(t *testing.T, h *hosttest.Harness) { got = test(t, h) })
			if plugin == acme[0] {
				want = got
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("it differs from the plugin in Go (-Go +%s):\n%s", plugin.language, diff)
			}
		})
	}
}

func TestAcmeHasOneDescription(t *testing.T) {
	sameInAllLanguages(t, func(_ *testing.T, h *hosttest.Harness) any { return h.Description() })
}

func TestAcmeSendsTheSameRequests(t *testing.T) {
	const url = "https://api.acme.test/v1/orders"
	long := strings.Repeat("crème\x00brûlée ", 50_000)
	tests := []struct {
		name    string
		request func() *http.Request
	}{
		{"GET", func() *http.Request { return hosttest.GET(url) }},
		{"query", func() *http.Request { return hosttest.GET(url + "?page=2&q=a%20b&q=%C3%A9&empty=&%22") }},
		{"no path", func() *http.Request { return hosttest.GET("https://api.acme.test") }},
		{"query without a path", func() *http.Request { return hosttest.GET("https://api.acme.test?page=2#part") }},
		{"a question mark in the query", func() *http.Request { return hosttest.GET(url + "?a=/?b") }},
		{"escapes in the path", func() *http.Request { return hosttest.GET(url + "/a%2Fb/%E2%82%AC/;x=1/:y") }},
		{"host in upper case", func() *http.Request { return hosttest.GET("HTTPS://API.ACME.TEST:443/V1") }},
		{"POST", func() *http.Request { return hosttest.POST(url, `{"item":"crème"}`) }},
		{"long body", func() *http.Request { return hosttest.POST(url, long) }},
		{"streamed body", func() *http.Request {
			return httptest.NewRequest(http.MethodPut, url, io.MultiReader(strings.NewReader(long)))
		}},
		{"another method", func() *http.Request { return httptest.NewRequest("X-METHOD!", url, http.NoBody) }},
		{"headers that need escapes in JSON", func() *http.Request {
			r := hosttest.GET(url)
			r.Header = http.Header{
				"X-Quote": {`"\" {},:[]`}, "X-Tab": {"a\tb"}, "X-Text": {"é€😀"}, "X-Many": {"1", "2", ""},
				"Authorization": {"Bearer of the caller"}, "X-Json": {`{"method":"PUT","url":"https://evil.test"}`},
			}
			return r
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			sameInAllLanguages(t, func(t *testing.T, h *hosttest.Harness) any {
				h.Secret("acme", "a secret, \"quoted\"\\ – 😀 of 40 bytes")
				r := test.request()
				r.RequestURI = "" // a client sets none
				got := dump(t, h.Authenticate(acmeConfig, r))
				if !strings.Contains(got, "Authorization: ACME-HMAC-SHA256 key=north-1, time=") {
					t.Errorf("the request is not signed:\n%.500s", got)
				}
				t.Logf("%d units of fuel", h.Calls()[0].Fuel)
				return got
			})
		})
	}
}

// Two hundred requests of any shape are signed in the same way.
func TestAcmeSendsTheSameRandomRequests(t *testing.T) {
	sameInAllLanguages(t, func(t *testing.T, h *hosttest.Harness) any {
		h.Secret("acme", "canary-of-the-random-requests")
		random := rand.New(rand.NewPCG(14, 3)) //nolint:gosec // the same requests in each language
		const alphabet = "abcXYZ019-._~!$&'()*+,;=:@/%20%2F%C3%A9?\"<>\\^`{|} \té€😀"
		text := func(n int) string {
			b := []rune(alphabet)
			for i := range n {
				b[i%len(b)], b[random.IntN(len(b))] = b[random.IntN(len(b))], b[i%len(b)]
			}
			return string(b[:min(n, len(b))])
		}
		var got []string
		for range 200 {
			url := "https://api.acme.test/" + text(random.IntN(20))
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(text(random.IntN(40))))
			if err != nil {
				continue // no such URL can be asked for
			}
			r.Header.Set("X-Text", strings.TrimSpace(text(random.IntN(40))))
			got = append(got, dump(t, h.Authenticate(acmeConfig, r)))
		}
		if len(got) < 20 {
			t.Errorf("there were %d requests only", len(got))
		}
		return got
	})
}

// dump returns a request as the API got it.
func dump(t *testing.T, result *hosttest.Result) string {
	t.Helper()
	r := result.Request
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s\nHost: %s\nlength %d\n", r.Method, r.URL, r.Host, r.ContentLength)
	testworld.Check(t, r.Header.Write(&b))
	if r.Body != nil {
		testworld.Must(io.Copy(&b, r.Body))(t)
	}
	return b.String()
}

// A wrong configuration has the same errors, whatever language the plugin is written in, and they name the field.
func TestAcmeRefusesTheSameConfigurations(t *testing.T) {
	secret := acmeConfig["secret"]
	tests := []struct {
		name   string
		config hosttest.Config
		want   string
	}{
		{"nothing", hosttest.Config{}, "key_id"},
		{"no secret", hosttest.Config{"key_id": "a"}, "secret"},
		{"misspelt", hosttest.Config{"key_id": "a", "secrt": secret}, `did you mean "secret"?`},
		{"blank", hosttest.Config{"key_id": " ", "secret": secret}, "key_id"},
		{"a number", hosttest.Config{"key_id": 7, "secret": secret}, "key_id"},
		{"another parameter", hosttest.Config{"key_id": "a, signature=0", "secret": secret}, "neither a letter nor a digit nor one of !#$%&'*+-.^_`|~"},
		{"a line break", hosttest.Config{"key_id": "a\nb", "secret": secret}, "key_id"},
		{"not ASCII", hosttest.Config{"key_id": "zoë😀", "secret": secret}, "neither a letter"},
		{"a bad template", hosttest.Config{"key_id": "{{ nothing() }}", "secret": secret}, "key_id"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			sameInAllLanguages(t, func(t *testing.T, h *hosttest.Harness) any {
				h.Canary("acme")
				got := h.Problems(test.config)
				if !strings.Contains(fmt.Sprint(got), test.want) {
					t.Errorf("the problems are %v, want %q among them", got, test.want)
				}
				return got
			})
		})
	}
}

func TestAcmeFailsWithTheSameErrors(t *testing.T) {
	tests := []struct {
		name   string
		config hosttest.Config
		want   string
	}{
		{"another parameter from a template", hosttest.Config{"key_id": "{{ get_variable('key') }}", "secret": acmeConfig["secret"]}, "key_id has a character that is neither"},
		{"a blank text from a template", hosttest.Config{"key_id": "{{ get_variable('blank') }}", "secret": acmeConfig["secret"]}, "key_id"},
		{"no such secret", hosttest.Config{"key_id": "a", "secret": "{{ get_secret('nobody') }}"}, "nobody"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			sameInAllLanguages(t, func(t *testing.T, h *hosttest.Harness) any {
				h.Canary("acme")
				h.Variable("key", `a", signature="0`)
				h.Variable("blank", " ")
				err := h.AuthenticateError(test.config, hosttest.GET("https://api.acme.test/v1"))
				if !strings.Contains(err.Error(), test.want) {
					t.Errorf("the error is %q, want %q in it", err, test.want)
				}
				return []any{err.Error(), err.Stage}
			})
		})
	}
}
