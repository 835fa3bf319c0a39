package importer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/server/content"
)

const recordProblems = 20

// diagnosis is a second, slow pass over a bad record that finds its problems.
type diagnosis struct {
	problem.Collector
	text                   []byte
	start                  problem.Place
	d                      *jsontext.Decoder
	typ                    string
	deleted, ignoreUnknown bool
	// at is the place of offset in text. Places behind it are counted from there.
	offset int
	place  problem.Place
	// members has the results of membersOf, by its argument.
	members map[reflect.Type]map[string]reflect.Type
}

// diagnose returns the problems of a bad record. If it is broken, it is not JSON, and has one problem.
func diagnose(text []byte, start problem.Place, ignoreUnknown bool) (problems []problem.Problem, broken bool) {
	if p, broken := syntax(text, start); broken {
		return []problem.Problem{p.Problem}, true
	}
	if p, ok := encoding(text, start); !ok {
		return []problem.Problem{p}, false
	}
	if tooManyObjects(text) {
		return []problem.Problem{start.Problem("", "this record has more than %d objects in it, which is too much: take some away", maxObjects)}, false
	}
	g := &diagnosis{
		Collector: problem.Collector{Max: recordProblems}, text: text, start: start, d: decoder(text), place: start, ignoreUnknown: ignoreUnknown,
		members: map[reflect.Type]map[string]reflect.Type{},
	}
	g.record()
	if g.More > 0 {
		g.Problems = append(g.Problems, start.Problem("", "this record has %d problems more", g.More))
	}
	if len(g.Problems) == 0 {
		g.Problems = []problem.Problem{start.Problem("", "this record cannot be read")}
	}
	return g.Problems, false
}

func decoder(text []byte, options ...jsontext.Options) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(text), append(options, jsontext.AllowDuplicateNames(true))...)
}

// syntaxProblem is the place where a text stops being JSON, and the decoder's error.
type syntaxProblem struct {
	problem.Problem
	err error
}

// moreAfter is the code of the problem of text after the record in a line.
const moreAfter = "more-after"

// syntax finds the place where a text stops being JSON, if there is one.
func syntax(text []byte, start problem.Place) (p syntaxProblem, broken bool) {
	d := decoder(text, jsontext.AllowInvalidUTF8(true))
	err := d.SkipValue()
	rest := bytes.TrimLeft(text[d.InputOffset():], space)
	if err == nil && len(rest) == 0 {
		return p, false
	}
	offset, reason, code := len(text), "it ends in the middle of the record", ""
	if err == nil {
		offset, reason, code = len(text)-len(rest), "there is more after the end of the record", moreAfter
	} else if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok && !errors.Is(err, io.ErrUnexpectedEOF) {
		offset, reason = int(e.ByteOffset), e.Err.Error() // it quotes at most one character
	}
	p = syntaxProblem{start.Advance(text[:offset]).Problem("", "this is no JSON: %s", reason), err}
	p.Code = code
	return p, true
}

// encoding finds text that is not UTF-8, or an escaped surrogate without its pair. ok is false if there is any.
func encoding(text []byte, start problem.Place) (p problem.Problem, ok bool) {
	err := decoder(text).SkipValue()
	if err == nil {
		return p, true
	}
	offset := 0
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		offset = int(e.ByteOffset)
	}
	return start.Advance(text[:offset]).Problem("", "this is not UTF-8, or half of a surrogate pair: write the file in UTF-8"), false
}

func (g *diagnosis) record() {
	if g.d.PeekKind() != '{' {
		g.wrong("", "a record is an object, not %s", nameOf(g.d.PeekKind()))
		return
	}
	t := g.findType()
	if t == nil {
		return
	}
	ids := []string{"id"}
	if g.typ == "reply" {
		ids = append(ids, "articleId")
	}
	present := g.object(t, "")
	for _, id := range ids {
		if !present[id] {
			g.At(g.start, "", "there is no %q: %s needs one", id, a(g.typ))
		}
	}
}

// a returns the name of a type with its indefinite article.
func a(typ string) string {
	if typ == "article" {
		return "an article"
	}
	return "a " + typ
}

// findType sets the type of the record, and returns the Go type for it. It returns nil, and adds a problem, if there is no known type.
func (g *diagnosis) findType() reflect.Type {
	value, offset := member(g.text, "type")
	if len(value) == 0 || value.Kind() == 'n' {
		g.At(g.start, "", "there is no \"type\": say whether this is a productUpdate, an article, a reply or a moderator")
		return nil
	}
	place := g.placeBehind(offset)
	if value.Kind() != '"' {
		g.At(place, "type", "has to be a string, not %s", nameOf(value.Kind()))
		return nil
	}
	g.typ = typeOf(g.text)
	t := recordTypes[g.typ]
	if t == nil {
		suggestion := "it has to be " + strings.Join(types[:len(types)-1], ", ") + " or " + types[len(types)-1]
		if near, ok := problem.Nearest(g.typ, types); ok {
			suggestion = fmt.Sprintf("did you mean %q?", near)
		}
		g.At(place, "type", "there is no type %s: %s", problem.Quote(g.typ), suggestion)
		return nil
	}
	if deleted, _ := member(g.text, "deleted"); deleted.Kind() == 't' {
		if g.deleted, t = true, reflect.TypeFor[deletion](); g.typ == "reply" {
			t = reflect.TypeFor[replyDeletion]()
		}
	}
	return t
}

func (g *diagnosis) nextPlace() problem.Place { return g.placeBehind(g.d.InputOffset()) }

// placeBehind returns the place where the first token behind an offset begins.
func (g *diagnosis) placeBehind(behind int64) problem.Place {
	offset := len(g.text) - len(bytes.TrimLeft(g.text[behind:], space+":,"))
	if offset < g.offset {
		g.offset, g.place = 0, g.start
	}
	g.offset, g.place = offset, g.place.Advance(g.text[g.offset:offset])
	return g.place
}

func (g *diagnosis) wrong(path, format string, args ...any) {
	g.At(g.nextPlace(), path, format, args...)
}

func nameOf(k jsontext.Kind) string {
	return map[jsontext.Kind]string{
		'n': "null", 't': "true", 'f': "false", '"': "a string", '0': "a number", '{': "an object", '[': "an array",
	}[k]
}

// kindNames has the names in problems of the kinds of fields.
var kindNames = map[reflect.Kind]string{
	reflect.String: "a string", reflect.Int64: "an integer", reflect.Bool: "true or false", reflect.Slice: "an array", reflect.Struct: "an object",
}

// value checks that the next value may be that of a field of a type. null may be that of all.
func (g *diagnosis) value(t reflect.Type, path string) {
	kind, want := g.d.PeekKind(), t.Kind()
	anyObject := t == reflect.TypeFor[content.Object]()
	if anyObject {
		want = reflect.Struct
	}
	switch {
	case kind == 'n' || want == reflect.Bool && (kind == 't' || kind == 'f'):
		_ = g.d.SkipValue()
	case anyObject && kind == '{':
		g.anyObject(path)
	case t == reflect.TypeFor[content.Timestamp]() && kind == '"':
		g.checkText(path, func(text string) error { return new(content.Timestamp).UnmarshalText([]byte(text)) })
	case want == reflect.String && kind == '"':
		_ = g.d.SkipValue()
	case want == reflect.Int64 && kind == '0':
		g.integer(path)
	case want == reflect.Struct && kind == '{':
		g.object(t, path)
	case want == reflect.Slice && kind == '[':
		_, _ = g.d.ReadToken()
		for i := 0; g.d.PeekKind() != ']'; i++ {
			g.value(t.Elem(), path+"["+strconv.Itoa(i)+"]")
		}
		_, _ = g.d.ReadToken()
	default:
		g.wrong(path, "has to be %s, not %s", kindNames[want], nameOf(kind))
		_ = g.d.SkipValue()
	}
}

func (g *diagnosis) checkText(path string, check func(string) error) {
	place := g.nextPlace()
	value, _ := g.d.ReadToken()
	if err := check(value.String()); err != nil {
		g.At(place, path, "%v", err)
	}
}

func (g *diagnosis) integer(path string) {
	place := g.nextPlace()
	value, _ := g.d.ReadValue()
	_, err := strconv.ParseInt(string(value), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		g.At(place, path, "is too large for an integer of 64 bits")
	case err != nil:
		g.At(place, path, "has to be an integer, without a fraction or an exponent")
	}
}

// anyObject checks an object whose members are not specified.
func (g *diagnosis) anyObject(path string) {
	place := g.nextPlace()
	value, _ := g.d.ReadValue()
	if tooDeep(value) {
		g.At(place, path, "is nested deeper than %d levels: take some away", maxDepth)
		return
	}
	if err := jsontext.NewDecoder(bytes.NewBuffer(value)).SkipValue(); err != nil {
		g.At(place, path, "has an object with two members of the same name: take one away")
	}
}

// object checks an object and returns the names of its members that are not null.
func (g *diagnosis) object(t reflect.Type, path string) map[string]bool {
	members := g.members[t]
	if members == nil {
		members = membersOf(t)
		g.members[t] = members
	}
	names, present := map[string]bool{}, map[string]bool{}
	_, _ = g.d.ReadToken()
	for g.d.PeekKind() == '"' {
		place := g.nextPlace()
		token, _ := g.d.ReadToken()
		name := token.String()
		member := members[name]
		switch {
		case member == nil:
			if (!g.ignoreUnknown || g.deleted) && !g.Skip() { // searching for similar names takes time
				g.At(place, path, "%s", g.unknown(members, name, path))
			}
			_ = g.d.SkipValue()
			continue
		case names[name]:
			g.At(place, path, "there is more than one %q: take the others away", name)
			_ = g.d.SkipValue()
			continue
		}
		names[name] = true
		present[name] = g.d.PeekKind() != 'n'
		below := problem.Join(path, name)
		if path == "" && (name == "id" || name == "articleId") && g.d.PeekKind() == '"' {
			g.checkText(below, content.CheckID)
			continue
		}
		g.value(member, below)
	}
	_, _ = g.d.ReadToken()
	return present
}

// unknown returns the message for a member that is not one of members.
func (g *diagnosis) unknown(members map[string]reflect.Type, name, path string) string {
	where := "here"
	if path == "" {
		where = "in " + a(g.typ)
		if g.deleted && membersOf(recordTypes[g.typ])[name] != nil {
			return fmt.Sprintf("%q has no effect on %s that is deleted: leave it out, or \"deleted\"", name, a(g.typ))
		}
		var owners []string
		for _, typ := range types {
			if membersOf(recordTypes[typ])[name] != nil {
				owners = append(owners, a(typ))
			}
		}
		if len(owners) > 0 {
			return fmt.Sprintf("%q belongs to %s, not to %s: leave it out", name, strings.Join(owners, " or "), a(g.typ))
		}
	}
	if near, ok := problem.Nearest(name, slices.Sorted(maps.Keys(members))); ok {
		return fmt.Sprintf("there is no %s %s: did you mean %q?", problem.Quote(name), where, near)
	}
	return fmt.Sprintf("there is no %s %s: leave it out", problem.Quote(name), where)
}
