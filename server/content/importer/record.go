package importer

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/keywright/keywright/server/content"
)

// The JSON of the records.
type (
	productUpdate struct {
		head
		content.ProductUpdate
	}
	article struct {
		head
		content.Article
	}
	reply struct {
		head
		ArticleID string `json:"articleId"`
		content.Reply
	}
	moderator struct {
		head
		content.Moderator
	}
	head struct {
		Type    string `json:"type"`
		Deleted bool   `json:"deleted"`
	}
)

// The JSON of records that are to be deleted.
type (
	deletion struct {
		head
		ID string `json:"id"`
	}
	replyDeletion struct {
		deletion
		ArticleID string `json:"articleId"`
	}
)

var (
	errType           = errors.New("there is no such type")
	errTooManyObjects = errors.New("there are too many objects")
	errTooDeep        = errors.New("an object is nested too deep")
)

// maxObjects is the maximum number of objects in a record. An object such as a report may be {} in the input, but takes
// hundreds of bytes in the store and in responses.
const maxObjects = 10_000

func tooManyObjects(text []byte) bool {
	if bytes.Count(text, []byte("{")) <= maxObjects { // also counts braces in strings, but decides most records
		return false
	}
	objects := 0
	for d := decoder(text); ; {
		token, err := d.ReadToken()
		if err != nil || objects > maxObjects {
			return objects > maxObjects
		}
		if token.Kind() == '{' {
			objects++
		}
	}
}

// decode decodes a record, in one pass if its type comes first and it is not to be deleted. It returns an error if
// anything is wrong with the record; diagnose finds all problems and their places.
// options are those of a record: none lets members pass that are not known.
func decode(text []byte, options ...json.Options) (content.Record, error) {
	if tooManyObjects(text) {
		return content.Record{}, errTooManyObjects
	}
	r, err := decodeRecord(text, options...)
	if err != nil || !r.Deleted {
		return r, err
	}
	if r.Reply != nil { // a record that is to be deleted has no more than what names it
		return r, json.Unmarshal(text, &replyDeletion{}, strict)
	}
	return r, json.Unmarshal(text, &deletion{}, strict)
}

func decodeRecord(text []byte, options ...json.Options) (content.Record, error) {
	switch typeOf(text) {
	case "productUpdate":
		var r productUpdate
		err := json.Unmarshal(text, &r, options...)
		return content.Record{ProductUpdate: &r.ProductUpdate, Deleted: r.Deleted}, errors.Join(err, content.CheckID(r.ID))
	case "article":
		var r article
		err := json.Unmarshal(text, &r, options...)
		if tooDeep([]byte(r.Links.Self)) {
			err = errTooDeep
		}
		return content.Record{Article: &r.Article, Deleted: r.Deleted}, errors.Join(err, content.CheckID(r.ID))
	case "reply":
		var r reply
		err := json.Unmarshal(text, &r, options...)
		return content.Record{Reply: &r.Reply, ArticleID: r.ArticleID, Deleted: r.Deleted}, errors.Join(err, content.CheckID(r.ID), content.CheckID(r.ArticleID))
	case "moderator":
		var r moderator
		err := json.Unmarshal(text, &r, options...)
		return content.Record{Moderator: &r.Moderator, Deleted: r.Deleted}, errors.Join(err, content.CheckID(r.ID))
	}
	return content.Record{}, errType
}

// maxDepth is the maximum nesting of an object whose members are not specified. Many JSON decoders accept no more than
// some hundreds of levels, or ten thousand, and would fail on a whole page because of one article.
const maxDepth = 100

func tooDeep(text []byte) bool {
	for d := decoder(text); d.StackDepth() <= maxDepth; {
		if _, err := d.ReadToken(); err != nil {
			return false // the end of the text
		}
	}
	return true
}

// strict refuses members that are not known.
var strict = json.RejectUnknownMembers(true)

// typeOf returns the value of the first member "type" of a record, or "".
func typeOf(text []byte) string {
	d := jsontext.NewDecoder(bytes.NewBuffer(text))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return ""
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return ""
		}
		if name.String() != "type" {
			if err := d.SkipValue(); err != nil {
				return ""
			}
			continue
		}
		if value, err := d.ReadToken(); err == nil && value.Kind() == '"' {
			return value.String()
		}
		return ""
	}
	return ""
}

// shape describes the JSON values that a field may have.
type shape struct {
	kind kind
	// members holds the shapes of the members of a kindRecord.
	members map[string]*shape
	// element is the shape of the elements of a kindList.
	element *shape
}

type kind int

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
	types = []string{"productUpdate", "article", "reply", "moderator"}
	// shapes holds the shape of each type of record, made of the types that decode uses.
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
				maps.Copy(s.members, shapeOf(field.Type).members)
				continue
			}
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			s.members[name] = shapeOf(field.Type)
		}
		return s
	}
	panic(fmt.Sprintf("importer: a record has the type %s, which has no shape", t))
}
