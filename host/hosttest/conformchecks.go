package hosttest

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
)

// longText matches texts as long as a signature. Those of ECDSA and RSASSA-PSS are others each time.
var longText = regexp.MustCompile(`[A-Za-z0-9+/_-]{60,}={0,2}`)

// asText returns a request as a text, without its signatures.
func asText(r *http.Request) string {
	var b strings.Builder
	fmt.Fprintln(&b, r.Method, r.URL)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		fmt.Fprintln(&b, name, r.Header[name])
	}
	b.WriteString(bodyOf(r))
	return longText.ReplaceAllString(b.String(), "<long>")
}

// bodyOf returns the body of a request that the API or an endpoint received.
func bodyOf(r *http.Request) string {
	if r.Body == nil {
		return ""
	}
	body, _ := io.ReadAll(r.Body) // from memory
	r.Body = io.NopCloser(bytes.NewReader(body))
	return string(body)
}

// trace has the request and the fuel of a case.
type trace struct {
	request string
	fuel    []int64
}

func (r *result) trace() trace {
	var t trace
	for _, sent := range r.sent {
		t.request += asText(sent)
	}
	for _, a := range r.attempts {
		t.fuel = append(t.fuel, a.Fuel)
	}
	if r.err != nil {
		t.request += r.err.Error()
	}
	return t
}

// sampleRequest returns a request with a body.
func sampleRequest() *http.Request {
	r := POST(conformURL, "name=value")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

// traces returns the trace of each configuration, in a new host. The host makes references and generated keys from the seed. order
// has the indexes of the configurations, in the order in which they are tried.
func (c *conformer) traces(k *checking, seed string, order []int) []trace {
	all := make([]trace, len(c.configs))
	c.trial(k, seed, func(t *trial) {
		for _, i := range order {
			t.n = i // so that the connector has the same name
			all[i] = t.send(fmt.Sprintf("configuration %d", i+1), c.configs[i], sampleRequest()).trace()
		}
	})
	return all
}

func (c *conformer) order() (order []int) {
	for i := range c.configs {
		order = append(order, i)
	}
	return order
}

// usesWASI reports whether the plugin may read random bytes of WASI.
func (c *conformer) usesWASI() bool {
	return slices.ContainsFunc(c.info.Imports, func(name string) bool {
		module, function, _ := strings.Cut(name, ".")
		return module == abi.ModuleWASI && function != "fd_write"
	})
}

// determinism compares the requests and the fuel of two hosts, which differ in their references only.
func (c *conformer) determinism(k *checking) {
	first := c.traces(k, "first host", c.order())
	c.firsts = first
	seed := "second host"
	if c.usesWASI() { // its random bytes come from the same source as the references
		seed = "first host"
	}
	second := c.traces(k, seed, c.order())
	for i := range first {
		switch {
		case first[i].request != second[i].request:
			k.find("configuration %d: the request differs in two hosts with the same inputs: take random bytes from random, and none from references", i+1)
		case !slices.Equal(first[i].fuel, second[i].fuel):
			k.find("configuration %d: the fuel is %d and %d with the same inputs", i+1, first[i].fuel, second[i].fuel)
		}
	}
}

// pristine compares the requests of a host with those after other requests.
func (c *conformer) pristine(k *checking) {
	order := c.order()
	slices.Reverse(order)
	for i, after := range c.traces(k, "first host", order) {
		if after.request != c.firsts[i].request {
			k.find("configuration %d: the request differs after requests of other configurations", i+1)
		}
	}
	c.trial(k, "repeated", func(t *trial) {
		for i, config := range c.configs {
			each := t.send(fmt.Sprintf("configuration %d, three requests", i+1), config, sampleRequest(), sampleRequest(), sampleRequest()).each
			if len(each) == 3 && each[1] != each[2] {
				k.find("configuration %d: the third of three equal requests differs from the second: a request may not depend on others", i+1)
			}
		}
	})
}

// challenges has the API refuse requests.
func (c *conformer) challenges(k *checking) {
	statuses := []int{http.StatusUnauthorized}
	if c.info.Challenge != nil {
		for _, status := range c.info.Challenge.Statuses {
			if !slices.Contains(statuses, status) {
				statuses = append(statuses, status)
			}
		}
	}
	c.trial(k, "challenges", func(t *trial) {
		for i, config := range c.configs[:min(thorough, len(c.configs))] {
			for _, status := range statuses {
				for _, odd := range c.refusals(status) {
					t.API(odd.answer)
					name := fmt.Sprintf("configuration %d, %d %s", i+1, status, odd.name)
					c.repeated(k, t, status, t.send(name, config, sampleRequest()))
					t.send(name+", to two requests", config, sampleRequest(), sampleRequest())
				}
			}
		}
	})
}

// repeated adds a finding if the API received a request again as it was, or more than twice.
func (c *conformer) repeated(k *checking, t *trial, status int, got *result) {
	if len(got.sent) > 2 {
		k.find("%s: the API received the request %d times", t.name, len(got.sent))
	}
	asked := c.info.Challenge != nil && slices.Contains(c.info.Challenge.Statuses, status) // otherwise the host alone decides
	if asked && len(got.sent) == 2 && exactly(got.sent[0]) == exactly(got.sent[1]) {
		k.find("%s: a request that the API has refused was sent again as it was: let the API's answer pass", t.name)
	}
}

// exactly returns a request as a text, with its signatures.
func exactly(r *http.Request) string {
	return fmt.Sprint(r.Method, r.URL, r.Header, bodyOf(r))
}

// refusals returns answers of an API that refuses.
func (c *conformer) refusals(status int) []named {
	wanted := func(body string) Answer {
		count := 0
		return func(r *http.Request) (*http.Response, error) {
			count++
			w := &writer{header: http.Header{}, tree: map[string]any{}, token: func(what string) string { return fmt.Sprintf("%s-%d", what, count) }}
			if c.info.Challenge != nil {
				for i := range c.info.Challenge.Answers {
					w.put(&c.info.Challenge.Answers[i], c.sources(&c.info.Challenge.Answers[i])...)
				}
			}
			response := w.response(r, status)
			if body != "" {
				response.Body = io.NopCloser(strings.NewReader(body))
			}
			return response, nil
		}
	}
	all := []named{
		{"without a challenge", reply(status, "")},
		{"with all that the plugin wants", wanted("")},
		{"with all that the plugin wants in headers, and a page", wanted(page)},
		{"with a large body", reply(status, `{"error":"`+strings.Repeat("x", 200<<10)+`"}`)},
		{"with half of an object", reply(status, `{"error":{"code":`)},
		{"with another time", reply(status, "", "Date", conformTime.AddDate(10, 0, 0).Format(http.TimeFormat))},
		{"with a time that is none", reply(status, "", "Date", "yesterday")},
	}
	for _, challenge := range []string{
		"", "Digest", "Digest realm", `Digest realm="`, `Digest nonce=""`, `Digest nonce="n", qop="none", algorithm=MD4`, `Digest nonce="n", algorithm=SHA-256, stale=maybe`,
		`Digest realm="a\"b", nonce="` + strings.Repeat("n", 4<<10) + `", qop="auth"`, `Digest realm="日本語", nonce="é", opaque="🔑", charset=UTF-8`,
		`Bearer error="invalid_token", error_description="` + strings.Repeat(`\"`, 200) + `"`, `DPoP error="use_dpop_nonce"`,
		"Basic realm=a, Basic realm=b, Digest nonce=c, Digest nonce=d, ,,,", strings.Repeat("X a=b, ", 500), "\xff\xfe=", "===, \"\"",
	} {
		all = append(all, named{fmt.Sprintf("with the challenge %.40q", challenge), reply(status, "", "WWW-Authenticate", challenge, "Authentication-Info", challenge, "DPoP-Nonce", challenge)})
	}
	return all
}

// thorough is the number of configurations that get each case: the one with the fields that are needed, and the one with all. The
// others differ in the value of one field, and get some of the cases.
const thorough = 2

// endpoints has the endpoints fail.
func (c *conformer) endpoints(k *checking) {
	c.trial(k, "endpoints", func(t *trial) {
		for i, config := range c.configs {
			for step := range c.exchanges[i] {
				answers := nonsense()
				if i >= thorough {
					answers = answers[:3]
				}
				for _, odd := range answers {
					got := t.asked(i, config, step, odd)
					c.refused(k, t, got, step)
				}
				if i >= thorough {
					continue
				}
				for _, odd := range c.oddities(t.n + 1) {
					got := t.asked(i, config, step, odd)
					c.asksForEver(k, t, got)
				}
			}
		}
	})
}

// asked sends a request whose exchange number step gets an answer. The exchanges before it succeed.
func (t *trial) asked(i int, config Config, step int, odd named) *result {
	t.answers = append(slices.Repeat([]Answer{t.c.issued(t.n + 1)}, step), odd.answer)
	defer func() { t.answers = nil }()
	return t.send(fmt.Sprintf("configuration %d, exchange %d answers %s", i+1, step+1, odd.name), config, sampleRequest())
}

// refused adds a finding if a request was sent although the endpoint issued nothing.
func (c *conformer) refused(k *checking, t *trial, got *result, step int) {
	c.asksForEver(k, t, got)
	if len(got.exchanges) > step && len(got.sent) > 0 {
		k.find("%s: a request was sent, although there is no token: return an error", t.name)
	}
}

// asksForEver adds a finding if only the host's limit has ended the token requests of a call, or if the call broke another rule.
func (c *conformer) asksForEver(k *checking, t *trial, got *result) {
	if got.wrong == "" && got.failure() == host.FailureAnswer && stage(got.err) == host.StagePlugin {
		k.find("%s: %v", t.name, got.err)
	}
}
