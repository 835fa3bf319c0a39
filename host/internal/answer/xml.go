package answer

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
)

// maxXML is the maximum depth of the elements of an XML document that is read.
const maxXML = 32

// readXML returns a document as JSON would have it: the root and each element with elements as an object of these, by local names,
// the first of each; and each other element as its text. The lines of a text are joined without the blanks around them, since AWS
// documents a session token that is broken into lines. A document in another encoding than UTF-8, with a DOCTYPE or a processing
// instruction, or that is nested deeper than maxXML is nil, as is one that is not well-formed: encoding/xml knows no entities but
// the five of XML.
func readXML(body []byte) any {
	decoder := xml.NewDecoder(bytes.NewReader(body))
	open := []*element{{}}
	for {
		token, err := decoder.Token()
		top := open[len(open)-1]
		switch t := token.(type) {
		case xml.StartElement:
			if len(open) > maxXML || len(open) == 1 && top.elements != nil { // a second root
				return nil
			}
			open = append(open, &element{name: t.Name.Local})
		case xml.EndElement:
			open = open[:len(open)-1]
			above := open[len(open)-1]
			if above.elements == nil {
				above.elements = map[string]any{}
			}
			if _, there := above.elements[top.name]; !there {
				above.elements[top.name] = top.value()
			}
		case xml.CharData:
			top.text.Write(t)
		case xml.Directive:
			return nil
		case xml.ProcInst:
			if t.Target != "xml" {
				return nil
			}
		case nil:
			if !errors.Is(err, io.EOF) || top.elements == nil {
				return nil
			}
			return top.elements
		}
	}
}

// element is an XML element that is being read.
type element struct {
	name     string
	elements map[string]any
	text     strings.Builder
}

func (e *element) value() any {
	if e.elements != nil {
		return e.elements
	}
	var text strings.Builder
	for line := range strings.SplitSeq(e.text.String(), "\n") {
		text.WriteString(strings.TrimSpace(line))
	}
	return text.String()
}
