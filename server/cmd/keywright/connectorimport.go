package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/onboard/catalogue"
	"github.com/keywright/keywright/server/internal/onboard/imports"
)

type importFlags struct {
	imports.Options
	file, curl string
	dev        bool
}

func connectorImportCommand(a *app) *cobra.Command {
	var flags importFlags
	c := command("import", cobra.ArbitraryArgs, func(c *cobra.Command, args []string) error {
		result, err := a.importConnector(c, &flags, args)
		var missing imports.Missing
		switch {
		case errors.As(err, &missing):
			for _, line := range missing {
				a.printErr("%s: missing: %s", c.CommandPath(), line)
			}
			return errReported
		case err != nil:
			return err
		}
		return a.writeImport(c.Context(), &flags, result)
	})
	c.Flags().StringVarP(&flags.file, "config", "c", "", "add the connector to a `FILE` with connectors, in place of writing it to stdout")
	c.Flags().StringVar(&flags.curl, "curl", "", "the `LINE` of curl, or - for stdin")
	c.Flags().StringVar(&flags.Name, "name", "", "the `NAME` of the connector; the title of the document, or the host of the URL, if it is left out")
	c.Flags().StringVar(&flags.URL, "url", "", "the base `URL` of the API, in place of the document's")
	c.Flags().StringVar(&flags.Scheme, "scheme", "", "the `NAME` of the security scheme of the document")
	c.Flags().StringVar(&flags.Flow, "flow", "", "the `FLOW` of an OAuth scheme: clientCredentials, authorizationCode, password or implicit")
	c.Flags().StringVar(&flags.TokenURL, "token-url", "", "the `URL` of the token endpoint of an OAuth scheme")
	c.Flags().StringVar(&flags.Paths, "paths", imports.PathsRead, "the paths for callers of the gateway: those of the document that can be `read`, all with all methods, or none")
	c.Flags().BoolVar(&flags.dev, "dev", false, "allow plain http")
	// A line of curl without quotes around it, or without -- in front, has its words here, so no error shows one.
	c.SetFlagErrorFunc(func(c *cobra.Command, _ error) error {
		return misuse(c, "an option that the command does not have, or that has no value: a command line of curl stands in quotes behind --curl, or behind --")
	})
	return c
}

func (a *app) importConnector(c *cobra.Command, flags *importFlags, args []string) (*imports.Result, error) {
	switch dash := c.ArgsLenAtDash(); {
	case !slices.Contains([]string{imports.PathsRead, imports.PathsAll, imports.PathsNone}, flags.Paths):
		return nil, misuse(c, "--paths is read, all or none")
	case flags.curl != "" && len(args) > 0:
		return nil, misuse(c, "--curl and an argument do not go together: is all of the command line of curl in quotes?")
	case flags.curl == "-":
		text, err := a.document("-", imports.MaxLine)
		if err != nil {
			return nil, err
		}
		return imports.CurlLine(string(text), flags.Options)
	case flags.curl != "":
		return imports.CurlLine(flags.curl, flags.Options)
	case dash == 0 && len(args) > 0:
		return imports.Curl(args, flags.Options)
	case len(args) == 0:
		return nil, misuse(c, "without FILE or --curl")
	case len(args) > 1:
		return nil, misuse(c, "%d arguments are too many: there is one, FILE", len(args))
	}
	text, err := a.document(args[0], imports.MaxBytes)
	if err != nil {
		return nil, err
	}
	return imports.OpenAPI(text, flags.Options)
}

// document reads a file, or stdin, of at most so many bytes. Of a longer one it reads one byte more, which the reader of the text refuses.
func (a *app) document(name string, limit int) ([]byte, error) {
	in := a.in
	switch {
	case name == "-":
		name = "stdin"
	case strings.ContainsAny(name, " \t\n\"'"):
		return nil, errors.New("the argument is no name of a file: a command line of curl comes with --curl")
	case strings.Contains(name, "://"):
		return nil, errors.New("the argument is a URL, and nothing is fetched: download it, and name the file")
	default:
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, errors.Unwrap(err))
		}
		defer file.Close()
		in = file
	}
	text, err := files.ReadAll(in, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return text, nil
}

// writeImport checks a connector as the gateway would, and writes it with all that is left to do.
func (a *app) writeImport(ctx context.Context, flags *importFlags, result *imports.Result) error {
	name, item := cmp.Or(flags.file, "connectors.yaml"), result.Connector.YAML()
	consents := result.Connector.Type == "oauth_authorization_code"
	variables := map[string]string{}
	for _, v := range result.Variables {
		variables[v.Name] = "unknown" // the connector is checked before they are there
	}
	document, permalink, err := a.newDocument(ctx, name, item, consents, host.Config{
		Variables: variables, Egress: host.Egress{AllowHTTP: flags.dev},
	})
	if err != nil {
		return notLoaded(err)
	}
	wrote, err := a.addToFile(ctx, flags.file, permalink, item, document)
	if err != nil {
		return err
	}
	if consents && wrote.isNew {
		result.Secrets = append(result.Secrets, imports.Value{Name: "state-key", What: "32 random bytes in base64: openssl rand -base64 32"})
	} else if consents {
		result.Notes = append(result.Notes, "the grants of users are kept in a store of state: if the file has no member state, add one")
	}
	a.writeNext(name, wrote, permalink, result)
	return nil
}

// notLoaded returns the error for a connector that cannot be loaded, because the document has values that no API can have.
func notLoaded(err error) error {
	var wrong *connectors.Error
	if !errors.As(err, &wrong) {
		return err
	}
	lines := []string{"what it says is no connector:"}
	for _, p := range wrong.Problems {
		lines = append(lines, host.Printable(p.Path+": "+p.Message))
	}
	return errors.New(strings.Join(lines, "\n"))
}

// writeNext writes what was decided and what is left to do to stderr. wrote says what was written to files.
func (a *app) writeNext(name string, wrote placement, permalink string, result *imports.Result) {
	if api := catalogue.At(result.Connector.URL); api != nil {
		a.printErr("note: the catalogue has %s, with what its documentation says: keywright connector new --api %s", api.Title, api.Name)
	}
	for _, note := range result.Notes {
		a.printErr("note: %s", note)
	}
	for _, s := range result.Secrets {
		a.printErr("secret: store %s, %s, as %s, or in a file %s of --secrets-dir", s.Name, s.What, expr.EnvName(s.Name), s.Name)
	}
	variables := ""
	for _, v := range result.Variables {
		a.printErr("variable: pass %s, %s, with --var %s=…", v.Name, v.What, v.Name)
		variables += " --var " + v.Name + "=…"
	}
	if wrote.file != "" {
		a.printErr("%s has the connector %s", wrote.file, permalink)
	}
	if wrote.schema != "" {
		a.printErr("%s", schemaWritten(wrote.schema))
	}
	a.printErr("next: keywright check --secrets -c %s%s", imports.Quote(name), variables)
}
