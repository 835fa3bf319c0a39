// Plugin forgotten does not register itself.
package main

import "github.com/keywright/keywright/sdk"

func main() {}

type plugin struct{}

var _ sdk.Plugin = plugin{}

func (plugin) Describe() sdk.Description                    { return sdk.Description{} }
func (plugin) Authenticate(*sdk.Call) (sdk.Mutation, error) { return sdk.Mutation{}, nil }
