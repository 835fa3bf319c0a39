package main

import (
	"bytes"
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
	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/internal/urlcheck"
	"github.com/keywright/keywright/server/internal/terminal"
)

// adminFlags has the flags of commands that ask a running gateway.
type adminFlags struct {
	admin, tokenFile, caFile string
	// about stands before the gateway's own words for a refusal.
	about string
}

func (f *adminFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.admin, "admin", "http://127.0.0.1:8081", "the `URL` of the gateway's listener for operators")
	c.Flags().StringVar(&f.tokenFile, "token-file", "", "the `FILE` with the operators' token")
	c.Flags().StringVar(&f.caFile, "ca-file", "", "a `FILE` with the certificates of authorities in PEM, which the gateway's certificate may be of, beside those of the system")
}

// call sends a request with the JSON of a body to an operation of the admin API, and reads its answer into one.
func (a *app) call(c *cobra.Command, f *adminFlags, method string, path []string, query url.Values, body, one any) error {
	const maxAnswer = 16 << 20 // the maximum size of an answer: a MiB of a body as base64, and exchanges
	base, err := url.Parse(f.admin)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.User != nil {
		return misuse(c, "--admin wants a URL such as http://127.0.0.1:8081, not %q", f.admin)
	}
	token := a.env(operatorsToken)
	if f.tokenFile != "" {
		text, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return fmt.Errorf("--token-file: %w", err)
		}
		token = strings.TrimSpace(string(text))
	}
	if base.Scheme == "http" && !urlcheck.Loopback(base.Host) && (token != "" || method == http.MethodPut) {
		return misuse(c, "--admin %s is plain http, and whoever is on the way could read the token: use https", base.Redacted())
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	for i := range path {
		path[i] = url.PathEscape(path[i])
	}
	address := base.JoinPath(append([]string{"api", "v1"}, path...)...)
	address.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(c.Context(), method, address.String(), bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport, err := transportOf(f.caFile)
	if err != nil {
		return err
	}
	response, err := answers.Final(transport.RoundTrip(request)) // which follows no redirect
	if err != nil {
		return unreachable(base, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return fmt.Errorf("the gateway's answer broke off: %w", err)
	case response.StatusCode != http.StatusOK:
		return refusal(f.about, response.StatusCode, answer)
	case json.Unmarshal(answer, one) != nil:
		return fmt.Errorf("what answers at %s is no gateway of this version", base.Redacted())
	}
	return nil
}

// rows is the document of lists of the admin API: the JSON of all items, and some members of each as a table, under their names.
type rows struct {
	Items   []map[string]any `json:"items"`
	Next    string           `json:"next,omitempty"`
	members []string
}

func (r *rows) print(a *app) {
	terminal.List(a.out, "", r.Items, func(item map[string]any) []string {
		row := make([]string, len(r.members))
		for i, member := range r.members {
			if value := item[member]; value != nil {
				row[i] = host.Printable(fmt.Sprint(value))
			}
		}
		return row
	}, r.members...)
}

func connectionsListCommand(a *app) *cobra.Command {
	var flags adminFlags
	var filter [3]string
	c := a.jsonCommand("list", nil, func(c *cobra.Command, _ []string) (document, error) {
		all := &rows{Items: []map[string]any{}, members: []string{"connector", "tenant", "user", "account", "condition", "used"}}
		query := url.Values{"connector": {filter[0]}, "tenant": {filter[1]}, "user": {filter[2]}, "limit": {"100"}}
		for more := true; more; more = all.Next != "" {
			page := rows{}
			query.Set("cursor", all.Next)
			if err := a.call(c, &flags, http.MethodGet, []string{"connections"}, query, nil, &page); err != nil {
				return nil, err
			}
			all.Items, all.Next = append(all.Items, page.Items...), page.Next
		}
		return all, nil
	})
	flags.add(c)
	addFilter(c, &filter)
	return c
}

func addFilter(c *cobra.Command, filter *[3]string) {
	for i, name := range []string{"connector", "tenant", "user"} {
		c.Flags().StringVar(&filter[i], name, "", "those of the "+name+" with this `ID` alone")
	}
}

// endedAll is the document of connections end.
type endedAll struct {
	Number  int  `json:"ended"`
	Failed  int  `json:"failed"`
	Revoked bool `json:"revoked"`
	More    bool `json:"-"`
}

func (e *endedAll) print(a *app) {
	a.out.Printf("%d ended, %d still there\n", e.Number, e.Failed)
	if !e.Revoked {
		a.err.Printf("an authorization server may still accept some of the grants: end them there\n")
	}
}

func connectionsEndCommand(a *app) *cobra.Command {
	var flags adminFlags
	var filter [3]string
	c := a.jsonCommand("end", nil, func(c *cobra.Command, _ []string) (document, error) {
		if filter == ([3]string{}) {
			return nil, misuse(c, "without --connector, --tenant and --user: at least one says whose connections end")
		}
		all := &endedAll{Revoked: true, More: true}
		for all.More {
			var page endedAll
			if err := a.call(c, &flags, http.MethodPost, []string{"connections", "end"}, nil, map[string]string{"connector": filter[0], "tenant": filter[1], "user": filter[2]}, &page); err != nil {
				return nil, err
			}
			all.Number, all.Failed, all.Revoked = all.Number+page.Number, page.Failed, all.Revoked && page.Revoked
			all.More = page.More && page.Number > 0
		}
		return all, reportUnless(all.Failed == 0)
	})
	flags.add(c)
	addFilter(c, &filter)
	return c
}

// secretCommand returns the command that sets a secret of a tenant with PUT, or removes it with DELETE.
func secretCommand(a *app, name, method string) *cobra.Command {
	var flags adminFlags
	c := command(name, arguments("NAME"), func(c *cobra.Command, args []string) error {
		parts := strings.Split(args[0], "/")
		if len(parts) != 3 || parts[0] != "tenants" {
			return misuse(c, "%q is no name of a secret of a tenant, such as tenants/acme/crm", args[0])
		}
		body := map[string]string{}
		if method == http.MethodPut {
			var err error
			if body["value"], err = a.readSecret(); err != nil {
				return err
			}
		}
		return a.call(c, &flags, method, []string{"tenants", parts[1], "secrets", parts[2]}, nil, body, &struct{}{})
	})
	flags.add(c)
	return c
}

// readSecret reads a secret from a terminal, which does not show it, or from stdin.
func (a *app) readSecret() (string, error) {
	const maxSecret = 1 << 20
	if text, ok, err := terminal.ReadHidden(a.in, a.err, "secret: "); ok {
		return text, err
	}
	text, err := files.ReadAll(a.in, maxSecret)
	if err == nil && len(bytes.TrimSpace(text)) == 0 {
		err = errors.New("stdin has no secret: write it there, such as keywright secret set NAME < FILE")
	}
	return strings.TrimSuffix(string(text), "\n"), err
}

func secretListCommand(a *app) *cobra.Command {
	var flags adminFlags
	var tenant string
	c := a.jsonCommand("list", nil, func(c *cobra.Command, _ []string) (document, error) {
		all := &rows{members: []string{"kind", "name", "fingerprint", "author", "changed"}}
		if tenant == "" {
			return nil, misuse(c, "without --tenant")
		}
		return all, a.call(c, &flags, http.MethodGet, []string{"tenants", tenant, "texts"}, nil, nil, all)
	})
	flags.add(c)
	c.Flags().StringVar(&tenant, "tenant", "", "the `ID` of the tenant")
	return c
}
