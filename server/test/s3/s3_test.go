package s3

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

// keys are keys of objects, as URLs have them.
var keys = strings.Fields(`
	plain  a/b/c.txt  with%20blank  with+plus  with%2Bplus  100%25  twice%2520encoded  %25zz  tilde~  under_score-dash.dot
	a=b  a&b  a=b&c=d  a;b  a%3Bb  at@sign  colon:  dollar$  bang!  quote'  (parentheses)  star*  comma,
	%22quotes%22  %3Cless%3E  %5Bbrackets%5D  %7Bbraces%7D  pipe%7C  caret%5E  back%60tick
	a%2Fb  a%252Fb  gr%C3%BC%C3%9Fe  e%CC%81  %E6%97%A5%E6%9C%AC%E8%AA%9E  %F0%9F%98%80  %C2%A0  ..a  a..  ...  .hidden  a.b/..c
	UPPER  index.html  tagging  -  _  0  %D0%B9/%D9%87  ` + strings.Repeat("long", 60))

// refused are keys that the gateway does not pass on, because servers and proxies disagree on them (threats.md 75).
var refused = strings.Fields(`.  ..  a/../b  a/./b  %2E%2E/b  a%3Fb  a%23b  a%5Cb`)

var big = strings.Repeat("0123456789abcdef", 5<<16) // the least that a part may have, 5 MiB

const (
	tags   = `<Tagging><TagSet><Tag><Key>team</Key><Value>%s</Value></Tag></TagSet></Tagging>`
	policy = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":["*"]},"Action":["s3:GetObject"],
		"Resource":["arn:aws:s3:::BUCKET/public/*"]}]}`
	completion = `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{part1}</ETag></Part>
		<Part><PartNumber>2</PartNumber><ETag>{part2}</ETag></Part></CompleteMultipartUpload>`
)

// requests follow each other. The status is the one that stores answer, 200 unless given; if there are two, MinIO's and versitygw's.
var requests = []struct {
	name string
	request
	status []int
}{
	{"an empty bucket", request{method: "GET", target: "?list-type=2"}, nil},
	{"put", request{
		method: "PUT", target: "/docs/a.txt", body: "0123456789",
		header: "Content-Type: text/plain\nX-Amz-Meta-Note: first\nCache-Control: max-age=60\nContent-Language: de\n" +
			"Content-Disposition: attachment",
	}, nil},
	{"put b", request{method: "PUT", target: "/docs/b.txt", body: "bbb"}, nil},
	{"put deep", request{method: "PUT", target: "/docs/deep/c.txt", body: "ccc"}, nil},
	{"put top", request{method: "PUT", target: "/top", body: "t"}, nil},
	{"put with its MD5", request{method: "PUT", target: "/md5", body: "hello", header: "Content-MD5: DIGEST"}, nil},
	{"put with another MD5", request{
		method: "PUT", target: "/md5", body: "other",
		header: "Content-MD5: XUFAKrxLKna5cZ2REBfFkg==",
	}, []int{400}},
	{"put with its SHA-256", request{
		method: "PUT", target: "/sha", body: "hello",
		header: "X-Amz-Checksum-Sha256: LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=",
	}, nil},
	{"put with another SHA-256", request{
		method: "PUT", target: "/sha", body: "other",
		header: "X-Amz-Checksum-Sha256: LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=",
	}, []int{400}},
	{"put of nothing", request{method: "PUT", target: "/empty"}, nil},
	{"get of nothing", request{method: "GET", target: "/empty"}, nil},
	{"put of 5 MiB", request{method: "PUT", target: "/big", body: big}, nil},
	{"get of 5 MiB", request{method: "GET", target: "/big"}, nil},
	{"put with tags", request{method: "PUT", target: "/tagged", body: "t", header: "X-Amz-Tagging: a=b&c=d%20e"}, nil},

	{"get", request{method: "GET", target: "/docs/a.txt"}, nil},
	{"head", request{method: "HEAD", target: "/docs/a.txt"}, nil},
	{"head of none", request{method: "HEAD", target: "/none"}, []int{404}},
	{"get of none", request{method: "GET", target: "/none"}, []int{404}},
	{"head of the bucket", request{method: "HEAD"}, nil},
	{"get with another type", request{method: "GET", target: "/docs/a.txt?response-content-type=application%2Fjson"}, nil},
	{"get with another disposition", request{
		method: "GET", target: "/docs/a.txt?response-content-disposition=attachment%3B%20filename%3D%22x+y.txt%22",
	}, nil},
	{"a range", request{method: "GET", target: "/docs/a.txt", header: "Range: bytes=2-5"}, []int{206}},
	{"the last bytes", request{method: "GET", target: "/docs/a.txt", header: "Range: bytes=-3"}, []int{206}},
	{"from a byte on", request{method: "GET", target: "/docs/a.txt", header: "Range: bytes=7-"}, []int{206}},
	{"a range of none", request{method: "GET", target: "/docs/a.txt", header: "Range: bytes=50-60"}, []int{416}},
	{"a range of 5 MiB", request{method: "GET", target: "/big", header: "Range: bytes=4194304-5242879"}, []int{206}},
	{"head of a range", request{method: "HEAD", target: "/docs/a.txt", header: "Range: bytes=0-0"}, []int{206}},
	{"if-match", request{method: "GET", target: "/docs/a.txt", header: `If-Match: "781e5e245d69b566979b86e28d23f2c7"`}, nil},
	{"if-match of another", request{method: "GET", target: "/docs/a.txt", header: `If-Match: "0"`}, []int{412}},
	{"if-none-match", request{method: "GET", target: "/docs/a.txt", header: `If-None-Match: "781e5e245d69b566979b86e28d23f2c7"`}, []int{304}},
	{"if-none-match of another", request{method: "GET", target: "/docs/a.txt", header: `If-None-Match: "0"`}, nil},
	{"if-modified-since", request{method: "GET", target: "/docs/a.txt", header: "If-Modified-Since: Wed, 01 Jan 2020 00:00:00 GMT"}, nil},
	{"if-unmodified-since", request{
		method: "GET", target: "/docs/a.txt",
		header: "If-Unmodified-Since: Wed, 01 Jan 2020 00:00:00 GMT",
	}, []int{412}},
	{"put if there is none", request{method: "PUT", target: "/once", body: "1", header: "If-None-Match: *"}, nil},
	{"put if there is none again", request{method: "PUT", target: "/once", body: "2", header: "If-None-Match: *"}, []int{412}},

	{"list", request{method: "GET", target: "?list-type=2"}, nil},
	{"list of the first version", request{method: "GET"}, nil},
	{"list by prefix", request{method: "GET", target: "?list-type=2&prefix=docs/"}, nil},
	{"list by an encoded prefix", request{method: "GET", target: "?list-type=2&prefix=docs%2Fdeep%2F"}, nil},
	{"list by an empty prefix", request{method: "GET", target: "?list-type=2&prefix="}, nil},
	{"list by a prefix without a value", request{method: "GET", target: "?list-type=2&prefix"}, nil},
	{"list by a prefix with a blank", request{method: "GET", target: "?list-type=2&prefix=with%20"}, nil},
	{"list by a prefix with a plus for a blank", request{method: "GET", target: "?list-type=2&prefix=with+"}, nil},
	{"list by a prefix with a plus", request{method: "GET", target: "?list-type=2&prefix=with%2B"}, nil},
	{"list by a prefix with other characters", request{method: "GET", target: "?list-type=2&prefix=a%3Db%26c%25~%27(%C3%BC)*!"}, nil},
	{"list by a delimiter", request{method: "GET", target: "?list-type=2&delimiter=/"}, nil},
	{"list by prefix and delimiter", request{method: "GET", target: "?delimiter=%2F&list-type=2&prefix=docs%2F"}, nil},
	{"list after a key", request{method: "GET", target: "?list-type=2&start-after=docs/a.txt"}, nil},
	{"list in URL encoding", request{method: "GET", target: "?list-type=2&encoding-type=url&prefix=docs/"}, nil},
	{"list with owners", request{method: "GET", target: "?list-type=2&fetch-owner=true&prefix=docs/"}, nil},
	{"list of two", request{method: "GET", target: "?list-type=2&max-keys=2"}, nil},
	{"list of the next two", request{method: "GET", target: "?list-type=2&max-keys=2&continuation-token={NextContinuationToken}"}, nil},
	{"list of the first version, of two", request{method: "GET", target: "?max-keys=2&marker=docs/a.txt"}, nil},
	{"list of none", request{method: "GET", target: "?list-type=2&max-keys=0"}, nil},
	{"list of a wrong number", request{method: "GET", target: "?list-type=2&max-keys=many"}, []int{400}},
	{"list with a wrong token", request{method: "GET", target: "?list-type=2&continuation-token=%00"}, []int{400, 200}},
	{"versions", request{method: "GET", target: "?versions"}, nil},
	{"versions with a sign", request{method: "GET", target: "?versions="}, nil},
	{"versions by prefix", request{method: "GET", target: "?versions&prefix=docs/&max-keys=1"}, nil},

	{"location", request{method: "GET", target: "?location"}, nil},
	{"versioning", request{method: "GET", target: "?versioning"}, nil},
	{"acl of the bucket", request{method: "GET", target: "?acl"}, nil},
	{"acl of an object", request{method: "GET", target: "/docs/a.txt?acl"}, []int{200, 501}},
	{"no policy", request{method: "GET", target: "?policy"}, []int{404}},
	{"put a policy", request{method: "PUT", target: "?policy", body: policy}, []int{204}},
	{"policy", request{method: "GET", target: "?policy"}, nil},
	{"status of the policy", request{method: "GET", target: "?policyStatus"}, nil},
	{"delete the policy", request{method: "DELETE", target: "?policy"}, []int{204}},
	{"the bucket is there", request{method: "HEAD"}, nil},
	{"no rules of origins", request{method: "GET", target: "?cors"}, []int{404}},
	{"no rules of life", request{method: "GET", target: "?lifecycle"}, []int{404, 501}},
	{"no encryption", request{method: "GET", target: "?encryption"}, []int{404, 501}},
	{"notification", request{method: "GET", target: "?notification"}, []int{200, 501}},
	{"no lock of objects", request{method: "GET", target: "?object-lock"}, []int{404}},
	{"no retention", request{method: "GET", target: "/docs/a.txt?retention"}, []int{400}},
	{"no legal hold", request{method: "GET", target: "/docs/a.txt?legal-hold"}, []int{400}},

	{"no tags", request{method: "GET", target: "/docs/a.txt?tagging"}, nil},
	{"put tags", request{method: "PUT", target: "/docs/a.txt?tagging", body: fmt.Sprintf(tags, "blue")}, nil},
	{"tags", request{method: "GET", target: "/docs/a.txt?tagging"}, nil},
	{"tags with a sign", request{method: "GET", target: "/docs/a.txt?tagging="}, nil},
	{"tags leave the object", request{method: "GET", target: "/docs/a.txt"}, nil},
	{"put other tags", request{method: "PUT", target: "/docs/a.txt?tagging=", body: fmt.Sprintf(tags, "Grün - Co")}, []int{400, 200}},
	{"put tags that are none", request{method: "PUT", target: "/docs/a.txt?tagging", body: "<Tagging>"}, []int{400}},
	{"delete tags", request{method: "DELETE", target: "/docs/a.txt?tagging"}, []int{204}},
	{"the object is there", request{method: "GET", target: "/docs/a.txt"}, nil},
	{"delete tags with a sign", request{method: "DELETE", target: "/tagged?tagging="}, []int{204}},
	{"the tagged object is there", request{method: "GET", target: "/tagged"}, nil},
	{"put tags of the bucket", request{
		method: "PUT", target: "?tagging", body: fmt.Sprintf(tags, "red"),
		header: "Content-MD5: DIGEST",
	}, []int{200, 204}},
	{"tags of the bucket", request{method: "GET", target: "?tagging"}, nil},
	{"delete tags of the bucket", request{method: "DELETE", target: "?tagging"}, []int{204}},
	{"no tags of the bucket", request{method: "GET", target: "?tagging"}, []int{404}},

	{"copy", request{method: "PUT", target: "/copy", header: "X-Amz-Copy-Source: /BUCKET/docs/a.txt"}, nil},
	{"copy of an encoded key", request{
		method: "PUT", target: "/copy%20of%20it",
		header: "X-Amz-Copy-Source: BUCKET/docs%2Fdeep%2Fc.txt",
	}, nil},
	{"copy with other metadata", request{
		method: "PUT", target: "/copy",
		header: "X-Amz-Copy-Source: /BUCKET/docs/a.txt\nX-Amz-Metadata-Directive: REPLACE\nX-Amz-Meta-Note: second",
	}, nil},
	{"copy with other tags", request{
		method: "PUT", target: "/copy2",
		header: "X-Amz-Copy-Source: /BUCKET/docs/a.txt\nX-Amz-Tagging-Directive: REPLACE\nX-Amz-Tagging: x=y",
	}, nil},
	{"copy of none", request{method: "PUT", target: "/copy3", header: "X-Amz-Copy-Source: /BUCKET/none"}, []int{404}},
	{"copy if it matches", request{
		method: "PUT", target: "/copy4",
		header: "X-Amz-Copy-Source: /BUCKET/docs/a.txt\nX-Amz-Copy-Source-If-Match: \"0\"",
	}, []int{412}},
	{"head of the copy", request{method: "HEAD", target: "/copy"}, nil},
	{"get of the copy", request{method: "GET", target: "/copy%20of%20it"}, nil},

	{"begin an upload", request{method: "POST", target: "/parts?uploads", header: "Content-Type: text/x-parts\nX-Amz-Meta-Note: parts"}, nil},
	{"part 1", request{method: "PUT", target: "/parts?partNumber=1&uploadId={UploadId}", body: big}, nil},
	{"part 2", request{method: "PUT", target: "/parts?uploadId={UploadId}&partNumber=2", body: "the end"}, nil},
	{"part 2 again", request{method: "PUT", target: "/parts?partNumber=2&uploadId={UploadId}", body: "the very end"}, nil},
	{"part 0", request{method: "PUT", target: "/parts?partNumber=0&uploadId={UploadId}", body: "x"}, []int{400}},
	{"part of another upload", request{method: "PUT", target: "/parts?partNumber=1&uploadId=none", body: "x"}, []int{404}},
	{"parts", request{method: "GET", target: "/parts?uploadId={UploadId}"}, nil},
	{"one part", request{method: "GET", target: "/parts?uploadId={UploadId}&max-parts=1"}, nil},
	{"parts after the first", request{method: "GET", target: "/parts?uploadId={UploadId}&part-number-marker=1"}, nil},
	{"uploads", request{method: "GET", target: "?uploads"}, nil},
	{"uploads by prefix", request{method: "GET", target: "?uploads&prefix=parts"}, nil},
	{"complete with a wrong part", request{
		method: "POST", target: "/parts?uploadId={UploadId}",
		body: strings.Replace(completion, "{part2}", `"0"`, 1),
	}, []int{400}},
	{"complete", request{method: "POST", target: "/parts?uploadId={UploadId}", body: completion}, nil},
	{"head of the parts", request{method: "HEAD", target: "/parts"}, nil},
	{"get of a part", request{method: "GET", target: "/parts?partNumber=2"}, []int{206}},
	{"range over both parts", request{method: "GET", target: "/parts", header: "Range: bytes=5242870-5242890"}, []int{206}},
	{"begin another", request{method: "POST", target: "/parts2?uploads="}, nil},
	{"copy as a part", request{
		method: "PUT", target: "/parts2?partNumber=1&uploadId={UploadId}",
		header: "X-Amz-Copy-Source: /BUCKET/big\nX-Amz-Copy-Source-Range: bytes=0-5242879",
	}, nil},
	{"abort", request{method: "DELETE", target: "/parts2?uploadId={UploadId}"}, []int{204}},
	{"abort again", request{method: "DELETE", target: "/parts2?uploadId={UploadId}"}, []int{204, 404}},
	{"no uploads", request{method: "GET", target: "?uploads"}, nil},

	{"delete", request{method: "DELETE", target: "/top"}, []int{204}},
	{"delete again", request{method: "DELETE", target: "/top"}, []int{204}},
	{"delete several", request{
		method: "POST", target: "?delete",
		body: `<Delete><Object><Key>once</Key></Object><Object><Key>copy of it</Key></Object></Delete>`, header: "Content-MD5: DIGEST",
	}, nil},
	{"delete the bucket", request{method: "DELETE"}, []int{409}},
	{"post of nothing known", request{method: "POST", target: "/x"}, []int{400, 405}},
}

// wrongKeys are the beginnings of the answers to a stranger's key, and to a wrong one.
var wrongKeys = map[string]map[string]string{
	"minio":     {"stranger": "(?s)^403.*InvalidAccessKeyId", "forger": "(?s)^403.*SignatureDoesNotMatch"},
	"versitygw": {"stranger": "(?s)^404.*XAdminUserNotFound", "forger": "^502.*credential-echoed"},
}

func TestStores(t *testing.T) {
	for i, name := range slices.Sorted(maps.Keys(servers)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStore(t, name)
			for _, bucket := range []string{ours, theirs} {
				testworld.Check(t, s.MakeBucket(t.Context(), bucket, minio.MakeBucketOptions{Region: region}))
			}
			w := newDeployment(t, s, definitions, host.Config{Secrets: host.MapSecrets{"s3": secretKey, "another": "bPxRfiCYEXAMPLEKEY/K7MDENG+wJalrXUtnFEMI"}})
			for _, key := range keys {
				t.Run(key, func(t *testing.T) { w.stores(t, key) })
			}
			for _, key := range refused {
				t.Run(key, func(t *testing.T) {
					got, err := w.send("header", request{method: "PUT", target: "/" + key, body: "x"})
					problem := got.header.Get("Content-Type") == "application/problem+json"
					if list := w.objects(t, ours); err != nil || got.status/100 != 4 || !problem || len(list) > 0 {
						t.Errorf("the gateway answers %v, %v; the bucket has %q", got, err, list)
					}
				})
			}
			for _, c := range requests {
				t.Run(c.name, func(t *testing.T) {
					want := append(slices.Clone(c.status), 200)
					w.same(t, "header", want[min(i, len(c.status)/2)], c.request)
				})
			}
			t.Run("chunks", w.chunks)
			t.Run("wrong keys", func(t *testing.T) { w.wrongKeys(t, wrongKeys[name]) })
		})
	}
}

// stores puts an object, gets it, tags it, and deletes the tags and then the object, signed in each way.
func (w *deployment) stores(t *testing.T, key string) {
	prefix := strings.NewReplacer("&", "%26", ";", "%3B").Replace(key)
	for _, connector := range []string{"header", "query", "unsigned"} {
		w.same(t, connector, 200, request{method: "PUT", target: "/" + key, body: connector})
		w.same(t, connector, 200, request{method: "GET", target: "/" + key})
		w.same(t, connector, 200, request{method: "PUT", target: "/" + key + "?tagging", body: fmt.Sprintf(tags, connector)})
		w.same(t, connector, 200, request{method: "GET", target: "/" + key + "?tagging"})
		w.same(t, connector, 204, request{method: "DELETE", target: "/" + key + "?tagging"})
		w.same(t, connector, 200, request{method: "HEAD", target: "/" + key})
		w.same(t, connector, 200, request{method: "GET", target: "?list-type=2&prefix=" + prefix})
		w.same(t, connector, 204, request{method: "DELETE", target: "/" + key})
	}
}

// chunks sends bodies without a length. One that is signed gets a length, and one that is not gets the answer of the store.
func (w *deployment) chunks(t *testing.T) {
	got, err := w.send("unsigned", request{method: "PUT", target: "/chunks", body: "in chunks", chunked: true})
	if err != nil || got.status != 411 {
		t.Errorf("the gateway answers %v, %v, want the 411 of the store", got, err)
	}
	for _, body := range []string{"in chunks", big} {
		q := request{method: "PUT", target: "/chunks", body: body, chunked: true}
		if got, err := w.send("header", q); err != nil || got.status != 200 {
			t.Errorf("the gateway answers %v, %v", got, err)
		}
		if got, err := w.send("header", request{method: "GET", target: "/chunks"}); err != nil || got.body != body {
			t.Errorf("the object has %d bytes, want %d; %v", len(got.body), len(body), err)
		}
		if got, err := w.send("header", request{method: "DELETE", target: "/chunks"}); err != nil || got.status != 204 {
			t.Errorf("the gateway answers %v, %v", got, err)
		}
	}
}

// wrongKeys sends requests with other keys, which the store refuses. The gateway does not pass on an answer that quotes the signature.
func (w *deployment) wrongKeys(t *testing.T, answers map[string]string) {
	for connector, want := range answers {
		for _, method := range []string{"GET", "DELETE", "PUT"} {
			got, err := w.send(connector, request{method: method, target: "/docs/b.txt"})
			if said := fmt.Sprint(got.status, got.body); err != nil || !regexp.MustCompile(want).MatchString(said) {
				t.Errorf("%s of %s: %s, %v, want %s", method, connector, said, err, want)
			}
		}
	}
	if got, want := w.objects(t, ours), w.objects(t, theirs); !slices.Equal(got, want) {
		t.Errorf("then the bucket of the gateway has %q, want %q", got, want)
	}
}
