package pluginbuild

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// buildTags are the build tags that TinyGo sets for targetJSON. The digest does not need TinyGo. A test compares them.
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

// SourceDigest returns the SHA-256, in lower-case hexadecimal, of the sources of the plugin in dir. They are the source and embedded files
// of its package and of all packages that it imports, selected for the guest, without the standard library. The digest does not depend on
// the location of the checkout or the module cache. SourceDigest needs the go command, and not TinyGo.
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

// runGo runs the go command with further variables, and returns what it prints. what begins the error.
func runGo(ctx context.Context, what, dir string, variables []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), variables...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, commandError(ctx, what, err, stderr.Bytes())
	}
	return stdout.Bytes(), nil
}

// listPackages returns the packages that the plugin in dir is built from. The plugin's own package is the last one.
func listPackages(ctx context.Context, dir string) ([]goPackage, error) {
	if err := checkDirectory(dir); err != nil {
		return nil, err
	}
	what := "list the sources of the plugin in " + dir
	variables := []string{"GOOS=linux", "GOARCH=arm", "CGO_ENABLED=1"} // the values that TinyGo reports
	output, err := runGo(ctx, what, dir, variables, "list", "-deps", "-buildvcs=false", "-tags", strings.Join(buildTags, ","),
		"-json=ImportPath,Name,Dir,Standard,GoFiles,CgoFiles,CFiles,HFiles,SFiles,EmbedFiles", ".")
	if err != nil {
		return nil, err
	}
	var packages []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(output)); decoder.More(); {
		var p goPackage
		if err := decoder.Decode(&p); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		packages = append(packages, p)
	}
	return packages, nil
}

// Section is the name of the custom section that holds the digest of a module's sources, as 64 lower-case hexadecimal digits.
const Section = "keywright.sources"

// ErrNoDigest is the error for a module without a section named [Section]: one that this package has not built.
var ErrNoDigest = errors.New("no " + Section + " section, build the plugin with tools/plugin")

var wasmHeader = []byte("\x00asm\x01\x00\x00\x00")

const customSection = 0

// recordDigest appends the section to a module. Custom sections may be anywhere in it.
func recordDigest(wasm []byte, digest string) []byte {
	content := binary.AppendUvarint(nil, uint64(len(Section)))
	content = append(content, Section...)
	content = append(content, digest...)
	wasm = append(wasm, customSection)
	wasm = binary.AppendUvarint(wasm, uint64(len(content)))
	return append(wasm, content...)
}

// RecordedDigest returns the digest in a module, to be compared with [SourceDigest]. The error is [ErrNoDigest] if the module
// is well-formed but has no digest.
func RecordedDigest(wasm []byte) (string, error) {
	rest, ok := bytes.CutPrefix(wasm, wasmHeader)
	if !ok {
		return "", errors.New("not a WebAssembly module of version 1")
	}
	for len(rest) > 0 {
		id := rest[0]
		content, tail, ok := cutSized(rest[1:])
		if !ok {
			return "", fmt.Errorf("section at byte %d is cut off", len(wasm)-len(rest))
		}
		rest = tail
		if id != customSection {
			continue
		}
		name, digest, ok := cutSized(content)
		if !ok || string(name) != Section {
			continue
		}
		if raw, err := hex.DecodeString(string(digest)); err != nil || len(raw) != 32 || hex.EncodeToString(raw) != string(digest) {
			return "", fmt.Errorf("section %s does not hold a SHA-256 digest", Section)
		}
		return string(digest), nil
	}
	return "", ErrNoDigest
}

// cutSized splits b after a field that is preceded by its length, an unsigned LEB128 number.
func cutSized(b []byte) (content, rest []byte, ok bool) {
	size, n := binary.Uvarint(b)
	if n <= 0 || size > math.MaxUint32 || size > uint64(len(b)-n) {
		return nil, nil, false
	}
	return b[n : n+int(size)], b[n+int(size):], true
}
