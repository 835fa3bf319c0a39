package host_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// A header whose name holds the credential escaped is dropped, as its value would be (threats.md 45).
func TestEscapedEchoInHeaderName_threats_45(t *testing.T) {
	w := newWorld(t)
	w.setSecret("s", "1234/5678/9012")
	w.api.Answer(respond(http.StatusOK, "", "X-1234%2f5678%2F9012", "1", "X-Fine", "fine"))
	response, err := w.connect("api_key", key("{{ get_secret('s') }}")).GuardedTransport(nil).RoundTrip(get(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if got := response.Header; len(got) != 1 || got.Get("X-Fine") != "fine" {
		t.Errorf("the caller got %v", got)
	}
	if w.logged("with the credential in its name") != 1 {
		t.Error("there is no warning")
	}
}

// The trailers that an API announces are searched before the body is read, and once more when they have come.
func TestEchoInAnnouncedTrailers_threats_45(t *testing.T) {
	const secret = "sk-live-0123456789"
	w := newWorld(t)
	w.setSecret("s", secret)
	w.api.Answer(func(r *http.Request) (*http.Response, error) {
		response, err := respond(http.StatusOK, "body")(r)
		response.Trailer = http.Header{"X-" + secret: nil, "X-Sum": nil}
		response.Body = io.NopCloser(io.MultiReader(strings.NewReader("body"), readerFunc(func([]byte) (int, error) {
			response.Trailer = http.Header{"X-Sum": {"1"}, "X-Key": {secret}} // as net/http does at the end
			return 0, io.EOF
		})))
		return response, err
	})
	response, err := w.connect("api_key", key("{{ get_secret('s') }}")).GuardedTransport(nil).RoundTrip(get(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if _, sum := response.Trailer["X-Sum"]; len(response.Trailer) != 1 || !sum {
		t.Errorf("before the body is read: %v", response.Trailer)
	}
	if _, err = w.read(response, nil); err != nil || len(response.Trailer) != 1 || response.Trailer.Get("X-Sum") != "1" {
		t.Errorf("at the end: %v, %v", response.Trailer, err)
	}
}
