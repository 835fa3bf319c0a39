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
	header := []string{sdk.ToHeader}
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "basic",
		Version: "1.0.0",
		Summary: "A user name and a password in the Authorization header (RFC 7617).",
		Fields: []sdk.Field{
			{Name: "username", Kind: sdk.String, Sinks: header, Doc: "User name, without a colon."},
			{Name: "password", Kind: sdk.String, Sealed: true, Sinks: header, Doc: "Password. Without it, the password is empty."},
		},
	}
}

func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	username, _ := c.Literal("username")
	if message := check(username); message != "" {
		return []sdk.Problem{{Field: "username", Message: message}}
	}
	return nil
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	username, password := c.Config("username"), c.Config("password")
	if username+password == "" {
		return sdk.Mutation{}, errors.New("there is neither username nor password: set the one that is the credential, or both")
	}
	if message := check(username); message != "" { // in a part that is not sealed
		return sdk.Mutation{}, errors.New("username " + message)
	}
	return sdk.Header("Authorization", "Basic "+c.Base64(username+":"+password)), nil
}

// check returns the reason why a text may not be a user name (RFC 7617 section 2), or "". It cannot see the sealed parts.
func check(username string) string {
	for _, c := range []byte(username) {
		switch {
		case c == ':':
			return "holds a colon, where a server ends the user name: put what follows into password"
		case c < ' ' || c == 0x7f:
			return "holds a control character, remove it"
		}
	}
	return ""
}
