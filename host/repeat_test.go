package host_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/plugins"
)

// laterGuest signs a request with texts that it does not see, and then does what the field "reads" names.
func laterGuest() *guest {
	later := func(env contract.Env, template string, with contract.Composition) string {
		with.Later = true
		return env.Compose(template, []byte(marshal(with)))
	}
	g := misusing(func(env contract.Env) (string, error) {
		read, key := "", value(env, "mac_key")
		stamp := later(env, "{timestamp_ms}", contract.Composition{})
		stamped := contract.Composition{Values: []abi.Pair{{Name: "stamp", Value: stamp}}}
		switch value(env, "reads") {
		case "a header":
			read = env.Compose("{header:X-Kind}", nil)
		case "a header that is hashed":
			read = env.Digest(contract.DigestSHA256, later(env, "{header:X-Kind}", contract.Composition{}))
			read = env.Encode(contract.FormatHex, read)
		case "a header and time_now":
			read = fmt.Sprint(env.TimeNow())
		case "a nonce":
			read = env.Compose("{nonce}", nil)
		case "a list":
			later(env, "{headers:x-extra;x-kind}", contract.Composition{})
			read = env.Compose("{header_names:x-extra;x-kind}", nil)
		case "a time":
			read = env.Compose("{iso8601}", nil)
		case "a plain text of a later one":
			read = env.Compose("v1={stamp|hex}", []byte(marshal(stamped)))
		case "a header in front of a later text":
			read = env.Compose("{header:X-Absent}{stamp}", []byte(marshal(stamped)))
		case "a key of compose":
			key += env.Compose("{config:hmac_key|hex}", nil)
		case "a form":
			later(env, "{headers:*}", contract.Composition{})
			read = env.Compose("{header_names:*}", []byte(`{"form":[{"name":"a","value":"b"}]}`))
		case "a parameter":
			read = later(env, "{query_param:p}", contract.Composition{Query: []abi.Pair{{Name: "p", Value: later(env, "{path}~", contract.Composition{})}}})
		case "a header that is copied":
			read = later(env, "{header:X-Extra}", contract.Composition{})
		case "a header alone":
			return header("X-Copy", later(env, "{header:X-Kind}", contract.Composition{})), nil
		case "a raw text":
			return header("X-Copy", env.MAC(contract.MACSHA256, key, stamp)), nil
		case "many texts":
			for range 70 {
				later(env, "{method}", contract.Composition{})
			}
		case "a later nonce":
			read = later(env, "{nonce}", contract.Composition{})
		case "a later text, decoded":
			read = env.Encode(contract.FormatHex, env.Decode(contract.FormatHex, env.Encode(contract.FormatHex, later(env, "{method}", contract.Composition{}))))
		case "a later secret of the configuration":
			read = later(env, "{config:to_header}", contract.Composition{})
		}
		added := []abi.Pair{{Name: "X-Time", Value: stamp}}
		if read != "" {
			added = append(added, abi.Pair{Name: "X-Read", Value: read})
		}
		text := later(env, "{method} {target} {stamp}\n{headers:*;!user-agent;!x-read}\n{query|query_sorted}\n{body|sha256|hex}", contract.Composition{
			Headers: added, Values: []abi.Pair{{Name: "stamp", Value: stamp}},
		})
		signature := env.Encode(contract.FormatHex, env.MAC(contract.MACSHA256, key, text))
		return marshal(contract.Mutation{Headers: append(added, abi.Pair{Name: "X-Key", Value: signature})}), nil
	})
	g.about.Fields = append(g.about.Fields, abi.Field{Name: "reads", Kind: abi.KindString, Default: "nothing"},
		sealedField("mac_key", contract.SinkSign, contract.SinkHeader))
	return g
}

func laterAuth(reads string) config {
	return with(misused, "reads", reads, "mac_key", "{{ get_secret('k') }}")
}

// A call is repeated without the plugin if the plugin has not seen what is new in the next request.
func TestRepeatedCalls(t *testing.T) {
	w := newWorld(t, withoutBuiltIns, withGuest(laterGuest()))
	for reads, reused := range map[string]bool{
		"nothing": true, "a header": true, "a header that is hashed": true, "a later nonce": true, "a later secret of the configuration": true,
		"a header and time_now": false, "a nonce": false, "a later text, decoded": false, "many texts": false,
	} {
		t.Run(reads, func(t *testing.T) {
			c := w.connectAs(reads, "custom", laterAuth(reads))
			signatures := map[string]bool{}
			for i := range 4 {
				w.Advance(time.Second)
				r := must(http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("%s/%d?b=2&a=%d", apiURL, i, i), strings.NewReader("a body")))(t)
				signatures[w.send(c, r).Header.Get("X-Key")] = true
			}
			if last := w.calls[len(w.calls)-1]; last.Reused != reused || len(signatures) != 4 {
				t.Errorf("reused: %t, want %t; of four signatures, %d differ", last.Reused, reused, len(signatures))
			}
		})
	}
}

// A repeated call makes the same mutation as the plugin, whatever the request is: threats.md 561.
func TestRepeatedCallsEqualThePlugin_threats_561(t *testing.T) {
	worlds := [2]*world{}
	connectors := [2][]*host.Connector{}
	for i := range worlds {
		w := newWorld(t, withGuest(laterGuest()), func(c *host.Config) {
			c.NoReuse = i == 1
			c.BuiltIns, c.Plugins = []host.Plugin{}, append(c.Plugins, host.Plugin{Wasm: plugins.AWSSigV4()})
		})
		w.setSecret("k", "a-key-of-some-length-0123456789")
		w.setSecret("s", "AKID/EXAMPLE+1-not-short")
		aws := config{
			"access_key_id": "{{ get_secret('s') }}", "secret_access_key": "{{ get_secret('k') }}", "session_token": "{{ get_secret('s') }}",
			"region": "eu-central-1", "service": "execute-api",
		}
		for _, reads := range []string{
			"a header", "a header that is hashed", "a list", "a time", "a plain text of a later one", "a header in front of a later text", "a key of compose", "a form",
			"a parameter", "a header that is copied", "a later secret of the configuration",
		} {
			connectors[i] = append(connectors[i], w.connectAs(reads, "custom", laterAuth(reads)))
		}
		connectors[i] = append(connectors[i], w.connectAs("aws", "aws_sigv4", aws),
			w.connectAs("s3", "aws_sigv4", with(aws, "service", "s3")), w.connectAs("query", "aws_sigv4", with(aws, "in", "query")))
		worlds[i] = w
	}
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(texts ...string) string { return texts[random.IntN(len(texts))] }
	reused, long := 0, strings.Repeat("x", 300<<10)
	for range 1500 {
		method := pick("GET", "GET", "POST", "PUT")
		target := apiURL + pick("", "", "/", "/a/../b//c", "/%2F%20é", "/a-key-of-some-length-0123456789", "/kw_sealed", "/"+contract.SealedPrefix+strings.Repeat("z", contract.SealedLength)) +
			pick("", "", "?", "?c", "?b=%20&a=+&a=%2B", "?x=AKID%2FEXAMPLE%2B1-not-short", "?X-Amz-Signature=x", "?"+contract.SealedPrefix+"=1")
		kind, extra, body, advance := pick("a", "a", "a", "a", "b"), pick("", "", "", " two  spaces ", "a-key-of-some-length-0123456789", long), pick("", "a body"), time.Duration(random.IntN(4000))*time.Second
		once, absent := random.IntN(2) == 0, random.IntN(4) == 0
		got := [2]string{}
		k := random.IntN(len(connectors[0]))
		for i, w := range worlds {
			w.Advance(advance)
			var from io.Reader
			if body != "" {
				if from = strings.NewReader(body); once {
					from = io.MultiReader(from)
				}
			}
			r := must(http.NewRequestWithContext(t.Context(), method, target, from))(t)
			r.Header.Set("X-Kind", kind)
			if absent {
				r.Header.Set("X-Absent", "evil")
			}
			if extra != "" {
				r.Header["X-Extra"] = []string{extra, "x"}
			}
			out, err := connectors[i][k].Authenticate(r)
			if err != nil {
				got[i] = err.Error()
				continue
			}
			got[i] = fmt.Sprint(out.URL, out.Header)
		}
		if got[0] != got[1] {
			t.Fatalf("%s %s: with reuse\n%s, without\n%s", method, target, got[0], got[1])
		}
		if calls := worlds[0].calls; calls[len(calls)-1].Reused {
			reused++
		}
	}
	if reused < 100 {
		t.Errorf("of 1500 calls, %d are repeated", reused)
	}
}

// What the host has composed of a request is no credential of it: an API may repeat it, and an error shows it.
func TestLaterTextsInAnswers(t *testing.T) {
	w := newWorld(t, withoutBuiltIns, withGuest(laterGuest()))
	w.api.Answer(func(r *http.Request) (*http.Response, error) {
		return respond(http.StatusOK, r.Header.Get("X-Time"))(r)
	})
	c := w.connectAs("c", "custom", laterAuth("a header"))
	for range 3 {
		got, err := w.read(c.GuardedTransport(nil).RoundTrip(get(t.Context())))
		if want := w.api.Last().Header.Get("X-Time"); got != want || err != nil {
			t.Errorf("the API's answer is %q, %v, want %q", got, err, want)
		}
	}
	alone := w.connectAs("d", "custom", laterAuth("a header alone"))
	for i := range 6 {
		r := get(t.Context())
		r.Header.Set("X-Kind", "any text")
		if i < 3 { // a credential that the platform has put there
			r.Header.Set("X-Kind", must(w.secret(t.Context(), "s"))(t))
			must(alone.Authenticate(r))(t)
			continue
		}
		w.refuse(alone, r, host.StageMutation, "holds no credential")
	}
}

// After an answer that refuses the time of a repeated call, the plugin signs with the time of the API.
func TestRefusedRepetition(t *testing.T) {
	w := newWorld(t, func(c *host.Config) {
		c.BuiltIns, c.Plugins = []host.Plugin{}, []host.Plugin{{Wasm: plugins.AWSSigV4()}}
	})
	c := w.connect("aws_sigv4", config{"access_key_id": "AKID", "secret_access_key": "{{ get_secret('k') }}", "region": "eu-central-1", "service": "execute-api"})
	offset, attempts, closed := time.Duration(0), 0, false
	w.api.Answer(func(r *http.Request) (*http.Response, error) {
		if attempts++; closed {
			return status(http.StatusForbidden)(r)
		}
		now, code := w.Now().Add(offset), http.StatusOK
		if date, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date")); err != nil || now.Sub(date).Abs() > 5*time.Minute {
			code = http.StatusForbidden
		}
		response, err := status(code)(r)
		response.Header.Set("Date", now.Format(http.TimeFormat))
		return response, err
	})
	for i := range 8 {
		if i == 4 {
			offset = 2 * time.Hour
		}
		if code, err := w.try(c, get(t.Context())); code != http.StatusOK || err != nil {
			t.Errorf("request %d: status %d, %v", i, code, err)
		}
	}
	if last := w.calls[len(w.calls)-1]; !last.Reused {
		t.Error("the last call is not repeated")
	}
	attempts, closed = 0, true
	if code, err := w.try(c, get(t.Context())); code != http.StatusForbidden || err != nil || attempts != 1 {
		t.Errorf("a refusal for another reason: status %d, %v after %d attempts, want one", code, err, attempts)
	}
}

// A mutation that is refused when the plugin runs is refused each time: threats.md 561.
func TestRefusedMutationsNotRepeated_threats_561(t *testing.T) {
	w := newWorld(t, withoutBuiltIns, withGuest(laterGuest()))
	c := w.connectAs("c", "custom", laterAuth("a raw text"))
	for range 500 { // of which some have bytes that a header may have
		w.Advance(time.Second)
		w.refuse(c, get(t.Context()), host.StagePlugin, "raw bytes")
	}
}
