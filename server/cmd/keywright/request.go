package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/plugins"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/remedy"
	"github.com/keywright/keywright/server/internal/registry/record"
	"github.com/keywright/keywright/server/internal/trial"
)

type requestFlags struct {
	configFlags
	headers                            []string
	method, data, user, userID, tenant string
}

func (f *requestFlags) add(c *cobra.Command) {
	f.configFlags.add(c, "connectors.yaml")
	f.addRequest(c)
}

// addRequest adds the flags that describe the request alone.
func (f *requestFlags) addRequest(c *cobra.Command) {
	c.Flags().StringVarP(&f.method, "method", "X", "", "the request's `METHOD` (default the connector's first method, which is GET unless it lists others; with -d POST, if the connector allows GET)")
	c.Flags().StringArrayVarP(&f.headers, "header", "H", nil, "a header, `'K: V'`; may be repeated")
	c.Flags().StringVarP(&f.data, "data", "d", "", "the `BODY`, or @FILE with it, or @- for stdin")
	c.Flags().StringVar(&f.user, "user", "", "`EMAIL` of the user for whom the request is made: user.email in templates")
	c.Flags().StringVar(&f.userID, "user-id", "", "`ID` of the user: user.id in templates")
	c.Flags().StringVar(&f.tenant, "tenant", "", "`ID` of the tenant: tenant_id in templates")
}

func requestCommand(a *app) *cobra.Command {
	var flags requestFlags
	var include bool
	var t traceFlags
	c := command("request", connectorAndPath, func(c *cobra.Command, args []string) error {
		set, connector, request, err := a.prepare(c, &flags, false, args)
		if err != nil {
			return err
		}
		if t.descriptions && !t.show {
			return misuse(c, "--error-description needs --trace")
		}
		response, err := a.send(t, set, connector, request)
		if err != nil {
			return a.withRemedy(err)
		}
		defer response.Body.Close()
		if text := trial.Remedy(response, time.Now()); text != "" {
			a.printErr("%s", text)
		}
		if t.verbose || !include && a.err.Columns() > 0 {
			a.printErr("%s", a.err.Dim("the API answered "+statusText(response.StatusCode)))
		}
		return a.writeResponse(response, include)
	})
	flags.add(c)
	c.Flags().BoolVarP(&include, "include", "i", false, "write status and headers first")
	c.Flags().BoolVarP(&t.verbose, "verbose", "v", false, "show on stderr the status of the answer, and those of token endpoints; on a terminal, the first shows without")
	c.Flags().BoolVar(&t.show, "trace", false, "show on stderr the requests to token endpoints and the answers, masked")
	c.Flags().BoolVar(&t.descriptions, "error-description", false, "with --trace, "+descriptionUsage)
	c.Flags().StringVar(&t.file, "record", "", "write the request and the answers, masked, into a new `FILE` of cases")
	return c
}

// withRemedy adds to the error of a request a line that says what to do, if that is known.
func (a *app) withRemedy(err error) error {
	plugin, _ := a.failure.Load().(host.PluginFailure)
	if text := remedy.Of(remedy.Fault{Err: err, Plugin: plugin}); text != "" && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("%w\n%s", err, text)
	}
	return err
}

// prepare loads the configuration, and returns it with the connector and the request, which has no secrets if masked is true.
func (a *app) prepare(
	c *cobra.Command, f *requestFlags, masked bool, args []string,
) (set *connectors.Set, connector *gateway.Connector, request *http.Request, err error) {
	if _, err := parseHeaders(c, f.headers); err != nil { // before the configuration is read
		return nil, nil, nil, err
	}
	open := a.useStore
	if masked {
		open = nil
	}
	if set, err = a.load(c, &f.configFlags, open); err != nil {
		return nil, nil, nil, err
	}
	connector, request, err = a.outgoing(c, f, set, masked, args)
	return set, connector, request, err
}

// outgoing returns the connector and the request of the command line.
func (a *app) outgoing(c *cobra.Command, f *requestFlags, set *connectors.Set, masked bool, args []string) (*gateway.Connector, *http.Request, error) {
	header, err := parseHeaders(c, f.headers)
	if err != nil {
		return nil, nil, err
	}
	body, err := a.body(c, f.data)
	if err != nil {
		return nil, nil, err
	}
	connector, err := set.Find(args[0])
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", f.file, err)
	}
	if d := connector.Definition(); len(args) == 1 {
		return nil, nil, misuse(c, "without PATH: it is the path behind %s, such as %s", d.URL, trial.ExamplePath(d.Paths))
	}
	ctx := c.Context()
	if c.Flags().Changed("user") || c.Flags().Changed("user-id") || c.Flags().Changed("tenant") {
		user := host.User{ID: f.userID, Email: f.user, TenantID: f.tenant}
		if masked { // nothing is sent
			user.Token = "token"
		}
		ctx = host.WithUser(ctx, user)
	}
	method := f.method
	if methods := connector.Definition().Methods; method == "" && body != nil && !slices.Contains(methods, http.MethodGet) {
		method = methods[0]
	} else if method == "" && body != nil {
		method = http.MethodPost
	}
	path, query, _ := strings.Cut(args[1], "?")
	out, err := trial.NewOutgoing(ctx, connector, trial.Incoming{Method: method, Path: path, Query: query, Header: header, Trusted: true, Masked: masked})
	if errors.As(err, new(*trial.Refusal)) {
		return nil, nil, misuse(c, "%v", err)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("connector %q: %w", connector.Definition().Permalink, err)
	}
	request, err := out.Request(ctx, body)
	if err != nil {
		return nil, nil, misuse(c, "-X %q is not a method", method)
	}
	return connector, request, nil
}

// parseHeaders parses the values of -H.
func parseHeaders(c *cobra.Command, lines []string) (http.Header, error) {
	header := http.Header{}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		switch problem := contract.CheckHeaderName(name); {
		case !ok:
			return nil, misuse(c, "-H wants 'Name: value', not %q", line)
		case problem != "":
			return nil, misuse(c, "-H: %q %s", name, problem)
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			return nil, misuse(c, "-H: the value of %s has a control character", name)
		}
		header.Add(name, value)
	}
	return header, nil
}

// body returns the body for -d, or nil without -d. The type of the reader lets net/http send the request again.
func (a *app) body(c *cobra.Command, data string) (io.Reader, error) {
	if !c.Flags().Changed("data") {
		return nil, nil
	}
	name, isFile := strings.CutPrefix(data, "@")
	switch {
	case !isFile:
		return strings.NewReader(data), nil
	case name == "-" && a.stdin != nil:
		return nil, misuse(c, "stdin has the configuration (-c -), and cannot have the body, too: give -d a file")
	case name == "-":
		content, err := io.ReadAll(a.in)
		if err != nil {
			return nil, fmt.Errorf("stdin cannot be read: %w", err)
		}
		return bytes.NewReader(content), nil
	}
	content, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("-d @%s: there is no such file", name)
	}
	return bytes.NewReader(content), err
}

// writeResponse streams the body to stdout, after the status and headers if include is true.
func (a *app) writeResponse(response *http.Response, include bool) error {
	var head strings.Builder
	if include {
		fmt.Fprintf(&head, "%s %s\n", response.Proto, response.Status)
		for _, name := range slices.Sorted(maps.Keys(response.Header)) {
			for _, value := range response.Header[name] {
				fmt.Fprintf(&head, "%s: %s\n", name, value)
			}
		}
		head.WriteByte('\n')
	}
	n := int64(0)
	_, err := io.WriteString(a.out, head.String())
	if err == nil {
		n, err = io.Copy(a.out, response.Body)
	}
	switch {
	case errors.As(err, new(*fs.PathError)): // which the file of stdout returns, and no response
		return fmt.Errorf("the response cannot be written: %w", err)
	case err != nil:
		return fmt.Errorf("the response broke off after %d bytes: %w", n, err)
	}
	return nil
}

// statusText returns a status with its words, if it has any.
func statusText(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
}

// traceFlags has the flags for the trace and the record of a request.
type traceFlags struct {
	show bool
	file string
	// verbose asks for the status of each exchange alone.
	verbose bool
	// descriptions asks for the error_description of refusals.
	descriptions bool
}

// send sends a request. Then it shows and records what the flags want, whether or not the request has failed.
func (a *app) send(t traceFlags, set *connectors.Set, connector *gateway.Connector, request *http.Request) (*http.Response, error) {
	if _, err := os.Lstat(t.file); t.file != "" && err == nil {
		return nil, fmt.Errorf("--record: %s exists already: name a file that does not", t.file)
	}
	trace, began := &host.Trace{Descriptions: t.descriptions}, time.Now()
	response, err := connector.Upstream().Transport(nil).RoundTrip(request.WithContext(host.WithTrace(request.Context(), trace)))
	if d := connector.Definition(); err != nil && !errors.As(err, new(*host.Error)) && !errors.Is(err, context.Canceled) { // the host names both
		err = fmt.Errorf("connector %q (%s): the request to %s://%s failed: %w", d.Permalink, d.Auth.Type(), request.URL.Scheme, request.URL.Host, err)
	}
	if t.show {
		a.showTrace(trace)
	}
	for _, e := range trace.Exchanges() {
		if t.verbose && !t.show {
			answered := "did not answer"
			if e.Answer.Status != 0 {
				answered = "answered " + statusText(e.Answer.Status)
			}
			a.printErr("%s", a.err.Dim(host.Printable("the token endpoint "+e.URL+" "+answered)))
		}
	}
	if t.file == "" {
		return response, err
	}
	entry := record.Sent{Host: set.Host, Connector: connector.Upstream(), Request: request, Began: began, Trace: trace, Err: err}
	if response != nil {
		entry.Status = response.StatusCode
	}
	if failed := a.record(t.file, set, entry); failed != nil {
		if response != nil {
			_ = response.Body.Close()
		}
		return nil, errors.Join(err, fmt.Errorf("--record: %w", failed))
	}
	return response, err
}

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
func (a *app) record(file string, set *connectors.Set, entry record.Sent) error {
	name := usedModule(set, &entry)
	recording, err := record.Of(entry)
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
	var lines []string
	list := func(heading string, items []string) {
		lines = append(lines, heading)
		for _, item := range items {
			lines = append(lines, "  "+host.Printable(item))
		}
	}
	list("keywright: recorded in "+file+". It has made-up texts in place of:", recording.Replaced)
	list("Before you send it to somebody, read it. Look at:",
		append(recording.Check, "the names of secrets, variables, fields and members, which are as they were"))
	if len(recording.Differs) > 0 {
		list("It does not do the same as the request when it is replayed:", recording.Differs)
	}
	a.printErr("%s", strings.Join(lines, "\n"))
	return nil
}

// usedModule sets the module of a request's plugin, and returns the name of the plugin on the command line.
func usedModule(set *connectors.Set, entry *record.Sent) string {
	authType := entry.AuthType()
	info, _ := set.Host.Plugin(authType)
	if info.BuiltIn {
		entry.Module = plugins.Of(authType)
		return authType
	}
	for _, file := range set.Files {
		wasm, err := os.ReadFile(file)
		if sum := sha256.Sum256(wasm); err == nil && hex.EncodeToString(sum[:]) == info.SHA256 {
			entry.Module = wasm
		}
	}
	return "PLUGIN"
}
