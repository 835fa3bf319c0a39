package connectors

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/keywright/keywright/abi"
)

// tokens matches credentials by the form that their issuers have for them, so that secret scanners find them.
var tokens = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----` +
	`|\b(?:` + strings.Join([]string{
	`[sr]k_(?:live|test)_[0-9A-Za-z]{8,}`,                          // Stripe
	`gh[opusr]_[0-9A-Za-z]{30,}`,                                   // GitHub
	`github_pat_[0-9A-Za-z_]{30,}`,                                 // GitHub
	`glpat-[0-9A-Za-z_-]{20,}`,                                     // GitLab
	`xox[abeoprs]-[0-9A-Za-z-]{10,}`,                               // Slack
	`xapp-[0-9A-Za-z-]{10,}`,                                       // Slack
	`hooks\.slack\.com/services/T[0-9A-Za-z]+/B[0-9A-Za-z/]+`,      // Slack
	`AIza[0-9A-Za-z_-]{35}`,                                        // Google
	`ya29\.[0-9A-Za-z_-]{20,}`,                                     // Google
	`sk-[0-9A-Za-z_-]{20,}`,                                        // OpenAI, Anthropic
	`SG\.[0-9A-Za-z_-]{16,}\.[0-9A-Za-z_-]{16,}`,                   // SendGrid
	`shp(?:at|ca|pa|ss)_[0-9A-Fa-f]{32}`,                           // Shopify
	`do[opr]_v1_[0-9a-f]{64}`,                                      // DigitalOcean
	`hv[bs]\.[0-9A-Za-z_-]{20,}`,                                   // Vault
	`pat-[a-z]{2}[0-9]-[0-9a-f-]{36}`,                              // HubSpot
	`secret_[0-9A-Za-z]{40,}`,                                      // Notion
	`ntn_[0-9A-Za-z]{40,}`,                                         // Notion
	`(?:bot)?[0-9]{8,10}:AA[0-9A-Za-z_-]{33}`,                      // Telegram
	`AGE-SECRET-KEY-1[0-9A-Z]{50,}`,                                // age
	`eyJ[0-9A-Za-z_-]{10,}\.eyJ[0-9A-Za-z_-]{10,}\.[0-9A-Za-z_-]*`, // a JWT
}, "|") + `)`)

var (
	// secretMember matches names of members, headers and parameters whose values are credentials whatever they look like.
	secretMember = regexp.MustCompile(`(?i)(^|[^a-z])(proxy-)?(authorization|pass(word|wd|phrase)|(client|api|app|consumer|shared)?[-_]?secret|api[-_]?key|(access|refresh|auth)[-_]?token|private[-_]?key)$`)
	// likelyMember matches names whose values are credentials if they look like one.
	likelyMember = regexp.MustCompile(`(?i)(token|key|secret|cookie|session|signature|auth)$`)
	// expressions matches the expressions of a template.
	expressions = regexp.MustCompile(`\{\{.*?\}\}`)
)

const credentialInFile = "a credential stands in the file: store it as a secret, and write \"{{ get_secret('NAME') }}\" in its place"

// shortestSecret is the length of the shortest credential, in bytes.
const shortestSecret = 3

// isRandom reports whether a text looks like a credential: one long word with digits and letters.
func isRandom(text string) bool {
	const shortest = 16
	return len(text) >= shortest && !strings.ContainsAny(text, " /") && strings.ContainsAny(text, "0123456789") &&
		strings.ContainsFunc(text, func(r rune) bool { return r >= 'A' && r <= 'z' })
}

// credentials warns of credentials that stand in a connector (threats.md 250).
func (i *inspector) credentials(c *definition) {
	path := c.path()
	if config := c.member.get("auth"); config != nil {
		if m := config.value.get("config"); m != nil {
			i.config(c, m.value, path+".auth.config")
		}
	}
	for _, list := range []string{"headers", "query"} {
		if m := c.member.get(list); m != nil {
			for index, item := range m.value.items {
				i.parameter(item, fmt.Sprintf("%s.%s[%d]", path, list, index))
			}
		}
	}
	if m := c.member.get("tls"); m != nil {
		for _, name := range []string{"key", "pkcs12", "passphrase"} {
			if key := m.value.get(name); key != nil {
				i.secret(key.value, path+".tls."+name)
			}
		}
	}
	i.tokens(c.member, path)
}

// config warns of the sealed fields of an auth type, and of its keys, that are written out.
func (i *inspector) config(c *definition, n *node, path string) {
	for _, m := range n.members {
		if f, ok := c.field(m.name); ok && (f.Sealed || f.Kind == abi.KindKey) {
			i.secret(m.value, path+"."+m.name)
			continue
		}
		i.warnByName(m.value, path+"."+m.name, m.name)
	}
}

// warnByName warns of the texts below n whose names are those of credentials.
func (i *inspector) warnByName(n *node, path, name string) {
	if text, ok := n.value.(string); ok && secretMember.MatchString(name) && !strings.Contains(text, "://") {
		i.secret(n, path)
	}
	for _, m := range n.members {
		i.warnByName(m.value, path+"."+m.name, m.name)
	}
	for index, item := range n.items {
		i.warnByName(item, fmt.Sprintf("%s[%d]", path, index), name)
	}
}

// parameter warns of a header or parameter with a credential in it.
func (i *inspector) parameter(n *node, path string) {
	name, _ := stringOf(n.get("name"))
	value, ok := stringOf(n.get("value"))
	switch {
	case !ok || strings.Contains(value, "{{"):
	case secretMember.MatchString(name), likelyMember.MatchString(name) && isRandom(value):
		i.secret(n.get("value").value, path+".value")
	}
}

// secret warns of a text in the place of a credential: one without an expression, or with a part beside it that looks like one. A
// placeholder is no credential, and neither is a character or two, which some APIs want in place of an empty password.
func (i *inspector) secret(n *node, path string) {
	text, ok := n.value.(string)
	if !ok || i.done[n] || len(strings.TrimSpace(text)) < shortestSecret {
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

// randomPart returns the part of a template from the first to the last word outside of expressions that looks like a credential, or
// nothing.
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
