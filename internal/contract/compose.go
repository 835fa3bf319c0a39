package contract

import (
	"slices"
	"strings"
)

// placeholders are those of a template of [UserCompose] that stand alone.
const placeholders = " method scheme host hostname port authority path query target url content_length body timestamp timestamp_ms iso8601 nonce "

// argumentPlaceholders are those that have a colon and an argument.
const argumentPlaceholders = " header headers header_names path query_names query_param time config "

// composeFormats are the words that may follow a placeholder: the algorithms of [UserDigest], the formats of [UserEncode], and
// [Required].
const composeFormats = " md5 sha1 sha256 sha384 sha512 sha512_256 base64 base64url base64url_padded base32 hex hex_upper percent form quoted" +
	" lower upper path_normalized path_percent path_reencoded query_sorted query_joined query_lines nonzero required "

// ComposeEscape are the characters that are special in a template of [UserCompose].
const ComposeEscape = `\{`

// Required is the word behind a placeholder that ends the call if the request lacks what the placeholder stands for.
const Required = "required"

// ScanTemplate divides a template of [UserCompose] into its parts, from left to right. It calls literal with texts whose escapes
// are replaced, and placeholder with what stands between braces. It returns what is wrong with the template, or "". If placeholder
// returns a problem, the scan ends with that.
func ScanTemplate(template string, literal func(text string), placeholder func(text string) (problem string)) (problem string) {
	const names, characters = `ntr\{`, "\n\t\r\\{"
	for template != "" {
		i := strings.IndexByte(template, '{')
		if i < 0 {
			i = len(template)
		}
		if k := strings.IndexByte(template[:i], '\\'); k >= 0 {
			i = k
		}
		if i > 0 {
			literal(template[:i])
			template = template[i:]
			continue
		}
		if template[0] == '{' {
			end := strings.IndexByte(template, '}')
			if end < 0 {
				return `has a { without a }: write \{ for the character`
			}
			if problem := placeholder(template[1:end]); problem != "" {
				return problem
			}
			template = template[end+1:]
			continue
		}
		k := -1
		if len(template) > 1 {
			k = strings.IndexByte(names, template[1])
		}
		if k < 0 {
			return `has a \ before another character than n, t, r, \ and {: write \\ for the character`
		}
		literal(characters[k : k+1])
		template = template[2:]
	}
	return ""
}

// CheckTemplate returns what is wrong with a template of [UserCompose], or "". values are the names of the values that come with
// it.
func CheckTemplate(template string, values ...string) string {
	return ScanTemplate(template, func(string) {}, func(text string) string { return CheckPlaceholder(text, values) })
}

// CheckPlaceholder returns what is wrong with the text between braces of a template, or "". values are names of values.
func CheckPlaceholder(text string, values []string) string {
	word, rest, more := strings.Cut(text, "|")
	name, argument, _ := strings.Cut(word, ":")
	switch {
	case slices.Contains(values, word):
	case name == "header" && Unseen(argument):
		return "has {" + text + "}, which plugins do not see"
	case argument != "" && listed(argumentPlaceholders, name):
	case !listed(placeholders, word):
		return "has {" + text + "}, but there is no such placeholder: there are" + placeholders +
			"and, with a colon and an argument," + argumentPlaceholders + `(write \{ for the character)`
	}
	for more {
		if word, rest, more = strings.Cut(rest, "|"); !listed(composeFormats, word) {
			return "has {" + text + "}, but there is no format " + word + ":" + composeFormats + "are known"
		}
	}
	return ""
}

// Unseen reports whether a header is one that plugins do not see.
func Unseen(name string) bool {
	return strings.EqualFold(name, "Authorization") || strings.EqualFold(name, "Cookie") || strings.EqualFold(name, "Proxy-Authorization")
}

// listed reports whether a list has a word.
func listed(list, word string) bool {
	return strings.IndexByte(word, ' ') < 0 && strings.Contains(list, " "+word+" ")
}

// FormatTime returns a time in UTC, from 1970 on and given in Unix milliseconds, in a format with some of the conversions of
// strftime: %Y, %m, %d, %H, %M, %S, %a and %b for names in English, %s for Unix seconds, %L for milliseconds, and %%. All else
// stays as it is. Package time would be most of a plugin.
//
//go:noinline
func FormatTime(millis int64, format string) string {
	seconds := millis / 1000
	days, rest := seconds/86400, seconds%86400
	year, month, day := civil(days)
	var array [48]byte
	b := array[:0]
	for i := 0; i < len(format); i++ {
		literal, n, width := format[i:i+1], int64(0), 0
		if literal == "%" && i+1 < len(format) {
			i++
			switch format[i] {
			case 'Y':
				n, width = year, 4
			case 'm':
				n, width = month, 2
			case 'd':
				n, width = day, 2
			case 'H':
				n, width = rest/3600, 2
			case 'M':
				n, width = rest/60%60, 2
			case 'S':
				n, width = rest%60, 2
			case 'L':
				n, width = millis%1000, 3
			case 's':
				n, width = seconds, 1
			case 'a':
				weekday := days % 7 * 3 // 1 January 1970 was a Thursday
				literal = "ThuFriSatSunMonTueWed"[weekday : weekday+3]
			case 'b':
				literal = "JanFebMarAprMayJunJulAugSepOctNovDec"[month*3-3 : month*3]
			case '%':
			default:
				literal = format[i-1 : i+1]
			}
		}
		if width > 0 {
			b, literal = appendDecimal(b, n, width), ""
		}
		b = append(b, literal...)
	}
	return string(b)
}

// civil returns the date of a day since 1 January 1970 in the Gregorian calendar. It counts years from March, so that a leap
// day is the last of its year.
func civil(days int64) (year, month, day int64) {
	days += 719468 // from 1 March 0000
	era, rest := days/146097, days%146097
	y := (rest - rest/1460 + rest/36524 - rest/146096) / 365
	rest -= 365*y + y/4 - y/100
	m := (5*rest + 2) / 153
	year, month, day = era*400+y, m+3, rest-(153*m+2)/5+1
	if month > 12 {
		year, month = year+1, month-12
	}
	return year, month, day
}

// appendDecimal appends a number that is not negative with at least width digits.
//
//go:noinline
func appendDecimal(b []byte, n int64, width int) []byte {
	var text [20]byte
	i := len(text)
	for n > 0 || len(text)-i < width {
		i--
		text[i] = byte('0' + n%10)
		n /= 10
	}
	return append(b, text[i:]...)
}
