package catalogue

import (
	"fmt"
	"strings"
)

// Page returns docs/apis.md, the catalogue for readers.
func Page(apis []*API) string {
	var b strings.Builder
	b.WriteString(`# Connectors of well-known products

<!-- Made from server/internal/onboard/catalogue/apis by: go -C server test ./internal/onboard/catalogue -update -->

` + "`keywright connector new --api NAME -c connectors.yaml`" + ` adds the connector of a product to a file, with comments that say what to fill
in. ` + "`--set TEXT=VALUE`" + ` fills in a text at once, and ` + "`--name`" + ` makes a second connector of the product, with secrets of its own.
` + "`--place`" + ` is for another environment or region of the product, with ` + "`--sandbox`" + ` as a short form of ` + "`--place sandbox`" + `, and ` + "`--url`" + ` for a
server of your own. They move all URLs of the product, the token endpoint too, or make nothing and say which URL cannot move.
Then the command says which secrets to store, and which request to try. ` + "`keywright connector list`" + ` has this table:

| name | product | auth type |
|---|---|---|
`)
	for _, a := range apis {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | [`%s`](auth-types.md#%s) |\n", a.Name, a.Name, a.Title, a.AuthType(), a.AuthType())
	}
	b.WriteString(`
Each connector is run by a test, with made-up secrets, against a server that checks what the product documents about hosts, headers,
forms and signatures, and that refuses other secrets. No request went to a product itself. What users see after a mistake is
from the documentation of the products, as far as it is known, and may change.

For any other API, begin with an example of its [auth type](auth-types.md).
`)
	for _, a := range apis {
		a.section(&b)
	}
	return b.String()
}

// section writes the section of a product.
func (a *API) section(b *strings.Builder) {
	fmt.Fprintf(b, "\n## `%s`\n\n%s: %s\n[What it documents](%s).\n\n```yaml\n", a.Name, a.Title, a.Summary, a.Docs)
	a.entry(b)
	b.WriteString("```\n\n| fill in | with |\n|---|---|\n")
	for _, f := range a.Fill {
		name, kind := f.Replace, ""
		if f.Secret != "" {
			name, kind = f.Secret, "the secret "
		}
		fmt.Fprintf(b, "| %s`%s` | %s, such as `%s`. %s. |\n", kind, name, f.What, f.Example, f.Place())
	}
	for _, place := range a.placeNames() {
		fmt.Fprintf(b, "| `--place %s` | the place at `%s`. |\n", place, base(a.replaced(a.Places[place], a.Shared)))
	}
	fmt.Fprintf(b, "\nTry `keywright request %s`.\n\n| mistake | what you see |\n|---|---|\n", a.Arguments())
	for _, m := range a.Mistakes {
		fmt.Fprintf(b, "| %s | %s |\n", m.Do, m.See)
	}
}
