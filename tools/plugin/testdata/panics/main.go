// Plugin panics panics when it runs.
package main

import "github.com/keywright/keywright/sdk"

func init() { sdk.Register(plugin{}) }

func main() {}

type plugin struct{}

func (plugin) Describe() sdk.Description {
	return sdk.Description{
		ABI: sdk.ABI, Type: "panics", Version: "1.0.0", Summary: "Panics.",
		Fields: []sdk.Field{{Name: "how", Kind: sdk.String, Required: true}},
	}
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	var list []string
	if c.Config("how") == "index" {
		return sdk.Header("X", list[len(c.Config("how"))]), nil
	}
	panic("no such way:\x1b[31m\n" + c.Config("how"))
}
