package embed

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The cache keeps its limits of entries and bytes, and drops the least recently used entries.
func TestCacheBound(t *testing.T) {
	c := newCache(10, 1000, time.Now)
	for i := range 1000 {
		url := fmt.Sprint(i % 37 % (1 + i%13))
		c.put(url, strings.Repeat("x", i*31%400), time.Hour)
		sum := 0
		for _, key := range c.entries.Keys() {
			e, _ := c.entries.Peek(key)
			sum += len(key) + len(e.embed)
		}
		if c.entries.Len() > 10 || c.bytes > 1000 || c.bytes != sum {
			t.Fatalf("%d entries, %d bytes, counted as %d", c.entries.Len(), sum, c.bytes)
		}
		if _, ok := c.get(url); !ok {
			t.Fatal("what was put in last is not there")
		}
	}
}
