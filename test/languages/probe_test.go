package languages

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/keywright/keywright/host/hosttest"
)

// The SDKs read and write what the host does: JSON with all escapes, forms, headers, tokens, JWTs and numbers.
func TestProbe(t *testing.T) {
	eachLanguage(t, "probe", map[string]func(*testing.T, *hosttest.Harness){
		"what a plugin reads and writes":     testProbe,
		"the token endpoint refuses":         testProbeRefused,
		"a request that has nothing to read": testProbeWithoutForm,
	})
}

const formType = "application/x-www-form-urlencoded"

func probeConfig() hosttest.Config {
	return hosttest.Config{
		"token_url": tokenURL, "secret": "{{ get_secret('probe') }}", "key": "{{ get_secret('key') }}", "signer": "{{ get_secret('signer') }}",
		"parts": hosttest.Config{"b": "{a}!", "a": "{method}"},
		"texts": map[string]any{"a \"b\"\\": "é€😀\u2028\x01\x1f/\b\f\n\r\t", "b": "{{ get_variable('text') }}", "c": 12.50, "d": true, "e": "", "": "empty"},
	}
}

func newProbe(h *hosttest.Harness) {
	h.Secret("probe", "the secret of the probe")
	h.Key("key", "HS256")
	h.Key("signer", "ES256")
	h.Variable("text", `},"name":"x"`)
}

func testProbe(t *testing.T, h *hosttest.Harness) {
	newProbe(h)
	h.Secret("the instance", "https://eu.instance.test")
	h.TokenEndpoint(tokenURL, hosttest.JSON(http.StatusOK, `{"access_token":"the-access-token","token_type":"Bearer","expires_in":77,"instance":"https://eu.instance.test"}`))
	r := hosttest.POST("https://api.test:443/a%2Fb?c=d#e", "a=1&b=%C3%A9+%22&a=")
	r.Header = http.Header{"Content-Type": {formType}, "X-Many": {"1", `"\2`}}
	got := h.Authenticate(probeConfig(), r)

	sent := h.Exchanges()[0]
	if sent.Form.Get("scope") != "a b" || sent.Form.Get("secret") != "the secret of the probe" || sent.Header.Get("X-Probe") != "1" {
		t.Errorf("the token endpoint got %v %v", sent.Form, sent.Header)
	}
	header, claims := h.JWT(got.Header("X-JWT"))
	exp := strconv.FormatInt(h.Now().Unix()+60, 10)
	if header["kid"] != "k1" || claims["iss"] != `"me"` || claims["exp"] != json.Number(exp) || claims["flag"] != true || len(claims) != 4 {
		t.Errorf("the JWT has %v and %v", header, claims)
	}
	for name, want := range map[string]string{"X-JWS": `{"alg":"ES256","b64":false,"crit":["b64","iat"],"iat":7}.`, "X-Attached": `{"alg":"ES256"}.{}`} {
		parts := strings.Split(got.Header(name), ".")
		decoded := ""
		for i, part := range parts {
			text, _ := base64.RawURLEncoding.DecodeString(part)
			if parts[i] = string(text); i < 2 {
				decoded += "." + parts[i]
			}
		}
		if decoded != "."+want || len(parts) != 3 || len(parts[2]) != 64 {
			t.Errorf("%s is of %s, want %s", name, decoded, want)
		}
	}
	plain := func(name string) string {
		text, err := base64.StdEncoding.DecodeString(got.Header(name))
		if err != nil {
			t.Errorf("%s is %q: %v", name, got.Header(name), err)
		}
		return string(text)
	}
	texts := plain("X-Texts")
	for _, want := range []string{"a \"b\"\\=é€😀\u2028\x01\x1f/\b\f\n\r\t\n", "b=},\"name\":\"x\"\n", "c=12.5", "d=true\n", "e=\n"} {
		if !strings.Contains(texts, want) {
			t.Errorf("X-Texts is %q, want %q in it", texts, want)
		}
	}
	for name, want := range map[string]string{
		"X-Unknown": "", "X-List": `1;{"a":["]",{}]};"x,\"y";[];null;`, "X-Decoded": "😀é€A/\\\"\b\f\n\r\t \ufffd \a", "X-Form": "a=1\nb=é \"\na=\n",
		"X-Object": `{"a":["V",1,{"{v}":"{\"é"},[]],"b":null}`, "X-Parts": "a=POST\nb=POST!\n",
	} {
		if text := plain(name); text != want {
			t.Errorf("%s is %q, want %q", name, text, want)
		}
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer the-access-token", "X-Extra": "https://eu.instance.test", "X-Token": "bearer 77 -9223372036854775807 7",
		"X-Many": `1, "\2`, "X-None": "no", "X-Length": "19", "X-Millis": strconv.FormatInt(h.Now().UnixMilli(), 10),
		"X-URL": "https api.test /a%2Fb?c=d", "X-Absent": "absent", "X-Encoded": `YOUT6=== C3A93F %C3%A9%3F %C3%A9%3F+ "e\"" Pz4_`,
		"X-Composed": fmt.Sprintf(`https /a%%2Fb?c=d 1 c=d&b=%%26 {"} %x`, sha256.Sum256([]byte("a=1&b=%C3%A9+%22&a=&f=%26"))),
	} {
		if text := got.Header(name); text != want {
			t.Errorf("%s is %q, want %q", name, text, want)
		}
	}
	if q := got.Query(); q.Get("q") != "a&b" || q.Get("c") != "d" || q.Get("jwt") != got.Header("X-JWT") {
		t.Errorf("the query is %v", q)
	}
}

func testProbeRefused(t *testing.T, h *hosttest.Harness) {
	newProbe(h)
	h.TokenEndpoint(tokenURL, hosttest.JSON(http.StatusUnauthorized, `{"error":"invalid_client"}`))
	err := h.AuthenticateError(probeConfig(), hosttest.GET(apiURL))
	if !strings.Contains(err.Error(), "401") || !strings.Contains(err.Error(), "invalid_client") {
		t.Errorf("the error is %v", err)
	}
}

func testProbeWithoutForm(t *testing.T, h *hosttest.Harness) {
	newProbe(h)
	h.TokenEndpoint(tokenURL, hosttest.JSON(http.StatusOK, `{"access_token":"the-access-token","instance":"the-instance"}`))
	config := probeConfig()
	delete(config, "texts")
	got := h.Authenticate(config, hosttest.GET("https://API.test:8443?x=/"))
	if got.Header("X-Texts") != "" || got.Header("X-Form") != "" || got.Header("X-Token") != " 0 -9223372036854775807 7" || got.Header("X-URL") != "https api.test:8443 /?x=/" {
		t.Errorf("the headers are %v", got.Request.Header)
	}
}
