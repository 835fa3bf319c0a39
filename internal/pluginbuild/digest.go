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

// buildTags are those that choose files when TinyGo builds with targetJSON. They are written out here, so that the
// digest can be taken without TinyGo; a test compares them with what the compiler uses.
var buildTags = []string{
	"tinygo.wasm", "wasm_unknown", "tinygo", "purego", "osusergo", "math_big_pure_go",
	"gc.leaking", "scheduler.none", "serial.none", "tinygo.unicore",
}

// goPackage is the part of the output of `go list -json` that is read.
type goPackage struct {
	ImportPath, Name, Dir string
	Standard              bool

	GoFiles, CgoFiles, CFiles, HFiles, SFiles, EmbedFiles []string
}

// SourceDigest is the SHA-256, in lower-case hexadecimal, of all that the plugin in dir is compiled from but the
// standard library: the sources and embedded files of its package and of all it imports, as they are chosen for the
// guest. It needs the go command and no TinyGo. Where the checkout or the module cache lies does not enter into it.
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

// listPackages returns the packages that the plugin is built of, the plugin itself last.
func listPackages(ctx context.Context, dir string) ([]goPackage, error) {
	if info, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("plugin directory: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("plugin directory: %s is a file", dir)
	}
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-buildvcs=false", "-tags", strings.Join(buildTags, ","),
		"-json=ImportPath,Name,Dir,Standard,GoFiles,CgoFiles,CFiles,HFiles,SFiles,EmbedFiles", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm", "CGO_ENABLED=1") // what TinyGo says of itself
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
