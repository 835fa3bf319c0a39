//go:debug fips140=only

// Package fips tests Keywright where no other cryptography than that of FIPS 140-3 is allowed. `make fips` tests it with the module that Go
// has for that.
package fips

import (
	"context"
	"crypto/fips140"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/connectors/statestore"
)

var codeCache string

func TestMain(m *testing.M) { os.Exit(testworld.InSharedDir(&codeCache, m.Run)) }

type world struct {
	*testing.T
	api     *httptest.Server
	secrets host.MapSecrets
	// challenge is the algorithm of the API's challenge of HTTP Digest.
	challenge string
}

// serve returns an API and a token endpoint.
func serve(t *testing.T) *world {
	t.Helper()
	if !fips140.Enforced() {
		t.Fatal("other cryptography is allowed")
	}
	c := testworld.NewCanaries(t)
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	w := &world{T: t, challenge: "SHA-256", secrets: host.MapSecrets{
		"s": c.Secret("the secret"), "seed": c.Secret("the refresh token"), "rsa": c.Key(t, "rsa"), "ed": c.Key(t, "ed"), "jws": c.Key(t, "jws"),
		"state-key": base64.StdEncoding.EncodeToString(key), "short": "thirteen-byte",
	}}
	issued := c.Issued(time.Now)
	w.api = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/digest") && r.Header.Get("Authorization") == "":
			rw.Header().Set("WWW-Authenticate", `Digest realm="a", nonce="b", qop="auth", algorithm=`+w.challenge)
			rw.WriteHeader(http.StatusUnauthorized)
		case strings.HasPrefix(r.URL.Path, "/api"), strings.HasPrefix(r.URL.Path, "/digest"):
		default:
			response := testworld.Must(issued(r))(t)
			maps.Copy(rw.Header(), response.Header)
			_, _ = io.Copy(rw, response.Body)
		}
	}))
	t.Cleanup(w.api.Close)
	return w
}

type config = map[string]any

// load loads a file with connectors, and with members that stand before them.
func (w *world) load(members string, list []config, o connectors.Options) (*connectors.Set, error) {
	w.Helper()
	text := strings.ReplaceAll(members, "DIR", w.TempDir()) + "\nconnectors: " + string(testworld.Must(json.Marshal(list))(w))
	o.Host.Secrets, o.Host.Egress = w.secrets, host.Egress{AllowHTTP: true, AllowPrivate: true}
	o.Host.Logger, o.Host.CodeCache = slog.New(slog.DiscardHandler), codeCache
	o.OpenState = func(ctx context.Context, s *connectors.State, c *host.Config) error {
		store, err := statestore.Open(ctx, s, statestore.Options{})
		if err == nil {
			c.State = store.State
			w.Cleanup(func() { _ = store.Close(context.Background()) })
		}
		return err
	}
	set, err := connectors.Read(w.Context(), filepath.Join(w.TempDir(), "c.yaml"), []byte(text), o)
	if err == nil {
		w.Cleanup(func() { _ = set.Close(context.Background()) })
	}
	return set, err
}

// state is the member state of a file, whose store seals values.
const state = `state: {type: sqlite, path: DIR/state.db, keys: ["{{ get_secret('state-key') }}"]}`

// connector returns a connector with an auth type, and with changes of its configuration.
func (w *world) connector(authType string, changes config) config {
	all := maps.Clone(testworld.AuthTypes(w.api.URL + "/token")[authType])
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	path := "/api"
	if authType == "digest" {
		path = "/digest"
	}
	return config{"name": authType, "url": w.api.URL + path, "auth": config{"type": authType, "config": all}}
}

// Requests with each auth type are authenticated. One by consent begins with it.
func TestAuthTypes(t *testing.T) {
	w := serve(t)
	var list []config
	for _, authType := range slices.Sorted(maps.Keys(testworld.AuthTypes(w.api.URL))) {
		changes := config{}
		if authType == "oauth1" {
			changes["signature_method"] = "HMAC-SHA256"
		}
		list = append(list, w.connector(authType, changes))
	}
	set := testworld.Must(w.load(state, list, connectors.Options{ReadSecrets: true}))(t)
	for _, c := range set.Connectors {
		name, upstream := c.Definition().Permalink, c.Upstream()
		if upstream.NeedsConsent() {
			if _, err := upstream.BeginConsent(t.Context(), host.ConsentRequest{RedirectURI: "http://127.0.0.1/callback", Binding: "a binding of 24 letters."}); err != nil {
				t.Errorf("%s has no consent: %v", name, err)
			}
			continue
		}
		client := http.Client{Transport: upstream.Transport(nil)}
		response, err := client.Get(c.BaseURL().String())
		if err != nil {
			t.Errorf("%s fails: %v", name, err)
			continue
		}
		if _ = response.Body.Close(); response.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", name, response.StatusCode)
		}
	}
	if len(set.Connectors) != len(list) {
		t.Errorf("%d connectors of %d types", len(set.Connectors), len(list))
	}
}

// What is not allowed is a problem of its member in the file, or of a secret once that is read.
func TestRefusals(t *testing.T) {
	const hash, short = "is not allowed with fips140=only: SHA-256 and longer hashes are", "is shorter than 14 bytes, which is not allowed with fips140=only"
	w := serve(t)
	for name, c := range map[string]struct {
		authType      string
		changes       config
		path, problem string
	}{
		"default of OAuth 1.0": {"oauth1", nil, ".signature_method", "HMAC-SHA1 " + hash},
		"RSA with SHA-1": {
			"oauth1",
			config{"consumer_secret": nil, "token_secret": nil, "private_key": "{{ get_secret('rsa') }}", "signature_method": "RSA-SHA1"},
			".signature_method", "RSA-SHA1 " + hash,
		},
		"HMAC with SHA-1":      {"signature", config{"algorithm": "SHA-1"}, ".algorithm", "SHA-1 " + hash},
		"signature with SHA-1": {"signature", config{"secret": nil, "private_key": "{{ get_secret('rsa') }}", "algorithm": "RS1"}, ".algorithm", "RS1 " + hash},
		"short key of a JWT":   {"jwt", config{"private_key": "{{ get_secret('short') }}"}, "", "private_key: the key for HS256 " + short},
		"short secret":         {"signature", config{"secret": "{{ get_secret('short') }}"}, "", "{{ get_secret('short') }}: the key for HS256 " + short},
	} {
		t.Run(name, func(t *testing.T) {
			connector := w.connector(c.authType, c.changes)
			connector["name"] = "a"
			_, err := w.load("", []config{connector}, connectors.Options{ReadSecrets: true})
			wantProblem(t, err, "connectors.a.auth.config"+c.path, c.problem)
		})
	}
	none := w.connector("none", nil)
	_, err := w.load("secrets: [{type: age, file: DIR/a.age, identity: DIR/key}]", []config{none}, connectors.Options{})
	wantProblem(t, err, "secrets[0]", "age is not allowed with fips140=only: keep these secrets in a store of another type")
	none["url"], none["tls"] = "https://api.example.com", config{"pkcs12": "{{ get_secret('p12') }}"}
	_, err = w.load("", []config{none}, connectors.Options{})
	wantProblem(t, err, "connectors.none.tls.pkcs12", "is not allowed with fips140=only: write certificate and key, in PEM")
}

// wantProblem checks that the problems of a file are one, with this path and text.
func wantProblem(t *testing.T, err error, path, text string) {
	t.Helper()
	wrong, _ := errors.AsType[*connectors.Error](err)
	if wrong == nil || len(wrong.Problems) != 1 || wrong.Problems[0].Path != path || !strings.Contains(wrong.Problems[0].Message, text) {
		t.Errorf("the problems are %v, want %s: %s", err, path, text)
	}
}

// A server's challenge with MD5 is an error that says so.
func TestDigestMD5(t *testing.T) {
	w := serve(t)
	w.challenge = "MD5"
	set := testworld.Must(w.load("", []config{w.connector("digest", nil)}, connectors.Options{}))(t)
	request := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, w.api.URL+"/digest", nil))(t)
	response, err := set.Connectors[0].Upstream().Transport(nil).RoundTrip(request)
	if err == nil {
		_ = response.Body.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "md5 is not allowed with fips140=only") {
		t.Errorf("the error is %v", err)
	}
}

// A PostgreSQL server that asks for a password by MD5 is an error that says so.
func TestPostgresMD5(t *testing.T) {
	listener := testworld.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	go func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			_, _ = conn.Read(make([]byte, 1024))
			_, _ = conn.Write([]byte{'R', 0, 0, 0, 12, 0, 0, 0, 5, 's', 'a', 'l', 't'}) // AuthenticationMD5Password
		}
	}()
	w := serve(t)
	w.secrets["url"] = "postgres://u:password@" + listener.Addr().String() + "/d?sslmode=disable"
	_, err := w.load(`state: {type: postgres, url: "{{ get_secret('url') }}", keys: ["{{ get_secret('state-key') }}"]}`, []config{w.connector("none", nil)}, connectors.Options{})
	if err == nil || !strings.Contains(err.Error(), "md5") {
		t.Errorf("the error is %v", err)
	}
}
