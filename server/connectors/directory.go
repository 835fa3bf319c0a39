package connectors

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/internal/problem"
)

const maxFiles = 1000

// A part is a file of a directory of connectors. A file and its parts are one text, so that a line says which file it is in.
type part struct {
	name, text string
	// offset is the number of lines before the first one of this part.
	offset int
}

// yamlOf returns a text, or "" if it is JSON, whose marks do not count.
func yamlOf(text string) string {
	if json.Valid([]byte(text)) {
		return ""
	}
	return text + "\n"
}

// directory adds the connectors of the files in the directory of the member connectors_dir.
func (d *definer) directory(ctx context.Context, root *node) {
	m := root.get("connectors_dir")
	if m == nil || d.file.ConnectorsDir == "" {
		return
	}
	where, name := m.value.Place, d.file.ConnectorsDir
	d.set.Files = append(d.set.Files, name)
	parts, err := d.readParts(name)
	if err != nil {
		d.report(where, "connectors_dir", "%v", err)
		return
	}
	text := d.source.text + "\n"
	yaml := yamlOf(d.source.text)
	for i := range parts {
		parts[i].offset = strings.Count(text, "\n")
		text += parts[i].text + "\n"
		yaml += yamlOf(parts[i].text)
	}
	if marks(yaml) > 0 {
		d.report(where, "connectors_dir", "has files that make more than %d marks (brackets, commas, colons, quotes and such), all together: use several gateways", maxMarks)
		return
	}
	d.source.text, d.parts = text, parts
	values, bytes := root.size, root.bytes
	for _, p := range parts {
		n := d.part(ctx, p)
		if n == nil {
			continue
		}
		if values, bytes = values+n.size, bytes+n.bytes; values > maxValues || bytes > 2*maxFile {
			d.report(where, "connectors_dir", "has files with more than %d values, or whose aliases repeat more than %d MiB, all together: use several gateways", maxValues, maxFile>>20)
			return
		}
		d.ofPart(n)
	}
	if len(d.file.Connectors) == 0 && len(d.all) == 0 {
		d.report(where, "connectors_dir", "has no connectors: it needs a file NAME.yaml with one at least")
	}
}

// readParts reads the files of a directory whose names end in .yaml, in the order of their names.
func (d *definer) readParts(dir string) (parts []part, err error) {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, errors.New("cannot be read: " + cause(err))
	}
	size := len(d.source.text)
	for _, entry := range entries {
		switch name := entry.Name(); {
		case strings.HasPrefix(name, "."): // Kubernetes keeps the files in such a directory, with links to them
			continue
		case slices.Contains([]string{".yml", ".json"}, filepath.Ext(name)):
			return nil, fmt.Errorf("has the file %s, which is not read: call it %s.yaml", name, strings.TrimSuffix(name, filepath.Ext(name)))
		case filepath.Ext(name) != ".yaml":
			continue
		case len(parts) == maxFiles:
			return nil, fmt.Errorf("has more than %d files", maxFiles)
		}
		name := filepath.Join(dir, entry.Name())
		text, err := files.ReadRegular(name, maxFile)
		if err != nil {
			return nil, fmt.Errorf("has the file %s, which cannot be read: %s", entry.Name(), cause(err))
		}
		if size += len(text); size > maxFile {
			return nil, fmt.Errorf("has files that have, with this one, more than %d MiB", maxFile>>20)
		}
		d.set.Files = append(d.set.Files, name)
		parts = append(parts, part{name: name, text: strings.TrimPrefix(string(text), "\ufeff")})
	}
	return parts, nil
}

// part parses a part. The places of its values and problems are those in the whole text.
func (d *definer) part(ctx context.Context, p part) *node {
	var own problems
	n := parse(ctx, p.text, &own)
	for _, found := range own.all {
		if !d.skip() {
			found.Line = max(found.Line, 1) + p.offset
			d.all = append(d.all, found)
		}
	}
	d.more += own.more
	if n != nil {
		n.shift(p.offset, map[*node]bool{})
	}
	return n
}

// shift adds lines to the places of a value and of all in it. Aliases share nodes, so done has those that were shifted.
func (n *node) shift(lines int, done map[*node]bool) {
	if done[n] {
		return
	}
	done[n] = true
	n.Line += lines
	for i := range n.members {
		n.members[i].key.Line += lines
		n.members[i].value.shift(lines, done)
	}
	for _, item := range n.items {
		item.shift(lines, done)
	}
}

// ofPart adds the connectors of a part to those of the file.
func (d *definer) ofPart(n *node) {
	if !d.is(n, object, "", "") {
		return
	}
	for _, m := range n.members {
		if m.name != "connectors" {
			d.report(m.key, m.name, "may not stand here: a file of connectors_dir has the member connectors alone")
		}
	}
	m := n.get("connectors")
	if m == nil {
		d.report(n.Place, "", "has no connectors: it needs a list of them, the member connectors")
		return
	}
	d.file.Connectors = append(d.file.Connectors, d.items(m.value, "connectors", "connectors")...)
}

// placeText returns where a place is, in words: the line, with the file if that is another than the one of from.
func (d *definer) placeText(place, from problem.Place) string {
	name, line := locatePart(d.parts, place.Line)
	if fromName, _ := locatePart(d.parts, from.Line); fromName == name {
		return fmt.Sprintf("line %d", line)
	}
	return fmt.Sprintf("line %d of %s", line, cmp.Or(name, "the file that names this directory"))
}

// locatePart returns the name of the part that has a line of the whole text, and the line in it. The name is "" for the file itself.
func locatePart(parts []part, line int) (name string, own int) {
	own = line
	for _, p := range parts {
		if line <= p.offset {
			break
		}
		name, own = p.name, line-p.offset
	}
	return name, own
}
