package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/describe"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/internal/urlcheck"
)

// budget counts down the limits of a configuration.
type budget struct{ values, bytes, expressions int }

// spend subtracts a value from b and reports whether b sufficed for it. It ends even for a map that contains itself.
func (b *budget) spend(value any) bool {
	if b.values--; b.values < 0 {
		return false
	}
	switch value := value.(type) {
	case string:
		b.bytes -= len(value)
		if strings.Contains(value, "{{") {
			b.expressions -= len(value)
		}
	case json.Number:
		b.bytes -= len(value)
	case map[string]any:
		for name, member := range value {
			if b.bytes -= len(name); !b.spend(member) {
				return false
			}
		}
	case []any:
		for _, element := range value {
			if !b.spend(element) {
				return false
			}
		}
	}
	return min(b.bytes, b.expressions) >= 0
}

// fields checks each member of the configuration against the plugin's description.
func (k *checker) fields() {
	authType := k.in.Plugin.Description.Type
	fieldNames := make([]string, 0, len(k.in.Plugin.Fields))
	for _, own := range k.in.Plugin.Fields {
		field, f := &own, &own.Field
		fieldNames = append(fieldNames, f.Name)
		value, present := k.plan.Values[f.Name]
		value = plainValue(value)
		reason := k.requirement(field)
		k.plan.Fields[f.Name] = field
		switch {
		case present && value != nil:
			field.Source = value
			if k.effective(field) {
				k.field(field, value)
			}
		case present:
			k.wrongField(field, "is null: give it a value or leave it out")
		case field.Required:
			k.wrongField(field, "is missing%s: %s%s", reason, hint(describe.About(f)), suggestions(f))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(k.plan.Values)) {
		if slices.Contains(fieldNames, name) || k.Skip() {
			continue
		}
		if len(fieldNames) == 0 {
			k.Wrong(k.plan.Path(name), "auth type %s has no configuration, remove it", authType)
			continue
		}
		k.Wrong(k.plan.Path(name), "is not a field of auth type %s%s", authType, problem.DidYouMean(name, fieldNames))
	}
}

// suggestions returns the usual values of a field, for the end of an error.
func suggestions(f *abi.Field) string {
	if len(f.Suggested) == 0 {
		return ""
	}
	return " (usual: " + strings.Join(f.Suggested, ", ") + ")"
}

// hint returns a plugin's documentation of a field, for the end of an error.
func hint(doc string) string {
	if doc == "" {
		return "it is required"
	}
	return printableText(strings.TrimSuffix(doc, "."))
}

// field checks a member of the configuration, and compiles its templates.
func (k *checker) field(f *hostfn.Field, value any) {
	if f.Kind == abi.KindObject {
		if _, ok := value.(map[string]any); !ok {
			f.Source = nil // keeps the value from validate
			k.wrongField(f, "is %s, an object is wanted", typeOf(value))
			return
		}
		object, errs := template.CompileObject(value, f.Escape)
		if len(errs) > 0 {
			k.template(f.Name, errs)
			return
		}
		f.Object = object
		k.names(f, object.Names())
		return
	}
	text, ok := scalar(f.Kind, value)
	if !ok {
		doc := ""
		if _, isList := value.([]any); isList && f.Doc != "" { // it says what separates the parts of a text
			doc = ": " + hint(f.Doc)
		}
		k.wrongField(f, "is %s, %s is wanted%s", typeOf(value), kindName(f.Kind), doc)
		return
	}
	compiled, errs := template.CompileEscaped(text, f.Escape)
	if len(errs) > 0 {
		k.template(f.Name, errs)
		return
	}
	f.Text = compiled
	if compiled.Key() != nil {
		k.key(f)
		return
	}
	k.names(f, compiled.Names())
	k.compared(f, compiled.Names())
	if names := compiled.Names(); f.Kind == abi.KindURL && (len(names.User) > 0 || names.Tenant) && !urlcheck.FixedHost(text) {
		k.wrongField(f, "user.*, tenant_id and secrets of tenants and users may stand only behind the host: whoever chooses the host gets the credential")
	}
	if literal, ok := compiled.Literal(); ok {
		k.literal(f, literal)
	}
}

// literal checks the value of a field without a template.
func (k *checker) literal(f *hostfn.Field, literal string) {
	err := hostfn.CheckValue(f, literal)
	switch secret := f.Sealed || f.Kind == abi.KindKey; {
	case (f.Required || secret) && strings.TrimSpace(literal) == "":
		err = errors.New("is empty")
	case err == nil && f.Kind == abi.KindURL:
		err = k.in.CheckURL(literal)
	case err == nil && secret && filePath.MatchString(literal):
		err = errors.New("is the path of a file: keep the text of the file as a secret, and write {{ get_secret('NAME') }}")
	}
	if err != nil {
		k.wrong(k.plan.Path(f.Name), err)
	}
}

// wrong adds the problem of an error.
func (k *checker) wrong(path string, err error) {
	p := k.Wrong(path, "%v", err)
	if errors.Is(err, urlcheck.ErrPlainHTTP) {
		p.Code = CodePlainHTTP
	}
}

// filePath matches paths of files that people write in place of what is in the file, such as ./key.pem and /run/secrets/token.
var filePath = regexp.MustCompile(`^(?:file:|\.{1,2}/|~/|/run/secrets/|[A-Za-z]:\\)\S+$|^[^\s{}]+\.(?:pem|key|p8|p12|pfx|der|crt|cer|jwk|json|txt)$`)

// names adds the names in a field's templates to the plan: for the cache partition, for secret_get, and for errors.
func (k *checker) names(f *hostfn.Field, names template.Names) {
	plan := k.plan
	plan.Names.Merge(names)
	for _, d := range names.Discovered {
		if err := k.in.CheckURL(d.Issuer); err != nil {
			k.wrongField(f, "the issuer of discover %v", err)
		}
	}
	sinks, derived := f.Sinks, f.Derived
	if len(f.Enum) > 0 || f.Kind == abi.KindInteger || f.Kind == abi.KindBoolean {
		sinks, derived = 0, 0 // the plugin gets one of a few plain values, and no right to the secret itself
	}
	for _, secret := range names.Secrets {
		plan.SecretSinks[secret] |= sinks
		plan.SecretDerived[secret] |= derived
	}
	plan.addSecrets(plan.Path(f.Name), names)
	k.userToken(f, names)
}

// addSecrets records the path of a field for the secrets that it is the first to name.
func (p *Plan) addSecrets(path string, names template.Names) {
	for _, secret := range names.Secrets {
		if p.SecretFields[secret] == "" {
			p.SecretFields[secret] = path
		}
	}
}

// template adds a problem for each error of a template, with its path and column.
func (k *checker) template(field string, errs []*template.Error) {
	for _, e := range errs {
		if k.Skip() {
			continue
		}
		path := k.plan.Path(field)
		if e.Path != "" {
			path += dot(e.Path) + e.Path
		}
		k.At(problem.Place{Column: e.Column}, path, "%s", e.Message)
	}
}

// dot returns the separator in front of a path below a field: "" in front of an index, and otherwise a dot.
func dot(path string) string {
	if strings.HasPrefix(path, "[") {
		return ""
	}
	return "."
}

// indexed returns the path of an item of a list.
func indexed(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

// compared checks a field whose template is compared with a pattern. Users who choose a part of the text could ask about a secret in it
// with each of their names (threats.md 296). A user's own secret is their choice as well.
func (k *checker) compared(f *hostfn.Field, names template.Names) {
	choosable := slices.ContainsFunc(names.User, func(name string) bool { return name != "id" }) || slices.ContainsFunc(names.Secrets, expr.OfUser)
	shared := slices.ContainsFunc(names.Secrets, func(secret string) bool { return !expr.OfUser(secret) })
	if f.Matcher != nil && choosable && shared {
		k.wrongField(f, "names a secret beside what users choose, and is compared with a pattern, so that users could test guesses: leave one of them out")
	}
}

// key checks a field that names a key of the store of keys. The field has to be one whose value can only sign. Otherwise the
// plugin needs the bytes of the key, which nobody has.
func (k *checker) key(f *hostfn.Field) {
	path := k.plan.Path(f.Name)
	switch {
	case f.Kind != abi.KindKey && (!f.Sealed || f.Sinks != seal.Sign):
		k.At(problem.Place{Column: 1}, path, "%s", template.NoKey)
	case k.plan.Keys == nil:
		k.At(problem.Place{Column: 1}, path, "there is no store of keys for get_key").Code = CodeNoKeyStore
	default:
		k.plan.AsksKeys = true
	}
}

// answers sets the answers that the connector's calls may get. The source of an answer may be a field of the configuration,
// which must be literal: what a plugin takes of an answer must not depend on a request.
func (k *checker) answers() {
	plan := k.plan
	plan.Answers, plan.ChallengeAnswers = slices.Clone(k.in.Plugin.Answers), k.in.Plugin.Challenge
	for i := range plan.Answers {
		a := &plan.Answers[i]
		if a.FromField == "" {
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
		if err != nil {
			k.wrongField(f, "%v", err)
		}
	}
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
		k.Wrong("auth.type", "auth type %s keeps tokens that may be used once, which needs a store of state: configure one (Config.State)",
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
			if names.UserToken() {
				k.wrongField(f, "names user.token, which a grant would outlive: name a secret")
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
		if k.failure = call.Failure; k.failure == nil {
			k.failure = &hostfn.Failure{Stage: hostfn.StagePlugin, Err: err}
		}
		k.Wrong("auth.config", "the plugin's validate failed: %v", k.failure)
		return
	}
	if result.Code != 0 {
		for line := range strings.Lines(strings.TrimSpace(result.Message)) {
			k.complaint(call.Message(strings.TrimSpace(line)).Error())
		}
	}
}

// complaint adds a problem for a line of validate's message: a field or a member of one, a colon, and what is wrong
// with it.
func (k *checker) complaint(line string) {
	field, message, found := strings.Cut(line, ": ")
	name, _, _ := strings.Cut(field, ".")
	if !found || k.plan.Fields[name] == nil {
		k.Wrong("auth.config", "%s", line)
		return
	}
	k.Wrong(k.plan.Path(field), "%s", message)
}

// consent runs consent with a made-up value for each secret, and adds a problem if a browser would see one. Whatever else fails may
// depend on the values, or on the user.
func (k *checker) consent(ctx context.Context) {
	if !k.plan.consent {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, k.in.CallTime)
	defer cancel()
	in := &hostfn.Inputs{Secrets: slices.Repeat([]string{"made-up"}, len(k.plan.Names.Secrets)), Variables: k.in.Variables}
	for _, d := range k.plan.Names.Discovered {
		in.Discovered = append(in.Discovered, d.Issuer)
	}
	call := hostfn.New(ctx, k.plan.Plan, in, hostfn.Explaining)
	result, err := k.in.Plugin.Guest.Call(ctx, contract.ExportConsent, call)
	if err != nil || call.Failure != nil || result.Code != 0 || !result.OutputSet {
		return
	}
	_, failure := call.Authorization(result.Output)
	var shownErr *hostfn.ShownError
	switch {
	case failure == nil || !errors.As(failure, &shownErr):
	case shownErr.Field == "":
		k.Wrong("auth.config", "%v", shownErr)
	default:
		k.Wrong(k.plan.Path(shownErr.Field), "%v", shownErr)
	}
}
