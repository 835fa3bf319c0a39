package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/record"
)

// tracing traces a request, to show it, to record it, or both.
type tracing struct {
	show bool
	file string
	// statuses asks for the status of each exchange alone.
	statuses bool
	// descriptions asks for the error_description of refusals.
	descriptions bool
}

// send sends a request. Then it shows and records what the flags want, whether or not the request has failed.
func (a *app) send(t tracing, set *connectors.Set, connector *gateway.Connector, request *http.Request) (*http.Response, error) {
	roundTrip := func(ctx context.Context) (*http.Response, error) {
		response, err := connector.Upstream().Transport(nil).RoundTrip(request.WithContext(ctx))
		if err != nil {
			return nil, requestError(connector, request, err)
		}
		return response, nil
	}
	if !t.show && !t.statuses && t.file == "" {
		return roundTrip(request.Context())
	}
	if _, err := os.Lstat(t.file); t.file != "" && err == nil {
		return nil, fmt.Errorf("--record: %s exists already: name a file that does not", t.file)
	}
	trace, began := &host.Trace{Descriptions: t.descriptions}, time.Now()
	response, err := roundTrip(host.WithTrace(request.Context(), trace))
	if t.show {
		a.showTrace(trace)
	}
	for _, e := range trace.Exchanges() {
		if t.statuses {
			a.printErr("%s", a.err.Dim(statusOf(e)))
		}
	}
	if t.file == "" {
		return response, err
	}
	sent := record.Sent{Host: set.Host, Connector: connector.Upstream(), Request: request, Began: began, Trace: trace, Err: err}
	if response != nil {
		sent.Status = response.StatusCode
	}
	if failed := a.record(t.file, set, sent); failed != nil {
		if response != nil {
			_ = response.Body.Close()
		}
		return nil, errors.Join(err, fmt.Errorf("--record: %w", failed))
	}
	return response, err
}

// descriptionUsage is the usage of --error-description.
const descriptionUsage = "show what token endpoints say about a refusal (error_description), which is not masked"

// descriptionMasked is the line after an answer whose error_description is masked.
const descriptionMasked = "  error_description is masked: --error-description shows what the endpoint says"

// masksDescription reports whether the body of an answer has an error_description that is not shown beside it.
func masksDescription(e host.Exchange) bool {
	return e.Answer != nil && e.Answer.Description == "" && strings.Contains(e.Answer.Body, "error_description")
}

// statusOf returns a line about an exchange.
func statusOf(e host.Exchange) string {
	if e.Answer.Status == 0 {
		return host.Printable("the token endpoint " + e.URL + " did not answer")
	}
	return host.Printable(fmt.Sprintf("the token endpoint %s answered %d %s", e.URL, e.Answer.Status, http.StatusText(e.Answer.Status)))
}

// showTrace writes a trace to stderr.
func (a *app) showTrace(trace *host.Trace) {
	s := a.err.Style
	var b strings.Builder
	writeIndented(&b, s, trace.String())
	if !trace.Descriptions && slices.ContainsFunc(trace.Exchanges(), masksDescription) {
		b.WriteString(descriptionMasked + "\n")
	}
	if b.Len() == 0 {
		b.WriteString(s.Dim("nothing was sent") + "\n")
	}
	a.printErr("%s", strings.TrimSuffix(b.String(), "\n"))
}

// record writes the case of a request into a new file, and says what it has and what to look at.
func (a *app) record(file string, set *connectors.Set, sent record.Sent) error {
	name := usedModule(set, &sent)
	recording, err := record.Of(sent)
	if err != nil {
		return err
	}
	text, err := recording.YAML(name)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists already: name a file that does not", file)
	} else if err != nil {
		return err
	}
	_, err = out.Write(text)
	if err = errors.Join(err, out.Close()); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	lines := []string{fmt.Sprintf("keywright: recorded in %s. It has made-up texts in place of:", file)}
	for _, what := range recording.Replaced {
		lines = append(lines, "  "+host.Printable(what))
	}
	lines = append(lines, "Before you send it to somebody, read it. Look at:")
	for _, what := range append(recording.Check, "the names of secrets, variables, fields and members, which are as they were") {
		lines = append(lines, "  "+host.Printable(what))
	}
	if len(recording.Differs) > 0 {
		lines = append(lines, "It does not do the same as the request when it is replayed:")
		for _, what := range recording.Differs {
			lines = append(lines, "  "+host.Printable(what))
		}
	}
	a.printErr("%s", strings.Join(lines, "\n"))
	return nil
}

// usedModule sets the module of a request's plugin, and returns the name of the plugin on the command line.
func usedModule(set *connectors.Set, sent *record.Sent) string {
	authType := sent.Connector.Config().Auth.Type
	for _, info := range set.Host.Plugins() {
		switch {
		case info.Type != authType:
			continue
		case info.BuiltIn:
			sent.Module = plugins.Of(authType)
			return authType
		}
		for _, file := range set.Files {
			wasm, err := os.ReadFile(file)
			if sum := sha256.Sum256(wasm); err == nil && hex.EncodeToString(sum[:]) == info.SHA256 {
				sent.Module = wasm
			}
		}
	}
	return "PLUGIN"
}
