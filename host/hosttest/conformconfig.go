package hosttest

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
)

// configurations finds the configurations for the other checks: those that were given, or some made from the description.
func (c *conformer) configurations(k *checking) {
	c.secret("code")
	for _, f := range c.info.Fields {
		if f.Sealed && f.Kind == abi.KindString {
			c.secretOf(&f, f.Name)
		}
	}
	if err := c.keys(); err != nil {
		k.find("%v", err)
		return
	}
	if len(c.given) > 0 {
		k.Tried = "configurations that were given"
		c.takeGiven(k)
		return
	}
	c.trial(k, "configurations", func(t *trial) {
		m := &maker{trial: t, examples: map[string][]any{}}
		first := m.first()
		if first == nil {
			return
		}
		m.add(first)
		full := m.full(first)
		m.add(full)
		for i := range c.info.Fields {
			m.values(first, &c.info.Fields[i])
			m.values(full, &c.info.Fields[i])
		}
		k.Tried = fmt.Sprintf("configurations made from the description, %d in all", len(c.configs))
	})
}

// add adds a configuration of the checks, unless it is there.
func (m *maker) add(config Config) {
	c := m.c
	if !slices.ContainsFunc(c.configs, func(other Config) bool { return fmt.Sprint(other) == fmt.Sprint(config) }) {
		c.configs = append(c.configs, config)
		result := m.tried("the number of exchanges", config)
		c.exchanges = append(c.exchanges, len(result.exchanges))
	}
}

// takeGiven takes the configurations that were given.
func (c *conformer) takeGiven(k *checking) {
	for _, config := range c.given {
		for _, f := range c.info.Fields {
			for _, name := range secretNames(config[f.Name]) {
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
	c.trial(k, "configurations", func(t *trial) {
		m := &maker{trial: t, examples: map[string][]any{}}
		for i, config := range c.given {
			result := t.tried(fmt.Sprintf("configuration %d", i+1), config)
			if result.wrong == "" && !result.authenticated() {
				k.find("configuration %d is refused: %v", i+1, result.err)
			}
			m.add(config)
		}
	})
}

var secretName = regexp.MustCompile(`get_secret\(\s*['"]([^'"]+)['"]\s*\)`)

// secretNames returns the names of the secrets in a value of a configuration.
func secretNames(value any) (names []string) {
	for _, match := range secretName.FindAllStringSubmatch(fmt.Sprint(value), -1) {
		names = append(names, match[1])
	}
	return names
}

var variableName = regexp.MustCompile(`get_variable\(\s*['"]([^'"]+)['"]\s*\)`)

// variables returns the names of the variables in configurations.
func variables(configs []Config) (names []string) {
	for _, match := range variableName.FindAllStringSubmatch(fmt.Sprint(configs), -1) {
		names = append(names, match[1])
	}
	return names
}

var hostName = regexp.MustCompile(`https?://([^/\s"'{}]+)`)

// hostsOf returns the hosts in the URLs of configurations.
func hostsOf(configs []Config) (names []string) {
	for _, match := range hostName.FindAllStringSubmatch(fmt.Sprint(configs), -1) {
		if !slices.Contains(names, match[1]) {
			names = append(names, match[1])
		}
	}
	return names
}

// conformURL is the URL of requests whose path and query do not matter. Its path has the text that the credential replaces if a
// field names one.
const conformURL = "https://api.test/v1/example/things?a=b"

// tried sends a request with a configuration. If the plugin refuses a GET, it sends a form, and then JSON: some APIs take nothing else.
// The result is that of the request that was sent, or of the GET.
func (t *trial) tried(name string, config Config) *result {
	first := t.send(name, config, GET(conformURL))
	for _, r := range []*http.Request{sampleRequest(), POST(conformURL, `{"name":"value"}`)} {
		if first.authenticated() || first.wrong != "" {
			break
		}
		if r.Header.Get("Content-Type") == "" {
			r.Header.Set("Content-Type", "application/json")
		}
		if other := t.send(name+", by POST", config, r); other.authenticated() {
			return other
		}
	}
	return first
}

// maker makes configurations.
type maker struct {
	*trial
	// examples are the values that errors of fields have named, by field.
	examples map[string][]any
}

// first returns a configuration with the required fields, and with what validate asks for besides. It returns nil, with a finding,
// if there is none that authenticates a request.
func (m *maker) first() Config {
	config := Config{}
	for i := range m.c.info.Fields {
		if f := &m.c.info.Fields[i]; m.required(f, config) {
			config[f.Name] = m.candidates(f, config)[0]
		}
	}
	config, err := m.solve(config, "")
	if config == nil {
		m.k.find("no configuration was found: give one. The last one that was tried has the problem: %v", err)
		return nil
	}
	failure := m.works(config)
	for _, f := range slices.Concat(m.c.optional(true), m.c.optional(false)) {
		if failure == nil {
			break
		}
		tried := maps.Clone(config)
		tried[f.Name] = m.candidates(&f, config)[0]
		if solved, _ := m.solve(tried, f.Name); solved != nil && m.works(solved) == nil {
			config, failure = solved, nil
		}
	}
	if failure != nil {
		m.k.find("a request with the configuration %v fails: give one that works. The error is: %v", config, failure)
		return nil
	}
	return config
}

// works returns the error of a request with a configuration, or nil.
func (m *maker) works(config Config) error {
	result := m.tried("a first request", config)
	if !result.authenticated() && result.err == nil {
		return errors.New(result.wrong)
	}
	return result.err
}

// optional returns the optional fields whose values are sealed, or those whose values are not.
func (c *conformer) optional(sealed bool) (fields []abi.Field) {
	for _, f := range c.info.Fields {
		if !f.Required && sealed == (f.Sealed || f.Kind == abi.KindKey) {
			fields = append(fields, f)
		}
	}
	return fields
}

// full returns a configuration with as many optional fields as authenticate a request together.
func (m *maker) full(first Config) Config {
	full := first
	for i := range m.c.info.Fields {
		f := &m.c.info.Fields[i]
		if _, there := full[f.Name]; there || !m.allowed(f, full) {
			continue
		}
		for _, value := range m.candidates(f, full) {
			tried := maps.Clone(full)
			tried[f.Name] = value
			solved, _ := m.solve(tried, f.Name)
			if solved == nil {
				continue
			}
			if m.tried("field "+f.Name, solved).authenticated() {
				full = solved
			}
			break
		}
	}
	return full
}

// values adds a configuration for each value that a field may have.
func (m *maker) values(config Config, f *abi.Field) {
	var all []any
	for _, value := range f.Enum {
		all = append(all, value)
	}
	if f.Kind == abi.KindBoolean {
		all = []any{true, false}
	}
	for _, value := range all {
		tried := maps.Clone(config)
		tried[f.Name] = value
		if solved, _ := m.solve(tried, f.Name); solved != nil {
			m.add(solved)
		}
	}
}

// solve changes a configuration until it is accepted: it tries other values of the fields that have problems, and adds and removes
// fields. It leaves the field keep as it is. It returns nil and the last error if it finds none.
func (m *maker) solve(config Config, keep string) (Config, error) {
	config = maps.Clone(config)
	tries := map[string]int{}
	var err error
	for range 50 {
		m.settle(config, keep)
		err = m.problems(config)
		var problems *host.ConfigError
		if !errors.As(err, &problems) {
			return config, err
		}
		changed := false
		for _, p := range problems.Problems {
			name, _, _ := strings.Cut(strings.TrimPrefix(p.Path, "auth.config."), ".")
			f := m.field(name)
			if f == nil || name == keep {
				continue
			}
			m.learn(name, p.Message)
			candidates := m.candidates(f, config)
			if _, there := config[name]; there {
				tries[name]++
			}
			if tries[name] < len(candidates) {
				config[name], changed = candidates[tries[name]], true
			} else if !m.required(f, config) && config[name] != nil {
				delete(config, name)
				changed = true
			}
		}
		if !changed {
			break
		}
	}
	return nil, err
}

var example = regexp.MustCompile(`(?:as in|such as|like) "?([^\s",;]+)`)

// learn adds the examples of an error to the candidates of a field.
func (m *maker) learn(field, message string) {
	for _, match := range example.FindAllStringSubmatch(message, -1) {
		if !slices.Contains(m.examples[field], any(match[1])) {
			m.examples[field] = append(m.examples[field], match[1])
		}
	}
}

// problems connects with a configuration and returns the error.
func (m *maker) problems(config Config) (err error) {
	m.connection = "made"
	m.tb.Run(func() { _, err = m.connect(config, GET(conformURL)) })
	if wrong := failed(failureOf(err)); wrong != "" {
		m.k.find("%s in validate of %v", wrong, config)
	}
	return err
}

// settle adds the fields that conditions require, removes those that they forbid, and uses keys of the right algorithms.
func (m *maker) settle(config Config, keep string) {
	for i := range m.c.info.Fields {
		f := &m.c.info.Fields[i]
		value, there := config[f.Name]
		switch {
		case there && f.Name != keep && !m.allowed(f, config):
			delete(config, f.Name)
		case !there && m.required(f, config) && m.allowed(f, config):
			config[f.Name] = m.candidates(f, config)[0]
		case there && f.Kind == abi.KindKey && strings.HasPrefix(fmt.Sprint(value), "{{ get_secret('key_"):
			config[f.Name] = m.candidates(f, config)[0]
		}
	}
}

func (m *maker) field(name string) *abi.Field {
	i := slices.IndexFunc(m.c.info.Fields, func(f abi.Field) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return &m.c.info.Fields[i]
}

func (m *maker) required(f *abi.Field, config Config) bool {
	return f.Required || slices.ContainsFunc(f.RequiredIf, func(condition abi.Condition) bool { return m.holds(condition, config) })
}

func (m *maker) allowed(f *abi.Field, config Config) bool {
	return len(f.OnlyIf) == 0 || slices.ContainsFunc(f.OnlyIf, func(condition abi.Condition) bool { return m.holds(condition, config) })
}

func (m *maker) holds(condition abi.Condition, config Config) bool {
	value, there := config[condition.Field]
	if f := m.field(condition.Field); !there && f != nil && f.Default != "" {
		value, there = f.Default, true
	}
	return there && (len(condition.Values) == 0 || slices.Contains(condition.Values, fmt.Sprint(value)))
}

// candidates returns values for a field, the likeliest first.
func (m *maker) candidates(f *abi.Field, config Config) (all []any) {
	switch f.Kind {
	case abi.KindKey:
		return []any{"{{ get_secret('" + keySecret(m.c.algorithm(f, config)) + "') }}"}
	case abi.KindCertificate:
		return []any{"{{ get_secret('" + certificateSecret + "') }}"}
	case abi.KindInteger:
		return integers(f)
	case abi.KindBoolean:
		return []any{true, false}
	case abi.KindObject:
		return []any{Config{"example": "value"}, Config{"contents": "read"}, Config{}}
	case abi.KindURL:
		all = append(all, "https://login.test/"+f.Name, "https://login.test")
	}
	if f.Sealed {
		return []any{"{{ get_secret('" + f.Name + "') }}"}
	}
	for _, value := range f.Enum {
		all = append(all, value)
	}
	if len(f.Enum) > 0 {
		return all
	}
	if m.c.place(f.Name) {
		all = append(all, "json:/"+f.Name)
	}
	for _, value := range f.Suggested {
		all = append(all, value)
	}
	if f.Kind == abi.KindURL {
		return all
	}
	if f.Default != "" {
		all = append(all, f.Default)
	}
	all = append(all, "example")
	m.learn(f.Name, f.PatternMessage)
	all = append(all, m.examples[f.Name]...)
	all = append(all, "X-Example", "https://login.test/", "1", "{example}", "{path}", "json:/example", "example.test", "a=b")
	if f.Pattern != "" {
		return matching(f.Pattern, all)
	}
	return all
}

// place reports whether a field has the place of an answer.
func (c *conformer) place(name string) bool {
	answers := c.info.Answers
	if c.info.Challenge != nil {
		answers = slices.Concat(answers, c.info.Challenge.Answers)
	}
	return slices.ContainsFunc(answers, func(a abi.Answer) bool { return a.FromField == name })
}
