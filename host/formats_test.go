package host_test

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// The formats, digests and random texts that a guest can ask for.

// A text in each format is the same whether it is plain or sealed.
func TestFormats(t *testing.T) {
	const text = "a b+/?&=%~.-_é\x00"
	want := map[string]string{
		contract.FormatBase64: "YSBiKy8/Jj0lfi4tX8OpAA==", contract.FormatBase64URL: "YSBiKy8_Jj0lfi4tX8OpAA", contract.FormatBase64URLPadded: "YSBiKy8_Jj0lfi4tX8OpAA==",
		contract.FormatBase32: "MEQGEKZPH4TD2JL6FYWV7Q5JAA======", contract.FormatHex: "6120622b2f3f263d257e2e2d5fc3a900", contract.FormatHexUpper: "6120622B2F3F263D257E2E2D5FC3A900",
		contract.FormatPercent: "a%20b%2B%2F%3F%26%3D%25~.-_%C3%A9%00", contract.FormatForm: "a+b%2B%2F%3F%26%3D%25~.-_%C3%A9%00",
	}
	decoded := []string{contract.FormatBase64, contract.FormatBase64URL, contract.FormatBase32, contract.FormatHex}
	got := map[string]string{}
	w := misusedWorld(t, func(env contract.Env) (string, error) {
		var headers []abi.Pair
		for format, want := range want {
			got[format] = env.Encode(format, text)
			headers = append(headers, abi.Pair{Name: "X-" + strings.ReplaceAll(format, "_", "-"), Value: env.Encode(format, value(env, "to_header"))})
			for _, other := range decoded {
				if other == format && env.Decode(format, want) != text {
					return "", fmt.Errorf("%s is not decoded", format)
				}
			}
		}
		for _, format := range decoded { // without padding, in either case, and sealed
			spelled := strings.TrimRight(want[format], "=")
			if format == contract.FormatHex || format == contract.FormatBase32 {
				spelled = strings.ToLower(spelled)
			}
			if env.Decode(format, spelled) != text {
				return "", fmt.Errorf("%s is not decoded", spelled)
			}
			again := env.Encode(contract.FormatHex, env.Decode(format, env.Encode(format, value(env, "to_header"))))
			headers = append(headers, abi.Pair{Name: "X-Again-" + format, Value: again})
		}
		return marshal(contract.Mutation{Headers: headers}), nil
	})
	w.setSecret("s", text)
	received := w.get(w.connect("custom", misused)).Header
	equal(t, want, got)
	for format, want := range want {
		if sealed := received.Get("X-" + strings.ReplaceAll(format, "_", "-")); sealed != want {
			t.Errorf("%s of a sealed value is %s, want %s", format, sealed, want)
		}
	}
	for _, format := range decoded {
		if again := received.Get("X-Again-" + format); again != want[contract.FormatHex] {
			t.Errorf("%s, there and back, is %s", format, again)
		}
	}
}

func TestDigests(t *testing.T) {
	const text = "a secret of some length"
	raw := hex.EncodeToString
	m, s1, s256, s384, s512, s512256 := md5.Sum([]byte(text)), sha1.Sum([]byte(text)), sha256.Sum256([]byte(text)), sha512.Sum384([]byte(text)), sha512.Sum512([]byte(text)), sha512.Sum512_256([]byte(text))
	want := map[string]string{
		contract.DigestMD5: raw(m[:]), contract.DigestSHA1: raw(s1[:]), contract.DigestSHA256: raw(s256[:]), contract.DigestSHA384: raw(s384[:]),
		contract.DigestSHA512: raw(s512[:]), contract.DigestSHA512256: raw(s512256[:]),
	}
	got := map[string]string{}
	g := &guest{about: abi.Description{Fields: []abi.Field{sealedField("to_header", contract.SinkHeader, contract.SinkDigest)}}}
	g.authenticate = func(env contract.Env) (string, error) {
		var headers []abi.Pair
		for _, algorithm := range contract.Digests {
			got[algorithm] = env.Encode(contract.FormatHex, env.Digest(algorithm, text))
			headers = append(headers, abi.Pair{Name: "X-" + strings.ReplaceAll(algorithm, "_", "-"), Value: env.Encode(contract.FormatHex, env.Digest(algorithm, value(env, "to_header")))})
		}
		return marshal(contract.Mutation{Headers: headers}), nil
	}
	w := newWorld(t, withoutBuiltIns, withGuest(g))
	w.setSecret("s", text)
	received := w.get(w.connect("custom", config{"to_header": "{{ get_secret('s') }}"})).Header
	equal(t, want, got)
	for algorithm, want := range want {
		if sealed := received.Get("X-" + strings.ReplaceAll(algorithm, "_", "-")); sealed != want {
			t.Errorf("%s of a sealed value is %s, want %s", algorithm, sealed, want)
		}
	}
}

// Random texts are in hex, of the length that the guest wants, and differ.
func TestRandomTexts(t *testing.T) {
	var all []string
	w, connector := misuser(t, sendsKeyAfter(func(env contract.Env) {
		all = append(all, env.Random(1), env.Random(16), env.Random(16), env.Random(contract.MaxRandom))
	}))
	w.get(connector)
	w.get(connector) // runs again
	seen := map[string]bool{}
	for i, n := range []int{2, 32, 32, 128, 2, 32, 32, 128} {
		if i >= len(all) || len(all[i]) != n || !regexp.MustCompile(`^[0-9a-f]+$`).MatchString(all[i]) || n > 2 && seen[all[i]] {
			t.Errorf("text %d of %q", i, all)
		}
		seen[all[i]] = true
	}
}

func TestRefusedFormats(t *testing.T) {
	refuseAll(t, []misuse{
		{"an unknown format", func(env contract.Env) (string, error) { return env.Encode("rot13", "a"), nil }, host.StagePlugin, "encode knows base32, base64"},
		{"an unknown format to decode", func(env contract.Env) (string, error) { return env.Decode("percent", "a"), nil }, host.StagePlugin, "decode knows"},
		{"text that is not in the format", func(env contract.Env) (string, error) { return env.Decode("hex", value(env, "to_header")), nil }, host.StageConfig, "is not in hex"},
		{"an unknown digest", func(env contract.Env) (string, error) { return env.Digest("md4", "a"), nil }, host.StagePlugin, "digest knows md5, sha1"},
		{"no random bytes", func(env contract.Env) (string, error) { return env.Random(0), nil }, host.StagePlugin, "1 to 64 bytes"},
		{"too many random bytes", func(env contract.Env) (string, error) { return env.Random(65), nil }, host.StagePlugin, "1 to 64 bytes"},
		{"an unknown form of a key", func(env contract.Env) (string, error) { return env.PublicKey("key", "pem"), nil }, host.StagePlugin, "public_key knows"},
		{"the public half of a shared secret", func(env contract.Env) (string, error) { return env.PublicKey("key", contract.PublicJWK), nil }, host.StageSign, "no public half"},
		{"a certificate that is a key", func(env contract.Env) (string, error) { return env.PublicKey("key", contract.PublicX5T), nil }, host.StagePlugin, "not a field of kind certificate"},
		{"decoded bytes in a header", func(env contract.Env) (string, error) {
			return header("X-Key", env.Decode("hex", env.Encode("hex", value(env, "to_header")))), nil
		}, host.StagePlugin, "raw bytes: encode it first"},
	})
}

// A call reads a body a few times at most, however long it is (threats.md 90).
func TestBodyReadLimit(t *testing.T) {
	for reads, words := range map[int]string{8: "", 9: "a call may read it 8 times"} {
		w, connector := misuser(t, sendsKeyAfter(func(env contract.Env) {
			for range reads {
				env.Digest(contract.DigestSHA256, env.Body())
			}
		}))
		r := get(t.Context())
		r.Body, r.GetBody = http.NoBody, func() (io.ReadCloser, error) { return http.NoBody, nil }
		r.Body = io.NopCloser(strings.NewReader("x"))
		if words == "" {
			w.send(connector, r)
			continue
		}
		w.refuse(connector, r, host.StageBody, words)
	}
}

// A guest gets the members of a form in their order, and texts of its secrets sealed.
func TestMembersOfAForm(t *testing.T) {
	long := strings.Repeat("x", 64<<10-len("a="))
	for name, c := range map[string]struct{ contentType, body, want string }{
		"a form":            {"application/x-www-form-urlencoded; charset=UTF-8", "b=2&a=1+%26&b&=x&&c=%C3%A9", `[{"name":"b","value":"2"},{"name":"a","value":"1 &"},{"name":"b","value":""},{"name":"","value":"x"},{"name":"c","value":"é"}]`},
		"an empty form":     {"application/x-www-form-urlencoded", "", `[]`},
		"JSON":              {"application/json", "a=1", "none"},
		"no type":           {"", "a=1", "none"},
		"with its secret":   {"application/x-www-form-urlencoded", "key=SECRET", `[{"name":"key","value":"sealed"}]`},
		"not a valid form":  {"application/x-www-form-urlencoded", "a=%zz", "not percent-encoded"},
		"a compressed form": {"application/x-www-form-urlencoded; Content-Encoding: gzip", "a=1", "has a Content-Encoding"},
		"the longest form":  {"application/x-www-form-urlencoded", "a=" + long, `[{"name":"a","value":"` + long + `"}]`},
		"too long a form":   {"application/x-www-form-urlencoded", "a=x" + long, "longer than 65536 bytes"},
	} {
		for kind, prepare := range map[string]func(*http.Request){
			"again": func(*http.Request) {},
			"once":  func(r *http.Request) { r.GetBody = nil },
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				got := "none"
				w, connector := misuser(t, sendsKeyAfter(func(env contract.Env) {
					if list, ok := env.BodyForm(); ok {
						got = regexp.MustCompile(contract.SealedPrefix+`[a-z0-9]{26}`).ReplaceAllString(string(list), "sealed")
					}
				}))
				body := strings.NewReader(strings.ReplaceAll(c.body, "SECRET", url.QueryEscape(w.secrets["s"])))
				r := postOf(t, body)
				prepare(r)
				kind, encoding, _ := strings.Cut(c.contentType, "; Content-Encoding: ")
				r.Header.Set("Content-Type", kind)
				r.Header.Set("Content-Encoding", encoding)
				if !strings.HasPrefix(c.want, "[") && c.want != "none" {
					w.refuse(connector, r, host.StageBody, c.want)
					return
				}
				if w.send(connector, r); got != c.want {
					t.Errorf("the guest gets %s, want %s", got, c.want)
				}
			})
		}
	}
}

// A plugin puts a sealed value into a parameter of a header as a quoted-string (RFC 9110 section 5.6.4), whatever is in it.
func TestQuotedStrings(t *testing.T) {
	for secret, want := range map[string]string{
		"a plain secret":           `Key key="a plain secret"`,
		`quo"tes and \ in it, é\"`: `Key key="quo\"tes and \\ in it, é\\\""`,
	} {
		w := newWorld(t, withoutBuiltIns, withGuest(misusing(func(env contract.Env) (string, error) {
			if got := env.Encode(contract.FormatQuoted, `plain "text"`); got != `"plain \"text\""` {
				t.Errorf("plain text is %s", got)
			}
			return header("X-Key", "Key key="+env.Encode(contract.FormatQuoted, value(env, "to_header"))), nil
		})))
		for _, name := range []string{"k", "text"} {
			w.canary(name)
		}
		w.setSecret("s", secret)
		if got := w.get(w.connect("custom", misused)).Header.Get("X-Key"); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
	refuseAll(t, []misuse{{"quoted, it keeps its sinks", func(env contract.Env) (string, error) {
		return header("X-Key", env.Encode(contract.FormatQuoted, value(env, "to_token"))), nil
	}, host.StagePlugin, "do not reach"}})
}

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
