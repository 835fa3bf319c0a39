package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/keywright/keywright/host/internal/connect"
	"github.com/keywright/keywright/host/internal/discovery"
	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/inputs"
	"github.com/keywright/keywright/host/internal/run"
	"github.com/keywright/keywright/host/internal/send"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/plugins"
)

// NewConnector checks a configuration and returns a connector for it. It makes no request to the API or a token endpoint, and reads no
// secret. If the configuration is invalid, the error is a [ConfigError] that lists all problems. After [Host.Close], it is [ErrClosed].
func (h *Host) NewConnector(ctx context.Context, config ConnectorConfig) (*Connector, error) {
	if err := h.shared.Gate.Enter(); err != nil {
		return nil, err
	}
	defer h.shared.Gate.Leave()
	d, err := h.dialerFor(config.Egress)
	base := h.input(&config)
	base.EgressError, base.AllowsHTTP, base.CheckURL = err, d.egress.AllowsHTTP, d.checkTokenURL
	if t := d.egress.TLS; t != nil {
		base.Presents = len(t.Certificates) > 0 || t.GetClientCertificate != nil
	}
	if n := len(config.Auth); n > connect.MaxAuth {
		return nil, authError(config.Name, "has %d authentications, and may have %d", n, connect.MaxAuth)
	} else if n == 0 {
		config.Auth = Auths{{}}
	}
	config.Auth = slices.Clone(config.Auth)
	var elements []*Connector
	var findings []connect.Findings
	var plans []*connect.Plan
	for i := range config.Auth {
		e, found := h.newElement(ctx, &config, i, *base, d)
		elements, findings, plans = append(elements, e), append(findings, found), append(plans, e.plan)
	}
	for i, p := range plans {
		if p.Plan != nil { // there is such a type
			findings[i].Problems = append(findings[i].Problems, p.SharedKeys(plans)...)
		}
	}
	findings[0].Problems = append(findings[0].Problems, connect.CheckSecrets(base, plans)...)
	if wrong := newConfigError(config.Name, findings); wrong != nil {
		return nil, wrong
	}
	main := max(0, slices.IndexFunc(elements, (*Connector).hasGrants))
	if slices.ContainsFunc(elements[main+1:], (*Connector).hasGrants) {
		return nil, authError(config.Name, "has two authentications with tokens that may be used once or with consent: one may have these")
	}
	c := elements[main]
	c.elements = elements
	var runners []*run.Runner
	for _, e := range elements {
		e.main = c
		e.plan.ExchangeTime /= time.Duration(len(elements)) // a request may wait for each
		e.plan.Limits.KeyRequests /= len(elements)
		h.finish(ctx, e, d)
		runners = append(runners, e.runner)
	}
	c.transport.Runners = runners
	return c, nil
}

func authError(connector, format string, args ...any) error {
	return &ConfigError{Connector: connector, Problems: []Problem{{Path: "auth", Message: fmt.Sprintf(format, args...)}}}
}

// newElement checks an authentication of a connector, and returns a connector of its own for it.
func (h *Host) newElement(ctx context.Context, config *ConnectorConfig, i int, in connect.Input, d *dialer) (*Connector, connect.Findings) {
	auth := &config.Auth[i]
	c := &Connector{host: h, config: *config, plugin: h.types[auth.Type]}
	in.Type, in.Values, in.Member, in.Later = auth.Type, auth.Config, "auth", i > 0
	if len(config.Auth) > 1 {
		c.path = fmt.Sprintf("auth[%d]", i)
		in.Member = c.path
	}
	if c.plugin == nil {
		in.NoPlugin = h.noType(auth.Type)
	} else {
		in.Plugin, in.Calls = &c.plugin.Plugin, h.newPlan(c, d)
	}
	plan, found := connect.Check(ctx, &in)
	if c.plan = plan; len(found.Problems) == 0 {
		*auth = Auth{c.plugin.info.Type, plan.Values}
	}
	c.auth = *auth
	return c, found
}

// hasGrants reports whether the authentication has states or consent.
func (c *Connector) hasGrants() bool { return c.plugin.info.Consent || len(c.plan.States) > 0 }

// finish makes what an authentication needs to run.
func (h *Host) finish(ctx context.Context, c *Connector, d *dialer) {
	plan := c.plan
	if len(plan.States) > 0 {
		c.node, plan.Turns = h.config.State.node, hostfn.Turns{Begin: turns{c}.begin, Error: turns{c}.error, NeverResend: c.config.NeverResend}
	}
	c.runner = h.newRunner(c)
	c.transport = h.newTransport(c, d)
	if plan.TLS != nil && plan.TLS.Token {
		plan.ClientOf = c.transport.TLS.Client
	}
	c.runner.Reader = h.newReader(c, d)
	if len(plan.Names.Identities) > 0 {
		plan.Renew = c.runner.Reader.ForExchange
	}
	for key := range connect.OtherKeys(plan) {
		h.signer.Uses.Add(key, c.config.Name)
	}
	for _, w := range plan.Warnings {
		c.log.warn(ctx, w.Path, w.Message)
	}
}

func (h *Host) input(c *ConnectorConfig) *connect.Input {
	return &connect.Input{
		Name: c.Name, Origins: c.Origins, Hosts: c.Hosts, HostsShareSecrets: c.HostsShareSecrets,
		TLS: (*connect.TLSConfig)(c.TLS), BodyBytes: c.BodyBytes,
		Timeout: c.Timeout, RefreshAhead: c.RefreshAhead, NeverResend: c.NeverResend, CrossOriginRedirects: c.CrossOriginRedirects,
		Base: h.config.Base != nil, PKCS12: h.config.PKCS12 != nil, State: h.config.State != nil,
		UserTokenHosts: h.userTokenHosts, IdentityHosts: h.identityHosts, Variables: h.config.Variables, CallTime: h.config.Limits.CallTime, Salt: h.cache.salt,
	}
}

// newConfigError returns the problems of a connector's authentications, or nil. That a member is of no use counts only if it is for all.
func newConfigError(connector string, all []connect.Findings) error {
	wrong := &ConfigError{Connector: connector}
	for i, found := range all {
		wrong.More += found.More
		for _, p := range found.Problems {
			lacks := func(f connect.Findings) bool {
				return !slices.ContainsFunc(f.Problems, func(o problem.Problem) bool { return o.Path == p.Path })
			}
			isOfUse := slices.Contains([]string{"refresh_ahead", "resend", "hosts"}, p.Path) && (i > 0 || slices.ContainsFunc(all, lacks))
			if one := (Problem{p.Path, p.Column, p.Message, p.Code}); !isOfUse && !slices.Contains(wrong.Problems, one) {
				wrong.Problems = append(wrong.Problems, one)
			}
		}
		if found.Failure != nil {
			wrong.Failure = PluginFailure(run.FailureOf(found.Failure))
		}
	}
	if len(wrong.Problems) == 0 {
		return nil
	}
	return wrong
}

var bareOAuth = regexp.MustCompile(`^(?i:oauth)[-_]?(?:2|2\.0|20)?$`)

func (h *Host) newRunner(c *Connector) *run.Runner {
	rn := &run.Runner{
		Shared: &h.shared, Plan: c.plan, Events: &c.events,
		Run: c.plugin.run, Deterministic: c.plugin.deterministic, RefreshAhead: c.config.RefreshAhead,
		Fail:     func(stage string, err error) error { return c.fail(Stage(stage), err) },
		OverTime: func(err error) error { return c.plugin.overTime(c.plan.ExchangeTime, err) },
		Seldom:   func(ctx context.Context, text string) { c.log.seldom(ctx, text) },
	}
	if c.plugin.info.Consent {
		rn.GrantName = c.grantName
	}
	if explain := h.hooks.Explain; explain != nil {
		rn.Explain = func(call *hostfn.Call, output []byte, err error) { explain(c.explanation(call, output, err)) }
	}
	return rn
}

func (h *Host) newTransport(c *Connector, d *dialer) *send.Transport {
	t := &send.Transport{
		Runner: c.runner, Fail: func(stage string, err error) error {
			failed := c.fail(Stage(stage), err)
			failed.AuthType, failed.Path = c.config.Auth.Type(), ""
			return failed
		},
		CrossOriginRedirects: c.config.CrossOriginRedirects, UserAgent: h.config.UserAgent,
		BodyBytes: cmp.Or(c.config.BodyBytes, h.config.Limits.BodyBytes),
		API:       d.api, Warn: c.log.warn,
	}
	if c.plan.TLS != nil {
		key := sha256.Sum256(fmt.Appendf(nil, "%q %q", c.config.Name, *c.config.TLS))
		last, ok := h.cache.certificates.Get(key)
		if !ok {
			last = &atomic.Pointer[ClientCertificate]{}
			if current, there, _ := h.cache.certificates.PeekOrAdd(key, last); there {
				last = current
			}
		}
		t.TLS = &send.TLS{Plan: c.plan, Policy: d.egress.policy(), PKCS12: h.config.PKCS12, Identities: h.identities, Warn: c.log.warn, Last: last}
	}
	return t
}

func (h *Host) newReader(c *Connector, d *dialer) *inputs.Reader {
	r := &inputs.Reader{
		Plan: c.plan, Secrets: h.config.Secrets, Variables: h.config.Variables, OwnedVariables: h.config.OwnedVariables, Events: &c.events, Documents: h.cache.documents, Identity: h.identity,
		Asker: discovery.Asker{
			UserAgent: h.userAgent(), Time: c.plan.ExchangeTime, Bytes: h.config.Limits.TokenBytes, Codings: h.config.ContentCodings,
			HTTP: d.egress.AllowsHTTP, AcquireSlot: c.runner.AcquireSlot, Go: h.shared.Gate.Go, Changed: c.log.metadata,
		},
	}
	if t := c.plan.TLS; t != nil && t.Token {
		r.TLS = c.transport.TLS.Texts
		r.Asker.Mutual = t.Templates[connect.Certificate] != nil || t.Templates[connect.PKCS12] != nil
	}
	if e := c.config.Egress; e != nil {
		r.Egress = keyOfEgress(*e).text
	}
	return r
}

// noType returns what is wrong with an auth type that the host does not have. A built-in one can be added.
func (h *Host) noType(name string) string {
	types := plugins.Types()
	if slices.Contains(types, name) {
		return fmt.Sprintf("this host does not have the auth type %q: add its module, from package plugins, to Config.Plugins", name)
	}
	if bareOAuth.MatchString(name) {
		return fmt.Sprintf("there is no auth type %q, since OAuth 2.0 has one for each way to a token: oauth_client_credentials with the client's own "+
			"secret, oauth_authorization_code with the consent of each user, oauth_refresh_token with a token that somebody has got, "+
			"oauth_jwt_bearer with a signed assertion, oauth_password with a password, token_exchange with the caller's token", name)
	}
	types = slices.AppendSeq(types, maps.Keys(h.types))
	slices.Sort(types)
	return fmt.Sprintf("there is no auth type %q%s", Printable(name), problem.DidYouMean(name, slices.Compact(types)))
}

// newPlan returns what the host adds to the plan of a connector, and sets the log and the events of the connector.
func (h *Host) newPlan(c *Connector, d *dialer) *hostfn.Plan {
	c.log = &connectorLog{
		logger: h.config.Logger, report: h.config.Warn, clock: h.config.Clock, connector: c.config.Name, authType: c.plugin.info.Type,
	}
	if tracer := h.config.Tracer; tracer != nil {
		c.events.Begin = spans{c, tracer}.begin
	}
	if observe := h.config.Observe; observe != nil {
		c.events.Observe = func(ctx context.Context, a event.Attempt, err error) { observe(ctx, attemptOf(c, &a, err)) }
	}
	limit := cmp.Or(c.config.Timeout, h.config.Limits.CallTime)
	if own := c.plugin.info.Limits.CallTime; own > 0 {
		limit = min(limit, own)
	}
	plan := &hostfn.Plan{
		Codings: h.config.ContentCodings, Tokens: h.cache.tokens, Signer: h.signer, KeySecret: h.cache.keySecret,
		Client: d.tokens, UserAgent: h.userAgent(), Clock: h.config.Clock, Random: h.config.Random,
		Log: c.log.line, Warn: c.log.warn, Events: &c.events,
		GuestWarns: func(ctx context.Context, text string) { c.log.once(ctx, &c.log.guestWarned, Problem{Message: text}) },
		Refused:    func(ctx context.Context, host, text string) { c.log.seldom(ctx, text, slog.String("endpoint", host)) },
		Revealed:   h.hooks.Reveal, Explains: h.hooks.Explain != nil, RandomText: h.hooks.Random, Keys: h.config.Keys,
		Limits: limitsFor[hostfn.Limits](c.plugin.limits), ExchangeTime: limit,
	}
	return plan
}
