package host_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// Attacks on what a plugin, an API and a caller can do with challenges, and with credentials in the path and in cookies.

// A plugin that passes an answer on, and reads nothing, does so for that answer only: its outcome is not that of the next
// request.
func TestPassNotReused(t *testing.T) {
	about := challenged
	about.Challenge = &abi.Challenge{Statuses: []int{403}}
	w := newWorld(t, withoutBuiltIns, withGuest(&guest{about: about, authenticate: func(env contract.Env) (string, error) {
		if env.CacheDrop("x") {
			return `{"pass":true}`, nil
		}
		if _, ok := env.CacheGet("x"); !ok {
			env.CacheSet("x", "y", 300)
		}
		return "{}", nil
	}}))
	connector := w.connect("custom", config{})
	w.api.Answer(status(http.StatusForbidden))
	for range 4 {
		if status, err := w.try(connector, get(t.Context())); status != http.StatusForbidden || err != nil {
			t.Errorf("status = %d, err = %v", status, err)
		}
	}
}

// A plugin that adds to the form only in the second attempt adds to the form that the caller sends.
func TestFormOfSecondAttempt(t *testing.T) {
	for _, length := range []int64{3, -1} {
		w, connector := challengeWorld(t, func(env contract.Env) (string, error) {
			if challengeOf(env).Status == 0 {
				return "{}", nil
			}
			return marshal(contract.Mutation{Form: pairs("b", "2")}), nil
		})
		var bodies []string
		w.api.Answer(func(r *http.Request) (*http.Response, error) {
			body, _ := io.ReadAll(r.Body)
			if bodies = append(bodies, string(body)); len(bodies) == 1 {
				return status(http.StatusUnauthorized)(r)
			}
			return status(http.StatusOK)(r)
		})
		r := formOf(t, "a=1")
		r.ContentLength = length
		if code, err := w.try(connector, r); code != http.StatusOK || err != nil {
			t.Errorf("length %d: %d, %v", length, code, err)
		}
		if got := strings.Join(bodies, " "); got != "a=1 a=1&b=2" {
			t.Errorf("length %d: the API got %q", length, got)
		}
	}
}

// A placeholder is replaced whichever of its characters the caller encodes, and what is put in is not looked at again.
func TestPlaceholdersOfThePath(t *testing.T) {
	for name, c := range map[string]struct {
		pairs      []abi.Pair
		path, want string // without want, the request is not sent
	}{
		"encoded in lower case":     {pairs("{token}", "v"), "/%7btoken%7d/x", "/v/x"},
		"encoded though needless":   {pairs("token", "v"), "/%74oken/x", "/v/x"},
		"part of its value":         {pairs("t", "atb"), "/t/x", "/atb/x"},
		"part of another's value":   {[]abi.Pair{{Name: "one", Value: "two"}, {Name: "two", Value: "v"}}, "/one/two", "/two/v"},
		"part of another":           {[]abi.Pair{{Name: "t", Value: "v"}, {Name: "to", Value: "w"}}, "/to/t", "/w/v"},
		"never but in another":      {[]abi.Pair{{Name: "t", Value: "v"}, {Name: "to", Value: "w"}}, "/to", ""},
		"part of an encoding":       {pairs("b", "zz"), "/%0bx/b", "/%0Bx/zz"},
		"the first slash":           {pairs("/v1", ".evil.test"), "/v1", ""},
		"dots that become segments": {pairs("t", ""), "/a/.t./x", ""},
		"a slash in front of dots":  {pairs("t", "v/"), "/a/t../x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, connector := challengeWorld(t, func(contract.Env) (string, error) { return marshal(contract.Mutation{Path: c.pairs}), nil })
			r := get(t.Context())
			var err error
			r.URL = must(url.Parse(apiOrigin + c.path))(t)
			_, err = w.try(connector, r)
			got := ""
			for _, r := range w.api.Received() {
				got = strings.TrimPrefix(r.URL, apiOrigin)
			}
			if !strings.EqualFold(got, c.want) || (err == nil) != (c.want != "") {
				t.Errorf("the API got %q, want %q; %v", got, c.want, err)
			}
		})
	}
}

// A caller does not have a proxy drop the credential in a cookie. A proxy may drop anything else.
func TestConnectionHeaderNamingCookie(t *testing.T) {
	cookie, path := contract.Mutation{Cookies: pairs("session", "v1"), Path: pairs("things", "KEY")}, contract.Mutation{Path: pairs("things", "KEY")}
	for _, c := range []struct {
		change     contract.Mutation
		connection string
		sent       bool
	}{{cookie, "close, cookie", false}, {cookie, "close, X-Other", true}, {path, "close, cookie", true}} {
		w, connector := changeWorld(t, c.change)
		r := get(t.Context())
		r.Header.Set("Connection", c.connection)
		if c.sent {
			w.send(connector, r)
		} else {
			w.refuse(connector, r, host.StageMutation, "Connection header")
		}
	}
}

// An answer of an exchange that is too long is an error, like that of a token request. It is not read in part.
func TestOversizedExchangeAnswer(t *testing.T) {
	about := challenged
	about.Answers = []abi.Answer{{Name: "token", From: "form:token", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}}}
	w := newWorld(t, withoutBuiltIns, withGuest(&guest{about: about, authenticate: func(env contract.Env) (string, error) {
		return string(env.Exchange([]byte(marshal(contract.Exchange{URL: value(env, "url")})))), nil
	}}))
	w.canary("key")
	connector := w.connect("custom", config{"key": "{{ get_secret('key') }}", "url": tokenURL})
	w.login.Answer(respond(http.StatusOK, "x="+strings.Repeat("x", 60<<10)+"&token="+strings.Repeat("t", 10<<10)))
	testworld.WantError(t, "", testworld.ErrorOf(w.try(connector, get(t.Context()))), "with more than 65536 bytes")
}

// Whether decode succeeds says nothing that a plugin chooses about a secret (threats.md 68).
func TestDecodeOracle(t *testing.T) {
	for name, do := range map[string]func(env contract.Env, v string) string{
		"the length": func(env contract.Env, v string) string { return env.Decode(contract.FormatHex, v+"0") },
		"characters of an encoded one": func(env contract.Env, v string) string {
			return env.Decode(contract.FormatBase32, env.Encode(contract.FormatHex, v))
		},
	} {
		t.Run(name, func(t *testing.T) {
			var errs []string
			for _, secret := range []string{"abcdef2345", "abcdef23456", "\xff\xff", "GGGGGGGGGG"} {
				g := &guest{about: abi.Description{Uses: contract.Groups, Anonymous: true, Fields: []abi.Field{sealedField("key", contract.SinkHeader, contract.SinkSign)}}}
				g.authenticate = func(env contract.Env) (string, error) {
					do(env, value(env, "key"))
					return "{}", nil
				}
				w := newWorld(t, withoutBuiltIns, withGuest(g))
				w.setSecret("key", secret)
				_, err := w.try(w.connect("custom", config{"key": "{{ get_secret('key') }}"}), get(t.Context()))
				errs = append(errs, fmt.Sprint(err))
			}
			if slices.Sort(errs); len(slices.Compact(errs)) != 1 {
				t.Errorf("the outcome depends on the secret: %q", errs)
			}
		})
	}
}

// A request does not confirm a guess of a short secret, whatever the plugin makes of it.
func TestARequestDoesNotConfirmGuesses(t *testing.T) {
	sum := sha256.Sum256([]byte("1234"))
	for name, form := range map[string]string{"a digest": hex.EncodeToString(sum[:]), "with more text": "user:1234", "in hex": "31323334"} {
		t.Run(name, func(t *testing.T) {
			input := ""
			g := &guest{about: abi.Description{Uses: contract.Groups, Anonymous: true, Fields: []abi.Field{sealedField("pin", contract.SinkHeader, contract.SinkDigest)}}}
			g.authenticate = func(env contract.Env) (string, error) {
				pin := value(env, "pin")
				env.Encode(contract.FormatHex, env.Digest(contract.DigestSHA256, pin))
				env.Decode(contract.FormatHex, env.Encode(contract.FormatHex, "user:"+pin))
				input = string(env.Input())
				return "{}", nil
			}
			w := newWorld(t, withoutBuiltIns, withGuest(g))
			w.setSecret("pin", "1234")
			connector := w.connect("custom", config{"pin": "{{ get_secret('pin') }}"})
			r := get(t.Context())
			r.Header.Set("X-Guess", form)
			must(w.try(connector, r))(t)
			if !strings.Contains(input, form) {
				t.Errorf("the guess is replaced: %s", input)
			}
		})
	}
}

// In the first attempt, the form that a plugin adds to is the request's own body, which is closed then.
func TestFormWithoutGetBody(t *testing.T) {
	w, connector := challengeWorld(t, func(contract.Env) (string, error) { return marshal(contract.Mutation{Form: pairs("b", "2")}), nil })
	var got string
	w.api.Answer(func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		got = string(body)
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}, err
	})
	body := once("a=1")
	r := post(t.Context(), body, 3)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.GetBody = func() (io.ReadCloser, error) { return nil, io.ErrClosedPipe }
	if code, err := w.try(connector, r); code != http.StatusOK || err != nil || got != "a=1&b=2" || body.closed != 1 {
		t.Errorf("%d, %v, the API got %q, and the body was closed %d times", code, err, got, body.closed)
	}
}
