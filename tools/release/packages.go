package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

const maintainer = "Keywright maintainers <keywright@users.noreply.github.com>"

// overrides says what lintian is to leave out, and why.
const overrides = `# Programs in Go have all they need, so that they run on each distribution.
keywright: statically-linked-binary [usr/bin/keywright]
# Secrets are for root alone.
keywright: non-standard-dir-perm 0700 != 0755 [etc/keywright/secrets/]
# The package is not one of Debian.
keywright: initial-upload-closes-no-bugs [usr/share/doc/keywright/changelog.Debian.gz:1]
`

// copyright is the file about the licence in a deb. NOTICE has the works of others.
const copyright = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: Keywright
Source: https://github.com/keywright/keywright

Files: *
Copyright: 2026 The Keywright authors
License: Apache-2.0
 The license is in /usr/share/common-licenses/Apache-2.0. The file NOTICE beside
 this one names the works of others.
`

// writePackages writes a deb and an rpm for each architecture of Linux. Neither starts a service: a gateway without connectors is of no use.
// The files in /etc/keywright are the operator's, and stay after removal.
func (r *release) writePackages(ctx context.Context) error {
	for _, t := range targets {
		if t.os != "linux" || t.fips {
			continue
		}
		all, err := r.files(ctx, t)
		if err != nil {
			return err
		}
		for format, packager := range map[string]nfpm.Packager{"deb": deb.Default, "rpm": rpm.DefaultRPM} {
			stage := filepath.Join(r.work, format, t.arch)
			contents, err := r.stage(stage, format, all)
			if err != nil {
				return err
			}
			info := r.info(t, contents)
			if info.Changelog, err = r.changelog(stage); err != nil {
				return err
			}
			var data bytes.Buffer
			err = packager.Package(info, &data)
			if err := write(filepath.Join(r.dir, packager.ConventionalFileName(info)), data.Bytes(), err); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *release) info(t target, contents files.Contents) *nfpm.Info {
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "keywright", Arch: t.arch, Platform: "linux", Version: r.version, Release: "1", Section: "net", Priority: "optional",
		Maintainer: maintainer, Vendor: "Keywright", Homepage: "https://keywright.github.io/keywright", License: "Apache-2.0", MTime: r.date,
		Description: "Gateway that authenticates requests to external APIs\n" +
			"Keywright adds credentials to the requests of other programs. Each auth type is\n" +
			"a plugin in a sandbox, which never sees a secret.",
		DisableGlobbing: true,
	})
	info.Contents = contents
	info.RPM.BuildHost, info.RPM.Summary = "localhost", strings.SplitN(info.Description, "\n", 2)[0]
	info.Recommends = []string{"ca-certificates"}
	return info
}

// changelog writes the file that both formats make their changelog of.
func (r *release) changelog(dir string) (string, error) {
	name := filepath.Join(dir, "changelog.yaml")
	text := fmt.Sprintf("- semver: %s-1\n  date: %s\n  packager: %s\n  deb: {urgency: medium, distributions: [stable]}\n"+
		"  changes: [{note: The changes are listed in CHANGELOG.md of the sources.}]\n", r.version[1:], r.date.Format(time.RFC3339), maintainer)
	return name, os.WriteFile(name, []byte(text), 0o600)
}

// stage writes the files of a package into a directory, and returns what the package has.
func (r *release) stage(dir, format string, all []file) (files.Contents, error) {
	var contents files.Contents
	add := func(to string, mode fs.FileMode, data []byte) error {
		from := filepath.Join(dir, filepath.FromSlash(to))
		contents = append(contents, &files.Content{
			Source: from, Destination: to, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.date},
		})
		if err := os.MkdirAll(filepath.Dir(from), 0o700); err != nil {
			return err
		}
		return os.WriteFile(from, data, 0o600)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	for _, f := range all {
		to := place(format, f.name)
		if to == "" {
			continue
		}
		switch path.Ext(f.name) {
		case ".1":
			compressed, err := compress(f.data)
			if err != nil {
				return nil, err
			}
			to, f.data = to+".gz", compressed
		case ".service":
			f.data = unit(f.data)
		}
		if err := add(to, f.mode, f.data); err != nil {
			return nil, err
		}
	}
	contents = append(contents, &files.Content{
		Destination: "/etc/keywright/secrets", Type: files.TypeDir,
		FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: 0o700, MTime: r.date},
	})
	if format == "deb" {
		err := errors.Join(add("/usr/share/lintian/overrides/keywright", 0o644, []byte(overrides)), add("/usr/share/doc/keywright/copyright", 0o644, []byte(copyright)))
		return contents, err
	}
	return contents, nil
}

// place returns the path on a system of a file of an archive, or "" if a package does not have it.
func place(format, name string) string {
	functions := map[string]string{"deb": "/usr/share/zsh/vendor-completions", "rpm": "/usr/share/zsh/site-functions"}
	switch dir, base := path.Split(name); {
	case name == "keywright":
		return "/usr/bin/keywright"
	case dir == "man/":
		return "/usr/share/man/man1/" + base
	case path.Ext(base) == ".service":
		return "/usr/lib/systemd/system/" + base
	case path.Ext(base) == ".yaml":
		return "/usr/share/doc/keywright/examples/" + base
	case base == "keywright.bash":
		return "/usr/share/bash-completion/completions/keywright"
	case base == "_keywright":
		return functions[format] + "/_keywright"
	case base == "keywright.fish":
		return "/usr/share/fish/vendor_completions.d/keywright.fish"
	case name == "LICENSE" && format == "rpm":
		return "/usr/share/licenses/keywright/LICENSE"
	case name == "NOTICE":
		return "/usr/share/doc/keywright/NOTICE"
	}
	return ""
}

// unit returns a unit for a package: the program is in /usr/bin, and no secret is named that is not there.
func unit(text []byte) []byte {
	return []byte(strings.NewReplacer("/usr/local/bin/", "/usr/bin/", "\nLoadCredential=", "\n#LoadCredential=").Replace(string(text)))
}
