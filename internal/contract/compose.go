package contract

import (
	"slices"
	"strings"
)

// placeholders are those of a template of [UserCompose] that stand alone.
const placeholders = " method scheme host hostname port authority path query target url content_length body timestamp timestamp_ms iso8601 nonce "

// argumentPlaceholders are those that have a colon and an argument.
const argumentPlaceholders = " header headers header_names query_param time config "

// composeFormats are the words that may follow a placeholder: the algorithms of [UserDigest], the formats of [UserEncode], and
// [Required].
const composeFormats = " md5 sha1 sha256 sha384 sha512 sha512_256 base64 base64url base64url_padded base32 hex hex_upper percent form quoted" +
	" lower upper path_normalized path_percent path_reencoded query_sorted required "

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
