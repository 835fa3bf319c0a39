package importer

import (
	"bytes"
	"errors"
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

// errRecord is the error of a record with an unknown type, too many objects or one that is nested too deep.
var errRecord = errors.New("the record is refused")

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

// decode decodes a record, in one pass if its type comes first and it is not to be deleted. It returns an error if anything is wrong with
// the record; diagnose finds all problems and their places. options are those of a record: none lets members pass that are not known.
func decode(text []byte, options ...json.Options) (content.Record, error) {
	if tooManyObjects(text) {
		return content.Record{}, errRecord
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
			err = errRecord
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
	return content.Record{}, errRecord
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

var strict = json.RejectUnknownMembers(true)

// typeOf returns the value of the first member "type" of a record, or "".
func typeOf(text []byte) string {
	value, _ := member(text, "type")
	name, _ := jsontext.AppendUnquote(nil, value)
	return string(name)
}

// member returns the first value of a member of a record, and the offset of what is before it, or nil if there is none.
func member(text []byte, name string) (value jsontext.Value, offset int64) {
	d := decoder(text)
	token, err := d.ReadToken()
	if err != nil || token.Kind() != '{' {
		return nil, 0
	}
	for ; err == nil && d.PeekKind() == '"'; err = d.SkipValue() { // which fails at text that is no JSON, whose place does not change
		if token, _ = d.ReadToken(); token.String() == name {
			offset = d.InputOffset()
			value, _ = d.ReadValue()
			return value, offset
		}
	}
	return nil, 0
}

var (
	types = []string{"productUpdate", "article", "reply", "moderator"}
	// recordTypes are the types that decode uses, by the types of records.
	recordTypes = map[string]reflect.Type{
		"productUpdate": reflect.TypeFor[productUpdate](), "article": reflect.TypeFor[article](),
		"reply": reflect.TypeFor[reply](), "moderator": reflect.TypeFor[moderator](),
	}
)

// membersOf returns the types of the members that a struct has in JSON, by their names.
func membersOf(t reflect.Type) map[string]reflect.Type {
	members := map[string]reflect.Type{}
	for _, field := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); !field.Anonymous {
			members[name] = field.Type
		}
	}
	return members
}
