package seal_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

var shape = regexp.MustCompile(`kw_[a-z0-9]{26}`)

const canary = "canary-7Qz0-not-to-be-seen"

// newTable returns an empty table.
func newTable() *seal.Table { return tableOf(rand.Reader) }

func tableOf(random io.Reader) *seal.Table {
	table := &seal.Table{}
	table.Init(random)
	return table
}

func sealed(t testing.TB, table *seal.Table, text string, sinks seal.Sinks) string {
	t.Helper()
	return testworld.Must(table.Seal(seal.Value{Text: text, Sinks: sinks, Mask: "<" + text + ">"}))(t)
}

// refused checks that err is the wanted *seal.Error, that its text contains text, and that it has no reference or value.
func refused(t *testing.T, err error, want seal.Error, text string) {
	t.Helper()
	var got *seal.Error
	if !errors.As(err, &got) || *got != want {
		t.Fatalf("error is %v, want one with %+v", err, want)
	}
	if !strings.Contains(err.Error(), text) {
		t.Errorf("error says %q, want it to say %q", err, text)
	}
	if strings.Contains(err.Error(), canary) || shape.MatchString(err.Error()) {
		t.Errorf("error holds a reference or its value: %q", err)
	}
}

func TestReferenceHasOneShapeWhateverItStandsFor(t *testing.T) {
	table := newTable()
	seen := map[string]bool{}
	for _, text := range []string{"", "x", strings.Repeat("long", 5000)} {
		ref := sealed(t, table, text, seal.Header)
		if shape.FindString(ref) != ref {
			t.Errorf("reference is %q", ref)
		}
		if seen[ref] {
			t.Errorf("reference %q twice", ref)
		}
		seen[ref] = true
	}
}

func TestReferencesUseTheWholeAlphabetEvenly(t *testing.T) {
	const references = 8000
	counts := map[rune]int{}
	for range references / 100 {
		table := newTable()
		for range 100 {
			for _, c := range sealed(t, table, "", 0)[len(contract.SealedPrefix):] {
				counts[c]++
			}
		}
	}
	if len(counts) != len(contract.SealedAlphabet) {
		t.Fatalf("%d different characters, want %d", len(counts), len(contract.SealedAlphabet))
	}
	// If bytes from fair on were not discarded, four characters would each occur 720 times more than expected. One
	// standard deviation is 75, so a bound between the two distinguishes chance from that mistake.
	want := references * contract.SealedLength / len(contract.SealedAlphabet)
	for c, n := range counts {
		if !strings.ContainsRune(contract.SealedAlphabet, c) || n < want-500 || n > want+500 {
			t.Errorf("%q came %d times, want about %d", c, n, want)
		}
	}
}

func TestFairDraw(t *testing.T) {
	random := slices.Repeat([]byte{252, 253, 254, 255, 0, 36, 251}, 64)
	ref := sealed(t, tableOf(strings.NewReader(string(random))), "", 0)
	if want := "kw_" + strings.Repeat("aa9", 9)[:26]; ref != want {
		t.Errorf("reference is %s, want %s", ref, want)
	}
}

// Each sink is enforced separately, and a caller that names no sink opens nothing (threats.md 15a).
func TestOpenEnforcesSinks(t *testing.T) {
	each := map[string]seal.Sinks{}
	for _, name := range contract.Sinks {
		s := testworld.Must(seal.ParseSinks([]string{name}))(t)
		each[name] = s
	}
	for has, sinks := range each {
		for into, sink := range each {
			t.Run(has+" into "+into, func(t *testing.T) {
				table := newTable()
				text := "Bearer " + sealed(t, table, canary, sinks)
				out, n, err := table.Open(text, sink)
				if has == into {
					if out != "Bearer "+canary || n != 1 || err != nil {
						t.Errorf("Open: %q, %d, %v", out, n, err)
					}
					return
				}
				if out != "" || n != 0 {
					t.Errorf("Open gave %q, %d beside its error", out, n)
				}
				refused(t, err, seal.Error{Reason: seal.OutOfReach, Sinks: sinks, Sink: sink},
					"a sealed value stands where its sinks ("+has+") do not reach: "+into)
			})
		}
		t.Run(has+" into nothing", func(t *testing.T) {
			table := newTable()
			ref := sealed(t, table, canary, sinks)
			_, _, err := table.Open(ref, 0)
			refused(t, err, seal.Error{Reason: seal.OutOfReach, Sinks: sinks}, "do not reach: none")
		})
	}
}

// If one of several values may not go to a place, none of them does (threats.md 15a).
func TestOpenPutsInAllOrNothing(t *testing.T) {
	table := newTable()
	token := sealed(t, table, canary, seal.Header)
	key := sealed(t, table, canary, seal.Sign)
	for _, text := range []string{token + key, key + token, token + " " + key + " " + token} {
		out, _, err := table.Open(text, seal.Header)
		if out != "" {
			t.Errorf("Open gave %q", out)
		}
		refused(t, err, seal.Error{Reason: seal.OutOfReach, Sinks: seal.Sign, Sink: seal.Header}, "(sign)")
	}
}

// A reference of another call is refused, even beside a live one (threats.md 15b).
func TestStaleReferences(t *testing.T) {
	before := newTable()
	stale := sealed(t, before, canary, seal.All)
	table := newTable()
	text := sealed(t, table, canary, seal.All) + stale

	_, _, err := table.Open(text, seal.Header)
	refused(t, err, seal.Error{Reason: seal.Dead, Sink: seal.Header}, "stands for none of this call: header")
	_, _, err = table.Combine(text)
	refused(t, err, seal.Error{Reason: seal.Dead}, "stands for none of this call")
	_, err = table.Split(text)
	refused(t, err, seal.Error{Reason: seal.Dead}, "stands for none of this call")
	refused(t, table.Plain(stale), seal.Error{Reason: seal.NotPlain}, "only plain text may")
}

func TestExactScan(t *testing.T) {
	table := newTable()
	ref := sealed(t, table, "S", seal.Header)
	tail := ref[len(contract.SealedPrefix):]
	dead := "kw_" + strings.Repeat("a", 24)
	for _, c := range []struct {
		name, text, want string
		opened           int
		reason           seal.Reason
	}{
		{"nothing", "", "", 0, 0},
		{"the reference alone", ref, "S", 1, 0},
		{"the alphabet goes on behind it", ref + "abc9", "Sabc9", 1, 0},
		{"the alphabet stands before it", "abc9" + ref, "abc9S", 1, 0},
		{"twice in a row", ref + ref, "SS", 2, 0},
		{"a prefix before it", "kw_" + ref, "kw_S", 1, 0},
		{"a begun reference before it", "kw_abc-" + ref, "kw_abc-S", 1, 0},
		{"a character short", ref[:len(ref)-1], ref[:len(ref)-1], 0, 0},
		{"a character short, then another", ref[:len(ref)-1] + "-" + ref, ref[:len(ref)-1] + "-S", 1, 0},
		{"capitals are none of it", strings.ToUpper(ref), strings.ToUpper(ref), 0, 0},
		{"a capital within", "kw_A" + tail[1:], "kw_A" + tail[1:], 0, 0},
		{"without its prefix", tail, tail, 0, 0},
		{"only the prefix", "kw_", "kw_", 0, 0},
		{"a letter beyond ASCII within", "kw_é" + tail[2:], "kw_é" + tail[2:], 0, 0},
		{"a dead one that swallows the next one's prefix", dead + ref, "", 0, seal.Dead},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, n, err := table.Open(c.text, seal.Header)
			var e *seal.Error
			if errors.As(err, &e) != (c.reason != 0) || e != nil && e.Reason != c.reason {
				t.Fatalf("error is %v", err)
			}
			if out != c.want || n != c.opened {
				t.Errorf("Open: %q, %d, want %q, %d", out, n, c.want, c.opened)
			}
			if plain := c.opened == 0 && c.reason == 0; (table.Plain(c.text) == nil) != plain {
				t.Errorf("Plain: %v", table.Plain(c.text))
			}
		})
	}
}

func TestInsertedTextNotScanned(t *testing.T) {
	table := newTable()
	inner := sealed(t, table, "inner", seal.Sign)
	outer := sealed(t, table, "a "+inner+" b", seal.Header)
	for _, text := range []string{outer, "x" + outer} {
		if out, n, err := table.Open(text, seal.Header); !strings.HasSuffix(out, "a "+inner+" b") || n != 1 || err != nil {
			t.Errorf("Open: %q, %d, %v", out, n, err)
		}
	}
	// Two adjacent values that together look like a reference are two values.
	pair := sealed(t, table, inner[:9], seal.Header) + sealed(t, table, inner[9:], seal.Header)
	if out, n, err := table.Open(pair, seal.Header); out != inner || n != 2 || err != nil {
		t.Errorf("Open: %q, %d, %v", out, n, err)
	}
}

// A value that is made from several others may go only where each of them may (threats.md 15a).
func TestCombineNarrowsTheSinks(t *testing.T) {
	table := newTable()
	id := sealed(t, table, "id", seal.Header|seal.Token)
	secret := sealed(t, table, "secret", seal.Token|seal.Claim)
	key := sealed(t, table, "key", seal.Sign)
	for _, c := range []struct {
		name, text string
		want       seal.Value
		sealed     bool
	}{
		{"plain", "a:b", seal.Value{Text: "a:b", Mask: "a:b"}, false},
		{"one alone", id, seal.Value{Text: "id", Sinks: seal.Header | seal.Token, Mask: "<id>", Size: 1024}, true},
		{"basic credentials", id + ":" + secret, seal.Value{Text: "id:secret", Sinks: seal.Token, Mask: "<id>:<secret>", Size: 2049}, true},
		{"nothing shared", id + key, seal.Value{Text: "idkey", Mask: "<id><key>", Size: 2048}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, ok, err := table.Combine(c.text)
			if !reflect.DeepEqual(v, c.want) || ok != c.sealed || err != nil {
				t.Fatalf("Combine: %q to %s, masked %s, sealed %t, %v", v.Text, v.Sinks, v.Mask, ok, err)
			}
		})
	}
	v, _, _ := table.Combine(id + ":" + secret)
	_, _, err := table.Open(sealed(t, table, v.Text, v.Sinks), seal.Header)
	refused(t, err, seal.Error{Reason: seal.OutOfReach, Sinks: seal.Token, Sink: seal.Header}, "(token)")
}

// A value that is repeatedly combined with itself reaches a limit before it fills the host's memory (threats.md 3).
func TestRepeatedSealingBound(t *testing.T) {
	table := newTable()
	ref := sealed(t, table, strings.Repeat("x", 1000), seal.Header)
	for range 3 {
		v, _, err := table.Combine(strings.Repeat(ref, 100))
		if err != nil {
			refused(t, err, seal.Error{Reason: seal.TooLong}, "too long")
			_, _, err = table.Open(strings.Repeat(ref, 100), seal.Header)
			refused(t, err, seal.Error{Reason: seal.TooLong}, "too long")
			break
		}
		if len(v.Mask) > 5000 {
			t.Fatalf("a mask of %d bytes", len(v.Mask))
		}
		ref = testworld.Must(table.Seal(v))(t)
	}
	_, err := table.Seal(seal.Value{Text: strings.Repeat("x", seal.MaxText+1)})
	refused(t, err, seal.Error{Reason: seal.TooLong}, "too long")

	total := 0
	for err = nil; err == nil && total <= seal.MaxHeld; total += seal.MaxText {
		_, err = table.Seal(seal.Value{Text: strings.Repeat("x", seal.MaxText)})
	}
	refused(t, err, seal.Error{Reason: seal.TooLong}, "too long")
}

// A text is cut in front of its first secret. A body is none.
func TestCutSecret(t *testing.T) {
	table := newTable()
	ref := sealed(t, table, "S", seal.Header)
	body := testworld.Must(table.Seal(seal.Value{Sinks: seal.Digest, Stream: stream("B")}))(t)
	for text, want := range map[string]string{
		"": "", "kw_x": "kw_x", "a" + ref: "a", ref + "a": "", "ab" + ref + "c" + ref: "ab", "a" + body: "a" + body, body + "b" + ref + body: body + "b",
	} {
		if open, secret := table.CutSecret(text); open != want || open+secret != text {
			t.Errorf("%q: %q and %q, want %q first", text, open, secret, want)
		}
	}
}

// Other calls get the text of a public value, which is no secret.
func TestSplitOfPublicValues(t *testing.T) {
	table := newTable()
	text := testworld.Must(table.Seal(seal.Value{Text: "GET", Sinks: seal.All, Public: true, Later: true}))(t)
	if pieces, err := table.Split("a " + text); err != nil || len(pieces) != 2 || pieces[1].Sealed || pieces[1].Text != "GET" {
		t.Errorf("%+v, %v, want plain text", pieces, err)
	}
}

// Pieces from one call are joined in another call with references of the latter (threats.md 29).
func TestSplitAndJoinAcrossCalls(t *testing.T) {
	first, second := newTable(), newTable()
	text := `{"t":"` + sealed(t, first, "T", seal.Header) + `","u":"` + sealed(t, first, "U", seal.Query) + `"}`
	pieces := testworld.Must(first.Split(text))(t)
	if len(pieces) != 5 || pieces[0].Text != `{"t":"` || !pieces[1].Sealed || pieces[1].Value.Text != "T" {
		t.Fatalf("pieces: %v", pieces)
	}
	again := testworld.Must(second.Join(pieces, &tokencache.Handle{}))(t)
	for _, ref := range shape.FindAllString(text, -1) {
		if strings.Contains(again, ref) {
			t.Error("the second call got a reference of the first")
		}
	}
	if v, _, err := second.Combine(again); v.Text != `{"t":"T","u":"U"}` || v.Sinks != 0 || err != nil {
		t.Errorf("Combine: %q, %s, %v", v.Text, v.Sinks, err)
	}
	_, _, err := second.Open(again, seal.Header)
	refused(t, err, seal.Error{Reason: seal.OutOfReach, Sinks: seal.Query, Sink: seal.Header}, "(query)")
}

func TestMask(t *testing.T) {
	table := newTable()
	ref := testworld.Must(table.Seal(seal.Value{Text: canary, Sinks: seal.Header, Mask: "{{ get_secret('x') }}"}))(t)
	bare := testworld.Must(table.Seal(seal.Value{Text: canary, Sinks: seal.Header}))(t)
	dead := "kw_" + strings.Repeat("z", 26)
	for text, want := range map[string]string{
		"plain":                            "plain",
		"Bearer " + ref:                    "Bearer {{ get_secret('x') }}",
		ref + "," + bare + "," + dead:      "{{ get_secret('x') }},<sealed>,<sealed>",
		"kw_short " + strings.ToUpper(ref): "kw_short " + strings.ToUpper(ref),
	} {
		if got := table.Mask(text); got != want {
			t.Errorf("Mask(%q) is %q, want %q", text, got, want)
		}
	}
}

func TestBrokenRandomnessSealsNothing(t *testing.T) {
	for name, random := range map[string]io.Reader{
		"none":            strings.NewReader(""),
		"too little":      strings.NewReader("only a few bytes"),
		"of no use":       repeat(0xff),
		"the same always": repeat(7),
	} {
		t.Run(name, func(t *testing.T) {
			table := tableOf(random)
			var err error
			for range 2 {
				if _, err = table.Seal(seal.Value{Text: canary}); err != nil {
					break
				}
			}
			if err == nil || strings.Contains(err.Error(), canary) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

type repeat byte

func (r repeat) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r)
	}
	return len(p), nil
}

func TestValuesGivesAllInOrder(t *testing.T) {
	table := newTable()
	var want []string
	for i := range 40 {
		want = append(want, fmt.Sprint("value ", i))
		sealed(t, table, want[i], seal.Header)
	}
	var got []string
	for v := range table.Values() {
		got = append(got, v.Text)
	}
	if !slices.Equal(got, want) {
		t.Errorf("Values: %q", got)
	}
	for range table.Values() {
		break
	}
}
