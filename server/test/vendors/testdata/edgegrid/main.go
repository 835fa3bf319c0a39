// Plugin edgegrid signs requests for Akamai, EG1-HMAC-SHA256.
package main

import (
	"errors"
	"strconv"

	"github.com/keywright/keywright/sdk"
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	token := []sdk.Sink{sdk.ToHeader, sdk.ToDigest}
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "edgegrid",
		Version: "1.0.0",
		Summary: "A signature of Akamai EdgeGrid, EG1-HMAC-SHA256.",
		Uses:    []sdk.Group{sdk.UsesSign, sdk.UsesBody},
		Fields: []sdk.Field{
			{Name: "client_token", Kind: sdk.String, Required: true, Sinks: token, Doc: "client_token of the file .edgerc."},
			{Name: "access_token", Kind: sdk.String, Required: true, Sinks: token, Doc: "access_token of the file."},
			{
				Name: "client_secret", Kind: sdk.String, Required: true, Sealed: true, Sinks: []sdk.Sink{sdk.ToSign},
				Derived: []sdk.Sink{sdk.ToSign, sdk.ToHeader}, Doc: "client_secret of the file.",
			},
		},
		Challenge: &sdk.Challenge{}, // so that the host learns how far the API's clock is ahead
	}
}

const (
	// longest is the number of bytes of a body that Akamai looks at.
	longest = 131072
	// empty is the hash of no body, in place of which Akamai has nothing.
	empty = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
)

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	hash := ""
	if c.Compose("{method}") == "POST" { // no other body is signed
		if hash = c.Compose("{body|sha256|base64}"); hash == empty {
			hash = ""
		}
		if length, err := strconv.Atoi(c.Compose("{content_length}")); err == nil && length > longest {
			return sdk.Mutation{}, errors.New("the body has more than " + strconv.Itoa(longest) + " bytes, of which Akamai has the first signed: send less")
		}
	}
	key := c.Base64(c.MAC(sdk.MACSHA256, c.Config("client_secret"), c.Compose("{time:%Y%m%dT%H:%M:%S+0000}")))
	value := c.Compose("EG1-HMAC-SHA256 client_token={config:client_token};access_token={config:access_token};timestamp={time:%Y%m%dT%H:%M:%S+0000};nonce={nonce};")
	signed := c.Compose("{method}\t{scheme}\t{authority}\t{target}\t\t") + hash + "\t" + value
	return sdk.Header("Authorization", value+"signature="+c.Base64(c.MAC(sdk.MACSHA256, key, signed))), nil
}
