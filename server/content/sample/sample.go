// Package sample has the records of a community that does not exist, to try things with: the users of Loomgate, a
// platform that connects other systems. They were written for this project.
package sample

import (
	_ "embed" // for the records
	"io"
	"strings"
)

//go:embed sample.ndjson
var records string

// Name is how problems name the records.
const Name = "sample.ndjson"

// Records returns the records as NDJSON, as the importer reads them: moderators, product updates, and each article with
// its replies behind it.
func Records() io.Reader { return strings.NewReader(records) }
