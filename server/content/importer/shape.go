package importer

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/keywright/keywright/server/content"
)

// shape describes the JSON values that a field may have.
type shape struct {
	kind kind
	// members holds the shapes of the members of a kindRecord.
	members map[string]*shape
	// element is the shape of the elements of a kindList.
	element *shape
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
	kindObject // an object of any members
)

// String returns the name of the kind in problems.
func (k kind) String() string {
	return [...]string{"a string", "a string", "an integer", "true or false", "an array", "an object", "an object"}[k]
}

var (
	// types are the values of the member "type".
	types = []string{"productUpdate", "article", "reply", "moderator"}
	// shapes holds the shape of each type of record. They are derived from the types that decode uses, so that decode
	// and diagnose agree.
	shapes = map[string]*shape{
		"productUpdate": shapeOf(reflect.TypeFor[productUpdate]()),
		"article":       shapeOf(reflect.TypeFor[article]()),
		"reply":         shapeOf(reflect.TypeFor[reply]()),
		"moderator":     shapeOf(reflect.TypeFor[moderator]()),
	}
	deletionShape      = shapeOf(reflect.TypeFor[deletion]())
	replyDeletionShape = shapeOf(reflect.TypeFor[replyDeletion]())
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
