package signing

import (
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// begin, end and dashes are parts of the lines around a block of PEM.
const begin, end, dashes = "-----BEGIN ", "-----END ", "-----"

// lineBreaks replaces the ways in which shells, panels and JSON write line breaks. Some escape them twice.
var lineBreaks = strings.NewReplacer("\r\n", "\n", "\r", "\n", `\\r`, "", `\\n`, "\n", `\r`, "", `\n`, "\n")

// PEM returns the blocks of a PEM text (RFC 7468), in order. It also reads what environment variables, forms and Helm leave of
// one: with a byte order mark, in quotes, indented, and with line breaks that are escaped, are spaces, or are lost. Otherwise,
// problem says what is wrong, and where.
func PEM(text string) (blocks []*pem.Block, problem string) {
	text = lineBreaks.Replace(text)
	for offset := 0; ; {
		first := strings.Index(text[offset:], begin)
		if first < 0 {
			return blocks, ""
		}
		offset += first + len(begin)
		label, rest, ok := strings.Cut(text[offset:], dashes)
		body, tail, closed := strings.Cut(rest, end+label+dashes)
		if !ok || !closed || strings.Contains(body, begin) {
			return nil, fmt.Sprintf("is damaged PEM: the block that begins in line %d has no end: copy the whole text again", lineOf(text, offset))
		}
		start := len(text) - len(rest)
		block := &pem.Block{Type: label, Headers: map[string]string{}}
		if problem = decodePEM(block, text, start, start+len(body)); problem != "" {
			return nil, problem
		}
		blocks, offset = append(blocks, block), len(text)-len(tail)
	}
}

// decodePEM sets the headers (RFC 1421 section 4.6) and the bytes of a block, whose body is text[start:stop].
func decodePEM(block *pem.Block, text string, start, stop int) (problem string) {
	for {
		line, _, _ := strings.Cut(strings.TrimLeft(text[start:stop], " \t\n"), "\n")
		name, value, found := strings.Cut(line, ":")
		if !found {
			break
		}
		block.Headers[name] = value
		start += strings.Index(text[start:stop], line) + len(line)
	}
	if strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED") {
		return ""
	}
	body := text[start:stop]
	der, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(body), ""))
	block.Bytes = der
	var corrupt base64.CorruptInputError
	switch {
	case err == nil && (lengthOf(der) > 0 || blockProblem(block) != ""):
		return ""
	case shortLine(body) > 0:
		start += shortLine(body)
	case errors.As(err, &corrupt) && offsetOf(body, int(corrupt)) < len(body):
		start += offsetOf(body, int(corrupt))
	default:
		return "is damaged PEM: some of it is missing: copy the whole text again"
	}
	return fmt.Sprintf("is damaged PEM, in line %d: copy the whole text again", lineOf(text, start))
}

// lineOf returns the number of the line of text[offset], from 1.
func lineOf(text string, offset int) int { return 1 + strings.Count(text[:offset], "\n") }

// offsetOf returns the index of byte n of a text without its white space, in the text itself.
func offsetOf(text string, n int) int {
	for i, r := range text {
		if !unicode.IsSpace(r) {
			if n -= utf8.RuneLen(r); n < 0 {
				return i
			}
		}
	}
	return len(text)
}

// shortLine returns the index of the first line that is shorter than others, or 0. Lines of PEM are equally long, but for the last
// one (RFC 7468 section 2).
func shortLine(body string) (offset int) {
	lines, longest := strings.Split(strings.TrimSpace(body), "\n"), 0
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
		longest = max(longest, len(lines[i]))
	}
	for _, line := range lines[:len(lines)-1] {
		if len(line) < longest {
			return strings.Index(body, line)
		}
	}
	return 0
}

// lengthOf returns the length of the value of ASN.1 at the beginning of der, or 0 if there is none, or only a part of one.
func lengthOf(der []byte) int {
	var value asn1.RawValue
	if _, err := asn1.Unmarshal(der, &value); err != nil {
		return 0
	}
	return len(value.FullBytes)
}
