package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// reachedName is the environment variable with the file to which a run without a mutation writes which test reaches which
// mutations: the numbers of the first and the last one, and the name of the test.
const reachedName = "KEYWRIGHT_MUTANTS_REACHED"

var (
	packageClause = regexp.MustCompile(`(?m)^package (\w+)$`)
	testFunction  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(\w+ \*testing\.[TF]\) \{`)
)

// announceTests returns the source of a test file whose tests say when they begin. The package of the schema is at the path
// imported, and the file is in a package of that name, unless path is empty.
func announceTests(source, imported, name string) string {
	clause := packageClause.FindStringSubmatchIndex(source)
	if clause == nil || !testFunction.MatchString(source) {
		return source
	}
	call := "MutantsTest"
	head := source[:clause[1]]
	if source[clause[2]:clause[3]] != name {
		call = "mutantsSchema." + call
		head += fmt.Sprintf("; import mutantsSchema %q", imported)
	}
	return head + testFunction.ReplaceAllString(source[clause[1]:], `${0} `+call+`("${1}");`)
}

// sortReached writes a file for each mutation of the schema, with the tests that reach it. Each line has a package and a test.
func (t *trial) sortReached() error {
	tests := map[int]*strings.Builder{}
	for _, name := range t.packages {
		text, err := os.ReadFile(t.reachedBy(name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			var first, last int
			var test string
			if _, err := fmt.Sscan(line, &first, &last, &test); err != nil {
				return fmt.Errorf("%s: %w", t.reachedBy(name), err)
			}
			for ; first <= last; first++ {
				if tests[first] == nil {
					tests[first] = &strings.Builder{}
				}
				_, _ = fmt.Fprintln(tests[first], name, test)
			}
		}
	}
	for number, lines := range tests {
		if err := os.WriteFile(filepath.Join(t.state, "reached-"+strconv.Itoa(number)), []byte(lines.String()), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// reachedBy returns the file that the tests of a package write.
func (t *trial) reachedBy(name string) string { return t.binary(name) + ".reached" }
