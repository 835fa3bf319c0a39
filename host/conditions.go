package host

import (
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/hostfn"
)

// needed makes a field required if a condition holds, and returns the reason for an error. A condition does not hold if a
// template determines the value of its field: calls check that.
func (k *checker) needed(field *hostfn.Field) (reason string) {
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
func (k *checker) effective(f *abi.Field) bool {
	reasons := make([]string, 0, len(f.OnlyIf))
	for _, condition := range f.OnlyIf {
		_, ok, certain := k.condition(&condition)
		if ok || !certain {
			return true
		}
		reasons = append(reasons, condition.String())
	}
	if len(reasons) > 0 {
		k.Wrong(k.connector.path(f.Name), "has no effect unless %s: remove it, or change that", strings.Join(reasons, ", or "))
	}
	return len(reasons) == 0
}

// condition returns the value of a condition's field, and reports whether the condition holds. certain is false if that depends
// on a template, or on a value that is an error itself.
func (k *checker) condition(condition *abi.Condition) (value string, ok, certain bool) {
	source, present := k.connector.config.Auth.Config[condition.Field]
	if len(condition.Values) == 0 {
		return "", present, true
	}
	fields := k.connector.plugin.info.Fields
	f := &fields[slices.IndexFunc(fields, func(f abi.Field) bool { return f.Name == condition.Field })]
	value, _ = source.(string)
	if !present {
		value = f.Default
	}
	return value, slices.Contains(condition.Values, value), !present || slices.Contains(f.Enum, value)
}
