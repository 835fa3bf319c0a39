package imports_test

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// No part of a credential of a mangled input is in an import or its error (threats.md 198, threats.md 360).
func TestMangledInputs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 4000 {
		text, secret := planted[r.IntN(len(planted))], credential(r)
		keeps(t, mangle(r, strings.ReplaceAll(text, "$", secret)), secret)
	}
}

// Inputs that fuzzing found (threats.md 198, threats.md 360).
func TestFoundInputs(t *testing.T) {
	const secret = "sk_live_x8I9HK10SWY1HGH9z4Z66Uz5"
	swagger := `{"swagger": "2.0", "info": {"title": "Orders"}, "host": "api.example.com", "securityDefinitions": {"o": {"type": "oauth2", "flow": "application", "tokenUrl": "$", "scopes": {}}}}`
	for _, text := range []string{
		`curl -H sk_live_x8I9HK1:0SWY1HGH9z4Z66Uz5 https://api.example.com/v1/x`,
		`curl https://me:sk_liv@e_x8I9HK10SWY1HGH9z4Z66Uz5api.example.com/v1/x`,
		`curl https://me:sk_live_x8@i9hk10swy1hgh9z4z66uz5api.example.com/v1/x`,
		`curl https://me:sk_live_x8I9HK10SWY1@HGH9z4Z66Uz5api.example.com/v1/x`,
		strings.Replace(swagger, "$", "https://login.example.com;client_secret="+secret, 1),
		strings.Replace(swagger, "$", "https://login.example.comclient_secret="+secret, 1),
		strings.Replace(swagger, `"oauth2"`, `"`+secret+`"`, 1),
		strings.Replace(swagger, `"type": "oauth2"`, `"type": "apiKey", "name": "X-Key", "in": "`+secret+`"`, 1),
	} {
		keeps(t, text, secret)
	}
	keeps(t, "curl https://'api.example.com/v1/x -H  X-Api-Key: ZID8lJt9XZ62/sy3Rah2/5e9/ih0emiK85gm8=='", "ZID8lJt9XZ62/sy3Rah2/5e9/ih0emi8uHK85gm8==")
	keeps(t, "curl https://me:7454401121180;ac4344667395d52@api.example.com/v1/x", "e4c74544011211802ac4344667395d52")
}

// (threats.md 198, threats.md 360)
func FuzzMangledInputs(f *testing.F) {
	for i, text := range planted {
		f.Add(text, uint64(i))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		secret := credential(r)
		keeps(t, mangle(r, strings.ReplaceAll(text, "$", secret)), secret)
	})
}
