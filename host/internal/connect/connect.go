// Package connect checks the configuration of a connector against the description of its auth type, and makes its plan. It knows no
// host: an [Input] has what a host offers its connectors.
package connect

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/describe"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/request"
	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/printable"
	"github.com/keywright/keywright/internal/problem"
)

// Plugin is a plugin that a host has loaded.
type Plugin struct {
	*describe.Type
	Description *abi.Description
	Guest       sandbox.Guest
	// Digest is the SHA-256 of the module.
	Digest [32]byte
	Grants map[string]bool
	// CallTime limits the time of a call.
	CallTime time.Duration
}

// Input is a configuration to check, and what its host offers.
type Input struct {
	// Each of these means what the field of host.ConnectorConfig with the same name means, but for Type, which is the auth type or an
	// alias of it, and Values, which has the fields of its configuration.
	Name                  string
	Origins, Hosts        []string
	HostsShareSecrets     bool
	Type                  string
	Values                map[string]any
	TLS                   *TLSConfig
	Timeout, RefreshAhead time.Duration
	NeverResend           bool
	CrossOriginRedirects  bool
	BodyBytes             int64

	// Member is the path of the authentication in the configuration: auth, or auth[1] for the second of a list. Later is set if others run
	// before it.
	Member string
	Later  bool
	// Plugin is the plugin of the auth type. If it is nil, NoPlugin says what is wrong with the name.
	Plugin   *Plugin
	NoPlugin string
	// Calls is the part of a plan that the calls of all connectors share. Check adds this connector's part. Its Warn gets paths.
	Calls *hostfn.Plan
	// EgressError is the error of the connector's own egress, or nil.
	EgressError error
	AllowsHTTP  func(*url.URL) bool
	// CheckURL returns an error if a text is not valid for a field of kind url.
	CheckURL func(text string) error
	// Presents reports whether the egress has a client certificate.
	Presents bool
	// Base, PKCS12 and State report whether the host has these: a transport in place of its own, a reader of PKCS #12, and a store.
	Base, PKCS12, State bool
	UserTokenHosts      HostList
	// IdentityHosts returns the hosts that may get the tokens of an identity for an audience.
	IdentityHosts func(name, audience string) []string
	Variables     map[string]string
	// CallTime is the host's limit of the time of a call.
	CallTime time.Duration
	// Salt is part of each partition.
	Salt [32]byte
}

// Plan is shared by all requests of a connector. It is not changed once NewConnector has returned.
type Plan struct {
	// Plan is the plan of its calls.
	*hostfn.Plan
	// Values has the fields of the configuration, by their names in place of aliases.
	Values  map[string]any
	Origins request.Origins
	// TLS is nil if the connector has no TLS of its own.
	TLS *TLS
	// GrantOwner is the scope of the grant of the connector's states, and Renewal says how to renew it.
	GrantOwner GrantOwner
	Renewal    string
	// SecretFields is the path of the first field that names a secret or an identity, by its name or its call, for errors.
	SecretFields map[string]string
	// SlotOwners are the owners of the slots that the connector's calls take.
	SlotOwners []string
	// Warnings are about what is no error.
	Warnings []problem.Problem

	// member is that of the Input.
	member string
	// aliases has the alias that a field was configured with, by the name of the field.
	aliases map[string]string
	// seed is the part of a cache partition that is the same for all calls of the connector.
	seed [32]byte
	// consent is set if each user has a grant.
	consent bool
	// listed are the tokens that go to listed hosts only.
	listed []listedToken
	hosts  HostList
	// tenants is set if tenants choose the host of a URL, and namesHost if an answer or a field names that of requests. public is a host of
	// the list that everybody can have.
	tenants, namesHost bool
	public             string
}

// Findings are the problems of a configuration.
type Findings struct {
	Problems []problem.Problem
	// More is the number of further problems.
	More int
	// Failure is the failure of the plugin's validate, or nil.
	Failure *hostfn.Failure
}

// Codes of problems.
const (
	CodePlainHTTP  = "plain-http"
	CodeNoKeyStore = "no-key-store"
	CodeNoState    = "no-state"
)

// MaxAuth is the number of authentications that a connector may have.
const MaxAuth = 4

// Limits of a connector's configuration.
const (
	maxProblems          = 100       // listed problems
	maxConfigValues      = 50_000    // values, nested ones included
	maxConfigBytes       = 4 << 20   // bytes of texts and names
	maxConfigExpressions = 512 << 10 // bytes of texts with expressions
)

// A checker collects the problems of a connector and builds its plan.
type checker struct {
	problem.Collector
	in   *Input
	plan *Plan
	// counts is set once there is a warning about numbers.
	counts bool
	// failure is the failure of validate.
	failure *hostfn.Failure
}

// Check returns the plan of a connector. It is valid only if there are no problems.
func Check(ctx context.Context, in *Input) (*Plan, Findings) {
	k := &checker{
		Collector: problem.Collector{Max: maxProblems}, in: in,
		plan: &Plan{SecretFields: map[string]string{}, aliases: map[string]string{}, member: in.Member},
	}
	k.transport()
	if in.Plugin == nil {
		k.Wrong(in.Member+".type", "%s", in.NoPlugin)
	} else {
		k.auth(ctx)
	}
	return k.plan, Findings{k.Problems, k.More, k.failure}
}

// transport checks what is no concern of the auth type.
func (k *checker) transport() {
	in := k.in
	if strings.TrimSpace(in.Name) == "" || printableText(in.Name) != in.Name {
		k.Wrong("name", "is empty, has more than 1024 bytes, or holds control characters")
	}
	if in.Timeout < 0 {
		k.Wrong("timeout", "is negative")
	}
	if in.RefreshAhead < 0 {
		k.Wrong("refresh_ahead", "is negative")
	}
	if in.BodyBytes < 0 {
		k.Wrong("body_bytes", "is negative")
	}
	if in.EgressError != nil {
		k.Wrong("egress", "%v", in.EgressError)
	}
	if in.CrossOriginRedirects && in.Presents {
		k.Wrong("CrossOriginRedirects", "another origin would get the client certificate of Egress.TLS: leave one of them out")
	}
	k.hostList()
	k.origins()
	k.tls()
}

func (k *checker) auth(ctx context.Context) {
	in, p := k.in, k.in.Plugin
	authType := p.Description.Type
	if in.RefreshAhead > 0 && (!p.Uses[contract.GroupCache] || !p.Uses[contract.GroupToken]) {
		k.Wrong("refresh_ahead", "auth type %s keeps no tokens of an endpoint: remove it", authType)
	}
	if in.NeverResend && len(p.States) == 0 {
		k.Wrong("resend", "auth type %s has no token that may be used once: remove it", authType)
	}
	if budget := (budget{maxConfigValues, maxConfigBytes, maxConfigExpressions}); !budget.spend(in.Values) {
		k.Wrong(in.Member+".config", "is too large: it may have %d values, %d MiB of text, and %d KiB of texts with expressions",
			maxConfigValues, maxConfigBytes>>20, maxConfigExpressions>>10)
		return
	}
	if in.Type != authType {
		k.warn(in.Member+".type", "auth type %q is a deprecated alias, use %q", in.Type, authType)
	}
	k.aliases()
	k.calls()
	k.fields()
	// The names of TLS become part of the partition, so that a token that is bound to a certificate (RFC 8705 section 3) is not used with
	// another one. They have no sinks, so that no plugin can ask for them.
	k.plan.tlsNames(func(path string, names template.Names) {
		k.plan.Names = expr.Merged(k.plan.Names, names)
		k.plan.addSecrets(path, names)
	})
	k.listedTokens()
	k.answers()
	k.states()
	if k.plan.consent { // each user has a grant, and what was got with it is nobody else's
		k.plan.Names = expr.Merged(k.plan.Names, template.Names{User: []string{"id"}, Tenant: true})
	}
	k.openHosts()
	k.validate(ctx)
	if len(k.Problems) > 0 {
		return
	}
	k.consent(ctx)
	k.unlisted()
	k.slots()
	if err := k.plan.setSeed(in); err != nil {
		k.Wrong(in.Member+".config", "%v", err)
	}
}

func (k *checker) calls() {
	plan, calls, p := k.plan, k.in.Calls, k.in.Plugin
	plan.Plan, plan.consent = calls, p.Description.Consent
	calls.Fields = map[string]*hostfn.Field{}
	calls.SecretSinks, calls.SecretDerived = map[string]seal.Sinks{}, map[string]seal.Sinks{}
	calls.Uses, calls.Grants, calls.Anonymous = p.Uses, p.Grants, p.Description.Anonymous
	calls.Owner, calls.Partition = k.in.Name, plan.partition
	calls.CheckURL, calls.HostOf = k.in.CheckURL, plan.hosts.find
	warn := calls.Warn
	calls.Warn = func(ctx context.Context, field, text string) { warn(ctx, plan.Path(field), text) }
}

func (k *checker) warn(path, format string, args ...any) {
	k.plan.Warnings = append(k.plan.Warnings, problem.Place{}.Problem(path, format, args...))
}

func (k *checker) wrongField(f *hostfn.Field, format string, args ...any) {
	k.Wrong(k.plan.Path(f.Name), format, args...)
}

func (k *checker) origins() {
	if len(k.in.Origins) == 0 {
		k.Wrong("origins", "is empty: name the scheme and host of the API, such as https://api.example.com")
	}
	for i, text := range k.in.Origins {
		err := k.plan.Origins.Add(text, k.in.AllowsHTTP)
		if err == nil && strings.Contains(text, "*") {
			k.plan.Origins.Listed = func(u *url.URL) bool { return (u.Scheme == "https" || k.in.AllowsHTTP(u)) && k.plan.hosts.Lists(u) }
			err = k.openHost(text)
		}
		if err != nil {
			k.wrong(indexed("origins", i), err)
		}
	}
}

// printableText returns a text in a form that is safe for errors.
func printableText(text string) string { return printable.Text(text, 1024) }
