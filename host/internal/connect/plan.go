package connect

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/jws"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/internal/urlcheck"
)

// Personal reports whether the templates name something of the user.
func (p *Plan) Personal() bool { return len(p.Names.User) > 0 || p.Names.Tenant }

// FieldSecrets adds the names of the secrets in each field and in each member of TLS to all, sorted. The name user.token stands for the
// token of the user's session, and identity('NAME', 'AUDIENCE') for that of an identity. Fields without secrets are left out. In a list,
// the path of the authentication is in front of a field.
func (p *Plan) FieldSecrets(all map[string][]string) {
	prefix := ""
	if p.member != "auth" {
		prefix = p.member + "."
	}
	add := func(field string, names template.Names) {
		secrets := slices.Concat(names.Secrets, listedNames(&names))
		if slices.Sort(secrets); len(secrets) > 0 {
			all[field] = slices.Compact(secrets)
		}
	}
	for name, f := range p.Fields {
		switch {
		case f.Text != nil:
			add(prefix+name, f.Text.Names())
		case f.Object != nil:
			add(prefix+name, f.Object.Names())
		}
	}
	p.tlsNames(add)
}

// slots sets the owners of the connector's slots: itself, and the origin of each URL that token requests may go to. So neither a
// connector nor an endpoint that hangs takes what others need. Where a template makes the host, its text stands for the origin.
func (k *checker) slots() {
	owners := []string{}
	for _, f := range k.plan.Fields {
		if f.Kind != abi.KindURL || f.Text == nil {
			continue
		}
		origin := f.Text.Source()
		if scheme, rest, _ := strings.Cut(origin, "://"); urlcheck.FixedHost(origin + "/") {
			end := strings.IndexAny(rest+"/", "/?#")
			origin = strings.ToLower(scheme + "://" + rest[:end])
		}
		owners = append(owners, origin)
	}
	slices.Sort(owners)
	k.plan.SlotOwners = append(slices.Compact(owners), "connector "+k.in.Name)
}

// setSeed sets seed to the hash of the connector's name, type, plugin, grants and configuration. The grants are
// part of it because a cache may outlive a host: a plugin must not get back what it stored under a grant after the
// grant was removed. So are the hosts that may get tokens of users and identities, if a template names one.
func (p *Plan) setSeed(in *Input) error {
	config, err := strictjson.Marshal(p.Values)
	if err != nil {
		return err
	}
	var d Digest
	d.Add(string(in.Salt[:]), in.Name, in.Plugin.Description.Type, string(in.Plugin.Digest[:]), string(config))
	d.Add(slices.Sorted(maps.Keys(in.Plugin.Grants))...)
	if t := in.TLS; t != nil { // a token may be bound to the certificate
		d.Add(t.Certificate, t.Key, t.PKCS12, t.Passphrase, t.CA)
		d.Add(t.For...)
	}
	for _, t := range p.listed { // a host that is no longer listed may have issued what is in the cache
		if t.name != template.UserToken {
			d.Add(t.name)
		}
		d.Add(slices.Sorted(maps.Keys(t.hosts))...)
	}
	d.Add(slices.Sorted(maps.Keys(p.hosts))...)
	p.seed = d.Sum()
	return nil
}

// partition returns the cache partition of a call. Calls share a partition if they have the same connector,
// configuration, and values of the secrets, endpoints, variables and user fields that the templates name.
func (p *Plan) partition(in *hostfn.Inputs) [32]byte {
	var buffer [1 << 10]byte
	d := Digest{append(buffer[:0], p.seed[:]...)}
	names := &p.Names
	for i, name := range names.Secrets {
		d.Add(name, in.Secrets[i])
	}
	for i, endpoint := range names.Discovered {
		d.Add(endpoint.Issuer, endpoint.Member, in.Discovered[i])
	}
	for i, identity := range names.Identities {
		d.Add(identity.Name, identity.Audience, Subject(in.Identities[i]))
	}
	for _, name := range names.Variables {
		variable, _ := expr.StoredSecret(name, in.TenantID, "")
		value, ok := in.Variables[variable]
		d.Add(name, value, fmt.Sprint(ok))
	}
	for _, name := range names.User {
		d.Add(name, in.User.Field(name))
	}
	if names.Tenant {
		d.Add(in.TenantID)
	}
	if p.consent { // what was got with an earlier grant is not used with the next one
		d.Add(in.Grant)
	}
	return d.Sum()
}

// Subject returns a text that is the same for all tokens of a subject, although each has other bytes: that of its claims iss and sub. For a
// token that is no JWT, it is the token. Nobody has verified the claims, and who can make up a token can be any subject.
func Subject(token string) string {
	_, claims, err := jws.Decode(token)
	issuer, _ := claims["iss"].(string)
	subject, _ := claims["sub"].(string)
	if err != nil || issuer == "" || subject == "" {
		return token
	}
	var d Digest
	d.Add(issuer, subject)
	return "subject " + string(d.input)
}

// Digest hashes texts together with their lengths, so that different lists of texts have different hashes.
type Digest struct{ input []byte }

// Add appends texts.
func (d *Digest) Add(texts ...string) {
	for _, text := range texts {
		d.input = binary.BigEndian.AppendUint64(d.input, uint64(len(text)))
		d.input = append(d.input, text...)
	}
}

// Sum returns the hash.
func (d *Digest) Sum() [32]byte { return sha256.Sum256(d.input) }

// answers sets the answers that the connector's calls may get. The source of an answer may be a field of the configuration,
// which must be literal: what a plugin takes of an answer must not depend on a request.
func (k *checker) answers() {
	plan := k.plan
	plan.Answers = slices.Clone(k.in.Plugin.Answers)
	challenge := k.in.Plugin.Description.Challenge
	if plan.Challenge.InDescription = challenge != nil; challenge != nil && k.challenges(challenge.OnlyIf) {
		plan.Challenge = hostfn.Challenge{
			InDescription: true, Applies: true, Statuses: challenge.Statuses, Answers: k.in.Plugin.Challenge, Keep: time.Duration(challenge.Keep) * time.Second,
		}
	}
	for i := range plan.Answers {
		a := &plan.Answers[i]
		if a.FromField == "" {
			plan.namesHost = plan.namesHost || a.Sinks&seal.URL != 0
			continue
		}
		f := plan.Fields[a.FromField]
		text, literal := f.Default, true
		if f.Text != nil {
			text, literal = f.Text.Literal()
		}
		if !literal {
			k.wrongField(f, "may not hold a template: it says where the plugin finds %s in an answer", a.Name)
			continue
		}
		if text == "" {
			continue
		}
		var err error
		if a.Source, err = answer.ParseSource(text); err == nil {
			err = answer.CheckSources(plan.Answers[:i+1])
		}
		if plan.namesHost = plan.namesHost || a.Sinks&seal.URL != 0; err == nil && a.Sinks&seal.URL != 0 && len(k.in.Hosts) == 0 {
			err = errors.New("names a host, which gets the credential: it needs hosts, which lists where that may lead")
		}
		if err != nil {
			k.wrongField(f, "%v", err)
		}
	}
}

// challenges reports whether one of the conditions of a challenge holds. It does not depend on a request.
func (k *checker) challenges(conditions []abi.Condition) bool {
	for i := range conditions {
		_, ok, certain := k.condition(&conditions[i])
		if !certain {
			k.wrongField(k.plan.Fields[conditions[i].Field], "may not hold a template: what the plugin does about the API's answers depends on it")
		}
		if ok {
			return true
		}
	}
	return len(conditions) == 0
}

// GrantOwner is the scope of a grant: the tenant, the user, the user in the tenant, or, if neither is set, everybody.
type GrantOwner struct{ Tenant, User bool }

// states checks the states of the plugin against the configuration.
//
// A grant is of those for whom its seed is: if it were kept for each user, and the seed were one for all, each user would send
// that seed. A grant without a seed is of the user who consents, in the tenant.
func (k *checker) states() {
	plan, p := k.plan, k.in.Plugin
	if len(p.States) == 0 {
		return
	}
	if !k.in.State {
		k.Wrong(plan.member+".type", "auth type %s keeps tokens that may be used once, which needs a store of state: configure one (Config.State)",
			p.Description.Type).Code = CodeNoState
	}
	plan.GrantOwner, plan.Renewal = GrantOwner{Tenant: true, User: true}, "connect again"
	seeded := false
	for i, s := range p.Description.State {
		state := p.States[i]
		f := plan.Fields[s.Seed]
		if f != nil && f.Text != nil {
			state.Seed = f
			names := f.Text.Names()
			if names.Listed() {
				k.wrongField(f, "names %s, which a grant would outlive: name a secret", listedNames(&names)[0])
			}
			if !seeded {
				plan.GrantOwner, seeded = GrantOwner{}, true
				plan.Renewal = "configure a new " + plan.Path(f.Name)
			}
			// A user may be in several tenants, and a seed that names the user alone is the same in each.
			plan.GrantOwner.Tenant = plan.GrantOwner.Tenant || names.Tenant
			plan.GrantOwner.User = plan.GrantOwner.User || len(names.User) > 0
		}
		plan.States = append(plan.States, state)
	}
}

// validate runs the plugin's validate export, which checks what the description cannot express.
func (k *checker) validate(ctx context.Context) {
	p := k.in.Plugin
	if !p.Guest.Has(contract.ExportValidate) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, p.CallTime)
	defer cancel()
	call := hostfn.New(ctx, k.plan.Plan, &hostfn.Inputs{}, hostfn.Validating)
	result, err := p.Guest.Call(ctx, contract.ExportValidate, call)
	call.Flush()
	if err != nil || call.Failure != nil {
		k.failure = cmp.Or(call.Failure, &hostfn.Failure{Stage: hostfn.StagePlugin, Err: err})
		k.Wrong(k.plan.member+".config", "the plugin's validate failed: %v", k.failure)
		return
	}
	if result.Code != 0 {
		for line := range strings.Lines(strings.TrimSpace(result.Message)) {
			k.complaint(call.Message(strings.TrimSpace(line)).Error())
		}
	}
}

// complaint adds a problem for a line of validate's message: a field or a member of one, a colon, and what is wrong.
func (k *checker) complaint(line string) {
	field, message, found := strings.Cut(line, ": ")
	name, _, _ := strings.Cut(field, ".")
	if !found || k.plan.Fields[name] == nil {
		k.Wrong(k.plan.member+".config", "%s", line)
		return
	}
	k.Wrong(k.plan.Path(field), "%s", message)
}

// consent runs consent with made-up secrets, and adds a problem if a browser would see one. All else may depend on real values.
func (k *checker) consent(ctx context.Context) {
	if !k.plan.consent {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, k.in.CallTime)
	defer cancel()
	in := &hostfn.Inputs{MadeUp: true, Secrets: slices.Repeat([]string{"made-up"}, len(k.plan.Names.Secrets)), Variables: k.in.Variables}
	for _, d := range k.plan.Names.Discovered {
		in.Discovered = append(in.Discovered, d.Issuer)
	}
	in.Identities = slices.Repeat([]string{"made-up"}, len(k.plan.Names.Identities))
	call := hostfn.New(ctx, k.plan.Plan, in, hostfn.Explaining)
	result, err := k.in.Plugin.Guest.Call(ctx, contract.ExportConsent, call)
	if err != nil || call.Failure != nil || result.Code != 0 || !result.OutputSet {
		return
	}
	_, failure := call.Authorization(result.Output, hostfn.Consent{})
	var shownErr *hostfn.ShownError
	switch {
	case failure == nil || !errors.As(failure, &shownErr):
	case shownErr.Field == "":
		k.Wrong(k.plan.member+".config", "%v", shownErr)
	default:
		k.Wrong(k.plan.Path(shownErr.Field), "%v", shownErr)
	}
}

// aliases puts the name of each field in place of the alias that the configuration has. From here on the connector is as if it had
// been configured with that name, with its partition in the cache, its grants and its sinks. Only errors have the alias.
func (k *checker) aliases() {
	values := k.in.Values
	k.plan.Values = maps.Clone(values)
	for _, f := range k.in.Plugin.Fields {
		_, present := values[f.Name]
		configName := f.Name
		for _, alias := range f.Aliases {
			value, there := values[alias]
			if !there {
				continue
			}
			delete(k.plan.Values, alias)
			if present {
				k.Wrong(k.plan.Path(alias), "is a former name of %s, and %s is there too: remove it", f.Name, configName)
				continue
			}
			k.plan.Values[f.Name], k.plan.aliases[f.Name] = value, alias
			present, configName = true, alias
			k.warn(k.plan.Path(alias), "is a deprecated name, use %q", f.Name)
		}
	}
}

// Path returns the path of a field, or of a member within one, in the connector as it is written.
func (p *Plan) Path(field string) string {
	name, rest, nested := strings.Cut(field, ".")
	name = cmp.Or(p.aliases[name], name)
	if nested {
		name += "." + rest
	}
	return p.member + ".config." + name
}

// OtherKeys returns the names of the keys that sign something beside JWS in one of the plans.
func OtherKeys(plans ...*Plan) map[string]bool {
	keys := map[string]bool{}
	for _, p := range plans {
		if p.Plan == nil { // there is no such type
			continue
		}
		for _, f := range p.Fields {
			for _, name := range f.KeyNames() {
				if !f.SignsJWS() {
					keys[name] = true
				}
			}
		}
	}
	return keys
}

// SharedKeys returns a problem for each key for JWS that signs something else in one of the plans, which are all of this connector, or in
// another connector of the host. Keys are compared by name here, and by thumbprint when they sign.
func (p *Plan) SharedKeys(all []*Plan) (problems []problem.Problem) {
	own := OtherKeys(all...)
	for _, field := range slices.Sorted(maps.Keys(p.Fields)) {
		f := p.Fields[field]
		for _, name := range f.KeyNames() {
			connector, shared := p.Signer.Uses.Connector(name)
			if own[name] {
				connector, shared = p.Owner, true
			}
			if f.SignsJWS() && shared {
				problems = append(problems, problem.Place{}.Problem(p.Path(field), "%s %v", name, &hostfn.SharedKeyError{Connector: connector}))
			}
		}
	}
	return problems
}
