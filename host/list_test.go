package host_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// Connectors with several authentications.

// listWorld returns a world, and a connector whose first elements are auths and whose last one is a guest that does something and
// sends its key in X-Last.
func listWorld(t *testing.T, do func(env contract.Env) []abi.Pair, auths ...host.Auth) (*world, *host.Connector) {
	t.Helper()
	w := newWorld(t, withGuest(misusing(func(env contract.Env) (string, error) {
		added := do(env)
		return marshal(contract.Mutation{Headers: append(added, abi.Pair{Name: "X-Last", Value: value(env, "to_header")})}), nil
	})))
	return w, w.open(host.ConnectorConfig{Auth: append(auths, host.Auth{Type: "custom", Config: misused})})
}

var (
	tokenAuth  = host.Auth{Type: "oauth_client_credentials", Config: oauth("{{ get_secret('s') }}")}
	headerAuth = host.Auth{Type: "api_key", Config: config{"key": "X-First", "value": "{{ get_secret('k') }}", "in": "header"}}
	queryAuth  = host.Auth{Type: "api_key", Config: config{"key": "first", "value": "{{ get_secret('k') }}", "in": "query"}}
)

var anySealed = regexp.MustCompile(contract.SealedPrefix + `[a-z0-9]{26}`)

func addNothing(contract.Env) []abi.Pair { return nil }

// sum returns the SHA-256 of a text in hex.
func sum(text string) string {
	digest := sha256.Sum256([]byte(text))
	return hex.EncodeToString(digest[:])
}

// Each element gets the request as those before it have left it, and the API gets what all have added. Adding an element keeps the
// tokens that there are.
func TestListOfAuthentications(t *testing.T) {
	w, connector := listWorld(t, addNothing, tokenAuth, headerAuth)
	alone := w.open(host.ConnectorConfig{Auth: []host.Auth{tokenAuth}})
	w.get(alone)
	for range 2 {
		got := w.get(connector)
		if got.Header.Get("Authorization") != "Bearer t1" || got.Header.Get("X-First") != w.secrets["k"] || got.Header.Get("X-Last") != w.secrets["s"] {
			t.Errorf("the API received the headers %v", got.Header)
		}
	}
	if n := w.login.Count(); n != 1 {
		t.Errorf("there were %d token requests, want 1: a further element keeps the token", n)
	}
	equal(t, "oauth_client_credentials+api_key+custom", connector.Config().Auth.Type())
	for _, c := range w.calls[1:4] {
		if c.Source != connector || !strings.Contains(connector.Config().Auth.Type(), c.AuthType) {
			t.Errorf("an attempt is of %s", c.AuthType)
		}
	}
}

// threats.md 490: what earlier elements have put into a request is a reference for a later one, in each place. What else the request has
// is as before, and Authorization shows by its exact name only.
func TestLaterElements_threats_490(t *testing.T) {
	place := func(in, key string) host.Auth {
		return host.Auth{Type: "api_key", Config: config{"key": key, "value": "{{ get_secret('k') }}", "in": in}}
	}
	for template, c := range map[string]struct {
		auths []host.Auth
		want  string
	}{
		"{header:x-first}|{header:Authorization}":        {[]host.Auth{tokenAuth, headerAuth}, "sealed|sealed"},
		"{header:X-First|sha256|hex}":                    {[]host.Auth{headerAuth}, "sealed"},
		"{headers:*;!x-caller}":                          {[]host.Auth{tokenAuth, headerAuth}, "host:api.test\nx-first:sealed"},
		"{header:x-caller} {query_param:mine} {path}":    {[]host.Auth{headerAuth, queryAuth}, "of the caller 1 /v1/x"},
		"{query} {target}":                               {[]host.Auth{queryAuth}, "mine=1&first=sealed /v1/x?mine=1&first=sealed"},
		"{query_param:first} {header:x-first}{header:x}": {[]host.Auth{queryAuth, headerAuth}, "sealed sealed"},
		"{header:cookie}":                                {[]host.Auth{place("cookie", "session")}, "sealed"},
		"{path}?{query}":                                 {[]host.Auth{place("path", "x")}, "/sealed?mine=1"},
	} {
		got, input := "", ""
		w, connector := listWorld(t, func(env contract.Env) []abi.Pair {
			got = anySealed.ReplaceAllString(env.Compose(template, nil), "sealed")
			input = string(env.Input())
			return nil
		}, c.auths...)
		r := must(http.NewRequestWithContext(t.Context(), http.MethodGet, apiOrigin+"/v1/x?mine=1", nil))(t)
		r.Header = http.Header{"X-Caller": {"of the caller"}, "Cookie": {"of=caller"}}
		w.send(connector, r)
		if got != c.want {
			t.Errorf("%s is %q, want %q", template, got, c.want)
		}
		for _, text := range []string{w.secrets["k"], "Bearer", "of=caller"} {
			if strings.Contains(input+got, text) {
				t.Errorf("%s: the guest got %q: %s %s", template, text, input, got)
			}
		}
	}
}

// threats.md 490: a later element can sign what an earlier one has put in. It cannot move it, put it into a claim, or repeat the name.
func TestLaterElementMisuses_threats_490(t *testing.T) {
	w, connector := listWorld(t, func(env contract.Env) []abi.Pair {
		return []abi.Pair{{Name: "X-Digest", Value: env.Encode("hex", env.Digest("sha256", env.Compose("{header:x-first}", nil)))}}
	}, headerAuth)
	if got := w.get(connector).Header.Get("X-Digest"); got != sum(w.secrets["k"]) {
		t.Errorf("the digest is %s, want that of the first element's key", got)
	}
	first := func(env contract.Env) string { return env.Compose("{header:x-first}", nil) }
	for name, c := range map[string]struct {
		do    func(env contract.Env) []abi.Pair
		stage host.Stage
		words string
	}{
		"moved": {func(env contract.Env) []abi.Pair { return []abi.Pair{{Name: "X-Copy", Value: first(env)}} }, host.StagePlugin, "sinks"},
		"encoded": {func(env contract.Env) []abi.Pair {
			return []abi.Pair{{Name: "X-Copy", Value: env.Encode("base64", first(env))}}
		}, host.StagePlugin, "sinks"},
		"in a name": {func(env contract.Env) []abi.Pair { return []abi.Pair{{Name: first(env), Value: "x"}} }, host.StagePlugin, "sinks"},
		"claim": {func(env contract.Env) []abi.Pair {
			return []abi.Pair{{Name: "X-JWT", Value: env.JWTSign([]byte(`{"key":"key","for":"header","claims":{"sub":"` + first(env) + `"}}`))}}
		}, host.StagePlugin, "sinks"},
		"logged":      {func(env contract.Env) []abi.Pair { env.Log(contract.LevelInfo, first(env)); return nil }, host.StagePlugin, "a log line"},
		"overwritten": {func(contract.Env) []abi.Pair { return []abi.Pair{{Name: "x-FIRST", Value: "mine"}} }, host.StageMutation, "an earlier one of auth"},
		"the cache":   {func(env contract.Env) []abi.Pair { env.CacheSet("a", first(env), 60); return nil }, host.StagePlugin, "after the request was read"},
		"another's":   {func(env contract.Env) []abi.Pair { env.Compose("{header:authorization}", nil); return nil }, host.StagePlugin, "which plugins do not see"},
	} {
		w, connector := listWorld(t, func(env contract.Env) []abi.Pair {
			if env.Compose("{method}", nil) != http.MethodGet { // the check of the configuration
				return nil
			}
			return c.do(env)
		}, headerAuth)
		if failed := w.refuse(connector, get(t.Context()), c.stage, c.words, "(auth[1] custom)"); failed.Path != "auth[1]" || failed.AuthType != "custom" {
			t.Errorf("%s: the error is of %s, %s", name, failed.Path, failed.AuthType)
		}
	}
}

// threats.md 490: a request for which two elements set one name is not sent, and no explanation of it is made.
func TestRepeatedNames_threats_490(t *testing.T) {
	w := newWorld(t)
	in := func(place, key string) host.Auth {
		return host.Auth{Type: "api_key", Config: config{"key": key, "value": "{{ get_secret('k') }}", "in": place}}
	}
	for name, c := range map[string]struct {
		auths []host.Auth
		words string
	}{
		"a header":          {[]host.Auth{headerAuth, in("header", "x-FIRST")}, "sets a header"},
		"two tokens":        {[]host.Auth{tokenAuth, {Type: "jwt", Config: config{"private_key": "{{ get_secret('long') }}", "algorithm": "HS256", "claims": config{}}}}, "sets a header"},
		"a cookie":          {[]host.Auth{in("cookie", "a"), in("cookie", "a")}, "sets a cookie"},
		"Cookie":            {[]host.Auth{in("header", "Cookie"), in("cookie", "a")}, "sets a header"},
		"a parameter":       {[]host.Auth{queryAuth, in("query", "FIRST[]")}, "sets a parameter"},
		"a secret name":     {[]host.Auth{headerAuth, in("header", "X-{{ get_secret('name') }}")}, "sets a header"},
		"a secret in query": {[]host.Auth{in("query", "x{{ get_secret('name') }}"), queryAuth}, "sets a parameter"},
	} {
		w.setSecret("name", "Abcdefgh1")
		w.setSecret("long", strings.Repeat("k", 32))
		connector := w.open(host.ConnectorConfig{Name: name, Auth: c.auths})
		w.refuse(connector, get(t.Context()), host.StageMutation, c.words, "auth[1]")
		if strings.HasPrefix(name, "a secret") { // it is masked there
			continue
		}
		if _, err := connector.Explain(get(t.Context())); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: the error of Explain is %v", name, err)
		}
	}
}

// threats.md 490: a later element cannot look for texts in the path that an earlier one has made: right and wrong guesses end alike.
func TestGuessesInThePath_threats_490(t *testing.T) {
	guess, do := "", func(contract.Env) (string, error) { return "", nil }
	w := newWorld(t, withGuest(misusing(func(env contract.Env) (string, error) { return do(env) })))
	path := host.Auth{Type: "api_key", Config: config{"key": "x", "value": "{{ get_secret('k') }}", "in": "path"}}
	connector := w.open(host.ConnectorConfig{Auth: []host.Auth{path, {Type: "custom", Config: misused}}})
	do = func(env contract.Env) (string, error) {
		key := abi.Pair{Name: "X-Last", Value: value(env, "to_header")}
		return marshal(contract.Mutation{Path: []abi.Pair{{Name: guess, Value: guess}}, Headers: []abi.Pair{key}}), nil
	}
	r := must(http.NewRequestWithContext(t.Context(), http.MethodGet, apiOrigin+"/v1/x", nil))(t)
	for _, guess = range []string{w.secrets["k"], w.secrets["k"][:4], "other"} {
		w.refuse(connector, r, host.StageMutation, "sets a path that an earlier one of auth sets", "auth[1]")
	}
	guess = "v1"
	_, err := connector.Explain(r)
	testworld.WantError(t, "Explain", err, "sets a path")
}

// threats.md 490: of what an earlier element has added to a form, a later one sees no digest in plain, and not the length. It can have them
// signed, and digests of digests.
func TestFormInAList_threats_490(t *testing.T) {
	first := &guest{about: abi.Description{Type: "first", Fields: []abi.Field{sealedField("v", contract.SinkBody)}}}
	first.authenticate = func(env contract.Env) (string, error) {
		return marshal(contract.Mutation{Form: []abi.Pair{{Name: "secret", Value: value(env, "v")}}}), nil
	}
	for _, body := range []string{"", "a=b"} {
		view := ""
		last := misusing(func(env contract.Env) (string, error) {
			length, hash := env.Compose("{content_length}", nil), env.Compose("{body|sha256|hex}", nil)
			form, _ := env.BodyForm()
			view = strings.Join([]string{env.Digest("sha256", env.Body()), hash, length, env.Compose("{headers:content-length}", nil), string(env.Input()), string(form)}, " ")
			return marshal(contract.Mutation{Headers: []abi.Pair{
				{Name: "X-Key", Value: value(env, "to_header")},
				{Name: "X-Hash", Value: hash},
				{Name: "X-Length", Value: env.Encode("hex", env.Digest("sha256", length))},
				{Name: "X-Twice", Value: env.Encode("hex", env.Digest("sha256", hash))},
			}}), nil
		})
		w := newWorld(t, withGuest(first), withGuest(last))
		c := w.open(host.ConnectorConfig{Auth: host.Auths{{Type: "first", Config: config{"v": "{{ get_secret('k') }}"}}, {Type: "custom", Config: misused}}})
		got := w.send(c, formOf(t, body))
		want := strings.TrimPrefix(body+"&secret="+url.QueryEscape(w.secrets["k"]), "&")
		length := fmt.Sprint(len(want))
		if h := got.Header; got.Body != want || h.Get("X-Hash") != sum(want) || h.Get("X-Twice") != sum(sum(want)) || h.Get("X-Length") != sum(length) {
			t.Errorf("the API received %q, the headers %v", got.Body, h)
		}
		raw := sha256.Sum256([]byte(want))
		for _, text := range []string{string(raw[:]), sum(want), `"content_length":`, " " + length, ":" + length, w.secrets["k"]} {
			if strings.Contains(view, text) {
				t.Errorf("with the body %q, the later element sees %q: %q", body, text, view)
			}
		}
	}
}

// threats.md 490: the name of a parameter that is a secret does not show, however short it is.
func TestNameOfAParameterInAList_threats_490(t *testing.T) {
	view := ""
	w, connector := listWorld(t, func(env contract.Env) []abi.Pair {
		view = string(env.Input()) + env.Compose("{query} {query_param:K7}", nil)
		return []abi.Pair{{Name: "X-Hash", Value: env.Encode("hex", env.Digest("sha256", env.Compose("{query}", nil)))}}
	}, host.Auth{Type: "api_key", Config: config{"key": "{{ get_secret('name') }}", "value": "{{ get_secret('k') }}", "in": "query"}})
	for _, name := range []string{"K7", "a b:a longer one"} {
		w.setSecret("name", name)
		r := get(t.Context())
		r.URL.RawQuery = "mine=1"
		got := w.send(connector, r)
		_, query, _ := strings.Cut(got.URL, "?")
		if strings.Contains(view, name) || strings.Contains(view, "longer") || got.Header.Get("X-Hash") != sum(query) {
			t.Errorf("the later element sees %q; the API received %s %v", view, got.URL, got.Header)
		}
	}
}

// threats.md 490: with the grant reveal, a later element reads its own secrets only.
func TestRevealedInAList_threats_490(t *testing.T) {
	read := false
	g := misusing(func(env contract.Env) (string, error) {
		own := env.Reveal(value(env, "to_header"))
		if read {
			env.Reveal(env.Compose("{header:x-first}", nil))
		}
		return header("X-Last", string(own)), nil
	})
	w := newWorld(t, withGuest(g, abi.GrantReveal))
	auths := host.Auths{headerAuth, {Type: "custom", Config: misused}}
	if got := w.get(w.open(host.ConnectorConfig{Auth: auths})).Header.Get("X-Last"); got != w.secrets["s"] {
		t.Errorf("the API received %q", got)
	}
	read = true
	w.refuse(w.open(host.ConnectorConfig{Name: "another", Auth: auths}), get(t.Context()), host.StagePlugin, "reveal was called after the request was read")
}

// Problems name the element. Those of the connector are listed once.
func TestListProblems(t *testing.T) {
	w := newWorld(t)
	w.refuseConnector(host.ConnectorConfig{Auth: []host.Auth{headerAuth, {Type: "nope"}}}, "auth[1].type", "no auth type")
	w.refuseConnector(host.ConnectorConfig{Auth: []host.Auth{headerAuth, {Type: "api_key", Config: with(key("x"), "in", "nowhere")}}}, "auth[1].config.in", "is none of")
	w.refuseConnector(host.ConnectorConfig{Auth: []host.Auth{{Type: "none"}, {Type: "none"}, {Type: "none"}, {Type: "none"}, {Type: "none"}}}, "auth", "5 authentications")
	w.refuseConnector(host.ConnectorConfig{Auth: []host.Auth{headerAuth, {Type: "none"}}, RefreshAhead: 60e9}, "refresh_ahead", "keeps no tokens")
	w.refuseConnector(host.ConnectorConfig{Auth: []host.Auth{headerAuth, {Type: "none"}}, Timeout: -1}, "timeout", "is negative")
}

// After a 401, the token that was sent is dropped although the element beside it passes, all elements run again, and the request is sent
// once more, once in all. If all that have a challenge pass and nothing was dropped, the caller gets the answer.
func TestListAfterUnauthorized(t *testing.T) {
	w := newWorld(t, withGuest(&guest{about: challenged, authenticate: func(env contract.Env) (string, error) {
		if c := challengeOf(env); c.Status != 0 {
			return `{"pass":true}`, nil
		}
		return header("X-Read", fmt.Sprint(len(env.Compose("{header:authorization}", nil)) > 0)), nil
	}}))
	w.canary("key")
	custom := host.Auth{Type: "custom", Config: config{"key": "{{ get_secret('key') }}", "url": tokenURL}}
	w.login.Answer(tokens(3600))
	for name, c := range map[string]struct {
		first    host.Auth
		requests int
	}{"a token": {tokenAuth, 2}, "a key": {host.Auth{Type: "api_key", Config: config{"key": "Authorization", "value": "{{ get_secret('k') }}", "in": "header"}}, 1}} {
		connector := w.open(host.ConnectorConfig{Name: name, Auth: []host.Auth{c.first, custom}})
		w.api.Answer(status(http.StatusOK))
		w.get(connector) // from here on the token is cached
		w.api.Answer(status(http.StatusUnauthorized))
		earlier := w.api.Count()
		if code, err := w.try(connector, get(t.Context())); code != http.StatusUnauthorized || err != nil {
			t.Errorf("%s: the answer is %d, %v", name, code, err)
		}
		if n := w.api.Count() - earlier; n != c.requests || w.api.Last().Header.Get("X-Read") != "true" {
			t.Errorf("%s: the API received %d requests, want %d; the last had %v", name, n, c.requests, w.api.Last().Header)
		}
	}
	if n := w.login.Count(); n != 2 {
		t.Errorf("there were %d token requests, want 2", n)
	}
}

// What the elements of a list do is explained in order, and what they add is masked.
func TestExplainedList(t *testing.T) {
	w, connector := listWorld(t, func(env contract.Env) []abi.Pair {
		return []abi.Pair{{Name: "X-Digest", Value: env.Encode("hex", env.Digest("sha256", env.Compose("{header:authorization}", nil)))}}
	}, tokenAuth)
	e := must(connector.Explain(get(t.Context())))(t)
	text := string(must(json.Marshal(e))(t))
	w.Out("the explanation", text)
	if len(e.Steps) != 2 || e.AuthType != "oauth_client_credentials+custom" || !strings.Contains(text, `"Bearer \u003ctoken\u003e"`) || !strings.Contains(text, "X-Digest") {
		t.Errorf("the explanation is %s", text)
	}
	fields := connector.FieldSecrets()
	if len(fields["auth[1].to_header"]) != 1 || len(fields["auth[0].client_secret"]) != 1 {
		t.Errorf("the fields with secrets are %v", fields)
	}
	w.refuseConnector(host.ConnectorConfig{Auth: []host.Auth{headerAuth, {Type: "custom", Config: with(misused, "text", "{{")}}}, "auth[1].config.text", "}}")
	if _, err := new(host.Connector).Explain(get(t.Context())); !errors.As(err, new(*host.Error)) {
		t.Errorf("the error of a connector that nobody made is %v", err)
	}
}

// One authentication of a list may have states or consent. Hosts are a problem only if none of them uses these. A client certificate that is the same for all tenants does not go to the token
// endpoint of a tenant's host, whichever of them has it.
func TestListLimits(t *testing.T) {
	w := newWorld(t, listed("login.test"), withState(t, &failingStore{}), func(c *host.Config) { c.BuiltIns = allBuiltIns(t) })
	refresh := host.Auth{Type: "oauth_refresh_token", Config: config{"token_url": tokenURL, "client_id": "me", "client_auth": "none", "refresh_token": "{{ get_secret('s') }}"}}
	w.refuseConnector(host.ConnectorConfig{Auth: []host.Auth{refresh, headerAuth, refresh}}, "auth", "one may have these")
	w.open(host.ConnectorConfig{Auth: []host.Auth{headerAuth, refresh}})
	tenants := host.Auth{Type: "oauth_client_credentials", Config: config{
		"token_url": "https://{{ tenant_id }}.zendesk.test/token", "client_id": "me", "client_secret": "{{ get_secret('own', 'tenant') }}",
	}}
	c := host.ConnectorConfig{Hosts: []string{"*.zendesk.test"}, Auth: []host.Auth{headerAuth, tenants}}
	w.open(c)
	w.refuseConnector(host.ConnectorConfig{Hosts: c.Hosts, Auth: []host.Auth{headerAuth, tokenAuth}}, "hosts", "has no effect")
	tenants.Config["client_secret"] = "{{ get_secret('s') }}"
	w.refuseConnector(c, "auth[1].config.client_secret", "is the same for all tenants")
}
