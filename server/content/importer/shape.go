package importer

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/keywright/keywright/server/content"
)

// shape describes the values that are allowed in a place.
type shape struct {
	kind    kind
	members map[string]*shape // of a kindRecord
	element *shape            // of a kindList
}

type kind int

// The kinds of values.
const (
	kindText kind = iota
	kindTimestamp
	kindInteger
	kindBoolean
	kindList
	kindRecord
	kindObject // any object
)

// String is how problems name the kind.
func (k kind) String() string {
	return [...]string{"a string", "a string", "an integer", "true or false", "an array", "an object", "an object"}[k]
}

// types are those of records, and shapes how records of a type look: as they are read, so that both cannot differ.
var (
	types  = []string{"productUpdate", "article", "reply", "moderator"}
	shapes = map[string]*shape{
		"productUpdate": shapeOf(reflect.TypeFor[productUpdate]()),
		"article":       shapeOf(reflect.TypeFor[article]()),
		"reply":         shapeOf(reflect.TypeFor[reply]()),
		"moderator":     shapeOf(reflect.TypeFor[moderator]()),
	}
)

func shapeOf(t reflect.Type) *shape {
	switch t {
	case reflect.TypeFor[content.Timestamp]():
		return &shape{kind: kindTimestamp}
	case reflect.TypeFor[content.Object]():
		return &shape{kind: kindObject}
	}
	switch t.Kind() {
	case reflect.String:
		return &shape{kind: kindText}
	case reflect.Int64:
		return &shape{kind: kindInteger}
	case reflect.Bool:
		return &shape{kind: kindBoolean}
	case reflect.Slice:
		return &shape{kind: kindList, element: shapeOf(t.Elem())}
	case reflect.Struct:
		s := &shape{kind: kindRecord, members: map[string]*shape{}}
		for field := range t.Fields() {
			if field.Anonymous {
				for name, member := range shapeOf(field.Type).members {
					s.members[name] = member
				}
				continue
			}
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			s.members[name] = shapeOf(field.Type)
		}
		return s
	}
	panic(fmt.Sprintf("importer: a record has the type %s, which has no shape", t))
}
