package identity_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/server/identity"
)

// metadata is an issuer whose keys are found by its metadata.
type metadata struct {
	*endpoint
	// documents has the documents of the issuer, by path. Other paths answer 404.
	documents map[string]string
	// seen has the paths that were asked for.
	seen []string
}

func newMetadata(t *testing.T) *metadata {
	t.Helper()
	m := &metadata{endpoint: newEndpoint(t), documents: map[string]string{}}
	m.set(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		document, ok := m.documents[r.URL.EscapedPath()]
		m.seen = append(m.seen, r.URL.EscapedPath())
		m.mu.Unlock()
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte(document))
	})
	return m
}

// document changes what the issuer answers.
func (m *metadata) document(path, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.documents[path] = text
}

// asked returns the paths that were asked for since the last call.
func (m *metadata) asked() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := strings.Join(m.seen, " ")
	m.seen = nil
	return seen
}

// names returns the metadata of an issuer.
func names(issuer, keys string) string {
	return fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, issuer, keys)
}

// of returns a session whose sessions have this issuer, and nothing else about its keys.
func (m *metadata) of(t *testing.T, issuer string) *session {
	t.Helper()
	return newSession(t, identity.Config{Mode: identity.ModeJWT, JWT: &identity.JWT{Bearer: true, Issuer: issuer, Audiences: []string{audience}}}, m.Client().Transport)
}

const (
	openID = "/.well-known/openid-configuration"
	oauth  = "/.well-known/oauth-authorization-server"
)

func TestKeysByIssuer(t *testing.T) {
	s := newSigner(t, "k", "ES256")
	for name, test := range map[string]struct{ path, at, asked string }{
		"OpenID Connect":                {"", openID, openID + " /keys"},
		"with a slash":                  {"/", openID, openID + " /keys"},
		"with a path":                   {"/realms/a%2Fb", "/realms/a%2Fb" + openID, "/realms/a%2Fb" + openID + " /keys"},
		"RFC 8414":                      {"", oauth, openID + " " + oauth + " /keys"},
		"RFC 8414, with path and slash": {"/tenant/", oauth + "/tenant", "/tenant" + openID + " " + oauth + "/tenant /keys"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMetadata(t)
			issuer := m.URL + test.path
			m.document(test.at, names(issuer, m.URL+"/keys"))
			m.document("/keys", document(s.jwk()))
			w := m.of(t, issuer)
			accepted(t, ann)(w.bearer(s.token(t, claims(map[string]any{"iss": issuer}))))
			if got := m.asked(); got != test.asked {
				t.Errorf("asked for %s, want %s", got, test.asked)
			}
			refused(t, identity.ErrUnauthenticated)(w.bearer(s.token(t, claims(map[string]any{"iss": strings.TrimSuffix(issuer, "/") + "//"}))))
		})
	}
}

// The metadata is read with the keys: an unknown key is looked for where the issuer now has its keys.
func TestMovedKeys(t *testing.T) {
	old, fresh := newSigner(t, "old", "ES256"), newSigner(t, "fresh", "ES256")
	m := newMetadata(t)
	mine := map[string]any{"iss": m.URL}
	m.document(openID, names(m.URL, m.URL+"/keys"))
	m.document("/keys", document(old.jwk()))
	w := m.of(t, m.URL)
	accepted(t, ann)(w.bearer(old.token(t, claims(mine))))
	m.document(openID, names(m.URL, m.URL+"/other"))
	m.document("/other", document(fresh.jwk()))
	w.clock.Advance(1)
	accepted(t, ann)(w.bearer(fresh.token(t, claims(mine))))
	refused(t, identity.ErrUnauthenticated)(w.bearer(old.token(t, claims(mine))))
}

// threats.md 187: metadata that is not the issuer's own names no keys. Nobody is signed in, and sessions are unavailable, as if the
// keys could not be read.
func TestRefusedMetadata(t *testing.T) {
	s := newSigner(t, "k", "ES256")
	for name, test := range map[string]struct {
		document func(issuer string) string
		want     string
	}{
		"another issuer":     {func(u string) string { return names("https://login.test", u+"/keys") }, "is of another issuer"},
		"a slash":            {func(u string) string { return names(u+"/", u+"/keys") }, "with a slash at its end: write the issuer with it"},
		"another case":       {func(u string) string { return names(strings.Replace(u, "https", "HTTPS", 1), u+"/keys") }, "is of another issuer"},
		"of several tenants": {func(u string) string { return names(u+"/{tenant}", u+"/keys") }, "has a placeholder"},
		"no issuer":          {func(u string) string { return fmt.Sprintf(`{"jwks_uri":%q}`, u+"/keys") }, "has no issuer"},
		"issuer twice":       {func(u string) string { return fmt.Sprintf(`{"issuer":"x","issuer":%q,"jwks_uri":%q}`, u, u+"/keys") }, "is not a JSON object"},
		"issuer in capitals": {func(u string) string { return fmt.Sprintf(`{"Issuer":%q,"jwks_uri":%q}`, u, u+"/keys") }, "has no issuer"},
		"no keys":            {func(u string) string { return fmt.Sprintf(`{"issuer":%q}`, u) }, "has no jwks_uri: set jwks_url"},
		"keys on plain http": {func(u string) string { return names(u, strings.Replace(u, "https", "http", 1)+"/keys") }, "jwks_uri in the metadata of the issuer is plain http"},
		"keys in a file":     {func(u string) string { return names(u, "file:///etc/keys.json") }, "is not an https URL"},
		"a page":             {func(string) string { return "<!doctype html>" }, "is not a JSON object"},
		"null":               {func(string) string { return "null" }, "has no issuer"},
		"a document of 300 kB": {func(u string) string {
			return strings.TrimSuffix(names(u, u+"/keys"), "}") + `,"a":"` + strings.Repeat("a", 300<<10) + `"}`
		}, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMetadata(t)
			m.document(openID, test.document(m.URL))
			m.document("/keys", document(s.jwk()))
			w := m.of(t, m.URL)
			token := s.token(t, claims(map[string]any{"iss": m.URL}))
			err := refused(t, identity.ErrUnavailable, token)(w.bearer(token))
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(w.log.String(), test.want) {
				t.Errorf("%v; want %s; the log has %s", err, test.want, w.log)
			}
			if got := m.asked(); got != openID {
				t.Errorf("asked for %s", got)
			}
		})
	}
}

// threats.md 187: a redirect of the metadata is not followed.
func TestRedirectedMetadata(t *testing.T) {
	s := newSigner(t, "k", "ES256")
	m := newMetadata(t)
	elsewhere := newMetadata(t)
	elsewhere.document("/", names(m.URL, elsewhere.URL+"/keys"))
	elsewhere.document("/keys", document(s.jwk()))
	m.set(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) })
	w := m.of(t, m.URL)
	err := refused(t, identity.ErrUnavailable)(w.bearer(s.token(t, claims(map[string]any{"iss": m.URL}))))
	if got := elsewhere.asked(); got != "" || !strings.Contains(err.Error(), "answers with status 302, 200 is wanted") {
		t.Errorf("asked elsewhere for %q; %v", got, err)
	}
}

// An issuer that is down costs one attempt at a time, and the keys that were read before go on.
func TestMetadataOutage(t *testing.T) {
	s := newSigner(t, "k", "ES256")
	m := newMetadata(t)
	w := m.of(t, m.URL)
	token := s.token(t, claims(map[string]any{"iss": m.URL}))
	for range 5 {
		refused(t, identity.ErrUnavailable, token)(w.bearer(token))
	}
	if got := m.asked(); got != openID+" "+oauth {
		t.Errorf("asked for %s", got)
	}
	if log := w.log.String(); strings.Count(log, "the issuer has no metadata: neither "+m.URL+openID+" nor "+m.URL+oauth+" is there") != 1 {
		t.Errorf("the log has %s", log)
	}
	m.document(openID, names(m.URL, m.URL+"/keys"))
	m.document("/keys", document(s.jwk()))
	w.clock.Advance(time.Second)
	accepted(t, ann)(w.bearer(token))
	m.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	w.clock.Advance(10 * time.Minute)
	accepted(t, ann)(w.bearer(token))
	if !strings.Contains(w.log.String(), "answers with status 502") {
		t.Errorf("the log has %s", w.log)
	}
}
