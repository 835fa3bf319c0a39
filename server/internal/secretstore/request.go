package secretstore

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/files"
)

// A Request is a request to the API of a store, for one value. In its texts {name} stands for the name of the secret, and {first} for the
// value of the request before it, each escaped for its place.
type Request struct {
	// Method is the method of the request. One with a body is POST unless this says otherwise.
	Method string `default:"GET"`
	// Path follows the URL of the store, such as /v1/secrets/{name}.
	Path string
	// Query has the query parameters.
	Query []RequestMember
	// Headers has the headers.
	Headers []RequestMember
	// Body is the body, in JSON unless a header says otherwise.
	Body string
	// From is the place of the value in the answer, such as json:/payload/data, or text: for all of it. In a place [NAME=TEXT] stands for
	// the item of a list whose member NAME is TEXT.
	From string `file:",required"`
	// Encoding is the encoding of the value: text or base64.
	Encoding string `default:"text"`
	// Missing has the answers that mean that there is no such secret: statuses, and codes in the members __type, code or errorCode. A
	// value that is not in an answer of JSON with status 200 counts as well. Any other answer means that the store cannot answer now.
	Missing []string
}

// A RequestMember is a header or a query parameter of a [Request], or a name of a secret and that at the store.
type RequestMember struct {
	// Name is its name.
	Name string `file:",required"`
	// Value is its value.
	Value string `file:",required,blank"`
}

// Check returns what is wrong with a request, and its member, or nothing.
func (r *Request) Check() (member, wrong string) {
	switch {
	case r.Path != "" && !strings.HasPrefix(r.Path, "/"):
		return "path", "must begin with a slash"
	case !answers.IsPlace(r.From):
		return "from", "is no place in an answer, such as json:/payload/data"
	case !slices.Contains([]string{"", "text", "base64"}, r.Encoding):
		return "encoding", "is neither text nor base64"
	}
	return "", ""
}

// A Service is the API of a store of secrets, or of a service that keeps keys.
type Service struct {
	// URL is the beginning of the URL of all requests.
	URL string
	// Texts are those that stand for further placeholders, such as {region}.
	Texts map[string]string
	// Transport authenticates requests and sends them.
	Transport http.RoundTripper
	// Timeout limits one lookup of a secret, or one request about a key.
	Timeout time.Duration
}

// A ConnectorConfig configures a store of secrets behind an API.
type ConnectorConfig struct {
	Service
	// First, if not nil, is sent before Read, and its value is {first} there.
	First *Request
	// Read reads a secret.
	Read Request
	// Names has the names of secrets at the store, by those here. Other secrets have their own names.
	Names map[string]string
}

// Connector returns a store of secrets that is asked by requests of the configuration.
func Connector(c ConnectorConfig) host.Secrets { return &connectorStore{c} }

// placeholders has texts by the placeholders that they stand in for.
type placeholders map[string]string

type connectorStore struct{ ConnectorConfig }

func (s *connectorStore) Secret(ctx context.Context, name string) (value string, err error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	if alias, ok := s.Names[name]; ok {
		name = alias
	}
	ctx, cancel := timed(host.WithUser(ctx, host.User{}), "the store", s.Timeout) // without a user, since others get the answer as well
	defer cancel()
	p := placeholders{"{name}": name, "{first}": ""}
	if s.First != nil {
		if p["{first}"], err = s.ask(ctx, s.First, p); err != nil {
			return "", err
		}
	}
	return s.ask(ctx, &s.Read, p)
}

func (s *Service) send(ctx context.Context, r *Request, p placeholders) (status int, body []byte, err error) {
	maps.Copy(p, s.Texts)
	request, err := r.fill(ctx, s.URL, p)
	if err != nil {
		return 0, nil, errors.New("the store cannot be asked: its URL, path or method is not one")
	}
	response, err := answers.Final(s.Transport.RoundTrip(request)) // which follows no redirect, and so sends the credential nowhere else
	if err != nil {
		return 0, nil, fmt.Errorf("the store cannot be asked: %w", cause(ctx, err))
	}
	defer response.Body.Close()
	body, err = files.ReadAll(response.Body, maxAnswer)
	if err != nil || len(body) > maxAnswer {
		return 0, nil, fmt.Errorf("the answer of the store breaks off, or has more than %d bytes", maxAnswer)
	}
	return response.StatusCode, body, nil
}

func (s *connectorStore) ask(ctx context.Context, r *Request, p placeholders) (string, error) {
	status, body, err := s.send(ctx, r, p)
	if err != nil {
		return "", err
	}
	value, found := answers.TextAt(body, p.in(r.From, inPointer))
	switch {
	case status == http.StatusOK && !found && !jsontext.Value(body).IsValid():
		return "", errors.New("the answer of the store is empty, or no JSON")
	case r.isMissing(status, body), status == http.StatusOK && !found:
		return "", fmt.Errorf("%w: the store has none of that name", host.ErrSecretNotFound)
	case status != http.StatusOK:
		return "", fmt.Errorf("the store %s answered with status %d", s.URL, status)
	case r.Encoding == "base64":
		bytes, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			return "", errors.New("the value in the answer of the store is no Base64, as encoding says")
		}
		return string(bytes), nil
	}
	return value, nil
}

// cause returns the cause of an error. A secret that the request itself lacks is not the one that was asked for.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, host.ErrSecretNotFound) {
		return errors.New(err.Error())
	}
	return err
}

// in returns a text with what its placeholders stand for, each escaped.
func (p placeholders) in(text string, escape func(string) string) string {
	var all []string
	for name, value := range p {
		all = append(all, name, escape(value))
	}
	return strings.NewReplacer(all...).Replace(text)
}

func (r *Request) fill(ctx context.Context, base string, p placeholders) (*http.Request, error) {
	asText := func(text string) string { return text }
	var query []string
	for _, q := range r.Query {
		query = append(query, url.QueryEscape(q.Name)+"="+url.QueryEscape(p.in(q.Value, asText)))
	}
	target := strings.TrimSuffix(base, "/") + p.in(r.Path, url.PathEscape)
	if query != nil {
		target += "?" + strings.Join(query, "&")
	}
	method, body := r.Method, io.Reader(nil)
	if r.Body != "" {
		body = strings.NewReader(p.in(r.Body, inJSON))
		method = cmp.Or(method, http.MethodPost)
	}
	request, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	for _, h := range r.Headers {
		request.Header.Set(h.Name, p.in(h.Value, asText))
	}
	return request, nil
}

// inJSON returns a text as it stands within a JSON string.
func inJSON(text string) string {
	quoted, _ := jsontext.AppendQuote(nil, text) // fails for what is not UTF-8 only, and replaces that
	return string(quoted[1 : len(quoted)-1])
}

// inPointer returns a text as it stands within a JSON pointer (RFC 6901 section 3).
func inPointer(text string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(text) }

func (r *Request) isMissing(status int, body []byte) bool {
	return slices.Contains(r.Missing, strconv.Itoa(status)) || hasCode(status, body, r.Missing...)
}

// hasCode reports whether an answer is an error with one of these codes.
func hasCode(status int, body []byte, list ...string) bool {
	var codes struct {
		Type      string `json:"__type"`
		Code      string `json:"code"`
		ErrorCode string `json:"errorCode"`
	}
	if status < http.StatusBadRequest || json.Unmarshal(body, &codes) != nil {
		return false
	}
	kind := codes.Type[strings.LastIndexByte(codes.Type, '#')+1:] // AWS may put a name space in front
	return slices.ContainsFunc([]string{kind, codes.Code, codes.ErrorCode}, func(code string) bool {
		return code != "" && slices.Contains(list, code)
	})
}
