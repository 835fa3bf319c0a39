package connect

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/keywright/keywright/abi"
)

// plainValue returns a value of a configuration with the types of JSON in place of other maps, lists and texts of Go.
func plainValue(value any) any {
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
	case int, int32, int64, uint, uint32, uint64:
		return fmt.Sprint(v), kind == abi.KindInteger
	case float64:
		return fmt.Sprintf("%.0f", v), kind == abi.KindInteger && v == float64(int64(v))
	}
	return "", false
}

// kindName names the values of a kind, for errors.
func kindName(kind string) string {
	switch kind {
	case abi.KindInteger:
		return "an integer"
	case abi.KindBoolean:
		return "true or false"
	}
	return "text"
}

// typeOf names the type of a value, for errors.
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
