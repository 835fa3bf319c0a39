package testworld

import (
	"encoding/binary"
	"strings"
)

// A Finder finds many texts in a longer one, in one pass. The zero value finds none.
type Finder struct {
	texts []string
	// first has a bit for each value that four bytes at the begin of a text may have, and byStart the texts with the same ones.
	first   [1 << 16 / 64]uint64
	byStart map[uint32][]int
}

// Add adds a text of at least four bytes. [Finder.Find] calls its found with the number of texts that were added before.
func (f *Finder) Add(text string) {
	if f.byStart == nil {
		f.byStart = map[uint32][]int{}
	}
	start := binary.LittleEndian.Uint32([]byte(text[:4]))
	f.first[bit(start)/64] |= 1 << (bit(start) % 64)
	f.byStart[start] = append(f.byStart[start], len(f.texts))
	f.texts = append(f.texts, text)
}

// Find calls found with each of the texts that occur in text, as often as they do.
func (f *Finder) Find(text string, found func(int)) {
	if len(f.texts) == 0 || len(text) < 4 {
		return
	}
	start := binary.LittleEndian.Uint32([]byte(text[:4])) << 8
	for i := range len(text) - 3 {
		start = start>>8 | uint32(text[i+3])<<24
		if f.first[bit(start)/64]&(1<<(bit(start)%64)) == 0 {
			continue
		}
		for _, n := range f.byStart[start] {
			if strings.HasPrefix(text[i:], f.texts[n]) {
				found(n)
			}
		}
	}
}

// bit returns the bit of four bytes in first.
func bit(start uint32) uint32 { return start * 2654435769 >> 16 }
