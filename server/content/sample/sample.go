// Package sample contains the records of a fictitious community to try things with: the users of Loomgate, a platform
// that connects other systems. They were written for this project.
package sample

import (
	_ "embed" // for the records
	"io"
	"strings"
)

//go:embed sample.ndjson
var records string

// Name is the file name of the records in problems.
const Name = "sample.ndjson"

// Records returns NDJSON for package importer: moderators, product updates, and articles, each before its replies.
func Records() io.Reader { return strings.NewReader(records) }
