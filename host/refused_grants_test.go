package host_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// If a plugin makes two token requests in a call, the first may get a remembered refusal without a request to the
// endpoint, and the second is sent.
func TestTwoGrantsInOneCall_threats_62(t *testing.T) {
	for name, cached := range map[string]bool{"the first of the configuration": false, "the first of the cache": true} {
		t.Run(name, func(t *testing.T) {
			w := misusedWorld(t, func(env contract.Env) (string, error) {
				refresh := value(env, "to_token")
				if cached {
					var found bool
					if refresh, found = env.CacheGet("refresh"); !found {
						refresh = value(env, "to_token")
						env.CacheSet("refresh", refresh, 60)
					}
				}
				var reply contract.TokenReply
				for _, form := range [][]abi.Pair{{{Name: "grant_type", Value: "refresh_token"}, {Name: "refresh_token", Value: refresh}}, {{Name: "grant_type", Value: "client_credentials"}}} {
					reply = contract.TokenReply{}
					if err := json.Unmarshal(env.TokenRequest([]byte(marshal(contract.TokenRequest{URL: value(env, "url"), Form: form}))), &reply); err != nil {
						return "", err
					}
					if reply.Status == http.StatusOK {
						return header("Authorization", "Bearer "+reply.AccessToken), nil
					}
				}
				return "", errors.New("no token")
			})
			var grants []string
			w.login.Answer(func(r *http.Request) (*http.Response, error) {
				_ = r.ParseForm()
				grants = append(grants, r.Form.Get("grant_type"))
				if grants[len(grants)-1] == "refresh_token" {
					return respond(http.StatusBadRequest, `{"error":"invalid_grant"}`)(r)
				}
				return token("t1", 3600)(r)
			})
			c := w.connect("custom", misused)
			for range 3 {
				w.get(c)
			}
			want := []string{"refresh_token", "client_credentials", "client_credentials", "client_credentials"}
			if cached { // the second call finds an entry that the first one did not
				want = slices.Insert(want, 2, "refresh_token")
			}
			if !slices.Equal(grants, want) {
				t.Errorf("the endpoint was asked %q", grants)
			}
		})
	}
}

// A refusal counts only for the same token request: with another URL, or with another entry of its cache, the plugin's
// request is sent at once.
func TestRefusalPerTokenRequest_threats_63(t *testing.T) {
	renew, url := false, "url"
	g := &guest{about: abi.Description{Uses: contract.Groups, Fields: []abi.Field{
		sealedField("to_token", abi.SinkToken),
		{Name: "url", Kind: abi.KindURL, Sinks: []string{abi.SinkToken}},
		{Name: "url2", Kind: abi.KindURL, Sinks: []string{abi.SinkToken}},
	}}, authenticate: func(env contract.Env) (string, error) {
		refresh, found := "", false
		if !renew {
			refresh, found = env.CacheGet("refresh")
		}
		if !found {
			env.CacheSet("refresh", value(env, "to_token"), 60)
			refresh, _ = env.CacheGet("refresh")
			renew = false
		}
		env.TokenRequest([]byte(marshal(contract.TokenRequest{URL: value(env, url), Form: []abi.Pair{{Name: "refresh_token", Value: refresh}}})))
		return "", errors.New("no token")
	}}
	w := newWorld(t, withoutBuiltIns, withGuest(g))
	w.canary("s")
	w.login.Answer(wrongSecret)
	c := w.connect("custom", config{"to_token": "{{ get_secret('s') }}", "url": tokenURL, "url2": tokenURL + "2"})
	for i, change := range []func(){func() {}, func() { url = "url2" }, func() { renew = true }} {
		change()
		for range 3 {
			w.refusedFor(t.Context(), c)
		}
		if n := w.login.Count(); n != i+1 {
			t.Errorf("after %d changes there are %d exchanges", i, n)
		}
	}
}

// Refusals of many users at the same time do not flood the log.
func TestRefusalLogPerUser_threats_62(t *testing.T) {
	w := newWorld(t)
	w.canary("s")
	w.login.Answer(wrongSecret)
	c := w.connect("oauth_client_credentials", with(oauth("{{ get_secret('s') }}"), "client_id", "{{ user.id }}"))
	for i := range 100 {
		w.refusedFor(host.WithUser(t.Context(), host.User{ID: fmt.Sprint(i)}), c)
		w.Advance(20 * time.Millisecond)
	}
	if n := w.logged("it is asked again"); n != 3 {
		t.Errorf("%d log lines in two seconds", n)
	}
}
