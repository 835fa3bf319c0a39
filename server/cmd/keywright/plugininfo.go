package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/artifact"
	"github.com/keywright/keywright/server/internal/install"
	"github.com/keywright/keywright/server/internal/registry"
	"github.com/keywright/keywright/server/internal/terminal"
)

// published is the document that plugin info --json writes.
type published struct {
	Ref      string `json:"ref"`
	Manifest string `json:"manifest"`
	Module   string `json:"module"`
	// Size is the size of the module, in bytes.
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations"`
	// Signed has the keys that came with signatures which are right.
	Signed      []string         `json:"signed"`
	Description *abi.Description `json:"description"`
}

func (a *app) pluginInfo() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "info REF",
		Short: "Show what the publisher of a plugin in a registry says of it",
		Long: "Shows what the publisher of a plugin in a registry says of it, without getting its module. What the plugin may do " +
			"is found out by `plugin add`, which runs it in the sandbox.",
		Args: arguments("REF"),
		RunE: a.orJSON(&asJSON, func(c *cobra.Command, args []string) error {
			p, err := a.published(c, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return a.writeJSON(p)
			}
			return a.writePublished(p)
		}),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON, for machines")
	c.DisableFlagsInUseLine = true
	return c
}

func (a *app) published(c *cobra.Command, reference string) (*published, error) {
	ref, err := registry.ParseReference(reference)
	if err != nil {
		return nil, fmt.Errorf("%q %w", host.Printable(reference), err)
	}
	client, err := newRegistry()
	if err != nil {
		return nil, err
	}
	found, err := client.Resolve(c.Context(), ref)
	if err != nil {
		return nil, err
	}
	signatures, err := client.Signatures(c.Context(), ref, found)
	if err != nil {
		return nil, err
	}
	text, err := client.Description(c.Context(), ref, found)
	if err != nil {
		return nil, err
	}
	p := &published{
		Ref: ref.String(), Manifest: found.Digest, Module: found.Module.Digest, Size: found.Module.Size, Annotations: map[string]string{}, Signed: []string{},
	}
	for name, value := range found.Annotations {
		p.Annotations[host.Printable(name)] = host.Printable(value)
	}
	for _, s := range signatures {
		if s.Verify(s.Key, found.Text) == nil {
			p.Signed = append(p.Signed, s.Key.String())
		}
	}
	if text != nil {
		p.Description, err = install.DecodeDescription(text)
	}
	return p, err
}

func (a *app) writePublished(p *published) error {
	s, width := terminal.StyleOf(a.out, a.env), terminal.Columns(a.out)
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s%s\n", s.Dim(terminal.Pad(name, 15)), value)
		}
	}
	line("reference", p.Ref)
	line("manifest", p.Manifest)
	line("module", fmt.Sprintf("%s, %s", p.Module, kilobytes(int(p.Size))))
	for _, name := range []string{
		artifact.AnnotationTitle, artifact.AnnotationVersion, artifact.AnnotationDescription, artifact.AnnotationLicenses,
		artifact.AnnotationSource, artifact.AnnotationRevision, artifact.AnnotationDocumentation,
	} {
		line(strings.TrimPrefix(name, "org.opencontainers.image."), p.Annotations[name])
	}
	if p.Description != nil {
		line("homepage", host.Printable(p.Description.Homepage))
	}
	line("signed by", strings.Join(p.Signed, ", "))
	if p.Description != nil && len(p.Description.Fields) > 0 {
		b.WriteByte('\n')
		rows := [][]string{{"FIELD", "KIND", "REQUIRED", "SEALED", "SINKS", "MEANING"}}
		for _, f := range withSinks(p.Description.Fields) {
			rows = append(rows, []string{host.Printable(f.Name), host.Printable(f.Kind), yes(f.Required), yes(f.Sealed || f.Kind == abi.KindKey), host.Printable(strings.Join(f.Sinks, ",")), meaning(f)})
		}
		if err := terminal.Table(&b, s, width, rows); err != nil {
			return err
		}
	}
	_, err := fmt.Fprint(a.out, b.String())
	return err
}
