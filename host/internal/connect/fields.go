package connect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/describe"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/internal/urlcheck"
)

// budget counts down the limits of a configuration.
type budget struct{ values, bytes, expressions int }

// spend subtracts a value from b and reports whether b sufficed for it. It ends even for a map that contains itself.
func (b *budget) spend(value any) bool {
	if b.values--; b.values < 0 {
		return false
	}
	switch value := value.(type) {
	case string:
		b.bytes -= len(value)
		if strings.Contains(value, "{{") {
			b.expressions -= len(value)
		}
	case json.Number:
		b.bytes -= len(value)
	case map[string]any:
		for name, member := range value {
			if b.bytes -= len(name); !b.spend(member) {
				return false
			}
		}
	case []any:
		for _, element := range value {
			if !b.spend(element) {
				return false
			}
		}
	}
	return min(b.bytes, b.expressions) >= 0
}

// fields checks each member of the configuration against the plugin's description.
func (k *checker) fields() {
	authType := k.in.Plugin.Description.Type
	fieldNames := make([]string, 0, len(k.in.Plugin.Fields))
	for _, own := range k.in.Plugin.Fields {
		field, f := &own, &own.Field
		fieldNames = append(fieldNames, f.Name)
		value, present := k.plan.Values[f.Name]
		value = plainValue(value)
		reason := k.requirement(field)
		k.plan.Fields[f.Name] = field
		switch {
		case present && value != nil:
			field.Source = value
			if k.effective(field) {
				k.field(field, value)
			}
		case present:
			k.wrongField(field, "is null: give it a value or leave it out")
		case field.Required:
			usual := ""
			if len(f.Suggested) > 0 {
				usual = " (usual: " + strings.Join(f.Suggested, ", ") + ")"
			}
			k.wrongField(field, "is missing%s: %s%s", reason, hint(describe.About(f)), usual)
		}
		name, _ := value.(string)
		if err := signing.CheckFIPS(cmp.Or(name, f.Default)); err != nil && len(f.Enum) > 0 {
			k.wrongField(field, "%v", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(k.plan.Values)) {
		if slices.Contains(fieldNames, name) || k.Skip() {
			continue
		}
		if len(fieldNames) == 0 {
			k.Wrong(k.plan.Path(name), "auth type %s has no configuration, remove it", authType)
			continue
		}
		k.Wrong(k.plan.Path(name), "is not a field of auth type %s%s", authType, problem.DidYouMean(name, fieldNames))
	}
}

// hint returns a plugin's documentation of a field, for the end of an error.
func hint(doc string) string {
	if doc == "" {
		return "it is required"
	}
	return printableText(strings.TrimSuffix(doc, "."))
}

// field checks a member of the configuration, and compiles its templates.
func (k *checker) field(f *hostfn.Field, value any) {
	if f.Kind == abi.KindObject {
		if _, ok := value.(map[string]any); !ok {
			f.Source = nil // keeps the value from validate
			k.wrongField(f, "is %s, an object is wanted", typeOf(value))
			return
		}
		object, errs := template.CompileObject(value, f.Escape)
		if len(errs) > 0 {
			k.template(f.Name, errs)
			return
		}
		f.Object = object
		k.names(f, object.Names())
		k.composed(f, value)
		return
	}
	text, ok := scalar(f.Kind, value)
	if !ok {
		doc, kind := "", cmp.Or(kindNames[f.Kind], "text")
		if _, isList := value.([]any); isList && f.Doc != "" { // it says what separates the parts of a text
			doc = ": " + hint(f.Doc)
		} else if kind == "text" && typeOf(value) == "a number" {
			doc = ": put it in quotes"
		}
		k.wrongField(f, "is %s, %s is wanted%s", typeOf(value), kind, doc)
		return
	}
	compiled, errs := template.CompileEscaped(text, f.Escape)
	if len(errs) > 0 {
		k.template(f.Name, errs)
		return
	}
	f.Text = compiled
	if compiled.Key() != nil {
		k.key(f)
		return
	}
	k.names(f, compiled.Names())
	k.compared(f, compiled.Names())
	k.fieldHost(f, text)
	if literal, ok := compiled.Literal(); ok {
		k.literal(f, literal)
		k.composed(f, literal)
	}
}

// composed checks the templates of compose in a field. Texts with template expressions are checked when a request is made.
func (k *checker) composed(f *hostfn.Field, value any) {
	if !f.Composed {
		return
	}
	object, isObject := value.(map[string]any)
	if !isObject {
		k.placeholders(k.plan.Path(f.Name), value, k.valuesOf(f, ""))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		k.placeholders(k.plan.Path(f.Name)+"."+name, object[name], k.valuesOf(f, name))
	}
}

// valuesOf returns the names of the values that the plugin adds to the templates of a field, or of its member if it is an object.
func (k *checker) valuesOf(f *hostfn.Field, member string) (names []string) {
	if k.in.Later { // what an earlier authentication has set shows by its exact name, see hostfn.Inputs.Earlier
		names = append(names, "header:authorization", "header:Authorization", "header:cookie", "header:Cookie")
	}
	for _, name := range f.Values {
		field, isObject := strings.CutSuffix(name, ".*")
		if !isObject {
			names = append(names, name)
			continue
		}
		object, _ := plainValue(k.plan.Values[field]).(map[string]any)
		for name := range object {
			if field != f.Name || name < member {
				names = append(names, name)
			}
		}
	}
	return names
}

// placeholders checks the templates of compose in a value, at any depth.
func (k *checker) placeholders(path string, value any, names []string) {
	switch value := value.(type) {
	case string:
		if message := contract.CheckTemplate(value, names...); message != "" && !strings.Contains(value, "{{") {
			k.Wrong(path, "%s", message)
		}
		if !k.in.State && !k.counts && strings.Contains(value, "{counter") && slices.Contains(names, "counter") {
			k.counts = true
			k.warn(path, "has {counter}, whose numbers rise within this process alone: with several nodes, use a store of state, or a key for each node")
		}
	case []any:
		for i, element := range value {
			k.placeholders(indexed(path, i), element, names)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			k.placeholders(path+"."+name, value[name], names)
		}
	}
}

func (k *checker) literal(f *hostfn.Field, literal string) {
	err := hostfn.CheckValue(f, literal)
	switch secret := f.Sealed || f.Kind == abi.KindKey; {
	case (f.Required || secret) && strings.TrimSpace(literal) == "":
		err = errors.New("is empty")
	case err == nil && f.Kind == abi.KindURL:
		err = k.in.CheckURL(literal)
	case err == nil && secret && filePath.MatchString(literal):
		err = errors.New("is the path of a file: keep the text of the file as a secret, and write {{ get_secret('NAME') }}")
	}
	if err != nil {
		k.wrong(k.plan.Path(f.Name), err)
	}
}

func (k *checker) wrong(path string, err error) {
	p := k.Wrong(path, "%v", err)
	if errors.Is(err, urlcheck.ErrPlainHTTP) {
		p.Code = CodePlainHTTP
	}
}

// filePath matches paths of files that people write in place of what is in the file, such as ./key.pem and /run/secrets/token.
var filePath = regexp.MustCompile(`^(?:file:|\.{1,2}/|~/|/run/secrets/|[A-Za-z]:\\)\S+$|^[^\s{}]+\.(?:pem|key|p8|p12|pfx|der|crt|cer|jwk|json|txt)$`)

// names adds the names in a field's templates to the plan: for the cache partition, for secret_get, and for errors.
func (k *checker) names(f *hostfn.Field, names template.Names) {
	plan := k.plan
	plan.Names = expr.Merged(plan.Names, names)
	for _, d := range names.Discovered {
		if err := k.in.CheckURL(d.Issuer); err != nil {
			k.wrongField(f, "the issuer of discover %v", err)
		}
	}
	sinks, derived := f.Sinks, f.Derived
	if len(f.Enum) > 0 || f.Kind == abi.KindInteger || f.Kind == abi.KindBoolean {
		sinks, derived = 0, 0 // the plugin gets one of a few plain values, and no right to the secret itself
	}
	for _, secret := range names.Secrets {
		plan.SecretSinks[secret] |= sinks
		plan.SecretDerived[secret] |= derived
	}
	plan.addSecrets(plan.Path(f.Name), names)
	k.listed(f, names)
}

// addSecrets records the path of a field for the secrets and identities that it is the first to name.
func (p *Plan) addSecrets(path string, names template.Names) {
	for _, secret := range names.Secrets {
		p.SecretFields[secret] = cmp.Or(p.SecretFields[secret], path)
	}
	for _, identity := range names.Identities {
		p.SecretFields[identity.String()] = cmp.Or(p.SecretFields[identity.String()], path)
	}
}

// template adds a problem for each error of a template, with its path and column.
func (k *checker) template(field string, errs []*template.Error) {
	for _, e := range errs {
		if k.Skip() {
			continue
		}
		path := k.plan.Path(field)
		if e.Path != "" && e.Path[0] != '[' { // no index
			path += "."
		}
		path += e.Path
		k.At(problem.Place{Column: e.Column}, path, "%s", e.Message)
	}
}

func indexed(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

// compared checks a field whose template is compared with a pattern. Users who choose a part of the text could ask about a secret in it
// with each of their names (threats.md 296). A user's own secret is their choice as well.
func (k *checker) compared(f *hostfn.Field, names template.Names) {
	choosable := slices.ContainsFunc(names.User, func(name string) bool { return name != "id" }) || slices.ContainsFunc(names.Secrets, expr.OfUser)
	shared := slices.ContainsFunc(names.Secrets, func(secret string) bool { return !expr.OfUser(secret) })
	if f.Matcher != nil && choosable && shared {
		k.wrongField(f, "names a secret beside what users choose, and is compared with a pattern, so that users could test guesses: leave one of them out")
	}
}

// key checks a field that names a key of the store of keys. Unless its value can only sign, the plugin needs bytes that nobody has.
func (k *checker) key(f *hostfn.Field) {
	path := k.plan.Path(f.Name)
	switch {
	case f.Kind != abi.KindKey && (!f.Sealed || f.Sinks != seal.Sign):
		k.At(problem.Place{Column: 1}, path, "%s", template.NoKey)
	case k.plan.Keys == nil:
		k.At(problem.Place{Column: 1}, path, "there is no store of keys for get_key").Code = CodeNoKeyStore
	default:
		k.plan.AsksKeys = true
	}
}

// requirement makes a field required if a condition holds, and returns the reason for an error. Calls check conditions on templates.
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

// effective adds a problem, and returns false, unless a condition of the field's OnlyIf holds, or may once a template is rendered.
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
		return "", present != condition.Absent, true
	}
	fields := k.in.Plugin.Fields
	f := &fields[slices.IndexFunc(fields, func(f hostfn.Field) bool { return f.Name == condition.Field })]
	value, _ = source.(string)
	if !present {
		value = f.Default
	}
	return value, slices.Contains(condition.Values, value), !present || slices.Contains(f.Enum, value)
}

// plainValue returns a value of a configuration with the types of JSON in place of other maps, lists, texts and numbers of Go.
func plainValue(value any) any {
	switch number := value.(type) {
	case int, int32, int64, uint, uint32, uint64:
		return json.Number(fmt.Sprint(number))
	case float64:
		if text, err := json.Marshal(number + 0); err == nil { // + 0 makes 0 of -0
			return json.Number(text)
		}
	}
	switch v := reflect.ValueOf(value); v.Kind() {
	case reflect.String:
		if _, number := value.(json.Number); !number {
			return v.String()
		}
	case reflect.Map:
		if v.IsNil() || v.Type().Key().Kind() != reflect.String {
			return value
		}
		object := map[string]any{}
		for _, key := range v.MapKeys() {
			object[key.String()] = plainValue(v.MapIndex(key).Interface())
		}
		return object
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = plainValue(v.Index(i).Interface())
		}
		return list
	}
	return value
}

// scalar returns the text of a value, and reports whether a field of the kind may have the value. A field of any kind
// may have a text, since it may be a template.
func scalar(kind string, value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case bool:
		return fmt.Sprint(v), kind == abi.KindBoolean
	case json.Number:
		return v.String(), kind == abi.KindInteger
	}
	return "", false
}

// kindNames name the values of kinds, for errors. All others are text.
var kindNames = map[string]string{abi.KindInteger: "an integer", abi.KindBoolean: "true or false"}

func typeOf(value any) string {
	switch value.(type) {
	case string:
		return "text"
	case bool:
		return "true or false"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case json.Number:
		return "a number"
	}
	if reflect.ValueOf(value).CanFloat() || reflect.ValueOf(value).CanInt() || reflect.ValueOf(value).CanUint() {
		return "a number"
	}
	return fmt.Sprintf("a Go %T", value)
}
