package secretstore_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/secretstore"
)

// An exchangeFunc is a transport that answers by itself.
type exchangeFunc func(*http.Request) (int, string)

func (f exchangeFunc) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := f(r)
	if status == 0 {
		return nil, errors.New("no route to " + r.URL.String())
	}
	w := httptest.NewRecorder()
	w.WriteHeader(status)
	_, _ = w.WriteString(body)
	return w.Result(), nil
}

// A lookup is not that of the user of the first caller, since all callers get its answer.
func TestLookupsHaveNoUser(t *testing.T) {
	store := secretstore.Connector(secretstore.ConnectorConfig{
		Service: secretstore.Service{URL: "https://store.test", Timeout: time.Minute, Transport: exchangeFunc(func(r *http.Request) (int, string) {
			if u, _ := host.UserFrom(r.Context()); u != (host.User{}) {
				t.Errorf("the request is that of the user %s of the tenant %s", u.ID, u.TenantID)
			}
			return http.StatusOK, `{"v":"x"}`
		})},
		Read: secretstore.Request{From: "json:/v"},
	})
	if _, err := store.Secret(host.WithUser(t.Context(), host.User{ID: "ann", TenantID: "acme"}), "orders"); err != nil {
		t.Error(err)
	}
}

// An answer has the secret, or means that there is none, or that the store cannot answer now. Errors have nothing of it.
func TestConnectorAnswers(t *testing.T) {
	const canary = "c4n4ry-0f-the-store"
	read := func(from, encoding string, missing ...string) secretstore.Request {
		return secretstore.Request{Path: "/{name}", From: "json:" + from, Encoding: encoding, Missing: missing}
	}
	for _, c := range []struct {
		name   string
		read   secretstore.Request
		status int
		answer string
		want   string // the value, or a part of the error
		absent bool
	}{
		{"a value", read("/a/b", ""), 200, `{"a":{"b":"` + canary + `"}}`, canary, false},
		{"a member with a slash", read("/a~1b", ""), 200, `{"a/b":"` + canary + `"}`, canary, false},
		{"an item of a list", read("/1", ""), 200, `["no","` + canary + `"]`, canary, false},
		{"an item by a member", read("/f/[label=key]/value", ""), 200, `{"f":[1,{"label":"id","value":"no"},{"label":"key","value":"` + canary + `"}]}`, canary, false},
		{"no such item", read("/f/[label=other]/value", ""), 200, `{"f":[{"label":"key","value":"` + canary + `"}]}`, "has none", true},
		{"all of it", secretstore.Request{Path: "/{name}", From: "text:"}, 200, canary + "\n", canary, false},
		{"nothing", secretstore.Request{Path: "/{name}", From: "text:"}, 200, "\n", "is empty", false},
		{"Base64", read("/v", "base64"), 200, `{"v":"YzRuNHJ5LTBmLXRoZS1zdG9yZQ=="}`, canary, false},
		{"text in place of Base64", read("/v", "base64"), 200, `{"v":"` + canary + `!"}`, "no Base64", false},
		{"no value", read("/v", ""), 200, `{"w":"` + canary + `"}`, "has none of that name", true},
		{"null", read("/v", ""), 200, `{"v":null}`, "has none", true},
		{"a number", read("/v", ""), 200, `{"v":7}`, "has none", true},
		{"a page", read("/v", ""), 200, `<html>` + canary, "is empty, or no JSON", false},
		{"404 that means none", read("/v", "", "404"), 404, canary, "has none", true},
		{"404 that means nothing", read("/v", ""), 404, canary, "status 404", false},
		{"a code of AWS", read("/v", "", "NotFound"), 400, `{"__type":"com.amazonaws#NotFound","message":"` + canary + `"}`, "has none", true},
		{"a code", read("/v", "", "NotFound"), 400, `{"code":"NotFound"}`, "has none", true},
		{"another code", read("/v", "", "NotFound"), 400, `{"__type":"Throttled","message":"` + canary + `"}`, "status 400", false},
		{"a code in an answer that is good", read("/v", "", "NotFound"), 200, `{"code":"NotFound","v":"` + canary + `"}`, canary, false},
		{"a redirect", read("/v", ""), 302, canary, "status 302", false},
		{"an error of the server", read("/v", ""), 503, canary, "status 503", false},
		{"a long answer", read("/v", ""), 200, strings.Repeat(canary, 200_000), "more than 2097152 bytes", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := secretstore.Connector(secretstore.ConnectorConfig{
				Service: secretstore.Service{
					URL: "https://store.test/base/", Timeout: time.Minute, Transport: exchangeFunc(func(*http.Request) (int, string) { return c.status, c.answer }),
				},
				Read: c.read,
			})
			got, err := store.Secret(t.Context(), "orders")
			if c.want == canary {
				if err != nil || got != canary {
					t.Errorf("the secret is %q, error %v", got, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, host.ErrSecretNotFound) != c.absent || strings.Contains(err.Error(), canary) {
				t.Errorf("the error is %v, want %q in it, and the secret absent: %t", err, c.want, c.absent)
			}
		})
	}
}

// A request has the name in each of its places, escaped for that place, and the value of the first request.
func TestConnectorRequests(t *testing.T) {
	var requests []string
	config := secretstore.ConnectorConfig{
		Service: secretstore.Service{URL: "https://store.test/base/", Timeout: time.Minute}, Names: map[string]string{"orders": `a "b"/c&d`},
		First: &secretstore.Request{Path: "/find", Query: []secretstore.RequestMember{{Name: "q", Value: `title eq "{name}"`}}, From: "json:/id"},
		Read: secretstore.Request{
			Path: "/items/{first}/{name}", Headers: []secretstore.RequestMember{{Name: "X-Name", Value: "{first}"}}, Body: `{"Name":"{name}"}`, From: "json:/v",
		},
	}
	config.Transport = exchangeFunc(func(r *http.Request) (int, string) {
		body := ""
		if r.Body != nil {
			text, _ := io.ReadAll(r.Body)
			body = string(text)
		}
		requests = append(requests, strings.Join([]string{r.Method, r.URL.String(), r.Header.Get("X-Name"), body}, " "))
		return 200, `{"id":"i/1","v":"value"}`
	})
	if got, err := secretstore.Connector(config).Secret(t.Context(), "orders"); got != "value" || err != nil {
		t.Errorf("the secret is %q, error %v", got, err)
	}
	want := []string{
		"GET https://store.test/base/find?q=title+eq+%22a+%22b%22%2Fc%26d%22  ",
		`POST https://store.test/base/items/i%2F1/a%20%22b%22%2Fc&d i/1 {"Name":"a \"b\"/c&d"}`,
	}
	if strings.Join(requests, "\n") != strings.Join(want, "\n") {
		t.Errorf("sent\n%s\nwant\n%s", strings.Join(requests, "\n"), strings.Join(want, "\n"))
	}
	requests = nil
	for _, name := range []string{"", "a/../b", "a b", "{first}"} {
		if _, err := secretstore.Connector(config).Secret(t.Context(), name); !errors.Is(err, host.ErrSecretNotFound) || requests != nil {
			t.Errorf("the error of %q is %v, and %d requests were sent; want no such secret, and none", name, err, len(requests))
		}
	}
}

// An error of the connection has no URL, and the end of the caller's patience or of the store's time is the error.
func TestConnectorFailures(t *testing.T) {
	config := secretstore.ConnectorConfig{Service: secretstore.Service{URL: "https://store.test", Timeout: time.Minute}, Read: secretstore.Request{Path: "/{name}", From: "json:/v"}}
	config.Transport = exchangeFunc(func(*http.Request) (int, string) { return 0, "" })
	if _, err := secretstore.Connector(config).Secret(t.Context(), "orders"); err == nil || !strings.HasPrefix(err.Error(), "the store cannot be asked: no route") {
		t.Errorf("the error is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := secretstore.Connector(config).Secret(ctx, "orders"); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v, want that of the caller", err)
	}
	config.Timeout = -1
	if _, err := secretstore.Connector(config).Secret(t.Context(), "orders"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v, want the end of the store's time", err)
	}
}

// What cannot be a request is found before it is sent.
func TestRequestCheck(t *testing.T) {
	for _, c := range []struct {
		request secretstore.Request
		want    string
	}{
		{secretstore.Request{Path: "/a", From: "json:/b", Encoding: "base64"}, ""},
		{secretstore.Request{Path: "a", From: "json:/b"}, "path"},
		{secretstore.Request{From: "b"}, "from"},
		{secretstore.Request{From: "json:/~2"}, "from"},
		{secretstore.Request{From: "json:/b", Encoding: "hex"}, "encoding"},
	} {
		if member, wrong := c.request.Check(); member != c.want || (wrong == "") != (c.want == "") {
			t.Errorf("the check of %+v reports %q %q, want one of %q", c.request, member, wrong, c.want)
		}
	}
}
