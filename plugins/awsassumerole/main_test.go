package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

const (
	emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	stsURL    = "https://sts.eu-central-1.amazonaws.com/"
	role      = "arn:aws:iam::123456789012:role/reports"
)

var run = plugintest.Of(plugin{}, "awsassumerole.wasm")

// config returns a configuration. Further fields are pairs of name and value.
func config(pairs ...any) hosttest.Config {
	return plugintest.With(hosttest.Config{
		"access_key_id": "AKIABASE", "secret_access_key": "{{ get_secret('aws') }}", "role_arn": role, "sts_url": stsURL,
		"region": "eu-central-1", "service": "execute-api",
	}, pairs...)
}

// credentials returns an answer of STS in its JSON, which has the expiration as a number with an exponent.
func credentials(n int, expires, date time.Time) hosttest.Answer {
	return answer(http.StatusOK, fmt.Sprintf(`{"AssumeRoleResponse":{"AssumeRoleResult":{"AssumedRoleUser":{"Arn":"arn:aws:sts::1:assumed-role/reports/x"},
		"Credentials":{"AccessKeyId":"ASIAROLE000%d","SecretAccessKey":"the/secret+of-role-%d","SessionToken":"the/token+of-role-%d==","Expiration":%.9E},
		"PackedPolicySize":null},"ResponseMetadata":{"RequestId":"r"}}}`, n, n, n, float64(expires.Unix())), date)
}

// answer returns an answer with a Date.
func answer(status int, body string, date time.Time) hosttest.Answer {
	return func(r *http.Request) (*http.Response, error) {
		response, err := hosttest.JSON(status, body)(r)
		if !date.IsZero() {
			response.Header.Set("Date", date.UTC().Format(http.TimeFormat))
		}
		return response, err
	}
}

// authorization returns the value of Authorization for a canonical request, which the test writes by the rules of AWS.
func authorization(id, secret, scope, canonical string) string {
	mac := func(key, data string) string {
		h := hmac.New(sha256.New, []byte(key))
		_, _ = io.WriteString(h, data)
		return string(h.Sum(nil))
	}
	lines := strings.Split(canonical, "\n")
	_, stamp, _ := strings.Cut(lines[slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "x-amz-date:") })], ":")
	scope = stamp[:8] + "/" + scope + "/aws4_request"
	key := "AWS4" + secret
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	signature := mac(key, "AWS4-HMAC-SHA256\n"+stamp+"\n"+scope+"\n"+sha256Of(canonical))
	return "AWS4-HMAC-SHA256 Credential=" + id + "/" + scope + ", SignedHeaders=" + lines[len(lines)-2] + ", Signature=" + hex.EncodeToString([]byte(signature))
}

func sha256Of(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// The base credentials sign AssumeRole, and the credentials that STS returns sign the request (specification.md 3.40).
func TestAssumedRole(t *testing.T) {
	const stamp = "20260102T030405Z"
	for _, c := range []struct {
		name         string
		config       hosttest.Config
		form         string
		region, base string // base is the base's session token
	}{
		{
			"only what is required", config(),
			"Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Freports&RoleSessionName=keywright&DurationSeconds=3600",
			"eu-central-1", "",
		},
		{
			"everything", config("session_token", "{{ get_secret('base') }}", "role_session_name", "{{ user.email }}", "external_id", "{{ get_secret('external') }}",
				"duration_seconds", 900, "policy", `{"Version":"2012-10-17","Statement":[]}`, "sts_region", "us-east-1"),
			"Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Freports&RoleSessionName=ann%40example.com&DurationSeconds=900" +
				"&ExternalId=ex%2Fternal+id%2B1&Policy=%7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%5B%5D%7D",
			"us-east-1", "the/base+token==",
		},
	} {
		run.Case(t, c.name, func(t *testing.T, h *hosttest.Harness) {
			secret := h.Canary("aws")
			h.Secret("base", "the/base+token==")
			h.Secret("external", "ex/ternal id+1")
			h.As(host.User{Email: "ann@example.com"})
			h.TokenEndpoint(stsURL, credentials(1, h.Now().Add(time.Hour), time.Time{}))
			got := h.Authenticate(c.config, hosttest.GET("https://api.test/v1"))
			exchanges := h.Exchanges()
			if len(exchanges) != 1 {
				t.Fatalf("%d exchanges", len(exchanges))
			}
			lines := []string{"POST", "/", "", "content-type:application/x-www-form-urlencoded", "host:sts.eu-central-1.amazonaws.com", "x-amz-date:" + stamp}
			names := "content-type;host;x-amz-date"
			if c.base != "" {
				lines, names = append(lines, "x-amz-security-token:"+c.base), names+";x-amz-security-token"
			}
			lines = append(lines, "", names, sha256Of(c.form))
			want := http.Header{
				"Accept": {"application/json"}, "User-Agent": {"keywright"}, "Content-Type": {"application/x-www-form-urlencoded"}, "X-Amz-Date": {stamp},
				"Authorization": {authorization("AKIABASE", secret, c.region+"/sts", strings.Join(lines, "\n"))},
			}
			if c.base != "" {
				want.Set("X-Amz-Security-Token", c.base)
			}
			if exchanges[0].Method != http.MethodPost || exchanges[0].Body != c.form || fmt.Sprint(exchanges[0].Header) != fmt.Sprint(want) {
				t.Errorf("STS got %s\n%v\n%s, not\n%v\n%s", exchanges[0].Method, exchanges[0].Header, exchanges[0].Body, want, c.form)
			}
			checkSigned(t, got, 1, stamp)
		})
	}
}

// checkSigned checks that a request is signed with the nth credentials of the role.
func checkSigned(t *testing.T, got *hosttest.Result, n int, stamp string) {
	t.Helper()
	token := fmt.Sprintf("the/token+of-role-%d==", n)
	canonical := strings.Join([]string{
		"GET", "/v1", "", "host:api.test", "x-amz-date:" + stamp, "x-amz-security-token:" + token, "", "host;x-amz-date;x-amz-security-token", emptyHash,
	}, "\n")
	want := authorization(fmt.Sprintf("ASIAROLE000%d", n), fmt.Sprintf("the/secret+of-role-%d", n), "eu-central-1/execute-api", canonical)
	if got.Header("Authorization") != want || got.Header("X-Amz-Security-Token") != token || got.Header("X-Amz-Date") != stamp {
		t.Errorf("%v, not %s", got.Request.Header, want)
	}
}

// The credentials are used until a minute before they expire (specification.md 3.40).
func TestCachedCredentials(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("aws")
		h.TokenEndpoint(stsURL, credentials(1, h.Now().Add(time.Hour), time.Time{}), credentials(2, h.Now().Add(2*time.Hour), time.Time{}))
		request := func() *hosttest.Result { return h.Authenticate(config(), hosttest.GET("https://api.test/v1")) }
		checkSigned(t, request(), 1, "20260102T030405Z")
		h.Advance(time.Hour - 61*time.Second)
		checkSigned(t, request(), 1, "20260102T040304Z")
		h.Advance(time.Second)
		checkSigned(t, request(), 2, "20260102T040305Z")
		plugintest.Exchanges(t, h, 2)
	})
}

// The lifetime is counted by the clock of STS: credentials that are valid for 10 minutes there are so for a host that is late.
func TestLifetimeByTheClockOfSTS(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("aws")
		late := h.Now().Add(4 * time.Minute) // STS accepts the signature
		h.TokenEndpoint(stsURL, credentials(1, late.Add(10*time.Minute), late), credentials(2, late.Add(20*time.Minute), late))
		h.Authenticate(config(), hosttest.GET("https://api.test/v1"))
		h.Advance(9*time.Minute - time.Second)
		h.Authenticate(config(), hosttest.GET("https://api.test/v1"))
		plugintest.Exchanges(t, h, 1)
		h.Advance(time.Second)
		h.Authenticate(config(), hosttest.GET("https://api.test/v1"))
		plugintest.Exchanges(t, h, 2)
	})
}

// Credentials that end within a minute serve one request, and nothing of them is kept, their signing key included.
func TestShortCredentials(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("aws")
		h.TokenEndpoint(stsURL, credentials(1, h.Now().Add(time.Minute), time.Time{}), credentials(2, h.Now().Add(time.Minute), time.Time{}))
		checkSigned(t, h.Authenticate(config(), hosttest.GET("https://api.test/v1")), 1, "20260102T030405Z")
		checkSigned(t, h.Authenticate(config(), hosttest.GET("https://api.test/v1")), 2, "20260102T030405Z")
		for _, call := range h.Calls() {
			if !call.Expires.IsZero() {
				t.Errorf("something of them is kept until %s", call.Expires)
			}
		}
	})
}

// Each user has a session, if its name is the user's.
func TestSessionsOfUsers(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("aws")
		end := h.Now().Add(time.Hour)
		h.TokenEndpoint(stsURL, credentials(1, end, time.Time{}), credentials(2, end, time.Time{}))
		for i, email := range []string{"ann@example.com", "bob@example.com", "ann@example.com"} {
			h.As(host.User{Email: email})
			got := h.Authenticate(config("role_session_name", "{{ user.email }}"), hosttest.GET("https://api.test/v1"))
			checkSigned(t, got, i%2+1, "20260102T030405Z")
		}
	})
}

// STS refuses a signature of another time. The host asks again with the time of STS.
func TestClockOfSTS(t *testing.T) {
	for code, status := range map[string]int{"SignatureDoesNotMatch": http.StatusForbidden, "RequestExpired": http.StatusBadRequest} {
		run.Case(t, code, func(t *testing.T, h *hosttest.Harness) {
			h.Canary("aws")
			there := h.Now().Add(10 * time.Minute)
			refusal := answer(status, `{"Error":{"Code":"`+code+`","Message":"expired","Type":"Sender"}}`, there)
			h.TokenEndpoint(stsURL, refusal, credentials(1, there.Add(time.Hour), there))
			h.Authenticate(config(), hosttest.GET("https://api.test/v1"))
			exchanges := h.Exchanges()
			if len(exchanges) != 2 || exchanges[0].Header.Get("X-Amz-Date") != "20260102T030405Z" || exchanges[1].Header.Get("X-Amz-Date") != "20260102T031405Z" {
				t.Errorf("asked = %v", exchanges)
			}
		})
	}
}

// A refusal of STS is an error, and the log has its reason. STS is not asked again because of it.
func TestRefusalsOfSTS(t *testing.T) {
	for _, c := range []struct {
		name    string
		answer  hosttest.Answer
		status  int
		problem string
		warning string
	}{
		{"denied", answer(403, `{"Error":{"Code":"AccessDenied","Message":"User: arn:aws:iam::1:user/x is not authorized"}}`, time.Time{}), 403, "", "AccessDenied"},
		{"denied, at the same time", answer(403, `{"Error":{"Code":"AccessDenied"}}`, time.Date(2026, 1, 2, 3, 5, 4, 0, time.UTC)), 403, "", "AccessDenied"},
		{"denied, in XML", answer(403, `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>AccessDenied</Code></Error></ErrorResponse>`, time.Time{}), 403, "", "AccessDenied"},
		{"an unknown reason", answer(400, `{"Error":{"Code":"Whatever"}}`, time.Time{}), 400, "", "other"},
		{"XML without a reason", answer(500, `<ErrorResponse/>`, time.Time{}), 500, "", ""},
		{"no expiration", answer(200, `{"AssumeRoleResponse":{"AssumeRoleResult":{"Credentials":{"AccessKeyId":"ASIAROLE0001","SecretAccessKey":"the-secret-of-it","SessionToken":"the-token-of-it"}}}}`, time.Time{}), 200, "without expiration", ""},
		{"no credentials", answer(200, `{}`, time.Time{}), 200, "without access_key_id", ""},
	} {
		run.Case(t, c.name, func(t *testing.T, h *hosttest.Harness) {
			h.Canary("aws")
			h.TokenEndpoint(stsURL, c.answer)
			err := h.AuthenticateError(config(), hosttest.GET("https://api.test/v1"))
			var failure *host.TokenError
			if !errors.As(err, &failure) || failure.Status != c.status || failure.Problem != c.problem || err.Stage != host.StageToken {
				t.Errorf("err = %v", err)
			}
			warning := ""
			for _, w := range h.Warnings() {
				if _, reason, found := strings.Cut(w, "AWS STS does not let these credentials assume the role: "); found {
					warning += reason
				}
			}
			if len(h.Exchanges()) != 1 || warning != c.warning {
				t.Errorf("%d exchanges, warnings %q", len(h.Exchanges()), h.Warnings())
			}
		})
	}
}

// The base credentials reach STS only, those of the role the API only, and no secret goes anywhere but as a signature
// (specification.md 3.40).
func TestReachOfTheSecrets(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for _, f := range h.Description().Fields {
			if f.Name == "secret_access_key" && (!slices.Equal(f.Sinks, []string{"sign"}) || !slices.Equal(f.Derived, []string{"sign", "token"}) || !f.Sealed) ||
				f.Name == "session_token" && (!slices.Equal(f.Sinks, []string{"token", "digest"}) || !f.Sealed) {
				t.Errorf("field %+v", f)
			}
		}
		for _, a := range h.Description().Answers {
			if a.Name == "secret_access_key" && (!slices.Equal(a.Sinks, []string{"sign"}) || !slices.Equal(a.Derived, []string{"sign", "header", "query"})) ||
				slices.Contains(a.Sinks, "token") {
				t.Errorf("answer %+v", a)
			}
		}
	})
}

// Credentials that the API refuses are dropped, if they are older than 5 minutes: the session may have been revoked. The request
// is sent again with others. An API that refuses them as well gets no third request, and STS is asked no more
// (specification.md "a session of AWS that is revoked").
func TestRevokedSessions(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden} {
		run(t, func(t *testing.T, h *hosttest.Harness) {
			h.Canary("aws")
			end := h.Now().Add(time.Hour)
			h.TokenEndpoint(stsURL, credentials(1, end, time.Time{}), credentials(2, end, time.Time{}), credentials(3, end, time.Time{}))
			failure, fine := answer(status, `{}`, time.Time{}), answer(http.StatusOK, `{}`, time.Time{})
			for _, step := range []struct {
				after               time.Duration
				answers             []hosttest.Answer
				attempts, exchanges int
				stamp               string
			}{
				{0, []hosttest.Answer{failure}, 1, 1, "20260102T030405Z"},
				{299 * time.Second, []hosttest.Answer{failure}, 1, 1, "20260102T030904Z"},
				{time.Second, []hosttest.Answer{failure, fine}, 2, 2, "20260102T030905Z"},
				{time.Minute, []hosttest.Answer{failure}, 1, 2, "20260102T031005Z"},
				{4 * time.Minute, []hosttest.Answer{failure, failure}, 2, 3, "20260102T031405Z"},
			} {
				h.Advance(step.after)
				h.API(step.answers...)
				got := h.Authenticate(config(), hosttest.GET("https://api.test/v1"))
				if n := len(h.Exchanges()); got.Attempts != step.attempts || n != step.exchanges {
					t.Errorf("%s: %d attempts, %d exchanges", step.stamp, got.Attempts, n)
				}
				checkSigned(t, got, step.exchanges, step.stamp)
			}
		})
	}
}

// The signature may be in the query, and the API's clock counts, as for the type aws_sigv4.
func TestRulesOfSignatures(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("aws")
		h.TokenEndpoint(stsURL, credentials(1, h.Now().Add(time.Hour), time.Time{}))
		h.API(answer(http.StatusForbidden, `{}`, h.Now().Add(10*time.Minute)), answer(http.StatusOK, `{}`, time.Time{}))
		got := h.Authenticate(config("in", "query"), hosttest.GET("https://api.test/v1"))
		if query := got.Query(); got.Attempts != 2 || query.Get("X-Amz-Date") != "20260102T031405Z" || query.Get("X-Amz-Security-Token") != "the/token+of-role-1==" ||
			query.Get("X-Amz-Credential") != "ASIAROLE0001/20260102/eu-central-1/execute-api/aws4_request" {
			t.Errorf("%d attempts, %v", got.Attempts, query)
		}
		h.API(answer(http.StatusForbidden, `{}`, h.Now().Add(10*time.Minute))) // the time of the signature
		plugintest.Answers(t, h, config("in", "query"), hosttest.GET("https://api.test/v1"), http.StatusForbidden, 1)
		plugintest.Exchanges(t, h, 1)
		h.API(answer(http.StatusForbidden, `{}`, h.Now().Add(10*time.Minute)), answer(http.StatusOK, `{}`, time.Time{}))
		h.Authenticate(config("in", "query"), hosttest.GET("https://api.test/v1")) // so that the host knows the time again
		h.Advance(time.Hour)
		h.Authenticate(config("in", "query"), hosttest.GET("https://api.test/v1"))
		if exchanges := h.Exchanges(); len(exchanges) != 2 || exchanges[1].Header.Get("X-Amz-Date") != "20260102T041405Z" {
			t.Errorf("asked = %v", exchanges)
		}
	})
}

// An explanation shows the request to STS and what is signed, and asks nobody.
func TestExplanation(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("aws")
		e := h.Explain(config(), hosttest.GET("https://api.test/v1"))
		url := ""
		for _, step := range e.Steps {
			if step.Exchange != nil {
				url = step.Exchange.URL
			}
		}
		if url != stsURL {
			t.Errorf("steps: %+v", e.Steps)
		}
		if len(h.Exchanges()) != 0 || len(h.Warnings()) != 0 || len(e.Added.Headers) != 3 {
			t.Errorf("%d exchanges, warnings %q, headers %v", len(h.Exchanges()), h.Warnings(), e.Added.Headers)
		}
	})
}

// A configuration with a mistake is refused when it is loaded.
func TestRefusedConfigurations(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for name, value := range map[string]any{
			"role_arn": "arn:aws:iam::123456789012:user/reports", "duration_seconds": 899, "sts_url": "http://sts.amazonaws.com", "region": "a/b", "sts_region": "a b", "expires_seconds": 604801,
		} {
			plugintest.Problems(t, h, config(name, value), name)
		}
		for _, name := range []string{"access_key_id", "secret_access_key", "role_arn", "sts_url", "region", "service"} {
			c := config()
			delete(c, name)
			plugintest.Problems(t, h, c, name)
		}
		for seconds, wrong := range map[any]int{43200: 0, 43201: 1, "100000": 1, "{{ user.id }}": 0} {
			if problems := h.Problems(config("duration_seconds", seconds)); len(problems) != wrong {
				t.Errorf("duration_seconds %v: %v", seconds, problems)
			}
		}
		for _, name := range []string{"role/reports", "x:iam::123456789012:role/reports"} {
			if problems := h.Problems(config("role_arn", name)); len(problems) != 1 {
				t.Errorf("%s: problems = %v", name, problems)
			}
		}
	})
}

// AWS documents its answer with a token that is broken into lines (docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html).
// MinIO writes another order, and no namespace for the prefix.
func TestAnswersOfSTSInXML(t *testing.T) {
	for name, body := range map[string]string{
		"as AWS documents it": `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <AssumeRoleResult>
    <AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/reports/x</Arn><AssumedRoleId>ARO123EXAMPLE123:x</AssumedRoleId></AssumedRoleUser>
    <Credentials>
      <AccessKeyId>ASIAROLE0001</AccessKeyId>
      <SecretAccessKey>the/secret+of-role-1</SecretAccessKey>
      <SessionToken>
       the/token+
       of-role-1==
      </SessionToken>
      <Expiration>2026-01-02T04:04:05Z</Expiration>
    </Credentials>
    <PackedPolicySize>6</PackedPolicySize>
  </AssumeRoleResult>
  <ResponseMetadata><RequestId>c6104cbe-af31-11e0-8154-cbc7ccf896c7</RequestId></ResponseMetadata>
</AssumeRoleResponse>`,
		"in another order": `<?xml version="1.0" encoding="UTF-8"?>
<x:AssumeRoleResponse><x:ResponseMetadata/><x:AssumeRoleResult><x:Credentials><x:SessionToken>the/token+of-role-1==</x:SessionToken><x:Expiration>` +
			`2026-01-02T04:04:05.123Z</x:Expiration><x:SecretAccessKey>the/secret+of-role-1</x:SecretAccessKey><x:AccessKeyId>ASIAROLE0001</x:AccessKeyId>` +
			`</x:Credentials></x:AssumeRoleResult></x:AssumeRoleResponse>`,
	} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			h.Canary("aws")
			h.TokenEndpoint(stsURL, answer(http.StatusOK, body, time.Time{}))
			checkSigned(t, h.Authenticate(config(), hosttest.GET("https://api.test/v1")), 1, "20260102T030405Z")
			h.Advance(time.Hour - 61*time.Second)
			h.Authenticate(config(), hosttest.GET("https://api.test/v1"))
			plugintest.Exchanges(t, h, 1)
		})
	}
}
