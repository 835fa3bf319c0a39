package connectors

import (
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/internal/problem"
)

// mistakes warns of what authors of connectors often confuse.
func (i *inspector) mistakes(c *definition) {
	i.belowURL(c)
	for _, listName := range []string{"headers", "query"} {
		if m := c.member.get(listName); m != nil {
			for n, item := range m.value.items {
				if value := item.get("value"); value != nil {
					i.prefixTwice(value.value, fmt.Sprintf("%s.%s[%d].value", c.path(), listName, n))
				}
			}
		}
	}
	config, _, found := c.member.locate("auth.config")
	if !found {
		return
	}
	added := map[string]string{} // texts of fields, which the plugin may put before a credential
	for _, f := range c.info.Fields {
		text, ok := stringOf(config.get(c.writtenAs(f)))
		if !ok {
			text = f.Default
		}
		if text != "" && !f.Sealed && f.Kind == abi.KindString {
			added[strings.ToLower(text)] = f.Name
		}
	}
	for _, m := range config.members {
		f, ok := c.field(m.name)
		text, isText := m.value.value.(string)
		memberPath := problem.Join(c.path()+".auth.config", m.name)
		suggestionIndex := slices.IndexFunc(f.Suggested, func(s string) bool {
			return s != text && spelling.Replace(strings.ToLower(text)) == spelling.Replace(s)
		})
		switch word, _, more := strings.Cut(text, " "); {
		case !ok || !isText:
		case suggestionIndex >= 0:
			i.warn(m.value.Place, memberPath, "is %q: did you mean %q?", text, f.Suggested[suggestionIndex])
		case f.Kind == abi.KindURL:
			i.endpoint(m.value, memberPath, m.name, text)
		case more && f.Sealed && added[strings.ToLower(word)] != "":
			i.warn(m.value.Place, memberPath, "begins with %q, which the field %s adds: leave it out here", word, added[strings.ToLower(word)])
		default:
			i.prefixTwice(m.value, memberPath)
		}
	}
}

// spelling replaces what people write in place of a hyphen.
var spelling = strings.NewReplacer("_", "-", " ", "-")

// belowURL warns of patterns of paths that repeat the path of the URL.
func (i *inspector) belowURL(c *definition) {
	if c.url == nil {
		return
	}
	own := strings.TrimSuffix(c.url.Path, "/")
	for n, pattern := range c.gateway.Paths {
		if rest, found := strings.CutPrefix(pattern, own); own != "" && found && (rest == "" || rest[0] == '/') {
			itemPath := fmt.Sprintf("paths[%d]", n)
			i.warn(c.member.place(itemPath), c.path()+"."+itemPath, "stands below url, whose path %s it repeats: write the rest of it, unless the API has the path %s", own, own+pattern)
		}
	}
}

// prefixTwice warns of a text that begins with the same word twice, as in Bearer Bearer.
func (i *inspector) prefixTwice(n *node, memberPath string) {
	text, _ := n.value.(string)
	if words := strings.Fields(text); len(words) > 2 && strings.EqualFold(words[0], words[1]) && authScheme.MatchString(words[0]) {
		i.warn(n.Place, memberPath, "begins with the same word twice: write it once")
	}
}

// authScheme matches words that may be a scheme of the header Authorization.
var authScheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{2,15}$`)

// endpoint warns of the URL of an authorization endpoint in place of that of a token endpoint, and the other way round.
func (i *inspector) endpoint(n *node, memberPath, name, text string) {
	u, err := url.Parse(text)
	if err != nil {
		return
	}
	last := strings.ToLower(path.Base(u.Path))
	switch {
	case strings.HasSuffix(name, "token_url") && slices.Contains([]string{"authorize", "auth", "authorization"}, last):
		i.warn(n.Place, memberPath, "ends in /%s, as URLs do to which a browser goes for consent: write the URL of the token endpoint, unless it is this one", last)
	case name == "authorization_url" && last == "token":
		i.warn(n.Place, memberPath, "ends in /token, as token endpoints do: write the URL to which a browser goes for consent, unless it is this one")
	}
}

// assignment matches a line of a file of environment variables.
var assignment = regexp.MustCompile(`^(?:export\s+\w+|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)=[^=]`)

// oddSecret returns what is probably wrong with the text of a secret, or "". In texts of several lines, such as keys, white space
// means nothing.
func oddSecret(value string) string {
	trimmed := strings.TrimSpace(value)
	switch last := len(trimmed) - 1; {
	case strings.Contains(trimmed, "\n"):
	case assignment.MatchString(trimmed):
		return "is a line NAME=VALUE, all of which is used: store the value alone"
	case last > 0 && trimmed[0] == trimmed[last] && strings.IndexByte("\"'`", trimmed[0]) >= 0:
		return "stands in quotes, which are used with it: store it without, unless they are a part of the secret"
	case len(trimmed) != len(value):
		return "begins or ends with white space, which is used with it: store it without, unless it is a part of the secret"
	}
	return ""
}
