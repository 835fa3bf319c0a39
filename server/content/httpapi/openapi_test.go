package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/content/httpapi"
)

// description returns the OpenAPI document that a handler serves.
func description(t *testing.T, h http.Handler, base string) *openapi3.T {
	t.Helper()
	served := ask(t, h, "GET", base+"/openapi.json")
	document := testworld.Must(openapi3.NewLoader().LoadFromData([]byte(served.body)))(t)
	testworld.Check(t, document.Validate(t.Context()))
	return document
}

func TestDescriptionServer(t *testing.T) {
	for base, want := range map[string]string{"": "/", "/community/v1": "/community/v1"} {
		document := description(t, handler(t, httpapi.Config{Store: community(), Base: base}), base)
		if len(document.Servers) != 1 || document.Servers[0].URL != want {
			t.Errorf("below %q the servers are %+v", base, document.Servers)
		}
	}
}

var schemaOptions = []openapi3.SchemaValidationOption{openapi3.EnableJSONSchema2020()}

// check sends a request for an operation, and validates request and response against the description.
func check(t *testing.T, document *openapi3.T, h http.Handler, path string, params map[string]string, r *http.Request, valid bool, status int) {
	t.Helper()
	operation := document.Paths.Value(path).Get
	input := &openapi3filter.RequestValidationInput{
		Request: r, PathParams: params,
		Route:   &routers.Route{Spec: document, Server: document.Servers[0], Path: path, PathItem: document.Paths.Value(path), Method: "GET", Operation: operation},
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, SkipSettingDefaults: true, SchemaValidationOptions: schemaOptions},
	}
	if err := openapi3filter.ValidateRequest(t.Context(), input); (err == nil) != valid {
		t.Errorf("%s: as a request: %v", r.URL, err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != status {
		t.Errorf("%s: w.Code = %d w.Body = %s", r.URL, w.Code, w.Body)
	}
	answer := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: w.Code, Header: w.Header(), Body: io.NopCloser(bytes.NewReader(w.Body.Bytes())),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, SchemaValidationOptions: schemaOptions},
	}
	if err := openapi3filter.ValidateResponse(t.Context(), answer); err != nil {
		t.Errorf("%s: w.Code = %d: err = %v", r.URL, w.Code, err)
	}
	response := operation.Responses.Status(w.Code)
	if response == nil {
		t.Errorf("%s: %d is not described", r.URL, w.Code)
		return
	}
	for name, header := range response.Value.Headers {
		if header.Value.Required && w.Header().Get(name) == "" {
			t.Errorf("%s: %d has no %s", r.URL, w.Code, name)
		}
	}
	for _, name := range []string{"ETag", "WWW-Authenticate", "Retry-After", "Cache-Control", "Vary"} {
		if w.Header().Get(name) != "" && response.Value.Headers[name] == nil {
			t.Errorf("%s: %s is not described for %d", r.URL, name, w.Code)
		}
	}
}

// specification.md 6.2, 6.3, 6.4, 6.9 and 6.10: each operation and each of its responses matches the description.
func TestHandlerMatchesDescription(t *testing.T) {
	working := handler(t, httpapi.Config{Store: full()})
	closed := handler(t, httpapi.Config{Store: full(), Callers: keys{}})
	broken := handler(t, httpapi.Config{Store: &memory{err: errors.New("broken")}})
	slow := handler(t, httpapi.Config{Store: &memory{err: context.DeadlineExceeded}})
	document := description(t, working, "")
	operations := []struct {
		path   string
		params map[string]string
		found  []string
		wrong  []string // nil if no value of its parameters is invalid
		absent string
	}{
		{
			path: "/productUpdates/{id}", params: map[string]string{"id": "full"},
			found: []string{"/productUpdates/full?moderatorId=m1", "/productUpdates/empty?resolveEmbeds=true", "/productUpdates/empty"},
			wrong: []string{"/productUpdates/full?resolveEmbeds=yes"}, absent: "/productUpdates/none",
		},
		{
			path:  "/articles",
			found: []string{"/articles", "/articles?page=1&pageSize=100", "/articles?page=2"},
			wrong: []string{"/articles?page=0", "/articles?pageSize=0", "/articles?pageSize=101", "/articles?page=x"},
		},
		{
			path: "/articles/{id}/replies/{replyId}", params: map[string]string{"id": "a1", "replyId": "full"},
			found: []string{"/articles/a1/replies/full?moderatorId=m1", "/articles/a1/replies/empty"}, absent: "/articles/a1/replies/full",
		},
	}
	seen := map[string]bool{"/openapi.json": true}
	for _, o := range operations {
		seen[o.path] = true
		request := func(target string) *http.Request { return httptest.NewRequest(http.MethodGet, target, nil) }
		for _, target := range o.found {
			check(t, document, working, o.path, o.params, request(target), true, 200)
			check(t, document, closed, o.path, o.params, request(target), true, 401)
			check(t, document, broken, o.path, o.params, request(target), true, 500)
			check(t, document, slow, o.path, o.params, request(target), true, 503)
			known := request(target)
			known.Header.Set("If-None-Match", "*")
			check(t, document, working, o.path, o.params, known, true, 304)
			later := request(target)
			later.Header.Set("X-API-Key", "later")
			check(t, document, closed, o.path, o.params, later, true, 503)
		}
		for _, target := range o.wrong {
			check(t, document, working, o.path, o.params, request(target), false, 422)
		}
		if o.absent != "" {
			check(t, document, working, o.path, o.params, request(o.absent), true, 404)
		}
	}
	check(t, document, working, "/openapi.json", nil, httptest.NewRequest(http.MethodGet, "/openapi.json", nil), true, 200)
	for path, item := range document.Paths.Map() {
		if !seen[path] || len(item.Operations()) != 1 {
			t.Errorf("%s is described, but not tested", path)
		}
	}
}

// specification.md 6.11, specification.md "a field without a value": each schema has the fields of its Go type with their
// JSON types, and requires all of them.
func TestTheDescriptionHasTheFieldsOfTheTypes(t *testing.T) {
	schemas := description(t, handler(t, httpapi.Config{Store: community()}), "").Components.Schemas
	for name, of := range map[string]reflect.Type{
		"ProductUpdate": reflect.TypeFor[content.ProductUpdate](), "Article": reflect.TypeFor[content.Article](), "Reply": reflect.TypeFor[content.Reply](),
		"Author": reflect.TypeFor[content.Author](), "Reputation": reflect.TypeFor[content.Reputation](), "LastEdit": reflect.TypeFor[content.LastEdit](),
		"ScheduledBy": reflect.TypeFor[content.ScheduledBy](), "ProductArea": reflect.TypeFor[content.ProductArea](), "Report": reflect.TypeFor[content.Report](),
		"Links": reflect.TypeFor[content.Links](),
	} {
		schema := schemas[name].Value
		if closed := schema.AdditionalProperties; closed.Has == nil || *closed.Has {
			t.Errorf("%s may have other fields", name)
		}
		fields := map[string]reflect.Type{}
		for _, field := range reflect.VisibleFields(of) {
			if !field.Anonymous {
				fields[field.Tag.Get("json")] = field.Type
			}
		}
		for field, goType := range fields {
			property := schema.Properties[field]
			if property == nil || !slices.Contains(schema.Required, field) {
				t.Errorf("%s.%s is missing, or not required", name, field)
				continue
			}
			if got, want := kind(property), kindOf(goType); got != want {
				t.Errorf("%s.%s is described as %s, but is %s", name, field, got, want)
			}
		}
		if len(schema.Properties) != len(fields) || len(schema.Required) != len(fields) {
			t.Errorf("%s has %d fields, of which %d are required; the type has %d", name, len(schema.Properties), len(schema.Required), len(fields))
		}
	}
	for _, name := range []string{"categoryId", "publishedAt", "lastActivityAt", "lastModifiedAt", "scheduledAt", "poll", "isPreviewPublic", "_links"} {
		if schemas["ProductUpdate"].Value.Properties[name] != nil {
			t.Errorf("a product update has %s", name)
		}
	}
	if schemas["Article"].Value.Properties["productAreas"] != nil {
		t.Error("an article has productAreas")
	}
}

// kind returns the type of a schema as text, such as "array of string", or the name of the schema that it refers to.
func kind(s *openapi3.SchemaRef) string {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return name
	}
	if s.Value.Type.Is("array") {
		return "array of " + kind(s.Value.Items)
	}
	return strings.Join(s.Value.Type.Slice(), "|")
}

func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "array of " + kindOf(t.Elem())
	case reflect.Int64:
		return "integer"
	case reflect.Bool:
		return "boolean"
	case reflect.Struct:
		return t.Name()
	}
	switch t {
	case reflect.TypeFor[content.Object]():
		return "object"
	case reflect.TypeFor[content.Timestamp]():
		return "Timestamp"
	}
	return t.Kind().String()
}
