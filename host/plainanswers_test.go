package host_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// threats.md 343: what a plugin gets plain of an answer holds no credential, in digits or in any spelling of a number or a time. Short
// numbers, such as a lifetime, are read as ever.
func TestPlainAnswersHoldNoCredential(t *testing.T) {
	const number, long, word = "2147483600", "48151623421", "a-word-that-is-secret"
	claims := fmt.Sprintf(`{"iat":%d,"exp":%d}`, start.Unix(), start.Add(48*time.Hour).Unix())
	times := "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2lnbmF0dXJl"
	for name, c := range map[string]struct {
		kind, secret, body string
		ends               bool
	}{
		"an integer":                 {contract.AnswerInteger, number, `{"n":2147483600}`, true},
		"a text":                     {contract.AnswerInteger, number, `{"n":"2147483600"}`, true},
		"an exponent":                {contract.AnswerInteger, number, `{"n":21474836e2}`, true},
		"a fraction":                 {contract.AnswerInteger, number, `{"n":"2147483600.5"}`, true},
		"a time":                     {contract.AnswerTime, long, `{"n":48151623421}`, true},
		"a time in milliseconds":     {contract.AnswerTime, long + "123", `{"n":48151623421123}`, true},
		"milliseconds of a secret":   {contract.AnswerTime, long, `{"n":48151623421000}`, true},
		"a date":                     {contract.AnswerTime, "2000000000", `{"n":"2033-05-18T03:33:20Z"}`, true},
		"a part of a secret":         {contract.AnswerTime, long, `{"n":48151623}`, true},
		"a text around a number":     {contract.AnswerTime, word, `{"n":13579246805}`, true},
		"a text that was sent":       {contract.AnswerEnum, word, `{"n":"x, Sent-As-A-Guess"}`, true},
		"a text around one":          {contract.AnswerEnum, word, `{"n":"x:sent-as-a-guess-y"}`, true},
		"an enum":                    {contract.AnswerEnum, word, `{"n":"` + word + `"}`, true},
		"an item of an enum":         {contract.AnswerEnum, word, `{"n":"x, ` + word + `"}`, true},
		"a secret in Base64":         {contract.AnswerEnum, word, `{"n":"YS13b3JkLXRoYXQtaXMtc2VjcmV0"}`, true},
		"digits of the token":        {contract.AnswerTime, word, `{"n":98765432101,"access_token":"98765432101"}`, true},
		"a number of the request":    {contract.AnswerInteger, word, `{"n":1357924680}`, true},
		"a time of today in a JWT":   {contract.AnswerTime, word, `{"n":` + strconv.FormatInt(start.Unix(), 10) + `}`, false},
		"a time of another day":      {contract.AnswerTime, word, `{"n":` + strconv.FormatInt(start.Add(48*time.Hour).Unix(), 10) + `}`, true},
		"a secret that is today":     {contract.AnswerTime, strconv.FormatInt(start.Unix(), 10), `{"n":` + strconv.FormatInt(start.Unix(), 10) + `}`, true},
		"a lifetime":                 {contract.AnswerInteger, number, `{"n":3600}`, false},
		"a time of day":              {contract.AnswerTime, long, `{"n":1700000000}`, false},
		"a part that is short":       {contract.AnswerInteger, number, `{"n":2147483}`, false},
		"a name":                     {contract.AnswerEnum, word, `{"n":"urn:a-type-of-token"}`, false},
		"a name that was sent":       {contract.AnswerEnum, word, `{"n":"sent-as-it-is"}`, false},
		"a secret that is too short": {contract.AnswerInteger, "2147483", `{"n":2147483}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			g := misusing(func(env contract.Env) (string, error) {
				form := []abi.Pair{{Name: "a", Value: value(env, "to_token")}, {Name: "b", Value: "1357924680"}, {Name: "c", Value: "sent-as-it-is"}, {Name: "d", Value: "sent-as-a-guess"}, {Name: "e", Value: times}}
				got = exchange(env, contract.Exchange{URL: value(env, "url"), Form: form}).Answers["n"]
				return sendsKey(env)
			})
			g.about.Answers = []abi.Answer{
				{Name: "access_token", From: "json:/access_token", Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}},
				{Name: "n", From: "json:/n", Kind: c.kind},
			}
			if c.kind == contract.AnswerEnum {
				g.about.Answers[1].Enum = []string{word, "urn:a-type-of-token", "sent-as-it-is", "YS13b3JkLXRoYXQtaXMtc2VjcmV0"}
			}
			w := newWorld(t, withoutBuiltIns, withGuest(g))
			w.setSecret("s", c.secret)
			w.setSecret("k", "k")
			w.setSecret("text", "t")
			w.login.Answer(respond(http.StatusOK, c.body))
			connector := w.connect("custom", misused)
			if !c.ends {
				if w.get(connector); got == "" {
					t.Error("the answer is missing")
				}
				return
			}
			w.refuse(connector, get(t.Context()), host.StageToken, "repeats in n a text of its request, or a sealed answer")
			if got != "" {
				t.Errorf("the plugin got %s", got)
			}
		})
	}
}

// A lifetime that holds the token or the secret is not read either.
func TestALifetimeHoldsNoCredential(t *testing.T) {
	for name, body := range map[string]string{
		"the token":  `{"access_token":"1234567890","expires_in":1234567890}`,
		"the secret": `{"access_token":"t","expires_in":2147483600}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.setSecret("s", "2147483600")
			w.login.Answer(respond(http.StatusOK, body))
			w.refuse(w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}")), get(t.Context()), host.StageToken, "repeats in expires_in")
		})
	}
}

// threats.md 343: a place of an answer is sealed or plain, and not both, whether the description or the configuration names it.
func TestAnswerPlaceSealedAndPlain(t *testing.T) {
	sealed := func(from string) abi.Answer {
		return abi.Answer{Name: "a", From: from, Kind: contract.AnswerSealed, Sinks: []string{contract.SinkHeader}}
	}
	for from, place := range map[string]string{
		"json:/access_token": "json:/access_token", "header:X-Token": "header:x-token", "auth:Digest/nonce": "auth:digest/NONCE", "info:a": "info:A", "cookie:a": "cookie:a", "form:a": "form:a",
	} {
		g := &guest{about: abi.Description{Uses: contract.Groups, Answers: []abi.Answer{sealed(from), {Name: "b", From: place, Kind: contract.AnswerTime}}}}
		testworld.WantError(t, from+" and "+place, loadError(t, g), "a and b are one place of an answer, sealed here and plain there")
	}
	g := misusing(nil)
	g.about.Fields = []abi.Field{{Name: "place", Kind: abi.KindString}}
	g.about.Answers = []abi.Answer{sealed("json:/access_token"), {Name: "b", FromField: "place", Kind: contract.AnswerTime}}
	w := newWorld(t, withoutBuiltIns, withGuest(g))
	if got := w.problems("custom", config{"place": "json:/access_token"}); len(got) != 1 || !strings.Contains(got[0], "sealed here and plain there") {
		t.Errorf("the problems are %q", got)
	}
	if got := w.problems("custom", config{"place": "json:/expires_at"}); len(got) != 0 {
		t.Errorf("the problems are %q", got)
	}
}
