package conform

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/testworld"
)

type conformer struct {
	ctx    context.Context
	module hosttest.Module
	info   host.PluginInfo
	report *Report
	// callers are the configurations of the caller. configs are those that the plugin has accepted.
	callers, configs []hosttest.Config
	// challenge is that of the description, or zero.
	challenge abi.Challenge
	secrets   map[string]string
	// exchanges is the number of exchanges of a first request, by the index of the configuration.
	exchanges []int
	// firsts are the results of the configurations in a new host.
	firsts []*result
	fuels  []int64
	// leaks has the leaks of all cases, and cases is the number of cases.
	leaks []string
	cases int
}

func newConformer(ctx context.Context, m hosttest.Module, configs []hosttest.Config) *conformer {
	return &conformer{
		ctx: ctx, module: m, callers: configs, secrets: map[string]string{},
		report: &Report{Name: m.Name, Checks: []Check{}, Configs: []hosttest.Config{}},
	}
}

// trial is a host with the module, for the cases of a check.
type trial struct {
	*hosttest.Harness
	testworld.Trial
	c  *conformer
	k  *checking
	tb *testworld.Collector
	// n is the number of cases so far, name is the name of the case, and seed that of the host.
	n          int
	name, seed string
	// answers are those of the endpoints in the next case, in order. Later requests get the last one.
	answers []hosttest.Answer
	// user is the user of the next case, with an ID of the case in place of the ID.
	user host.User
	// examples are the values that errors of fields have named, by field.
	examples map[string][]string
}

// trial calls do with a new host.
func (c *conformer) trial(k *checking, seed string, do func(t *trial)) {
	t := &trial{c: c, k: k, tb: &testworld.Collector{}, seed: seed, user: c.user(), examples: map[string][]string{}}
	t.tb.Run(func() {
		t.Harness = hosttest.New(t.tb, seed, c.module)
		t.Trial = testworld.NewTrial(t.Harness)
		if len(c.callers) > 0 {
			t.AllowHTTP()
		}
		t.UserTokenHosts(found(hostName, c.callers)...)
		for _, name := range found(variableName, c.callers) {
			t.Variable(name, "example")
		}
		for name, value := range c.secrets {
			t.HideSecret(name, value)
		}
		t.Description() // makes the host
		do(t)
	})
	for _, text := range failures(t.tb) {
		k.find("%s", text)
	}
	t.tb.End()
	c.leaks = append(c.leaks, failures(t.tb)...)
}

// failures returns the failures since it was last called.
func failures(c *testworld.Collector) []string {
	texts := c.Failures()
	for i := range texts {
		texts[i] = strings.TrimPrefix(texts[i], "hosttest: ")
	}
	return texts
}

func (c *conformer) user() host.User {
	return host.User{
		Email: "ann@example.test", Username: "ann", FirstName: "Ann", LastName: "Example", TenantID: "tenant",
		Token: c.secret("the user's token"), TokenExpires: tokensEnd,
	}
}

// secret returns the secret of a name, which it makes up if there is none.
func (c *conformer) secret(name string) string {
	if c.secrets[name] == "" {
		c.secrets[name] = "s" + rand.Text()
	}
	return c.secrets[name]
}

type result struct {
	// requests are the requests that the API received, and exchanges the token requests, for the last request of the case.
	requests  []*http.Request
	exchanges []hosttest.Exchange
	err       error
	// problems are those of the configuration, which the error lists.
	problems []host.Problem
	// fuel is that of each attempt, and failure the last failure of the plugin.
	fuel    []int64
	failure host.PluginFailure
	// wrong says what no plugin should do, or is empty.
	wrong string
	// texts has each request of the case as the API received it.
	texts []string
}

// authenticated reports whether a request was sent, without an error.
func (r *result) authenticated() bool { return r.err == nil && len(r.requests) > 0 }

// text returns what the API received of the last request, without signatures, and the error.
func (r *result) text() string {
	var text string
	for _, request := range r.requests {
		text += longText.ReplaceAllString(asText(request), "<long>")
	}
	if r.err != nil {
		text += r.err.Error()
	}
	return text
}

// send sends requests with a configuration, as one case with a connector of its own. It adds a finding for what no plugin should do.
func (t *trial) send(name string, config hosttest.Config, requests ...*http.Request) *result {
	if t.c.ctx.Err() != nil {
		runtime.Goexit()
	}
	t.n++
	t.c.cases++
	t.k.Cases++
	t.name, t.user.ID = name, fmt.Sprintf("user-%d", t.n)
	t.Begin(fmt.Sprintf("case%d", t.n))
	t.As(t.user)
	answers := t.answers
	if answers == nil {
		answers = []hosttest.Answer{t.c.issued(t.n)}
	}
	t.TokenEndpoint("*", answers...)
	r := &result{}
	returned := t.tb.Run(func() {
		if t.c.info.Consent {
			if r.err = t.consent(config); r.err != nil {
				return
			}
		}
		for _, request := range requests {
			t.Reseed(fmt.Sprint(t.seed, t.n, t.name))
			exchanges := len(t.Exchanges())
			got, err := t.Try(config, request)
			if r.err, r.requests = err, nil; got != nil {
				r.requests = got.Requests
			}
			r.exchanges = t.Exchanges()[exchanges:]
			r.texts = append(r.texts, r.text())
		}
	})
	t.end(r, returned)
	return r
}

// end ends a case: it collects what has happened, and searches it.
func (t *trial) end(r *result, returned bool) {
	for _, a := range t.Calls() {
		r.fuel, r.failure = append(r.fuel, a.Fuel), cmp.Or(a.Failure, r.failure)
		if a.Runs > 0 && a.Failure != host.FailureFuel {
			t.c.fuels = append(t.c.fuels, a.MostFuel)
		}
	}
	texts := failures(t.tb)
	invalid := &host.ConfigError{}
	errors.As(r.err, &invalid)
	r.problems = invalid.Problems
	switch r.wrong = failed(r.failure); {
	case r.wrong != "":
	case failed(invalid.Failure) != "":
		r.wrong = failed(invalid.Failure) + " in validate"
	case len(texts) > 0:
		r.wrong = strings.Join(texts, "; ")
	case !returned:
		r.wrong = "the case did not end"
	}
	if r.wrong != "" {
		t.k.find("%s: %s", t.name, r.wrong)
	}
	leaks := t.End()
	if t.Dropped(r.err) && t.k.Name != "values" { // there, plain fields have secrets
		leaks = append(leaks, "the host has dropped the text of an error, which held a sealed value or is not UTF-8: write errors without values of the configuration and of answers")
	}
	for _, leak := range leaks {
		t.c.leaks = append(t.c.leaks, fmt.Sprintf("%s, %s: %s", t.k.Name, t.name, leak))
	}
}

func (t *trial) consent(config hosttest.Config) error {
	return t.Consent(config, func(*url.URL) url.Values {
		parameter, _ := config["callback_code_parameter"].(string)
		answer := url.Values{cmp.Or(parameter, "code"): {fmt.Sprintf("code-case%d-%s", t.n, t.c.secret("code"))}}
		if issuer, ok := config["issuer"].(string); ok {
			answer.Set("iss", issuer)
		}
		return answer
	})
}

// failed returns the way in which the plugin failed, if it is one that no plugin should fail in, and "" otherwise.
func failed(f host.PluginFailure) string {
	switch f {
	case host.FailureTrap:
		return "the plugin trapped"
	case host.FailureFuel, host.FailureMemory, host.FailureTime:
		return "the plugin ran out of " + string(f)
	}
	return ""
}
