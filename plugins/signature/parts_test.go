package main

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
)

// exchange returns a configuration for Kraken, whose number is in the form, and whose signature covers a digest of number and form.
func exchange(pairs ...any) hosttest.Config {
	return config("{path}{inner|sha256}", append([]any{
		"secret_encoding", "base64", "algorithm", "SHA-512", "encoding", "base64", "key", "API-Sign", "value", "{signature}",
		"form",
		map[string]any{"nonce": "{counter}"},
		"parts",
		map[string]any{"inner": "{counter}{body}"},
		"headers",
		map[string]any{"API-Key": "k"},
	}, pairs...)...)
}

const exchangeKey = "kQH5HW/8p1uGOVjbgWA7FunAmGO8lsSUXNsu3eow76sz84Q18fWxnyRzBHCd3pd5nE9qa99HAZtuZuj6F1huXg=="

// The example of https://docs.kraken.com/api/docs/guides/spot-rest-auth has this signature.
func TestExampleOfKraken(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("key", exchangeKey)
		setTime(h, 1616492376594)
		got := h.Authenticate(exchange("form", map[string]any{
			"nonce": "{counter}", "ordertype": "limit", "pair": "XBTUSD", "price": "37500", "type": "buy", "volume": "1.25",
		}), hosttest.POST("https://api.kraken.com/0/private/AddOrder", ""))
		if want := "4/dpxb3iT4tp/ZCVEwSnEsLxx0bqyhLpdfOpc6fn7OR8+UClSV5n9E6aSS8MPtnRfp32bAb0nmbRn6H8ndwLUQ=="; got.Header("API-Sign") != want || got.Header("API-Key") != "k" {
			t.Errorf("the headers are %v", got.Request.Header)
		}
	})
}

// The number rises although the clock stands still, and the signature covers the body as it is sent, with what is added to it.
// specification.md 3.50, "how a rising number begins"
func TestNumberInForm(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("key", exchangeKey)
		setTime(h, 1616492376594)
		key, _ := base64.StdEncoding.DecodeString(exchangeKey)
		for i, number := range []string{"1616492376594", "1616492376596", "1616492376598", "1616492376600"} {
			r := hosttest.POST("https://api.kraken.com/0/private/AddOrder?a=b", []string{"", "pair=X%2BBT&", "pair=XBTUSD", "pair=XBTUSD"}[i])
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if i >= 2 { // its length is not known until it is read
				r.GetBody, r.ContentLength = nil, -1
			}
			if i == 3 { // and it is sent without one
				r.Trailer = http.Header{"X-Sum": nil}
			}
			got := h.Authenticate(exchange(), r)
			body := []string{"", "pair=X%2BBT&&", "pair=XBTUSD&", "pair=XBTUSD&"}[i] + "nonce=" + number
			text, err := io.ReadAll(got.Request.Body)
			inner := sha256.Sum256([]byte(number + body))
			want := base64.StdEncoding.EncodeToString(mac(sha512.New, string(key), "/0/private/AddOrder"+string(inner[:])))
			if err != nil || string(text) != body || got.Header("API-Sign") != want {
				t.Errorf("the body %s, the signature %s, want %s and %s, %v", text, got.Header("API-Sign"), body, want, err)
			}
		}
	})
}

// A caller can neither set the number nor send another kind of body.
func TestNumberOfACaller(t *testing.T) {
	for kind, body := range map[string]string{"application/x-www-form-urlencoded": "pair=X&non%63e=1", "application/json": `{"nonce":1}`} {
		run.Case(t, kind, func(t *testing.T, h *hosttest.Harness) {
			h.Secret("key", exchangeKey)
			r := hosttest.POST("https://api.kraken.com/0/private/AddOrder", body)
			r.Header.Set("Content-Type", kind)
			if err := h.AuthenticateError(exchange(), r); !strings.Contains(err.Error(), "form") {
				t.Error(err)
			}
		})
	}
}

// A part may use those before it, other fields may use parts, and signed texts are signed with the same key.
func TestPartsAndSignedTexts(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		key, pass := h.Canary("key"), h.Canary("pass")
		got := h.Authenticate(config("{b}-{counter}", "algorithm", "SHA-256",
			"parts", map[string]any{"b": "{a|upper}.{a}", "a": "{method}{query_param:x}"},
			"signed", map[string]any{"pass": "{{ get_secret('pass') }}", "part": "{a}"},
			"headers", map[string]any{"X-Pass": "{pass}", "X-Part": "v1={part},{b}", "X-Number": "{counter}"}, "query", map[string]any{"p": "{pass}"},
		), hosttest.GET("https://api.test/?x=y"))
		number := got.Header("X-Number")
		wantSigned(t, got, key, "GETY.GETy-"+number)
		for name, want := range map[string]string{"X-Pass": pass, "X-Part": "GETy"} {
			text := got.Header(name)
			if name == "X-Part" {
				text = strings.TrimSuffix(strings.TrimPrefix(text, "v1="), ",GETY.GETy")
			} else if got.Query().Get("p") != text {
				t.Errorf("the query is %v", got.Query())
			}
			signed := hosttest.Result{Request: &http.Request{Header: http.Header{"X-Signature": {text}}}}
			wantSigned(t, &signed, key, want)
		}
	})
}

// A part with a secret can be signed and hashed, and not be sent.
func TestSecretsInParts(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		key, pass := h.Canary("key"), h.Canary("pass")
		parts := map[string]any{"pass": "{{ get_secret('pass') }}"}
		wantSigned(t, h.Authenticate(config("{pass}:{method}", "parts", parts), hosttest.GET("https://api.test/")), key, pass+":GET")
		err := h.AuthenticateError(config("{method}", "parts", parts, "headers", map[string]any{"X-Pass": "{pass}"}), hosttest.GET("https://api.test/"))
		if err.Stage != host.StagePlugin && err.Stage != host.StageMutation {
			t.Error(err)
		}
		got := h.Authenticate(config("{method}", "parts", parts, "headers", map[string]any{"X-Pass": "{pass|sha256|hex}"}), hosttest.GET("https://api.test/"))
		if len(got.Header("X-Pass")) != 64 {
			t.Errorf("the headers are %v", got.Request.Header)
		}
	})
}

// A template can use only what there is before it.
func TestProblemsOfParts(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("key", "k")
		for _, test := range []struct {
			fields hosttest.Config
			path   string
		}{
			{config("{b}", "parts", map[string]any{"a": "{b}", "b": "x"}), "auth.config.parts.a"},
			{config("{s}", "signed", map[string]any{"s": "x"}), "auth.config.message"},
			{config("x", "form", map[string]any{"a": "{p}"}, "parts", map[string]any{"p": "x"}), "auth.config.form.a"},
			{config("x", "parts", map[string]any{"p": []any{"x"}}), "auth.config.parts"},
		} {
			problems := h.Problems(test.fields)
			if len(problems) != 1 || problems[0].Path != test.path {
				t.Errorf("%v: %v, want one at %s", test.fields, problems, test.path)
			}
		}
	})
}
