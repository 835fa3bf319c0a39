package answer

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The challenges of WWW-Authenticate are read as RFC 9110 section 11.6.1 defines them:
//
//	WWW-Authenticate = #challenge
//	challenge        = auth-scheme [ 1*SP ( token68 / #auth-param ) ]
//	auth-param       = token BWS "=" BWS ( token / quoted-string )
func TestChallengesOfWWWAuthenticate(t *testing.T) {
	type params = map[string]string
	for name, c := range map[string]struct {
		values []string
		want   []Offer
	}{
		"a scheme alone":                {[]string{`Negotiate`}, []Offer{{"negotiate", params{}}}},
		"schemes alone":                 {[]string{`Negotiate, NTLM`}, []Offer{{"negotiate", params{}}, {"ntlm", params{}}}},
		"the example of the RFC":        {[]string{`Basic realm="simple", Newauth realm="apps", type=1, title="Login to \"apps\""`}, []Offer{{"basic", params{"realm": "simple"}}, {"newauth", params{"realm": "apps", "type": "1", "title": `Login to "apps"`}}}},
		"two headers":                   {[]string{`Basic realm="a"`, `Digest nonce="n"`}, []Offer{{"basic", params{"realm": "a"}}, {"digest", params{"nonce": "n"}}}},
		"a challenge in two headers":    {[]string{`Digest realm="a"`, `nonce="n"`}, []Offer{{"digest", params{"realm": "a", "nonce": "n"}}}},
		"spaces around =":               {[]string{`Digest realm = "a", nonce= "n" ,qop ="auth",stale` + "\t=\tfalse"}, []Offer{{"digest", params{"realm": "a", "nonce": "n", "qop": "auth", "stale": "false"}}}},
		"spaces around the first =":     {[]string{`Digest   realm  =  a`}, []Offer{{"digest", params{"realm": "a"}}}},
		"a token68":                     {[]string{`Negotiate oYGvMIGsoAMKAQGh==`}, []Offer{{"negotiate", params{}}}},
		"a token68 and a challenge":     {[]string{`Negotiate a/b+c=, Digest nonce=n`}, []Offer{{"negotiate", params{}}, {"digest", params{"nonce": "n"}}}},
		"a token68 of signs":            {[]string{`Custom -._~+/1aZ===`}, []Offer{{"custom", params{}}}},
		"empty elements":                {[]string{`,, Digest realm="a",, ,nonce="n",`, "", ","}, []Offer{{"digest", params{"realm": "a", "nonce": "n"}}}},
		"an empty first parameter":      {[]string{`Digest , realm="a"`}, []Offer{{"digest", params{"realm": "a"}}}},
		"commas and schemes in quotes":  {[]string{`Digest realm="a, Basic realm=b", nonce="n"`}, []Offer{{"digest", params{"realm": "a, Basic realm=b", "nonce": "n"}}}},
		"quoted pairs":                  {[]string{`Digest realm="a\\\"b\,", nonce="\n"`}, []Offer{{"digest", params{"realm": `a\"b,`, "nonce": "n"}}}},
		"an empty quoted-string":        {[]string{`Digest realm="", nonce="n"`}, []Offer{{"digest", params{"realm": "", "nonce": "n"}}}},
		"case of letters":               {[]string{`DIGEST Nonce="N"`}, []Offer{{"digest", params{"nonce": "N"}}}},
		"a parameter that is a scheme":  {[]string{`Digest basic=x, nonce=n`}, []Offer{{"digest", params{"basic": "x", "nonce": "n"}}}},
		"a parameter twice":             {[]string{`Digest nonce=one, nonce=two`}, []Offer{{"digest", params{"nonce": "one"}}}},
		"no scheme":                     {[]string{`realm="a"`}, nil},
		"a scheme that is no token":     {[]string{`"Digest" realm="a"`}, nil},
		"a scheme that ends in a quote": {[]string{`Dig"est realm="a"`, `Dig" realm="a"`, `Dig@est`}, nil},
		"no value":                      {[]string{`Digest realm=, nonce=n`}, []Offer{{"digest", params{"nonce": "n"}}}},
		"no name":                       {[]string{`Digest nonce=n, ="a"`}, []Offer{{"digest", params{"nonce": "n"}}}},
		"no end of the quotes":          {[]string{`Digest nonce="n, Basic realm=b`}, []Offer{{"digest", params{"nonce": "n, Basic realm=b"}}}},
		"a backslash at the end":        {[]string{`Digest nonce="n\`}, []Offer{{"digest", params{"nonce": "n"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Offers(c.values)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// What an API puts into WWW-Authenticate is read in time that grows with its length. In the square of it, these would take
// hours (threats.md 100).
func TestLongChallenges(t *testing.T) {
	const long = 1 << 20
	for _, unit := range []string{",", `"`, `\`, `"\`, " ", "\t,", "a", "a ", "a,", "a=", "a=,", `a="`, `a="",`, "a a=a,", "=", "A b==,", "\x80"} {
		value := strings.Repeat(unit, long/len(unit))
		if n := len(Offers([]string{value, "Digest " + value})); n > maxOffers {
			t.Errorf("%q: %d challenges", unit, n)
		}
		Parameters(value)
	}
}

// Whatever is in WWW-Authenticate, each text that is read from it was there, and there are few challenges.
func FuzzChallenges(f *testing.F) {
	for _, value := range []string{`Basic realm="a", Digest nonce = "b\"c", qop=auth`, `Negotiate abc==`, `a="`, `,,`, "a\\", "a \t=\t\"\\"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		offers := Offers([]string{value, value})
		if len(offers) > maxOffers {
			t.Errorf("%d challenges", len(offers))
		}
		lower, plain := strings.ToLower(value), strings.ReplaceAll(value, `\`, "")
		for _, offer := range offers {
			for name, text := range offer.Parameters {
				if name == "" || !strings.Contains(lower, name) || !strings.Contains(plain, strings.ReplaceAll(text, `\`, "")) {
					t.Errorf("%q: %q is %q", value, name, text)
				}
			}
		}
	})
}

// An offset of less than ten seconds in either direction counts as none.
func TestLeastOffset(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).UTC()
	for seconds, want := range map[int64]int64{-11: -11, -10: -10, -9: 0, 0: 0, 9: 0, 10: 10, 11: 11} {
		var o Offset
		date := now.Add(time.Duration(seconds) * time.Second).Format(http.TimeFormat)
		o.Learn(http.StatusUnauthorized, http.Header{"Date": {date}}, now)
		if got := o.Seconds(); got != want {
			t.Errorf("%d seconds: %d", seconds, got)
		}
	}
}
