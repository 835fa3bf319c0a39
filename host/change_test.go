package host_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// Mutations that change cookies, the path or the body of a request.

// changeWorld returns a world whose guest returns a mutation in which KEY is a secret, and PLAIN the same one, revealed.
func changeWorld(t *testing.T, m contract.Mutation) (*world, *host.Connector) {
	t.Helper()
	g := &guest{
		about: abi.Description{Fields: []abi.Field{sealedField("key", contract.SinkHeader, contract.SinkPath, contract.SinkBody)}},
		authenticate: func(env contract.Env) (string, error) {
			mutation := strings.ReplaceAll(marshal(m), "KEY", value(env, "key"))
			if strings.Contains(mutation, "PLAIN") {
				mutation = strings.ReplaceAll(mutation, "PLAIN", string(env.Reveal(value(env, "key"))))
			}
			return mutation, nil
		},
	}
	w := newWorld(t, withoutBuiltIns, withGuest(g, abi.GrantReveal))
	w.setSecret("key", w.Hide("the key", "hunter2/&= hunter2"))
	return w, w.connect("custom", config{"key": "{{ get_secret('key') }}"})
}

func pairs(name, value string) []abi.Pair { return []abi.Pair{{Name: name, Value: value}} }

func TestACredentialInThePath(t *testing.T) {
	for name, c := range map[string]struct{ name, path, want string }{
		"a segment":            {"{token}", "/bot{token}/getMe", "/bothunter2/&=%20hunter2/getMe"},
		"written encoded":      {"{token}", "/bot%7Btoken%7D/getMe", "/bothunter2/&=%20hunter2/getMe"},
		"among encoded":        {"{token}", "/a%2Fb/%7Btoken%7D/c", "/a%2Fb/hunter2/&=%20hunter2/c"},
		"several times":        {":t:", "/:t:/:t:", "/hunter2/&=%20hunter2/hunter2/&=%20hunter2"},
		"beside its own query": {":t:", "/:t:?a=:t:", "/hunter2/&=%20hunter2?a=:t:"},
	} {
		t.Run(name, func(t *testing.T) {
			w, connector := changeWorld(t, contract.Mutation{Path: pairs(c.name, "KEY")})
			r := must(http.NewRequestWithContext(t.Context(), http.MethodGet, apiOrigin+c.path, nil))(t)
			got := w.send(connector, r)
			if got.URL != apiOrigin+c.want {
				t.Errorf("the API got %s, want %s", got.URL, c.want)
			}
			explained, err := connector.Explain(r)
			if err != nil || strings.Contains(explained.URL, "hunter2") || !strings.Contains(explained.URL, "get_secret") {
				t.Errorf("it is explained as %v, %v", explained, err)
			}
		})
	}
}

// A cookie of the plugin replaces those of the caller with its name. The others stay, in their order.
func TestACredentialInACookie(t *testing.T) {
	for cookies, want := range map[string]string{
		"":                              "",
		"a=1; b=2":                      "a=1; b=2; ",
		"session=mine; a=1; session=me": "a=1; ",
		"session =mine; a=1":            "a=1; ",
		"session; sessions=1":           "sessions=1; ",
		"a=1;; b=2; ":                   "a=1; b=2; ",
	} {
		w, connector := changeWorld(t, contract.Mutation{Cookies: pairs("session", "v1"), Path: pairs("things", "KEY")})
		r := get(t.Context())
		if cookies != "" {
			r.Header.Set("Cookie", cookies)
		}
		if got := w.send(connector, r).Header["Cookie"]; len(got) != 1 || got[0] != want+"session=v1" {
			t.Errorf("%q: the API got %q, want %q", cookies, got, want+"session=v1")
		}
	}
}

// A redirect with the credential of the path or of the form is an error, and is not followed (threats.md 88). The request was
// sent, and the error says so by its stage.
func TestARedirectWithTheCredential(t *testing.T) {
	for name, c := range map[string]struct {
		change   contract.Mutation
		location func(*http.Request) string
	}{
		"of the path": {contract.Mutation{Path: pairs("things", "KEY")}, func(r *http.Request) string { return r.URL.Path + "/" }},
		"of a form": {contract.Mutation{Form: pairs("key", "KEY")}, func(r *http.Request) string {
			body, _ := io.ReadAll(r.Body)
			return "/failed/" + strings.TrimPrefix(string(body), "key=")
		}},
	} {
		for _, code := range []int{http.StatusPermanentRedirect, http.StatusUnauthorized} {
			t.Run(fmt.Sprint(name, " ", code), func(t *testing.T) {
				w, connector := changeWorld(t, c.change)
				body := &counting{Reader: strings.NewReader("x")}
				w.api.Answer(func(r *http.Request) (*http.Response, error) {
					response, err := respond(code, "", "Location", c.location(r))(r)
					response.Body = body
					return response, err
				})
				r := get(t.Context())
				r.Method = http.MethodPost
				_, err := w.try(connector, r)
				if failure, ok := errors.AsType[*host.Error](err); !ok || failure.Stage != host.StageResponse || failure.Retryable() || !errors.Is(err, host.ErrCredentialInResponse) {
					t.Error(err)
				}
				if body.closed != 1 {
					t.Errorf("the body was closed %d times", body.closed)
				}
			})
		}
	}
}

const formType = "application/x-www-form-urlencoded"

func TestACredentialInTheBody(t *testing.T) {
	const form = formType
	added := "api_key=hunter2%2F%26%3D+hunter2"
	for name, c := range map[string]struct {
		contentType, body, want string
	}{
		"a form":         {form + "; charset=utf-8", "a=1&b=2", "a=1&b=2&" + added},
		"an empty form":  {form, "", added},
		"no body at all": {"", "", added},
		"a long form":    {form, "a=" + strings.Repeat("x", 100_000), "a=" + strings.Repeat("x", 100_000) + "&" + added},
	} {
		for kind, prepare := range map[string]func(*http.Request){
			"again": func(*http.Request) {},
			"once":  func(r *http.Request) { r.GetBody = nil },
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				w, connector := changeWorld(t, contract.Mutation{Form: pairs("api_key", "KEY")})
				var length int64
				w.api.Answer(func(r *http.Request) (*http.Response, error) {
					length = r.ContentLength
					return status(http.StatusOK)(r)
				})
				var body io.Reader
				if c.body != "" {
					body = strings.NewReader(c.body)
				}
				r := postOf(t, body)
				if c.contentType != "" {
					r.Header.Set("Content-Type", c.contentType)
					r.Header.Set("Content-Encoding", "identity")
				}
				prepare(r)
				got := w.send(connector, r)
				if got.Body != c.want || length != int64(len(c.want)) || got.Header.Get("Content-Type") != cmp.Or(c.contentType, form) {
					t.Errorf("the API got %d bytes of %q: %.80q", length, got.Header.Get("Content-Type"), got.Body)
				}
			})
		}
	}
}

// threats.md 43: a form with a member of the credential's name, in any encoding, is not sent. Other members are allowed.
func TestFormWithCredentialName(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for body, sent := range map[string]bool{
		"api_key=x": false, "a=1&api_key": false, "a=1&%61pi%5fkey=x&b=2": false, "a=" + long + "&API_KEY=" + long: false, "&&api_key=": false,
		"a=b;api_key=x": false, "a=" + long + ";api_key=x": false, "a;api_key": false, "api_key%00=x": false, "api_key%00b=x": false, "+api_key=x": false,
		"%20%09api_key=x": false, "api_key[]=x": false, "api[key=x": false, "api%_key=x": false, "api%u005fkey=x": false, "api%EF%BC%BFkey=x": false, "%api+key=x": false, strings.Repeat("%", 50_000) + "api_key=x": false, strings.Repeat("+", 50_000) + "api_key=x": false, "api_key[" + long + "]=x": false, "api" + strings.Repeat("%", 50_000) + "_key=x": false, "API_KEY%5Ba%5D=x": false, "api.key=x": false, "api+key=x": false,
		"": true, "a=b;c": true, "a=b%3Bapi_key=x": true, "api_keys[]=x": true, "api[key]=x": true, "a%00api_key=x": true, "a=api_key": true, "a=1&api_key2=x": true, "api%zzkey=x": true, "a=1&": true, long + "=" + long: true,
	} {
		checkForm(t, "api_key", body, sent)
	}
}

// threats.md 43: the name may be long, and have three bytes for each of its own.
func TestFormWithLongCredentialName(t *testing.T) {
	name := strings.Repeat("n", 10_000)
	for body, sent := range map[string]bool{
		strings.Repeat("%6e", 10_000) + "=x": false, "a=1&" + strings.Repeat("%6E", 10_000) + "=": false, strings.Repeat("%6e", 10_001) + "=x": true,
	} {
		checkForm(t, name, body, sent)
	}
}

// threats.md 43: a member _charset_, which may change how an API reads the form, is not sent beside the credential.
func TestFormWithCharsetMember(t *testing.T) {
	w, connector := changeWorld(t, contract.Mutation{Form: pairs("a", "KEY")})
	r := formOf(t, "b=1&_charset_=ibm037")
	w.refuse(connector, r, host.StageBody, "member _charset_")
}

// checkForm checks whether a form is sent if the credential goes into a member of this name.
func checkForm(t *testing.T, name, body string, sent bool) {
	t.Helper()
	w, connector := changeWorld(t, contract.Mutation{Form: pairs(name, "KEY")})
	r := formOf(t, body)
	if sent {
		w.send(connector, r)
	} else {
		w.refuse(connector, r, host.StageBody, "a member of the name that the credential has")
	}
}

func TestImpossibleChanges(t *testing.T) {
	secret := "{{ get_secret('key') }}"
	for name, c := range map[string]struct {
		mutation contract.Mutation
		method   string
		header   string
		body     string
		words    string
	}{
		"no placeholder":           {contract.Mutation{Path: pairs("{token}", "KEY")}, "GET", "", "", "path holds no {token}"},
		"an empty placeholder":     {contract.Mutation{Path: pairs("", "KEY")}, "GET", "", "", "placeholder is empty"},
		"a placeholder twice":      {contract.Mutation{Path: append(pairs("things", "KEY"), pairs("things", "KEY")...)}, "GET", "", "", "there twice"},
		"a path upwards":           {contract.Mutation{Path: pairs("things", "../KEY")}, "GET", "", "", "leads elsewhere"},
		"a form in IBM037":         {contract.Mutation{Form: pairs("a", "KEY")}, "POST", formType + "; charset=ibm037", "%82=1", "charset other than utf-8"},
		"a form in UTF-7":          {contract.Mutation{Form: pairs("a", "KEY")}, "POST", formType + `; CHARSET="utf-7"`, "b=1", "charset other than utf-8"},
		"a form into JSON":         {contract.Mutation{Form: pairs("a", "KEY")}, "POST", "application/json", "{}", "Content-Type must be"},
		"a form into an unknown":   {contract.Mutation{Form: pairs("a", "KEY")}, "POST", "", "x", "Content-Type must be"},
		"a form into a compressed": {contract.Mutation{Form: pairs("a", "KEY")}, "POST", formType + "; Content-Encoding: gzip", "x", "has a Content-Encoding"},
		"a form of a GET":          {contract.Mutation{Form: pairs("a", "KEY")}, "GET", "", "", "the request's method has none"},
		"a form of a HEAD":         {contract.Mutation{Form: pairs("a", "KEY")}, "HEAD", "", "", "the request's method has none"},
		"a form of no method":      {contract.Mutation{Form: pairs("a", "KEY")}, "", "", "", "the request's method has none"}, // which is GET
		"a cookie twice":           {contract.Mutation{Cookies: append(pairs("a", "1"), pairs("a", "2")...)}, "GET", "", "", `sets cookie "a" twice`},
		"a cookie without a name":  {contract.Mutation{Cookies: pairs("", "1")}, "GET", "", "", "is not the name of a cookie"},
		"a cookie that is two":     {contract.Mutation{Cookies: pairs("a", "1; b=2")}, "GET", "", "", "no cookie may have"},
		"a cookie with a space":    {contract.Mutation{Cookies: pairs("a", "KEY")}, "GET", "", "", "no cookie may have"},
		"passing on with a header": {contract.Mutation{Pass: true, Headers: pairs("X-Key", "KEY")}, "GET", "", "", "passes the API's answer on"},
		"no credential":            {contract.Mutation{Cookies: pairs("a", "b")}, "GET", "", "", "holds no credential"},
	} {
		t.Run(name, func(t *testing.T) {
			w, connector := changeWorld(t, c.mutation)
			r := must(http.NewRequestWithContext(t.Context(), c.method, apiURL, strings.NewReader(c.body)))(t)
			r.Method = c.method
			if kind, encoding, _ := strings.Cut(c.header, "; Content-Encoding: "); kind != "" {
				r.Header.Set("Content-Type", kind)
				r.Header["content-encoding"] = []string{"identity", encoding} // net/http sends a name as it is
			}
			if failure := w.refuse(connector, r, host.StageMutation, c.words); strings.Contains(failure.Error(), secret) {
				t.Error(failure)
			}
		})
	}
}

// The credential of each part of a request is kept from a caller who must not see it, also if the plugin reveals it
// (threats.md 88).
func TestGuardedParts(t *testing.T) {
	for name, m := range map[string]contract.Mutation{
		"a cookie": {Cookies: pairs("a", "KEY")}, "the path": {Path: pairs("things", "KEY")}, "the form": {Form: pairs("a", "KEY")},
		"a revealed cookie": {Cookies: pairs("a", "PLAIN")}, "a revealed path": {Path: pairs("things", "PLAIN")},
		"a revealed form": {Form: pairs("a", "PLAIN")},
	} {
		t.Run(name, func(t *testing.T) {
			w, connector := changeWorld(t, m)
			w.setSecret("key", w.Hide("another key", "hunter3hunter3"))
			w.api.Answer(respond(http.StatusOK, "you sent hunter3hunter3"))
			r := get(t.Context())
			r.Method = http.MethodPost
			body, err := w.read(connector.GuardedTransport(nil).RoundTrip(r))
			if err == nil || strings.Contains(body, "hunter3") {
				t.Errorf("the caller got %q, %v", body, err)
			}
		})
	}
}
