// Plugin awssigv4 signs requests for AWS, Signature Version 4.
package main

import (
	"github.com/keywright/keywright/plugins/internal/sigv4"
	"github.com/keywright/keywright/sdk"
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	// The access key ID and the session token are part of what a signature in the query covers.
	places := []sdk.Sink{sdk.ToHeader, sdk.ToQuery, sdk.ToDigest}
	return sdk.Description{
		ABI: sdk.ABI, Type: "aws_sigv4", Version: "1.0.0",
		Summary: "A signature of AWS, Signature Version 4, in Authorization or in the query.",
		Uses:    []sdk.Group{sdk.UsesCache, sdk.UsesSign, sdk.UsesBody},
		Fields: sdk.Fields([]sdk.Field{
			{Name: "access_key_id", Kind: sdk.String, Required: true, Sinks: places, Doc: "Access key ID."},
			{
				Name: "secret_access_key", Kind: sdk.String, Required: true, Sealed: true,
				Sinks: []sdk.Sink{sdk.ToSign}, Derived: []sdk.Sink{sdk.ToSign, sdk.ToHeader, sdk.ToQuery}, Doc: "Secret access key.",
				Obtain: "In the AWS console: IAM, Users, Security credentials, Create access key.",
			},
			{Name: "session_token", Kind: sdk.String, Sealed: true, Sinks: places, Doc: "Session token of temporary credentials."},
		}, sigv4.Fields()),
		Challenge: sigv4.Challenge(),
	}
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	if sigv4.Refused(c) {
		return sdk.Mutation{Pass: true}, nil
	}
	return sigv4.Request(c, sigv4.Key{ID: c.Config("access_key_id"), Token: c.Config("session_token"), CachedAs: "signing key"})
}
