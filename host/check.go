package host

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
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/internal/urlcheck"
)

// A checker collects the problems of a connector and builds its plan.
type checker struct {
	problem.Collector
	host      *Host
	connector *Connector
	// failure says in which way the plugin's validate failed, if it did.
	failure PluginFailure
}

// Limits of a connector's configuration.
const (
	maxProblems          = 100       // listed problems
	maxConfigValues      = 50_000    // values, nested ones included
	maxConfigBytes       = 4 << 20   // bytes of texts and names
	maxConfigExpressions = 512 << 10 // bytes of texts with expressions
)

// check builds the plan of a connector. It returns a [ConfigError] with all problems.
func (h *Host) check(ctx context.Context, c *Connector) error {
	k := &checker{Collector: problem.Collector{Max: maxProblems}, host: h, connector: c}
	k.run(ctx)
	if len(k.Problems) == 0 {
		return nil
	}
	wrong := &ConfigError{Connector: c.config.Name, More: k.More, Failure: k.failure}
	for _, p := range k.Problems {
		wrong.Problems = append(wrong.Problems, Problem{p.Path, p.Column, p.Message, p.Code})
	}
	return wrong
}

// run checks the whole connector.
func (k *checker) run(ctx context.Context) {
	c := k.connector
	if strings.TrimSpace(c.config.Name) == "" || Printable(c.config.Name) != c.config.Name {
		k.Wrong("name", "is empty, too long, or holds control characters")
	}
	if c.config.Timeout < 0 {
		k.Wrong("timeout", "is negative")
	}
	if c.config.RefreshAhead < 0 {
		k.Wrong("refresh_ahead", "is negative")
	}
	if c.config.BodyBytes < 0 {
		k.Wrong("body_bytes", "is negative")
	}
	k.egress()
	if own := c.dialer.egress.TLS; c.config.CrossOriginRedirects && own != nil && (len(own.Certificates) > 0 || own.GetClientCertificate != nil) {
		k.Wrong("CrossOriginRedirects", "another origin would get the client certificate of Egress.TLS: leave one of them out")
	}
	k.origins()
	k.tls()
	c.plugin = k.host.types[c.config.Auth.Type]
	if c.plugin == nil {
		k.noType(c.config.Auth.Type)
		return
	}
	if c.config.RefreshAhead > 0 && (!c.plugin.Uses[abi.GroupCache] || !c.plugin.Uses[abi.GroupToken]) {
		k.Wrong("refresh_ahead", "auth type %s keeps no tokens of an endpoint: remove it", c.plugin.info.Type)
	}
	if c.config.NeverResend && len(c.plugin.States) == 0 {
		k.Wrong("resend", "auth type %s has no token that may be used once: remove it", c.plugin.info.Type)
	}
	if room := (room{maxConfigValues, maxConfigBytes, maxConfigExpressions}); !room.fits(c.config.Auth.Config) {
		k.Wrong("auth.config", "is too large: it may have %d values, %d MiB of text, and %d KiB of texts with expressions",
			maxConfigValues, maxConfigBytes>>20, maxConfigExpressions>>10)
		return
	}
	k.aliases()
	c.plan = c.newPlan()
	k.fields()
	k.tlsNames()
	k.answers()
	k.states()
	if c.plugin.info.Consent { // each user has a grant, and what was got with it is nobody else's
		c.plan.Names.Merge(template.Names{User: []string{"id"}, Tenant: true})
	}
	k.validate(ctx)
	if len(k.Problems) > 0 {
		return
	}
	k.checkConsent(ctx)
	if err := c.seed(); err != nil {
		k.Wrong("auth.config", "%v", err)
	}
}

// room counts down the limits of a configuration.
type room struct{ values, bytes, expressions int }

// fits subtracts a value from r and reports whether r had room for it. It ends even for a map that contains itself.
func (r *room) fits(value any) bool {
	if r.values--; r.values < 0 {
		return false
	}
	switch value := value.(type) {
	case string:
		r.bytes -= len(value)
		if strings.Contains(value, "{{") {
			r.expressions -= len(value)
		}
	case json.Number:
		r.bytes -= len(value)
	case map[string]any:
		for name, member := range value {
			if r.bytes -= len(name); !r.fits(member) {
				return false
			}
		}
	case []any:
		for _, element := range value {
			if !r.fits(element) {
				return false
			}
		}
	}
	return min(r.bytes, r.expressions) >= 0
}

// origins parses the origins.
func (k *checker) origins() {
	c := k.connector
	if len(c.config.Origins) == 0 {
		k.Wrong("origins", "is empty: name the scheme and host of the API, such as https://api.example.com")
	}
	for i, text := range c.config.Origins {
		if err := c.origins.Add(text, c.dialer.egress.AllowsHTTP); err != nil {
			k.wrong(fmt.Sprintf("origins[%d]", i), err)
		}
	}
}

// fields checks each member of the configuration against the plugin's description.
func (k *checker) fields() {
	c := k.connector
	fieldNames := make([]string, 0, len(c.plugin.Fields))
	for _, own := range c.plugin.Fields {
		field, f := &own, &own.Field
		fieldNames = append(fieldNames, f.Name)
		value, present := c.config.Auth.Config[f.Name]
		value = plainValue(value)
		reason := k.needed(field)
		c.plan.Fields[f.Name] = field
		switch {
		case present && value != nil:
			field.Source = value
			if k.effective(f) {
				k.field(field, value)
			}
		case present:
			k.Wrong(k.connector.path(f.Name), "is null: give it a value or leave it out")
		case field.Required:
			k.Wrong(k.connector.path(f.Name), "is missing%s: %s%s", reason, hint(describe.About(f)), suggestions(f))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.config.Auth.Config)) {
		if slices.Contains(fieldNames, name) {
			continue
		}
		if k.Skip() {
			continue
		}
		if len(fieldNames) == 0 {
			k.Wrong(k.connector.path(name), "auth type %s has no configuration, remove it", c.plugin.info.Type)
			continue
		}
		k.Wrong(k.connector.path(name), "is not a field of auth type %s%s", c.plugin.info.Type, problem.DidYouMean(name, fieldNames))
	}
}

// answers sets the answers that the connector's calls may get. The source of an answer may be a field of the configuration,
// which must be literal: what a plugin takes of an answer must not depend on a request.
func (k *checker) answers() {
	c := k.connector
	c.plan.Answers, c.plan.ChallengeAnswers = slices.Clone(c.plugin.Answers), c.plugin.Challenge
	for i := range c.plan.Answers {
		a := &c.plan.Answers[i]
		if a.FromField == "" {
			continue
		}
		f := c.plan.Fields[a.FromField]
		text, literal := f.Default, true
		if f.Text != nil {
			text, literal = f.Text.Literal()
		}
		if !literal {
			k.Wrong(k.connector.path(f.Name), "may not hold a template: it says where the plugin finds %s in an answer", a.Name)
			continue
		}
		if text == "" {
			continue
		}
		var err error
		if a.Source, err = answer.ParseSource(text); err == nil {
			err = answer.CheckSources(c.plan.Answers[:i+1])
		}
		if err != nil {
			k.Wrong(k.connector.path(f.Name), "%v", err)
		}
	}
}

// field checks a member of the configuration, and compiles its templates.
func (k *checker) field(f *hostfn.Field, value any) {
	if f.Kind == abi.KindObject {
		if _, ok := value.(map[string]any); !ok {
			f.Source = nil // keeps the value from validate
			k.Wrong(k.connector.path(f.Name), "is %s, an object is wanted", typeOf(value))
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
		k.Wrong(k.connector.path(f.Name), "is %s, %s is wanted%s", typeOf(value), kindName(f.Kind), doc)
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
		k.Wrong(k.connector.path(f.Name), "user.*, tenant_id and secrets of tenants and users may stand only behind the host: whoever chooses the host gets the credential")
	}
	literal, isLiteral := compiled.Literal()
	if !isLiteral {
		return
	}
	err := hostfn.CheckValue(f, literal)
	switch {
	case (f.Required || f.Sealed || f.Kind == abi.KindKey) && strings.TrimSpace(literal) == "":
		err = errors.New("is empty")
	case err == nil && f.Kind == abi.KindURL:
		err = k.connector.dialer.checkTokenURL(literal)
	case err == nil && (f.Sealed || f.Kind == abi.KindKey) && filePath.MatchString(literal):
		err = errors.New("is the path of a file: keep the text of the file as a secret, and write {{ get_secret('NAME') }}")
	}
	if err != nil {
		k.wrong(k.connector.path(f.Name), err)
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
	c := k.connector
	c.plan.Names.Merge(names)
	k.issuers(f, names)
	sinks, derived := f.Sinks, f.Derived
	if len(f.Enum) > 0 || f.Kind == abi.KindInteger || f.Kind == abi.KindBoolean {
		sinks, derived = 0, 0 // the plugin gets one of a few plain values, and no right to the secret itself
	}
	for _, secret := range names.Secrets {
		c.plan.SecretSinks[secret] |= sinks
		c.plan.SecretDerived[secret] |= derived
		if c.fieldOfSecret[secret] == "" {
			c.fieldOfSecret[secret] = c.path(f.Name)
		}
	}
	k.userToken(f, names)
}

// template adds a problem for each error of a template, with its path and column.
func (k *checker) template(field string, errs []*template.Error) {
	for _, e := range errs {
		if k.Skip() {
			continue
		}
		path := k.connector.path(field)
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

// validate runs the plugin's validate export, which checks what the description cannot express.
func (k *checker) validate(ctx context.Context) {
	c := k.connector
	if !c.plugin.guest.Has(abi.ExportValidate) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.plugin.limits.CallTime)
	defer cancel()
	call := hostfn.New(ctx, c.plan, &hostfn.Inputs{}, hostfn.Validating)
	result, err := c.plugin.guest.Call(ctx, abi.ExportValidate, call)
	call.Flush()
	switch {
	case call.Failure != nil:
		k.Wrong("auth.config", "the plugin's validate failed: %v", call.Failure)
		k.failure = failureOf(call.Failure)
	case err != nil:
		k.Wrong("auth.config", "the plugin's validate failed: %v", err)
		k.failure = failureOf(&hostfn.Failure{Stage: hostfn.StagePlugin, Err: err})
	case result.Code != 0:
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
	if !found || k.connector.plan.Fields[name] == nil {
		k.Wrong("auth.config", "%s", line)
		return
	}
	k.Wrong(k.connector.path(field), "%s", message)
}

// compared checks a field whose template is compared with a pattern. Users who choose a part of the text could ask about a secret in it
// with each of their names (threats.md 296). A user's own secret is their choice as well.
func (k *checker) compared(f *hostfn.Field, names template.Names) {
	choosable := slices.ContainsFunc(names.User, func(name string) bool { return name != "id" }) || slices.ContainsFunc(names.Secrets, expr.OfUser)
	shared := slices.ContainsFunc(names.Secrets, func(secret string) bool { return !expr.OfUser(secret) })
	if f.Matcher != nil && choosable && shared {
		k.Wrong(k.connector.path(f.Name), "names a secret beside what users choose, and is compared with a pattern, so that users could test guesses: leave one of them out")
	}
}
