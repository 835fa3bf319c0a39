package conform

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

const acme = "../../examples/acme_hmac_c/acme_hmac_c.wasm"

func conform(t *testing.T, configs ...hosttest.Config) *Report {
	t.Helper()
	wasm := testworld.Must(os.ReadFile(acme))(t)
	return testworld.Must(Run(t.Context(), hosttest.Module{Name: "acme.wasm", Wasm: wasm}, configs...))(t)
}

// The report says what was tried, which check does not apply, and how much fuel requests need.
func TestReport(t *testing.T) {
	report := conform(t)
	text := report.String()
	for _, want := range []string{
		"acme.wasm: auth type acme_hmac 1.0.0, contract 1\n", "\nok   contract        2 cases: ", "\n-    endpoints       does not apply: ", "\nacme.wasm conforms\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q:\n%s", want, text)
		}
	}
	if f := report.Fuel; f.P50 <= 0 || f.Worst < f.P50 || f.Limit != 5_000_000 {
		t.Errorf("fuel %+v", f)
	}
	document, err := json.Marshal(report)
	if err != nil || !strings.Contains(string(document), `"findings":[]`) || !strings.Contains(string(document), `"conforms":true`) {
		t.Errorf("document = %s, err = %v", document, err)
	}
	if strings.Contains(string(document), "null") {
		t.Errorf("a list is null: %s", document)
	}
}

// The report shows the configurations that its findings mention.
func TestReportConfigurations(t *testing.T) {
	report := &Report{Name: "a.wasm", Configs: []hosttest.Config{{"key": "one"}, {"key": "two"}, {"key": "three"}}, Checks: []Check{
		{Name: "unicode", Findings: []string{"configuration 2, a long path: the plugin trapped"}},
		{Name: "leaks", Findings: []string{"unicode, configuration 3, a long path: a log line holds a secret"}},
	}}
	text := report.String()
	if !strings.Contains(text, "\nconfiguration 2 is {\"key\":\"two\"}\n") || !strings.Contains(text, "\nconfiguration 3 is {") || strings.Contains(text, "configuration 1 is") {
		t.Error(text)
	}
}

// Configurations that are given take the place of those that are made. Their secrets, and what they name, are made up.
func TestCallersConfigurations(t *testing.T) {
	given := hosttest.Config{"key_id": "{{ get_variable('id') }}", "secret": `{{ get_secret("acme") }}`}
	report := conform(t, given)
	if !report.Conforms {
		t.Errorf("report = %s", report)
	}
	report = conform(t, given, hosttest.Config{"key_id": "k1"})
	last := report.Checks[len(report.Checks)-1]
	if report.Conforms || last.Name != "configurations" || len(last.Findings) != 1 || !strings.Contains(last.Findings[0], "configuration 2 is refused: ") {
		t.Errorf("report = %s", report)
	}
}

// A secret that a configuration holds itself is in no part of the report.
func TestReportHasNoSecrets(t *testing.T) {
	const secret = "a-secret-of-the-file"
	for _, config := range []hosttest.Config{{"key_id": "k1", "secret": secret}, {"key_id": "not a token", "secret": secret}} {
		report := conform(t, config)
		document, err := json.Marshal(report)
		if err != nil || strings.Contains(string(document), secret) || strings.Contains(report.String(), secret) {
			t.Errorf("document = %s, err = %v", document, err)
		}
	}
}

func TestBadModule(t *testing.T) {
	report, err := Run(t.Context(), hosttest.Module{Name: "text.wasm", Wasm: []byte("text")})
	if err != nil || report.Conforms || len(report.Checks) != 1 || !strings.Contains(report.Checks[0].Findings[0], "the module is not loaded: ") {
		t.Errorf("err = %v\nreport = %s", err, report)
	}
}

func TestContext(t *testing.T) {
	wasm := testworld.Must(os.ReadFile(acme))(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if report, err := Run(ctx, hosttest.Module{Name: "acme.wasm", Wasm: wasm}); report != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("report = %v, err = %v", report, err)
	}
}

// A finding that occurs often is listed once, and of many different ones the first.
func TestFindingBounds(t *testing.T) {
	c := newConformer(t.Context(), hosttest.Module{}, nil)
	c.check(step{name: "many", run: func(_ *conformer, k *checking) {
		for i := range 50 {
			k.find("finding %d", i/2)
		}
	}})
	if got := c.report.Checks[0].Findings; len(got) != maxFindings+1 || got[0] != "finding 0" || !strings.HasPrefix(got[maxFindings], "and ") {
		t.Errorf("got = %q", got)
	}
}

// A secret is found in what a request holds, however it is encoded, and quotes around it have to be escaped.
func TestHolds(t *testing.T) {
	const secret = `a "quoted"/secret`
	for name, test := range map[string]struct {
		text         string
		found, exact bool
	}{
		"as it is":                {"Acme " + secret, true, true},
		"quoted":                  {`key="a \"quoted\"/secret", b=c`, true, true},
		"between quotes":          {`key="a "quoted"/secret", b=c`, true, false},
		"percent-encoded":         {"a%20%22quoted%22%2Fsecret", true, true},
		"of a form":               {"b=c&key=a+%22quoted%22%2Fsecret", true, true},
		"percent-encoded twice":   {`signature="a%2520%2522quoted%2522%252Fsecret%26"`, true, true},
		"in base64":               {"Basic bWU6YSAicXVvdGVkIi9zZWNyZXQ=", true, true},
		"in hex":                  {"612022717" + "56f746564222f736563726574", true, true},
		"in base64 of a form":     {"Basic YSslMjJxdW90ZWQlMjIlMkZzZWNyZXQ=", true, true},
		"only a part of it":       {`Acme a "quoted"`, false, false},
		"with other blanks":       {"a\u00a0\"quoted\"/secret", false, false},
		"nothing in a long token": {strings.Repeat("abcdefgh", 20), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if found, exact := findSecret(test.text, secret, 0); found != test.found || exact != test.exact {
				t.Errorf("found %v, exact %v", found, exact)
			}
		})
	}
}

// An example in an error of validate is tried.
func TestLearnExamples(t *testing.T) {
	m := &trial{c: newConformer(t.Context(), hosttest.Module{}, nil), examples: map[string][]string{}}
	m.learn("role_arn", "is not the ARN of a role: write it as in arn:aws:iam::123456789012:role/reports")
	m.learn("role_arn", "is no ARN, such as arn:aws:iam::1:role/a, or like \"x\"")
	if got := m.examples["role_arn"]; !slices.Equal(got, []string{"arn:aws:iam::123456789012:role/reports", "arn:aws:iam::1:role/a", "x"}) {
		t.Errorf("got = %q", got)
	}
}

// The checks find values for fields with rules: numbers in the range, and texts and secrets that match the pattern.
func TestSample(t *testing.T) {
	for _, pattern := range []string{
		`[a-z]{2}-[a-z]+-\d`, `(?:arn:aws[a-z-]*:iam::\d{12}:role/[^\n]+)`, `[^/ \t]+`, `AKIA[A-Z0-9]{16}`, `(?:[a-z]+\.)+(com|org)`, `a?b*c{0}|d`, `[^\x00-\x7f]`, `x{3,}`,
		`[ -\/]{40}`, ``,
	} {
		whole := regexp.MustCompile(`\A(?:` + pattern + `)\z`)
		for range 50 {
			if text := sample(pattern, rand.Text()); !whole.MatchString(text) {
				t.Fatalf("%q does not match %s", text, pattern)
			}
		}
	}
	if text := sample(`a[^\d\D]?b`, ""); text != "ab" {
		t.Errorf("a class without characters has %q", text)
	}
	if one, other := sample(`[a-z]+`, "a"), sample(`[a-z]+`, "b"); len(one) != 24 || one == other || one != sample(`[a-z]+`, "a") {
		t.Errorf("the secrets %q and %q could be guessed", one, other)
	}
	number := func(n int64) *int64 { return &n }
	for want, f := range map[string]abi.Field{
		"[3600 1 0]":  {},
		"[3600 1]":    {Minimum: number(1)},
		"[900 1]":     {Minimum: number(1), Maximum: number(900)},
		"[7200]":      {Minimum: number(7200)},
		"[-5]":        {Maximum: number(-5)},
		"[3600 2000]": {Minimum: number(2000)},
	} {
		if got := fmt.Sprint(integers(&f)); got != want {
			t.Errorf("%+v: got %s, want %s", f, got, want)
		}
	}
}

// A configuration has values that match, a value that is usual before one that is made up, and so have its secrets.
func TestPatterns(t *testing.T) {
	c := &conformer{ctx: context.Background(), secrets: map[string]string{}}
	c.info = host.PluginInfo{Description: abi.Description{Fields: []abi.Field{
		{Name: "region", Kind: abi.KindString, Pattern: `[a-z]+`, Suggested: []string{"A"}, PatternMessage: "m"},
		{Name: "account", Kind: abi.KindString, Pattern: `\d{12}`, PatternMessage: "m"},
		{Name: "pin", Kind: abi.KindString, Sealed: true, Pattern: `[0-9a-f]{32}`, PatternMessage: "m"},
	}}}
	m := &trial{c: c, examples: map[string][]string{}}
	if got := m.candidates(&c.info.Fields[0], nil); fmt.Sprint(got[0]) != "example" {
		t.Errorf("the region is one of %v", got)
	}
	if got := m.candidates(&c.info.Fields[1], nil); len(got) != 1 || !regexp.MustCompile(`^\d{12}$`).MatchString(fmt.Sprint(got[0])) {
		t.Errorf("the account is one of %v", got)
	}
	if c.secretOf(&c.info.Fields[2], "pin"); !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(c.secrets["pin"]) {
		t.Errorf("the secret is %s", c.secrets["pin"])
	}
	w := &writer{tree: map[string]any{}, token: func(name string) string { return name + ".1.1" }}
	w.put(&abi.Answer{Name: "code", Kind: contract.AnswerSealed, Pattern: `\d{6}`}, "json:/code")
	if code := fmt.Sprint(w.tree["code"]); !regexp.MustCompile(`^\d{6}$`).MatchString(code) || code != sample(`\d{6}`, "code.1.1") {
		t.Errorf("an endpoint answers with the code %s, want one of six digits that is the same in each host", code)
	}
}
