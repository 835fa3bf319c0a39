package host_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// issuers is a source of identities whose tokens have a subject and a serial number. The hosts are those of each audience.
type issuers struct {
	hosts map[string][]string
	hide  func(what, text string) string

	mu      sync.Mutex
	subject string
	serial  int
	err     error
	// once makes each token for an exchange another one.
	once bool
}

func (s *issuers) Hosts(name, audience string) []string {
	if name != "pod" {
		return nil
	}
	return s.hosts[audience]
}

func (s *issuers) Identity(_ context.Context, r host.IdentityRequest) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return "", s.err
	}
	if r.Exchange && s.once {
		s.serial++
	}
	return s.token(r.Audience), nil
}

func (s *issuers) token(audience string) string {
	claims := fmt.Sprintf(`{"iss":"https://issuer.test","sub":%q,"aud":%q,"jti":"%d"}`, s.subject, audience, s.serial)
	encoded := base64.RawURLEncoding.EncodeToString([]byte(claims))
	signature := base64.RawURLEncoding.EncodeToString([]byte("signature of " + claims))
	token := "eyJhbGciOiJFUzI1NiJ9." + encoded + "." + signature
	s.hide("a token of an identity", token)
	return token
}

// change changes what the source issues from now on.
func (s *issuers) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// identityWorld returns a world with a guest as in onBehalfWorld, and an identity pod for the audiences bank and login.
func identityWorld(t *testing.T, authenticate func(contract.Env) (string, error), change ...func(*host.Config)) (*world, *issuers) {
	t.Helper()
	s := &issuers{subject: "system:orders", hosts: map[string][]string{"bank": {"bank.test"}, "login": {"login.test", "bank.test"}}}
	w := onBehalfWorld(t, authenticate, append(change, func(c *host.Config) { c.Identities = s })...)
	s.hide = w.Hide
	return w, s
}

// identityOf returns a configuration that sends a token for an audience to a URL.
func identityOf(audience, url string) config {
	return config{"url": url, "subject": "{{ identity('pod', '" + audience + "') }}"}
}

// threats.md 439, specification.md "token of the process": a token of an identity goes only to the hosts that the operator lists for its
// audience.
func TestIdentityGoesToHostsOfItsAudience(t *testing.T) {
	for _, c := range []struct {
		audience, url string
		want          bool
	}{
		{"login", "https://login.test/token", true},
		{"login", "https://login.test:8443/token", false},
		{"login", "https://evil.test/token", false},
		{"bank", "https://login.test/token", false}, // which may get those for another audience
		{"bank", "https://login.test@evil.test/token", false},
	} {
		t.Run(c.audience+" and "+c.url, func(t *testing.T) {
			w, s := identityWorld(t, cachedExchange)
			w.login.Answer(tokens(3600))
			if problems := w.problems("custom", identityOf(c.audience, c.url)); problems != nil {
				return // the URL has a user
			}
			connector := w.connect("custom", identityOf(c.audience, c.url))
			if !c.want {
				w.refuse(connector, get(t.Context()), host.StageConfig, "identity('pod', '"+c.audience+"') may not go to", "and nothing was sent", "(identities)")
				return
			}
			w.send(connector, get(t.Context()))
			if got := w.login.Received()[0].Body; !strings.Contains(got, s.token("login")) {
				t.Error("the endpoint did not get the token")
			}
		})
	}
}

// threats.md 439, threats.md 414: no redirect of a host of its audience is followed, and no plugin keeps the token, to send it after its end.
func TestIdentityStaysWithHostsOfItsAudience(t *testing.T) {
	w, _ := identityWorld(t, sendsCachedSubject)
	w.refuse(w.connect("custom", identityOf("login", tokenURL)), get(t.Context()), host.StagePlugin, "the value of cache_set has the token of an identity")

	w, _ = identityWorld(t, cachedExchange)
	w.login.Answer(respond(http.StatusTemporaryRedirect, "", "Location", "https://evil.test/"))
	w.refuse(w.connect("custom", identityOf("login", tokenURL)), get(t.Context()), host.StageMutation)
	if w.login.Count() != 1 || w.api.Count() != 0 {
		t.Errorf("%d requests to the endpoint, want 1; %d to others, want 0", w.login.Count(), w.api.Count())
	}
}

// threats.md 439: with several tokens, each goes only to hosts that the lists of all of them have.
func TestHostsOfSeveralListedTokens(t *testing.T) {
	for name, c := range map[string]struct {
		subject, second string
		problem         string
	}{
		"two audiences":     {"{{ identity('pod', 'login') }}", "{{ identity('pod', 'bank') }}", "identity('pod', 'bank') may not go to login.test"},
		"the user's, too":   {"{{ user.token }}", "{{ identity('pod', 'bank') }}", "identity('pod', 'bank') may not go to login.test"},
		"on the same lists": {"{{ user.token }}", "{{ identity('pod', 'login') }}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			about := onBehalf
			about.Fields = append(slices.Clone(about.Fields), sealedField("second", contract.SinkToken))
			w, _ := identityWorld(t, cachedExchange, func(c *host.Config) { c.Plugins = nil }, withGuest(&guest{about: about, authenticate: cachedExchange}))
			w.login.Answer(tokens(3600))
			connector := w.connect("custom", config{"url": tokenURL, "subject": c.subject, "second": c.second})
			r := w.as(w.Secret("the user's token"))
			if c.problem == "" {
				w.send(connector, r)
				return
			}
			w.refuse(connector, r, host.StageConfig, c.problem)
		})
	}
}

// threats.md 439: where identity may stand is checked when the connector is loaded.
func TestPlacesOfIdentity(t *testing.T) {
	w, _ := identityWorld(t, cachedExchange)
	for text, want := range map[string]string{
		"subject {{ identity('pod', 'login') }}":                     "",
		"subject {{identity(\"pod\", 'login')}}":                     "",
		"subject Bearer {{ identity('pod', 'login') }}":              "identity must stand alone, with no text around it",
		"subject {{ base64_encode(identity('pod', 'login')) }}":      "identity must stand alone: its token goes to a token endpoint as it is",
		"subject {{ identity('pod', 'login') + '' }}":                "identity must stand alone",
		"subject {{ true ? identity('pod', 'login') : '' }}":         "identity must stand alone",
		"subject {{ identity('pod', tenant_id) }}":                   "the audience must be a literal text",
		"subject {{ identity(tenant_id, 'login') }}":                 "the name must be a literal text",
		"subject {{ identity('pod', '') }}":                          "the audience must be 1 to 1024 ASCII characters",
		"subject {{ identity('pod', \"it's\") }}":                    "the audience must be 1 to 1024 ASCII characters",
		"subject {{ identity('pod', 'other') }}":                     "names identity('pod', 'other'), and no host may get its token",
		"subject {{ identity('other', 'login') }}":                   "names identity('other', 'login'), and no host may get its token",
		"plain {{ identity('pod', 'login') }}":                       "and is not sealed",
		"header_only {{ identity('pod', 'login') }}":                 "its value goes elsewhere (header)",
		"url https://login.test/{{ identity('pod', 'login') }}":      "identity must stand alone",
		"sealed_url {{ identity('pod', 'login') }}":                  "is of kind url",
		"key {{ identity('pod', 'login') }}":                         "and is not sealed",
		"object.deep {{ identity('pod', 'login') }}":                 "no object is sealed",
		"subject {{ get_secret(identity('pod', 'login')) }}":         "the name must be a literal text",
		"subject {{ discover(identity('pod', 'login'), 'issuer') }}": "the issuer must be a literal text",
	} {
		field, value, _ := strings.Cut(text, " ")
		auth := config{field: value}
		if object, member, nested := strings.Cut(field, "."); nested {
			auth = config{object: config{member: value}}
		}
		got := strings.Join(w.problems("custom", auth), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	_, err := w.host.Template("{{ identity('pod', 'login') }}")
	testworld.WantError(t, "a header of the connector", err, "goes to token endpoints only")
	_, err = w.tryOpen(host.ConnectorConfig{
		Name: "crm", Origins: []string{"https://api.test"}, Auth: []host.Auth{{Type: "custom"}}, TLS: &host.TLS{Certificate: "{{ identity('pod', 'login') }}"},
	})
	testworld.WantError(t, "a certificate", err, "tls.certificate: the token of identity goes to token endpoints only")
	w.connect("custom", identityOf("login", "https://login.test:8443/token"))
	if w.logged("list it in hosts of the audience, in identities, with the port") != 1 {
		t.Errorf("there is no advice for a host with another port:\n%s", w.log.String())
	}
	none := onBehalfWorld(t, cachedExchange)
	if got := none.problems("custom", identityOf("login", tokenURL)); len(got) != 1 || !strings.Contains(got[0], "no host may get its token") {
		t.Errorf("without identities: %q", got)
	}
}

// threats.md 413: what is got with an identity is kept for its subject. A new token of the same one costs nothing, and another subject
// gets nothing of it.
func TestPartitionOfIdentities(t *testing.T) {
	w, s := identityWorld(t, cachedExchange)
	w.login.Answer(tokens(24 * 60 * 60))
	connector := w.connect("custom", identityOf("login", tokenURL))
	second := w.connectAs("second", "custom", identityOf("login", tokenURL))
	for i, step := range []struct {
		change func()
		c      *host.Connector
		want   int
	}{
		{func() {}, connector, 1},
		{func() {}, connector, 1},
		{func() { s.serial++ }, connector, 1},
		{func() { s.subject = "system:payments" }, connector, 2},
		{func() { s.subject = "system:orders" }, connector, 2},
		{func() {}, second, 3},
	} {
		s.change(step.change)
		w.send(step.c, get(t.Context()))
		if got := w.login.Count(); got != step.want {
			t.Errorf("step %d: %d exchanges, want %d", i, got, step.want)
		}
	}
}

// The token that is sent is the one that the source has for an exchange, since some may be sent only once.
func TestIdentityOfExchange(t *testing.T) {
	w, s := identityWorld(t, cachedExchange)
	s.once = true
	w.login.Answer(tokens(3600))
	connector := w.connect("custom", identityOf("login", tokenURL))
	for serial := 1; serial <= 2; serial++ {
		w.send(connector, get(t.Context()))
		w.Advance(24 * time.Hour)
		got := w.login.Received()[serial-1].Body
		s.change(func() { s.serial = serial })
		if !strings.Contains(got, s.token("login")) {
			t.Errorf("exchange %d has another token", serial)
		}
	}
}

// threats.md 414: each further exchange of a call has another token, and so has each of a consent.
func TestIdentityOfEachExchange_threats_414(t *testing.T) {
	w, s := identityWorld(t, func(env contract.Env) (string, error) {
		form := []abi.Pair{{Name: "subject_token", Value: value(env, "subject")}}
		tokenReply(env, contract.TokenRequest{URL: value(env, "url"), Form: form})
		r := tokenReply(env, contract.TokenRequest{URL: value(env, "url"), Form: form})
		return header("Authorization", "Bearer "+r.AccessToken), nil
	})
	s.once = true
	w.login.Answer(tokens(3600))
	w.send(w.connect("custom", identityOf("login", tokenURL)), get(t.Context()))
	if all := w.login.Received(); len(all) != 2 || all[0].Body == all[1].Body {
		t.Errorf("the endpoint got %d requests, want two with a token each", len(all))
	}
	cluster := consenting(t, "the-code")
	w = cluster.world(withAuthCode, func(c *host.Config) { c.Identities = s })
	s.hide, s.hosts["login"] = w.Hide, []string{"login.test"}
	c := w.connectAs("crm", "oauth_authorization_code", with(authCode("client_auth", "assertion", "client_assertion", "{{ identity('pod', 'login') }}"), "client_secret", nil))
	s.serial = 0
	check(t, finish(t, w, c, alice, back(begin(t, c, alice), "the-code")))
	w.send(c, get(forUser(t, alice)))
	for i, r := range cluster.login.Received() {
		s.serial = i + 1
		if r.Form().Get("client_assertion") != s.token("login") {
			t.Errorf("exchange %d of the consent has not the token that the source has for it", i+1)
		}
	}
}

// An identity that cannot be had fails the request at its stage, and nothing is sent. It may pass, unless the token is refused.
func TestFailedIdentity(t *testing.T) {
	for name, c := range map[string]struct {
		change    func(*issuers)
		text      string
		retryable bool
	}{
		"a source that is down": {func(s *issuers) { s.err = errors.New("no answer") }, "identity('pod', 'login'): no answer", true},
		"a token that is wrong": {func(s *issuers) { s.err = fmt.Errorf("%w: it has ended", host.ErrIdentityRefused) }, "it has ended", false},
	} {
		t.Run(name, func(t *testing.T) {
			w, s := identityWorld(t, cachedExchange)
			c.change(s)
			err := w.refuse(w.connect("custom", identityOf("login", tokenURL)), get(t.Context()), host.StageIdentity, c.text)
			if err.Retryable() != c.retryable || err.Field != "auth.config.subject" || w.login.Count() != 0 {
				t.Errorf("retryable: %t, field %q, %d exchanges", err.Retryable(), err.Field, w.login.Count())
			}
		})
	}
	t.Run("another subject between reading and sending", func(t *testing.T) {
		s := &issuers{subject: "system:orders", hosts: map[string][]string{"login": {"login.test"}}}
		w := onBehalfWorld(t, cachedExchange, func(c *host.Config) { c.Identities = &movingIdentity{s} })
		s.hide = w.Hide
		w.refuse(w.connect("custom", identityOf("login", tokenURL)), get(t.Context()), host.StageIdentity, "another subject than a moment ago")
		if w.login.Count() != 0 {
			t.Error("something was sent")
		}
	})
}

// movingIdentity is a source whose subject changes before each exchange.
type movingIdentity struct{ *issuers }

func (m *movingIdentity) Identity(ctx context.Context, r host.IdentityRequest) (string, error) {
	if r.Exchange {
		m.change(func() { m.subject += "-next" })
	}
	return m.issuers.Identity(ctx, r)
}

// threats.md 439: no plugin gets the token of an identity in plain, and people see its name.
func TestMaskedIdentity(t *testing.T) {
	g := &guest{about: onBehalf, authenticate: func(env contract.Env) (string, error) {
		return header("Authorization", string(env.Reveal(value(env, "subject")))), nil
	}}
	w, _ := identityWorld(t, cachedExchange, func(c *host.Config) { c.Plugins = nil }, withGuest(g, abi.GrantReveal))
	w.refuse(w.connect("custom", identityOf("login", tokenURL)), get(t.Context()), host.StagePlugin, "no plugin gets in plain")

	w, _ = identityWorld(t, cachedExchange)
	connector := w.connect("custom", identityOf("login", tokenURL))
	e := must(connector.Explain(get(t.Context())))(t)
	w.Out("the explanation", fmt.Sprintf("%+v %+v", e, e.Steps[0].Exchange))
	if got := e.Steps[0].Exchange.Body; got != "subject_token={{ identity('pod', 'login') }}" {
		t.Errorf("the body is %s", got)
	}
	if got := connector.FieldSecrets()["subject"]; !slices.Equal(got, []string{"identity('pod', 'login')"}) {
		t.Errorf("the field has %q", got)
	}
}

// threats.md 439: a host that is no longer listed for an audience has no part in what the next host uses, nor has one that is new.
func TestTokensOfUnlistedHostsOfIdentities(t *testing.T) {
	next := generations(t)
	for i, hosts := range [][]string{{"login.test"}, {"login.test"}, {"login.test", "other.test"}} {
		s := &issuers{subject: "system:orders", hosts: map[string][]string{"login": hosts}}
		g := &guest{about: onBehalf, authenticate: cachedExchange}
		w := next(t, withoutBuiltIns, withGuest(g), func(c *host.Config) { c.Identities = s })
		s.hide = w.Hide
		w.send(w.connect("custom", identityOf("login", tokenURL)), get(t.Context()))
		if want := []int{1, 0, 1}[i]; w.login.Count() != want {
			t.Errorf("with %v, %d exchanges, want %d", hosts, w.login.Count(), want)
		}
	}
}
