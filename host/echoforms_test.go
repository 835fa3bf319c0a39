package host_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// If a plugin composes a credential from several texts, its parts are searched for too.
func TestInsertedParts_threats_45(t *testing.T) {
	const user, password, literal = "user-of-the-api", "p4ssw0rd/of+the&api", "our-own-literal"
	for name, test := range map[string]struct {
		do       func(contract.Env) (string, error)
		grants   []string
		stopped  []string
		harmless []string
	}{
		"Basic": {
			func(env contract.Env) (string, error) {
				return header("Authorization", "Basic "+env.Encode(contract.FormatBase64, user+":"+value(env, "to_header"))), nil
			}, nil,
			[]string{password, user + ":" + password, "dXNlci1vZi10aGUtYXBpOnA0c3N3MHJkL29mK3RoZSZhcGk="},
			[]string{user, "Basic dXNlci1v"},
		},
		"Basic with the secret as the user": {
			func(env contract.Env) (string, error) {
				return header("Authorization", "basic "+env.Encode(contract.FormatBase64, value(env, "to_header")+":")), nil
			}, nil, []string{password}, nil,
		},
		"encoded in another scheme": {
			func(env contract.Env) (string, error) {
				return header("X-Key", env.Encode(contract.FormatBase64URL, user+":"+value(env, "to_header"))), nil
			}, nil,
			[]string{password, user + ":" + password, "p4ssw0rd%2Fof%2Bthe%26api"},
			[]string{user},
		},
		"a literal, encoded twice": {
			func(env contract.Env) (string, error) {
				return header("X-Key", env.Encode(contract.FormatHex, env.Encode(contract.FormatBase64, literal+value(env, "to_header")))), nil
			}, nil,
			[]string{literal + password, password},
			[]string{literal},
		},
		"encoded by a plugin that may see it": {
			func(env contract.Env) (string, error) {
				return header("X-Key", base64.StdEncoding.EncodeToString([]byte(url.QueryEscape("an id:"+string(env.Reveal(value(env, "to_header"))))))), nil
			},
			[]string{"reveal"},
			[]string{password, "an id:" + password, "an+id%3Ap4ssw0rd%2Fof%2Bthe%26api"},
			[]string{"an id:"},
		},
		"within a header": {
			func(env contract.Env) (string, error) {
				return header("Authorization", `Signature id="user-of-the-api", key="`+value(env, "to_header")+`"`), nil
			}, nil, []string{password}, []string{user, "Signature id="},
		},
		"a token within a header": {
			func(env contract.Env) (string, error) {
				return header("X-Key", `id="user-of-the-api", key="`+tokenReply(env, contract.TokenRequest{URL: value(env, "url")}).AccessToken+`"`), nil
			}, nil, []string{"an-access-token"}, []string{user, password},
		},
		"before what is no scheme": {
			func(env contract.Env) (string, error) {
				return header("X-Key", `key="`+value(env, "to_header")+`" user-of-the-api`), nil
			}, nil, []string{password}, []string{user},
		},
		"within a parameter": {
			func(env contract.Env) (string, error) {
				return query("q", "user-of-the-api "+value(env, "to_query")), nil
			},
			nil,
			[]string{password, url.QueryEscape(password)},
			[]string{user},
		},
		"the name of a parameter": {
			func(env contract.Env) (string, error) { return query(value(env, "to_query"), "user-of-the-api"), nil },
			nil,
			[]string{password},
			[]string{user},
		},
		"revealed": {
			func(env contract.Env) (string, error) {
				return header("X-Key", "abc "+string(env.Reveal(value(env, "to_header")))), nil
			}, []string{"reveal"}, []string{password}, nil,
		},
		"revealed, beside another header": {
			func(env contract.Env) (string, error) {
				secret := string(env.Reveal(value(env, "to_header")))
				return marshal(contract.Mutation{Headers: []abi.Pair{{Name: "X-Key", Value: secret}, {Name: "X-Client", Value: literal}}}), nil
			}, []string{"reveal"}, []string{password}, []string{literal},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := misuser(t, test.do, test.grants...)
			w.setSecret("s", password)
			w.login.Answer(token("an-access-token", 3600))
			for want, texts := range map[bool][]string{true: test.stopped, false: append(test.harmless, "p4ssw0r")} {
				for _, text := range texts {
					w.api.Answer(respond(http.StatusOK, "is "+text+" in it"))
					_, err := w.read(c.GuardedTransport(nil).RoundTrip(get(t.Context())))
					if errors.Is(err, host.ErrCredentialInResponse) != want {
						t.Errorf("%q is stopped: %t, %v", text, !want, err)
					}
				}
			}
		})
	}
}

// The credentials of WithCredentials are searched for, also if the connector itself has no credential.
func TestCredentialsOfTheEmbedder_threats_45(t *testing.T) {
	const secret, basic = "another-s3cret", "b3BlcmF0b3I6YW5vdGhlci1zM2NyZXQ="
	w := newWorld(t)
	w.setSecret("s", "the-key-of-the-api")
	w.setSecret("t", secret)
	w.setSecret("b", basic)
	w.setSecret("padded", " padded-s3cret ")
	texts := map[string]host.Text{}
	for name, source := range map[string]string{"token": `Token token="{{ get_secret('t') }}", of=everyone`, "basic": "Basic {{ get_secret('b') }}", "padded": "{{ get_secret('padded') }}", "plain": "everyone's own text"} {
		compiled := must(w.host.Template(source))(t)
		texts[name] = must(compiled.Render(t.Context()))(t)
	}
	for authType, auth := range map[string]config{"none": {}, "api_key": key("{{ get_secret('s') }}")} {
		c := w.connect(authType, auth)
		for _, test := range []struct {
			texts []string
			echo  string
			want  bool
		}{
			{[]string{"token"}, secret, true},
			{[]string{"basic"}, secret, true},
			{[]string{"padded"}, "padded-s3cret", true}, // headers are sent without surrounding space
			{[]string{"basic"}, basic, true},
			{[]string{"plain", "token"}, "everyone's own text", false},
			{[]string{"plain"}, secret, false},
			{nil, secret, false},
			{[]string{"token"}, "the-key-of-the-api", authType == "api_key"},
		} {
			ctx := t.Context()
			for _, name := range test.texts {
				ctx = host.WithCredentials(ctx, texts[name])
			}
			w.api.Answer(respond(http.StatusOK, "is "+test.echo))
			_, err := w.read(c.GuardedTransport(nil).RoundTrip(get(ctx)))
			if errors.Is(err, host.ErrCredentialInResponse) != test.want {
				t.Errorf("%s with %v: %s results in %v", authType, test.texts, test.echo, err)
			}
		}
	}
}

// threats.md 73: if a credential is encoded, the guard also searches for the text that it decodes to.
func TestDecodedCredentials_threats_73(t *testing.T) {
	const password = "correct horse/battery"
	for name, secret := range map[string]string{
		"percent-encoded":              "correct%20horse%2Fbattery",
		"percent-encoded, as a form":   "correct+horse%2Fbattery",
		"percent-encoded twice":        "correct%2520horse%252Fbattery",
		"Base64 of user and password":  base64.StdEncoding.EncodeToString([]byte("operator:" + password)),
		"Base64 without padding":       base64.RawURLEncoding.EncodeToString([]byte("op:" + password)),
		"hex":                          hex.EncodeToString([]byte(password)),
		"percent-encoded, then Base64": base64.StdEncoding.EncodeToString([]byte("operator:correct%20horse%2Fbattery")),
	} {
		t.Run(name, func(t *testing.T) {
			w, c := keyWorld(t)
			w.setSecret("s", secret)
			for echo, want := range map[string]bool{secret: true, password: true, "correct horse": false, "operator": false} {
				w.api.Answer(respond(http.StatusOK, "is "+echo))
				_, err := w.read(c.GuardedTransport(nil).RoundTrip(get(t.Context())))
				if errors.Is(err, host.ErrCredentialInResponse) != want {
					t.Errorf("%q: err = %v", echo, err)
				}
			}
		})
	}
}

// A credential is decoded up to three times, and only as a whole and if the result is text.
func TestDecodingLimits(t *testing.T) {
	const password = "correct horse/battery"
	escaped := func(times int) string {
		text := password
		for range times {
			text = url.PathEscape(text)
		}
		return text
	}
	for name, c := range map[string]struct {
		value, secret, echo string
		stopped             bool
	}{
		"three times":                {"{{ get_secret('s') }}", escaped(3), password, true},
		"four times":                 {"{{ get_secret('s') }}", escaped(4), password, false},
		"a form without an escape":   {"{{ get_secret('s') }}", "correct+horse+battery", "correct horse battery", false},
		"hex to begin with":          {"{{ get_secret('s') }}", "6f70657261746f7273-of-the-api", "operators ", false},
		"encoded by a template":      {"id.{{ base64_encode(get_secret('s')) }}.x", password, password, true},
		"what a template adds to it": {"id-of-the-client.{{ base64_encode(get_secret('s')) }}", password, "id-of-the-client", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.setSecret("s", c.secret)
			w.api.Answer(respond(http.StatusOK, "is "+c.echo))
			if _, err := w.read(w.connect("api_key", key(c.value)).GuardedTransport(nil).RoundTrip(get(t.Context()))); errors.Is(err, host.ErrCredentialInResponse) != c.stopped {
				t.Errorf("%q results in %v", c.echo, err)
			}
		})
	}
}

// Errors of a transport and of a body do not quote the credential.
func TestScrubbedAnswerErrors_threats_45(t *testing.T) {
	w, c := keyWorld(t)
	for _, length := range []int{1, 300} { // the scanner of the longer one is too large to be kept
		secret := strings.Repeat(w.canary("s"), length)
		w.canaryOf("s", secret)
		cause := errors.New("the cause")
		for _, form := range testworld.Forms(secret) {
			fails := fmt.Errorf("%w: a line %s", cause, form.Text)
			w.api.Answer(func(*http.Request) (*http.Response, error) { return nil, fails })
			if _, err := w.read(c.GuardedTransport(nil).RoundTrip(get(t.Context()))); err == nil {
				t.Errorf("%s: no error", form.Name)
			}
			w.api.Answer(func(r *http.Request) (*http.Response, error) {
				response, err := status(http.StatusOK)(r)
				response.Body = io.NopCloser(io.MultiReader(strings.NewReader("some."), iotest.ErrReader(fails)))
				return response, err
			})
			if got, err := w.read(c.GuardedTransport(nil).RoundTrip(get(t.Context()))); got != "some." || err == nil {
				t.Errorf("%s: got = %q, err = %v", form.Name, got, err)
			}
		}
	}
	w.api.Answer(func(*http.Request) (*http.Response, error) { return nil, context.Canceled })
	if _, err := w.read(c.GuardedTransport(nil).RoundTrip(get(t.Context()))); !errors.Is(err, context.Canceled) {
		t.Errorf("another error is %v", err)
	}
}

// If a connector has a credential for each user, each answer is searched for the credential of its own request.
func TestAnswerSearchPerCredential(t *testing.T) {
	w := newWorld(t)
	w.setSecret("s", "prefix-of-a-key")
	c := w.connect("api_key", key("{{ get_secret('s') }}/{{ user.id }}"))
	w.api.Answer(func(r *http.Request) (*http.Response, error) {
		return respond(http.StatusOK, r.URL.Query().Get("say"))(r)
	})
	for _, who := range []string{"u1", "u2", "u1"} {
		for say, want := range map[string]bool{"prefix-of-a-key/" + who: true, "prefix-of-a-key": true, who + " other": false} {
			ctx := host.WithUser(t.Context(), host.User{ID: who})
			response, err := c.GuardedTransport(nil).RoundTrip(request(t, apiURL+"?say="+url.QueryEscape(say)).WithContext(ctx))
			if err != nil {
				t.Fatal(err)
			}
			_, err = io.ReadAll(response.Body)
			_ = response.Body.Close()
			if errors.Is(err, host.ErrCredentialInResponse) != want {
				t.Errorf("%s: say = %q: err = %v", who, say, err)
			}
		}
	}
}

// A header whose name holds the credential escaped is dropped, as its value would be (threats.md 45).
func TestEscapedEchoInHeaderName_threats_45(t *testing.T) {
	w := newWorld(t)
	w.setSecret("s", "1234/5678/9012")
	w.api.Answer(respond(http.StatusOK, "", "X-1234%2f5678%2F9012", "1", "X-Fine", "fine"))
	response, err := w.connect("api_key", key("{{ get_secret('s') }}")).GuardedTransport(nil).RoundTrip(get(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if got := response.Header; len(got) != 1 || got.Get("X-Fine") != "fine" {
		t.Errorf("the caller got %v", got)
	}
	if w.logged("with the credential in its name") != 1 {
		t.Error("there is no warning")
	}
}

// The trailers that an API announces are searched before the body is read, and once more when they have come.
func TestEchoInAnnouncedTrailers_threats_45(t *testing.T) {
	const secret = "sk-live-0123456789"
	w := newWorld(t)
	w.setSecret("s", secret)
	w.api.Answer(func(r *http.Request) (*http.Response, error) {
		response, err := respond(http.StatusOK, "body")(r)
		response.Trailer = http.Header{"X-" + secret: nil, "X-Sum": nil}
		response.Body = io.NopCloser(io.MultiReader(strings.NewReader("body"), readerFunc(func([]byte) (int, error) {
			response.Trailer = http.Header{"X-Sum": {"1"}, "X-Key": {secret}} // as net/http does at the end
			return 0, io.EOF
		})))
		return response, err
	})
	response, err := w.connect("api_key", key("{{ get_secret('s') }}")).GuardedTransport(nil).RoundTrip(get(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if _, sum := response.Trailer["X-Sum"]; len(response.Trailer) != 1 || !sum {
		t.Errorf("before the body is read: %v", response.Trailer)
	}
	if _, err = w.read(response, nil); err != nil || len(response.Trailer) != 1 || response.Trailer.Get("X-Sum") != "1" {
		t.Errorf("at the end: %v, %v", response.Trailer, err)
	}
}
