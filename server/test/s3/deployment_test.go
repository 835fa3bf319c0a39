package s3

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/serve/daemon"
)

// The two buckets have the same requests: one of the gateway's callers, one of the other client.
const ours, theirs = "bucket-of-the-gateway", "bucket-of-the-other"

// definitions has a connector for each way to sign, and two with wrong keys.
const definitions = `connectors:
  - &store
    name: header
    url: http://STORE/` + ours + `
    method: [GET, HEAD, PUT, POST, DELETE]
    paths: ["/**"]
    headers: [HEADERS]
    query: [QUERY]
    response: {headers: [X-Amz-*]}
    limits: {per_user: 100000}
    auth:
      type: aws_sigv4
      config: &keys {access_key_id: ` + accessKey + `, secret_access_key: "{{ get_secret('s3') }}", region: ` + region + `, service: s3}
  - {<<: *store, name: query, auth: {type: aws_sigv4, config: {<<: *keys, in: query}}}
  - {<<: *store, name: unsigned, auth: {type: aws_sigv4, config: {<<: *keys, unsigned_payload: true}}}
  - {<<: *store, name: stranger, auth: {type: aws_sigv4, config: {<<: *keys, access_key_id: AKIANOBODY7EXAMPLE00}}}
  - {<<: *store, name: forger, auth: {type: aws_sigv4, config: {<<: *keys, secret_access_key: "{{ get_secret('another') }}"}}}
`

// headers and query list the headers and parameters that callers may send.
var (
	headers = strings.Fields(`Range If-Match If-None-Match If-Modified-Since If-Unmodified-Since Cache-Control
		Content-Disposition Content-Language Content-MD5 X-Amz-Copy-Source X-Amz-Copy-Source-Range X-Amz-Metadata-Directive
		X-Amz-Tagging X-Amz-Tagging-Directive X-Amz-Meta-Note X-Amz-Copy-Source-If-Match X-Amz-Checksum-Sha256`)
	query = strings.Fields(`list-type prefix delimiter marker max-keys continuation-token start-after encoding-type fetch-owner
		uploads uploadId partNumber max-parts part-number-marker max-uploads key-marker upload-id-marker tagging acl policy policyStatus
		versions versioning versionId location cors lifecycle notification encryption object-lock retention legal-hold attributes
		delete response-content-type response-content-disposition`)
)

// A deployment is a store with its two buckets, and a gateway before it.
type deployment struct {
	*store
	t       *testing.T
	gateway string
	log     bytes.Buffer
	// kept holds values of earlier answers that requests of either side need, such as the ID of an upload.
	kept map[string]map[string]string
}

func newDeployment(t *testing.T, s *store, definitions string, config host.Config) *deployment {
	t.Helper()
	w := &deployment{store: s, t: t, kept: map[string]map[string]string{ours: {}, theirs: {}}}
	entries := func(names []string) string {
		return "{name: " + strings.Join(names, `, value: "", overridable: true}, {name: `) + `, value: "", overridable: true}`
	}
	definitions = strings.NewReplacer("STORE", s.address, "HEADERS", entries(headers), "QUERY", entries(query)).Replace(definitions)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(w.log.String())
		}
	})
	config.Egress = host.Egress{AllowHTTP: true, AllowPrivate: true}
	run := daemon.Config{
		File: testworld.File(t, "connectors.yaml", definitions), Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
		Options: connectors.Options{Host: config},
	}
	w.gateway, _, _ = testworld.Serve(t, &run.Started, func(ctx context.Context) error { return daemon.Run(ctx, run) })
	return w
}

// A request is one to a bucket. A text in braces stands for a value of an earlier answer.
type request struct {
	method, target string // the target begins with / or ?, or is empty
	header         string // such as "Range: bytes=0-1"; lines
	body           string
	chunked        bool // sends no Content-Length
}

// An answer has the parts of a store's answer that must be the same for both.
type answer struct {
	status int
	header http.Header
	body   string
}

// send sends a request through a connector of the gateway, or, without one, as the other client signs it.
func (w *deployment) send(connector string, q request) (answer, error) {
	w.t.Helper()
	bucket := theirs
	root := "http://" + w.address + "/" + bucket
	if connector != "" {
		bucket, root = ours, w.gateway+"/connectors/"+connector
	}
	insert := func(text string) string {
		for name, value := range w.kept[bucket] {
			text = strings.ReplaceAll(text, "{"+name+"}", value)
		}
		return strings.ReplaceAll(text, "BUCKET", bucket)
	}
	content := []byte(insert(q.body))
	sum := md5.Sum(content)
	q.header = strings.ReplaceAll(q.header, "DIGEST", base64.StdEncoding.EncodeToString(sum[:]))
	var body io.Reader = bytes.NewReader(content)
	if q.chunked {
		body = io.MultiReader(body)
	}
	r := testworld.Must(http.NewRequestWithContext(w.t.Context(), q.method, root+insert(q.target), body))(w.t)
	for line := range strings.Lines(insert(q.header)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		r.Header.Set(name, value)
	}
	if connector == "" {
		digest := sha256.Sum256(content)
		r.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(digest[:]))
		r = signer.SignV4(*r, accessKey, secretKey, "", region)
	}
	response, err := transport.RoundTrip(r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, err
	}
	if response.StatusCode == http.StatusOK {
		for _, m := range values.FindAllStringSubmatch(string(said), -1) {
			w.kept[bucket][m[1]] = m[2]
		}
	}
	if tag := response.Header.Get("ETag"); tag != "" && r.URL.Query().Has("partNumber") {
		w.kept[bucket]["part"+r.URL.Query().Get("partNumber")] = tag
	}
	a := answer{status: response.StatusCode, header: http.Header{}}
	a.body = changing.ReplaceAllString(string(said), "<$1/>")
	for name, list := range response.Header {
		if slices.Contains(compared, name) || strings.HasPrefix(name, "X-Amz-") && !slices.Contains(ofOneAnswer, name) {
			a.header[name] = list
		}
	}
	if len(said) == 0 {
		a.header.Del("Content-Type") // the gateway has one for all answers
	}
	if q.method == http.MethodHead {
		a.header.Set("Content-Length", response.Header.Get("Content-Length"))
	}
	for _, name := range []string{ours, theirs} {
		a.body = strings.ReplaceAll(a.body, name, "BUCKET")
	}
	a.body = strings.ReplaceAll(a.body, "http://"+w.address, "")
	return a, nil
}

// transport asks for no compression, as the gateway does.
var transport = &http.Transport{DisableCompression: true}

var (
	compared    = []string{"Etag", "Content-Type", "Content-Range", "Accept-Ranges", "Content-Disposition", "Content-Language"}
	ofOneAnswer = []string{"X-Amz-Request-Id", "X-Amz-Id-2", "X-Amz-Version-Id", "X-Amz-Copy-Source-Version-Id"}
	// values are the elements that later requests need, and changing those that are others in each answer.
	values   = regexp.MustCompile(`<(UploadId|NextContinuationToken|NextMarker|VersionId)>([^<]+)<`)
	changing = regexp.MustCompile(`<(RequestId|HostId|UploadId|VersionId|LastModified|Initiated|(?:Next)?ContinuationToken)>[^<]*</\w+>`)
)

// same sends a request on both ways, and fails the test unless the store answers both alike, with this status, and has the same objects
// then.
func (w *deployment) same(t *testing.T, connector string, status int, q request) {
	t.Helper()
	want := testworld.Must(w.send("", q))(t)
	got := testworld.Must(w.send(connector, q))(t)
	if want.status != status {
		t.Errorf("the store answers %d, want %d: %s", want.status, status, want.body)
	}
	if got.status != want.status || got.body != want.body || !maps.EqualFunc(got.header, want.header, slices.Equal) {
		t.Errorf("through the gateway: %.2000q\n                want: %.2000q", fmt.Sprint(got), fmt.Sprint(want))
	}
	if q.method != http.MethodGet && q.method != http.MethodHead {
		if got, want := w.objects(t, ours), w.objects(t, theirs); !slices.Equal(got, want) {
			t.Errorf("then the bucket of the gateway has %q\n                             want %q", got, want)
		}
	}
}

// objects returns what a bucket has, as the other client lists it: keys, ETags and tags, and uploads that have not ended.
func (w *deployment) objects(t *testing.T, bucket string) (list []string) {
	t.Helper()
	for object := range w.ListObjects(t.Context(), bucket, minio.ListObjectsOptions{Recursive: true}) {
		if object.Err != nil {
			t.Fatal(object.Err)
		}
		line := fmt.Sprintf("%s %s %d", object.Key, object.ETag, object.Size)
		if tags, err := w.GetObjectTagging(t.Context(), bucket, object.Key, minio.GetObjectTaggingOptions{}); err == nil {
			line += " " + tags.String()
		}
		list = append(list, line)
	}
	for upload := range w.ListIncompleteUploads(t.Context(), bucket, "", true) {
		if upload.Err == nil {
			list = append(list, fmt.Sprintf("upload of %s %d", upload.Key, upload.Size))
		}
	}
	return list
}
