package identity_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// The list of keys has the time at which each key was first read. A key with another ID, algorithm or value is another key.
func TestWhenKeysWereFirstRead(t *testing.T) {
	same, replaced, renamed, narrowed := newSigner(t, "same", "ES256"), newSigner(t, "replaced", "ES256"), newSigner(t, "old", "ES256"), newSigner(t, "narrowed", "ES256")
	e := newEndpoint(t, replaced.jwk(), renamed.jwk(), narrowed.jwk(), same.jwk())
	w := e.session(t)
	accepted(t, ann)(w.bearer(same.token(t, claims())))
	e.publish(newSigner(t, "replaced", "ES256").jwk(), renamed.jwk(map[string]any{"kid": "new"}), narrowed.jwk(map[string]any{"alg": "ES256"}), same.jwk())
	w.clock.Advance(10 * time.Minute)
	accepted(t, ann)(w.bearer(same.token(t, claims())))
	first := map[string]time.Duration{}
	for _, k := range w.Keys().List {
		first[k.ID] = k.First.Sub(start)
	}
	if len(first) != 4 || first["same"] != 0 || first["replaced"] != 10*time.Minute || first["new"] != 10*time.Minute || first["narrowed"] != 10*time.Minute {
		t.Errorf("the keys were first read after %v", first)
	}
}

// The error says what is wrong with the answer to a request for the keys.
func TestAnswerErrors(t *testing.T) {
	s := newSigner(t, "k1", "ES256")
	for name, test := range map[string]struct {
		status int
		text   string
		want   string
	}{
		"a status":              {http.StatusServiceUnavailable, document(s.jwk()), "answers with status 503, 200 is wanted"},
		"metadata of an issuer": {http.StatusOK, `{"issuer": "https://login.test", "jwks_uri": "https://login.test/keys"}`, "the metadata of an issuer: remove jwks_url"},
		"another object":        {http.StatusOK, `{}`, "it has no member keys"},
		"keys, and a URL":       {http.StatusOK, strings.Replace(document(s.jwk()), "{", `{"jwks_uri": "https://login.test/keys", `, 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEndpoint(t)
			e.set(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.text))
			})
			err := e.session(t).Ready(t.Context())
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
