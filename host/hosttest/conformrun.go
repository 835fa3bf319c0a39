package hosttest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	randv2 "math/rand/v2"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/internal/hostfn"
)

// conformer checks one module.
type conformer struct {
	ctx    context.Context
	module Module
	info   host.PluginInfo
	report *Report
	// given are the configurations of the caller. configs are those that the plugin has accepted.
	given, configs []Config
	// secrets are the secrets that templates name.
	secrets map[string]string
	// exchanges is the number of exchanges of a first request, by the index of the configuration.
	exchanges []int
	// firsts are the traces of the configurations in a new host.
	firsts []trace
	// used has the fuel of each request.
	used []int64
	// leaked has the leaks of all trials, and cases is the number of their cases.
	leaked []string
	cases  int
}

func newConformer(ctx context.Context, m Module, given []Config) *conformer {
	return &conformer{ctx: ctx, module: m, given: given, secrets: map[string]string{}, report: &Report{Name: m.Name, Checks: []Check{}, Configs: []Config{}}}
}

// failuresOf returns the failures since it was last called.
func failuresOf(c *Collector) []string {
	texts := c.Failures()
	for i := range texts {
		texts[i] = strings.TrimPrefix(texts[i], "hosttest: ")
	}
	return texts
}

// trial is a host with the module, for the cases of a check.
type trial struct {
	*Harness
	c  *conformer
	k  *checking
	tb *Collector
	// keep is the number of needles that hold for all cases.
	keep int
	// n is the number of cases so far.
	n int
	// name is the name of the case.
	name string
	// seed is that of the host, and random is the source of its randomness.
	seed   string
	random *locked
	// answers are those of the endpoints in the next case, in order. Later requests get the last one.
	answers []Answer
	// user is the user of the next case, with an ID of the case in place of the ID.
	user host.User
}

// trial calls do with a new host.
func (c *conformer) trial(k *checking, seed string, do func(t *trial)) {
	t := &trial{c: c, k: k, tb: &Collector{}, seed: seed, random: &locked{}, user: c.caller()}
	t.tb.Run(func() {
		t.Harness = New(t.tb, seed, c.module)
		t.fixedRandom, t.http, t.tokenHosts, t.Harness.random = true, len(c.given) > 0, hostsOf(c.given), t.random
		t.reseed()
		for _, name := range variables(c.given) {
			t.variables[name] = "example"
		}
		for name, value := range c.secrets {
			t.secrets[name] = value
			t.evidence.secret(fmt.Sprintf("secret %q", name), searched(value))
		}
		t.keep = len(t.evidence.needles)
		t.live()
		do(t)
	})
	for _, text := range failuresOf(t.tb) {
		k.find("%s", text)
	}
	t.tb.End()
	c.leaked = append(c.leaked, failuresOf(t.tb)...)
}

// reseed has the host's randomness begin anew, as for each request of this case, also in another host with the same seed.
func (t *trial) reseed() {
	t.random.mu.Lock()
	defer t.random.mu.Unlock()
	t.random.reader = randv2.NewChaCha8(sha256.Sum256(fmt.Append(nil, t.seed, t.n, t.name)))
}

// caller returns the user of the requests.
func (c *conformer) caller() host.User {
	return host.User{
		Email: "ann@example.test", Username: "ann", FirstName: "Ann", LastName: "Example", TenantID: "tenant",
		Token: c.secret("the user's token"), TokenExpires: conformTime.Add(time.Hour),
	}
}

// searched returns the part of a secret that is searched for: of a key one line, since there are hundreds of cases.
func searched(value string) string {
	if lines := strings.Split(value, "\n"); strings.HasPrefix(value, "-----BEGIN ") && len(lines) > 2 {
		return lines[len(lines)/2]
	}
	return value
}

// result is the result of a case.
type result struct {
	sent      []*http.Request
	exchanges []Exchange
	attempts  []host.Attempt
	err       error
	// wrong says what no plugin should do, or is empty.
	wrong string
	// each has the last request that the API received, for each request of the case.
	each []string
}

// authenticated reports whether a request was sent, without an error.
func (r *result) authenticated() bool { return r.err == nil && len(r.sent) > 0 }

// failure returns the last failure of the plugin.
func (r *result) failure() host.PluginFailure {
	for _, a := range slices.Backward(r.attempts) {
		if a.Failure != "" {
			return a.Failure
		}
	}
	return ""
}

// send sends requests with a configuration, all as one case with a connector of its own, and returns the result of the last. It
// adds a finding if the plugin does what no plugin should do.
func (t *trial) send(name string, config Config, requests ...*http.Request) *result {
	if t.c.ctx.Err() != nil {
		runtime.Goexit()
	}
	t.begin(name)
	r := &result{}
	returned := t.tb.Run(func() {
		if t.c.info.Consent {
			if _, r.err = t.connect(config, requests[0]); r.err != nil {
				return
			}
			if r.err = t.consent(config); r.err != nil {
				return
			}
		}
		for _, request := range requests {
			t.reseed()
			var got *Result
			before := len(t.Exchanges())
			got, r.err = t.Try(config, request)
			if r.sent = nil; got != nil {
				r.sent = got.all
			}
			r.exchanges = t.Exchanges()[before:]
			r.each = append(r.each, r.trace().request)
		}
	})
	t.end(r, returned)
	return r
}

// begin prepares a case.
func (t *trial) begin(name string) {
	t.n++
	t.c.cases++
	t.k.Cases++
	t.mu.Lock()
	defer t.mu.Unlock()
	t.name = name
	t.connection = fmt.Sprintf("case%d", t.n)
	t.user.ID = fmt.Sprintf("user-%d", t.n)
	t.Harness.user = t.user
	answers := t.answers
	if answers == nil {
		answers = []Answer{t.c.issued(t.n)}
	}
	t.endpoints[anyEndpoint] = newScript(answers...)
}

// end ends a case: it collects what has happened, and searches it.
func (t *trial) end(r *result, returned bool) {
	r.attempts = t.Calls()
	for _, a := range r.attempts {
		if a.Runs > 0 && a.Failure != host.FailureFuel {
			t.c.used = append(t.c.used, a.MostFuel)
		}
	}
	r.wrong = failed(r.failure())
	if wrong := failed(failureOf(r.err)); wrong != "" {
		r.wrong = wrong + " in validate"
	}
	if texts := failuresOf(t.tb); len(texts) > 0 && r.wrong == "" {
		r.wrong = strings.Join(texts, "; ")
	} else if !returned && r.wrong == "" {
		r.wrong = "the case did not end"
	}
	if r.wrong != "" {
		t.k.find("%s: %s", t.name, r.wrong)
	}
	t.mu.Lock()
	t.searchLogs()
	t.logs, t.calls, t.exchanges = nil, nil, nil
	clear(t.connectors)
	t.mu.Unlock()
	leaks := t.evidence.settle(t.keep)
	if errors.Is(r.err, hostfn.ErrDropped) && t.k.Name != "values" { // there, plain fields have secrets
		leaks = append(leaks, "the host has dropped the text of an error, which held a sealed value or is not UTF-8: write errors without values of the configuration and of answers")
	}
	for _, leak := range leaks {
		t.c.leaked = append(t.c.leaked, fmt.Sprintf("%s, %s: %s", t.k.Name, t.name, leak))
	}
}

// consent has the user of the case give consent.
func (t *trial) consent(config Config) error {
	return t.Consent(config, func(*url.URL) url.Values {
		answer := url.Values{"code": {"code-" + t.connection + "-" + t.c.secret("code")}}
		parameter, _ := config["callback_code_parameter"].(string)
		if parameter != "" {
			answer = url.Values{parameter: answer["code"]}
		}
		if issuer, ok := config["issuer"].(string); ok {
			answer.Set("iss", issuer)
		}
		return answer
	})
}

// secret returns the secret of a name, which it makes up if there is none.
func (c *conformer) secret(name string) string {
	if c.secrets[name] == "" {
		c.secrets[name] = "s" + rand.Text()
	}
	return c.secrets[name]
}

// contract checks that the module is loaded, and that its description is the same each time.
func (c *conformer) contract(k *checking) {
	var first string
	for i := range 2 {
		k.Cases++
		info, err := host.Inspect(c.ctx, host.Plugin{Name: c.module.Name, Wasm: c.module.Wasm}, host.Limits{})
		if err != nil {
			k.find("the module is not loaded: %v", err)
			return
		}
		text, err := json.Marshal(info.Description)
		if err != nil {
			k.find("the description is not JSON: %v", err)
		}
		if i == 0 {
			first = string(text)
		} else if string(text) != first {
			k.find("describe has another output each time: return the same, without the time and random bytes")
		}
		c.info = info
	}
	if !builtIn(c.module.Wasm) {
		tb := &Collector{}
		(&Harness{tb: tb}).checkType(c.info)
		for _, text := range failuresOf(tb) {
			k.find("%s", text)
		}
	}
	c.report.Type, c.report.Version, c.report.Contract = c.info.Type, c.info.Version, c.info.ABI
}

// leaks reports the leaks of all cases.
func (c *conformer) leaks(k *checking) {
	k.Cases = c.cases
	for _, leak := range c.leaked {
		k.find("%s", leak)
	}
}

// fuel checks that the request that needed most left a part of the fuel.
func (c *conformer) fuel(k *checking) {
	work := c.work()
	k.Cases = len(c.used)
	k.Tried = fmt.Sprintf("the request that needs most leaves %d %% of the fuel; %d %% is enough", 100-100*work.Worst/work.Limit, 100/fuelReserve)
	if work.Worst > work.Limit-work.Limit/fuelReserve {
		k.find("a request needed %d of %d units of fuel: make the plugin do less, since a request that is a little larger fails", work.Worst, work.Limit)
	}
}

// fuelReserve is the part of the fuel that the request that needs most has to leave: a tenth.
const fuelReserve = 10

// stage returns the stage of a request's error, or "".
func stage(err error) host.Stage {
	var failure *host.Error
	if errors.As(err, &failure) {
		return failure.Stage
	}
	return ""
}

// sealedFields returns the fields whose whole value is a secret text.
func (c *conformer) sealedFields() (fields []abi.Field) {
	for _, f := range c.info.Fields {
		if f.Sealed && f.Kind == abi.KindString {
			fields = append(fields, f)
		}
	}
	return fields
}
