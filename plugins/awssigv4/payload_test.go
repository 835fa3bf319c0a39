package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

// The body is signed by its hash, or not at all, or as the request's own X-Amz-Content-Sha256 says.
func TestPayload(t *testing.T) {
	const body = "the body"
	const header = "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e"
	const trailer = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
	hash := sha256Of(body)
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for _, c := range []struct {
			name        string
			config      hosttest.Config
			stated      string
			signed      string // the last line of the canonical request
			header      string // X-Amz-Content-Sha256, if the signature is in a header
			signedQuery string // the last line, if it is in the query
		}{
			{"a service", config(), "", hash, "", hash},
			{"a service that asks for the header", config("content_sha256_header", true), "", hash, hash, hash},
			{"S3", config("service", "s3"), "", hash, hash, "UNSIGNED-PAYLOAD"},
			{"unsigned", config("unsigned_payload", true), "", "UNSIGNED-PAYLOAD", "UNSIGNED-PAYLOAD", "UNSIGNED-PAYLOAD"},
			{"S3, unsigned", config("service", "s3", "unsigned_payload", true), "", "UNSIGNED-PAYLOAD", "UNSIGNED-PAYLOAD", "UNSIGNED-PAYLOAD"},
			{"stated, unsigned", config("service", "s3"), "UNSIGNED-PAYLOAD", "UNSIGNED-PAYLOAD", "UNSIGNED-PAYLOAD", "UNSIGNED-PAYLOAD"},
			{"stated, streaming", config("service", "s3"), trailer, trailer, trailer, trailer},
			{"stated, a hash", config("unsigned_payload", true), header, header, header, header},
		} {
			request := func() *http.Request {
				r := hosttest.POST("https://api.test/", body)
				if c.stated != "" {
					r.Header.Set("X-Amz-Content-Sha256", c.stated)
				}
				return r
			}
			lines, names := []string{"POST", "/", "", "content-length:8", "host:api.test"}, "content-length;host"
			if c.header != "" {
				lines, names = append(lines, "x-amz-content-sha256:"+c.header), names+";x-amz-content-sha256"
			}
			lines = append(lines, "x-amz-date:20150830T123600Z", "", names+";x-amz-date", c.signed)
			service := c.config["service"].(string)
			want := authorization(canonical(lines...), strings.Replace(scope, "service", service, 1))
			got := h.Authenticate(c.config, request())
			if got.Header("Authorization") != want || got.Header("X-Amz-Content-Sha256") != c.header {
				t.Errorf("%s: %v, not %s", c.name, got.Request.Header, want)
			}
			if read, err := io.ReadAll(got.Request.Body); err != nil || string(read) != body {
				t.Errorf("%s: the body is %q (%v)", c.name, read, err)
			}
			c.config["in"] = "query"
			checkQuery(t, h.Authenticate(c.config, request()), c.stated, c.signedQuery, service)
		}
	})
}

// checkQuery checks the signature in the query of a request with a body.
func checkQuery(t *testing.T, got *hosttest.Result, stated, payload, service string) {
	t.Helper()
	header, names := "", "content-length;host"
	if stated != "" {
		header, names = "\nx-amz-content-sha256:"+stated, names+";x-amz-content-sha256"
	}
	query, signature, _ := strings.Cut(got.Request.URL.RawQuery, "&X-Amz-Signature=")
	want := sign(canonical("POST", "/", query, "content-length:8", "host:api.test"+header, "", names, payload),
		"20150830T123600Z", strings.Replace(scope, "service", service, 1))
	if signature != want || got.Header("X-Amz-Content-Sha256") != stated {
		t.Errorf("%s %v, not %s", got.Request.URL.RawQuery, got.Request.Header, want)
	}
}

// A body that can be read only once is signed too, with its length, which the host knows once it keeps the body.
func TestSingleReadBody(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		r := hosttest.POST("https://api.test/", "x")
		r.Body, r.GetBody, r.ContentLength = io.NopCloser(strings.NewReader("streamed")), nil, -1
		got := h.Authenticate(config(), r)
		signed := canonical("POST", "/", "", "content-length:8", "host:api.test", "x-amz-date:20150830T123600Z", "", "content-length;host;x-amz-date", sha256Of("streamed"))
		want := authorization(signed, scope)
		if got.Header("Authorization") != want {
			t.Errorf("Authorization: %s, not %s", got.Header("Authorization"), want)
		}
		if got.Request.ContentLength != 8 {
			t.Errorf("Content-Length: %d", got.Request.ContentLength)
		}
		if read, err := io.ReadAll(got.Request.Body); err != nil || string(read) != "streamed" {
			t.Errorf("the body is %q (%v)", read, err)
		}
	})
}

// A body that is not signed is not read before it is sent.
func TestUnsignedBody(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Limits(host.Limits{BodyBytes: 4})
		r := hosttest.POST("https://api.test/", "x")
		r.Body, r.GetBody, r.ContentLength = io.NopCloser(strings.NewReader("longer than the host keeps")), nil, -1
		if got := h.Authenticate(config("unsigned_payload", true), r); got.Header("X-Amz-Content-Sha256") != "UNSIGNED-PAYLOAD" {
			t.Errorf("got.Request.Header = %v", got.Request.Header)
		}
	})
}

// A body with signed chunks cannot be signed without the secret.
func TestRefusedPayloads(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for _, stated := range []string{
			"STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", "STREAMING-AWS4-HMAC-SHA256-EVENTS", "required",
			emptyHash[1:], emptyHash + "0", strings.ToUpper(emptyHash), emptyHash[:63] + "g",
		} {
			for _, in := range []string{"header", "query"} {
				r := hosttest.POST("https://api.test/", "body")
				r.Header.Set("X-Amz-Content-Sha256", stated)
				plugintest.Refuses(t, h, config("in", in), r, host.StagePlugin, "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
			}
		}
	})
}
