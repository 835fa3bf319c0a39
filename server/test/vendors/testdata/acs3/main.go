// Plugin acs3 signs requests for Alibaba Cloud, ACS3-HMAC-SHA256.
package main

import "github.com/keywright/keywright/sdk"

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "alibaba_acs3",
		Version: "1.0.0",
		Summary: "A signature of Alibaba Cloud, ACS3-HMAC-SHA256.",
		Uses:    []sdk.Group{sdk.UsesSign, sdk.UsesBody},
		Fields: []sdk.Field{
			{Name: "access_key_id", Kind: sdk.String, Required: true, Sinks: []sdk.Sink{sdk.ToHeader}, Doc: "ID of the access key."},
			{
				Name: "access_key_secret", Kind: sdk.String, Required: true, Sealed: true, Sinks: []sdk.Sink{sdk.ToSign},
				Derived: []sdk.Sink{sdk.ToHeader}, Doc: "Secret of the access key.",
			},
		},
		Challenge: &sdk.Challenge{}, // so that the host learns how far the API's clock is ahead
	}
}

const (
	signed    = "content-type;host;x-acs-*"
	canonical = "{method}\n{path|path_reencoded}\n{query|query_sorted}\n{headers:" + signed + "}\n\n{header_names:" + signed + "}\n{header:x-acs-content-sha256}"
)

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	m := sdk.Mutation{Headers: []sdk.Pair{
		{Name: "x-acs-date", Value: c.Compose("{iso8601}")},
		{Name: "x-acs-signature-nonce", Value: c.Compose("{nonce}")},
		{Name: "x-acs-content-sha256", Value: c.Compose("{body|sha256|hex}")},
	}}
	hash := c.Hex(c.Digest(sdk.DigestSHA256, c.ComposeWith(canonical, m)))
	signature := c.Hex(c.MAC(sdk.MACSHA256, c.Config("access_key_secret"), "ACS3-HMAC-SHA256\n"+hash))
	names := c.ComposeWith("{header_names:"+signed+"}", m)
	m.Headers = append(m.Headers, sdk.Pair{
		Name: "Authorization", Value: "ACS3-HMAC-SHA256 Credential=" + c.Config("access_key_id") + ",SignedHeaders=" + names + ",Signature=" + signature,
	})
	return m, nil
}
