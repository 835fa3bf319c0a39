package send

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"

	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/run"
	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/files"
)

// exchanged is a request that was sent, and its answer.
type exchanged struct {
	response *http.Response
	out      *run.Outcome
	guard    *guard
	// rejection is why the answer is not passed on, or nil. Its status and headers count all the same.
	rejection error
}

// result returns what the caller of the request gets.
func (e *exchanged) result(t *Transport) (*http.Response, error) {
	if e.rejection != nil {
		_ = e.response.Body.Close()
		return nil, t.Fail(stageResponse, e.rejection)
	}
	return e.guard.response(e.response)
}

// repeated is the first attempt of a request, and what the plugin may get of its answer. It is nil if that is nothing.
type repeated struct {
	first  exchanged
	answer *hostfn.APIAnswer
}

// discard closes the first answer. Reading the rest of a short one lets its connection serve the second attempt.
func (b *repeated) discard() {
	_, _ = io.CopyN(io.Discard, b.first.response.Body, 4<<10)
	_ = b.first.response.Body.Close()
}

// credentials returns the credentials of the first attempt. The API has them, too, and may repeat them in its second answer.
func (b *repeated) credentials() []string {
	if b == nil {
		return nil
	}
	return b.first.out.Call.Credentials(b.first.out.Mutation)
}

// checkRetry reports whether a request is to be sent once more because of the API's answer. If the plugin has a challenge, it
// also learns from the answer, and checkRetry returns what the next call gets of it. If the request cannot be sent once more,
// there is no such call, and the rule for plugins without a challenge applies: a 401 drops the entries that went in.
//
// earlier are the texts of an earlier attempt. Nothing is learnt from an answer that repeats a text of the request where the plugin
// would see it, and there is no other call.
func (t *Transport) checkRetry(attempt exchanged, earlier []string, canRetry func() bool) (answer *hostfn.APIAnswer, retry bool) {
	response, repeated := attempt.response, ""
	if challenge := t.Challenge; challenge != nil {
		t.Plan.Offset.Learn(response.StatusCode, response.Header, t.Plan.Clock())
		declared := slices.Contains(challenge.Statuses, response.StatusCode)
		if declared || challenge.Keep > 0 {
			answer, repeated = attempt.out.Call.Learn(response, t.beginning(response, declared), declared, attempt.out.Mutation, earlier)
		}
		if repeated != "" {
			t.Warn(context.Background(), "", "the API's answer repeats a text of its request in "+repeated+", where the plugin would see it: nothing is taken from the answer")
			return nil, false
		}
		if declared && canRetry() {
			return answer, true
		}
	}
	if response.StatusCode != http.StatusUnauthorized {
		return nil, false
	}
	for _, entry := range attempt.out.Entries {
		retry = t.Tokens.Reject(entry.Key, entry.Generation) || retry
	}
	return nil, retry && canRetry()
}

// maxRead is the maximum length of a body that is read for the challenge, in bytes.
const maxRead = 64 << 10

// beginning returns the body of an answer, without its codings, if a part of the challenge is in it and it is not longer than maxRead,
// and otherwise nil. The caller of the API gets the whole body in any case.
func (t *Transport) beginning(response *http.Response, declared bool) []byte {
	if !declared || response.Body == nil || !slices.ContainsFunc(t.Plan.ChallengeAnswers, func(a answer.Part) bool { return a.Source.InBody() }) {
		return nil
	}
	read, err := files.ReadAll(response.Body, maxRead)
	rest := io.Reader(response.Body)
	if err != nil {
		rest = failing{err}
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(read), rest), response.Body}
	if err != nil || len(read) > maxRead {
		return nil
	}
	clone := *response
	clone.Body = io.NopCloser(bytes.NewReader(read))
	if read, err = answers.Read(&clone, t.Plan.Codings, maxRead); err != nil || len(read) > maxRead {
		return nil
	}
	return read
}

// failing is a reader that returns an error.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
