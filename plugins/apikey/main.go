// Plugin apikey puts a fixed key into a header or a query parameter.
package main

import "github.com/keywright/keywright/sdk"

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	anywhere := []string{sdk.ToHeader, sdk.ToQuery}
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "api_key",
		Aliases: []string{"apikey"},
		Version: "1.0.0",
		Summary: "A key in a header or in a query parameter.",
		Fields: []sdk.Field{
			{Name: "key", Kind: sdk.String, Required: true, Sinks: anywhere, Doc: "Name of the header or query parameter."},
			{Name: "value", Kind: sdk.String, Required: true, Sealed: true, Sinks: anywhere, Doc: "The credential."},
			{Name: "in", Kind: sdk.String, Required: true, Enum: []string{"header", "query"}, Doc: "Where the key goes."},
		},
	}
}

// Validate refuses a header name that no request could carry. If the name comes from a template, the host checks it when
// the request is made.
func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	key, literal := c.Literal("key")
	in, _ := c.Literal("in")
	if !literal || in != "header" {
		return nil
	}
	if message := sdk.CheckHeaderName(key); message != "" {
		return []sdk.Problem{{Field: "key", Message: message}}
	}
	return nil
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	key, value := c.Config("key"), c.Config("value")
	if c.Config("in") == "query" {
		return sdk.Query(key, value), nil
	}
	return sdk.Header(key, value), nil
}
