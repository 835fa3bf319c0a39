package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// part is a part of the mutations of a package. The zero part has all of them.
type part struct{ number, total uint64 }

func (p *part) all() bool { return p.total == 0 }

// String returns the form that Set reads. It is empty for the zero part.
func (p *part) String() string {
	if p.all() {
		return ""
	}
	return fmt.Sprintf("%d/%d", p.number, p.total)
}

// Set reads a part such as 3/10.
func (p *part) Set(text string) error {
	var read part
	if _, err := fmt.Sscanf(text, "%d/%d", &read.number, &read.total); err != nil || read.String() != text || read.number < 1 || read.number > read.total {
		return fmt.Errorf("%q is no part: write 3/10 for the third of ten", text)
	}
	*p = read
	return nil
}

// contains reports whether the mutation is in the part that made these sources of a package.
func (p *part) contains(sources []byte) bool {
	sum := sha256.Sum256(sources)
	return p.all() || binary.BigEndian.Uint64(sum[:])%p.total == p.number-1
}

// inPart reports whether the mutation of the package in dir is in the part of the environment.
func inPart(dir string) (bool, error) {
	var selection part
	if text := os.Getenv(partName); text != "" {
		if err := selection.Set(text); err != nil {
			return false, err
		}
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return false, err
	}
	var sources []byte
	for _, name := range names { // in the order of their names
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return false, err
		}
		sources = append(sources, text...)
	}
	return selection.contains(sources), nil
}
