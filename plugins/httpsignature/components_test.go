package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

// Each component has the value that the API derives from the request that it receives, RFC 9421 sections 2.1 and 2.2
// (specification.md 3.36).
func TestComponents(t *testing.T) {
	const parameters = "https://www.example.com/parameters?var=this%20is%20a%20big%0Amultiline%20value&bar=with+plus+whitespace&fa%C3%A7ade%22%3A%20=something"
	for _, test := range []struct{ name, component, target, want string }{
		{"method", "@method", "https://www.example.com/", `"@method": POST`},
		{"target URI", "@target-uri", "https://www.example.com/path?param=value", `"@target-uri": https://www.example.com/path?param=value`},
		{"target URI without a path", "@target-uri", "https://www.example.com?a", `"@target-uri": https://www.example.com/?a`},
		{"target URI with a fragment", "@target-uri", "https://www.example.com/a#b?c", `"@target-uri": https://www.example.com/a`},
		{"target URI in other cases", "@target-uri", "https://WWW.example.com:443/A", `"@target-uri": https://www.example.com/A`},
		{"authority", "@authority", "https://www.example.com/path", `"@authority": www.example.com`},
		{"authority in other cases", "@authority", "https://WWW.Example.com:443/", `"@authority": www.example.com`},
		{"authority with a port", "@authority", "https://www.example.com:8443", `"@authority": www.example.com:8443`},
		{"authority that is an address", "@authority", "https://[2001:DB8::1]:443/", `"@authority": [2001:db8::1]`},
		{"scheme", "@scheme", "https://www.example.com/", `"@scheme": https`},
		{"request target", "@request-target", "https://www.example.com/path?param=value", `"@request-target": /path?param=value`},
		{"request target without a path", "@request-target", "https://www.example.com", `"@request-target": /`},
		{"path", "@path", "https://www.example.com/path?param=value", `"@path": /path`},
		{"path that is encoded", "@path", "https://www.example.com/%7Ea/%2f%20;x=1", `"@path": /%7Ea/%2f%20;x=1`},
		{"path of none", "@path", "https://www.example.com?a", `"@path": /`},
		{"query", "@query", "https://www.example.com/path?param=value&foo=bar&baz=bat%2Dman", `"@query": ?param=value&foo=bar&baz=bat%2Dman`},
		{"query without a value", "@query", "https://www.example.com/path?queryString", `"@query": ?queryString`},
		{"query that is empty", "@query", "https://www.example.com/path?", `"@query": ?`},
		{"query of none", "@query", "https://www.example.com/path", `"@query": ?`},
		{"query parameter", "@query-param;name=qux", "https://www.example.com/p?param=value&qux=", `"@query-param";name="qux": `},
		{"query parameter with a line break", "@query-param;name=var", parameters, `"@query-param";name="var": this%20is%20a%20big%0Amultiline%20value`},
		{"query parameter with a plus", `"@query-param";name="bar"`, parameters, `"@query-param";name="bar": with%20plus%20whitespace`},
		{"query parameter with a name that is encoded", "@query-param;name=fa%C3%A7ade%22%3A%20", parameters, `"@query-param";name="fa%C3%A7ade%22%3A%20": something`},
		{"query parameter with a name that is not", "@query-param;name=façade%22:%20", parameters, `"@query-param";name="fa%C3%A7ade%22%3A%20": something`},
		{"query parameter with all kinds", "@query-param;name=a", "https://www.example.com/?a=*-._~!'()%2a%7e%2&b", `"@query-param";name="a": *-._%7E%21%27%28%29*%7E%252`},
		{"header", "x-one", "https://www.example.com/", `"x-one": 1`},
		{"header in other cases", "X-ONE", "https://www.example.com/", `"x-one": 1`},
		{"header with several values", "cache-control", "https://www.example.com/", `"cache-control": max-age=60, must-revalidate`},
		{"header that is empty", "x-empty", "https://www.example.com/", `"x-empty": `},
		{"header with an equals sign", "x-equals", "https://www.example.com/", `"x-equals": =a=b`},
		{"length of the body", "content-length", "https://www.example.com/", `"content-length": 5`},
	} {
		run.Case(t, test.name, func(t *testing.T, h *hosttest.Harness) {
			key := h.Key("key", "HS256")
			r := hosttest.POST(test.target, "hello")
			r.Header = http.Header{"X-One": {" 1\t"}, "Cache-Control": {"max-age=60", "  must-revalidate"}, "X-Empty": {""}, "X-Equals": {"=a=b"}}
			got := h.Authenticate(config("hmac-sha256", "components", test.component), r)
			base, signature := signed(t, got.Request, "sig1", test.want)
			if identifier, _, _ := strings.Cut(test.want, ": "); !strings.Contains(base, "("+identifier+");created=") {
				t.Errorf("Signature-Input: %s", got.Header("Signature-Input"))
			}
			verify(t, "hmac-sha256", key, base, signature)
		})
	}
}

// The components are signed in the order of the list, which may be written as in Signature-Input or over several lines.
func TestListOfComponents(t *testing.T) {
	for _, list := range []string{
		"@path @method x-one", `"@path" "@method" "x-one"`, `("@path" "@method" "x-one")`, "  @path\n@method \n\n x-one\n", "( @path @method x-one )",
	} {
		run(t, func(t *testing.T, h *hosttest.Harness) {
			key := h.Key("key", "HS256")
			r := hosttest.GET("https://api.test/v1")
			r.Header.Set("X-One", "1")
			got := h.Authenticate(config("hmac-sha256", "components", list), r)
			base, signature := signed(t, got.Request, "sig1", `"@path": /v1`, `"@method": GET`, `"x-one": 1`)
			verify(t, "hmac-sha256", key, base, signature)
		})
	}
}

// Several query parameters are signed, each as a component of its own.
func TestSeveralQueryParameters(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		key := h.Key("key", "HS256")
		got := h.Authenticate(config("hmac-sha256", "components", "@query-param;name=b @query-param;name=a"), hosttest.GET("https://api.test/?a=1&b=2"))
		base, signature := signed(t, got.Request, "sig1", `"@query-param";name="b": 2`, `"@query-param";name="a": 1`)
		verify(t, "hmac-sha256", key, base, signature)
	})
}

// A POST without a body is signed with a Content-Length of 0, as net/http sends it. A GET is sent without one.
func TestContentLength(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		key := h.Key("key", "HS256")
		c := config("hmac-sha256", "components", "content-length")
		got := h.Authenticate(c, hosttest.POST("https://api.test/", ""))
		base, signature := signed(t, got.Request, "sig1", `"content-length": 0`)
		verify(t, "hmac-sha256", key, base, signature)
		streamed := hosttest.POST("https://api.test/", "x")
		streamed.Body, streamed.ContentLength = io.NopCloser(strings.NewReader("x")), -1
		stated := hosttest.GET("https://api.test/")
		stated.Header.Set("Content-Length", "7") // net/http does not send it
		for _, r := range []*http.Request{hosttest.GET("https://api.test/"), stated, streamed} {
			plugintest.Refuses(t, h, c, r, host.StagePlugin, "has no {header:content-length}")
		}
	})
}

// A request that lacks a component fails before anything is sent, and the error names the component (specification.md 3.36).
func TestMissingComponents(t *testing.T) {
	for _, test := range []struct{ name, components, target, text string }{
		{"header", "@method x-two", "https://api.test/", "has no {header:x-two}"},
		{"no query", "@query-param;name=a", "https://api.test/", "has no {query_param:a}"},
		{"other query", "@query-param;name=a", "https://api.test/?A=1&b=a", "has no {query_param:a}"},
		{"parameter that is there twice", "@query-param;name=a", "https://api.test/?a=1&%61=2", "a more than once"},
		{"header that plugins do not see", "authorization", "https://api.test/", "which plugins do not see"},
		{"cookie that plugins do not see", "cookie", "https://api.test/", "which plugins do not see"},
		{"Signature-Agent that is not configured", "signature-agent;key=x", "https://api.test/", "needs the field signature_agent"},
	} {
		run.Case(t, test.name, func(t *testing.T, h *hosttest.Harness) {
			h.Key("key", "HS256")
			plugintest.Refuses(t, h, config("hmac-sha256", "components", test.components), hosttest.GET(test.target), host.StagePlugin, test.text)
		})
	}
}

// Web Bot Auth signs Signature-Agent, a string or a member of a dictionary, under the thumbprint of the key
// (specification.md "keyid unless given").
func TestWebBotAuth(t *testing.T) {
	for _, test := range []struct{ component, header, line string }{
		{"signature-agent", `"https://bot.example"`, `"signature-agent": "https://bot.example"`},
		{`"signature-agent";key="agent2"`, `agent2="https://bot.example"`, `"signature-agent";key="agent2": "https://bot.example"`},
	} {
		run(t, func(t *testing.T, h *hosttest.Harness) {
			key := h.Key("key", "EdDSA")
			r := hosttest.GET("https://api.test/v1")
			r.Header.Set("Signature-Agent", "of the caller")
			got := h.Authenticate(config("ed25519", "components", "@authority "+test.component,
				"signature_agent", "https://bot.example", "tag", "web-bot-auth", "expires_seconds", 60, "nonce", "random"), r)
			if values := got.Request.Header.Values("Signature-Agent"); len(values) != 1 || values[0] != test.header {
				t.Errorf("Signature-Agent: %q", values)
			}
			base, signature := signed(t, got.Request, "sig1", `"@authority": api.test`, test.line)
			verify(t, "ed25519", key, base, signature)
		})
	}
}

// A Signature that the request has is replaced: it may be anybody's (specification.md "a signature that the request has").
func TestSignatureOfTheCaller(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "HS256")
		r := hosttest.GET("https://api.test/")
		r.Header = http.Header{"Signature": {"a=:AA==:"}, "signature-input": {"a=()"}}
		got := h.Authenticate(config("hmac-sha256", "components", "@method", "keyid", "k"), r)
		if len(got.Request.Header) != 2 || !strings.HasPrefix(got.Header("Signature-Input"), "sig1=") || len(got.Request.Header["Signature"]) != 1 {
			t.Errorf("headers: %v", got.Request.Header)
		}
	})
}

// A literal that no signature could have is refused when the configuration is loaded.
func TestProblems(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "EdDSA")
		for _, test := range []struct {
			path, text string
			fields     []any
		}{
			{"components", "names nothing", []any{"components", "  \n"}},
			{"components", "@status, which is not a component of a request", []any{"components", "@method @status"}},
			{"components", "@signature-params, which is not", []any{"components", "@signature-params"}},
			{"components", "@query-param, which needs the name", []any{"components", "@query-param"}},
			{"components", "which needs the name", []any{"components", `"@query-param";name=""`}},
			{"components", "x-a;sf, which has a parameter", []any{"components", "x-a;sf"}},
			{"components", "@method;req, which has a parameter", []any{"components", "@method;req"}},
			{"components", `"x-a";key="b", which has a parameter`, []any{"components", `"x-a";key="b"`}},
			{"components", "x-a;bs, which has a parameter", []any{"components", "x-a;bs"}},
			{"components", "signature-agent;key=A, which has a parameter", []any{"components", "signature-agent;key=A"}},
			{"components", "@path, which is there twice", []any{"components", "@path @method @path"}},
			{"components", "which is there twice", []any{"components", "@query-param;name=a @query-param;name=b @query-param;name=%61"}},
			{"components", "signature-agent;key=a, which is there twice", []any{"components", "signature-agent signature-agent;key=a"}},
			{"components", "@authority", []any{"components", "Host"}},
			{"components", "may change", []any{"components", "signature"}},
			{"components", "only the HTTP client", []any{"components", "transfer-encoding"}},
			{"components", "not the name of a header", []any{"components", "a:b"}},
			{"components", "is empty", []any{"components", `""`}},
			{"signature_agent", "must be signed", []any{"signature_agent", "https://bot.example"}},
			{"label", "lower-case letters", []any{"label", "Sig1"}},
			{"label", "lower-case letters", []any{"label", ""}},
			{"label", "lower-case letters", []any{"label", "1a"}},
			{"algorithm", "none of", []any{"algorithm", "EdDSA"}},
			{"content_digest", "none of", []any{"content_digest", "md5"}},
			{"expires_seconds", "less than 1", []any{"expires_seconds", 0}},
			{"keyid", "not printable ASCII", []any{"keyid", "bücher"}},
			{"nonce", "not printable ASCII", []any{"nonce", "a\n"}},
			{"tag", "not printable ASCII", []any{"tag", "\x7f"}},
			{"signature_agent", "not printable ASCII", []any{"components", "signature-agent", "signature_agent", "https://bücher.example"}},
		} {
			plugintest.Problem(t, h, config("ed25519", test.fields...), test.path+": "+test.text)
		}
		plugintest.Problems(t, h, hosttest.Config{}, "private_key algorithm")
		plugintest.Problems(t, h, config("{{ user.id }}", "components", "{{ user.id }}", "label", "{{ user.id }}", "signature_agent", "{{ user.id }}"), "")
	})
}

// What only a request shows to be wrong is an error of that request, which says what to do.
func TestRefusedRequests(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "EdDSA")
		h.Secret("umlaut", "bücher-and-more")
		h.As(host.User{ID: "x-a;sf", Username: "bücher", FirstName: "\n"})
		for _, test := range []struct {
			text   string
			fields []any
		}{
			{"components has x-a;sf", []any{"components", "{{ user.id }}"}},
			{"components names nothing", []any{"components", "{{ user.first_name }}"}},
			{"signature_agent must be signed", []any{"components", "{{ '@method' }}", "signature_agent", "https://bot.example"}},
			{"signature_agent has a character", []any{"components", "signature-agent", "signature_agent", "https://{{ user.username }}"}},
			{"keyid has a character", []any{"keyid", "{{ user.username }}"}},
			{"nonce has a character", []any{"nonce", "a{{ user.first_name }}"}},
			{"tag has a character", []any{"tag", "a{{ user.first_name }}"}},
			{"tag has a character", []any{"tag", "a{{ get_secret('umlaut') }}"}},
			{"label may have lower-case letters", []any{"label", "{{ user.username }}"}},
			{"algorithm is none of", []any{"algorithm", "{{ user.id }}"}},
		} {
			plugintest.Refuses(t, h, config("ed25519", test.fields...), hosttest.GET("https://api.test/"), "", test.text)
		}
	})
}
