package hostfn

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/printable"
	"github.com/keywright/keywright/internal/urlcheck"
	"github.com/keywright/keywright/internal/urlpath"
)

// rendering has the fields of the configuration.
type rendering struct {
	*report
	rendered []renderedField
	// renderedBuffer is the array of rendered while that is short. It saves an allocation.
	renderedBuffer [4]renderedField
	// compared counts the work of comparing texts with patterns.
	compared int
	// urls holds the rendered fields of kind url as the guest sees them, with references.
	urls []string
}

type renderedField struct {
	name, value string
	ok          bool
}

// ConfigGet returns the value of a field of the configuration, and whether there is one. It renders the field on the
// first call, and returns the same value afterwards.
func (c *rendering) ConfigGet(name string) (string, bool) {
	c.begin()
	switch c.mode {
	case Describing:
		c.endf(StagePlugin, "config_get is not to be called by describe")
	case Validating:
		return c.literal(name)
	}
	for _, r := range c.rendered {
		if r.name == name {
			return r.value, r.ok
		}
	}
	field := c.fieldNamed(name)
	if value, ok := c.fixed(field); ok {
		return value, value != "" || field.Text != nil
	}
	r := renderedField{name: name}
	r.value, r.ok = c.field(field)
	if field.Kind == abi.KindURL && r.ok {
		c.urls = append(c.urls, r.value)
	}
	if len(c.rendered) == cap(c.rendered) {
		c.rendered = slices.Grow(c.rendered, len(c.plan.Fields)-len(c.rendered))
	}
	c.rendered = append(c.rendered, r)
	return r.value, r.ok
}

// fixed returns the value of a field that is the same in each call, and so was checked at loading. ok is false for any other field.
func (c *rendering) fixed(f *Field) (value string, ok bool) {
	if f.Sealed || f.Kind == abi.KindKey || f.Kind == abi.KindURL || f.Object != nil {
		return "", false
	}
	if value, ok = f.Default, true; f.Text != nil {
		value, ok = f.Text.Literal()
	}
	return value, ok && (strings.TrimSpace(value) != "" || !c.required(f))
}

// fieldNamed returns the field with a name. It ends the call if there is no such field. Otherwise, a request would be sent without
// the value that the plugin's author expected.
func (c *rendering) fieldNamed(name string) *Field {
	field := c.plan.Fields[name]
	if field == nil {
		c.rejectSealed("the name of a configuration field", name)
		c.endf(StagePlugin, "config_get was asked for %q, which is no field in the plugin's description", printable.Text(name, 128))
	}
	return field
}

// literal implements ConfigGet for validate. It returns literal values only: none that depend on a request, and none
// that may be a credential.
func (c *rendering) literal(name string) (string, bool) {
	switch field := c.fieldNamed(name); {
	case field.Sealed || field.Kind == abi.KindKey:
		return "", false
	case field.Kind == abi.KindObject && field.Source != nil:
		return string(c.marshal(field.Source)), true
	case field.Text != nil:
		return field.Text.Literal()
	default:
		return field.Default, field.Default != ""
	}
}

// field renders a field, and returns its value for the guest: sealed, plain, or with sealed parts.
func (c *rendering) field(f *Field) (string, bool) {
	sealed := f.Sealed || f.Kind == abi.KindKey
	v := seal.Value{Sinks: f.Sinks, Derived: f.Derived}
	switch {
	case f.Object != nil:
		return c.renderObject(f), true
	case f.Text == nil && f.Default == "" && c.required(f):
		c.endf(StageConfig, "%s is missing", f.Name)
	case f.Text == nil && sealed && f.Default != "":
		v.Text, v.Mask = f.Default, f.Default
		return c.seal(v), true
	case f.Text == nil:
		return f.Default, f.Default != ""
	case f.Text.Key() != nil:
		v.Mask, v.Key = f.Text.Source(), (*view.Key)(f.Text.Key())
		return c.seal(v), true
	}
	value, parts, literal := c.text(f)
	c.compares(f, value)
	c.checkRendered(f, value)
	if f.Kind == abi.KindURL {
		c.checkURL(f, value)
	}
	switch {
	case sealed:
		v.Text, v.Mask = value, "<"+f.Name+">" // not the template: without get_secret, the credential would have to be literal
		if f.Text.Secret() {
			v.Mask = f.Text.Source()
		}
		return c.seal(v), true
	case literal || f.Kind == abi.KindInteger || f.Kind == abi.KindBoolean || len(f.Enum) > 0:
		return value, true // a plugin may have to read it, and it is no secret: it is literal or was checked
	}
	return c.sealParts(parts, f), true
}

// checkURL ends the call if a field of kind url may not have a value.
func (c *rendering) checkURL(f *Field, value string) {
	if err := c.plan.CheckURL(value); err != nil {
		c.endf(StageConfig, "%s %w", f.Name, err)
	}
	if u, err := url.Parse(value); f.OpenHost && (err != nil || c.plan.HostOf(u) == "") {
		c.endf(StageConfig, "%s leads to no host of hosts", f.Name)
	}
}

// text returns the text of a field, and its parts if it is not literal.
func (c *rendering) text(f *Field) (value string, parts []template.Part, literal bool) {
	if value, literal = f.Text.Literal(); literal {
		return value, nil, true
	}
	parts = c.parts(f)
	return template.Join(parts), parts, false
}

// compares counts the work of comparing a text with the pattern of a field, and ends the call if it is too much in all.
func (c *rendering) compares(f *Field, text string) {
	if f.Matcher == nil {
		return
	}
	if c.compared += f.Matcher.Work(text); c.compared > maxCompared {
		c.endf(StageConfig, "%s is too long to be compared with its pattern, after those of other fields", f.Name)
	}
}

// renderObject renders the strings of an object at any depth, and returns the object as JSON.
func (c *rendering) renderObject(f *Field) string {
	document, err := f.Object.AppendJSON(make([]byte, 0, 256), (*values)(c), func(parts []template.Part) (string, error) {
		return c.sealParts(parts, f), nil
	})
	if err != nil {
		c.endField(StageTemplate, f.Name, "%w", err)
	}
	return string(document)
}

// parts renders a field. The values of a user stay within their segment or parameter of a URL, and that of a tenant within a label.
func (c *rendering) parts(f *Field) []template.Part {
	render := f.Text.Render
	inURL := f.OpenHost || f.Kind == abi.KindURL && urlcheck.FixedHost(f.Text.Source())
	if inURL {
		render = f.Text.RenderURL
	}
	parts, err := render((*values)(c))
	if err != nil {
		c.endField(StageTemplate, f.Name, "%w", err)
	}
	if inURL && leavesSegment(f.Text.Source(), template.Join(parts)) {
		c.endf(StageConfig, "%s has a value in its path that is empty, . or .., or has a character that ends a segment", f.Name)
	}
	return parts
}

// leavesSegment reports whether a server may see other segments in the path of a URL than its template has. Those before the first
// expression are not looked at.
func leavesSegment(source, text string) bool {
	own, _, _ := strings.Cut(source, "{{")
	if strings.Contains(own, "?") {
		return false
	}
	path, _, _ := strings.Cut(text[strings.LastIndexByte(own, '/'):], "?")
	for segment := range strings.SplitSeq(path[1:], "/") {
		if urlpath.EndsSegment(urlpath.Decode(segment)) {
			return true
		}
	}
	return urlpath.Check(path) != nil || urlpath.Emptied(source, text)
}

// sealParts joins the parts of a field's text. Parts from secrets become sealed values, and the others stay plain.
func (c *rendering) sealParts(parts []template.Part, f *Field) string {
	if len(parts) == 1 && !parts[0].Secret {
		return parts[0].Text
	}
	var text strings.Builder
	for _, part := range parts {
		if part.Secret && part.Text != "" { // an empty part stays absent, so that an optional field such as scope can be left out
			text.WriteString(c.seal(seal.Value{Text: part.Text, Sinks: f.Sinks, Derived: f.Derived, Mask: part.Source}))
		} else {
			text.WriteString(part.Text)
		}
	}
	return text.String()
}

// plainText returns the plain value of a field, for use by the host itself.
func (c *rendering) plainText(f *Field) string {
	if f.Text == nil {
		return f.Default
	}
	value, _, _ := c.text(f)
	c.checkRendered(f, value)
	return value
}

// required reports whether a field must have a value that is not blank. The conditions of RequiredIf that hold whatever the
// templates render to have already set Required.
func (c *rendering) required(f *Field) bool {
	return f.Required || slices.ContainsFunc(f.RequiredIf, func(condition abi.Condition) bool {
		return len(condition.Values) > 0 && slices.Contains(condition.Values, c.plainText(c.plan.Fields[condition.Field]))
	})
}

// checkRendered ends the call if a field may not have value, whether that is literal or rendered.
func (c *rendering) checkRendered(f *Field, value string) {
	if required := c.required(f) || f.Sealed || f.Kind == abi.KindKey; required && strings.TrimSpace(value) == "" {
		c.endf(StageConfig, "%s is empty", f.Name)
	}
	if err := CheckValue(f, value); err != nil {
		c.endf(StageConfig, "%s %w", f.Name, err)
	}
}

// CheckValue returns an error if value does not conform to the kind, the minimum, the maximum, the enum or the pattern of a field. The
// error does not quote the value, which may come from a secret.
func CheckValue(f *Field, value string) error {
	switch f.Kind {
	case abi.KindInteger:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || value[0] == '+' { // guests parse it digit by digit
			return errors.New("is not a decimal integer")
		}
		if f.Minimum != nil && n < *f.Minimum {
			return fmt.Errorf("is less than %d", *f.Minimum)
		}
		if f.Maximum != nil && n > *f.Maximum {
			return fmt.Errorf("is more than %d", *f.Maximum)
		}
	case abi.KindBoolean:
		if value != "true" && value != "false" {
			return errors.New("is neither true nor false")
		}
	}
	if len(f.Enum) > 0 && !slices.Contains(f.Enum, value) {
		return fmt.Errorf("is none of %s", strings.Join(f.Enum, ", "))
	}
	if f.Matcher != nil {
		if matches, err := f.Matcher.Match(value); err != nil {
			return err
		} else if !matches {
			return errors.New(f.PatternMessage)
		}
	}
	return nil
}

// SecretGet returns the sealed value of a secret that the configuration names.
func (c *rendering) SecretGet(name string) string {
	c.requireGroup(contract.UserSecretGet)
	c.rejectSealed("the name of a secret", name)
	value, ok := c.inputs.secret(c.plan, name)
	if _, ofField := c.plan.SecretSinks[name]; !ok || !ofField { // one that tls alone names is the host's
		c.endf(StagePlugin, "secret_get was called for a secret that the connector's configuration does not name")
	}
	mask := "{{ " + expr.SecretCall(name) + " }}"
	return c.seal(seal.Value{Text: value, Sinks: c.plan.SecretSinks[name], Derived: c.plan.SecretDerived[name], Mask: mask})
}

// Values returns the values for rendering a template that is not a field's.
func (c *rendering) Values() template.Values { return (*values)(c) }

// values implements template.Values for a call.
type values rendering

func (v *values) Secret(name string) (string, error) {
	if value, ok := v.inputs.secret(v.plan, name); ok {
		return value, nil
	}
	return "", fmt.Errorf("secret %q was not read", name)
}

func (v *values) Discovered(d template.Discovery) (string, error) {
	i := slices.Index(v.plan.Names.Discovered, d)
	if i < 0 || i >= len(v.inputs.Discovered) {
		return "", errors.New("the metadata was not read")
	}
	(*rendering)(v).explainDiscovery(d, v.inputs.Discovered[i])
	return v.inputs.Discovered[i], nil
}

func (v *values) Identity(identity template.Identity) (string, error) {
	i := slices.Index(v.plan.Names.Identities, identity)
	if i < 0 || i >= len(v.inputs.Identities) {
		return "", errors.New("the identity was not read")
	}
	return v.inputs.Identities[i], nil
}

func (v *values) Variable(name string) (string, bool) {
	value, ok := v.inputs.Variables[name]
	return value, ok
}

func (v *values) User() *template.User { return &v.inputs.User }
func (v *values) TenantID() string     { return v.inputs.TenantID }

func (v *values) Now() int64 {
	v.volatile = true
	return v.plan.Clock().Unix()
}

func (v *values) UUID() (string, error) {
	v.volatile = true
	return expr.NewUUID(v.plan.Random)
}

// readURLs renders the fields of kind url.
func (c *rendering) readURLs() {
	for _, name := range slices.Sorted(maps.Keys(c.plan.Fields)) {
		if c.plan.Fields[name].Kind == abi.KindURL {
			c.ConfigGet(name)
		}
	}
}

// templateName returns the name of the field that a template is the value of, or words for another template.
func (c *rendering) templateName(template string) string {
	for _, name := range slices.Sorted(maps.Keys(c.plan.Fields)) {
		if value, ok := c.fixed(c.plan.Fields[name]); ok && value == template {
			return name
		}
	}
	for _, r := range c.rendered {
		if r.value == template {
			return r.name
		}
	}
	return "the template of compose"
}

// fieldIn returns the name of a field with a sealed value that text holds, or "".
func (c *rendering) fieldIn(text string) string {
	for _, r := range c.rendered {
		if strings.Contains(text, r.value) && c.sealed.Plain(r.value) != nil {
			return r.name
		}
	}
	return ""
}
