// Plugin tc3 signs requests for Tencent Cloud, TC3-HMAC-SHA256.
package main

import (
	"strings"

	"github.com/keywright/keywright/sdk"
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "tencent_tc3",
		Version: "1.0.0",
		Summary: "A signature of Tencent Cloud, TC3-HMAC-SHA256.",
		Uses:    []sdk.Group{sdk.UsesSign, sdk.UsesBody},
		Fields: []sdk.Field{
			{Name: "secret_id", Kind: sdk.String, Required: true, Sinks: []sdk.Sink{sdk.ToHeader}, Doc: "SecretId of the key."},
			{
				Name: "secret_key", Kind: sdk.String, Required: true, Sealed: true, Sinks: []sdk.Sink{sdk.ToSign},
				Derived: []sdk.Sink{sdk.ToSign, sdk.ToHeader}, Doc: "SecretKey of the key.",
			},
			{
				Name: "service", Kind: sdk.String, Required: true, Pattern: "[a-z0-9]+", PatternMessage: "is the first label of the host, such as cvm",
				Doc: "Service, such as cvm.",
			},
		},
		Challenge: &sdk.Challenge{}, // so that the host learns how far the API's clock is ahead
	}
}

const canonical = "{method}\n{path}\n{query}\n{headers:content-type;host}\n\ncontent-type;host\n{body|sha256|hex}"

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	var m sdk.Mutation
	if c.Compose("{header:content-type}") == "" { // Tencent wants it signed, also of a GET
		m = sdk.Header("Content-Type", "application/x-www-form-urlencoded")
	}
	scope := c.Compose("{time:%Y-%m-%d}/{config:service}/tc3_request")
	key := "TC3" + c.Config("secret_key")
	for part := range strings.SplitSeq(scope, "/") {
		key = c.MAC(sdk.MACSHA256, key, part)
	}
	hash := c.Hex(c.Digest(sdk.DigestSHA256, c.ComposeWith(canonical, m)))
	signature := c.Hex(c.MAC(sdk.MACSHA256, key, c.Compose("TC3-HMAC-SHA256\n{timestamp}\n")+scope+"\n"+hash))
	authorization := c.Compose("TC3-HMAC-SHA256 Credential={config:secret_id}/") + scope + ", SignedHeaders=content-type;host, Signature=" + signature
	m.Headers = append(m.Headers, sdk.Pair{Name: "X-TC-Timestamp", Value: c.Compose("{timestamp}")}, sdk.Pair{Name: "Authorization", Value: authorization})
	return m, nil
}
