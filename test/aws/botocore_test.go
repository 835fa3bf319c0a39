package aws

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
)

// python is the interpreter of Debian, which has the packages that apt installs. PATH may name another one first.
const python = "/usr/bin/python3"

// order is a request for botocore to sign.
type order struct {
	Method   string      `json:"method"`
	URL      string      `json:"url"`
	Headers  [][2]string `json:"headers"`
	Body     []byte      `json:"body"`
	ID       string      `json:"id"`
	Secret   string      `json:"secret"`
	Token    string      `json:"token"`
	Region   string      `json:"region"`
	Service  string      `json:"service"`
	S3       bool        `json:"s3"`
	In       string      `json:"in"`
	Expires  int         `json:"expires"`
	Unsigned bool        `json:"unsigned"`
	Time     string      `json:"time"`
}

// signAll returns what botocore makes of orders, all in one process.
func signAll(t *testing.T, orders []order) []any {
	t.Helper()
	if output, err := exec.CommandContext(t.Context(), python, "-c", "import botocore").CombinedOutput(); err != nil {
		t.Fatalf("%s cannot import botocore: install the package python3-botocore (apt-get install python3-botocore): %v\n%s", python, err, output)
	}
	var input, failure bytes.Buffer
	for i := range orders {
		testworld.Check(t, json.NewEncoder(&input).Encode(&orders[i]))
	}
	command := exec.CommandContext(t.Context(), python, "testdata/sign.py")
	command.Stdin, command.Stderr = &input, &failure
	output, err := command.Output()
	if err != nil {
		t.Fatalf("err = %v\nfailure = %s", err, failure.String())
	}
	answers := make([]any, 0, len(orders))
	for line := range bytes.Lines(output) {
		var answer any
		testworld.Check(t, json.Unmarshal(line, &answer))
		answers = append(answers, answer)
	}
	if len(answers) != len(orders) {
		t.Fatalf("%d answers to %d orders", len(answers), len(orders))
	}
	return answers
}

// draw makes random orders.
type draw struct{ *rand.Rand }

func (d draw) of(list ...string) string { return list[d.IntN(len(list))] }

// text returns up to n parts, of which some need an encoding.
func (d draw) text(n int) string {
	text := ""
	for range d.IntN(n + 1) {
		text += d.of("a", "B", "z9", "-", "_", ".", "~", " ", "+", "%", "/", "&", "=", "?", "#", "é", "日本", "😀", ":", "@", ";", ",", "!", "'", "(", "*", "\"", "<", "\\", "|", "x-amz", "%2F")
	}
	return text
}

func (d draw) url(order *order) string {
	address := "https://" + d.of("api.test", "bucket.s3.eu-central-1.amazonaws.com", "api.test:8443")
	for range d.IntN(5) {
		segment := strings.ReplaceAll(url.QueryEscape(d.text(4)), "+", "%20")
		if order.S3 {
			segment = strings.ReplaceAll(segment, "%2F", "/") // botocore signs a %2F as it is, and stores sign the slash of the key
		}
		if d.IntN(4) == 0 {
			segment = d.of("", ".", "..", "a")
		}
		if !order.S3 && d.IntN(6) == 0 {
			segment += d.of(":", "@", "!", "$", "&", "'", "(", ")", "*", "+", ",", ";", "=") // S3 signs the path as it is
		}
		address += "/" + segment
	}
	if d.IntN(3) > 0 {
		address += d.of("", "/", "//")
	}
	if !strings.Contains(strings.TrimPrefix(address, "https://"), "/") {
		address += "/"
	}
	for i := range d.IntN(5) {
		name := strings.ReplaceAll(url.QueryEscape(d.text(3)), "+", "%20")
		if order.In == "query" || name == "" {
			name += fmt.Sprint(i) // botocore presigns no query with two parameters of one name
		}
		address += map[bool]string{true: "?", false: "&"}[i == 0] + name + "=" + strings.ReplaceAll(url.QueryEscape(d.text(5)), "+", "%20")
	}
	return address
}

func (d draw) order() order {
	letters := func(n int) string {
		text := ""
		for range n {
			text += string(rune('A' + d.IntN(26)))
		}
		return text
	}
	o := order{
		Method: d.of("GET", "PUT", "POST", "DELETE", "PATCH", "HEAD"), ID: "AKIA" + letters(16), Secret: letters(10) + "/+" + letters(28),
		Region: d.of("us-east-1", "eu-central-1", "cn-north-1", "us-gov-west-1"), Service: d.of("execute-api", "es", "dynamodb", "s3", "s3", "s3-outposts"),
		In: d.of("header", "query"), Expires: 1 + d.IntN(604800), Unsigned: d.IntN(4) == 0,
		Time: time.Unix(951782400+d.Int64N(3e9), 0).UTC().Format(stamp),
	}
	o.S3 = strings.HasPrefix(o.Service, "s3")
	if d.IntN(2) == 0 {
		o.Token = letters(60) + "/+=" + letters(1+d.IntN(400)) + "=="
	}
	o.URL = d.url(&o)
	if o.Method[0] == 'P' && o.In == "header" { // botocore presigns no body
		o.Body = make([]byte, 1+d.IntN(300))
		for i := range o.Body {
			o.Body[i] = byte(d.Uint32())
		}
		o.Headers = append(o.Headers, [2]string{"Content-Length", fmt.Sprint(len(o.Body))})
	}
	for range d.IntN(6) {
		value := d.of("", " ", "  ") + d.of("a", "b  c", "d\t e", "\"q  q\"", "é", "1, 2") + d.of("", " ", "  f ")
		o.Headers = append(o.Headers, [2]string{d.of("Accept", "Content-Type", "X-Amz-Target", "X-Amz-Meta-A", "X-Amz-Meta-B", "X-A-B", "X-A", "Range", "User-Agent"), value})
	}
	return o
}

const stamp = "20060102T150405Z"

// request returns the request of an order. A server sends the length on its own.
func (o *order) request(t *testing.T) *http.Request {
	t.Helper()
	r := testworld.Must(http.NewRequestWithContext(t.Context(), o.Method, o.URL, bytes.NewReader(o.Body)))(t)
	for _, header := range o.Headers {
		if header[0] != "Content-Length" {
			r.Header.Add(header[0], header[1])
		}
	}
	return r
}

// The plugin signs 2,000 random requests as botocore does, in Authorization and in the query.
func TestBotocoreSignsTheSame(t *testing.T) {
	const seed = 20260102
	d := draw{rand.New(rand.NewPCG(seed, seed))} //nolint:gosec // the requests of every run are the same
	orders := make([]order, 2000)
	for i := range orders {
		orders[i] = d.order()
	}
	w := newAccount(t, "awssigv4")
	different := 0
	for i, want := range signAll(t, orders) {
		o := &orders[i]
		now, _ := time.Parse(stamp, o.Time)
		w.SetTime(now)
		w.SetSecret("key", o.Secret)
		config := map[string]any{
			"access_key_id": o.ID, "secret_access_key": "{{ get_secret('key') }}", "region": o.Region, "service": o.Service, "in": o.In,
			"expires_seconds": o.Expires, "unsigned_payload": o.Unsigned,
		}
		if o.Token != "" {
			w.SetSecret("token", o.Token)
			config["session_token"] = "{{ get_secret('token') }}"
		}
		got, err := w.Sign(o.request(t), "aws_sigv4", config)
		if err != nil {
			t.Fatalf("%+v: err = %v", o, err)
		}
		if text := got.Header.Get("Authorization"); o.In == "header" && text != want {
			different++
			t.Errorf("%+v:\n%s, not\n%s", o, text, want)
		}
		if query, ok := want.(map[string]any); ok {
			for name, value := range got.URL.Query() {
				if strings.HasPrefix(name, "X-Amz-") && value[0] != query[name] {
					different++
					t.Errorf("%+v: %s is\n%s, not\n%s", o, name, value[0], query[name])
				}
			}
		}
		if different > 5 {
			t.FailNow()
		}
	}
}

// The plugin signs AssumeRole as botocore does.
func TestBotocoreAssumesTheSameRole(t *testing.T) {
	const seed = 20260103
	d := draw{rand.New(rand.NewPCG(seed, seed))} //nolint:gosec // the requests of every run are the same
	var orders []order
	var got []string
	w := newAccount(t, "awsassumerole")
	w.Answer = `{"AssumeRoleResponse":{"AssumeRoleResult":{"Credentials":{"AccessKeyId":"ASIA","SecretAccessKey":"secret","SessionToken":"token","Expiration":4102444800}}}}`
	for i := range 200 {
		o := d.order()
		now, _ := time.Parse(stamp, o.Time)
		w.SetTime(now)
		w.SetSecret("key", o.Secret)
		w.SetSecret("external", "x"+d.text(9))
		config := map[string]any{
			"access_key_id": o.ID, "secret_access_key": "{{ get_secret('key') }}", "region": o.Region, "service": "execute-api",
			"role_arn": "arn:aws:iam::1:role/" + fmt.Sprint(i), "sts_url": "https://sts.test/", "external_id": "{{ get_secret('external') }}", "role_session_name": "s" + d.text(9),
		}
		if o.Token != "" {
			w.SetSecret("token", o.Token)
			config["session_token"] = "{{ get_secret('token') }}"
		}
		r := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.test/", nil))(t)
		if _, err := w.Sign(r, "aws_assume_role", config); err != nil {
			t.Fatalf("%+v: err = %v", config, err)
		}
		got = append(got, w.Exchanged.Header.Get("Authorization"))
		orders = append(orders, order{
			Method: http.MethodPost, URL: "https://sts.test/", Headers: [][2]string{{"Content-Type", w.Exchanged.Header.Get("Content-Type")}}, Body: w.Body,
			ID: o.ID, Secret: o.Secret, Token: o.Token, Region: o.Region, Service: "sts", In: "header", Time: o.Time,
		})
	}
	for i, want := range signAll(t, orders) {
		if got[i] != want {
			t.Errorf("%s:\n%s, not\n%s", orders[i].Body, got[i], want)
		}
	}
}

func newAccount(t *testing.T, plugin string) *Account {
	t.Helper()
	w, err := New(t.Context(), plugin)
	if err != nil {
		t.Fatalf("%v; `make plugins` builds it", err)
	}
	t.Cleanup(func() { testworld.Check(t, w.Close()) })
	return w
}
