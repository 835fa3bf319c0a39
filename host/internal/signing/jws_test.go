package signing_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/internal/testworld"
)

// The examples of RFC 7797 section 4 have these headers and signatures.
func TestUnencodedPayload(t *testing.T) {
	const key = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow" // RFC 7515 appendix A.1.1
	for _, test := range []struct {
		name, payload, want string
		unencoded           bool
	}{
		{"encoded, section 4.1", "JC4wMg", "eyJhbGciOiJIUzI1NiJ9..5mvfOroL-g7HyqJoozehmsaqmvTYGEq5jTI1gVvoEoQ", false},
		{"unencoded, section 4.2", "$.02", "eyJhbGciOiJIUzI1NiIsImI2NCI6ZmFsc2UsImNyaXQiOlsiYjY0Il19..A5dxf2s96_n5FLueVuW1Z_vh161FwXZC4YLPff6dmDY", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			header, err := signing.JWSHeader("HS256", nil, nil, test.unencoded)
			testworld.Check(t, err)
			signature, _, err := signing.New(1).Sign("HS256", string(unbase64(key)), header+"."+test.payload)
			if got := header + ".." + base64.RawURLEncoding.EncodeToString(signature); err != nil || got != test.want {
				t.Errorf("JWS = %s, err = %v, want %s", got, err, test.want)
			}
		})
	}
}

// The header of a JWS has these bytes, or is refused (threats.md 427).
func TestJWSHeader(t *testing.T) {
	type members = map[string]any
	for _, test := range []struct {
		name   string
		header members
		crit   []string
		want   string // the header, or a part of the error
	}{
		{"TrueLayer", members{"kid": "k", "tl_version": "2", "tl_headers": "Idempotency-Key"}, nil, `{"alg":"ES512","kid":"k","tl_headers":"Idempotency-Key","tl_version":"2"}`},
		{"Revolut", members{"kid": "k", "typ": "JOSE", "http://openbanking.org.uk/tan": "revolut.com"}, []string{"http://openbanking.org.uk/tan"}, `{"alg":"ES512","crit":["http://openbanking.org.uk/tan"],"http://openbanking.org.uk/tan":"revolut.com","kid":"k","typ":"JOSE"}`},
		{"JOSE+JSON", members{"typ": "JOSE+JSON"}, nil, `{"alg":"ES512","typ":"JOSE+JSON"}`},
		{"b64 that is true", nil, []string{"b64"}, `crit has "b64", which is no member`},
		{"a JWT", members{"typ": "JWT"}, nil, `"typ" may only be JOSE`},
		{"a proof of DPoP", members{"typ": "dpop+jwt"}, nil, `"typ" may only be JOSE`},
		{"JOSE in lower case", members{"typ": "jose"}, nil, `"typ" may only be JOSE`},
		{"no text as typ", members{"typ": []any{"JOSE"}}, nil, `"typ" may only be JOSE`},
		{"typ in capitals", members{"TYP": "JOSE"}, nil, `"typ" may be set in lower case only`},
		{"a nested JWT", members{"cty": "JWT"}, nil, `"cty" may not be set`},
		{"a compressed payload", members{"zip": "DEF"}, nil, `"zip" may not be set`},
		{"a key of its own", members{"jwk": members{}}, nil, `"jwk" may not be set`},
		{"a URL of keys", members{"JKU": "https://x.test"}, nil, `"jku" may not be set`},
		{"alg", members{"Alg": "none"}, nil, `"alg" may not be set`},
		{"b64", members{"b64": false}, nil, `"b64" may not be set`},
		{"crit as a member", members{"crit": []any{}}, nil, `"crit" may not be set`},
		{"crit of kid", members{"kid": "k"}, []string{"kid"}, "every recipient understands"},
		{"crit of nothing", members{"a": "1"}, []string{"b"}, "no member of the header"},
		{"crit twice", members{"a": "1"}, []string{"a", "a"}, "twice"},
		{"crit in other letters", members{"A": "1"}, []string{"a"}, "no member of the header"},
		{"an empty name", nil, []string{""}, "no member of the header"},
	} {
		t.Run(test.name, func(t *testing.T) {
			header, err := signing.JWSHeader("ES512", test.header, test.crit, false)
			if strings.HasPrefix(test.want, "{") {
				if got := string(unbase64(header)); err != nil || got != test.want {
					t.Errorf("header %s, err = %v, want %s", got, err, test.want)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("err = %v, want %s", err, test.want)
			}
		})
	}
	header, err := signing.JWSHeader("PS256", members{"a": "1"}, []string{"a", "b64"}, true)
	if want := `{"alg":"PS256","b64":false,"crit":["b64","a"],"a":"1"}`; err != nil || string(unbase64(header)) != want {
		t.Errorf("header %s, err = %v, want %s", unbase64(header), err, want)
	}
}
