package conform

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/hosttest"
)

// configurations finds the configurations for the other checks: those of the caller, or some made from the description.
func (c *conformer) configurations(k *checking) {
	c.secret("code")
	for _, f := range c.sealedFields() {
		c.secretOf(&f, f.Name)
	}
	if err := c.keys(); err != nil {
		k.find("%v", err)
		return
	}
	if len(c.callers) > 0 {
		k.Tried = "configurations that were given"
		c.nameSecrets()
	}
	c.trial(k, "configurations", func(t *trial) {
		for i, config := range c.callers {
			got := t.try(fmt.Sprintf("configuration %d", i+1), config)
			if got.wrong == "" && !got.authenticated() {
				k.find("configuration %d is refused: %v", i+1, got.err)
			}
			t.add(config, got)
		}
		if len(c.callers) > 0 {
			return
		}
		first := t.first()
		if first == nil {
			return
		}
		full := t.full(first)
		for _, f := range c.info.Fields {
			t.addValues(first, &f)
			t.addValues(full, &f)
		}
		k.Tried = fmt.Sprintf("configurations made from the description, %d in all", len(c.configs))
	})
}

// nameSecrets makes up the secrets that the configurations of the caller name.
func (c *conformer) nameSecrets() {
	for _, config := range c.callers {
		for _, f := range c.info.Fields {
			for _, name := range found(secretName, config[f.Name]) {
				switch f.Kind {
				case abi.KindKey:
					c.secrets[name] = c.secrets[keySecret(c.algorithm(&f, config))]
				case abi.KindCertificate:
					c.secrets[name] = c.secrets[certificateSecret]
				default:
					c.secretOf(&f, name)
				}
			}
		}
	}
}

// Parts of the values of configurations.
var (
	secretName   = regexp.MustCompile(`get_secret\(\s*['"]([^'"]+)['"]\s*\)`)
	variableName = regexp.MustCompile(`get_variable\(\s*['"]([^'"]+)['"]\s*\)`)
	hostName     = regexp.MustCompile(`https?://([^/\s"'{}]+)`)
)

// found returns the parts of a value that an expression captures.
func found(part *regexp.Regexp, value any) (all []string) {
	for _, match := range part.FindAllStringSubmatch(fmt.Sprint(value), -1) {
		all = append(all, match[1])
	}
	return all
}

// sealedFields returns the fields whose whole value is a secret text.
func (c *conformer) sealedFields() []abi.Field {
	return slices.DeleteFunc(slices.Clone(c.info.Fields), func(f abi.Field) bool { return !f.Sealed || f.Kind != abi.KindString })
}

// add adds a configuration of the checks, and the number of its exchanges, unless it is there.
func (t *trial) add(config hosttest.Config, got *result) {
	c := t.c
	if !slices.ContainsFunc(c.configs, func(prev hosttest.Config) bool { return fmt.Sprint(prev) == fmt.Sprint(config) }) {
		c.configs = append(c.configs, config)
		c.exchanges = append(c.exchanges, len(got.exchanges))
	}
}

// try sends a request with a configuration. If the plugin refuses a GET, it sends a form, and then JSON: some APIs take nothing else.
// The result is that of the request that was sent, or of the GET.
func (t *trial) try(name string, config hosttest.Config) *result {
	first := t.send(name, config, hosttest.GET(plainURL))
	document := hosttest.POST(plainURL, `{"name":"value"}`)
	document.Header.Set("Content-Type", "application/json")
	for _, r := range []*http.Request{formRequest(), document} {
		if first.authenticated() || first.wrong != "" || len(first.problems) > 0 {
			break
		}
		if second := t.send(name+", by POST", config, r); second.authenticated() {
			return second
		}
	}
	return first
}

func setField(config hosttest.Config, name string, value any) hosttest.Config {
	config = maps.Clone(config)
	config[name] = value
	return config
}

// first adds and returns a configuration with the required fields, and with what validate asks for besides. It returns nil, with a
// finding, if there is none that authenticates a request.
func (t *trial) first() hosttest.Config {
	config, got := t.solve("a first request", hosttest.Config{}, "")
	if config == nil {
		t.k.find("no configuration was found: give one. The last one that was tried has the problem: %v", got.err)
		return nil
	}
	sealed := func(f abi.Field) int {
		if f.Sealed || f.Kind == abi.KindKey {
			return 0
		}
		return 1
	}
	for _, f := range slices.SortedStableFunc(slices.Values(t.c.info.Fields), func(a, b abi.Field) int { return sealed(a) - sealed(b) }) {
		if got.authenticated() {
			break
		}
		if f.Required {
			continue
		}
		extended, next := t.solve("field "+f.Name, setField(config, f.Name, t.candidates(&f, config)[0]), f.Name)
		if extended != nil && next.authenticated() {
			config, got = extended, next
		}
	}
	if !got.authenticated() {
		t.k.find("a request with the configuration %v fails: give one that works. The error is: %v", config, got.err)
		return nil
	}
	t.add(config, got)
	return config
}

// full adds and returns a configuration with as many optional fields as authenticate a request together.
func (t *trial) full(config hosttest.Config) hosttest.Config {
	got := &result{}
	for _, f := range t.c.info.Fields {
		if _, ok := config[f.Name]; ok {
			continue
		}
		for _, value := range t.candidates(&f, config) {
			if extended, next := t.solve("field "+f.Name, setField(config, f.Name, value), f.Name); extended != nil {
				if next.authenticated() {
					config, got = extended, next
				}
				break
			}
		}
	}
	t.add(config, got)
	return config
}

// addValues adds a configuration for each value that a field may have.
func (t *trial) addValues(config hosttest.Config, f *abi.Field) {
	if len(f.Enum) == 0 && f.Kind != abi.KindBoolean {
		return
	}
	for _, value := range t.candidates(f, config) {
		if solved, got := t.solve("field "+f.Name, setField(config, f.Name, value), f.Name); solved != nil {
			t.add(solved, got)
		}
	}
}

// rounds limits the configurations that solve tries.
const rounds = 100

// solve changes a configuration until it is accepted, and returns it with the result of a request: it tries other values of the fields that
// have problems, and adds and removes fields. It leaves the field fixed as it is. It returns nil and the last result if it finds none.
func (t *trial) solve(name string, config hosttest.Config, fixed string) (hosttest.Config, *result) {
	config = maps.Clone(config)
	positions := map[string]int{} // in the candidates of a field, behind which it is absent
	var got *result
	for range rounds {
		for _, f := range t.c.info.Fields {
			if text, _ := config[f.Name].(string); f.Kind == abi.KindKey && strings.HasPrefix(text, "{{ get_secret('key_") {
				config[f.Name] = t.candidates(&f, config)[0] // a key for the algorithm
			}
		}
		got = t.try(name, config)
		if len(got.problems) == 0 {
			return config, got
		}
		t.c.cases--
		t.k.Cases-- // there was no request
		changed := false
		for _, p := range got.problems {
			field, _, _ := strings.Cut(strings.TrimPrefix(p.Path, "auth.config."), ".")
			i := slices.IndexFunc(t.c.info.Fields, func(f abi.Field) bool { return f.Name == field })
			if i < 0 || field == fixed {
				continue
			}
			changed = true
			t.learn(field, p.Message)
			candidates := t.candidates(&t.c.info.Fields[i], config)
			if _, present := config[field]; present || positions[field] > 0 {
				positions[field]++
			}
			delete(config, field)
			if pos := positions[field] % (len(candidates) + 1); pos < len(candidates) {
				config[field] = candidates[pos]
			}
		}
		if !changed {
			break
		}
	}
	return nil, got
}

var example = regexp.MustCompile(`(?:as in|such as|like) "?([^\s",;]+)`)

// learn adds the examples of an error to the candidates of a field.
func (t *trial) learn(field, message string) {
	for _, match := range example.FindAllStringSubmatch(message, -1) {
		if !slices.Contains(t.examples[field], match[1]) {
			t.examples[field] = append(t.examples[field], match[1])
		}
	}
}

// candidates returns values for a field, the likeliest first.
func (t *trial) candidates(f *abi.Field, config hosttest.Config) (all []any) {
	switch f.Kind {
	case abi.KindKey:
		return []any{"{{ get_secret('" + keySecret(t.c.algorithm(f, config)) + "') }}"}
	case abi.KindCertificate:
		return []any{"{{ get_secret('" + certificateSecret + "') }}"}
	case abi.KindInteger:
		return integers(f)
	case abi.KindBoolean:
		return []any{true, false}
	case abi.KindObject:
		return []any{hosttest.Config{"example": "value"}, hosttest.Config{"contents": "read"}, hosttest.Config{}}
	}
	texts := f.Enum
	switch {
	case f.Sealed:
		texts = []string{"{{ get_secret('" + f.Name + "') }}"}
	case len(texts) == 0:
		texts = t.texts(f)
	}
	for _, text := range texts {
		all = append(all, text)
	}
	return all
}

func (t *trial) texts(f *abi.Field) (all []string) {
	if f.Kind == abi.KindURL {
		all = append(all, "https://login.test/"+f.Name, "https://login.test")
	}
	answers := slices.Concat(t.c.info.Answers, t.c.challenge.Answers)
	if slices.ContainsFunc(answers, func(a abi.Answer) bool { return a.FromField == f.Name }) {
		all = append(all, "json:/"+f.Name)
	}
	all = append(all, f.Suggested...)
	if f.Kind == abi.KindURL {
		return all
	}
	if f.Default != "" {
		all = append(all, f.Default)
	}
	all = append(all, "example")
	t.learn(f.Name, f.PatternMessage)
	all = append(all, t.examples[f.Name]...)
	all = append(all, "X-Example", "https://login.test/", "1", "{example}", "{path}", "json:/example", "example.test", "a=b")
	if f.Pattern != "" {
		pattern := regexp.MustCompile(`\A(?:` + f.Pattern + `)\z`)
		all = append(slices.DeleteFunc(all, func(text string) bool { return !pattern.MatchString(text) }), sample(f.Pattern, rand.Text()))
	}
	return all
}
