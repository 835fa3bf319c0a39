package hostfn

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// fieldOfKind returns a field with a value from the configuration.
func fieldOfKind(t *testing.T, name, kind, text string) *Field {
	t.Helper()
	compiled, problems := template.Compile(text)
	if len(problems) > 0 {
		t.Fatal(problems[0])
	}
	return &Field{Field: abi.Field{Name: name, Kind: kind}, Text: compiled}
}

// connect gets the code verifier sealed, and nothing for it without PKCE.
func TestCodeVerifierOfConnect(t *testing.T) {
	for _, verifier := range []string{"", "the-code-verifier"} {
		c := New(context.Background(), &Plan{Random: rand.Reader}, &Inputs{Code: &Code{Code: "c", Verifier: verifier}}, Detached)
		var reply contract.ConsentReply
		testworld.Check(t, strictjson.Unmarshal(c.codeInput(), &reply))
		if sealed := c.sealed.Plain(reply.CodeVerifier) != nil; sealed != (verifier != "") || !sealed && reply.CodeVerifier != "" {
			t.Errorf("%q is %q", verifier, reply.CodeVerifier)
		}
		if opened, _, err := c.sealed.Open(reply.CodeVerifier, seal.Token); opened != verifier || err != nil {
			t.Errorf("%q: opened = %q, err = %v", verifier, opened, err)
		}
	}
}

// The plugin's parameters follow those of the authorization URL.
func TestQueryOfAnAuthorizationURL(t *testing.T) {
	const own = "nonce=&redirect_uri=&response_type=code&state="
	for address, want := range map[string][2]string{
		"https://login.test/auth":     {"", "b=2&c=3"},
		"https://login.test/auth?":    {"", "b=2&c=3"},
		"https://login.test/auth?a=1": {"a=1", "a=1&b=2&c=3"},
	} {
		for i, query := range [][]abi.Pair{nil, {{Name: "b", Value: "2"}, {Name: "c", Value: "3"}}} {
			a, err := authorizationOf(t, contract.ConsentRequest{URL: address, Query: query, NoPKCE: true})
			_, got, _ := strings.Cut(a.URL, "?")
			if err != nil || got != strings.TrimPrefix(want[i]+"&"+own, "&") {
				t.Errorf("%s with %d parameters: %s, %v", address, len(query), a.URL, err)
			}
		}
	}
}

func authorizationOf(t *testing.T, r contract.ConsentRequest) (Authorization, *Failure) {
	t.Helper()
	plan := &Plan{Random: rand.Reader, Uses: map[string]bool{contract.GroupToken: true}, Limits: Limits{TokenRequests: 1}, Fields: map[string]*Field{"url": fieldOfKind(t, "url", abi.KindURL, r.URL)}, CheckURL: func(string) error { return nil }}
	output := testworld.Must(strictjson.Marshal(r))(t)
	return New(context.Background(), plan, &Inputs{}, Explaining).Authorization(output, Consent{})
}

// What is pushed has the parameters of the host, so a guest may add none of their names, nor one beside which a server ignores them. It
// goes to a URL of the configuration, and the browser has a client_id. threats.md 470
func TestRefusedPush(t *testing.T) {
	client := []abi.Pair{{Name: "client_id", Value: "me"}}
	own := func(name string) contract.Push {
		return contract.Push{URL: "https://login.test/auth", Form: []abi.Pair{{Name: name, Value: "x"}}}
	}
	for name, test := range map[string]struct {
		query []abi.Pair
		push  contract.Push
		want  string
	}{
		"no client_id": {nil, contract.Push{URL: "https://login.test/auth"}, "no client_id"},
		"another URL":  {client, contract.Push{URL: "https://evil.test/par"}, "may only go to a URL that is a field"},
		"no URL":       {client, contract.Push{URL: "https://login.test/%zz"}, "is not a URL"},
		"state":        {client, own("state"), `the parameter "state"`},
		"PKCE":         {client, own("Code_Challenge"), `the parameter "Code_Challenge"`},
		"a member":     {client, own("nonce[]"), `the parameter "nonce[]"`},
		"a request":    {client, own("request"), `the parameter "request"`},
		"in the URL":   {client, contract.Push{URL: "https://login.test/auth?redirect_uri=x"}, `the parameter "redirect_uri"`},
		"a header":     {client, contract.Push{URL: "https://login.test/auth", Headers: []abi.Pair{{Name: "Host", Value: "x"}}}, "Host"},
		"none wrong":   {client, own("client_secret"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := authorizationOf(t, contract.ConsentRequest{URL: "https://login.test/auth", Query: test.query, Push: &test.push})
			if (test.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("err = %v, want %q", err, test.want)
			}
		})
	}
}

// The name of the parameter with the code has at most 64 bytes.
func TestNameOfTheCodeParameter(t *testing.T) {
	for n, fits := range map[int]bool{1: true, 64: true, 65: false} {
		a, err := authorizationOf(t, contract.ConsentRequest{URL: "https://login.test/auth", CodeParameter: strings.Repeat("c", n)})
		if fits != (err == nil) || fits && len(a.CodeParameter) != n {
			t.Errorf("%d bytes: %q, %v", n, a.CodeParameter, err)
		}
	}
}

// The error for a secret in an authorization request names the field that has the secret, and no other.
func TestBrowserVisibleField(t *testing.T) {
	c := New(context.Background(), &Plan{Random: rand.Reader}, &Inputs{}, Detached)
	for _, name := range []string{"one", "two"} {
		c.rendered = append(c.rendered, renderedField{name: name, value: c.seal(seal.Value{Text: name}), ok: true})
	}
	c.rendered = append([]renderedField{{name: "absent"}, {name: "plain", value: "x", ok: true}}, c.rendered...)
	for _, r := range c.rendered[2:] {
		if got := c.fieldIn("x" + r.value); got != r.name {
			t.Errorf("the field %s is named as %q", r.name, got)
		}
	}
	if got := c.fieldIn("x" + c.seal(seal.Value{Text: "three"})); got != "" {
		t.Errorf("a secret of no field is that of %q", got)
	}
}

// An ID token that comes with a grant has the nonce of the authorization request, or the grant is refused. There need not be one,
// and other exchanges do not look for it.
func TestNonceOfAnIDToken(t *testing.T) {
	token := func(claims string) string {
		return `{"id_token":"e30.` + base64.RawURLEncoding.EncodeToString([]byte(claims)) + `.sig"}`
	}
	for body, fits := range map[string]bool{
		token(`{"nonce":"of-this-consent"}`): true, `{}`: true, `{"id_token":null}`: true, `{"access_token":"a"}`: true, `no JSON`: true,
		token(`{"nonce":"of-another","nonce":"of-this-consent"}`): false, token(`{"nonce":"of-this-consent"} x`): false,
		token(`{"nonce":"of-another"}`): false, token(`{"nonce":""}`): false, token(`{}`): false, token(`[]`): false,
		`{"id_token":"a.b"}`: false, `{"id_token":""}`: false, `{"id_token":7}`: false, `{"id_token":false}`: false, `{"id_token":{}}`: false,
	} {
		for _, code := range []*Code{nil, {Nonce: "of-this-consent"}} {
			c := New(context.Background(), &Plan{Random: rand.Reader}, &Inputs{Code: code}, Detached)
			err := c.try(func() { c.checkIDToken([]byte(body)) })
			if passes := fits || code == nil; passes != (err == nil) || err != nil && !errors.Is(err, ErrIDToken) {
				t.Errorf("%s in a consent %t: %v", body, code != nil, err)
			}
		}
	}
}
