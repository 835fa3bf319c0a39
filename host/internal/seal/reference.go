package seal

import (
	"errors"
	"io"
	"strings"

	"github.com/keywright/keywright/abi"
)

// next finds the first reference in text at or after from: the prefix and exactly abi.SealedLength characters of the
// alphabet, whatever follows them. It gives -1 when there is none. The prefix can begin neither inside itself nor
// inside the characters that follow it, so the leftmost match is the only way to read a text.
func next(text string, from int) int {
	for {
		i := strings.Index(text[from:], abi.SealedPrefix)
		if i < 0 || len(text)-from-i < refLength {
			return -1
		}
		from += i
		if alphabetic(text[from+len(abi.SealedPrefix) : from+refLength]) {
			return from
		}
		from += len(abi.SealedPrefix)
	}
}

// alphabetic reports whether text has no character outside abi.SealedAlphabet.
func alphabetic(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// source makes references of random bytes, which it reads ahead.
type source struct {
	reader io.Reader
	buffer [2 * 32]byte
	unread int // bytes at the end of buffer
}

// fair is the number of byte values that fall evenly on the alphabet; the few beyond it are drawn again.
const fair = 256 - 256%len(abi.SealedAlphabet)

// draws bounds the bytes for one reference. A fair source needs 27; only a broken one ever comes near.
const draws = 1024

func (s *source) reference() (string, error) {
	var ref [refLength]byte
	n := copy(ref[:], abi.SealedPrefix)
	for range draws {
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
			ref[n] = abi.SealedAlphabet[b%len(abi.SealedAlphabet)]
			n++
		}
	}
	return "", errors.New("the source of randomness gives nothing of use")
}
