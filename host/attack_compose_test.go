package host_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// threats.md 10: a sealed value counts as long as its format may make it, so that no chain of formats fills memory.
func TestFormatSealedValueBounds_threats_10(t *testing.T) {
	for _, format := range []string{contract.FormatPathPercent, contract.FormatPathReencoded, contract.FormatQuerySorted} {
		refuseAll(t, []misuse{{format, func(env contract.Env) (string, error) {
			k := value(env, "to_header")
			for range 20 {
				k = env.Encode(format, k)
			}
			return header("X-Key", k), nil
		}, host.StagePlugin, "too long"}})
	}
}

// threats.md 270: a secret that is a whole URL, as those of webhooks are, is in none of the parts of the URL, nor is one in the host
// of a request without Host.
func TestComposeWithoutSecretURL_threats_270(t *testing.T) {
	for _, c := range []struct{ secret, template, want string }{
		{"https://api.test/hooks/T1/x", "{host} {path} {query}", "sealed sealed k=v"},
		{"https://api.test/hooks/T1/x", "{path|sha256|hex} {url}", "sealed https://sealedsealed?k=v"},
		{"/hooks/T1/x?k=v", "{host} {path} {query} {query_param:k}", "api.test sealed sealed "},
		{"x?k=v#secret-part", "{path} {query}", "sealed sealed"},
		{"/hooks/T1", "{host} {path} {query}", "api.test sealed/x k=v"},
		{"T1/x?k=v", "{host} {path} {query}", "api.test sealed sealed"},
		{"1/x?k=v", "{host} {path} {query}", "api.test /hooks/T1/x k=v"}, // as short texts also occur by chance
		{"api.test", "{host} {authority} {path}", "sealed sealed /hooks/T1/x"},
	} {
		got := composed(t, c.template, "", func(w *world, r *http.Request) {
			w.secrets["s"] = c.secret
			r.Host = ""
			r.URL.Path, r.URL.RawPath, r.URL.RawQuery, r.URL.Fragment = "/hooks/T1/x", "", "k=v", "secret-part"
		})
		if got != c.want {
			t.Errorf("%s of a request with %s is %q, want %q", c.template, c.secret, got, c.want)
		}
	}
	got := composed(t, "{host} {path} {query}", "", func(w *world, r *http.Request) {
		w.secrets["s"] = "https://api.test?k=v"
		r.URL.Path, r.URL.RawPath, r.URL.RawQuery = "", "", "k=v"
	})
	if got != "sealed / sealed" {
		t.Errorf("without a path the text is %q", got)
	}
	got = composed(t, "{host} {path}", "", func(w *world, r *http.Request) {
		w.secrets["s"] = "api.test"
		r.Host, r.URL.Path, r.URL.RawPath, r.URL.RawQuery, r.Header = "", "", "", "", nil
	})
	if got != "sealed /" {
		t.Errorf("with a long host and a short path the text is %q", got)
	}
}

// threats.md 270: no placeholder shows whether a guess of a header's name that is a secret is right.
func TestGuessOfASecretName_threats_270(t *testing.T) {
	prepare := func(w *world, r *http.Request) {
		w.secrets["s"] = "X-Secret-Name"
		r.Header = http.Header{"X-Secret-Name": {"value"}}
	}
	for _, c := range []struct{ template, with, want string }{
		{"[{header:X-Secret-Name}]", "", "[]"},
		{"[{headers:x-secret-name}]", "", "[]"},
		{"{header_names:x-*}", "", ""},
		{"{header_names:!host;*;!content-length}", `{"headers":[{"name":"X-Secret-Name","value":""}]}`, "sealed;x-secret-name"},
	} {
		got := composed(t, c.template, c.with, prepare)
		if got != c.want && got != "x-secret-name;sealed" {
			t.Errorf("%s is %q, want %q", c.template, got, c.want)
		}
	}
}

// threats.md 68: raw bytes stay raw in a format that leaves bytes as they are. Otherwise, whether a header may hold them would show
// something of a MAC.
func TestIdentityFormats_threats_68(t *testing.T) {
	for _, format := range []string{contract.FormatLower, contract.FormatUpper, contract.FormatPathNormalized, contract.FormatQuoted} {
		refuseAll(t, []misuse{{format, func(env contract.Env) (string, error) {
			raw := env.Decode("hex", env.Encode("hex", value(env, "to_header")))
			return header("X-Key", env.Encode(format, raw)), nil
		}, host.StagePlugin, "raw bytes: encode it first"}})
	}
}

// threats.md 271: what is looked for counts too, also if nothing is found, and long lists take no time that grows with their square.
func TestComposeSearchBounds_threats_271(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat(`{"name":"v","value":""},`, 2000), ",")
	for name, do := range map[string]func(env contract.Env){
		"values": func(env contract.Env) { env.Compose(strings.Repeat("{method}", 2000), []byte(`{"values":[`+many+`]}`)) },
		"headers": func(env contract.Env) {
			env.Compose(strings.Repeat("{header:a}", 2000), []byte(`{"headers":[`+many+`]}`))
		},
		"lists": func(env contract.Env) {
			env.Compose(strings.Repeat("{headers:a}{headers:b}", 40), []byte(`{"headers":[`+many+`]}`))
			env.Compose("{headers:"+strings.Repeat(";", 2000)+"}", []byte(`{"headers":[`+many+`]}`))
		},
	} {
		refuseAll(t, []misuse{{name, func(env contract.Env) (string, error) {
			do(env)
			return header("X-Key", value(env, "to_header")), nil
		}, host.StagePlugin, "compose reads more than 2097152 bytes"}})
	}
}

// A caller's header may have many values. They are joined in time that grows with their number.
func TestAHeaderOfManyValues(t *testing.T) {
	const n = 100_000
	for template, separator := range map[string]string{"{header:x-many}": ", ", "{headers:x-many}": ","} {
		got := composed(t, template, "", func(_ *world, r *http.Request) {
			r.Header = http.Header{"X-Many": make([]string, n)}
		})
		if strings.Count(got, separator) != n-1 {
			t.Errorf("%s has %d values", template, strings.Count(got, separator)+1)
		}
	}
}

// A port that is empty is none, and a request without a body has the length 0 whatever it states (RFC 9112 section 6).
func TestSentAddressesAndLengths(t *testing.T) {
	for host, want := range map[string]string{
		"API.test:": "API.test: api.test api.test 443", "API.test:443": "API.test:443 api.test api.test 443",
	} {
		got := composed(t, "{host} {authority} {hostname} {port}", "", func(_ *world, r *http.Request) { r.Host = host })
		if got != want {
			t.Errorf("%s is %q, want %q", host, got, want)
		}
	}
	got := composed(t, "{content_length}", "", func(_ *world, r *http.Request) { r.Body, r.GetBody, r.ContentLength = nil, nil, -1 })
	if got != "0" {
		t.Errorf("the length of no body is %q", got)
	}
}
