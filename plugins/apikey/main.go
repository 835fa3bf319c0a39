// Plugin apikey puts a fixed key into a header, a query parameter, the path, a cookie or a form.
package main

import "github.com/keywright/keywright/sdk"

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	return sdk.Description{
		ABI: sdk.ABI, Type: "api_key", Aliases: []string{"apikey"}, Version: "1.1.0",
		Summary: "A key in a header, a query parameter, the path, a cookie or a form.",
		Fields: []sdk.Field{
			{
				Name: "key", Kind: sdk.String, Required: true, Sinks: []sdk.Sink{sdk.ToHeader, sdk.ToQuery, sdk.ToBody},
				Doc: "Name of the header, query parameter, cookie or member of the form. For the path, the text that the credential replaces.",
			},
			{
				Name: "value", Kind: sdk.String, Required: true, Sealed: true, Sinks: []sdk.Sink{sdk.ToHeader, sdk.ToQuery, sdk.ToBody, sdk.ToPath},
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
	return c.CheckName("key", in)
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	return sdk.Place(c.Config("in"), sdk.Pair{Name: c.Config("key"), Value: c.Config("value")}), nil
}
