package host_test

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// logsIn is the description of a guest that exchanges.
var logsIn = abi.Description{
	Uses: contract.Groups,
	Fields: []abi.Field{
		{Name: "url", Kind: abi.KindURL, Sinks: []string{contract.SinkToken}},
		sealedField("password", contract.SinkToken),
		{Name: "from", Kind: abi.KindString, Default: "json:/custom"},
	},
	Answers: []abi.Answer{
		{Name: "token", From: "json:/data/0/token", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader, contract.SinkToken}, Required: true},
		{Name: "until", From: "json:/until", Kind: contract.AnswerTime},
		{Name: "life", From: "json:/life", Kind: contract.AnswerInteger},
		{Name: "kind", From: "json:/kind", Kind: contract.AnswerEnum, Enum: []string{"Bearer", "DPoP"}},
		{Name: "custom", FromField: "from", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}},
		{Name: "header", From: "header:X-Session", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}},
		{Name: "cookie", From: "cookie:SID", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}},
		{Name: "form", From: "form:oauth_token", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}},
		{Name: "algorithm", From: "auth:Digest/algorithm", Kind: contract.AnswerEnum, Enum: []string{"SHA-256"}},
		{Name: "realm", From: "auth:Digest/realm", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}},
		{Name: "next", From: "info:nextnonce", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}},
	},
}

// loginWorld returns a world whose guest sends an exchange and calls got with the reply.
func loginWorld(t *testing.T, e contract.Exchange, got func(env contract.Env, r contract.ExchangeReply) string) (*world, *host.Connector) {
	t.Helper()
	g := &guest{about: logsIn, authenticate: func(env contract.Env) (string, error) {
		request := e
		request.URL = value(env, "url")
		document := strings.ReplaceAll(marshal(request), "PASSWORD", value(env, "password"))
		var r contract.ExchangeReply
		if err := json.Unmarshal(env.Exchange([]byte(document)), &r); err != nil {
			return "", err
		}
		return got(env, r), nil
	}}
	w := newWorld(t, withoutBuiltIns, withGuest(g))
	w.canary("password")
	return w, w.connect("custom", config{"url": tokenURL + "/in?a=b", "password": "{{ get_secret('password') }}"})
}

// sendsToken returns a mutation with the token of a reply.
func sendsToken(_ contract.Env, r contract.ExchangeReply) string {
	return header("Authorization", "Bearer "+r.Answers["token"])
}

const loggedIn = `{"data":[{"token":"the-token-of-the-session"}]}`

// The values of a guest stay within their segment, parameter or string (threats.md 87).
func TestExchangeRequest(t *testing.T) {
	tricky := []abi.Pair{{Name: "user", Value: `a "quoted" & <b>`}, {Name: "pass", Value: "PASSWORD"}}
	for name, c := range map[string]struct {
		exchange contract.Exchange
		want     func(password string) sent
	}{
		"no body": {contract.Exchange{}, func(string) sent { return sent{Method: "POST", URL: tokenURL + "/in?a=b"} }},
		"a path and a query": {
			contract.Exchange{Method: "GET", Path: []string{"a/b", "ü?"}, Query: []abi.Pair{{Name: "q", Value: "1 2"}}},
			func(string) sent { return sent{Method: "GET", URL: tokenURL + "/in/a%2Fb/%C3%BC%3F?a=b&q=1+2"} },
		},
		"a form": {contract.Exchange{Method: "PUT", Form: tricky}, func(password string) sent {
			form := "user=a+%22quoted%22+%26+%3Cb%3E&pass=" + url.QueryEscape(password)
			return sent{Method: "PUT", URL: tokenURL + "/in?a=b", Body: form, Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}}
		}},
		"JSON": {contract.Exchange{JSON: map[string]any{"user": `a "quoted"`, "list": []any{"PASSWORD", 1.5, true, nil}}}, func(password string) sent {
			body, _ := json.Marshal(password)
			return sent{
				Method: "POST", URL: tokenURL + "/in?a=b", Body: `{"list":[` + string(body) + `,1.5,true,null],"user":"a \"quoted\""}`,
				Header: http.Header{"Content-Type": {"application/json"}},
			}
		}},
		"headers": {contract.Exchange{Headers: []abi.Pair{{Name: "accept", Value: "text/x"}, {Name: "X-Key", Value: "k PASSWORD"}}}, func(password string) sent {
			return sent{Method: "POST", URL: tokenURL + "/in?a=b", Header: http.Header{"Accept": {"text/x"}, "X-Key": {"k " + password}}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, connector := loginWorld(t, c.exchange, sendsToken)
			w.login.Answer(respond(http.StatusCreated, loggedIn))
			w.get(connector)
			got, want := w.login.Last(), c.want(w.secrets["password"])
			if want.Header == nil {
				want.Header = http.Header{}
			}
			if want.Header.Get("Accept") == "" {
				want.Header.Set("Accept", "application/json")
			}
			want.Header.Set("User-Agent", "keywright")
			if strings.HasPrefix(want.Body, "{") {
				got.Body, want.Body = canonical(t, got.Body), canonical(t, want.Body)
			}
			equal(t, want, got)
			if token := w.api.Last().Header.Get("Authorization"); token != "Bearer the-token-of-the-session" {
				t.Errorf("the API got %q", token)
			}
		})
	}
}

// canonical returns a JSON document with its members sorted.
func canonical(t *testing.T, document string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(document), &v); err != nil {
		t.Fatalf("%s: err = %v", document, err)
	}
	return marshal(v)
}

// A guest gets each kind of answer from each place, and nothing that its description does not name (threats.md 83).
func TestAnswersOfAnExchange(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		header []string
		want   map[string]string // plain answers; sealed ones are opened, in brackets
	}{
		"everything": {
			`{"data":[{"token":"the-token-of-the-session","secret":"x"}],"until":"2023-11-15T00:00:00Z","life":"3600.9","kind":"dpop","custom":"a-custom-value"}`,
			[]string{
				"X-Session", "the-session-header", "Set-Cookie", "SID=old-cookie-value", "Set-Cookie", "SID=the-cookie-value; Path=/",
				"WWW-Authenticate", `Basic realm="b", Digest realm="md5", algorithm=MD5, Digest realm="a \"b\", c", algorithm=SHA-256`,
				"Authentication-Info", `nextnonce="the-next-nonce", qop=auth`,
			},
			map[string]string{
				"token": "[the-token-of-the-session]", "until": "1700006400", "life": "3600", "kind": "DPoP", "custom": "[a-custom-value]",
				"header": "[the-session-header]", "cookie": "[the-cookie-value]", "algorithm": "SHA-256", "realm": `[a "b", c]`, "next": "[the-next-nonce]",
			},
		},
		"times of other kinds": {`{"data":[{"token":"the-token-of-the-session"}],"until":1700006400123,"life":-1,"kind":"x"}`, nil, map[string]string{
			"token": "[the-token-of-the-session]", "until": "1700006400", "kind": "other",
		}},
		"a date of HTTP":    {`{"data":[{"token":"the-token-of-the-session"}],"until":"Wed, 15 Nov 2023 00:00:00 GMT"}`, nil, map[string]string{"token": "[the-token-of-the-session]", "until": "1700006400"}},
		"nothing of a kind": {`{"data":[{"token":"the-token-of-the-session"}],"until":"soon","life":[1],"kind":{},"custom":{"a":1}}`, nil, map[string]string{"token": "[the-token-of-the-session]"}},
		"a number as text":  {`{"data":[{"token":12345678901234567890}]}`, nil, map[string]string{"token": "[12345678901234567890]"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got map[string]string
			w, connector := loginWorld(t, contract.Exchange{}, func(_ contract.Env, r contract.ExchangeReply) string {
				got = maps.Clone(r.Answers)
				var headers []abi.Pair
				for name, value := range got {
					if strings.HasPrefix(value, contract.SealedPrefix) {
						headers = append(headers, abi.Pair{Name: "X-" + name, Value: value})
					}
				}
				return marshal(contract.Mutation{Headers: headers})
			})
			w.login.Answer(respond(http.StatusOK, c.body, c.header...))
			received := w.get(connector)
			for name, value := range got {
				if strings.HasPrefix(value, contract.SealedPrefix) {
					got[name] = "[" + received.Header.Get("X-"+name) + "]"
				}
			}
			equal(t, c.want, got)
		})
	}
}

// A login may answer with a redirect and a cookie. The redirect is not followed (specification.md "a login that redirects").
func TestAnExchangeFollowsNoRedirect(t *testing.T) {
	w, connector := loginWorld(t, contract.Exchange{Answers: []string{"cookie"}}, func(_ contract.Env, r contract.ExchangeReply) string {
		return marshal(contract.Mutation{Cookies: []abi.Pair{{Name: "SID", Value: r.Answers["cookie"]}}})
	})
	w.login.Answer(respond(http.StatusFound, "", "Location", "https://evil.test/", "Set-Cookie", "SID=the-cookie-value"))
	r := get(t.Context())
	r.Header.Set("Cookie", "a=1; SID=forged; b=2")
	if got := w.send(connector, r); got.Header.Get("Cookie") != "a=1; b=2; SID=the-cookie-value" || w.login.Count() != 1 || w.api.Count() != 1 {
		t.Errorf("%v, %d exchanges", got, w.login.Count())
	}
}

// An endpoint that has refused is not asked again for a while, and the guest gets the same status.
func TestRefusedExchangeWait(t *testing.T) {
	var statuses []int
	w, connector := loginWorld(t, contract.Exchange{}, func(_ contract.Env, r contract.ExchangeReply) string {
		statuses = append(statuses, r.Status)
		return sendsToken(nil, r)
	})
	w.login.Answer(respond(http.StatusUnauthorized, `{}`))
	for range 3 {
		w.refuse(connector, get(t.Context()), host.StageMutation)
	}
	if diff := cmp.Diff([]int{401, 401, 401}, statuses); diff != "" || w.login.Count() != 1 {
		t.Errorf("the endpoint was asked %d times: %s", w.login.Count(), diff)
	}
}

// The error after a refusal has the status, and what the plugin says about it.
func TestTheErrorOfARefusedExchange(t *testing.T) {
	for text, want := range map[string]string{
		"check the password":              "the token endpoint answered 401; it is asked again in 1s: check the password",
		"the token endpoint answered 401": "the token endpoint answered 401; it is asked again in 1s",
		// SDKs have 400 for a refusal with 200, and the code in their own words.
		"the token endpoint answered 400 (other)":              "the token endpoint answered 401; it is asked again in 1s",
		"the token endpoint answered 403: ask for the scope x": "the token endpoint answered 401; it is asked again in 1s: the token endpoint answered 403: ask for the scope x",
		"the token endpoint answered with another token":       "the token endpoint answered 401; it is asked again in 1s: the token endpoint answered with another token",
	} {
		g := &guest{about: logsIn, authenticate: func(env contract.Env) (string, error) {
			env.Exchange([]byte(marshal(contract.Exchange{URL: value(env, "url")})))
			return "", errors.New(text)
		}}
		w := newWorld(t, withoutBuiltIns, withGuest(g))
		connector := w.connect("custom", config{"url": tokenURL + "/in"})
		w.login.Answer(respond(http.StatusUnauthorized, `{}`))
		failure := w.refuse(connector, get(t.Context()), host.StageToken)
		if answer, ok := errors.AsType[*host.TokenError](failure); !strings.HasSuffix(failure.Error(), want) || !ok || answer.Status != http.StatusUnauthorized {
			t.Errorf("%q: failure = %v", text, failure)
		}
	}
}

func TestRefusedExchanges(t *testing.T) {
	for name, c := range map[string]struct {
		exchange contract.Exchange
		words    string
	}{
		"an answer of no description": {contract.Exchange{Answers: []string{"other"}}, "does not have"},
		"two bodies":                  {contract.Exchange{Form: []abi.Pair{{Name: "a"}}, JSON: 1}, "one body"},
		"a body of a GET":             {contract.Exchange{Method: "GET", JSON: 1}, "a GET has no body"},
		"another method":              {contract.Exchange{Method: "CONNECT"}, "method is"},
		"a path upwards":              {contract.Exchange{Path: []string{"a", ".."}}, "segment"},
		"an empty segment":            {contract.Exchange{Path: []string{""}}, "segment"},
		"the Content-Type":            {contract.Exchange{Headers: []abi.Pair{{Name: "content-type", Value: "x"}}}, "the host's to set"},
		"a sealed name in JSON":       {contract.Exchange{JSON: map[string]any{"PASSWORD": 1}}, "only plain text"},
	} {
		t.Run(name, func(t *testing.T) {
			w, connector := loginWorld(t, c.exchange, sendsToken)
			w.refuse(connector, get(t.Context()), host.StagePlugin, c.words)
			if w.login.Count() > 0 {
				t.Error("the endpoint was asked")
			}
		})
	}
}
