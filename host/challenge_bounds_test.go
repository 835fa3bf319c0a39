package host_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/internal/contract"
)

// A plugin gets answers of a body of at most 64 KiB that is whole and not encoded. The caller gets the body in any case, with
// the error at which it ends.
func TestChallengeBodies(t *testing.T) {
	const expired = `{"error":{"code":"expired"}}`
	broken := errors.New("the connection broke")
	for name, tt := range map[string]struct {
		body     string
		end      error
		encoding string
		want     string
	}{
		"64 KiB":            {body: expired + strings.Repeat(" ", 64<<10-len(expired)), want: "expired"},
		"64 KiB and a byte": {body: expired + strings.Repeat(" ", 64<<10-len(expired)+1)},
		"cut off":           {body: expired, end: broken},
		"encoded":           {body: expired, encoding: "gzip"},
	} {
		t.Run(name, func(t *testing.T) {
			var code string
			w, connector := challengeWorld(t, func(env contract.Env) (string, error) {
				if c := challengeOf(env); c.Status != 0 {
					code = c.Answers["code"]
					return `{"pass":true}`, nil
				}
				return "{}", nil
			})
			w.api.Answer(func(r *http.Request) (*http.Response, error) {
				response, err := respond(http.StatusForbidden, tt.body)(r)
				if tt.encoding != "" {
					response.Header.Set("Content-Encoding", tt.encoding)
				}
				if tt.end != nil {
					response.Body = io.NopCloser(io.MultiReader(strings.NewReader(tt.body), iotest.ErrReader(tt.end)))
				}
				return response, err
			})
			response, err := connector.Transport(nil).RoundTrip(get(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if string(got) != tt.body || !errors.Is(err, tt.end) || code != tt.want {
				t.Errorf("%d bytes, code %q, want %d bytes, code %q (%v)", len(got), code, len(tt.body), tt.want, err)
			}
		})
	}
}

// The plugin also learns from the answer to the second attempt.
func TestNonceOfSecondAnswer(t *testing.T) {
	w, connector := challengeWorld(t, sendsNonce)
	w.api.Answer(func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("X-Nonce") == "" {
			return respond(http.StatusUnauthorized, "", "WWW-Authenticate", `Digest nonce="first-nonce"`)(r)
		}
		return respond(http.StatusOK, "", "Authentication-Info", `nextnonce="second-nonce"`)(r)
	})
	w.get(connector)
	w.get(connector)
	if diff := cmp.Diff([]string{"", "first-nonce 1", "second-nonce 1"}, nonces(w)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// The body of an answer that is no challenge streams to the caller: the host reads none of it first.
func TestOrdinaryAnswerStreams(t *testing.T) {
	w, connector := challengeWorld(t, sendsNonce)
	body := &counting{Reader: strings.NewReader(`{"error":{"code":"expired"}}`)}
	w.api.Answer(func(r *http.Request) (*http.Response, error) {
		response, err := respond(http.StatusOK, "", "Authentication-Info", `nextnonce="a-nonce-to-keep"`)(r)
		response.Body = body
		return response, err
	})
	response, err := connector.Transport(nil).RoundTrip(get(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if body.read != 0 {
		t.Errorf("%d bytes are read before the caller gets the answer", body.read)
	}
	_ = response.Body.Close()
}
