package record

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/MicahParks/jwkset"

	"github.com/keywright/keywright/internal/casefile"
	"github.com/keywright/keywright/internal/testworld"
)

// shortest is the minimum length of a literal text in an object that may be a credential. A shorter one beside an expression stays.
const shortest = 8

// text returns a made-up text in place of one that may be a secret. No two are equal. It can be decoded as the other one can, and has
// odd characters as that has: the host or the plugin may refuse them.
func (r *recorder) text(text string) string {
	if strings.TrimSpace(text) == "" {
		return text
	}
	r.textCount++
	result := fmt.Sprintf("made-up-text-%d-of-the-recording", r.textCount)
	core := strings.TrimRight(text, "\r\n\t ")
	_, noBase64 := base64.RawStdEncoding.DecodeString(strings.TrimRight(core, "="))
	if _, noHex := hex.DecodeString(core); len(core) >= 2*shortest && (noBase64 == nil || noHex == nil) {
		result = hex.EncodeToString([]byte(result))
		result += strings.Repeat("0", (len(core)-len(result))&3) // base64 of that length can be decoded, or not
	}
	if strings.ContainsFunc(core, unicode.IsControl) {
		result = result[:4] + "\n" + result[4:]
	}
	if strings.ContainsFunc(core, func(r rune) bool { return r > unicode.MaxASCII }) {
		result = result[:4] + "é" + result[4:]
	}
	return result + text[len(core):]
}

// shape returns a text of the same length with x in place of each letter and 0 in place of each digit. If encoded is set, the text is
// part of a URL, and what stands for a letter or digit in percent-encoding is replaced, too.
func shape(text string, encoded bool) string {
	return character.ReplaceAllStringFunc(text, func(part string) string {
		if encoded && len(part) > 1 && part[0] == '%' {
			return shapeOfEscape(part)
		}
		return strings.Map(shapeOf, part)
	})
}

var character = regexp.MustCompile(`(?s)%[0-9A-Fa-f]{2}|.`)

func shapeOf(char rune) rune {
	switch {
	case unicode.IsUpper(char) && char <= unicode.MaxASCII:
		return 'X'
	case unicode.IsDigit(char):
		return '0'
	case char > unicode.MaxASCII:
		return 'é'
	case unicode.IsLetter(char):
		return 'x'
	}
	return char
}

// shapeOfEscape returns an escape in place of another one. Those of punctuation and controls stay, because signatures depend
// on them. A byte that is no ASCII becomes a letter.
func shapeOfEscape(escape string) string {
	octet, _ := strconv.ParseUint(escape[1:], 16, 8) // of two digits
	if octet > unicode.MaxASCII {
		return "%78"
	}
	if shaped := shapeOf(rune(octet)); shaped != rune(octet) || unicode.IsLetter(shaped) || unicode.IsDigit(shaped) {
		return fmt.Sprintf("%%%02X", shaped)
	}
	return escape
}

var (
	expression   = regexp.MustCompile(`\{\{(?:[^'"}]|'[^']*'|"[^"]*"|\}[^}])*\}\}`)
	namedCall    = regexp.MustCompile(`\b(?:get_secret|get_variable|get_key|discover|identity)\([^()]*\)`)
	memberName   = regexp.MustCompile(`\bjson_get\(\s*,\s*['"][A-Za-z_./-]{1,48}['"]\s*\)`)
	variableCall = regexp.MustCompile(`\bget_variable\(\s*['"]([^'"]*)['"]\s*\)`)
	identityCall = regexp.MustCompile(`\bidentity\(\s*['"]([^'"]*)['"]`)
	discovery    = regexp.MustCompile(`\bdiscover\(\s*['"]([^'"]*)['"]\s*,\s*['"]([^'"]*)['"]\s*\)`)
	digits       = regexp.MustCompile(`\b[0-9]+`)
	quoted       = regexp.MustCompile("'([^']*)'|\"([^\"]*)\"|`([^`]*)`")
	webURL       = regexp.MustCompile(`(?i)\bhttps?://([^/\s'"\x60?#{}<>@,;]+)`)
	shortNumber  = regexp.MustCompile(`^-?[0-9]{1,7}$`)
)

func isTemplate(text string) bool { return expression.MatchString(text) }

// literals returns the literal texts of a template and their length: what is outside of expressions, or in them in quotes, but for the
// names of secrets, variables and members of documents. The length is also that of numbers.
func literals(text string) (texts []string, length int) {
	texts = []string{expression.ReplaceAllString(text, "")}
	for _, inside := range expression.FindAllString(text, -1) {
		inside = memberName.ReplaceAllString(namedCall.ReplaceAllString(inside, ""), "")
		for _, found := range quoted.FindAllStringSubmatch(inside, -1) {
			texts = append(texts, found[1]+found[2]+found[3])
		}
		length += len(strings.Join(digits.FindAllString(quoted.ReplaceAllString(inside, ""), -1), ""))
	}
	return texts, length + len(strings.Join(texts, ""))
}

// plainLiteral matches the literal texts of a template that are no credential: punctuation, and words in front of one.
var plainLiteral = regexp.MustCompile(`(?i)^[\s:=,;"'|/._-]*((bearer|basic|token|api-?key|key|bot|ssws|pat)[\s:=,;"'|/._-]*)*$`)

// isPlain reports whether a template has no literal text that may be a credential, or a part of one, however short it is.
func isPlain(text string) bool {
	texts, length := literals(text)
	return isTemplate(text) && length < shortest && !slices.ContainsFunc(texts, func(text string) bool { return !plainLiteral.MatchString(text) })
}

// withHosts returns a text with made-up hosts in place of those of the URLs in it, and of those that other URLs have.
func (r *recorder) withHosts(text string) string {
	for _, found := range webURL.FindAllStringSubmatch(text, -1) {
		if name := strings.ToLower(found[1]); r.hosts[name] == "" {
			r.hosts[name] = fmt.Sprintf("login%d.test", len(r.hosts))
			r.replaced("the names of hosts")
		}
	}
	text = webURL.ReplaceAllStringFunc(text, func(found string) string {
		_, name, _ := strings.Cut(found, "://")
		return "https://" + r.hosts[strings.ToLower(name)]
	})
	names := slices.SortedFunc(maps.Keys(r.hosts), func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	for _, name := range names { // one may be a part of another
		if len(name) >= shortest && strings.ContainsAny(name, ".:") {
			text = strings.ReplaceAll(text, name, r.hosts[name])
		}
	}
	return text
}

// url returns a URL with made-up path and query.
func (r *recorder) url(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return r.text(text)
	}
	rest := strings.TrimPrefix(text, u.Scheme+"://"+u.Host)
	return u.Scheme + "://" + u.Host + shape(rest, true)
}

// configTexts returns the texts in a configuration at any depth, in the order of their members' names.
func configTexts(config any) (all []string) {
	casefile.Mapped(config, strings.Clone, func(value any) any {
		if text, ok := value.(string); ok {
			all = append(all, text)
		}
		return value
	})
	return all
}

// names reports whether a text of a configuration has a name in it.
func names(config any, name string) bool {
	return slices.ContainsFunc(configTexts(config), func(text string) bool { return strings.Contains(text, name) })
}

// secret sets a secret of the case in place of a value: a key of the same kind, a document of the same shape, or a text.
func (r *recorder) secret(name, value string) {
	if algorithm := algorithmOf(value); algorithm != "" {
		r.step().Keys[name] = algorithm
		return
	}
	r.step().Secrets[name] = r.madeUp(value)
}

// madeUp returns a value of the same kind as a secret's.
func (r *recorder) madeUp(value string) string {
	var document any
	if trimmed := strings.TrimSpace(value); strings.HasPrefix(trimmed, "{") && json.Unmarshal([]byte(value), &document) == nil {
		if text, err := json.Marshal(r.document(document)); err == nil {
			return string(text)
		}
	}
	if label, _, ok := strings.Cut(strings.TrimPrefix(value, pemBegin), "-----"); ok && strings.HasPrefix(value, pemBegin) {
		if key, _, err := testworld.NewKey(algorithmOf(value)); err == nil {
			return key
		}
		if slices.Contains(pemLabels, label) {
			return pemBegin + label + "-----\n" + r.text("a text without padding") + "\n-----END " + label + "-----\n"
		}
	}
	return r.text(value)
}

const pemBegin = "-----BEGIN "

var pemLabels = []string{
	"CERTIFICATE", "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "PUBLIC KEY", "OPENSSH PRIVATE KEY",
}

// document returns a document of the same shape, such as a key file of Google, with other texts.
func (r *recorder) document(value any) any {
	memberName := func(name string) string {
		if plainName.MatchString(name) || name != "" && names(r.configs, name) {
			return name
		}
		return r.text(name)
	}
	return casefile.Mapped(value, memberName, func(value any) any {
		switch v := value.(type) {
		case string:
			switch url := r.withHosts(v); {
			case slices.Contains(documentWords, v):
				return v
			case url != v:
				return r.url(url)
			}
			return r.madeUp(v)
		case float64:
			return 1
		}
		return value
	})
}

// documentWords are texts of such documents that are the same everywhere.
var documentWords = []string{
	"service_account", "authorized_user", "RSA", "EC", "OKP", "oct", "sig", "enc", "P-256", "P-384", "P-521", "Ed25519",
	"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "HS256", "HS384", "HS512",
}

// algorithmOf returns an algorithm for which the private key in a PEM text is, or "".
func algorithmOf(text string) string {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return ""
	}
	key, _ := jwkset.LoadX509KeyInfer(block) // nil for what is no key
	switch key := key.(type) {
	case *rsa.PrivateKey:
		return "RS256"
	case ed25519.PrivateKey:
		return "EdDSA"
	case *ecdsa.PrivateKey:
		return map[elliptic.Curve]string{elliptic.P256(): "ES256", elliptic.P384(): "ES384", elliptic.P521(): "ES512"}[key.Curve]
	}
	return ""
}
