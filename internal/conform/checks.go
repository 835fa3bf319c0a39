package conform

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// contract checks that the module is loaded, and that its description is the same each time.
func (c *conformer) contract(k *checking) {
	var texts [2]string
	for i := range texts {
		k.Cases++
		info, err := host.Inspect(c.ctx, host.Plugin{Name: c.module.Name, Wasm: c.module.Wasm}, host.Limits{})
		if err != nil {
			k.find("the module is not loaded: %v", err)
			return
		}
		text, _ := json.Marshal(info.Description) // which has been JSON
		texts[i], c.info = string(text), info
	}
	if texts[0] != texts[1] {
		k.find("describe has another output each time: return the same, without the time and random bytes")
	}
	if c.info.Challenge != nil {
		c.challenge = *c.info.Challenge
	}
	c.trial(k, "contract", func(*trial) {}) // the harness refuses a type of the host's own
	c.report.Type, c.report.Version, c.report.Contract = c.info.Type, c.info.Version, c.info.ABI
}

func (c *conformer) leakage(k *checking) {
	k.Cases = c.cases
	for _, leak := range c.leaks {
		k.find("%s", leak)
	}
}

// fuelReserve is the part of the fuel that the request that needs most has to leave: a tenth.
const fuelReserve = 10

// fuel checks that the request that needed most left a part of the fuel.
func (c *conformer) fuel(k *checking) {
	work := c.work()
	k.Cases = len(c.fuels)
	k.Tried = fmt.Sprintf("the request that needs most leaves %d %% of the fuel; %d %% is enough", 100-100*work.Worst/work.Limit, 100/fuelReserve)
	if work.Worst > work.Limit-work.Limit/fuelReserve {
		k.find("a request needed %d of %d units of fuel: make the plugin do less, since a request that is a little larger fails", work.Worst, work.Limit)
	}
}

// longText matches texts as long as a signature. Those of ECDSA and RSASSA-PSS are others each time.
var longText = regexp.MustCompile(`[A-Za-z0-9+/_-]{60,}={0,2}`)

func asText(r *http.Request) string { return fmt.Sprintln(r.Method, r.URL, r.Header, bodyOf(r)) }

func bodyOf(r *http.Request) string {
	body, _ := testworld.ReadBody(r) // from memory
	return body
}

// each sends a request with each configuration, in a new host, and returns the results by configuration. The host makes references and
// generated keys from the seed. If backwards is set, the last configuration is the first.
func (c *conformer) each(k *checking, seed string, backwards bool) []*result {
	all := make([]*result, len(c.configs))
	c.trial(k, seed, func(t *trial) {
		for i := range c.configs {
			if backwards {
				i = len(c.configs) - 1 - i
			}
			t.n = i // so that the connector has the same name
			all[i] = t.send(fmt.Sprintf("configuration %d", i+1), c.configs[i], formRequest())
		}
	})
	return all
}

// usesWASI reports whether the plugin may read random bytes of WASI.
func (c *conformer) usesWASI() bool {
	return slices.ContainsFunc(c.info.Imports, func(name string) bool {
		module, function, _ := strings.Cut(name, ".")
		return module == contract.ModuleWASI && function != "fd_write"
	})
}

// determinism compares the requests and the fuel of two hosts, which differ in their references only.
func (c *conformer) determinism(k *checking) {
	c.firsts = c.each(k, "first host", false)
	seed := "second host"
	if c.usesWASI() { // its random bytes come from the same source as the references
		seed = "first host"
	}
	for i, second := range c.each(k, seed, false) {
		switch first := c.firsts[i]; {
		case first.text() != second.text():
			k.find("configuration %d: the request differs in two hosts with the same inputs: take random bytes from random, and none from references", i+1)
		case !slices.Equal(first.fuel, second.fuel):
			k.find("configuration %d: the fuel is %d and %d with the same inputs", i+1, first.fuel, second.fuel)
		}
	}
}

// pristine compares the requests of a host with those after other requests.
func (c *conformer) pristine(k *checking) {
	for i, second := range c.each(k, "first host", true) {
		if second.text() != c.firsts[i].text() {
			k.find("configuration %d: the request differs after requests of other configurations", i+1)
		}
	}
	c.trial(k, "repeated", func(t *trial) {
		for i, config := range c.configs {
			texts := t.send(fmt.Sprintf("configuration %d, three requests", i+1), config, formRequest(), formRequest(), formRequest()).texts
			if len(texts) == 3 && texts[1] != texts[2] {
				k.find("configuration %d: the third of three equal requests differs from the second: a request may not depend on others", i+1)
			}
		}
	})
}

func (t *trial) challenges() {
	statuses := append([]int{http.StatusUnauthorized}, t.c.challenge.Statuses...)
	slices.Sort(statuses)
	for i, config := range t.c.configs[:min(thorough, len(t.c.configs))] {
		for _, status := range slices.Compact(statuses) {
			for _, odd := range t.c.refusals(status) {
				t.API(odd.value)
				name := fmt.Sprintf("configuration %d, %d %s", i+1, status, odd.name)
				t.repeated(status, t.send(name, config, formRequest()))
				t.send(name+", to two requests", config, formRequest(), formRequest())
			}
		}
	}
}

// repeated adds a finding if the API received a request again as it was, or more than twice.
func (t *trial) repeated(status int, got *result) {
	if len(got.requests) > 2 {
		t.k.find("%s: the API received the request %d times", t.name, len(got.requests))
	}
	handled := slices.Contains(t.c.challenge.Statuses, status) // otherwise the host alone decides
	if handled && len(got.requests) == 2 && asText(got.requests[0]) == asText(got.requests[1]) {
		t.k.find("%s: a request that the API has refused was sent again as it was: let the API's answer pass", t.name)
	}
}

func (c *conformer) refusals(status int) []answer {
	complete := func(body string) hosttest.Answer {
		count := 0
		return func(*http.Request) (*http.Response, error) {
			count++
			w := &writer{header: http.Header{}, tree: map[string]any{}, token: func(name string) string { return fmt.Sprintf("%s-%d", name, count) }}
			for _, a := range c.challenge.Answers {
				w.put(&a, c.sources(&a)...)
			}
			response := w.response(status)
			if body != "" {
				response.Body = io.NopCloser(strings.NewReader(body))
			}
			return response, nil
		}
	}
	all := []answer{
		{"without a challenge", reply(status, "")},
		{"with all that the plugin wants", complete("")},
		{"with all that the plugin wants in headers, and a page", complete(page)},
		{"with a large body", reply(status, `{"error":"`+strings.Repeat("x", 200<<10)+`"}`)},
		{"with half of an object", reply(status, `{"error":{"code":`)},
		{"with another time", reply(status, "", "Date", begin.AddDate(10, 0, 0).Format(http.TimeFormat))},
		{"with a time that is none", reply(status, "", "Date", "yesterday")},
	}
	for _, challenge := range []string{
		"", "Digest", "Digest realm", `Digest realm="`, `Digest nonce=""`, `Digest nonce="n", qop="none", algorithm=MD4`, `Digest nonce="n", algorithm=SHA-256, stale=maybe`,
		`Digest realm="a\"b", nonce="` + strings.Repeat("n", 4<<10) + `", qop="auth"`, `Digest realm="日本語", nonce="é", opaque="🔑", charset=UTF-8`,
		`Bearer error="invalid_token", error_description="` + strings.Repeat(`\"`, 200) + `"`, `DPoP error="use_dpop_nonce"`,
		"Basic realm=a, Basic realm=b, Digest nonce=c, Digest nonce=d, ,,,", strings.Repeat("X a=b, ", 500), "\xff\xfe=", "===, \"\"",
	} {
		name := fmt.Sprintf("with the challenge %.40q", challenge)
		all = append(all, answer{name, reply(status, "", "WWW-Authenticate", challenge, "Authentication-Info", challenge, "DPoP-Nonce", challenge)})
	}
	return all
}

// thorough is the number of configurations that get each case: the one with the fields that are needed, and the one with all. The
// others differ in the value of one field, and get some of the cases.
const thorough = 2

func (t *trial) endpoints() {
	for i, config := range t.c.configs {
		for step := range t.c.exchanges[i] {
			ask := func(odd answer) *result {
				t.answers = append(slices.Repeat([]hosttest.Answer{t.c.issued(t.n + 1)}, step), odd.value)
				defer func() { t.answers = nil }()
				got := t.send(fmt.Sprintf("configuration %d, exchange %d answers %s", i+1, step+1, odd.name), config, formRequest())
				t.rules(got)
				return got
			}
			answers := nonsense()
			if i >= thorough {
				answers = answers[:3]
			}
			for _, odd := range answers {
				if got := ask(odd); len(got.exchanges) > step && len(got.requests) > 0 {
					t.k.find("%s: a request was sent, although there is no token: return an error", t.name)
				}
			}
			if i < thorough {
				for _, odd := range t.c.oddities(t.n + 1) {
					ask(odd)
				}
			}
		}
	}
}

// rules adds a finding if only the host's limit has ended the token requests of a call, or if the call broke another rule.
func (t *trial) rules(got *result) {
	failure, ok := errors.AsType[*host.Error](got.err)
	if ok && got.wrong == "" && got.failure == host.FailureAnswer && failure.Stage == host.StagePlugin {
		t.k.find("%s: %v", t.name, got.err)
	}
}

const alphabets = "Zoë-日本語-🔑"

// plainURL is the URL of requests whose path and query do not matter. Its path has the text that the credential of a field may replace.
const plainURL = "https://api.test/v1/example/things?a=b"

const formType = "application/x-www-form-urlencoded"

func formRequest() *http.Request {
	return call{method: http.MethodPost, url: plainURL, header: http.Header{"Content-Type": {formType}}, body: "name=value"}.request()
}

// call is a request of a caller. By default, its method is GET.
type call struct {
	name, method, url string
	header            http.Header
	body              string
}

// request returns the request anew each time.
func (c call) request() *http.Request {
	r := hosttest.POST(c.url, c.body)
	r.Method = cmp.Or(c.method, http.MethodGet)
	maps.Copy(r.Header, c.header.Clone())
	return r
}

var calls = []call{
	{name: "a path of other alphabets", url: "https://api.test/" + alphabets + "/%E6%97%A5%2F%25%C3"},
	{name: "a query of odd characters", url: "https://api.test/q?a&a=&=b&&a=b=c&a=%2B+%20&b[]=1;c=2&%ff=%fe"},
	formCall("a form of other alphabets", "name=%E6%97%A5%F0%9F%94%91&n%C3%A4me=%C3%BC&x="+alphabets),
	bodyCall("a body that is no text", "\x00\xff\xfe\x80\n"),
	{name: "a path of odd characters", url: "https://api.test//a/;x=1/@:!$&'()*+,/%00/~._-"},
	{name: "an empty path", url: "https://api.test"},
	{name: "a query of other alphabets", url: "https://api.test/q?name=%E6%97%A5%F0%9F%94%91&n%C3%A4me=%C3%BC&x=" + alphabets},
	{name: "a query of many parameters", url: "https://api.test/q?" + strings.Repeat("name=value&", 200)},
	{name: "a long path", url: "https://api.test/" + strings.Repeat("segment/", 500)},
	{name: "headers of odd characters", url: "https://api.test/headers", header: http.Header{
		"X-Name": {alphabets, alphabets}, "X-Empty": {"", ""}, "X-Bytes": {"\xff\xfe", "\xff\xfe"},
		"Content-Type": {`text/plain; charset="` + alphabets + `"`, `text/plain; charset="` + alphabets + `"`},
	}},
	{name: "a long header", url: "https://api.test/headers", header: http.Header{
		"X-Long": {strings.Repeat("h", 2<<10), strings.Repeat("h", 2<<10)},
	}},
	bodyCall("a text of other alphabets", alphabets),
	bodyCall("a large body", strings.Repeat("0123456789", 20<<10)),
	formCall("a form of odd characters", "a&a=&=b&&a=b=c&a=%2B+%20&b[]=1&%ff=%fe"),
	formCall("an empty form", ""),
	{name: "a method of its own", method: "PROPFIND", url: "https://api.test/v1", body: "<xml/>"},
	{name: "a host in capitals, with a port", url: "https://API.test:8443/v1"},
}

func bodyCall(name, body string) call {
	return call{name: name, method: http.MethodPost, url: "https://api.test/v1", body: body}
}

func formCall(name, body string) call {
	return call{name: name, method: http.MethodPost, url: "https://api.test/form", header: http.Header{"Content-Type": {formType}}, body: body}
}

func (t *trial) unicode() {
	for i, config := range t.c.configs {
		for n, s := range calls {
			if i >= thorough && n%4 != i%4 {
				continue
			}
			got := t.send(fmt.Sprintf("configuration %d, %s", i+1, s.name), config, s.request())
			t.rules(got)
			if !got.authenticated() {
				continue
			}
			if difference := differs(s.request(), got.requests[len(got.requests)-1]); difference != "" {
				t.k.find("%s: %s", t.name, difference)
			}
		}
	}
}

// differs compares what a caller sent with what the API received, and returns what a mutation may not have changed.
func differs(want, got *http.Request) string {
	wantPath, gotPath := want.URL.EscapedPath(), got.URL.EscapedPath()
	switch {
	case want.Method != got.Method:
		return "the API received another method"
	case wantPath != gotPath && strings.TrimSuffix(wantPath, "/") != strings.TrimSuffix(gotPath, "/"):
		return "the API received another path"
	case !strings.HasPrefix(got.URL.RawQuery, want.URL.RawQuery):
		return "the API received another query"
	case !strings.HasPrefix(bodyOf(got), bodyOf(want)):
		return "the API received another body"
	}
	return ""
}
