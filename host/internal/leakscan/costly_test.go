//go:build !race

// Under the race detector these tests take long, and nothing in them runs concurrently. make test runs them without it.

package leakscan

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// The search for many long credentials takes not many more steps than that for one short credential, in whatever way the
// answer is written, and also if its author knows the credentials. threats.md 81
func TestLongCredentialsMakeNoMoreWork_threats_81(t *testing.T) {
	const size = 1 << 13
	few, one := map[string]budget{}, New(credentials(1, 20))
	answers(credentials(1, 20), size, func(name string, data []byte) {
		few[name], _ = work(one, data)
	})
	many := New(credentials(16, 4000))
	answers(credentials(16, 4000), size, func(name string, data []byte) {
		got, stopped := work(many, data)
		if got > max(3*few[name], 2*size) || got > 6*size || got < size/maxWindow || stopped {
			t.Errorf("%s: %.2f steps for each byte, %.2f for a short credential, stopped %t", name, float64(got)/size, float64(few[name])/size, stopped)
		}
	})
}

// An author of both the credential and the answer can make every byte a possible beginning of a match. Such an answer is
// stopped when its budget is used up. threats.md 81
func TestWorkHasABound_threats_81(t *testing.T) {
	texts := map[string]string{
		"one character": strings.Repeat("a", 999) + "b", "two": strings.Repeat("ab", 500) + "c", "percent": strings.Repeat("%25%", 250) + "x",
		"backslashes": strings.Repeat(`\`, 999) + "x", "references": strings.Repeat("&amp;", 200) + "x", "lines": strings.Repeat("\x00\x10\x83", 300) + "x",
	}
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			f := New([]string{text})
			for _, way := range []string{"as it is", "percent", "JSON", "HTML, decimal", "octal", "Base64, lines"} {
				data := escapes[way](strings.Repeat(text[:len(text)-1], 1+1<<13/len(text)))[:1<<13]
				expectBounded(t, f, way, data, 100)
				if err := expectBounded(t, f, way, data, 32<<10); (name == "one character" || name == "two") && err == nil {
					t.Errorf("%s: every byte may be the beginning of the text, and it is passed on: %v", way, err)
				}
				expectBounded(t, f, way, data[:1<<10], 1)
			}
		})
	}
}

func expectBounded(t *testing.T, f *Scanner, way, data string, chunk int) error {
	t.Helper()
	b := f.Body(&chunks{rest: split(data, chunk), end: io.EOF}, same).(*body)
	b.effort = 0 // only what the bytes earn
	_, err := io.Copy(io.Discard, b)
	if err != nil && !errors.Is(err, ErrFound) && !errors.Is(err, ErrEffort) {
		t.Errorf("%s, by %d: %v", way, chunk, err)
	}
	if b.effort < -1000 {
		t.Errorf("%s, by %d: %d steps more than there were", way, chunk, -b.effort)
	}
	return err
}

// An answer that holds most of a credential once is passed on, in pieces of any size.
func TestPartialCredentialPassed(t *testing.T) {
	text := credentials(1, 1000)[0]
	f := New([]string{text})
	for way, encode := range escapes {
		sent := encode(text[:990]) + "~" + encode("and more")
		for _, chunk := range []int{150, 1400} {
			var got strings.Builder
			if _, err := io.Copy(&got, f.Body(&chunks{rest: split(sent, chunk), end: io.EOF}, same)); err != nil || got.String() != sent {
				t.Errorf("%s, by %d: %d bytes of %d, %v", way, chunk, got.Len(), len(sent), err)
			}
		}
	}
}
