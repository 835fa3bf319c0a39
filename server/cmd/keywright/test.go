package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/server/internal/terminal"
	"github.com/keywright/keywright/server/internal/trial"
)

// operatorsToken is the environment variable with the token of the operators' listener.
const operatorsToken = "KEYWRIGHT_ADMIN_TOKEN"

type testFlags struct {
	requestFlags
	adminFlags
	clientAuth                         string
	include, description, askAnew, yes bool
}

func testCommand(a *app) *cobra.Command {
	var flags testFlags
	c := a.jsonCommand("test", connectorAndPath, func(c *cobra.Command, args []string) (document, error) {
		if c.Flags().Changed("config") {
			return nil, misuse(c, "test asks the gateway that runs; it takes --admin URL, not -c")
		}
		if err := a.allowClientAuths(c, &flags); err != nil {
			return nil, err
		}
		try, err := a.try(c, &flags, args)
		if err != nil {
			return nil, err
		}
		result := &trial.Result{}
		flags.about = fmt.Sprintf("connector %q: ", args[0])
		if err := a.call(c, &flags.adminFlags, http.MethodPost, []string{"connectors", args[0], "test"}, nil, try, result); err != nil {
			return nil, err
		}
		return testDocument{result, &flags}, reportUnless(result.Problem == "" && result.Cut == "")
	})
	flags.adminFlags.add(c)
	flags.addRequest(c)
	c.Flags().BoolVarP(&flags.include, "include", "i", false, "write status and headers first")
	c.Flags().BoolVar(&flags.description, "error-description", false, descriptionUsage)
	c.Flags().BoolVar(&flags.askAnew, "ask-anew", false, "ask the token endpoint although it has refused the same request before: it may count a failed login")
	c.Flags().StringVar(&flags.clientAuth, "client-auth", "", "`both`: if the token endpoint refuses the client, try each other client_auth, too, after a question: each may count a failed login")
	c.Flags().BoolVar(&flags.yes, "yes", false, "with --client-auth both, do not ask")
	c.Flags().StringP("config", "c", "", "") // other commands have it
	c.Flags().Lookup("config").Hidden = true
	return c
}

// allowClientAuths asks whether other ways of client_auth may be tried, if the command line says so.
func (a *app) allowClientAuths(c *cobra.Command, f *testFlags) error {
	switch {
	case f.clientAuth == "" && f.yes:
		return misuse(c, "--yes goes with --client-auth both")
	case f.clientAuth == "" || f.clientAuth == "both" && f.yes:
		return nil
	case f.clientAuth != "both":
		return misuse(c, "--client-auth is both, not %q", f.clientAuth)
	}
	a.err.Printf("Each client_auth that the token endpoint refuses may count as a failed login, and some lock a client after a few. Try? [y/N] ")
	answer, _ := bufio.NewReader(a.in).ReadString('\n') // without one, it is no
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing was tried: answer y, or give --yes")
	}
	return nil
}

// try returns the test of the command line.
func (a *app) try(c *cobra.Command, f *testFlags, args []string) (trial.Try, error) {
	header, err := parseHeaders(c, f.headers)
	if err != nil {
		return trial.Try{}, err
	}
	body, err := a.body(c, f.data)
	if err != nil {
		return trial.Try{}, err
	}
	t := trial.Try{
		Method: f.method, Headers: map[string]string{}, ErrorDescription: f.description, AskAnew: f.askAnew, ClientAuths: f.clientAuth != "",
		User: trial.User{ID: f.userID, Email: f.user, TenantID: f.tenant},
	}
	for name, values := range header {
		t.Headers[name] = strings.Join(values, ", ")
	}
	if len(args) > 1 {
		t.Path = args[1]
	}
	if body != nil {
		t.Method = cmp.Or(t.Method, http.MethodPost)
		if t.BodyBytes, err = io.ReadAll(body); err != nil {
			return trial.Try{}, err
		}
	}
	return t, nil
}

// transportOf returns a transport that trusts the authorities of the system and those in a file, unless its name is "".
func transportOf(caFile string) (http.RoundTripper, error) {
	if caFile == "" {
		return http.DefaultTransport, nil
	}
	text, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("--ca-file: %w", err)
	}
	authorities, err := x509.SystemCertPool()
	if err != nil { // a machine without authorities
		authorities = x509.NewCertPool()
	}
	if !authorities.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--ca-file: %s has no certificate in PEM", caFile)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}
	return transport, nil
}

func unreachable(base *url.URL, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return fmt.Errorf("the certificate of %s is refused: %w; if its authority is your own, name its certificate with --ca-file", base.Redacted(), err)
	}
	return fmt.Errorf("no gateway answers at %s: %w; start `keywright serve`, or name the address of its --admin with --admin", base.Redacted(), err)
}

// refusal returns the error for a request that the gateway refused. what is before the gateway's own words.
func refusal(what string, status int, answer []byte) error {
	const maxRefusal = 200 // the maximum number of bytes that are shown of a refusal without a problem document
	var problem struct{ Detail string }
	if json.Unmarshal(answer, &problem) == nil && problem.Detail != "" {
		return fmt.Errorf("%s%s", what, host.Printable(problem.Detail))
	}
	switch message := host.Printable(strings.TrimSpace(string(answer[:min(len(answer), maxRefusal)]))); status {
	case http.StatusUnauthorized:
		return fmt.Errorf("the gateway wants operators to log in: give the token of its --admin-token-file, or a session token with its --admin-claim, with --token-file or in %s", operatorsToken)
	case http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return fmt.Errorf("the gateway answered %d: %s", status, message)
	}
	return fmt.Errorf("the gateway answered %d: is --admin the address for operators?", status)
}

type testDocument struct {
	*trial.Result
	flags *testFlags
}

// print writes what happened to stderr, and the answer to stdout.
func (r testDocument) print(a *app) {
	s := a.err.Style
	var b strings.Builder
	writeStages(&b, s, r.Result)
	if r.Request != nil {
		heading := "the request to the API"
		if len(r.Answers) == 0 {
			heading = "the request to the API, which was not sent"
		}
		b.WriteString(s.Dim(heading) + "\n")
		for line := range strings.Lines(testRequestText(r.Request)) {
			b.WriteString("  " + host.Printable(strings.TrimSuffix(line, "\n")) + "\n")
		}
	}
	for _, e := range r.Exchanges {
		writeIndented(&b, s, e.String())
		if !r.flags.description && masksDescription(e) {
			b.WriteString(descriptionMasked + "\n")
		}
	}
	for _, answer := range r.Answers {
		writeIndented(&b, s, "the API: "+answer.String())
	}
	if r.Problem != "" {
		fmt.Fprintf(&b, "%s %s\n", s.Red(host.Printable(r.Problem)+":"), host.Printable(r.Cause))
	}
	if r.Refusal != nil {
		anew := "--ask-anew asks it now"
		if r.Refusal.JustAsked() {
			anew = "--ask-anew asks it at most once a second: try again in 1 s"
		}
		fmt.Fprintf(&b, "%s; %s\n", r.Refusal, anew)
	}
	writeClientAuths(&b, s, r)
	for _, note := range []string{r.NoRecords, r.Cut} {
		if note != "" {
			b.WriteString(host.Printable(note) + "\n")
		}
	}
	b.WriteString(s.Dim(fmt.Sprintf("a caller gets %s; request %s", statusText(r.Status), host.Printable(r.RequestID))) + "\n")
	a.err.Printf("%s", b.String())
	header := http.Header{}
	for _, pair := range r.Headers {
		header.Add(pair.Name, pair.Value)
	}
	a.out.Fail(a.writeResponse(&http.Response{
		Proto: "HTTP/1.1", Status: statusText(r.Status), Header: header, Body: io.NopCloser(bytes.NewReader(r.Body)),
	}, r.flags.include))
}

// writeStages writes the stages of a request. The remedy is after the stage that failed, or at the end if the API refused the request.
func writeStages(b *strings.Builder, s terminal.Style, r *trial.Result) {
	remedy := ""
	if r.Remedy != "" {
		remedy = s.Bold(host.Printable(r.Remedy)) + "\n"
	}
	for _, stage := range r.Stages {
		line := fmt.Sprintf("%s %9.1f ms", s.Bold(fmt.Sprintf("%-14s", stage.Name)), stage.Milliseconds)
		if !stage.Failed {
			b.WriteString(line + "\n")
			continue
		}
		b.WriteString(line + "  " + s.Red("failed") + "\n" + remedy)
		remedy = ""
	}
	b.WriteString(remedy)
}

// writeClientAuths says what came of each client_auth, and which line to write.
func writeClientAuths(b *strings.Builder, s terminal.Style, r testDocument) {
	if r.flags.clientAuth != "" && len(r.ClientAuths) == 0 {
		b.WriteString("The auth type of the connector has no client_auth.\n")
	}
	for i, way := range r.ClientAuths {
		text := s.Green("not refused")
		switch {
		case way.Wrong:
			text = s.Red("refused") + host.Printable(fmt.Sprintf(", with %d %s", way.Status, way.Code))
		case i > 0:
			text += ": write this line into auth.config of the connector"
		}
		fmt.Fprintf(b, "client_auth: %s  %s\n", host.Printable(way.Value), strings.TrimSpace(text))
	}
	if n := len(r.ClientAuths); n > 1 && r.ClientAuths[n-1].Wrong {
		b.WriteString("No client_auth helps: the client id or its secret is wrong.\n")
	}
}

// writeIndented writes a text whose lines without two spaces before them are headings.
func writeIndented(b *strings.Builder, s terminal.Style, text string) {
	for line := range strings.Lines(text) {
		if heading := strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, "  ") {
			b.WriteString(line)
		} else {
			b.WriteString(s.Dim(heading) + "\n")
		}
	}
}

func testRequestText(r *trial.Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", r.Method, r.URL)
	for _, pair := range r.Headers {
		fmt.Fprintf(&b, "%s: %s\n", pair.Name, pair.Value)
	}
	for _, body := range []string{r.Body, r.Form} {
		if body != "" {
			b.WriteString(body + "\n")
		}
	}
	if len(r.Dropped) > 0 {
		fmt.Fprintf(&b, "(not sent, because they are not overridable: %s)\n", strings.Join(r.Dropped, ", "))
	}
	return b.String()
}

const descriptionUsage = "show what token endpoints say about a refusal (error_description), which is not masked"

// descriptionMasked is the line after an answer whose error_description is masked.
const descriptionMasked = "  error_description is masked: --error-description shows what the endpoint says"

// masksDescription reports whether the body of an answer has an error_description that is not shown beside it.
func masksDescription(e view.Exchange) bool {
	return e.Answer != nil && e.Answer.Description == "" && strings.Contains(e.Answer.Body, "error_description")
}
