// Package send sends the requests of a connector: it authenticates each one, presents the client certificate, sends it once more if the
// API's answer is a reason, and keeps the credential out of what the caller receives.
package send

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/connect"
	"github.com/keywright/keywright/host/internal/egress"
	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/request"
	"github.com/keywright/keywright/host/internal/run"
	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/files"
)

// Transport sends the requests of one connector.
type Transport struct {
	// Runners authenticate the requests, one after the other. Runner is one of them. All have the same origins, codings and clock, and TLS
	// has its plan.
	*run.Runner
	Runners []*run.Runner
	// Fail returns the error of a stage that is no concern of one of them.
	Fail func(stage string, err error) error
	// CrossOriginRedirects and UserAgent are those of the configurations of the connector and the host.
	CrossOriginRedirects bool
	UserAgent            string
	// BodyBytes limits the size of a body that is kept.
	BodyBytes int64
	// TLS is nil if the connector has no TLS of its own.
	TLS *TLS
	// API sends requests without the certificate of the connector.
	API http.RoundTripper
	// Warn logs a warning.
	Warn func(ctx context.Context, path, text string)
}

// stageResponse is the stage of an answer that is not passed on.
const stageResponse = "response"

// RoundTripper returns a RoundTripper that authenticates each request and sends it through base, or through [Transport.Base] if that is
// nil. If it is guarded, the credential does not reach the caller.
func (t *Transport) RoundTripper(base http.RoundTripper, guarded bool) http.RoundTripper {
	if base == nil {
		base = t.Base()
	}
	return &roundTripper{Transport: t, base: base, guarded: guarded}
}

type roundTripper struct {
	*Transport
	base    http.RoundTripper
	guarded bool
}

// RoundTrip implements [http.RoundTripper]. Its errors are those of the host, or errors of base without the credential.
func (t *roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	if !t.Events.HasSpans() {
		return t.attempts(r)
	}
	ctx, span := t.Events.Start(r.Context(), event.Span{Name: event.Request})
	if !span.Exists() {
		return t.attempts(r)
	}
	response, err := t.attempts(r.WithContext(ctx))
	end := event.End{Err: err}
	if err == nil {
		response.Request, end.Status = r, response.StatusCode
	}
	span.End(end)
	return response, err
}

// attempts authenticates a request and sends it, and does so once more if the API's answer is a reason.
func (t *roundTripper) attempts(r *http.Request) (*http.Response, error) {
	if t.hasLeft(r) {
		return t.leave(r)
	}
	outgoing := request.NewOutgoing(t.BodyBytes)
	defer outgoing.Release()
	first, err := t.send(r, outgoing, nil)
	if err != nil {
		return nil, err
	}
	previous := t.checkRetry(first, nil, func() bool { return outgoing.CanRepeat(r) })
	if previous == nil {
		return first.result(t.Transport)
	}
	outgoing.Second = true
	second, err := t.send(r, outgoing, previous)
	if err != nil {
		return nil, err
	}
	if second != first {
		t.checkRetry(second, run.Texts(first.out.Parts()...), func() bool { return false })
	}
	return second.result(t.Transport)
}

// send authenticates a clone of the request and sends it. If previous is not nil, it is the second attempt. Then send discards
// the first answer, or returns the first attempt if the plugin passes that answer on.
func (t *roundTripper) send(r *http.Request, outgoing *request.Outgoing, previous *repeated) (exchanged, error) {
	if previous != nil && previous.answers == nil { // the answer cannot be passed on, so its connection may serve the call
		previous.discard()
	}
	authenticated, out := t.clone(r, outgoing, previous)
	switch {
	case previous != nil && out.Err == nil && out.Mutation.Pass:
		return previous.first, nil
	case previous != nil && previous.answers != nil:
		previous.discard()
	}
	if out.Err != nil {
		outgoing.Close(r)
		return exchanged{}, out.Err
	}
	if err := outgoing.Attach(authenticated); err != nil {
		return exchanged{}, t.Fail(hostfn.StageBody, err)
	}
	if t.UserAgent != "" {
		if _, set := authenticated.Header["User-Agent"]; !set {
			authenticated.Header["User-Agent"] = []string{t.UserAgent}
		}
	}
	attempt := exchanged{out: out}
	if t.guarded {
		attempt.guard = t.guard(r.Context(), out, previous.credentials())
	}
	response, err := t.roundTrip(attempt, authenticated, previous != nil) //nolint:bodyclose // exchanged.result closes what it does not return
	if err != nil {
		return exchanged{}, err
	}
	response.Request = r      // with its method, Decode knows whether there is a body
	if response.Body == nil { // not every base follows the rule that there is one
		response.Body = http.NoBody
	}
	if attempt.guard != nil {
		attempt.rejection = answers.Decode(response, t.Plan.Codings)
	}
	attempt.response, attempt.rejection = response, cmp.Or(attempt.rejection, dropCredential(response, out.Mutation))
	if attempt.rejection == nil && t.CrossOriginRedirects && response.Header["Location"] != nil {
		if g := t.guard(r.Context(), out, previous.credentials()); g != nil {
			attempt.rejection = g.checkAnswer(response)
		}
	}
	return attempt, nil
}

// roundTrip sends an authenticated request through the base, in a span, and records it in the trace of its context.
func (t *roundTripper) roundTrip(attempt exchanged, authenticated *http.Request, second bool) (*http.Response, error) {
	ctx, span := authenticated.Context(), event.OpenSpan{}
	if t.Events.HasSpans() {
		u := authenticated.URL
		ctx, span = t.Events.Start(ctx, event.Span{
			Name: event.Send, Second: second, Method: authenticated.Method, Scheme: u.Scheme, Host: cmp.Or(t.Plan.HostOf(u), u.Host),
		})
	}
	if span.Exists() {
		authenticated = authenticated.WithContext(ctx)
	}
	trace, began := event.TraceOf(ctx), time.Time{}
	if trace != nil {
		began = t.Plan.Clock()
	}
	response, err := t.base.RoundTrip(attempt.guard.request(authenticated))
	if len(authenticated.Header["Upgrade"]) == 0 {
		response, err = answers.Final(response, err)
	}
	if err != nil {
		response, err = nil, attempt.guard.error(baseFailure(t.base, err), attempt.out)
	}
	end := event.End{Err: err}
	if response != nil {
		end.Status = response.StatusCode
	}
	span.End(end)
	if trace != nil {
		t.record(trace, response, t.Plan.Clock().Sub(began), err)
	}
	return response, err
}

// baseFailure returns an error of a base with a text that may be shown. A base of somebody else keeps its errors, but for that of a
// certificate: its text has names from the certificate, and a base that wraps the host's returns it as well.
func baseFailure(base http.RoundTripper, err error) error {
	if _, plain := base.(*http.Transport); plain || errors.As(err, new(*tls.CertificateVerificationError)) {
		return egress.Failure(err)
	}
	return err
}

// record records an answer of the API in a trace, or the error in place of one.
func (t *Transport) record(trace *event.Trace, response *http.Response, took time.Duration, err error) {
	if response == nil {
		response = &http.Response{}
	}
	var body []byte
	var parts []answer.Part
	for _, rn := range t.Runners {
		parts = append(parts, rn.Plan.Challenge.Answers...)
		if body == nil && slices.Contains(rn.Plan.Challenge.Statuses, response.StatusCode) {
			body = beginning(response, rn.Plan)
		}
	}
	trace.Answer(parts, response.StatusCode, response.Header, body, took, err)
}

// AddCredential returns a clone of a request with its credential, for callers that send it themselves.
func (t *Transport) AddCredential(r *http.Request) (*http.Request, error) {
	outgoing := request.NewOutgoing(t.BodyBytes)
	defer outgoing.Release()
	authenticated, out := t.clone(r, outgoing, nil)
	if out.Err != nil {
		return nil, out.Err
	}
	if err := outgoing.Attach(authenticated); err != nil {
		return nil, t.Fail(hostfn.StageBody, err)
	}
	if outgoing.Kept() {
		authenticated.GetBody = nil // the host keeps the body only until it is closed
	}
	return request.Unshare(authenticated), nil
}

// clone checks the request, runs the plugins in order, and returns a copy of the request with their mutations. Each plugin gets the
// request as those before it have left it. The copy shares with r everything that the mutations do not change, so a base must not change
// that. previous is the first attempt, or nil. Its answer is passed on if all plugins that get it pass it, and nothing else is a reason to
// send the request again. Otherwise those that pass it run again without it.
func (t *Transport) clone(r *http.Request, outgoing *request.Outgoing, previous *repeated) (*http.Request, *run.Outcome) {
	headers, err := t.Check(r)
	if err != nil {
		return nil, &run.Outcome{Err: err}
	}
	answers, repeats := make([]*hostfn.APIAnswer, connect.MaxAuth), false
	if previous != nil {
		repeats = previous.dropped
		copy(answers, previous.answers)
	}
	outgoing.Form = ""
	var out *run.Outcome
	for i, rn := range t.Runners {
		next := rn.Authenticate(r.Context(), r, headers, &outgoing.Body, answers[i], out)
		if next.Err == nil && next.Mutation.Pass {
			if !repeats && !slices.ContainsFunc(answers[i+1:], func(a *hostfn.APIAnswer) bool { return a != nil }) {
				return nil, next
			}
			next = rn.Authenticate(r.Context(), r, headers, &outgoing.Body, nil, out)
		}
		if next.Err != nil {
			return nil, next
		}
		out, repeats = next, repeats || answers[i] != nil
		if outgoing.Form = out.Mutation.Form; outgoing.Form != "" && !outgoing.Kept() {
			if err := outgoing.Keep(r.Context(), r); err != nil {
				return nil, &run.Outcome{Err: t.Fail(hostfn.StageBody, out.ScrubError(err))}
			}
		}
		r = outgoing.Apply(r, headers, out.Parts()[i].Mutation)
	}
	if r, err = t.identified(r, out); err == nil && outgoing.Turns != nil && outgoing.Late() {
		err = t.Fail(hostfn.StageSign, hostfn.Passing(errLate))
	}
	if err != nil {
		return nil, &run.Outcome{Err: err}
	}
	return r, out
}

// errLate says that another node may send a higher number before this one arrives.
var errLate = errors.New("the request's turn was nearly over before it could be sent: try again")

// Check returns an error if a request is not for this connector, or if it could be mistaken for another one. It returns
// a copy of the request's headers, to which headers can be added.
func (t *Transport) Check(r *http.Request) (h request.Headers, err error) {
	if err = t.Plan.Origins.Check(r); err == nil {
		h, err = request.HeadersOf(r)
	}
	if err != nil {
		return h, t.Fail(hostfn.StageOrigin, err)
	}
	return h, nil
}

// exchanged is a request that was sent, and its answer.
type exchanged struct {
	response *http.Response
	out      *run.Outcome
	guard    *guard
	// rejection is the error for which the answer is not passed on, or nil. Its status and headers count all the same.
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

// repeated is the first attempt of a request, and what each plugin may get of its answer. answers is nil if that is nothing. dropped is set
// if an entry that went in was dropped, so that the request is sent again whatever the plugins do with the answer.
type repeated struct {
	first   exchanged
	answers []*hostfn.APIAnswer
	dropped bool
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
	return run.Credentials(b.first.out.Parts()...)
}

// checkRetry returns the attempt if the request is to be sent once more because of the API's answer, and otherwise nil. A plugin with a
// challenge also learns from the answer. If the request cannot be sent once more, no call gets what it learns, and the rule for plugins
// without a challenge applies: a 401 drops the entries that went in. Of a list of plugins, all count as having read the request if one
// has: it could provoke the 401 to have the token of another one dropped (threats.md 102).
//
// earlier are the texts of an earlier attempt. Nothing is learnt from an answer that repeats a text of the request where a plugin
// would see it, and there is no other call. If it does where a later call would, nothing is kept.
func (t *Transport) checkRetry(attempt exchanged, earlier []string, canRetry func() bool) *repeated {
	var answers []*hostfn.APIAnswer
	response, parts, dropped := attempt.response, attempt.out.Parts(), false
	read := len(parts) > 1 && slices.ContainsFunc(parts, func(part *run.Outcome) bool { return part.Call.RequestRead })
	for i, part := range parts {
		plan := t.Runners[i].Plan
		if !plan.Challenge.Applies {
			continue
		}
		plan.ServerOffset(part.Call.Inputs().TenantID).Learn(response.StatusCode, response.Header, plan.Clock())
		declared := slices.Contains(plan.Challenge.Statuses, response.StatusCode)
		if !declared && plan.Challenge.Keep == 0 {
			continue
		}
		texts := slices.Concat(earlier, run.Texts(parts[:i]...), run.Texts(parts[i+1:]...))
		var body []byte
		if declared {
			body = beginning(response, plan)
		}
		answer, repeated := part.Call.Learn(response, body, declared, part.Mutation, texts)
		if repeated != "" {
			t.Warn(context.Background(), "", "the API's answer repeats a text of its request in "+repeated+", where the plugin would see it: the answer counts for this request at most")
		}
		if answer == nil {
			return nil
		}
		if declared && canRetry() {
			if answers == nil {
				answers = make([]*hostfn.APIAnswer, len(parts))
			}
			answer.RequestRead = answer.RequestRead || read
			answers[i] = answer
		}
	}
	for i, part := range parts {
		if response.StatusCode != http.StatusUnauthorized || answers != nil && answers[i] != nil {
			continue
		}
		entries := part.Entries
		if read {
			entries = part.Call.UsedOrigins(true)
		}
		for _, entry := range entries {
			dropped = t.Tokens.Reject(entry.Key, entry.Generation) || dropped
		}
	}
	if dropped = dropped && canRetry(); answers == nil && !dropped {
		return nil
	}
	return &repeated{attempt, answers, dropped}
}

const maxRead = 64 << 10 // bytes of a body that is read for the challenge

// beginning returns the body of an answer, without its codings, if a part of the challenge is in it and it is not longer than maxRead,
// and otherwise nil. The caller of the API gets the whole body in any case.
func beginning(response *http.Response, plan *connect.Plan) []byte {
	if response.Body == nil || !slices.ContainsFunc(plan.Challenge.Answers, func(a answer.Part) bool { return a.Source.InBody() }) {
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
	if read, err = answers.Read(&clone, plan.Codings, maxRead); err != nil || len(read) > maxRead {
		return nil
	}
	return read
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
