package main

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/registry"
	"github.com/keywright/keywright/server/internal/registry/artifact"
	"github.com/keywright/keywright/server/internal/registry/install"
	"github.com/keywright/keywright/server/internal/registry/lock"
	"github.com/keywright/keywright/server/internal/registry/signature"
)

// passwordVariable is the environment variable with the password of a private key.
const passwordVariable = "KEYWRIGHT_SIGN_PASSWORD" //nolint:gosec // a name

// pushFlags holds the flags of plugin push.
type pushFlags struct {
	sign, source, revision, licenses, documentation string
}

func pluginPushCommand(a *app) *cobra.Command {
	var flags pushFlags
	c := &cobra.Command{
		Use:   "push FILE REF [--sign KEY] [--source URL] [--revision COMMIT] [--licenses NAME] [--documentation URL]",
		Short: "Publish a plugin in a registry",
		Long: "Publishes a plugin in a registry, under the tag of REF, with its description, and with a signature if --sign is given. " +
			"FILE is a compiled plugin; it runs in the sandbox first, as for those who add it. A tag that is a version has to be " +
			"that of the plugin. The credentials are those of docker.\n\n" +
			"KEY is a private key of minisign, or PEM of an ECDSA key on P-256, also as cosign writes it. Its password is in " +
			passwordVariable + ".",
		Args: arguments("FILE", "REF"),
		RunE: func(c *cobra.Command, args []string) error {
			ref, err := registry.ParseReference(args[1])
			if err != nil {
				return fmt.Errorf("%q %w", host.Printable(args[1]), err)
			}
			signer, err := a.signer(flags.sign)
			if err != nil {
				return err
			}
			wasm, info, err := inspect(c.Context(), args[0])
			if err != nil {
				return err
			}
			if err := lock.CheckTag(ref.Tag, info.Version); err != nil {
				return err
			}
			bundle, err := flags.build(wasm, info)
			if err != nil {
				return err
			}
			return a.push(c, ref, bundle, info, signer)
		},
	}
	c.Flags().StringVar(&flags.sign, "sign", "", "a `FILE` with the private key that signs")
	c.Flags().StringVar(&flags.source, "source", "", "the `URL` of the sources")
	c.Flags().StringVar(&flags.revision, "revision", "", "the `COMMIT` of the sources")
	c.Flags().StringVar(&flags.licenses, "licenses", "", "the licence, by its `NAME` of SPDX, if the plugin does not say it")
	c.Flags().StringVar(&flags.documentation, "documentation", "", "the `URL` of documentation")
	return c
}

// build returns a plugin as it is pushed.
func (f *pushFlags) build(wasm []byte, info host.PluginInfo) (artifact.Made, error) {
	description, err := install.EncodeDescription(info.Description)
	if err != nil {
		return artifact.Made{}, err
	}
	annotations := map[string]string{}
	for name, value := range map[string]string{
		artifact.AnnotationTitle: info.Type, artifact.AnnotationDescription: info.Summary, artifact.AnnotationVersion: info.Version,
		artifact.AnnotationSource: f.source, artifact.AnnotationRevision: f.revision, artifact.AnnotationLicenses: cmp.Or(f.licenses, info.License),
		artifact.AnnotationDocumentation: f.documentation,
	} {
		if value != "" {
			annotations[name] = value
		}
	}
	return artifact.Make(wasm, description, annotations)
}

// signer reads a private key. For "" it returns nil.
func (a *app) signer(file string) (*signature.Signer, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // there is no signature then
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--sign %s: %w", file, errors.Unwrap(err))
	}
	signer, err := signature.ParsePrivate(text, func() (string, error) {
		if password := a.env(passwordVariable); password != "" {
			return password, nil
		}
		return "", fmt.Errorf("is encrypted: put its password into %s", passwordVariable)
	})
	if err != nil {
		return nil, fmt.Errorf("--sign %s %w", file, err)
	}
	return signer, nil
}

// push pushes a plugin and its signature. The signature comes first, so that nobody gets the plugin without it.
func (a *app) push(c *cobra.Command, ref registry.Reference, bundle artifact.Made, info host.PluginInfo, signer *signature.Signer) error {
	client, err := newRegistry()
	if err != nil {
		return err
	}
	key := signature.Key{}
	if signer != nil {
		s, err := signer.Sign(rand.Reader, bundle.Manifest, ref.Name(), info.Type+" "+info.Version+" "+ref.String())
		if err == nil {
			err = client.PushSignature(c.Context(), ref, artifact.Digest(bundle.Manifest), s)
		}
		if err != nil {
			return err
		}
		key = s.Key
	}
	digest, err := client.Push(c.Context(), ref, bundle)
	if err != nil {
		return err
	}
	a.out.Line("%s@%s, signed by %s", ref.Name(), digest, cmp.Or(key.String(), "nobody"))
	return nil
}
