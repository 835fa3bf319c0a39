package pluginbuild

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// buildTags are the build tags that TinyGo sets for targetJSON. They are repeated here so that the digest does not need
// TinyGo. A test compares them with the compiler's.
var buildTags = []string{
	"tinygo.wasm", "wasm_unknown", "tinygo", "purego", "osusergo", "math_big_pure_go",
	"gc.leaking", "scheduler.none", "serial.none", "tinygo.unicore",
}

// goPackage is the part of the output of `go list -json` that this package reads.
type goPackage struct {
	ImportPath, Name, Dir string
	Standard              bool

	GoFiles, CgoFiles, CFiles, HFiles, SFiles, EmbedFiles []string
}

// SourceDigest returns the SHA-256, in lower-case hexadecimal, of the sources of the plugin in dir. They are the source and
// embedded files of its package and of all packages that it imports, selected for the guest, without the standard library.
// The digest does not depend on the location of the checkout or the module cache. SourceDigest needs the go command, and
// not TinyGo.
func SourceDigest(ctx context.Context, dir string) (string, error) {
	packages, err := listPackages(ctx, dir)
	if err != nil {
		return "", err
	}
	return digestOf(packages, dir)
}

func digestOf(packages []goPackage, dir string) (string, error) {
	if len(packages) == 0 || packages[len(packages)-1].Name != "main" {
		return "", fmt.Errorf("plugin directory %s: a plugin is package main", dir)
	}
	var lines []string
	for _, p := range packages {
		if p.Standard {
			continue
		}
		for _, file := range slices.Concat(p.GoFiles, p.CgoFiles, p.CFiles, p.HFiles, p.SFiles, p.EmbedFiles) {
			content, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				return "", fmt.Errorf("sources of the plugin in %s: %w", dir, err)
			}
			lines = append(lines, fmt.Sprintf("%s/%s %x\n", p.ImportPath, filepath.ToSlash(file), sha256.Sum256(content)))
		}
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return hex.EncodeToString(sum[:]), nil
}

// listPackages returns the packages that the plugin in dir is built from. The plugin's own package is the last one.
func listPackages(ctx context.Context, dir string) ([]goPackage, error) {
	if err := checkDirectory(dir); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-buildvcs=false", "-tags", strings.Join(buildTags, ","),
		"-json=ImportPath,Name,Dir,Standard,GoFiles,CgoFiles,CFiles,HFiles,SFiles,EmbedFiles", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm", "CGO_ENABLED=1") // the values that TinyGo reports
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, commandError(ctx, "list the sources of the plugin in "+dir, err, stderr.Bytes())
	}
	var packages []goPackage
	decoder := json.NewDecoder(&stdout)
	for {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list the sources of the plugin in %s: %w", dir, err)
		}
		packages = append(packages, p)
	}
}
