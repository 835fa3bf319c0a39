package imports_test

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/keywright/keywright/server/internal/onboard/imports"
)

// planted are command lines and documents, in which $ stands for a credential.
var planted = []string{
	`curl https://api.example.com/v1/x -H 'X-Api-Key: $'`,
	"curl -X POST https://api.example.com/v1/x \\\n  -H 'Authorization: Bearer $' \\\n  -H 'Accept: application/json' \\\n  -d '{\"id\": 1}'",
	`curl -u 'me:$' https://api.example.com/v1/x`,
	`curl https://me:$@api.example.com/v1/x`,
	`curl "https://api.example.com/v1/x?q=London&api_key=$"`,
	`curl -H "Cookie: sid=$; lang=en" -b 'csrf=$' https://api.example.com/`,
	`curl https://slack.com/api/chat.postMessage -d token=$ -d text=hello`,
	`curl --json '{"client_id":"$","client_secret":"$","grant_type":"client_credentials","scope":"read"}' https://login.example.com/token`,
	"curl ^\"https://api.example.com/v1/x^\" ^\n  -H ^\"X-Api-Key: $^\"",
	"curl.exe https://api.example.com/v1/x `\n  -H \"X-Api-Key: $\" `\n  -H 'Accept: */*'",
	"Invoke-WebRequest -Uri https://api.example.com/v1/x -Headers @{'X-Api-Key'='$'}",
	"# my key: $\ncurl https://api.example.com/v1/x",
	"TOKEN=$\ncurl https://api.example.com/v1/x -H \"X-Api-Key: $TOKEN\"",
	"curl https://api.example.com/v1/x -H @- <<EOF\nX-Api-Key: $\nEOF\ncurl https://api.example.com/v2",
	"curl -H “X-Api-Key: $” https://api.example.com/v1/x",
	"curl -H $'X-Api-Key: $' --oauth2-bearer $ https://api.example.com/v1/x",
	"curl https://api.example.com/v1/x \\\n# key\n-H 'X-Api-Key: $'",
	"curl --aws-sigv4 aws:amz:eu-central-1:s3 -u AKIA:$ https://s3.eu-central-1.amazonaws.com/b",
	`{"openapi": "3.0.0", "info": {"title": "Orders", "description": "$"}, "servers": [{"url": "https://me:$@api.example.com/v1?key=$"}, {"url": "https://api.example.com/v1"}],
 "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Api-Key", "description": "$", "x-example": "$"}}}}`,
	"openapi: 3.0.0\ninfo: {title: Orders}\nservers: [{url: 'https://{v}.example.com', variables: {v: {default: api, enum: [$]}}}]\npaths:\n  /orders:\n    get:\n      parameters:\n        - {in: header, name: Authorization, example: Bearer $, schema: {default: $}}\n",
	`{"swagger": "2.0", "info": {"title": "Orders"}, "host": "api.example.com", "securityDefinitions": {"o": {"type": "oauth2", "flow": "application", "tokenUrl": "https://login.example.com/t?client_secret=$", "scopes": {"read": "$"}}}}`,
}

// credential returns a random credential of one of the usual forms.
func credential(r *rand.Rand) string {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	text := func(from string, n int) string {
		var b strings.Builder
		for i := range n {
			if i%4 == 3 {
				b.WriteByte(letters[r.IntN(10)])
				continue
			}
			b.WriteByte(from[r.IntN(len(from))])
		}
		return b.String()
	}
	switch r.IntN(6) {
	case 0:
		return text(letters[:16], 32)
	case 1:
		return text(letters+"+/", 40) + "=="
	case 2:
		return "eyJ" + text(letters, 33) + ".eyJ" + text(letters+"-_", 60) + "." + text(letters+"-_", 43)
	case 3:
		return "sk_live_" + text(letters, 24)
	case 4:
		return text(letters+"!#@:/?&%^~", 20)
	default:
		return text(letters, 20)
	}
}

// scraps are put into a mangled text in some place.
var scraps = []string{"'", `"`, "“", "”", "’", "`", "^", "\\", "\n", "\\\n", "^\n", " ", "#", " #", "--", "–", "-H ", "@", ":", "=", "&", "?", "/", ";", "|", "$(", "$'", "<<EOF\n", "{", "}", ",", "curl ", "https://"}

// mangle changes a text in up to four places.
func mangle(r *rand.Rand, text string) string {
	for range r.IntN(5) {
		at := r.IntN(len(text) + 1)
		end := min(len(text), at+1+r.IntN(3))
		switch r.IntN(4) {
		case 0:
			text = text[:at] + text[end:]
		case 1:
			text = text[:at] + scraps[r.IntN(len(scraps))] + text[end:]
		case 2:
			for _, quotes := range []string{"'", `"`, "\\\n", " "} {
				if n := strings.Count(text, quotes); n > 0 && r.IntN(3) == 0 {
					text = strings.Replace(text, quotes, scraps[r.IntN(len(scraps))], 1+r.IntN(n))
				}
			}
		default:
			text = text[:at] + scraps[r.IntN(len(scraps))] + text[at:]
		}
	}
	return text
}

var digits = regexp.MustCompile(`[0-9].*[0-9].*[0-9]`)

// keeps fails the test if a part of a credential is in what an import writes, or in its error.
func keeps(t *testing.T, text, secret string) {
	t.Helper()
	all := ""
	for _, do := range []func() (*imports.Result, error){
		func() (*imports.Result, error) { return imports.CurlLine(text, imports.Options{}) },
		func() (*imports.Result, error) {
			return imports.CurlLine(text, imports.Options{URL: "https://api.example.com"})
		},
		func() (*imports.Result, error) { return imports.Curl(strings.Fields(text), imports.Options{}) },
		func() (*imports.Result, error) { return imports.OpenAPI([]byte(text), imports.Options{}) },
	} {
		all += output(do())
	}
	all = strings.ToLower(all)
	const part = 12 // of which every fourth character is a digit, but for the first of some
	for i := 0; i+part <= len(secret); i++ {
		if digits.MatchString(secret[i:i+part]) && strings.Contains(all, strings.ToLower(secret[i:i+part])) {
			t.Fatalf("%q, a part of the credential %q, is in the output for\n%s\n\n%s", secret[i:i+part], secret, text, all)
		}
	}
}

// However a command line or a document is mangled, no part of a credential is in what an import writes, or in its error
// (threats.md 198, threats.md 360).
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
