package hostfn

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/host/internal/template"
)

type renderedField struct {
	name, value string
	ok          bool
}

// ConfigGet returns the value of a field of the configuration: rendered when first asked, once for a call.
func (c *Call) ConfigGet(name string) (string, bool) {
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
	c.plain("the name of a configuration field", name)
	field := c.plan.Fields[name]
	if field == nil {
		c.unknown(name)
	}
	r := renderedField{name: name}
	r.value, r.ok = c.field(field)
	if field.Kind == abi.KindURL && r.ok {
		c.urls = append(c.urls, r.value)
	}
	c.rendered = append(c.rendered, r)
	return r.value, r.ok
}

// unknown ends the call: without what its author took for a field, a request would go out half made.
func (c *Call) unknown(name string) {
	c.endf(StagePlugin, "config_get was asked for %q, which is no field in the plugin's description", Printable(name, 128))
}

// literal is config_get for validate: nothing that only a request can tell, and nothing that may be a credential.
func (c *Call) literal(name string) (string, bool) {
	field := c.plan.Fields[name]
	switch {
	case field == nil:
		c.unknown(name)
		return "", false
	case field.Sealed || field.Kind == abi.KindKey:
		return "", false
	case field.Kind == abi.KindObject && field.Source != nil:
		document, err := strictjson.Marshal(field.Source)
		if err != nil {
			c.end(StageConfig, err)
		}
		return string(document), true
	case field.Text != nil:
		return field.Text.Literal()
	}
	return field.Default, field.Default != ""
}

func (c *Call) field(f *Field) (string, bool) {
	switch {
	case f.Object != nil:
		return c.renderObject(f), true
	case f.Text == nil:
		if f.Default == "" {
			return "", false
		}
		if f.Sealed || f.Kind == abi.KindKey {
			return c.seal(seal.Value{Text: f.Default, Sinks: f.Sinks, Mask: f.Default}), true
		}
		return f.Default, true
	}
	var parts []template.Part
	whole, literal := f.Text.Literal()
	if !literal {
		parts = c.parts(f)
		whole = template.Join(parts)
	}
	if err := checkRendered(f, whole); err != nil {
		c.endf(StageConfig, "%s %w", f.Name, err)
	}
	if f.Kind == abi.KindURL {
		if err := c.plan.CheckURL(whole); err != nil {
			c.endf(StageConfig, "%s %w", f.Name, err)
		}
	}
	switch {
	case f.Sealed || f.Kind == abi.KindKey:
		return c.seal(seal.Value{Text: whole, Sinks: f.Sinks, Mask: mask(f)}), true
	case literal || f.Kind == abi.KindInteger || f.Kind == abi.KindBoolean || len(f.Enum) > 0:
		return whole, true // a plugin needs to see what is no secret, and is checked or written out
	}
	return c.sealParts(parts, f.Sinks), true
}

// renderObject renders the strings of an object, at any depth.
func (c *Call) renderObject(f *Field) string {
	document, err := f.Object.AppendJSON(make([]byte, 0, 256), (*values)(c), func(parts []template.Part) (string, error) {
		return c.sealParts(parts, f.Sinks), nil
	})
	if err != nil {
		c.endf(StageTemplate, "%s: %w", f.Name, err)
	}
	return string(document)
}

func (c *Call) parts(f *Field) []template.Part {
	parts, err := f.Text.Render((*values)(c))
	if err != nil {
		c.endf(StageTemplate, "%s: %w", f.Name, err)
	}
	return parts
}

// sealParts puts a field's text together: what comes from secrets as sealed values, the rest plain.
func (c *Call) sealParts(parts []template.Part, sinks seal.Sinks) string {
	if len(parts) == 1 && !parts[0].Secret {
		return parts[0].Text
	}
	var text strings.Builder
	for _, part := range parts {
		if part.Secret && part.Text != "" { // what came to nothing is absent, as scope may be
			text.WriteString(c.seal(seal.Value{Text: part.Text, Sinks: sinks, Mask: part.Source}))
		} else {
			text.WriteString(part.Text)
		}
	}
	return text.String()
}

// plainText renders a field for the host's own use.
func (c *Call) plainText(f *Field) string {
	if f.Text == nil {
		return f.Default
	}
	whole, literal := f.Text.Literal()
	if !literal {
		whole = template.Join(c.parts(f))
	}
	if err := checkRendered(f, whole); err != nil {
		c.endf(StageConfig, "%s %w", f.Name, err)
	}
	return whole
}

// checkRendered returns an error when a field may not have a rendered value, whether it came from a template or not.
func checkRendered(f *Field, value string) error {
	if f.Required || f.Sealed || f.Kind == abi.KindKey {
		if strings.TrimSpace(value) == "" {
			return errors.New("is empty")
		}
	}
	return CheckValue(&f.Field, value)
}

// CheckValue checks a value against the kind and the enumeration of a field. Its errors do not quote a value that a
// template may have taken from a secret.
func CheckValue(f *abi.Field, value string) error {
	switch f.Kind {
	case abi.KindInteger:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || value[0] == '+' { // guests read what they are given digit by digit
			return errors.New("is not a decimal integer")
		}
		if f.Minimum != nil && n < *f.Minimum {
			return fmt.Errorf("is less than %d", *f.Minimum)
		}
	case abi.KindBoolean:
		if value != "true" && value != "false" {
			return errors.New("is neither true nor false")
		}
	}
	if len(f.Enum) > 0 && !slices.Contains(f.Enum, value) {
		return fmt.Errorf("is none of %s", strings.Join(f.Enum, ", "))
	}
	return nil
}

// mask returns the text of a field for a person to see: its template, but never a credential that was written out.
func mask(f *Field) string {
	if !f.Text.Secret() { // what is secret in it, if anything, is written out
		return "<" + f.Name + ">"
	}
	return f.Text.Source()
}

// SecretGet returns a sealed value of a secret that the configuration names.
func (c *Call) SecretGet(name string) string {
	c.need(abi.UserSecretGet)
	c.plain("the name of a secret", name)
	value, ok := c.inputs.secret(c.plan, name)
	if !ok {
		c.endf(StagePlugin, "secret_get was called for a secret that the connector's configuration does not name")
	}
	return c.seal(seal.Value{Text: value, Sinks: c.plan.SecretSinks[name], Mask: "{{ get_secret('" + name + "') }}"})
}

// TimeNow returns the host's time.
func (c *Call) TimeNow() int64 {
	c.need(abi.UserTimeNow)
	return c.now()
}
