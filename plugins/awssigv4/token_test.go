package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

const encodedToken = "AQoDYXdzEPT%2F%2F%2F%2F%2F%2F%2F%2F%2F%2FwEXAMPLEtc764bNrC9SAPBSM22w%2BDOk4x4HIZ8j4FZTwdQ%3D%3D"

// A session token is sent and signed, or sent unsigned.
func TestSessionToken(t *testing.T) {
	session := "{{ get_secret('session') }}"
	run(t, func(t *testing.T, h *hosttest.Harness) {
		r := hosttest.GET("https://api.test/")
		r.Header.Set("X-Amz-Security-Token", "mine")
		for _, c := range []struct {
			config hosttest.Config
			want   string
		}{
			{config("session_token", session), canonical("GET", "/", "", "host:api.test", "x-amz-date:20150830T123600Z", "x-amz-security-token:"+token, "",
				"host;x-amz-date;x-amz-security-token", emptyHash)},
			{config("session_token", session, "sign_session_token", false), canonical("GET", "/", "", "host:api.test", "x-amz-date:20150830T123600Z", "",
				"host;x-amz-date", emptyHash)},
		} {
			got := h.Authenticate(c.config, r)
			if want := authorization(c.want, scope); got.Header("Authorization") != want || got.Header("X-Amz-Security-Token") != token {
				t.Errorf("%v, not %s", got.Request.Header, want)
			}
		}
	})
}

// presigned returns the query of a presigned request.
func presigned(names, expires, signature string) string {
	return "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F20150830%2Fus-east-1%2Fservice%2Faws4_request" +
		"&X-Amz-Date=20150830T123600Z&X-Amz-Expires=" + expires + signature + "&X-Amz-SignedHeaders=" + names
}

// In the query, the signature covers the request's query and the parameters that are added, and the headers stay as they are
// (specification.md 3.38).
func TestQuery(t *testing.T) {
	const security = "&X-Amz-Security-Token=" + encodedToken
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for _, c := range []struct {
			name             string
			config           hosttest.Config
			signed           string // the parameters that are signed, in their order
			sent, afterwards string
		}{
			{"without a token", config("in", "query"), presigned("accept%3Bhost", "300", ""), presigned("accept%3Bhost", "300", ""), ""},
			{"another time", config("in", "query", "expires_seconds", 60), presigned("accept%3Bhost", "60", ""), presigned("accept%3Bhost", "60", ""), ""},
			{
				"with a token", config("in", "query", "session_token", "{{ get_secret('session') }}"),
				presigned("accept%3Bhost", "300", security), presigned("accept%3Bhost", "300", "") + security, "",
			},
			{
				"with an unsigned token", config("in", "query", "session_token", "{{ get_secret('session') }}", "sign_session_token", false),
				presigned("accept%3Bhost", "300", ""), presigned("accept%3Bhost", "300", ""), security,
			},
		} {
			r := hosttest.GET("https://api.test/a?z=1&A=%7e")
			r.Header.Set("Accept", "text/html")
			got := h.Authenticate(c.config, r)
			signature := sign(canonical("GET", "/a", "A=~&"+c.signed+"&z=1", "accept:text/html", "host:api.test", "", "accept;host", emptyHash),
				"20150830T123600Z", scope)
			want := "z=1&A=%7e&" + c.sent + "&X-Amz-Signature=" + signature + c.afterwards
			if got.Request.URL.RawQuery != want || len(got.Request.Header) != 1 {
				t.Errorf("%s: %v and\n%s, not\n%s", c.name, got.Request.Header, got.Request.URL.RawQuery, want)
			}
		}
	})
}

// All parts of a credential may be secrets, also the access key ID.
func TestAccessKeyIDMayBeASecret(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("id", "AKID/EXAMPLE+1")
		header := h.Authenticate(config("access_key_id", "{{ get_secret('id') }}"), hosttest.GET("https://api.test/")).Header("Authorization")
		if !strings.HasPrefix(header, "AWS4-HMAC-SHA256 Credential=AKID/EXAMPLE+1/20150830/") {
			t.Errorf("Authorization: %s", header)
		}
		got := h.Authenticate(config("access_key_id", "{{ get_secret('id') }}", "in", "query"), hosttest.GET("https://api.test/"))
		query := strings.Replace(presigned("host", "300", ""), "AKIDEXAMPLE", "AKID%2FEXAMPLE%2B1", 1)
		want := query + "&X-Amz-Signature=" + sign(canonical("GET", "/", query, "host:api.test", "", "host", emptyHash), "20150830T123600Z", scope)
		if got.Request.URL.RawQuery != want {
			t.Errorf("%s, not\n%s", got.Request.URL.RawQuery, want)
		}
	})
}

// A request that is signed already is refused, because it would have two signatures.
func TestPresignedRequests(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for _, name := range []string{
			"X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-Security-Token", "X-Amz-Signature", "X-Amz-SignedHeaders", "X%2DAmz-Date",
		} {
			for _, in := range []string{"header", "query"} {
				plugintest.Refuses(t, h, config("in", in), hosttest.GET("https://api.test/?a=b&"+name+"=x"), host.StagePlugin, "send it one that is not presigned")
			}
		}
		h.Authenticate(config("in", "query"), hosttest.GET("https://api.test/?x-amz-acl=private&X-Amz-Target=x"))
	})
}

// An explanation shows what is signed, and masks the credential.
func TestExplanation(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		e := h.Explain(config("session_token", "{{ get_secret('session') }}"), hosttest.GET("https://api.test/"))
		text := ""
		for _, header := range e.Added.Headers {
			text += header.Name + ": " + header.Value + "\n"
		}
		if !strings.Contains(text, "X-Amz-Security-Token: {{ get_secret('session') }}\n") || !strings.Contains(text, "X-Amz-Date: 20150830T123600Z\n") ||
			!strings.Contains(text, "SignedHeaders=host;x-amz-date;x-amz-security-token, Signature=") {
			t.Errorf("text = %s", text)
		}
		steps := ""
		for _, step := range e.Steps {
			steps += step.By + ": " + step.Signed + "\n"
		}
		if !strings.Contains(steps, "GET\n/\n\nhost:api.test\nx-amz-date:20150830T123600Z\nx-amz-security-token:{{ get_secret('session') }}\n") {
			t.Errorf("steps = %s", steps)
		}
	})
}

// An API may refuse the time of a signature. The request is signed again with the time of the API, and later requests at once
// (specification.md 3.39, specification.md "the clock of AWS").
func TestClockOfTheAPI(t *testing.T) {
	session := []any{"session_token", "{{ get_secret('session') }}"}
	for _, status := range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden} {
		run(t, func(t *testing.T, h *hosttest.Harness) {
			h.API(dated(status, "Sun, 30 Aug 2015 12:51:00 GMT"), dated(http.StatusOK, ""))
			got := h.Authenticate(config(session...), hosttest.POST("https://api.test/", "body"))
			if got.Attempts != 2 || got.Response.StatusCode != http.StatusOK || got.Header("X-Amz-Date") != "20150830T125100Z" {
				t.Errorf("%d attempts, the last with %v", got.Attempts, got.Request.Header)
			}
			got = h.Authenticate(config(session...), hosttest.GET("https://api.test/"))
			if got.Attempts != 1 || got.Header("X-Amz-Date") != "20150830T125100Z" {
				t.Errorf("the next request: %d attempts, %v", got.Attempts, got.Request.Header)
			}
		})
	}
}

// Once the time of the API is known, a refusal has another reason, and the request is not sent again. If the API's clock is set
// anew, it is.
func TestClockSkew(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for _, c := range []struct {
			name, date, want string
			attempts         int
		}{
			{"the first refusal", "Sun, 30 Aug 2015 12:51:00 GMT", "20150830T125100Z", 2},
			{"the same time", "Sun, 30 Aug 2015 12:51:00 GMT", "20150830T125100Z", 1},
			{"59 seconds later", "Sun, 30 Aug 2015 12:51:59 GMT", "20150830T125100Z", 1},
			{"an hour later", "Sun, 30 Aug 2015 13:51:59 GMT", "20150830T135159Z", 2},
			{"the host's time", "Sun, 30 Aug 2015 12:36:00 GMT", "20150830T123600Z", 2},
		} {
			h.API(dated(http.StatusForbidden, c.date))
			got := h.Authenticate(config(), hosttest.GET("https://api.test/"))
			if got.Attempts != c.attempts || got.Response.StatusCode != http.StatusForbidden || got.Header("X-Amz-Date") != c.want {
				t.Errorf("%s: %d attempts, the last at %s, status %d", c.name, got.Attempts, got.Header("X-Amz-Date"), got.Response.StatusCode)
			}
		}
	})
}

// A request that is refused for another reason is not sent again.
func TestOtherRefusals(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		date   string
	}{
		{"at the same time", http.StatusForbidden, "Sun, 30 Aug 2015 12:36:00 GMT"},
		{"59 seconds later", http.StatusForbidden, "Sun, 30 Aug 2015 12:36:59 GMT"},
		{"59 seconds earlier", http.StatusBadRequest, "Sun, 30 Aug 2015 12:35:01 GMT"},
		{"without a date", http.StatusForbidden, ""},
		{"401", http.StatusUnauthorized, "Sun, 30 Aug 2015 12:36:00 GMT"},
		{"another status", http.StatusNotFound, "Sun, 30 Aug 2015 12:51:00 GMT"},
	} {
		run.Case(t, c.name, func(t *testing.T, h *hosttest.Harness) {
			h.API(dated(c.status, c.date))
			got := h.Authenticate(config(), hosttest.GET("https://api.test/"))
			if got.Attempts != 1 || got.Response.StatusCode != c.status {
				t.Errorf("%d attempts, status %d", got.Attempts, got.Response.StatusCode)
			}
		})
	}
	for _, date := range []string{"Sun, 30 Aug 2015 12:35:00 GMT", "Sun, 30 Aug 2015 12:37:00 GMT"} {
		run(t, func(t *testing.T, h *hosttest.Harness) {
			h.API(dated(http.StatusForbidden, date))
			plugintest.Answers(t, h, config(), hosttest.GET("https://api.test/"), http.StatusForbidden, 2)
		})
	}
}

// The signing key is made once, and kept until the day ends in UTC, by the clock of the API (specification.md "the signing key of AWS").
func TestSigningKeyLifetime(t *testing.T) {
	for name, c := range map[string]struct {
		api string
		end time.Time
	}{
		"the same clock":              {"Sun, 30 Aug 2015 12:36:00 GMT", time.Date(2015, time.September, 1, 0, 0, 0, 0, time.UTC)},
		"the API is 5 minutes ahead":  {"Sun, 30 Aug 2015 12:41:00 GMT", time.Date(2015, time.August, 31, 23, 55, 0, 0, time.UTC)},
		"the API is 5 minutes behind": {"Sun, 30 Aug 2015 12:31:00 GMT", time.Date(2015, time.September, 1, 0, 5, 0, 0, time.UTC)},
	} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			h.API(dated(http.StatusForbidden, c.api), dated(http.StatusOK, ""))
			send := func() host.Attempt {
				h.Authenticate(config(), hosttest.GET("https://api.test/"))
				calls := h.Calls()
				return calls[len(calls)-1]
			}
			send() // from now on the clock of the API is known
			h.Advance(24 * time.Hour)
			if send().Cached {
				t.Error("the key of the day before is still there")
			}
			if got := send(); !got.Cached || !got.Expires.IsZero() {
				t.Errorf("the key is kept: %t, and a token ends at %s, which there is not", got.Cached, got.Expires)
			}
			h.Advance(c.end.Add(-time.Second).Sub(h.Now()))
			if !send().Cached {
				t.Error("the key is made again in the last second of the day")
			}
			h.Advance(time.Second)
			if send().Cached {
				t.Error("the key is kept longer than the day")
			}
		})
	}
}

// The signing key of a day is never that of another day, region, service or secret (specification.md "the signing key of AWS").
func TestSigningKeys(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		signs := func(fields []any, secret, scope string) {
			t.Helper()
			got := h.Authenticate(config(fields...), hosttest.GET("https://api.test/"))
			stamp := got.Header("X-Amz-Date")
			want := sign(canonical("GET", "/", "", "host:api.test", "x-amz-date:"+stamp, "", "host;x-amz-date", emptyHash), stamp, scope)
			if secret == "" && !strings.HasSuffix(got.Header("Authorization"), "/"+scope[len("20150830/"):]+", SignedHeaders=host;x-amz-date, Signature="+want) {
				t.Errorf("%s: %s, not %s", stamp, got.Header("Authorization"), want)
			}
			if secret != "" && strings.HasSuffix(got.Header("Authorization"), want) {
				t.Errorf("%s: signed with the key of another secret", stamp)
			}
		}
		for range 2 {
			signs(nil, "", scope)
			signs([]any{"region", "eu-central-1"}, "", "20150830/eu-central-1/service/aws4_request")
			signs([]any{"service", "sqs"}, "", "20150830/us-east-1/sqs/aws4_request")
		}
		h.Advance(time.Date(2015, time.August, 30, 23, 59, 59, 0, time.UTC).Sub(h.Now()))
		signs(nil, "", scope)
		h.Advance(time.Second)
		signs(nil, "", "20150831/us-east-1/service/aws4_request")
		h.Secret("aws", secretKey+"2")
		signs(nil, "rotated", "20150831/us-east-1/service/aws4_request")
		h.Secret("aws", secretKey)
		signs(nil, "", "20150831/us-east-1/service/aws4_request")
	})
}

// The API's time may be on another day, which has another signing key.
func TestClockOffsetAcrossDays(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Advance(11*time.Hour + 20*time.Minute)
		h.API(dated(http.StatusForbidden, "Mon, 31 Aug 2015 00:01:00 GMT"), dated(http.StatusOK, ""))
		got := h.Authenticate(config(), hosttest.GET("https://api.test/"))
		want := authorization(canonical("GET", "/", "", "host:api.test", "x-amz-date:20150831T000100Z", "", "host;x-amz-date", emptyHash),
			"20150831/us-east-1/service/aws4_request")
		if got.Attempts != 2 || got.Response.StatusCode != http.StatusOK || got.Header("Authorization") != want {
			t.Errorf("%d attempts, the last with %v, not %s", got.Attempts, got.Request.Header, want)
		}
	})
}

// dated returns an answer of the API with a Date.
func dated(status int, date string) hosttest.Answer {
	answer := hosttest.JSON(status, `{"__type":"InvalidSignatureException"}`)
	if date == "" {
		return answer
	}
	return plugintest.Headed(answer, "Date", date)
}
