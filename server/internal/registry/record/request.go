package record

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/keywright/keywright/internal/casefile"
	"github.com/keywright/keywright/internal/files"
)

// maxBody is the maximum length of a body in a case, in bytes.
const maxBody = 4 << 10

// request sets the request of the case: the method, and texts of the same length in place of all values.
func (r *recorder) request() error {
	request := r.input.Request
	result := &casefile.Request{Method: request.Method, URL: "https://" + apiHost + r.path(request.URL.EscapedPath())}
	if request.URL.RawQuery != "" || request.URL.ForceQuery {
		result.URL += "?" + r.query(request.URL.RawQuery)
	}
	for name, values := range request.Header {
		if !r.matters(name) || len(values) == 0 {
			continue
		}
		if result.Headers == nil {
			result.Headers = map[string]string{}
		}
		result.Headers[name] = header(name, strings.Join(values, ", "))
	}
	body, err := r.body()
	if err != nil {
		return err
	}
	if result.Body = body; body == "" && result.Method == http.MethodGet {
		result.Method = ""
	}
	r.step().Request = result
	r.replaced("the values in the path, the query, the headers and the body of the request")
	return nil
}

// path returns a path of the same shape. A placeholder of the configuration stays.
func (r *recorder) path(path string) string {
	return r.around(path, func(text string) string { return shape(text, true) })
}

// around returns text with the literals of the configuration in it as they are, and do of what is around them.
func (r *recorder) around(text string, do func(string) string) string {
	for _, literal := range r.literals {
		for _, form := range []string{literal, url.PathEscape(literal)} {
			if before, after, ok := strings.Cut(text, form); ok && len(literal) >= 3 {
				return r.around(before, do) + form + r.around(after, do)
			}
		}
	}
	return do(text)
}

// query returns a query of the same shape. Names that consist of words stay.
func (r *recorder) query(query string) string {
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || !plainName.MatchString(name) && !slices.Contains(r.literals, name) {
			name = shape(name, true)
		}
		if pairs[i] = name; ok {
			pairs[i] += "=" + shape(value, true)
		}
	}
	return strings.Join(pairs, "&")
}

// plainName is a name that consists of words, and no credential. Four words may be a passphrase.
var plainName = regexp.MustCompile(`^[a-z]{1,12}([_.-][a-z]{1,12}|[A-Z][a-z]{1,12}){0,2}$`)

// headerName is a name as headers have them, of up to three words, which X may precede.
var headerName = regexp.MustCompile(`^(X-)?[A-Z][a-z]{0,11}(-[A-Z][a-z]{0,11}){0,2}$`)

// matters reports whether a header may matter to a plugin: one that it may sign because it describes the body, one that the
// configuration names, and the cookies, to which a plugin may add one.
func (r *recorder) matters(name string) bool {
	switch name {
	case "Content-Type", "Content-Digest", "Digest", "Content-Md5", "Date", "Cookie":
		return true
	}
	return slices.ContainsFunc(configTexts(r.out.Case.Config), func(text string) bool {
		return strings.Contains(strings.ToLower(text), strings.ToLower(name))
	})
}

// header returns a value in place of that of a header.
func header(name, value string) string {
	if name == "Content-Type" {
		if media, _, err := mime.ParseMediaType(value); err == nil && mediaType.MatchString(media) {
			return media
		}
	}
	if _, err := http.ParseTime(value); name == "Date" && err == nil {
		return value
	}
	return shape(value, false)
}

var mediaType = regexp.MustCompile(`^(application/(json|x-www-form-urlencoded|xml|octet-stream|problem\+json|x-ndjson)|text/(plain|csv|xml|html)|multipart/form-data)$`)

// body returns a body of the same shape.
func (r *recorder) body() (string, error) {
	request := r.input.Request
	if request.GetBody == nil {
		if request.Body != nil && request.Body != http.NoBody {
			return "", errors.New("the body of the request can be read only once")
		}
		return "", nil
	}
	reader, err := request.GetBody()
	if err != nil {
		return "", err
	}
	defer reader.Close()
	text, err := files.ReadAll(reader, maxBody)
	if err != nil {
		return "", fmt.Errorf("the body of the request cannot be read again: %w", err)
	}
	if len(text) > maxBody {
		text = text[:maxBody]
		r.check("the body is longer than %d bytes, and cut there", maxBody)
	}
	media, _, _ := mime.ParseMediaType(request.Header.Get("Content-Type"))
	return shape(strings.ToValidUTF8(string(text), "?"), media == "application/x-www-form-urlencoded"), nil
}
