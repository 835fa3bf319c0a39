package host

import (
	"context"
	"strings"

	"github.com/keywright/keywright/host/internal/connect"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/inputs"
	"github.com/keywright/keywright/host/internal/template"
)

// A Template is text with expressions, in the language of connector configurations. Embedders use it for the parts of a request beside its
// authentication, such as a path or a header. Make one with [Host.Template]. It is safe for concurrent use.
type Template struct {
	host     *Host
	compiled *template.Template
	names    template.Names
}

// Text is a rendered template.
type Text struct {
	// Value is the rendered text, secrets included.
	Value string
	// Masked is the text for people to read. In place of a text with a secret, it has the expression.
	Masked string
	// Secret reports whether any part of the text came from a secret.
	Secret bool

	// secrets are the parts of Value that came from secrets, and the secrets themselves.
	secrets []string
}

// Template compiles a text. It may not name user.token or an identity, which go to token endpoints only, or call discover, which is for
// the fields of auth types. If the text is invalid, the error is a [ConfigError].
func (h *Host) Template(source string) (*Template, error) {
	compiled, errs := template.Compile(source)
	if len(errs) > 0 {
		problems := make([]Problem, len(errs))
		for i, e := range errs {
			problems[i] = Problem{Column: e.Column, Message: e.Message}
		}
		return nil, wrongTemplate(problems...)
	}
	if column, problem := connect.Misplaced(compiled); problem != "" {
		return nil, wrongTemplate(Problem{Column: column, Message: problem})
	}
	return &Template{host: h, compiled: compiled, names: compiled.Names()}, nil
}

func wrongTemplate(problems ...Problem) error {
	return &ConfigError{Problems: problems, template: true}
}

// Secrets returns the names of the secrets that the template names, sorted. They are like those of [Connector.Secrets].
func (t *Template) Secrets() []string { return t.compiled.Names().Secrets }

// Variables returns the names of the variables that the template names, sorted. They are like those of [Connector.Variables].
func (t *Template) Variables() []string { return t.names.Variables }

// Personal reports whether the template names a field of the user, tenant_id, or a secret of a tenant or a user.
func (t *Template) Personal() bool { return len(t.names.User) > 0 || t.names.Tenant }

// Literal returns the text if it has no expression, and reports whether that is so.
func (t *Template) Literal() (text string, ok bool) { return t.compiled.Literal() }

// Render reads the secrets that the template names, and evaluates its expressions for the user of the context, see
// [WithUser]. It returns an error if a secret or a field of the user is missing. The error never contains a secret.
func (t *Template) Render(ctx context.Context) (Text, error) {
	return t.render(ctx, t.compiled.Render)
}

// RenderURL is like Render for a URL: it percent-encodes the results of expressions, but not the text around them. A
// result in the path stays within its segment when it is sent, but a server may decode it, so callers must check the
// dots, slashes and backslashes of results. If the text around the expressions has a character that may not stand in a
// path, net/url.Parse encodes the path again and loses which slashes were encoded, unless the caller sets RawPath.
func (t *Template) RenderURL(ctx context.Context) (Text, error) {
	return t.render(ctx, t.compiled.RenderURL)
}

func (t *Template) render(ctx context.Context, render func(template.Values) ([]template.Part, error)) (Text, error) {
	if t.host.shared.Gate.Closed() {
		return Text{}, ErrClosed
	}
	config := &t.host.config
	in, err := inputs.OfTemplate(ctx, &t.names, config.Secrets, config.OwnedVariables, config.Variables)
	if err != nil {
		return Text{}, err
	}
	plan := &hostfn.Plan{Names: t.names, Clock: config.Clock, Random: config.Random}
	parts, err := render(hostfn.New(ctx, plan, in, hostfn.Inline).Values())
	if err != nil {
		return Text{}, err
	}
	text := Text{Value: template.Join(parts)}
	var masked strings.Builder
	for _, part := range parts {
		display := part.Text
		if part.Secret {
			text.Secret, text.secrets, display = true, append(text.secrets, part.Text), part.Source
		}
		masked.WriteString(display)
	}
	if text.Masked = masked.String(); text.Secret {
		text.secrets = append(text.secrets, in.Secrets...) // an API may decode the result of an expression and return a part
	}
	return text, nil
}
