package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const root = "../.."

func TestTheConstantsOfTheSDKsAreThoseOfTheContract(t *testing.T) {
	for name := range sdks {
		want, err := updated(root, name)
		if err != nil {
			t.Error(err)
			continue
		}
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(got) != want {
			t.Errorf("%s has other constants than package abi: run go generate ./tools/constants (%v)", name, err)
		}
	}
}

func TestNamesOfConstants(t *testing.T) {
	constants, err := constantsOf(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []constant{
		{"ABI", "1"},
		{"TO_HEADER", `"header"`},
		{"USES_SIGN", `"sign"`},
		{"DIGEST_SHA256", `"sha256"`},
		{"DIGEST_SHA512256", `"sha512_256"`},
		{"SHA256", `"HS256"`},
		{"MD5", ""},
		{"BASE64_URL_FORMAT", `"base64url"`},
		{"BASE64_FORMAT", `"base64"`},
		{"HEX_FORMAT", `"hex"`},
		{"FOR_HTTP_SIGNATURE", `"http_signature"`},
		{"FOR_JWT", `"jwt"`},
		{"JWK_THUMBPRINT", `"jwk_thumbprint"`},
		{"X5T", `"x5t#S256"`},
		{"X5C", `"x5c"`},
		{"RS1", `"RS1"`},
		{"ANY_INTEGER", `"integer"`},
		{"URL", `"url"`},
		{"MAX_RANDOM", "64"},
		{"MAX_PLAIN_ANSWERS", "8"},
		{"CERTIFICATE", `"certificate"`},
	} {
		at := slices.IndexFunc(constants, func(c constant) bool { return c.name == want.name })
		switch {
		case at < 0 && want.value != "":
			t.Errorf("there is no %s", want.name)
		case at >= 0 && constants[at].value != want.value:
			t.Errorf("%s is %s, want %q", want.name, constants[at].value, want.value)
		}
	}
	if n := len(constants); n < 50 {
		t.Errorf("there are %d constants only", n)
	}
}
