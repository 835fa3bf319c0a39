package seal

import (
	"errors"
	"io"
	"strings"

	"github.com/keywright/keywright/internal/contract"
)

// next returns the index of the first reference in text, or -1. A reference is the prefix and exactly contract.SealedLength
// characters of the alphabet, whatever follows them. The prefix cannot begin inside of the prefix, nor inside of the characters
// after it. So references cannot overlap, and the leftmost match is the only way to read a text.
func next(text string) int {
	for from := 0; ; from += len(contract.SealedPrefix) {
		i := strings.Index(text[from:], contract.SealedPrefix)
		if i < 0 || len(text)-from-i < refLength {
			return -1
		}
		from += i
		if alphabetic(text[from+len(contract.SealedPrefix) : from+refLength]) {
			return from
		}
	}
}

// alphabetic reports whether all characters of text are in contract.SealedAlphabet.
func alphabetic(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// source makes references from random bytes. It reads ahead.
type source struct {
	reader io.Reader
	buffer [2 * 32]byte
	// unread is the number of unused bytes, which are at the end of buffer.
	unread int
}

// fair is the largest multiple of the alphabet's length up to 256. A random byte from fair on is discarded, because its
// remainder would favour some characters.
const fair = 256 - 256%len(contract.SealedAlphabet)

// maxDraws bounds the number of bytes that are drawn for one reference. A good source needs about 27. Only a broken one
// reaches the bound.
const maxDraws = 1024

// reference returns a new random reference.
func (s *source) reference() (string, error) {
	var ref [refLength]byte
	n := copy(ref[:], contract.SealedPrefix)
	for range maxDraws {
		if n == refLength {
			return string(ref[:]), nil
		}
		if s.unread == 0 {
			if _, err := io.ReadFull(s.reader, s.buffer[:]); err != nil {
				return "", err
			}
			s.unread = len(s.buffer)
		}
		b := int(s.buffer[len(s.buffer)-s.unread])
		s.unread--
		if b < fair {
			ref[n] = contract.SealedAlphabet[b%len(contract.SealedAlphabet)]
			n++
		}
	}
	return "", errors.New("the source of randomness gives nothing of use")
}
