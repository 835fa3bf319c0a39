package host

import (
	"context"
	"fmt"
	"strings"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/template"
)

// Template is text with expressions, in the language of a connector's configuration, for what an embedder makes of a request
// beside its authentication: a path, a header. [Host.Template] makes one. It is safe for concurrent use.
type Template struct {
	host     *Host
	compiled *template.Template
	names    template.Names
}

// Text is a rendered template.
type Text struct {
	// Value is the text, with the secrets.
	Value string
	// Masked is the text as a person may see it. What came from a secret is the expression that it came from.
	Masked string
	// Secret reports whether something of the text came from a secret.
	Secret bool

	secrets []string // the parts of Value that did, and the secrets themselves
}

// TemplateError lists everything that is wrong with a template. The paths of its problems are empty.
type TemplateError struct{ Problems []Problem }

func (e *TemplateError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.Message
		if p.Column > 0 {
			lines[i] = fmt.Sprintf("column %d: %s", p.Column, p.Message)
		}
	}
	return strings.Join(lines, "\n")
}

// Template compiles a text. The error is a [TemplateError].
func (h *Host) Template(source string) (*Template, error) {
	compiled, errs := template.Compile(source)
	if len(errs) > 0 {
		wrong := &TemplateError{}
		for _, e := range errs {
			wrong.Problems = append(wrong.Problems, Problem{Column: e.Column, Message: e.Message})
		}
		return nil, wrong
	}
	return &Template{host: h, compiled: compiled, names: compiled.Names()}, nil
}

// Secrets lists the names of the secrets that the template names, sorted.
func (t *Template) Secrets() []string { return t.compiled.Names().Secrets }

// Personal reports whether the template names something of the user, or tenant_id.
func (t *Template) Personal() bool { return len(t.names.User) > 0 || t.names.Tenant }

// Literal returns the text when there is no expression in it.
func (t *Template) Literal() (text string, ok bool) { return t.compiled.Literal() }

// Render reads the secrets that the template names, and evaluates its expressions for the user of the context. Its error
// says what is missing, and never holds a secret.
func (t *Template) Render(ctx context.Context) (Text, error) {
	return t.render(ctx, t.compiled.Render)
}

// RenderURL is Render for a URL: what expressions give is percent-encoded. In the path it stays within its segment, although
// a server may decode it: what comes of dots, slashes and backslashes is for the caller to check. The text around the
// expressions stays as it is written. If it has a character that may not stand in a path, net/url.Parse encodes the path anew
// and loses which slashes were encoded, unless the caller sets RawPath.
func (t *Template) RenderURL(ctx context.Context) (Text, error) {
	return t.render(ctx, t.compiled.RenderURL)
}

func (t *Template) render(ctx context.Context, render func(template.Values) ([]template.Part, error)) (Text, error) {
	if t.host.closed.Load() {
		return Text{}, ErrClosed
	}
	in := &hostfn.Inputs{Variables: t.host.config.Variables}
	if u, ok := UserFrom(ctx); ok {
		in.User = template.User{ID: u.ID, Email: u.Email, Username: u.Username, FirstName: u.FirstName, LastName: u.LastName}
		in.TenantID = u.TenantID
	}
	for _, name := range t.names.Secrets {
		value, err := readSecret(ctx, t.host.config.Secrets, name)
		if err != nil {
			return Text{}, err
		}
		in.Secrets = append(in.Secrets, value)
	}
	plan := &hostfn.Plan{Names: t.names, Clock: t.host.config.Clock, Random: t.host.config.Random}
	parts, err := render(hostfn.New(ctx, plan, in, hostfn.Inline).Values())
	if err != nil {
		return Text{}, err
	}
	text := Text{Value: template.Join(parts)}
	var masked strings.Builder
	for _, part := range parts {
		if part.Secret {
			text.Secret, text.secrets = true, append(text.secrets, part.Text)
			masked.WriteString(part.Source)
			continue
		}
		masked.WriteString(part.Text)
	}
	if text.Masked = masked.String(); text.Secret {
		text.secrets = append(text.secrets, in.Secrets...) // an API may take apart what an expression has made of them
	}
	return text, nil
}
