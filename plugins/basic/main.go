// Plugin basic sends a user name and a password with each request: the Basic scheme, RFC 7617.
package main

import (
	"errors"

	"github.com/keywright/keywright/sdk"
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	header := []sdk.Sink{sdk.ToHeader}
	return sdk.Description{
		ABI: sdk.ABI, Type: "basic", Version: "1.0.0",
		Summary: "A user name and a password in the Authorization header (RFC 7617).",
		Fields: []sdk.Field{
			{
				Name: "username", Kind: sdk.String, Sinks: header, Doc: "User name, without a colon.", Pattern: `[^:\x00-\x1f\x7f]*`, // RFC 7617 section 2
				PatternMessage: "holds a colon, where a server ends the user name, or a control character: put what follows a colon into password",
			},
			{Name: "password", Kind: sdk.String, Sealed: true, Sinks: header, Doc: "Password. Without it, the password is empty."},
		},
	}
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	username, password := c.Config("username"), c.Config("password")
	if username+password == "" {
		return sdk.Mutation{}, errors.New("there is neither username nor password: set the one that is the credential, or both")
	}
	return sdk.Header("Authorization", "Basic "+c.Base64(username+":"+password)), nil
}
