package importer

import (
	"bytes"
	stdjson "encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
)

func TestProblems(t *testing.T) {
	const noType = `there is no "type": say whether this is a productUpdate, an article, a reply or a moderator`
	const inArray = "; nothing after this can be read in an array; good records before it: "
	const inLine = "; each line has to be one record"
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"no object":         {`"article"`, []string{"f:1:1: a record is an object, not a string"}},
		"null":              {`null`, []string{"f:1:1: a record is an object, not null"}},
		"array in a line":   {"{}\n[]", []string{"f:1:1: " + noType, "f:2:1: a record is an object, not an array"}},
		"array in an array": {`[ [{"type":"article"}] ]`, []string{"f:1:3: a record is an object, not an array"}},
		"no type":           {`{"id":"1"}`, []string{"f:1:1: " + noType}},
		"byte order mark":   {"\ufeff{}", []string{"f:1:1: " + noType}},
		"null type":         {`{"id":"1","type":null}`, []string{"f:1:1: " + noType}},
		"wrong type":        {`{"type":"artikle","x":1}`, []string{`f:1:9: type: there is no type "artikle": did you mean "article"?`}},
		"type in capitals":  {`{"type":"PRODUCTUPDATE"}`, []string{`f:1:9: type: there is no type "PRODUCTUPDATE": did you mean "productUpdate"?`}},
		"unknown type":      {`{"type":"event"}`, []string{`f:1:9: type: there is no type "event": it has to be productUpdate, article, reply or moderator`}},
		"number for a type": {`{"type": 1}`, []string{"f:1:10: type: has to be a string, not a number"}},
		"no id":             {`{"type":"article"}`, []string{`f:1:1: there is no "id": an article needs one`}},
		"null id":           {`{"type":"moderator","id":null}`, []string{`f:1:1: there is no "id": a moderator needs one`}},
		"empty id":          {`{"type":"article","id":""}`, []string{"f:1:24: id: the id is empty"}},
		"number for an id":  {`{"type":"article","id":17}`, []string{"f:1:24: id: has to be a string, not a number"}},
		"odd id":            {`{"type":"article","id":"a\u0000b"}`, []string{"f:1:24: id: the id has control characters"}},
		"long id":           {`{"type":"article","id":"` + strings.Repeat("x", 256) + `"}`, []string{"f:1:24: id: the id has more than 255 bytes"}},
		"no article":        {`{"type":"reply","id":"1"}`, []string{`f:1:1: there is no "articleId": a reply needs one`}},
		"empty article":     {`{"type":"reply","id":"1","articleId":""}`, []string{"f:1:38: articleId: the id is empty"}},
		"neither":           {`{"type":"reply"}`, []string{`f:1:1: there is no "id": a reply needs one`, `f:1:1: there is no "articleId": a reply needs one`}},

		"unknown member":         {`{"type":"article","id":"1","colour":3}`, []string{`f:1:28: there is no "colour" in an article: leave it out`}},
		"misspelt member":        {`{"type":"article","id":"1","titel":3}`, []string{`f:1:28: there is no "titel" in an article: did you mean "title"?`}},
		"member in small":        {`{"type":"article","id":"1","createdat":""}`, []string{`f:1:28: there is no "createdat" in an article: did you mean "createdAt"?`}},
		"member far down":        {`{"type":"article","id":"1","author":{"reputation":{"likesRecieved":1}}}`, []string{`f:1:52: author.reputation: there is no "likesRecieved" here: did you mean "likesReceived"?`}},
		"member of others":       {`{"type":"article","id":"1","productAreas":[]}`, []string{`f:1:28: "productAreas" belongs to a productUpdate, not to an article: leave it out`}},
		"member of two others":   {`{"type":"reply","id":"1","articleId":"1","title":""}`, []string{`f:1:42: "title" belongs to a productUpdate or an article, not to a reply: leave it out`}},
		"article of an article":  {`{"type":"article","id":"1","articleId":"1"}`, []string{`f:1:28: "articleId" belongs to a reply, not to an article: leave it out`}},
		"poll of an update":      {`{"type":"productUpdate","id":"1","poll":[]}`, []string{`f:1:34: "poll" belongs to an article, not to a productUpdate: leave it out`}},
		"long and odd name":      {`{"type":"article","id":"1","` + strings.Repeat("é", 50) + `":"","\u001b[31m":1}`, []string{`f:1:28: there is no "` + strings.Repeat("é", 40) + `"… in an article: leave it out`, `f:1:84: there is no "\x1b[31m" in an article: leave it out`}},
		"member twice":           {`{"type":"article","id":"1","title":"a","title":"b"}`, []string{`f:1:40: there is more than one "title": take the others away`}},
		"escaped member twice":   {`{"type":"article","id":"1","author":{"id":"1","i\u0064":"2"}}`, []string{`f:1:47: author: there is more than one "id": take the others away`}},
		"type twice":             {`{"type":"article","type":"reply","id":"1"}`, []string{`f:1:19: there is more than one "type": take the others away`}},
		"member of self twice":   {`{"type":"article","id":"1","_links":{"self":{"a":{"b":1,"b":2}}}}`, []string{"f:1:45: _links.self: has an object with two members of the same name: take one away"}},
		"number for a text":      {`{"type":"article","id":"1","title":5}`, []string{"f:1:36: title: has to be a string, not a number"}},
		"text for a number":      {`{"type":"article","id":"1","replyCount":"5"}`, []string{"f:1:41: replyCount: has to be an integer, not a string"}},
		"text for a boolean":     {`{"type":"article","id":"1","sticky":"true"}`, []string{"f:1:37: sticky: has to be true or false, not a string"}},
		"text for an array":      {`{"type":"article","id":"1","tags":"a, b"}`, []string{"f:1:35: tags: has to be an array, not a string"}},
		"text for an object":     {`{"type":"article","id":"1","author":"mara"}`, []string{"f:1:37: author: has to be an object, not a string"}},
		"array for self":         {`{"type":"article","id":"1","_links":{"self":["/a"]}}`, []string{"f:1:45: _links.self: has to be an object, not an array"}},
		"object in an array":     {`{"type":"article","id":"1","tags":["a",{"name":"b"},"c",true]}`, []string{"f:1:40: tags[1]: has to be a string, not an object", "f:1:57: tags[3]: has to be a string, not true"}},
		"deep in a report":       {`{"type":"reply","id":"1","articleId":"1","reportedContent":[{},{"reportedBy":{"reputation":{"rank":false}}}]}`, []string{"f:1:100: reportedContent[1].reportedBy.reputation.rank: has to be a string, not false"}},
		"fraction":               {`{"type":"article","id":"1","replyCount":5.0}`, []string{"f:1:41: replyCount: has to be an integer, without a fraction or an exponent"}},
		"exponent":               {`{"type":"article","id":"1","replyCount":1e3}`, []string{"f:1:41: replyCount: has to be an integer, without a fraction or an exponent"}},
		"number beyond 64 bits":  {`{"type":"article","id":"1","replyCount":9223372036854775808}`, []string{"f:1:41: replyCount: is too large for an integer of 64 bits"}},
		"no timestamp":           {`{"type":"article","id":"1","createdAt":"1.3.2026"}`, []string{"f:1:40: createdAt: this is no timestamp of RFC 3339, such as 2026-03-01T09:30:00+01:00"}},
		"timestamp of a report":  {`{"type":"reply","id":"1","articleId":"1","reportedContent":[{"reportedAt":"9999-12-31T23:59:59-01:00"}]}`, []string{"f:1:75: reportedContent[0].reportedAt: in UTC, this timestamp has no year of four digits"}},
		"number for a timestamp": {`{"type":"article","id":"1","createdAt":1772357400}`, []string{"f:1:40: createdAt: has to be a string, not a number"}},
		"all at once": {`{"type":"article","titel":"","author":{"id":1},"createdAt":"now"}`, []string{
			`f:1:19: there is no "titel" in an article: did you mean "title"?`,
			"f:1:45: author.id: has to be a string, not a number",
			"f:1:60: createdAt: this is no timestamp of RFC 3339, such as 2026-03-01T09:30:00+01:00",
			`f:1:1: there is no "id": an article needs one`,
		}},
		"columns are characters": {`{"type":"article","id":"1","title":"Grüße 👋","x":1}`, []string{`f:1:46: there is no "x" in an article: leave it out`}},
		"a record of many lines": {"[\n  {\n    \"type\": \"article\",\n    \"id\": 5\n  }\n]", []string{"f:4:11: id: has to be a string, not a number"}},

		"deleted with a title":     {`{"type":"article","id":"1","title":"a","deleted":true}`, []string{`f:1:28: "title" has no effect on an article that is deleted: leave it out, or "deleted"`}},
		"deleted with null":        {`{"deleted":true,"type":"reply","id":"1","articleId":"2","spam":null}`, []string{`f:1:57: "spam" has no effect on a reply that is deleted: leave it out, or "deleted"`}},
		"deleted with odd members": {`{"type":"moderator","id":"1","articleId":"1","idd":"1","deleted":true}`, []string{`f:1:30: "articleId" belongs to a reply, not to a moderator: leave it out`, `f:1:46: there is no "idd" in a moderator: did you mean "id"?`}},
		"deleted without ids":      {`{"type":"reply","deleted":true}`, []string{`f:1:1: there is no "id": a reply needs one`, `f:1:1: there is no "articleId": a reply needs one`}},
		"deleted in a text":        {`{"type":"article","id":"1","deleted":"true"}`, []string{"f:1:38: deleted: has to be true or false, not a string"}},
		"deleted twice":            {`{"type":"article","id":"1","deleted":false,"deleted":true}`, []string{`f:1:44: there is more than one "deleted": take the others away`}},

		"not UTF-8":             {"{\"type\":\"article\",\"id\":\"1\",\"title\":\"\xff\"}", []string{"f:1:37: this is not UTF-8, or half of a surrogate pair: write the file in UTF-8"}},
		"not UTF-8, no type":    {"{\"title\":\"\xff\"}", []string{"f:1:11: this is not UTF-8, or half of a surrogate pair: write the file in UTF-8"}},
		"cut off in a name":     {`{"id`, []string{"f:1:5: this is no JSON: it ends in the middle of the record" + inLine}},
		"cut off in a text":     {`{"id":"1`, []string{"f:1:9: this is no JSON: it ends in the middle of the record" + inLine}},
		"half a pair":           {`{"type":"article","id":"1","title":"\ud800"}`, []string{"f:1:37: this is not UTF-8, or half of a surrogate pair: write the file in UTF-8"}},
		"no JSON":               {"type: article", []string{"f:1:2: this is no JSON: invalid character 'y' in literal true (expecting 'r')" + inLine}},
		"a record of two lines": {"{\"type\":\n\"article\"}", []string{"f:1:9: this is no JSON: it ends in the middle of the record" + inLine, "f:2:10: this is no JSON: there is more after the end of the record" + inLine}},
		"two in a line":         {`{"type":"article","id":"1"} {"type":"article","id":"2"}`, []string{"f:1:29: this is no JSON: there is more after the end of the record" + inLine}},
		"comma after a line":    {"{\"type\":\"article\",\"id\":\"1\"},\n", []string{"f:1:28: this is no JSON: there is more after the end of the record" + inLine}},
		"control character":     {"{\"type\":\"article\",\"id\":\"1\",\"title\":\"a\tb\"}", []string{`f:1:38: this is no JSON: invalid character '\t' in string (expecting non-control character)` + inLine}},
		"array without an end":  {`[{"type":"article","id":"1"}`, []string{"f:1:29: the array has no end: a ] is missing" + inArray + "1"}},
		"array in the middle":   {"[{\"type\":\"article\",\"id\":\"1\"},\n{\"type\":", []string{"f:2:9: this is no JSON: it ends in the middle of the record" + inArray + "1"}},
		"only a bracket":        {`[`, []string{"f:1:2: the array has no end: a ] is missing" + inArray + "0"}},
		"comma at the end":      {`[{"type":"article","id":"1"}, ]`, []string{"f:1:31: there is a comma before the end of the array: take it away; good records before it: 1"}},
		"two commas":            {`[{"type":"article","id":"1"},,{"type":"article","id":"2"}]`, []string{"f:1:30: there is no record before this comma: take it away" + inArray + "1"}},
		"no comma":              {"[{\"type\":\"article\",\"id\":\"1\"}\n{\"type\":\"article\",\"id\":\"2\"}]", []string{"f:2:1: this is no JSON: there is more after the end of the record: a comma has to come between records" + inArray + "0"}},
		"wrong bracket":         {`[{"type":"article","tags":["a"},{"type":"article","id":"2"}]`, []string{"f:1:31: this is no JSON: invalid character '}' after array element (expecting ',' or ']')" + inArray + "0"}},
		"two arrays":            {"[]\n[]", []string{"f:2:1: there is more after the end of the array, which is not read: put all records into one array, or each on a line without any array; good records before it: 0"}},
		"a record after":        {`[{"type":"article","id":"1"}]{"type":"article","id":"2"}`, []string{"f:1:30: there is more after the end of the array, which is not read: put all records into one array, or each on a line without any array; good records before it: 1"}},

		"gzip":   {"\x1f\x8b\x08\x00", []string{"f:1:1: this is compressed by gzip: decompress it first, as in gunzip -c FILE | keywright content import -"}},
		"UTF-16": {"\xff\xfe{\x00", []string{"f:1:1: this is UTF-16: convert it to UTF-8 first"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := importing(t, &memory{}, test.text)
			if !slices.Equal(problems, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(problems, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

// The importer accepts every field of the golden files of package content.
func TestSpecificationFields(t *testing.T) {
	for _, typ := range []string{"article", "productUpdate", "reply"} {
		text := testworld.Must(os.ReadFile(filepath.Join("../testdata", "empty-"+strings.ToLower(typ)+".json")))(t)
		members := strings.TrimSpace(strings.Replace(string(text), `"id": "",`, `"id": "1",`, 1))[1:]
		if typ == "reply" {
			members = `"articleId": "1",` + members
		}
		var w memory
		if result, problems := importing(t, &w, `[{"type":"`+typ+`",`+members+`]`); result.Written() != 1 || len(problems) != 0 {
			t.Errorf("%s: problems = %q", typ, problems)
		}
	}
}

// For any input, encoding/json decodes the good records to the same values, bad records have a problem that states the
// reason, and the result is the same for records in lines and in an array.
func FuzzImport(f *testing.F) {
	for line := range strings.Lines(four) {
		f.Add([]byte(line))
	}
	f.Add([]byte(four))
	f.Add([]byte(`[{"type":"article","id":"1"},{"type":"reply","id":"","articleId":"\ud800","repliedAt":"x"},]`))
	f.Add(community(1))
	f.Add([]byte(`{"type":"article","id":"1"}` + "\n" + `{"type":"article","id":"1","deleted":true}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		importing(t, &memory{}, string(text))
		var good []string
		for line := range bytes.Lines(text) {
			line = bytes.TrimSpace(line)
			if record, err := decode(line, strict); err == nil {
				same(t, line, record)
			}
			if _, broken := syntax(line, problem.Place{Line: 1, Column: 1}); !broken && len(line) > 0 && line[0] != '[' && !bytes.HasPrefix(line, []byte("BZh")) {
				good = append(good, string(line))
			}
		}
		var lines, array memory
		_, one := importing(t, &lines, strings.Join(good, "\n"))
		_, other := importing(t, &array, "["+strings.Join(good, ",\n")+"]")
		if !maps.Equal(lines.records, array.records) || !slices.Equal(messages(one), messages(other)) {
			t.Errorf("lines: %q, %q\narray: %q, %q", lines.records, one, array.records, other)
		}
		if i := slices.IndexFunc(one, func(p string) bool { return strings.Contains(p, "cannot be read") }); i >= 0 {
			t.Errorf("nothing says what is wrong: %s", one[i])
		}
	})
}

// messages returns the problems without their places.
func messages(problems []string) []string {
	var all []string
	for _, p := range problems {
		all = append(all, strings.SplitN(p, ": ", 2)[1])
	}
	return all
}

// same checks that encoding/json decodes the same record.
func same(t *testing.T, line []byte, got content.Record) {
	t.Helper()
	var want content.Record
	var target any
	var others struct {
		ArticleID string `json:"articleId"`
		Deleted   bool   `json:"deleted"`
	}
	testworld.Check(t, stdjson.Unmarshal(line, &others))
	want.Deleted = others.Deleted
	switch {
	case got.ProductUpdate != nil:
		want.ProductUpdate = &content.ProductUpdate{}
		target = want.ProductUpdate
	case got.Article != nil:
		want.Article = &content.Article{}
		target = want.Article
	case got.Reply != nil:
		want.Reply = &content.Reply{}
		target = want.Reply
		want.ArticleID = others.ArticleID
	default:
		want.Moderator = &content.Moderator{}
		target = want.Moderator
	}
	if err := stdjson.Unmarshal(line, target); err != nil {
		t.Fatalf("%s is taken, but encoding/json says %v", line, err)
	}
	var a, b memory
	testworld.Check(t, a.Write(t.Context(), []content.Record{got}))
	testworld.Check(t, b.Write(t.Context(), []content.Record{want}))
	if !maps.Equal(a.records, b.records) || got.Deleted != want.Deleted {
		t.Errorf("%s is %q, and %q for encoding/json", line, a.records, b.records)
	}
}
