package host_test

import (
	"mime/multipart"
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The caller may change the result of Authenticate. It shares nothing with the original request.
func TestAuthenticateGivesACopy(t *testing.T) {
	w := newWorld(t)
	w.canary("s")
	connector := w.connect("api_key", key("{{ get_secret('s') }}"))
	for name, c := range map[string]struct {
		set func(r *http.Request, text string)
		get func(*http.Request) string
	}{
		"the trailer": {func(r *http.Request, text string) {
			if r.Trailer == nil {
				r.Trailer = http.Header{}
			}
			r.Trailer.Set("X-Sum", text)
		}, func(r *http.Request) string { return r.Trailer.Get("X-Sum") }},
		"the transfer encoding": {func(r *http.Request, text string) {
			if r.TransferEncoding == nil {
				r.TransferEncoding = []string{""}
			}
			r.TransferEncoding[0] = text
		}, func(r *http.Request) string { return r.TransferEncoding[0] }},
		"the form": {func(r *http.Request, text string) {
			if r.Form == nil {
				r.Form = url.Values{}
			}
			r.Form.Set("a", text)
		}, func(r *http.Request) string { return r.Form.Get("a") }},
		"the form of the body": {func(r *http.Request, text string) {
			if r.PostForm == nil {
				r.PostForm = url.Values{}
			}
			r.PostForm.Set("a", text)
		}, func(r *http.Request) string { return r.PostForm.Get("a") }},
		"the form in parts": {func(r *http.Request, text string) {
			if r.MultipartForm == nil {
				r.MultipartForm = &multipart.Form{Value: map[string][]string{}}
			}
			r.MultipartForm.Value["a"] = []string{text}
		}, func(r *http.Request) string { return r.MultipartForm.Value["a"][0] }},
		"a value of the path": {func(r *http.Request, text string) {
			r.Pattern = "/v1/{p}" // as of a ServeMux
			r.SetPathValue("p", text)
		}, func(r *http.Request) string { return r.PathValue("p") }},
	} {
		r := get(t.Context())
		c.set(r, "mine")
		authenticated, err := connector.Authenticate(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.get(authenticated); got != "mine" {
			t.Errorf("%s of the copy is %q", name, got)
		}
		c.set(authenticated, "changed")
		if got := c.get(r); got != "mine" {
			t.Errorf("%s of the caller's request is changed: %q", name, got)
		}
	}
}

// What Authenticate returns is the caller's to change. The request that it was made from stays as it is.
func TestAChangeOfTheAuthenticatedRequestLeavesTheOther(t *testing.T) {
	w := newWorld(t)
	w.setSecret("s", "my-secret")
	r := get(t.Context())
	r.Header.Set("X-Caller", "mine")
	r.Header.Set("X-Other", "other")
	authenticated, err := w.connect("api_key", key("{{ get_secret('s') }}")).Authenticate(r)
	if err != nil {
		t.Fatal(err)
	}
	authenticated.Header["X-Caller"][0] = "changed"
	authenticated.Header.Add("X-Caller", "added")
	authenticated.Header.Add("X-Other", "added")
	if got := r.Header; got.Get("X-Caller") != "mine" || got.Get("X-Other") != "other" || len(got) != 2 {
		t.Errorf("the caller's headers are %q", got)
	}
	want := http.Header{"X-Caller": {"changed", "added"}, "X-Other": {"other", "added"}, "X-Key": {"my-secret"}}
	if diff := cmp.Diff(want, authenticated.Header); diff != "" {
		t.Errorf("the headers of the copy (-want +got)\n%s", diff)
	}
}
