package describe

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/jws"
)

// checkField checks a field of the description, and returns it with its reach and its matcher.
func checkField(d *abi.Description, f *abi.Field, patterns *expr.Source) (field hostfn.Field, err error) {
	field.Field = *f // also of a field that is wrong, so that the name is taken
	if field.Sinks, field.Derived, err = parseSinks(f.Sinks, f.Derived); err != nil {
		return field, err
	}
	if err := checkRules(d, &field); err != nil {
		return field, err
	}
	if field.Matcher, err = checkPattern(f, patterns); err != nil {
		return field, err
	}
	if f.Composed {
		field.Escape = contract.ComposeEscape
	}
	if f.Default != "" {
		if err := hostfn.CheckValue(&field, f.Default); err != nil {
			return field, fmt.Errorf("its default %w", err)
		}
	}
	return field, nil
}

// checkRules checks the members of a field that need no other part of the host.
func checkRules(d *abi.Description, field *hostfn.Field) error {
	f := &field.Field
	if !slices.Contains(contract.Kinds, f.Kind) {
		return fmt.Errorf("there is no kind %q; there are %s", printableText(f.Kind), strings.Join(contract.Kinds, ", "))
	}
	for name, algorithm := range f.Algorithms {
		if !slices.Contains(f.Enum, name) || algorithm != contract.SignRS1 && jws.Method(algorithm) == nil {
			return fmt.Errorf("algorithms: %q is not in the enum, or does not stand for an algorithm of a key", printableText(name))
		}
	}
	isKey := f.Kind == abi.KindKey
	names := func(name string, fits func(enum []string) bool) bool {
		return slices.ContainsFunc(d.Fields, func(a abi.Field) bool { return a.Name == name && len(a.Enum) > 0 && fits(a.Enum) })
	}
	for _, rule := range []struct {
		broken  bool
		problem string
	}{
		{isKey && field.Sinks&^seal.Sign != 0, "a key has no sink but sign: derived says where signatures go"},
		{isKey && !names(f.AlgorithmField, func([]string) bool { return true }), "a key needs an algorithm_field that names a field with an enum"},
		{isKey && f.EncodingField != "" && !names(f.EncodingField, areEncodings), "its encoding_field names no field whose enum has some of " + strings.Join(secretEncodings, ", ") + ", and nothing else"},
		{slices.Contains(f.Purposes, contract.PurposeJWS) && len(f.Purposes) > 1, "a key with the purpose jws has no other: what it signs could pass for what another purpose is for"},
		{!isKey && (f.AlgorithmField != "" || f.EncodingField != "" || len(f.Purposes) > 0 || f.Generate), "only a key has an algorithm_field, an encoding_field or purposes, or is generated"},
		{f.Generate && (f.Required || len(f.RequiredIf) > 0), "a key that is generated if it is absent is not required"},
		{f.Kind != abi.KindString && len(f.Enum) > 0, "only a string has an enum"},
		{f.Kind != abi.KindInteger && (f.Minimum != nil || f.Maximum != nil), "only an integer has a minimum or a maximum"},
		{f.Minimum != nil && f.Maximum != nil && *f.Minimum > *f.Maximum, "its minimum is above its maximum, so that no value is allowed"},
		{f.Kind == abi.KindObject && (f.Sealed || f.Default != ""), "an object is neither sealed as a whole nor has it a default"},
		{f.Kind == abi.KindURL && f.Default != "", "a url has no default: it is for the configuration to say where credentials go"},
		{isKey && f.Default != "", "a key has no default: it is the operator's"},
		{(f.Required || len(f.RequiredIf) > 0) && f.Default != "", "a required field has no default"},
		{f.Required && len(f.RequiredIf) > 0, "it is required in any case, so that required_if has no effect: leave one of them out"},
		{f.Required && len(f.OnlyIf) > 0, "it is required in any case, and only_if refuses it: leave one of them out"},
		{strings.Contains(f.Default, "{{"), "its default holds {{, but a default is no template and would be used as it is written: require the field, and say in doc what to configure"},
		{f.Sealed && (f.Kind == abi.KindInteger || f.Kind == abi.KindBoolean || len(f.Enum) > 0), "it is sealed, but integers, booleans and values of an enum come to the plugin in plain: leave sealed out, or make it a string without an enum"},
	} {
		if rule.broken {
			return errors.New(rule.problem)
		}
	}
	if err := checkEscape(f); err != nil {
		return err
	}
	for member, conditions := range map[string][]abi.Condition{"required_if": f.RequiredIf, "only_if": f.OnlyIf} {
		if err := checkConditions(d, member, f.Name, conditions); err != nil {
			return err
		}
	}
	for _, purpose := range f.Purposes {
		if !slices.Contains(contract.Purposes, purpose) {
			return fmt.Errorf("there is no purpose %q; there are %s", printableText(purpose), strings.Join(contract.Purposes, ", "))
		}
	}
	if isKey {
		field.Sinks = 0 // it signs by its field, for its purposes and with its algorithm; mac would know neither (threats.md 105)
	}
	return nil
}

// secretEncodings are the ways in which the secret of an HMAC may be written.
var secretEncodings = []string{"text", contract.FormatBase64, contract.FormatBase64URL, contract.FormatBase32, contract.FormatHex}

// areEncodings reports whether all names of an enum are ways in which a secret may be written.
func areEncodings(enum []string) bool {
	return !slices.ContainsFunc(enum, func(name string) bool { return !slices.Contains(secretEncodings, name) })
}

// checkEscape returns an error if a field has an Escape that the host cannot honor.
func checkEscape(f *abi.Field) error {
	switch {
	case len(f.Values) > 0 && !f.Composed || f.Composed && f.Escape != "":
		return errors.New("only a field that is composed has values, and it has no escape of its own")
	case f.Escape == "" && !f.Composed:
	case f.Kind != abi.KindString && f.Kind != abi.KindObject, f.Sealed, len(f.Enum) > 0:
		return errors.New("only an object, or a string that is not sealed and has no enum, has escape or is composed")
	case f.Composed:
	case strings.ContainsFunc(f.Escape, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("escape holds a character that is not printable ASCII, or a space")
	case !strings.Contains(f.Escape, `\`):
		return errors.New(`escape lacks \: a value could end in a backslash, or hold one before another special character`)
	}
	return nil
}

// checkConditions returns an error unless each condition of a member names a field, other than one of a name, and only values of its enum.
func checkConditions(d *abi.Description, member, name string, conditions []abi.Condition) error {
	for _, condition := range conditions {
		index := slices.IndexFunc(d.Fields, func(f abi.Field) bool { return f.Name == condition.Field })
		switch {
		case index < 0 || condition.Field == name:
			return fmt.Errorf("%s names no other field", member)
		case condition.Absent && len(condition.Values) > 0:
			return fmt.Errorf("%s: a field that is absent has no values", member)
		case member == "required_if" && len(condition.Values) > 0 && len(d.Fields[index].RequiredIf) > 0: // so that no conditions go in circles
			return errors.New("required_if names a field that has required_if itself")
		}
		for _, value := range condition.Values {
			if !slices.Contains(d.Fields[index].Enum, value) {
				return fmt.Errorf("%s: %q is not in the enum of %s", member, printableText(value), condition.Field)
			}
		}
	}
	return nil
}

// checkAliases returns an error unless each name of a configuration's member stands for one field.
func checkAliases(d *abi.Description) error {
	owners := map[string]string{}
	for _, f := range d.Fields {
		owners[f.Name] = f.Name
	}
	for _, f := range d.Fields {
		if len(f.Aliases) > contract.MaxAliases {
			return fmt.Errorf("field %s: there are %d aliases, and %d are allowed", f.Name, len(f.Aliases), contract.MaxAliases)
		}
		for _, alias := range f.Aliases {
			if len(alias) > maxName || !fieldName.MatchString(alias) {
				return fmt.Errorf("field %s: its alias %q is a name that no field may have", f.Name, printableText(alias))
			}
			if owner := owners[alias]; owner != "" {
				return fmt.Errorf("field %s: its alias %s is a name of field %s already", f.Name, alias, owner)
			}
			owners[alias] = f.Name
		}
	}
	return nil
}

// token is the syntax of a part of a pattern. Its group is the repetition, if there is one. The syntax is that of RE2 which ECMA-262
// has as well, with the same meaning. So editors can check a text, and the pattern that they have is the one that the plugin's author
// wrote. There are no anchors, because the whole text must match. A parenthesis has no repetition right behind it, so that the ? of
// flags and other extensions is no token. Three things mean something else to each of them, and are no tokens: a point matches other line
// breaks, a class that begins with ] is empty to ECMA-262, and {01} is text to RE2 (threats.md 295).
const token = `\((?:\?:)?|\||(?:\)|` + plain + `|` + escaped + `|` + set + `|` + class + `)` + times

const (
	plain   = `[^\\^$.*+?()\[\]{}|]`
	escaped = `\\[\\^$.*+?()\[\]{}|/tnr]|\\x[0-9A-Fa-f]{2}`
	set     = `\\[dDwW]`
	member  = `(?:[^\\\[\]^-]|\\-|` + escaped + `)`
	class   = `\[\^?(?:-|-?(?:` + set + `|` + member + `(?:-` + member + `)?)+-?)\]` // RE2 reads [][a] as one class, and ECMA-262 as two, of which one is empty
	number  = `(?:0|[1-9][0-9]*)`
	times   = `([*+?]|\{` + number + `(?:,` + number + `?)?\})?`
)

var (
	tokens   = regexp.MustCompile(token)
	portable = regexp.MustCompile(`^(?:` + token + `)*$`)
)

// checkPattern checks the pattern of a field, and compiles it. It returns nil if there is no pattern.
func checkPattern(f *abi.Field, patterns *expr.Source) (*expr.Matcher, error) {
	switch {
	case f.Pattern == "" && f.PatternMessage == "":
		return nil, nil
	case f.Pattern == "" || f.PatternMessage == "":
		return nil, errors.New("pattern and pattern_message belong together: users read the message, and not the pattern")
	case f.Kind != abi.KindString || len(f.Enum) > 0:
		return nil, errors.New("only a string without an enum has a pattern")
	}
	return compilePattern(f.Pattern, patterns)
}

func compilePattern(pattern string, patterns *expr.Source) (*expr.Matcher, error) {
	if len(pattern) > contract.MaxPattern || printableText(pattern) != pattern {
		return nil, fmt.Errorf("its pattern has more than %d bytes, or characters that cannot be printed", contract.MaxPattern)
	}
	matcher, problem := patterns.Matcher(pattern)
	switch {
	case problem != "":
		return nil, errors.New("pattern: " + problem)
	case !portable.MatchString(pattern):
		return nil, errors.New(`its pattern has syntax that RE2 and ECMA-262 do not share: write no anchors, flags, names of groups or of classes, [^\n] in place of a point, and \ before - in a class and before other special characters`)
	}
	return matcher, nil
}

// maxWord limits the characters of the texts of a pattern for [seal.Value].Word.
const maxWord = 64

// areWords reports whether all texts that match a pattern are words: ASCII letters, digits and hyphens, at most maxWord.
func areWords(pattern string) bool {
	tree, err := syntax.Parse(pattern, syntax.Perl)
	return err == nil && longestWord(tree) <= maxWord
}

// longestWord returns the length of the longest text that matches a pattern. It is more than maxWord if one is no word.
func longestWord(tree *syntax.Regexp) (n int) {
	for _, sub := range tree.Sub {
		if length := longestWord(sub); tree.Op == syntax.OpAlternate {
			n = max(n, length)
		} else {
			n += length
		}
	}
	inWord := func(first, last rune) bool {
		return first == '-' && last == '-' || first >= '0' && last <= '9' || first >= 'A' && last <= 'Z' || first >= 'a' && last <= 'z'
	}
	switch tree.Op {
	case syntax.OpEmptyMatch, syntax.OpConcat, syntax.OpAlternate, syntax.OpCapture, syntax.OpQuest:
	case syntax.OpLiteral:
		if n = len(tree.Rune); slices.ContainsFunc(tree.Rune, func(r rune) bool { return !inWord(r, r) }) {
			n = maxWord + 1
		}
	case syntax.OpCharClass:
		n = 1
		for i := 0; i < len(tree.Rune); i += 2 {
			if !inWord(tree.Rune[i], tree.Rune[i+1]) {
				n = maxWord + 1
			}
		}
	case syntax.OpRepeat:
		if n *= tree.Max; tree.Max < 0 {
			n = maxWord + 1
		}
	default: // repetitions without end
		n = maxWord + 1
	}
	return min(n, maxWord+1)
}

// maxChoices limits the choices of a pattern in a schema: its repetitions and alternatives.
const maxChoices = 2

// schemaPattern returns the pattern of a field for a JSON Schema, or "". Engines of ECMA-262 try one choice after the other, so
// that a pattern with many choices, or with choices within a repetition, could take them years (threats.md 291). Three repetitions take
// hours for the longest template, and two take seconds.
func schemaPattern(f *abi.Field) string {
	if f.Pattern == "" || choices(f.Pattern) > maxChoices {
		return ""
	}
	return "^(?:" + f.Pattern + ")$"
}

// choices returns the number of choices in a pattern. It is more than maxChoices if there is one within a repetition.
func choices(pattern string) int {
	groups := []int{0} // the choices in each group that is open
	for _, found := range tokens.FindAllStringSubmatch(pattern, -1) {
		part, repetition := found[0], found[1]
		last := len(groups) - 1
		switch part[0] {
		case '(':
			groups = append(groups, 0)
			continue
		case ')':
			nested := groups[last]
			if nested > 0 && repetition != "" {
				return maxChoices + 1
			}
			groups, last = groups[:last], last-1
			groups[last] += nested
		case '|':
			groups[last]++
		}
		if strings.ContainsAny(repetition, "*+?,") {
			groups[last]++
		}
	}
	return groups[0]
}
