package importer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
)

// memory is a writer that keeps the JSON of records by type and id.
type memory struct {
	records map[string]string
	calls   int
	most    int // the most records in one call
	fails   int // the number of the call that fails, from 1
}

var errFull = errors.New("the disk is full")

func (m *memory) Write(_ context.Context, records []content.Record) error {
	if m.calls++; m.calls == m.fails {
		return errFull
	}
	m.most = max(m.most, len(records))
	for _, r := range records {
		if m.records == nil {
			m.records = map[string]string{}
		}
		name, value := "", any(nil)
		switch {
		case r.ProductUpdate != nil:
			name, value = "productUpdate "+r.ProductUpdate.ID, r.ProductUpdate
		case r.Article != nil:
			name, value = "article "+r.Article.ID, r.Article
		case r.Reply != nil:
			name, value = "reply "+r.ArticleID+" "+r.Reply.ID, r.Reply
		case r.Moderator != nil:
			name, value = "moderator "+r.Moderator.ID, r.Moderator
		}
		if r.Deleted {
			delete(m.records, name)
			continue
		}
		document, err := json.Marshal(value)
		if err != nil {
			return err
		}
		m.records[name] = string(document)
	}
	return nil
}

// importing imports a text and returns the result and the problems, each as a line.
func importing(t *testing.T, w content.Writer, text string) (Result, []string) {
	t.Helper()
	var problems []string
	result := testworld.Must(Import(t.Context(), w, "f", strings.NewReader(text), Options{Problem: func(p Problem) { problems = append(problems, p.String()) }}))(t)
	return result, problems
}

const four = `{"type":"productUpdate","id":"1","title":"News","productAreas":[{"id":"4","name":"Webhooks"}]}
{"type":"article","id":"1","createdAt":"2026-03-01T09:30:00Z","_links":{"self": {"href":"/a"} }}
{"type":"reply","articleId":"1","id":"1","content":"<p>Yes.</p>","reported":true,"reportedContent":[{"id":"2","reason":"rude"}]}
{"type":"moderator","id":"m1"}
`

func TestRecordTypes(t *testing.T) {
	want := map[string]string{}
	for name, value := range map[string]any{
		"productUpdate 1": content.ProductUpdate{ID: "1", Title: "News", ProductAreas: content.List[content.ProductArea]{{ID: "4", Name: "Webhooks"}}},
		"article 1":       content.Article{ID: "1", CreatedAt: "2026-03-01T09:30:00+00:00", Links: content.Links{Self: `{"href":"/a"}`}},
		"reply 1 1":       content.Reply{ID: "1", Content: "<p>Yes.</p>", Reported: true, ReportedContent: content.List[content.Report]{{ID: "2", Reason: "rude"}}},
		"moderator m1":    content.Moderator{ID: "m1"},
	} {
		document, _ := json.Marshal(value)
		want[name] = string(document)
	}
	lines := strings.Split(strings.TrimSpace(four), "\n")
	for name, text := range map[string]string{
		"lines":                            four,
		"lines with CRLF":                  strings.ReplaceAll(four, "\n", "\r\n"),
		"lines after a byte order mark":    "\ufeff" + four,
		"blank lines":                      "\n \n" + strings.ReplaceAll(four, "\n", "\n\n\t\r\n"),
		"last line without an end":         strings.TrimSpace(four),
		"lines of which a second counts":   `{"type":"article","id":"1","title":"older"}` + "\n" + four,
		"an array":                         "[" + strings.Join(lines, ",") + "]",
		"an array, indented":               "\ufeff\n [\r\n  " + strings.Join(lines, " ,\n\n  ") + "\n]\n\n",
		"lines with the type at their end": `{"id":"m1","type":"moderator"}` + "\n" + strings.Join(lines[:3], "\n"),
	} {
		t.Run(name, func(t *testing.T) {
			var w memory
			result, problems := importing(t, &w, text)
			if len(problems) > 0 || result.Bad != 0 || result.Bytes != int64(len(text)) {
				t.Errorf("result = %+v, problems = %q", result, problems)
			}
			if !maps.Equal(w.records, want) {
				t.Errorf("got %q\nwant %q", w.records, want)
			}
		})
	}
}

// A record with "deleted": true removes the one of its type and id. Doing so again is no problem.
func TestDeletedRecords(t *testing.T) {
	for name, text := range map[string]string{
		"lines":    `{"type":"productUpdate","id":"1","deleted":true}` + "\n" + `{"deleted":true,"id":"1","type":"article"}` + "\n" + `{"type":"reply","id":"1","articleId":"1","deleted":true}`,
		"an array": `[{"type":"productUpdate","id":"1","deleted":true},{"type":"article","id":"1","deleted":true},{"articleId":"1","type":"reply","id":"1","deleted":true}]`,
	} {
		var w memory
		importing(t, &w, four)
		for range 2 {
			result, problems := importing(t, &w, text)
			if len(problems) > 0 || result.Deleted != 3 || result.Written() != 3 || result.Articles != 0 {
				t.Errorf("%s: result = %+v, problems = %q", name, result, problems)
			}
			if len(w.records) != 1 || w.records["moderator m1"] == "" {
				t.Errorf("%s: there are %q", name, w.records)
			}
		}
		result, err := Import(t.Context(), nil, "f", strings.NewReader(text), Options{DryRun: true})
		if err != nil || result.Deleted != 3 {
			t.Errorf("a dry run of %s: %+v, %v", name, result, err)
		}
	}
	var w memory
	if _, problems := importing(t, &w, `{"type":"moderator","id":"1","deleted":false}`+"\n"+`{"type":"moderator","id":"2","deleted":null}`); len(problems) > 0 || len(w.records) != 2 {
		t.Errorf("what is not deleted: %q, %q", w.records, problems)
	}
}

func TestNull(t *testing.T) {
	for with, without := range map[string]string{
		`{"type":"article","id":"1","title":null,"author":null,"tags":null,"_links":null,"sticky":null,"createdAt":null,"replyCount":null}`: `{"type":"article","id":"1"}`,
		`{"type":"article","id":"1","author":{"reputation":null,"id":null},"_links":{"self":null}}`:                                         `{"type":"article","id":"1"}`,
	} {
		var w, want memory
		_, problems := importing(t, &w, with)
		importing(t, &want, without)
		if !maps.Equal(w.records, want.records) || len(problems) > 0 {
			t.Errorf("%s is %q, %q", with, w.records, problems)
		}
	}
}

// Brackets, commas and quotes in strings do not end a record.
func TestJSONLikeTexts(t *testing.T) {
	const record = `{"type":"article","id":"1","title":"\"}],{[\\","body":"\\\""}`
	for _, text := range []string{record, "[" + record + "]", "[" + record + "," + record + "]"} {
		var w memory
		if result, problems := importing(t, &w, text); result.Written() == 0 || len(problems) > 0 || !strings.Contains(w.records["article 1"], `"title":"\"}],{[\\"`) {
			t.Errorf("%s: problems = %q, w.records = %q", text, problems, w.records)
		}
	}
}

// The reader is not read again after its end. A terminal would wait for more input after Ctrl-D.
func TestNoReadAfterEnd(t *testing.T) {
	for _, text := range []string{"", " ", four, strings.TrimSpace(four), "[]", `[{"type":"article","id":"1"}`} {
		ended := false
		r := reader(func(p []byte) (int, error) {
			n := copy(p, text)
			if text = text[n:]; n > 0 {
				return n, nil
			}
			if ended {
				t.Error("it is read on after the end")
			}
			ended = true
			return 0, io.EOF
		})
		testworld.Must(Import(t.Context(), nil, "f", r, Options{DryRun: true}))(t)
	}
}

type reader func([]byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

func TestNothingToImport(t *testing.T) {
	for _, text := range []string{"", "\n\n", "\ufeff", " ", "[]", " [ ]\n"} {
		var w memory
		if result, problems := importing(t, &w, text); result.Written() != 0 || len(problems) != 0 || w.calls != 0 {
			t.Errorf("%q: result = %+v, problems = %q", text, result, problems)
		}
	}
}

func TestADryRunWritesNothing(t *testing.T) {
	result, err := Import(t.Context(), nil, "f", strings.NewReader(four), Options{DryRun: true})
	want := Result{ProductUpdates: 1, Articles: 1, Replies: 1, Moderators: 1, Lines: 4, Bytes: int64(len(four))}
	if err != nil || result != want {
		t.Errorf("%+v, %v; want %+v", result, err, want)
	}
}

// Good records between bad ones are written.
func TestGoodRecordsAmongBad(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(four), "\n")
	bad := []string{`{"type":"article"}`, `{"type":"article","id":1}`, `{"type":"article","id":"9","x":1}`, `{"type":"x"}`, `7`, "{\"type\":\"article\",\"id\":\"9\",\"title\":\"\xff\"}"}
	var mixed []string
	for i, line := range lines {
		mixed = append(mixed, bad[i], line)
	}
	mixed = append(mixed, bad[4:]...)
	for name, text := range map[string]string{
		"lines": strings.Join(append(mixed, `{"type":`, "}{", "\xff"), "\n") + "\n",
		"array": "[" + strings.Join(mixed, ",") + "]",
	} {
		var w memory
		result, problems := importing(t, &w, text)
		if len(w.records) != 4 || result.Written() != 4 || result.Bad != len(problems) || result.Bad < len(bad) {
			t.Errorf("%s: result = %+v: problems = %q", name, result, problems)
		}
	}
}

func TestImportingAgainChangesNothing(t *testing.T) {
	var w memory
	importing(t, &w, four)
	before := maps.Clone(w.records)
	importing(t, &w, four)
	if !maps.Equal(w.records, before) {
		t.Errorf("%q became %q", before, w.records)
	}
}

// articles returns n articles as NDJSON.
func articles(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"type":"article","id":"%d"}`+"\n", i+1)
	}
	return b.String()
}

func TestBatches(t *testing.T) {
	var w memory
	var progress []int
	result, err := Import(t.Context(), &w, "f", strings.NewReader(articles(2500)), Options{Progress: func(r Result) { progress = append(progress, r.Written()) }})
	if err != nil || result.Articles != 2500 || len(w.records) != 2500 || w.calls != 3 || !slices.Equal(progress, []int{1000, 2000, 2500}) {
		t.Errorf("%+v, %v: %d records in %d calls, %d", result, err, len(w.records), w.calls, progress)
	}
}

// A batch is bounded by its bytes, too, since records may be large.
func TestLargeRecordBatches(t *testing.T) {
	var w memory
	var text strings.Builder
	const size = 1 << 20
	for i := range 30 {
		fmt.Fprintf(&text, `{"type":"article","id":"%d","body":"%s"}`+"\n", i, strings.Repeat("x", size))
	}
	result, err := Import(t.Context(), &w, "f", strings.NewReader(text.String()), Options{})
	if err != nil || result.Articles != 30 {
		t.Fatalf("result = %+v, err = %v", result, err)
	}
	if w.most > batchBytes/size {
		t.Errorf("%d records of a megabyte were written at once", w.most)
	}
}

// The error and the result of an import that ends early state correctly what was written.
func TestFailedImport(t *testing.T) {
	t.Run("writing", func(t *testing.T) {
		w := memory{fails: 3}
		var result Result
		var err error
		synctest.Test(t, func(t *testing.T) { // the bubble fails if a goroutine is left
			result, err = Import(context.WithoutCancel(t.Context()), &w, "f", strings.NewReader(articles(6500)), Options{})
		})
		want := "f: the records of lines 2001 to 3000 were not written: the disk is full; the good records before, 2000, are written, and importing all of it again does no harm"
		if !errors.Is(err, errFull) || err.Error() != want || result.Articles != 2000 || len(w.records) != 2000 {
			t.Errorf("%+v, %v; want %s", result, err, want)
		}
	})
	t.Run("reading", func(t *testing.T) {
		for _, array := range []bool{false, true} {
			var w memory
			text := articles(1500) + `{"type":"article","id":"15`
			want := "f: reading failed in line 1501: unexpected EOF; the good records before, 1500, are written, and importing all of it again does no harm"
			if array {
				text = "[" + strings.ReplaceAll(text, "}\n", "},\n")
			}
			result, err := Import(t.Context(), &w, "f", io.MultiReader(strings.NewReader(text), iotest.ErrReader(io.ErrUnexpectedEOF)), Options{})
			if !errors.Is(err, io.ErrUnexpectedEOF) || result.Articles != 1500 || len(w.records) != 1500 || err.Error() != want {
				t.Errorf("%+v, %v; want %s", result, err, want)
			}
		}
	})
	t.Run("the first byte", func(t *testing.T) {
		if _, err := Import(t.Context(), nil, "f", iotest.ErrReader(errFull), Options{DryRun: true}); !errors.Is(err, errFull) {
			t.Error(err)
		}
	})
}

// An import ends with its context, even if the reader blocks.
func TestAnImportEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, input := io.Pipe()
	defer input.Close()
	go func() { _, _ = io.WriteString(input, articles(1000)) }()
	var w memory
	result, err := Import(ctx, &w, "f", r, Options{Progress: func(Result) { cancel() }})
	want := "f: the import ended after line 1000: context canceled; the good records before, 1000, are written, and importing all of it again does no harm"
	if !errors.Is(err, context.Canceled) || err.Error() != want || result.Articles != 1000 || len(w.records) != 1000 {
		t.Errorf("%+v, %v; want %s", result, err, want)
	}
}

// endless returns a reader of before, of the given number of bytes of inside repeated, and of after.
func endless(before, inside, after string, bytes int64) io.Reader {
	return io.MultiReader(strings.NewReader(before), io.LimitReader(filler(strings.Repeat(inside, 1000)), bytes), strings.NewReader(after))
}

type filler string

func (f filler) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], f)
	}
	return n, nil
}

// All problems of a large file are reported while it is read.
func TestAllProblems(t *testing.T) {
	var w memory
	result, problems := importing(t, &w, strings.Repeat(`{"type":"article","id":"1","x":1,"y":2}`+"\n", 5000))
	if len(problems) != 10000 || result.Problems != 10000 || result.Bad != 5000 || problems[9999] != `f:5000:34: there is no "y" in an article: leave it out` {
		t.Errorf("%+v, %d problems", result, len(problems))
	}
	told := 0
	_, err := Import(t.Context(), nil, "f", strings.NewReader(strings.Repeat("{}\n", 5000)), Options{DryRun: true, Progress: func(Result) { told++ }})
	if err != nil || told != 6 {
		t.Errorf("%v, told %d times", err, told)
	}
	// The problems of one record are bounded.
	var members bytes.Buffer
	for i := range 1000 {
		fmt.Fprintf(&members, `,"x%d":1`, i)
	}
	result, problems = importing(t, &w, `{"type":"article","id":"1"`+members.String()+`}`)
	if len(problems) != 21 || problems[20] != "f:1:1: this record has 980 problems more" || result.Bad != 1 {
		t.Errorf("result = %+v, problems = %q", result, problems)
	}
}

// threats.md 49: for a record with very many problems, only the first ones and the number of the others are reported.
func TestManyProblemsOfOneRecord(t *testing.T) {
	for name, c := range map[string]struct{ before, each, after, want string }{
		"unknown members": {`{"type":"article","id":"1"`, `,"titel":1`, `}`, `f:1:28: there is no "titel" in an article: did you mean "title"?`},
		"members twice":   {`{"type":"article","id":"1","title":""`, `,"title":""`, `}`, `f:1:39: there is more than one "title": take the others away`},
		"wrong elements":  {`{"type":"article","id":"1","tags":[0`, `,1`, `]}`, `f:1:36: tags[0]: has to be a string, not a number`},
	} {
		const n = 150_000
		_, problems := importing(t, &memory{}, c.before+strings.Repeat(c.each, n)+c.after)
		if len(problems) != recordProblems+1 || problems[0] != c.want || !strings.HasSuffix(problems[recordProblems], " problems more") {
			t.Errorf("%s: %d problems, %q", name, len(problems), problems)
		}
	}
}

// threats.md 49: a record cannot become hundreds of times as large as its text.
func TestManyObjectsInOneRecord(t *testing.T) {
	record := func(n int) string {
		return `{"type":"reply","id":"1","articleId":"1","content":"` + strings.Repeat("{", maxObjects) + `","reportedContent":[` +
			strings.TrimSuffix(strings.Repeat("{},", n), ",") + "]}"
	}
	if result, problems := importing(t, &memory{}, record(maxObjects-1)); result.Replies != 1 || len(problems) != 0 {
		t.Errorf("of as many as there may be: %+v, %q", result, problems)
	}
	w := &memory{}
	result, problems := importing(t, w, record(maxObjects)+"\n"+`{"type":"moderator","id":"1"}`)
	want := "f:1:1: this record has more than 10000 objects in it, which is too much: take some away"
	if result.Moderators != 1 || result.Bad != 1 || len(w.records) != 1 || len(problems) != 1 || problems[0] != want {
		t.Errorf("of one more: %+v, %q", result, problems)
	}
}

// An article does not make a page unreadable for JSON decoders with a limit of nesting.
func TestDeepObjects(t *testing.T) {
	record := func(levels int) string {
		return `{"type":"article","id":"1","_links":{"self":` + strings.Repeat(`{"a":`, levels) + "[]" + strings.Repeat("}", levels) + "}}"
	}
	if result, problems := importing(t, &memory{}, record(maxDepth-1)); result.Articles != 1 {
		t.Errorf("of as many as there may be: %+v, %q", result, problems)
	}
	result, problems := importing(t, &memory{}, record(maxDepth))
	want := "f:1:45: _links.self: is nested deeper than 100 levels: take some away"
	if result.Bad != 1 || len(problems) != 1 || problems[0] != want {
		t.Errorf("of one more: %+v, %q", result, problems)
	}
}

// A record that is too long is skipped, and no other one.
func TestOversizedRecord(t *testing.T) {
	const begin, end = `{"type":"article","id":"1"}`, `{"type":"article","id":"3"}`
	for name, test := range map[string]struct {
		r       io.Reader
		records int
		want    string
	}{
		"line":  {endless(begin+"\n"+`{"type":"article","id":"2","body":"`, "x", `"}`+"\n"+end, 40<<20), 2, "f:2:1: this record has more than 2 MiB, which is too much: shorten it"},
		"array": {endless("["+begin+",\n"+`{"type":"article","id":"2","body":"`, "x", `"},`+"\n"+end+"]", 40<<20), 2, "f:2:1: this record has more than 2 MiB, which is too much: shorten it"},
		"array without a bracket": {
			endless("["+begin+",\n"+`{"type":"article","id":"2",`, `{"id":"3"},`, "]", 40<<20), 1,
			"f:2:28: this is no JSON: object member name must be a string; nothing after this can be read in an array; good records before it: 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var w memory
			var problems []string
			_, err := Import(t.Context(), &w, "f", test.r, Options{Problem: func(p Problem) { problems = append(problems, p.String()) }})
			if err != nil || len(w.records) != test.records || len(problems) != 1 || problems[0] != test.want {
				t.Errorf("%v: %q, %q; want %s", err, w.records, problems, test.want)
			}
		})
	}
	// A long record takes no more memory than a short one.
	for _, before := range []string{"", "["} {
		var began, ended runtime.MemStats
		runtime.ReadMemStats(&began)
		_, err := Import(t.Context(), nil, "f", endless(before+`{"type":"article","id":"2","body":"`, "x", `"}`, 96<<20), Options{DryRun: true})
		if runtime.ReadMemStats(&ended); err != nil || ended.TotalAlloc-began.TotalAlloc > 120<<20 {
			t.Errorf("%v: %d MiB were allocated", err, (ended.TotalAlloc-began.TotalAlloc)>>20)
		}
	}
	var w memory
	long := `{"type":"article","id":"1","body":"` + strings.Repeat("x", maxRecord-37) + `"}`
	if len(long) != maxRecord {
		t.Fatal(len(long))
	}
	for _, text := range []string{long, long + "\n", "[" + long + "]"} {
		if result, problems := importing(t, &w, text); result.Articles != 1 || len(problems) != 0 {
			t.Errorf("a record of %d bytes: %q", maxRecord, problems)
		}
	}
}

// community returns n records like those of a real community: of about 2 kB, with all their fields.
func community(n int) []byte {
	var b bytes.Buffer
	author := `{"id":"17","username":"mara.lindqvist","customTitle":"Integration lead","signature":"Ask me about webhooks.","avatar":"https://images.example.com/17.png",` +
		`"reputation":{"rank":"Expert","rankIcon":"https://images.example.com/expert.png","rankIconThumbnail":"https://images.example.com/expert-s.png","likesReceived":412,"repliesMade":288}}`
	body := strings.Repeat(`<p>The nightly job stops after \"page 40\" – the cursor is <code>null</code> then.</p>`, 10)
	for i := range n {
		fmt.Fprintf(&b, `{"type":"article","id":"%d","publicId":"a-%[1]d","title":"Cursor is lost after page 40","featuredImage":"","featuredImageAltText":"","publicLabel":"","body":"%s",`+
			`"categoryId":"7","author":%s,"createdAt":"2026-03-01T09:30:00+01:00","publishedAt":"2026-03-01T09:30:00+01:00","lastActivityAt":"2026-03-02T10:00:00Z","lastModifiedAt":"2026-03-01T09:31:00+01:00","scheduledAt":"",`+
			`"replyCount":3,"spamReplyCount":0,"pendingReplyCount":0,"trashedReplyCount":1,"totalReplyCount":4,"inclusiveReplyCount":4,"inclusiveVisibleReplyCount":3,`+
			`"tags":["pagination","cursor"],"moderatorTags":[],"likedBy":["3","9"],"poll":[],"sticky":false,"closed":false,"trashed":false,"containsPoll":false,"isPreviewPublic":true,`+
			`"lastEdit":{"id":"","editor":[],"editedAt":false},"status":"published","scheduledBy":{"id":"","username":"","avatar":""},"seoCommunityUrl":"https://community.example.com/a/%[1]d","_links":{"self":{"href":"/articles/%[1]d"}}}`+"\n", i, body, author)
	}
	return b.Bytes()
}
