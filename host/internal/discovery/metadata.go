package discovery

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/keywright/keywright/host/internal/egress"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/urlcheck"
	"github.com/keywright/keywright/internal/wellknown"
)

// IssParameter is the member that says whether a server promises iss in its answers (RFC 9207 section 3): "true" or "false".
const IssParameter = "authorization_response_iss_parameter_supported"

// metadata has the endpoints of a document, and IssParameter.
type metadata struct {
	// endpoints has the URLs, and problems what is wrong with the others that are there, by member.
	endpoints, problems map[string]string
}

// endpoint returns the URL of a member, or a *view.DiscoveryError.
func (m *metadata) endpoint(issuer, member string) (string, error) {
	if endpoint := m.endpoints[member]; endpoint != "" {
		return endpoint, nil
	}
	problem := cmp.Or(m.problems[member], "is missing: the server has no such endpoint, or does not say so: write the URL out")
	return "", &view.DiscoveryError{Issuer: issuer, Problem: member + " " + problem}
}

// read reads the metadata of an issuer: that of RFC 8414, and if there is none that of OpenID Connect.
func (a *Asker) read(ctx context.Context, issuer string) (*metadata, *view.DiscoveryError) {
	first, second := wellknown.Locations(issuer)
	body, status, failure := a.get(ctx, issuer, first)
	if failure == nil && wellknown.Absent(status) {
		firstStatus := status
		if body, status, failure = a.get(ctx, issuer, second); failure == nil && wellknown.Absent(status) {
			return nil, &view.DiscoveryError{Issuer: issuer, Problem: fmt.Sprintf("there is none: %s answered %d, and %s answered %d", first, firstStatus, second, status)}
		}
		first = second
	}
	if failure != nil {
		return nil, failure
	}
	return a.parse(issuer, first, body)
}

// get returns the body of an answer with the status 200, and the status of one for which wellknown.Absent is true.
func (a *Asker) get(ctx context.Context, issuer, location string) (body []byte, status int, failure *view.DiscoveryError) {
	failed := func(problem string, passing bool, err error) ([]byte, int, *view.DiscoveryError) {
		return nil, 0, &view.DiscoveryError{Issuer: issuer, Problem: location + " " + problem, Retryable: passing, Err: err}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, location, nil)
	if err != nil {
		return failed("is not a URL", false, nil)
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", a.UserAgent)
	response, err := answers.Final(a.Client.Do(r))
	if err != nil {
		return failed("cannot be reached", true, egress.ClientFailure(a.Client.Transport, err))
	}
	defer response.Body.Close()
	status = response.StatusCode
	switch {
	case wellknown.Absent(status):
		return nil, status, nil
	case status >= 300 && status < 400:
		return failed(fmt.Sprintf("answered %d, and redirects are not followed: compare the issuer with the one in its metadata", status), false, nil)
	case status != http.StatusOK:
		return failed(fmt.Sprintf("answered %d", status), wellknown.Again(status), nil)
	}
	body, err = answers.Read(response, a.Codings, a.Bytes)
	switch {
	case errors.Is(err, answers.ErrCoding):
		return failed("cannot be read", false, err)
	case err != nil:
		return failed("broke off", true, egress.ClientFailure(a.Client.Transport, err))
	case len(body) > a.Bytes:
		return failed(fmt.Sprintf("has more than %d bytes", a.Bytes), false, nil)
	}
	return body, status, nil
}

// parse checks a document and returns its endpoints (RFC 8414 section 3.3). The errors quote nothing of it.
func (a *Asker) parse(issuer, location string, body []byte) (*metadata, *view.DiscoveryError) {
	failed := func(problem string) (*metadata, *view.DiscoveryError) {
		return nil, &view.DiscoveryError{Issuer: issuer, Problem: location + " " + problem}
	}
	if !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) { // often a page for people
		return failed("is no JSON object")
	}
	var members strictjson.Tree
	if err := strictjson.UnmarshalOpen(body, &members); err != nil {
		return failed(err.Error())
	}
	if problem := wellknown.Mismatch(members["issuer"], issuer); problem != "" {
		return failed(problem)
	}
	found := &metadata{endpoints: map[string]string{}, problems: map[string]string{}}
	for name, value := range members {
		a.add(found, name, "", value)
	}
	found.endpoints[IssParameter] = strconv.FormatBool(members[IssParameter] == true)
	if a.Mutual {
		return found, a.aliases(issuer, location, found, members["mtls_endpoint_aliases"])
	}
	return found, nil
}

// aliases puts the endpoints for clients with a certificate in place of the others. Browsers go to the authorization endpoint,
// and they have no certificate of the client.
func (a *Asker) aliases(issuer, location string, found *metadata, value any) *view.DiscoveryError {
	if value == nil {
		return nil
	}
	members, isObject := value.(map[string]any)
	if !isObject {
		return &view.DiscoveryError{Issuer: issuer, Problem: location + " has mtls_endpoint_aliases that are no object"}
	}
	for name, value := range members {
		if name != "authorization_endpoint" && name != "end_session_endpoint" {
			a.add(found, name, "in mtls_endpoint_aliases ", value)
		}
	}
	return nil
}

// add adds an endpoint to metadata, in place of the one with the same name. Its problem begins with where.
func (a *Asker) add(m *metadata, name, where string, value any) {
	if !strings.HasSuffix(name, "_endpoint") {
		return
	}
	delete(m.endpoints, name)
	rule := urlcheck.Rule{HTTP: a.HTTP, PlainHTTP: "which would send the credential in the open"}
	text, isText := value.(string)
	if !isText {
		m.problems[name] = where + "is not a text"
	} else if _, err := rule.Parse(text); err != nil {
		m.problems[name] = where + err.Error()
	} else {
		m.endpoints[name] = text
	}
}
