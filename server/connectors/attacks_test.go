package connectors

import (
	"fmt"
	"strings"
)

// claims is the beginning of a file with one connector, up to its claims.
const claims = "connectors:\n- name: A\n  url: https://a.example\n  auth:\n    type: jwt\n    config:\n      private_key: k\n      claims:\n"

// numbered repeats a format with numbers until it has n bytes.
func numbered(n int, format string) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// times repeats a text until it has n bytes.
func times(n int, text string) string { return strings.Repeat(text, max(1, n/len(text))) }

// listOf returns a file whose one connector has a list of n bytes as a claim, with the same text again and again.
func listOf(n int, text string) string {
	return claims + "        a:\n" + times(n, "        - "+text+"\n")
}

// many returns a file of connectors with n bytes. Each has further members.
func many(n int, members string) string {
	return "connectors:\n" + numbered(n, "- {name: A%[1]d, url: 'https://a.example', "+members+"}\n")
}

// withResponse returns a file of connectors with n bytes. Each has the members of a response.
func withResponse(n int, response string) string {
	return many(n, "auth: {type: none}, response: {"+response+"}")
}

// withMember returns a file of one connector, whose url has a query, with a member of n bytes: items with a number.
func withMember(n int, query, name, item string) string {
	return "connectors:\n- name: A\n  url: https://a.example" + query + "\n  auth: {type: none}\n  " + name + ":\n" + numbered(n, item)
}

// attacks are functions that return files of n bytes which might cost a reader more than their size.
var attacks = map[string]func(n int) string{
	"brackets":               func(n int) string { return times(n, "[") },
	"brackets behind quotes": func(n int) string { return times(n, `["]",`) },
	"braces":                 func(n int) string { return times(n, "{a: ") },
	"hyphens":                func(n int) string { return times(n, "- ") },
	"lists 98 deep": func(n int) string {
		return "a: [" + times(n, strings.Repeat("[", 97)+strings.Repeat("]", 97)+",") + "]"
	},
	"patterns of matches": func(n int) string {
		return withResponse(n, `filter: 'record matches "(?:.b){1000}"', body: 'body_text matches "(?:.b){1000}"'`)
	},
	"classes of patterns": func(n int) string {
		return withResponse(n, `filter: 'record matches "\\pL\\pL\\pL\\pL\\pL\\pL\\pL"'`)
	},
	"a list":                   func(n int) string { return "a: [" + times(n, "a,") + "]" },
	"empty lists":              func(n int) string { return "a: [" + times(n, "[],") + "]" },
	"a block list":             func(n int) string { return "a:\n" + times(n, "-\n") },
	"members":                  func(n int) string { return numbered(n, "a%d: b\n") },
	"members in braces":        func(n int) string { return "a: {" + numbered(n, "a%d: b,") + "}" },
	"members in JSON":          func(n int) string { return "{" + numbered(n, `"a%d":1,`) + `"b":1}` },
	"a list in JSON":           func(n int) string { return `{"a":[` + times(n, `1,`) + `1]}` },
	"JSON in JSON":             func(n int) string { return times(n, `{"a":`) + "1" + times(n, "}") },
	"names only":               func(n int) string { return "{" + times(n, "a,") + "}" },
	"question marks":           func(n int) string { return times(n, "? a\n") },
	"comments":                 func(n int) string { return times(n, "#\n") },
	"comments in a list":       func(n int) string { return "a: [" + times(n, "a, #\n") + "]" },
	"comments behind values":   func(n int) string { return "a:\n" + times(n, "- a #\n") },
	"documents":                func(n int) string { return times(n, "---\n") },
	"documents with text":      func(n int) string { return times(n, "--- a\n") },
	"ends of documents":        func(n int) string { return times(n, "...\n") },
	"directives":               func(n int) string { return times(n, "%A\n") },
	"tabs":                     func(n int) string { return "a:" + times(n, "\t") + "b" },
	"empty lines":              func(n int) string { return times(n, "\n") },
	"a long text":              func(n int) string { return "a: " + times(n, "x ") },
	"a text of lines":          func(n int) string { return "a: x\n" + times(n, "  x\n") },
	"a literal text":           func(n int) string { return "a: |\n" + times(n, "  x\n") },
	"literal texts":            func(n int) string { return "a:\n" + times(n, "- |\n") },
	"a quoted text":            func(n int) string { return `a: "` + times(n, `\n`) + `"` },
	"an open quote":            func(n int) string { return `a: "` + times(n, `x `) },
	"a long name":              func(n int) string { return times(n, "x") + ": a" },
	"a long name above values": func(n int) string { return times(n/2, "x") + ":\n" + times(n/2, "  - a: b\n") },
	"long name of a claim": func(n int) string {
		return claims + "        " + times(n/2, "x") + ":\n" + times(n/2, "          - a\n")
	},
	"anchors":          func(n int) string { return "a:\n" + numbered(n, "- &a%d b\n") },
	"anchors in a row": func(n int) string { return times(n, "&a ") },
	"tags in a row":    func(n int) string { return times(n, "!a ") },
	"texts in a row":   func(n int) string { return "&a " + times(n, `"" `) },
	"aliases":          func(n int) string { return "a: &a {b: c}\nd: [" + times(n, "*a,") + "]" },
	"merged in a list": func(n int) string { return "a: &a {b: c}\nd: {<<: [" + times(n, "*a,") + "]}" },
	"merges":           func(n int) string { return "a: &a {b: c}\nd: {" + times(n, "<<: *a,") + "}" },
	"merges of many": func(n int) string {
		return "a: &a {" + numbered(n/2, "a%d: b,") + "}\nd: {<<: [" + times(n/2, "*a,") + "]}"
	},
	"aliases of aliases": func(n int) string {
		return "a0: &a0 [a,a]\n" + pairs(n, "a%[1]d: &a%[1]d [*a%[2]d,*a%[2]d]\n")
	},
	"nesting by aliases": func(n int) string { return "a0: &a0 [a]\n" + pairs(n, "a%[1]d: &a%[1]d [*a%[2]d]\n") },
	"connectors":         func(n int) string { return many(n, "auth: {type: none}") },
	"a long url, repeated": func(n int) string {
		return "connectors:\n- {name: A, url: &u 'https://a.example/" + times(min(n, 60_000), "x") + "', auth: {type: none}}\n" +
			numbered(n/2, "- {name: A%d, url: *u, auth: {type: none}}\n")
	},
	"a long name, repeated": func(n int) string {
		return "connectors:\n- {name: &n " + times(n/2, "x") + ", url: 'https://a.example/', auth: {type: none}}\n" +
			times(n/2, "- {name: *n, url: 'https://a.example/', auth: {type: none}}\n")
	},
	"a template, repeated": func(n int) string {
		return claims + "        a: &t \"" + times(min(n/2, 64<<10), "{{ 1 + 1 }}") + "\"\n        b:\n" + times(n/2, "        - *t\n")
	},
	"connectors of aliases": func(n int) string {
		return "connectors:\n- &a {name: A, url: 'https://a.example', auth: {type: none}}\n" + times(n, "- *a\n")
	},
	"claims":              func(n int) string { return claims + numbered(n, "        a%d: b\n") },
	"texts as claims":     func(n int) string { return listOf(n, "b") },
	"secrets":             func(n int) string { return claims + numbered(n, "        a%[1]d: \"{{ get_secret('s%[1]d') }}\"\n") },
	"secrets in one text": func(n int) string { return listOf(n, `"`+numbered(8000, "{{ get_secret('s%d') }}")+`"`) },
	"bad secrets":         func(n int) string { return claims + numbered(n, "        a%[1]d: \"{{ get_secret(%[1]d) }}\"\n") },
	"expressions":         func(n int) string { return listOf(n, `"`+strings.Repeat("{{1}}", 256)+`"`) },
	"expressions before a long text": func(n int) string {
		return listOf(n, `"`+strings.Repeat("{{1}}", 256)+strings.Repeat("x", 60000)+`"`)
	},
	"long expressions": func(n int) string { return listOf(n, `"{{ `+strings.Repeat("1+", 254)+`1 }}"`) },
	"deep expressions": func(n int) string {
		return listOf(n, `"{{ `+strings.Repeat("(", 255)+"1"+strings.Repeat(")", 255)+` }}"`)
	},
	"open expressions": func(n int) string { return claims + "        a: \"" + times(n, "{{ ") + "\"\n" },
	"unknown members":  func(n int) string { return "connectors:\n- name: A\n" + numbered(n, "  urm%d: x\n") },
	"unknown fields": func(n int) string {
		return strings.TrimSuffix(claims, "      claims:\n") + numbered(n, "      clams%d: b\n")
	},
	"headers": func(n int) string { return withMember(n, "", "headers", "  - {name: a%d, value: b}\n") },
	"query": func(n int) string {
		return withMember(n, "/?"+strings.Repeat("a=b&", 15000), "query", "  - {name: a%d, value: b}\n")
	},
	"methods":      func(n int) string { return withMember(n, "", "method", "  - A%d\n") },
	"paths":        func(n int) string { return withMember(n, "", "paths", "  - /a%d\n") },
	"wrong types":  func(n int) string { return many(n, "auth: {type: nona}") },
	"filters":      func(n int) string { return withResponse(n, "filter: record.a == user.email, body: response.body") },
	"long filters": func(n int) string { return withResponse(n, "filter: "+strings.Repeat("1==1 and ", 500)+"1==1") },
	"deep filters": func(n int) string {
		return withResponse(n, "filter: "+strings.Repeat("(", 1000)+"1==1"+strings.Repeat(")", 1000))
	},
	"names in filters": func(n int) string {
		return withResponse(n, "filter: "+strings.Repeat("record.a.b.c.d==record.e and ", 100)+"1==1")
	},
	"objects in bodies": func(n int) string { return withResponse(n, `body: "{`+numbered(9000, "a%d:1,")+`a:1}"`) },
	"api keys": func(n int) string {
		return many(n, `auth: {type: api_key, config: {key: X, value: "{{ get_secret('s%[1]d') }}", in: header}}`)
	},
	"plugins": func(n int) string { return "plugins:\n" + numbered(n, "- {path: a%d.wasm}\n") },
	"stores":  func(n int) string { return "secrets:\n" + times(n, "- {type: env}\n") },
	"vaults": func(n int) string {
		return "secrets:\n" + times(n, "- {type: vault, address: 'https://a.example', token_file: x}\n")
	},
	"origins":     func(n int) string { return "gateway:\n  origins:\n" + numbered(n, "  - https://a%d.example\n") },
	"bad origins": func(n int) string { return "gateway:\n  origins:\n" + numbered(n, "  - a%d.example\n") },
}

// pairs is like numbered, and also formats the previous number.
func pairs(n int, format string) string {
	var b strings.Builder
	for i := 1; b.Len() < n; i++ {
		fmt.Fprintf(&b, format, i, i-1)
	}
	return b.String()
}
