package answer

import (
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/contract"
)

// The text of an element is found by local names, the first of each (threats.md 410: a document that costs memory, or says
// something else to another reader, has no value).
func TestValuesInXML(t *testing.T) {
	const longest = 100
	nested := func(depth int) string {
		return strings.Repeat("<a>", depth) + "x" + strings.Repeat("</a>", depth)
	}
	for name, c := range map[string]struct{ place, body, want string }{
		"an element":               {"/r/a", `<?xml version="1.0" encoding="UTF-8"?><!-- a --><r><b>no</b><a>yes</a></r>`, "yes"},
		"the root":                 {"/r", "<r>yes</r>", "yes"},
		"a namespace":              {"/r/a", `<x:r xmlns:x="urn:x"><x:a>yes</x:a></x:r>`, "yes"},
		"a prefix without a name":  {"/r/a", `<x:r><x:a>yes</x:a></x:r>`, "yes"},
		"the first of several":     {"/r/a/b", "<r><a><b>yes</b></a><a><b>no</b></a></r>", "yes"},
		"not in a later one":       {"/r/a/b", "<r><a><c>x</c></a><a><b>no</b></a></r>", ""},
		"CDATA, a comment":         {"/r/a", "<r><a><![CDATA[y]]><!-- x -->es</a></r>", "yes"},
		"characters by number":     {"/r/a", "<r><a>&#121;es&amp;&lt;</a></r>", "yes&<"},
		"blanks around it":         {"/r/a", "<r><a> \n\t yes \r\n</a></r>", "yes"},
		"broken into lines":        {"/r/a", "<r><a>\n  first\n  second\n</a></r>", "firstsecond"},
		"blanks within":            {"/r/a", "<r><a>one two</a></r>", "one two"},
		"an element with elements": {"/r/a", "<r><a>text<b/></a></r>", ""},
		"a text of another name":   {"/r/A", "<r><a>no</a></r>", ""},
		"an attribute":             {"/r/a", `<r a="no"/>`, ""},
		"as deep as allowed":       {strings.Repeat("/a", maxXML), nested(maxXML), "x"},
		"one deeper":               {strings.Repeat("/a", maxXML+1), nested(maxXML + 1), ""},
		"deeper elsewhere":         {"/r/a", "<r><a>no</a>" + nested(maxXML) + "</r>", ""},
		"many levels":              {"/a", nested(20000), ""},
		"many elements":            {"/r/a", "<r>" + strings.Repeat("<b/>", 15000) + "<a>yes</a></r>", "yes"},
		"laughs":                   {"/r/a", `<!DOCTYPE r [<!ENTITY l "ha"><!ENTITY m "&l;&l;">]><r><a>&m;</a></r>`, ""},
		"an outer entity":          {"/r/a", `<!DOCTYPE r [<!ENTITY l SYSTEM "file:///etc/passwd">]><r><a>&l;</a></r>`, ""},
		"a DOCTYPE":                {"/r/a", "<!DOCTYPE r><r><a>no</a></r>", ""},
		"an entity of HTML":        {"/r/a", "<r><a>no&nbsp;</a></r>", ""},
		"an instruction":           {"/r/a", `<?xml-stylesheet href="a"?><r><a>no</a></r>`, ""},
		"another encoding":         {"/r/a", `<?xml version="1.0" encoding="ISO-8859-1"?><r><a>no</a></r>`, ""},
		"UTF-16":                   {"/r/a", "<\x00r\x00>\x00", ""},
		"bytes of no encoding":     {"/r/a", "<r><a>no\xff</a></r>", ""},
		"a control character":      {"/r/a", "<r><a>no&#1;</a></r>", ""},
		"an end that is another's": {"/r/a", "<r><a>no</r></a>", ""},
		"no end":                   {"/r/a", "<r><a>no</a>", ""},
		"two roots":                {"/r/a", "<r><a>no</a></r><r><a>no</a></r>", ""},
		"JSON":                     {"/r/a", `{"r":{"a":"no"}}`, ""},
		"nothing":                  {"/r/a", "", ""},
	} {
		got := (&Reply{Body: []byte(c.body), List: partsAt(t, contract.AnswerSealed, "xml:"+c.place)}).Find(nil, longest)
		if got["a"] != c.want {
			t.Errorf("%s: got = %q", name, got)
		}
	}
}

// An answer has its alternative if its first place has nothing. A place is sealed or not, also as an alternative.
func TestAlternativePlaces(t *testing.T) {
	list := partsAt(t, contract.AnswerSealed, "json:/r/a")
	list[0].Alternative = partsAt(t, contract.AnswerSealed, "xml:/r/a")[0].Source
	for body, want := range map[string]string{`{"r":{"a":"one"}}`: "one", "<r><a>two</a></r>": "two", `{"r":{}}`: ""} {
		if got := (&Reply{Body: []byte(body), List: list}).Find(nil, 10)["a"]; got != want {
			t.Errorf("%s: got = %q", body, got)
		}
	}
	plain := partsAt(t, contract.AnswerTime, "xml:/r/a")[0]
	if err := CheckSources(append(list, plain)); err == nil {
		t.Error("an alternative is sealed here and plain there")
	}
}
