package connectors

import (
	_ "embed" // for tokens.txt
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
)

//go:embed tokens.txt
var tokenForms string

// tokens matches credentials by the form that their issuers have for them, so that secret scanners find them. tokens.txt has a line for
// each form, with the issuer behind it.
var tokens = func() *regexp.Regexp {
	var forms []string
	for line := range strings.Lines(tokenForms) {
		form, _, _ := strings.Cut(line, " ")
		forms = append(forms, form)
	}
	return regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----|\b(?:` + strings.Join(forms, "|") + `)`)
}()

var (
	// secretMember matches names of members, headers and parameters whose values are credentials whatever they look like.
	secretMember = regexp.MustCompile(`(?i)(^|[^a-z])(proxy-)?(authorization|pass(word|wd|phrase)|(client|api|app|consumer|shared)?[-_]?secret|api[-_]?key|(access|refresh|auth)[-_]?token|private[-_]?key)$`)
	// likelyMember matches names whose values are credentials if they look like one.
	likelyMember = regexp.MustCompile(`(?i)(token|key|secret|cookie|session|signature|auth)$`)
	expressions  = regexp.MustCompile(`\{\{.*?\}\}`)
	composed     = regexp.MustCompile(`^\{[a-z_|]+\}$`) // a placeholder of a text that is signed
)

const credentialInFile = "a credential stands in the file: store it as a secret, and write \"{{ get_secret('NAME') }}\" in its place"

// isRandom reports whether a text looks like a credential: one long word with digits and letters.
func isRandom(text string) bool {
	const shortest = 16
	return len(text) >= shortest && !strings.ContainsAny(text, " /") && strings.ContainsAny(text, "0123456789") &&
		strings.ContainsFunc(text, func(r rune) bool { return r >= 'A' && r <= 'z' })
}

// credentials warns of credentials that stand in a connector (threats.md 250), and of mistakes beside them.
func (i *inspector) credentials(c *definition) {
	path := c.path()
	for _, a := range c.auths {
		if config, _, found := c.member.locate(a.path + ".config"); found {
			i.config(&a, config, path+"."+a.path+".config")
			i.fieldMistakes(&a, config, path+"."+a.path+".config")
		}
	}
	for _, list := range []string{"headers", "query"} {
		if n, _, found := c.member.locate(list); found {
			for index, item := range n.items {
				i.parameter(item, fmt.Sprintf("%s.%s[%d]", path, list, index))
			}
		}
	}
	for _, name := range []string{"tls.key", "tls.pkcs12", "tls.passphrase"} {
		if n, _, found := c.member.locate(name); found {
			i.secret(n, path+"."+name)
		}
	}
	i.tokens(c.member, path)
}

// config warns of the sealed fields of an auth type, and of its keys, that are written out.
func (i *inspector) config(a *authentication, n *node, path string) {
	for _, m := range n.members {
		if f, ok := a.field(m.name); ok && (f.Sealed || f.Kind == abi.KindKey) {
			i.secret(m.value, path+"."+m.name)
			continue
		}
		i.warnByName(m.value, path+"."+m.name, m.name)
	}
}

// warnByName warns of the texts below n whose names are those of credentials.
func (i *inspector) warnByName(n *node, path, name string) {
	if text, ok := n.value.(string); ok && secretMember.MatchString(name) && !strings.Contains(text, "://") && !composed.MatchString(text) {
		i.secret(n, path)
	}
	for _, m := range n.members {
		i.warnByName(m.value, path+"."+m.name, m.name)
	}
	for index, item := range n.items {
		i.warnByName(item, fmt.Sprintf("%s[%d]", path, index), name)
	}
}

// parameter warns of a header or parameter with a credential in it, or with the same word twice.
func (i *inspector) parameter(n *node, path string) {
	name, _ := stringOf(n.get("name"))
	value, ok := stringOf(n.get("value"))
	if !ok {
		return
	}
	text := n.get("value").value
	i.prefixTwice(text, path+".value")
	if !strings.Contains(value, "{{") && (secretMember.MatchString(name) || likelyMember.MatchString(name) && isRandom(value)) {
		i.secret(text, path+".value")
	}
}

// secret warns of a text in the place of a credential: one without an expression, or with a part beside it that looks like one. A
// placeholder is no credential, and neither is a character or two, which some APIs want in place of an empty password.
func (i *inspector) secret(n *node, path string) {
	const shortest = 3
	text, ok := n.value.(string)
	if !ok || i.done[n] || len(strings.TrimSpace(text)) < shortest {
		return
	}
	if placeholder.MatchString(text) { // what looks like one may be a password
		i.done[n], i.hidden[n] = true, true
		i.warnOfText(n, 0, utf8.RuneCountInString(text), path, placeholderLeft)
		return
	}
	from, to := 0, len(text)
	if strings.Contains(text, "{{") {
		if from, to = randomPart(text); from == to {
			return
		}
	}
	i.done[n] = true
	i.warnOfText(n, utf8.RuneCountInString(text[:from]), utf8.RuneCountInString(text[:to]), path, credentialInFile)
}

// randomPart returns the part of a template from the first to the last word outside of expressions that looks like a credential.
func randomPart(text string) (from, to int) {
	begin := 0
	for _, found := range append(expressions.FindAllStringIndex(text, -1), []int{len(text), len(text)}) {
		for _, word := range strings.Fields(text[begin:found[0]]) {
			if !isRandom(word) {
				continue
			}
			pos := max(begin, to)
			pos += strings.Index(text[pos:], word)
			if to == 0 {
				from = pos
			}
			to = pos + len(word)
		}
		begin = found[1]
	}
	return from, to
}

// tokens warns of credentials of a known form, wherever they stand.
func (i *inspector) tokens(n *node, path string) {
	i.each(n, path, func(n *node, path, text string) {
		if found := tokens.FindStringIndex(text); found != nil {
			i.warnOfText(n, utf8.RuneCountInString(text[:found[0]]), utf8.RuneCountInString(text[:found[1]]), path, credentialInFile)
		}
	})
}

// placeholder matches the texts of the catalogue that stand for something of the user.
var placeholder = regexp.MustCompile(`(?i)(^|[^a-z])your[-_][a-z]|^1234567890$`)

const placeholderLeft = "has a placeholder: put your own value in its place; for a product of the catalogue, docs/apis.md says where it is"

// placeholders warns of what was not filled in.
func (i *inspector) placeholders(n *node, path string) {
	i.done = map[*node]bool{}
	i.each(n, path, func(n *node, path, text string) {
		found := placeholder.FindStringIndex(text)
		if found == nil || i.hidden[n] || i.warnings.skip() {
			return
		}
		from := found[0]
		if !strings.HasPrefix(strings.ToLower(text[from:]), "your") {
			from += len(string([]rune(text[from:])[:1]))
		}
		where, ok := i.source.character(n, utf8.RuneCountInString(text[:from])+1)
		if !ok {
			where = n.Place
		}
		i.warn(where, path, placeholderLeft)
	})
}

// printable returns a path or a message that can be shown, without credentials of a known form: a member may have one as its name.
func printable(text string) string { return host.Printable(tokens.ReplaceAllString(text, "…")) }

var (
	// secretValue matches a member whose value is probably a credential, up to the beginning of the value, after what YAML may have before it.
	secretValue = regexp.MustCompile(`(?i)(?:authorization|token|secret|pass(?:word|wd|phrase)|cookie|(?:api|private)[-_]?key)["']?\s*[:=]\s*(?:[&!]\S+\s+)*(?:"[^"]|'[^']|["']{2}[^\s,}\]]|[^\s"',}\]])`)
	// begunExpressions matches the expressions of a template, and one without an end.
	begunExpressions = regexp.MustCompile(`\{\{.*?(?:\}\}|$)`)
	userInfo         = regexp.MustCompile(`://[^/?#\s"']*@`)
)

// Harmless reports whether a line of a file shows no credential by itself: none of a known form, and no value of a member such as password.
// It finds those that no warning finds, such as those of comments.
func Harmless(line string) bool {
	text := begunExpressions.ReplaceAllString(line, "")
	return !tokens.MatchString(line) && !userInfo.MatchString(line) && !userInfo.MatchString(text) && !secretValue.MatchString(text)
}

// Conceal returns a text with stars in place of the credentials that stand in the file, if [Options].Conceal is set. It finds those that
// Warnings has, also percent-encoded.
func (s *Set) Conceal(text string) string { return s.concealer.Replace(text) }

// concealer returns a replacer of credentials, the longest first.
func concealer(literals []string) *strings.Replacer {
	var forms []string
	for _, literal := range slices.SortedFunc(slices.Values(literals), func(a, b string) int { return len(b) - len(a) }) {
		for _, form := range []string{literal, url.QueryEscape(literal), url.PathEscape(literal)} {
			forms = append(forms, form, "***")
		}
	}
	return strings.NewReplacer(forms...)
}
