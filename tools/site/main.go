// Command site writes the documents of this repository as web pages: one directory for each minor version, and a first page before
// them. A web server needs nothing but these files, and a page runs no script but that of the search.
//
//	go -C tools/site run . VERSION DIR
//
// VERSION is that of a release, such as 0.1 or 0.1.2. Directories of other versions in DIR stay as they are.
package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/mod/semver"
)

// root is the top of the repository.
const root = "../.."

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 || !semver.IsValid("v"+args[0]) {
		return errors.New("usage: site VERSION DIR, with a version such as 0.1")
	}
	s, err := newSite(os.DirFS(root), args[0], args[1])
	if err != nil {
		return err
	}
	return s.write()
}
