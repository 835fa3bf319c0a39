package imports

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxLine limits a command line.
const MaxLine = 1 << 20

// A splitter splits a command line into words, as sh does. It expands nothing.
type splitter struct {
	text  string
	at    int
	words []string
	word  strings.Builder
	begun bool
	// rest is the operator that ends the command, or "".
	rest string
}

// split returns the words of the first command of a line, and the operator that ends it, or "".
func split(line string) (words []string, operator string, err error) {
	if len(line) > MaxLine {
		return nil, "", fmt.Errorf("the command line is longer than %d KiB", MaxLine>>10)
	}
	s := &splitter{text: line}
	for s.at < len(s.text) && s.rest == "" {
		if err := s.step(); err != nil {
			return nil, "", err
		}
	}
	s.end()
	return s.words, s.rest, nil
}

func (s *splitter) end() {
	if s.begun {
		s.words = append(s.words, s.word.String())
	}
	s.word.Reset()
	s.begun = false
}

func (s *splitter) write(text string) {
	s.word.WriteString(text)
	s.begun = true
}

var errSubstitution = errors.New("the command line runs another command, by $(…) or `…`: write what that puts out, or any text in its place")

// step reads a character, or a text in quotes.
func (s *splitter) step() error {
	c := s.text[s.at]
	s.at++
	switch {
	case c == ' ' || c == '\t' || c == '\r':
		s.end()
	case c == '\n' && len(s.words) == 0 && !s.begun:
	case strings.IndexByte("\n;|&<>()", c) >= 0:
		s.rest = string(c)
	case c == '#' && !s.begun:
		s.rest = "#"
	case c == '\\':
		s.escaped()
	case c == '\'':
		return s.single()
	case c == '"':
		return s.double()
	case c == '$' && strings.HasPrefix(s.text[s.at:], "'"):
		s.at++
		return s.dollar()
	case c == '`' || c == '$' && strings.HasPrefix(s.text[s.at:], "("):
		return errSubstitution
	default:
		s.write(string([]byte{c}))
	}
	return nil
}

// escaped reads what follows a backslash outside of quotes. A line break is left out.
func (s *splitter) escaped() {
	for _, continuation := range []string{"\r\n", "\n"} {
		if strings.HasPrefix(s.text[s.at:], continuation) {
			s.at += len(continuation)
			return
		}
	}
	if s.at < len(s.text) {
		s.write(s.text[s.at : s.at+1])
		s.at++
	}
}

var errQuote = errors.New("a quote of the command line is not closed")

func (s *splitter) single() error {
	text, _, found := strings.Cut(s.text[s.at:], "'")
	if !found {
		return errQuote
	}
	s.at += len(text) + 1
	s.write(text)
	return nil
}

func (s *splitter) double() error {
	s.write("")
	for s.at < len(s.text) {
		c := s.text[s.at]
		s.at++
		switch {
		case c == '"':
			return nil
		case c == '`' || c == '$' && strings.HasPrefix(s.text[s.at:], "("):
			return errSubstitution
		case c == '\\' && s.at < len(s.text) && strings.IndexByte("\"\\$`\n", s.text[s.at]) >= 0:
			if s.text[s.at] != '\n' {
				s.write(s.text[s.at : s.at+1])
			}
			s.at++
		default:
			s.write(string([]byte{c}))
		}
	}
	return errQuote
}

var escapes = map[byte]string{
	'n': "\n", 't': "\t", 'r': "\r", 'a': "\a", 'b': "\b", 'f': "\f", 'v': "\v", 'e': "\x1b", 'E': "\x1b",
	'\\': "\\", '\'': "'", '"': "\"", '?': "?",
}

// dollar reads the rest of $'…', as browsers copy it.
func (s *splitter) dollar() error {
	s.write("")
	for s.at < len(s.text) {
		c := s.text[s.at]
		s.at++
		switch {
		case c == '\'':
			return nil
		case c != '\\' || s.at == len(s.text):
			s.write(string([]byte{c}))
		default:
			kind := s.text[s.at]
			s.at++
			s.write(s.dollarEscape(kind))
		}
	}
	return errQuote
}

func (s *splitter) dollarEscape(kind byte) string {
	if text, ok := escapes[kind]; ok {
		return text
	}
	digits := func(most, base int) (int64, bool) {
		n := 0
		for n < most && s.at+n < len(s.text) {
			if _, err := strconv.ParseUint(s.text[s.at+n:s.at+n+1], base, 8); err != nil {
				break
			}
			n++
		}
		value, err := strconv.ParseInt(s.text[s.at:s.at+n], base, 64)
		s.at += n
		return value, err == nil
	}
	switch kind {
	case 'x':
		if value, ok := digits(2, 16); ok {
			return string([]byte{byte(value)})
		}
	case 'u', 'U':
		if value, ok := digits(map[byte]int{'u': 4, 'U': 8}[kind], 16); ok && value <= utf8.MaxRune {
			return string(rune(value))
		}
	case '0', '1', '2', '3', '4', '5', '6', '7':
		s.at--
		if value, ok := digits(3, 8); ok {
			return string([]byte{byte(value)})
		}
	}
	return "\\" + string([]byte{kind})
}
