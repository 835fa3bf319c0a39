// Plugin none sends a request unchanged, without a credential.
package main

import "github.com/keywright/keywright/sdk"

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	return sdk.Description{
		ABI: sdk.ABI, Type: "none", Version: "1.0.0",
		Summary:   "No credentials: the request is sent exactly as configured.",
		Anonymous: true,
	}
}

func (plugin) Authenticate(*sdk.Call) (sdk.Mutation, error) { return sdk.Mutation{}, nil }
