package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"aead.dev/minisign"
	"github.com/CycloneDX/cyclonedx-go"
)

// writeBills writes a bill of materials for each program: the modules that the go command recorded in it.
func (r *release) writeBills(context.Context) error {
	for _, t := range targets {
		info, err := buildinfo.ReadFile(r.program(t))
		if err != nil {
			return err
		}
		main := component(info.Main.Path, info.Main.Version)
		main.Type = cyclonedx.ComponentTypeApplication
		program, err := os.ReadFile(r.program(t))
		if err != nil {
			return err
		}
		main.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(program))}}
		components := []cyclonedx.Component{component("std", info.GoVersion)}
		refs := []string{components[0].BOMRef}
		for _, m := range info.Deps {
			c := component(m.Path, m.Version)
			components, refs = append(components, c), append(refs, c.BOMRef)
		}
		bom := cyclonedx.NewBOM()
		bom.SpecVersion = cyclonedx.SpecVersion1_6
		bom.Metadata = &cyclonedx.Metadata{Timestamp: r.date.Format("2006-01-02T15:04:05Z"), Component: &main}
		bom.Components, bom.Dependencies = &components, &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
		var text bytes.Buffer
		err = cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6)
		if err := write(r.file("_"+t.String()+".cdx.json"), text.Bytes(), err); err != nil {
			return err
		}
	}
	return nil
}

// component returns a module as a component, by its package URL.
func component(path, version string) cyclonedx.Component {
	url := "pkg:golang/" + path + "@" + version
	return cyclonedx.Component{BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url}
}

// readKey returns the key that signs. If no file is named, it is a new one, and its public key is written into the directory.
func readKey(name, dir string) (minisign.PrivateKey, error) {
	if name != "" {
		return minisign.PrivateKeyFromFile(os.Getenv("KEYWRIGHT_RELEASE_PASSWORD"), name)
	}
	public, key, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		return key, err
	}
	text, err := public.MarshalText()
	return key, write(filepath.Join(dir, "trial.pub"), text, err)
}

// writeSums writes the digests of all files, in the form of sha256sum, and a signature of them. A new key is none of these files.
func (r *release) writeSums(key string) error {
	var sums bytes.Buffer
	err := walkFiles(os.DirFS(r.dir), func(name string, data []byte) {
		if !strings.Contains(name, "/") { // the proxy is for trials
			fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), name)
		}
	})
	if err != nil {
		return err
	}
	signer, err := readKey(key, r.dir)
	if err != nil {
		return err
	}
	signature := minisign.SignWithComments(signer, sums.Bytes(), "Keywright "+r.version, "signature from the key of Keywright's releases")
	return errors.Join(
		os.WriteFile(filepath.Join(r.dir, "SHA256SUMS"), sums.Bytes(), 0o644),
		os.WriteFile(filepath.Join(r.dir, "SHA256SUMS.minisig"), signature, 0o644),
	)
}

// walkFiles calls a function for each file of a tree, in the order of their paths.
func walkFiles(root fs.FS, each func(name string, data []byte)) error {
	return fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, name)
		if err == nil {
			each(name, data)
		}
		return err
	})
}
