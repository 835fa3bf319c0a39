package leakscan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

const tokenAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

func randomText(random *rand.Rand, alphabet string, n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = alphabet[random.IntN(len(alphabet))]
	}
	return string(text)
}

// documents returns bodies as in answers of APIs, of at least size bytes.
func documents(size int) map[string][]byte {
	random := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("the quick brown fox jumps over a lazy dog while many customers order things from our shop in Zürich")
	sentence := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(words[random.IntN(len(words))] + " ")
		}
		return b.String()
	}
	all := map[string][]byte{}
	fill := func(name string, record func() string) {
		var b bytes.Buffer
		for b.Len() < size {
			b.WriteString(record())
		}
		all[name] = b.Bytes()
	}
	fill("JSON", func() string {
		return fmt.Sprintf(`{"id":%d,"name":"%s","url":"https://api.test/v1/things/%d","etag":"%s","active":true},`,
			random.IntN(1e9), sentence(6), random.IntN(1e6), randomText(random, tokenAlphabet, 22))
	})
	fill("JSON with escapes", func() string {
		return fmt.Sprintf(`{"id":%d,"html":"\u003cp class=\"a\"\u003e%s\n\u003c\/p\u003e","url":"https:\/\/api.test\/v1\/things\/%d"},`,
			random.IntN(1e9), sentence(8), random.IntN(1e6))
	})
	fill("HTML", func() string {
		return fmt.Sprintf("<p class=\"a\"><a href=\"/v1/things?id=%d&amp;x=%%20y\">%s</a> &amp; &quot;%s&quot;</p>\n", random.IntN(1e6), sentence(5), sentence(9))
	})
	fill("text", func() string { return sentence(12) + "\n" })
	fill("Base64", func() string { return randomText(random, tokenAlphabet, 76) + "\n" })
	fill("binary", func() string {
		var b [64]byte
		for i := range b {
			b[i] = byte(random.IntN(256))
		}
		return string(b[:])
	})
	return all
}

// patterns returns a scanner of ten patterns of 20 to 60 bytes.
func patterns() *Scanner {
	random := rand.New(rand.NewPCG(3, 4))
	f := New([]string{randomText(random, tokenAlphabet, 20), randomText(random, tokenAlphabet, 30)})
	f.patterns = f.patterns[:10]
	return f
}

func BenchmarkScan(b *testing.B) {
	random := rand.New(rand.NewPCG(5, 6))
	for name, f := range map[string]*Scanner{
		"10 patterns":       patterns(),
		"a secret of 8":     New([]string{randomText(random, tokenAlphabet, 8)}),
		"a token of 800":    New([]string{"eyJhbGciOiJSUzI1NiJ9." + randomText(random, tokenAlphabet, 778)}),
		"a password of 16/": New([]string{`p/s+w "r&d%1<2\x`}),
	} {
		for kind, data := range documents(1 << 20) {
			b.Run(name+"/"+kind, func(b *testing.B) {
				b.SetBytes(int64(len(data)))
				for b.Loop() {
					left := budget(len(data) * earned)
					for rest := data; len(rest) > 0; rest = rest[min(len(rest), 32<<10):] {
						if found, _ := f.scan(rest[:min(len(rest), 32<<10)], 0, false, &left); found {
							b.Fatal("found")
						}
					}
				}
			})
		}
	}
}

func BenchmarkBody(b *testing.B) {
	f, data, buffer := patterns(), documents(1 << 20)["JSON"], make([]byte, 32<<10)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		body := f.Body(io.NopCloser(bytes.NewReader(data)), func(err error) error { return err })
		for {
			if _, err := body.Read(buffer); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkNew(b *testing.B) {
	random := rand.New(rand.NewPCG(7, 8))
	for _, n := range []int{32, 800, 4000} {
		token := "Bearer " + randomText(random, tokenAlphabet, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				New([]string{token, token[7:]})
			}
		})
	}
}
