package signing

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/keywright/keywright/host/internal/strictjson"
)

// JWSHeader returns the JOSE header of a JWS that is no JWT, in base64url: alg, b64 if the payload is not encoded (RFC 7797), crit, and
// the members of header. These must not include alg, b64 and crit, nor what makes the JWS something else: a cty, a zip, a typ other
// than JOSE and JOSE+JSON (RFC 7515 section 4.1.9), or the key that verifies it, in jku or jwk.
//
// crit names members of header that the recipient must understand. b64 is added to it where it has to be one of them.
func JWSHeader(algorithm string, header map[string]any, crit []string, unencoded bool) (string, error) {
	if err := checkNames(header, "alg", "crit", "b64", "cty", "zip", "jku", "jwk"); err != nil {
		return "", err
	}
	if typ, set := header["typ"]; set && typ != "JOSE" && typ != "JOSE+JSON" {
		return "", errors.New(`"typ" may only be JOSE or JOSE+JSON: with another one the JWS would be something else, such as a JWT`)
	}
	document := []byte(`{"alg":"` + algorithm + `"`)
	if unencoded {
		document = append(document, `,"b64":false`...)
		crit = append([]string{"b64"}, slices.DeleteFunc(slices.Clone(crit), func(name string) bool { return name == "b64" })...)
	}
	if len(crit) > 0 {
		names, err := criticalNames(crit, header, unencoded)
		if err != nil {
			return "", err
		}
		if document, err = strictjson.AppendValue(append(document, `,"crit":`...), names); err != nil {
			return "", err
		}
	}
	document, err := strictjson.AppendMembers(document, header)
	return base64.RawURLEncoding.EncodeToString(document), err
}

// criticalNames returns the value of crit, or an error if it is not one of RFC 7515 section 4.1.11. b64 may be in it if unencoded is set.
func criticalNames(crit []string, header map[string]any, unencoded bool) (names []any, err error) {
	for i, name := range crit {
		_, present := header[name]
		switch {
		case slices.Contains(ownNames, name):
			return nil, fmt.Errorf("crit has %q, which every recipient understands: remove it", name)
		case !present && (name != "b64" || !unencoded):
			return nil, fmt.Errorf("crit has %.64q, which is no member of the header", name)
		case slices.Contains(crit[:i], name):
			return nil, fmt.Errorf("crit has %.64q twice", name)
		}
		names = append(names, name)
	}
	return names, nil
}

// ownNames are the members of a header that RFC 7515 itself defines.
var ownNames = []string{"alg", "jku", "jwk", "kid", "x5u", "x5c", "x5t", "x5t#S256", "typ", "cty", "crit"}

// Uses has the keys of a host that sign something beside JWS, with the connector of each. It is safe for concurrent use.
//
// A caller's body can be the payload of a JWS, and the body with its signature can pass for a JWT. So a key that signs JWS may be none of
// these. A key is known by the name of its secret, by its name in a store of keys, and, once it has signed, by its thumbprint.
type Uses struct {
	connectors *lru.Cache[string, string]
}

// maxUses bounds the keys that are remembered, which may be those of many tenants. The last ones count.
const maxUses = 1 << 16

// Add records that a connector uses a key beside JWS.
func (u *Uses) Add(key, connector string) { u.connectors.Add(key, connector) }

// Connector returns the connector that used a key last beside JWS, and whether there is one.
func (u *Uses) Connector(key string) (connector string, ok bool) { return u.connectors.Get(key) }
