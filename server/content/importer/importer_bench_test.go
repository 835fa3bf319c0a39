package importer

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

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

func BenchmarkLines(b *testing.B) { benchmark(b, community(1000)) }

func BenchmarkArray(b *testing.B) {
	lines := bytes.TrimSpace(community(1000))
	benchmark(b, []byte("["+strings.ReplaceAll(string(lines), "\n", ",")+"]"))
}

func benchmark(b *testing.B, input []byte) {
	b.SetBytes(int64(len(input)))
	for b.Loop() {
		result, err := Import(b.Context(), nil, "input", bytes.NewReader(input), Options{DryRun: true})
		if err != nil || result.Articles != 1000 || result.Problems != 0 {
			b.Fatal(result, err)
		}
	}
	b.ReportMetric(1000*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
