// Plugin apikey puts a fixed key into a header, a query parameter, the path, a cookie or a form.
package main

import (
	"strings"

	"github.com/keywright/keywright/sdk"
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "api_key",
		Aliases: []string{"apikey"},
		Version: "1.1.0",
		Summary: "A key in a header, a query parameter, the path, a cookie or a form.",
		Fields: []sdk.Field{
			{
				Name: "key", Kind: sdk.String, Required: true, Sinks: []string{sdk.ToHeader, sdk.ToQuery, sdk.ToBody},
				Doc: "Name of the header, query parameter, cookie or member of the form. For the path, the text that the credential replaces.",
			},
			{
				Name: "value", Kind: sdk.String, Required: true, Sealed: true, Sinks: []string{sdk.ToHeader, sdk.ToQuery, sdk.ToBody, sdk.ToPath},
				Doc: "The credential.",
			},
			{Name: "in", Kind: sdk.String, Required: true, Enum: []string{"header", "query", "path", "cookie", "form"}, Doc: "Where the key goes."},
		},
	}
}

// Validate refuses a name that no request could carry. If the name comes from a template, the host checks it when the request
// is made.
func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	in, _ := c.Literal("in")
	key, literal := c.Literal("key")
	if !literal {
		return nil
	}
	if message := check(in, key); message != "" {
		return []sdk.Problem{{Field: "key", Message: message}}
	}
	return nil
}

// check returns the reason why no request could carry a key of this name, or "".
func check(in, key string) string {
	switch {
	case in == "header":
		return sdk.CheckHeaderName(key)
	case in == "cookie" && !sdk.IsToken(key):
		return "is not the name of a cookie: letters, digits and any of !#$%&'*+-.^_`|~ are allowed"
	case in == "path" && strings.ContainsAny(key, "/?#%"):
		return "is no placeholder: write text that stands in one segment of the path, such as {token}"
	}
	return ""
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	pair := []sdk.Pair{{Name: c.Config("key"), Value: c.Config("value")}}
	switch c.Config("in") {
	case "query":
		return sdk.Mutation{Query: pair}, nil
	case "path":
		return sdk.Mutation{Path: pair}, nil
	case "cookie":
		return sdk.Mutation{Cookies: pair}, nil
	case "form":
		return sdk.Mutation{Form: pair}, nil
	}
	return sdk.Mutation{Headers: pair}, nil
}
