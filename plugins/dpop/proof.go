package main

import "github.com/keywright/keywright/sdk"

// proofOfRequest returns the signed proof for the request to the API, with the hash of the token.
func proofOfRequest(c *sdk.Call, token, nonce string) (string, error) {
	r, err := c.Request()
	if err != nil {
		return "", err
	}
	now := c.Now() + c.ClockOffset() // the API refuses a proof of another time, section 11.1
	return c.SignJWT(proofOf(c, now, r.Method, r.URL, c.Base64URL(c.Digest(sdk.DigestSHA256, token)), nonce)), nil
}

// proofOf returns a proof for a request, RFC 9449 section 4.2. now is its time in Unix seconds.
func proofOf(c *sdk.Call, now int64, method, url, ath, nonce string) sdk.JWT {
	var header, claims sdk.Members
	header.String("typ", "dpop+jwt")
	header.Raw("jwk", c.PublicKey("proof_key", sdk.JWK))
	claims.String("jti", c.Random(16))
	claims.String("htm", method)
	claims.String("htu", target(url))
	claims.Integer("iat", now)
	if ath != "" {
		claims.String("ath", ath)
	}
	if nonce != "" {
		claims.String("nonce", nonce)
	}
	return sdk.JWT{Key: "proof_key", Header: header.JSON(), Claims: claims.JSON()}
}

// target returns a URL without its query and its fragment. An empty path becomes /, as it is in the request.
func target(url string) string {
	slashes := 0
	for i := 0; i < len(url); i++ {
		switch url[i] {
		case '/':
			slashes++
		case '?', '#':
			url = url[:i]
		}
	}
	if slashes < 3 {
		return url + "/"
	}
	return url
}
