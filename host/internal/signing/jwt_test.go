package signing_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/internal/testworld"
)

// The header and the claims of a JWT are exactly these bytes (specification.md "header").
func TestJWTText(t *testing.T) {
	tests := []struct {
		name           string
		header, claims map[string]any
		wantHeader     string
		wantClaims     string
	}{
		{"nothing given", nil, nil, `{"alg":"HS256","typ":"JWT"}`, `{}`},
		{
			"a key identifier",
			map[string]any{"kid": "2024-01"},
			map[string]any{"iss": "me"},
			`{"alg":"HS256","typ":"JWT","kid":"2024-01"}`, `{"iss":"me"}`,
		},
		{"typ replaced", map[string]any{"typ": "at+jwt"}, nil, `{"alg":"HS256","typ":"at+jwt"}`, `{}`},
		{
			"no HTML escaping", nil,
			map[string]any{"url": "https://api.example.com/?a=1&b=<2>", "é": "日本\u2028\"\\\n\x01"},
			`{"alg":"HS256","typ":"JWT"}`,
			`{"url":"https://api.example.com/?a=1&b=<2>","é":"日本` + "\u2028" + `\"\\\n\u0001"}`,
		},
		{
			"every type, at any depth", nil,
			map[string]any{
				"z": nil, "b": []any{true, false, []any{}, map[string]any{}},
				"a": map[string]any{"n": json.Number("1.50"), "e": json.Number("-1E+400"), "big": json.Number("123456789012345678901234567890")},
			},
			`{"alg":"HS256","typ":"JWT"}`,
			`{"a":{"big":123456789012345678901234567890,"e":-1E+400,"n":1.50},"b":[true,false,[],{}],"z":null}`,
		},
	}
	signer := signing.New(1)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			token, err := signJWT(signer, "HS256", hmacText, test.header, test.claims)
			testworld.Check(t, err)
			parts := strings.Split(token, ".")
			if len(parts) != 3 {
				t.Fatalf("%d parts, want 3", len(parts))
			}
			if got := string(unbase64(parts[0])); got != test.wantHeader {
				t.Errorf("header %s, want %s", got, test.wantHeader)
			}
			if got := string(unbase64(parts[1])); got != test.wantClaims {
				t.Errorf("claims %s, want %s", got, test.wantClaims)
			}
			signature, _, err := signer.Sign("HS256", hmacText, parts[0]+"."+parts[1])
			if err != nil || base64.RawURLEncoding.EncodeToString(signature) != parts[2] {
				t.Errorf("the signature is not that of header and claims: %v", err)
			}
		})
	}
}

// JWT refuses members that the header may not have (threats.md 39), and values that JSON cannot represent.
func TestJWTRefuses(t *testing.T) {
	const canary = "canary-6b1d"
	tests := []struct {
		name           string
		header, claims map[string]any
		want           string
	}{
		{"alg", map[string]any{"alg": "none"}, nil, `"alg" may not be set`},
		{"alg in other letters", map[string]any{"Alg": canary}, nil, `"alg" may not be set`},
		{"typ in other letters", map[string]any{"Typ": canary}, nil, `"typ" may be set in lower case only`},
		{"crit", map[string]any{"crit": []any{canary}}, nil, `"crit" may not be set`},
		{"b64", map[string]any{"b64": false}, nil, `"b64" may not be set`},
		{"header that is not UTF-8", map[string]any{"kid": canary + "\xff"}, nil, "not UTF-8"},
		{"claim that is not UTF-8", nil, map[string]any{"sub": canary + "\xff"}, "not UTF-8"},
		{"name that is not UTF-8", nil, map[string]any{canary + "\xff": true}, "not UTF-8"},
		{"claim that is not UTF-8, deep", nil, map[string]any{"a": []any{map[string]any{"b": canary + "\xc3"}}}, "not UTF-8"},
		{"number that is none", nil, map[string]any{"n": json.Number(canary)}, "a number is not JSON"},
		{"number that is empty", nil, map[string]any{"n": json.Number("")}, "a number is not JSON"},
		{"number that would add a claim", nil, map[string]any{"n": json.Number(`1,"iss":"evil"`)}, "a number is not JSON"},
		{"number that is a string", nil, map[string]any{"n": json.Number(`"1"`)}, "a number is not JSON"},
		{"type that JSON has not", nil, map[string]any{"n": struct{ s string }{canary}}, "which JSON does not have"},
		{"float", nil, map[string]any{"n": 1.5}, "which JSON does not have"},
	}
	signer := signing.New(1)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			token, err := signJWT(signer, "HS256", hmacText, test.header, test.claims)
			if err == nil || token != "" {
				t.Fatal("it signs")
			}
			if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), canary) {
				t.Errorf("error %q, want one with %q and without the value", err, test.want)
			}
		})
	}
}

// JWT does not change its maps.
func TestJWTLeavesItsMapsAlone(t *testing.T) {
	header, claims := map[string]any{"typ": "x", "kid": "1"}, map[string]any{"iss": "me"}
	if _, err := signJWT(signing.New(1), "HS256", hmacText, header, claims); err != nil {
		t.Fatal(err)
	}
	if len(header) != 2 || len(claims) != 1 {
		t.Errorf("header %v, claims %v", header, claims)
	}
}

// A numeric string becomes an integer, without its fraction (specification.md "exp, iat, nbf are cast").
func TestIntegers(t *testing.T) {
	tests := []struct {
		name string
		in   any
		want any
	}{
		{"seconds", "1700000000", json.Number("1700000000")},
		{"fraction", "1700000000.999", json.Number("1700000000")},
		{"negative", "-5", json.Number("-5")},
		{"negative fraction, towards zero", "-5.9", json.Number("-5")},
		{"plus sign", "+5", json.Number("5")},
		{"leading zeros", "-0012", json.Number("-12")},
		{"zero", "0", json.Number("0")},
		{"minus zero", "-0", json.Number("0")},
		{"minus nothing much", "-0.7", json.Number("0")},
		{"largest", "9223372036854775807.5", json.Number("9223372036854775807")},
		{"smallest", "-9223372036854775808", json.Number("-9223372036854775808")},
		{"zeros that are many", strings.Repeat("0", 400) + "7", json.Number("7")},

		{"empty", "", ""},
		{"word", "soon", "soon"},
		{"exponent", "1e9", "1e9"},
		{"hexadecimal", "0x10", "0x10"},
		{"underscore", "1_000", "1_000"},
		{"blank before", " 1", " 1"},
		{"line break after", "1\n", "1\n"},
		{"two signs", "+-1", "+-1"},
		{"two signs, the other way", "-+1", "-+1"},
		{"two minus signs", "--1", "--1"},
		{"sign only", "-", "-"},
		{"point only", ".", "."},
		{"no digit before the point", ".5", ".5"},
		{"no digit after the point", "5.", "5."},
		{"two points", "1.2.3", "1.2.3"},
		{"sign after the point", "1.-2", "1.-2"},
		{"comma", "1,000", "1,000"},
		{"other digits", "١٢٣", "١٢٣"},
		{"infinity", "Inf", "Inf"},
		{"date", "2024-01-01", "2024-01-01"},

		{"number", json.Number("1.5"), json.Number("1.5")},
		{"boolean", true, true},
		{"null", nil, nil},
		{"array", []any{"1"}, []any{"1"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			claims := map[string]any{"exp": test.in, "sub": "42"}
			testworld.Check(t, signing.Integers(claims, []string{"exp", "iat"}))
			if diff := cmp.Diff(map[string]any{"exp": test.want, "sub": "42"}, claims); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestIntegersRefusesHugeNumbers(t *testing.T) {
	for _, text := range []string{"9223372036854775808", "-9223372036854775809", "1" + strings.Repeat("0", 400) + ".0"} {
		claims := map[string]any{"exp": text}
		err := signing.Integers(claims, []string{"exp"})
		if err == nil || !strings.Contains(err.Error(), `"exp"`) || strings.Contains(err.Error(), text) {
			t.Errorf("%.30s: error %v, want one that names the claim, not the value", text, err)
		}
	}
}

// An error quotes at most 64 characters of a claim's name, and escapes line breaks: a plugin chooses the name, and
// could otherwise fill memory or forge log lines (threats.md 3, 21).
func TestErrorsCutTheNameOfAClaim(t *testing.T) {
	for name, claim := range map[string]string{
		"long":               "begin" + strings.Repeat("n", 1<<20),
		"long when written":  "begin" + strings.Repeat("\x00", 1<<20),
		"characters of more": "begin" + strings.Repeat("ß", 1<<20),
		"a line of its own":  "begin\nforged",
	} {
		t.Run(name, func(t *testing.T) {
			err := signing.Integers(map[string]any{claim: "99999999999999999999"}, []string{claim})
			if err == nil || !strings.Contains(err.Error(), `claim "begin`) {
				t.Fatalf("the error does not name the claim: %.100v", err)
			}
			if text := err.Error(); len(text) > 500 || strings.Contains(text, "\n") {
				t.Errorf("an error of %d bytes: %.100q", len(text), text)
			}
		})
	}
}
