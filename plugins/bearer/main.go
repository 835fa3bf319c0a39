// Plugin bearer sends a token that somebody else has issued: RFC 6750.
package main

import "github.com/keywright/keywright/sdk"

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	return sdk.Description{
		ABI: sdk.ABI, Type: "bearer", Version: "1.0.0",
		Summary: "A token in the Authorization header, in the query or in a form (RFC 6750).",
		Fields: []sdk.Field{
			{
				Name: "token", Kind: sdk.String, Required: true, Sealed: true, Sinks: []sdk.Sink{sdk.ToHeader, sdk.ToQuery, sdk.ToBody},
				Doc: "The token, without a prefix.",
			},
			{
				Name: "in", Kind: sdk.String, Enum: []string{"header", "query", "form"}, Default: "header",
				Doc: "Where the token goes: the header Authorization, or the parameter access_token of the query or of a form.",
			},
			{
				Name: "prefix", Kind: sdk.String, OnlyIf: []sdk.Condition{{Field: "in", Values: []string{"header"}}}, Default: "Bearer",
				Doc: "Word in front of the token in the header. It may be empty.",
				// An authentication scheme, RFC 9110 section 11.1.
				Pattern:        "[!#$%&'*+.\\^_`|~0-9A-Za-z-]*",
				PatternMessage: "is not one word, such as Token: for another form of the header, use the type api_key with key Authorization",
			},
		},
	}
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	token := c.Config("token")
	parameter := []sdk.Pair{{Name: "access_token", Value: token}}
	switch c.Config("in") {
	case "query": // RFC 6750 section 2.3 wants the header
		return sdk.Mutation{Query: parameter, Headers: []sdk.Pair{{Name: "Cache-Control", Value: "no-store"}}}, nil
	case "form":
		return sdk.Mutation{Form: parameter}, nil
	}
	prefix := c.Config("prefix")
	if prefix != "" {
		prefix += " "
	}
	return sdk.Header("Authorization", prefix+token), nil
}
