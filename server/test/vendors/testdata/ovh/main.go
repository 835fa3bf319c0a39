// Plugin ovh signs requests for OVHcloud, with a SHA-1 over two secrets and the request.
package main

import "github.com/keywright/keywright/sdk"

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	header := []sdk.Sink{sdk.ToHeader}
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "ovh",
		Version: "1.0.0",
		Summary: "A signature of OVHcloud.",
		Uses:    []sdk.Group{sdk.UsesBody},
		Fields: []sdk.Field{
			{Name: "application_key", Kind: sdk.String, Required: true, Sinks: header, Doc: "Key of the application."},
			{Name: "application_secret", Kind: sdk.String, Required: true, Sealed: true, Sinks: []sdk.Sink{sdk.ToDigest}, Derived: header, Doc: "Secret of the application."},
			{Name: "consumer_key", Kind: sdk.String, Required: true, Sealed: true, Sinks: []sdk.Sink{sdk.ToHeader, sdk.ToDigest}, Derived: header, Doc: "Consumer key of the account."},
		},
		Challenge: &sdk.Challenge{}, // so that the host learns how far the API's clock is ahead
	}
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	signed := c.Config("application_secret") + "+" + c.Config("consumer_key") + c.Compose("+{method}+{url}+{body}+{timestamp}")
	return sdk.Mutation{Headers: []sdk.Pair{
		{Name: "X-Ovh-Application", Value: c.Config("application_key")},
		{Name: "X-Ovh-Consumer", Value: c.Config("consumer_key")},
		{Name: "X-Ovh-Timestamp", Value: c.Compose("{timestamp}")},
		{Name: "X-Ovh-Signature", Value: "$1$" + c.Hex(c.Digest(sdk.DigestSHA1, signed))},
	}}, nil
}
