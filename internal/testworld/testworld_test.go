package testworld_test

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// hiding returns canaries that a test asks for their leaks itself.
func hiding(text string) *testworld.Canaries {
	var c testworld.Canaries
	c.Hide("the secret", text)
	return &c
}

// A secret that comes out is found in every form, also as a part of a longer text and in an error within an error.
func TestFoundSecret(t *testing.T) {
	const secret = `a+b/c "and" <more> of ~it`
	outs := map[string]string{}
	for _, form := range testworld.Forms(secret) {
		outs[form.Name] = form.Text
	}
	for _, around := range []string{"", "x", "xx", "xxx"} {
		outs["base64 within "+around] = base64.StdEncoding.EncodeToString([]byte(around + secret + around))
		outs["base64url within "+around] = base64.URLEncoding.EncodeToString([]byte(around + secret + around))
		outs["base32 within "+around] = base32.StdEncoding.EncodeToString([]byte(around + secret + around))
		wide := []byte("\x01" + around)
		for _, b := range []byte(secret) {
			wide = append(wide, b, 0)
		}
		outs["UTF-16 in a memory behind "+around] = testworld.Wide(wide)
	}
	inJSON := testworld.Must(json.Marshal(map[string]string{"a": secret}))(t)
	outs["JSON"] = string(inJSON)
	for name, out := range outs {
		c := hiding(secret)
		c.Out("the log", "before "+out+" after")
		if got := c.Leaks(); len(got) != 1 || !strings.HasPrefix(got[0], "the log holds the secret, ") || strings.Contains(got[0], secret) {
			t.Errorf("%s: got = %q", name, got)
		}
	}
	for name, err := range map[string]error{
		"alone": errors.New(secret), "within": fmt.Errorf("%.0w", errors.New(secret)), "joined": quiet{errors.New("a"), errors.New(secret)},
	} {
		c := hiding(secret)
		c.OutError("an error", err)
		if len(c.Leaks()) == 0 {
			t.Errorf("%s: nothing is found", name)
		}
	}
	c := hiding(secret)
	c.Out("the log", "a+b/c and more")
	c.OutError("no error", nil)
	c.Hide("a short text", "a+b/c")
	if got := c.Leaks(); len(got) != 0 {
		t.Errorf("without a secret: %q", got)
	}
}

// quiet are errors whose text says nothing of them.
type quiet []error

func (quiet) Error() string     { return "quiet" }
func (q quiet) Unwrap() []error { return q }
func (quiet) GoString() string  { return "quiet" }
func (quiet) Format(s fmt.State, _ rune) {
	_, _ = s.Write([]byte("quiet"))
}

// A server keeps the requests that it receives, and its answer can still read the body.
func TestAServerKeepsRequests(t *testing.T) {
	s := testworld.NewServer(testworld.Tokens(60))
	for i := range 2 {
		r := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, "https://login.test/token", strings.NewReader(fmt.Sprintf("n=%d", i))))(t)
		response, err := s.RoundTrip(r)
		if err != nil || response.Request != r {
			t.Fatalf("response = %+v, err = %v", response, err)
		}
		var token struct {
			AccessToken string `json:"access_token"`
		}
		if err := json.NewDecoder(response.Body).Decode(&token); err != nil || token.AccessToken != fmt.Sprintf("t%d", i+1) {
			t.Errorf("the token is %+v, %v", token, err)
		}
		_ = response.Body.Close()
	}
	if got := s.Last(); s.Count() != 2 || got.Form().Get("n") != "1" || got.Method != http.MethodPost || got.URL != "https://login.test/token" {
		t.Errorf("the server received %+v", got)
	}
}

func TestFinder(t *testing.T) {
	var f testworld.Finder
	f.Find("abcdefgh", func(int) { t.Error("an empty Finder found a text") })
	for _, text := range []string{"abcd", "abcdef", "bcde", "zzzz", "\x00\x00\x00\xff"} {
		f.Add(text)
	}
	for text, want := range map[string][]int{
		"":                     nil,
		"abc":                  nil,
		"abcd":                 {0},
		"xabcdefz":             {0, 1, 2},
		"abcde abcd":           {0, 2, 0},
		"zzzzz":                {3, 3},
		"\x00\x00\x00\x00\xff": {4},
	} {
		var got []int
		f.Find(text, func(n int) { got = append(got, n) })
		if !slices.Equal(got, want) {
			t.Errorf("the texts found in %q = %v, want %v", text, got, want)
		}
	}
}
