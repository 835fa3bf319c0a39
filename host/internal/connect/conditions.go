package connect

import (
	"maps"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/hostfn"
)

// aliases puts the name of each field in place of the alias that the configuration has. From here on the connector is as if it had
// been configured with that name, with its partition in the cache, its grants and its sinks. Only errors have the alias.
func (k *checker) aliases() {
	written := k.in.Values
	k.plan.Values = maps.Clone(written)
	for _, f := range k.in.Plugin.Fields {
		_, present := written[f.Name]
		configName := f.Name
		for _, alias := range f.Aliases {
			value, there := written[alias]
			if !there {
				continue
			}
			delete(k.plan.Values, alias)
			if present {
				k.Wrong(k.plan.Path(alias), "is a former name of %s, and %s is there too: remove it", f.Name, configName)
				continue
			}
			k.plan.Values[f.Name], k.plan.aliases[f.Name] = value, alias
			present, configName = true, alias
			k.warn(k.plan.Path(alias), "is a deprecated name, use %q", f.Name)
		}
	}
}

// Path returns the path of a field, or of a member within one, in the connector as it is written.
func (p *Plan) Path(field string) string {
	name, rest, nested := strings.Cut(field, ".")
	if alias := p.aliases[name]; alias != "" {
		name = alias
	}
	if nested {
		name += "." + rest
	}
	return "auth.config." + name
}

// requirement makes a field required if a condition holds, and returns the reason for an error. A condition does not hold if a
// template determines the value of its field: calls check that.
func (k *checker) requirement(field *hostfn.Field) (reason string) {
	for _, condition := range field.RequiredIf {
		if value, ok, _ := k.condition(&condition); ok {
			field.Required = true
			if len(condition.Values) > 0 {
				condition.Values = []string{value}
			}
			return ", and " + condition.String()
		}
	}
	return ""
}

// effective reports whether a field that is present has an effect: whether a condition of its OnlyIf holds, or may hold once a
// template is rendered. Otherwise it adds a problem.
func (k *checker) effective(f *hostfn.Field) bool {
	reasons := make([]string, 0, len(f.OnlyIf))
	for _, condition := range f.OnlyIf {
		_, ok, certain := k.condition(&condition)
		if ok || !certain {
			return true
		}
		reasons = append(reasons, condition.String())
	}
	if len(reasons) > 0 {
		k.wrongField(f, "has no effect unless %s: remove it, or change that", strings.Join(reasons, ", or "))
	}
	return len(reasons) == 0
}

// condition returns the value of a condition's field, and reports whether the condition holds. certain is false if that depends
// on a template, or on a value that is an error itself.
func (k *checker) condition(condition *abi.Condition) (value string, ok, certain bool) {
	source, present := k.plan.Values[condition.Field]
	if len(condition.Values) == 0 {
		return "", present, true
	}
	fields := k.in.Plugin.Fields
	f := &fields[slices.IndexFunc(fields, func(f hostfn.Field) bool { return f.Name == condition.Field })]
	value, _ = source.(string)
	if !present {
		value = f.Default
	}
	return value, slices.Contains(condition.Values, value), !present || slices.Contains(f.Enum, value)
}
