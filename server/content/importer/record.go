package importer

import (
	"bytes"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/keywright/keywright/server/content"
)

// The records as they are read.
type (
	productUpdate struct {
		Type string `json:"type"`
		content.ProductUpdate
	}
	article struct {
		Type string `json:"type"`
		content.Article
	}
	reply struct {
		Type      string `json:"type"`
		ArticleID string `json:"articleId"`
		content.Reply
	}
	moderator struct {
		Type string `json:"type"`
		content.Moderator
	}
)

var (
	errType    = errors.New("there is no such type")
	errCrowded = errors.New("there are too many objects")
	errDeep    = errors.New("an object is nested too deep")
)

// maxObjects is how many objects a record may have in it. Of one such as a report that is written {}, hundreds of bytes are kept
// and shown.
const maxObjects = 10_000

// crowded reports whether a record has more. Most of them have no such number of braces, in a text or not.
func crowded(text []byte) bool {
	if bytes.Count(text, []byte("{")) <= maxObjects {
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

// decode reads a record in one pass, if its type comes first. The error says only that there is something wrong;
// diagnose finds out what.
func decode(text []byte) (content.Record, error) {
	if crowded(text) {
		return content.Record{}, errCrowded
	}
	switch typeOf(text) {
	case "productUpdate":
		var r productUpdate
		err := unmarshal(text, &r)
		return content.Record{ProductUpdate: &r.ProductUpdate}, errors.Join(err, content.CheckID(r.ID))
	case "article":
		var r article
		err := unmarshal(text, &r)
		if deep([]byte(r.Links.Self)) {
			err = errDeep
		}
		return content.Record{Article: &r.Article}, errors.Join(err, content.CheckID(r.ID))
	case "reply":
		var r reply
		err := unmarshal(text, &r)
		return content.Record{Reply: &r.Reply, ArticleID: r.ArticleID}, errors.Join(err, content.CheckID(r.ID), content.CheckID(r.ArticleID))
	case "moderator":
		var r moderator
		err := unmarshal(text, &r)
		return content.Record{Moderator: &r.Moderator}, errors.Join(err, content.CheckID(r.ID))
	}
	return content.Record{}, errType
}

// maxDepth is how deep an object may be nested whose members are not specified. Many who read JSON take no more than some
// hundreds of levels, or ten thousand, and would lose a whole page of articles by one.
const maxDepth = 100

// deep reports whether JSON is nested deeper than that.
func deep(text []byte) bool {
	for d := decoder(text); d.StackDepth() <= maxDepth; {
		if _, err := d.ReadToken(); err != nil {
			return false // the end
		}
	}
	return true
}

func unmarshal(text []byte, record any) error {
	return json.Unmarshal(text, record, json.RejectUnknownMembers(true))
}

// typeOf returns the type of a record, or "". It looks no further than to the first member of that name.
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
