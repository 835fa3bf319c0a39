package host_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// patterned returns an answer with a pattern.
func patterned(name, from, pattern string) abi.Answer {
	return abi.Answer{Name: name, From: from, Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader, contract.SinkDigest}, Pattern: pattern}
}

// Only a sealed answer has a pattern. Answers of one place have the same, so that a plugin cannot ask for a text letter by letter
// (threats.md 472). A state has no pattern.
func TestDescriptionsOfPatterns(t *testing.T) {
	plain, state := patterned("a", "json:/a", "a"), patterned("a", "json:/a", "a")
	plain.Kind, plain.Sinks = contract.AnswerTime, nil
	state.State = "s"
	alternative := patterned("b", "json:/c", "b")
	alternative.Alternative = "json:/a"
	for name, test := range map[string]struct {
		answers []abi.Answer
		want    string
	}{
		"of a time":              {[]abi.Answer{plain}, "only a sealed answer has a pattern"},
		"of a state":             {[]abi.Answer{state}, "none that is a state"},
		"with an anchor":         {[]abi.Answer{patterned("a", "json:/a", "^a$")}, "RE2 and ECMA-262"},
		"malformed":              {[]abi.Answer{patterned("a", "json:/a", "(")}, "pattern"},
		"long":                   {[]abi.Answer{patterned("a", "json:/a", strings.Repeat("a", 257))}, "more than 256 bytes"},
		"two of one place":       {[]abi.Answer{patterned("a", "json:/a", "a[a-z]*"), patterned("b", "json:/a", "b[a-z]*")}, "have not the same pattern"},
		"one of one place":       {[]abi.Answer{patterned("a", "header:A", "a"), patterned("b", "header:a", "")}, "have not the same pattern"},
		"one of another's place": {[]abi.Answer{patterned("a", "json:/a", "a"), alternative}, "have not the same pattern"},
	} {
		t.Run(name, func(t *testing.T) {
			about := abi.Description{Uses: contract.Groups, Answers: test.answers}
			if test.answers[0].State != "" {
				about.State = []abi.State{{Name: "s"}}
			}
			testworld.WantError(t, "of an exchange", loadError(t, &guest{about: about}), test.want)
		})
	}
}

// signingAnswer returns a connector whose guest gets an answer with a pattern, and signs the data in which it stands for CODE.
func signingAnswer(t *testing.T, pattern, body string, sign func(env contract.Env, code string) string) (*world, *host.Connector) {
	t.Helper()
	g := &guest{authenticate: func(env contract.Env) (string, error) {
		var r contract.ExchangeReply
		err := json.Unmarshal(env.Exchange([]byte(marshal(contract.Exchange{URL: value(env, "url")}))), &r)
		code, ok := r.Answers["code"]
		if err != nil || !ok {
			return header("X-Signature", "absent"), err
		}
		return header("X-Signature", env.Encode(contract.FormatHex, sign(env, code))), nil
	}}
	g.about = abi.Description{Uses: contract.Groups, Anonymous: true, Answers: []abi.Answer{patterned("code", "json:/code", pattern)}, Fields: []abi.Field{
		{Name: "url", Kind: abi.KindURL, Sinks: []string{contract.SinkToken}},
		{Name: "key", Kind: abi.KindKey, AlgorithmField: "algorithm", Generate: true, Purposes: []string{contract.PurposeMessage, contract.PurposeHTTPSignature}, Derived: []string{contract.SinkHeader}},
		{Name: "algorithm", Kind: abi.KindString, Enum: algorithms, Default: "ES256"},
	}}
	w := newWorld(t, withoutBuiltIns, withGuest(g))
	w.login.Answer(respond(http.StatusOK, body))
	return w, w.connect("custom", config{"url": tokenURL})
}

// A key signs an answer alone if its pattern matches words only. Nothing else of an API is signed without plain text in front
// (threats.md 471).
func TestSignedAnswers(t *testing.T) {
	message := func(put string) func(contract.Env, string) string {
		return func(env contract.Env, code string) string {
			return env.SignSealed("key", contract.PurposeMessage, strings.ReplaceAll(put, "CODE", code))
		}
	}
	const words, disguised = "[0-9a-f-]{4,64}", "depending on a sealed value"
	for name, test := range map[string]struct {
		pattern string
		sign    func(contract.Env, string) string
		want    string // of the error, or "" if it is signed
	}{
		"alone":                  {words, message("CODE"), ""},
		"with text in front":     {words, message("/v1/CODE"), ""},
		"with a slash in front":  {words, message("/CODE"), disguised},
		"with text behind":       {words, message("CODE.e30"), disguised},
		"with a letter in front": {words, message("eCODE"), disguised},
		"twice":                  {words, message("CODECODE"), disguised},
		"encoded": {words, func(env contract.Env, code string) string {
			return env.SignSealed("key", contract.PurposeMessage, env.Encode(contract.FormatBase64URL, code))
		}, disguised},
		"as a signature base": {words, func(env contract.Env, code string) string {
			return env.SignSealed("key", contract.PurposeHTTPSignature, code)
		}, disguised},
		"of a pattern with dots":        {"[0-9a-f.-]{4,64}", message("CODE"), disguised},
		"of a pattern of longer texts":  {"[0-9a-f-]{4,65}", message("CODE"), disguised},
		"of a pattern of endless texts": {"[0-9a-f-]+", message("CODE"), disguised},
		"without a pattern":             {"", message("CODE"), disguised},
	} {
		t.Run(name, func(t *testing.T) {
			w, connector := signingAnswer(t, test.pattern, `{"code":"0a1b-2c3d"}`, test.sign)
			if test.want != "" {
				w.refuse(connector, get(t.Context()), host.StagePlugin, test.want)
			} else if got := w.get(connector).Header.Get("X-Signature"); len(got) != 128 {
				t.Errorf("X-Signature = %q", got)
			}
		})
	}
}

// A text that does not match as a whole is absent, and so is one of more than 1 KiB.
func TestAbsentAnswers(t *testing.T) {
	for body, absent := range map[string]bool{
		`{"code":"0a"}`: false, `{"code":"` + strings.Repeat("0", 1024) + `"}`: false, `{"code":12}`: false,
		`{"code":"` + strings.Repeat("0", 1025) + `"}`: true, `{"code":"0g"}`: true, `{"code":"0a\n"}`: true, `{"code":""}`: true, `{}`: true,
	} {
		w, connector := signingAnswer(t, "[0-9a-f]*", body, func(env contract.Env, code string) string {
			return env.SignSealed("key", contract.PurposeMessage, "/v1/"+code)
		})
		if got := w.get(connector).Header.Get("X-Signature") == "absent"; got != absent {
			t.Errorf("%.40s is absent: %t", body, got)
		}
	}
}
